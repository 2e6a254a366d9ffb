//! `subscriber test`: one test event to one subscriber, through its limits and in its turn, as any other.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::desk::{Desk, with_desk};
use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::words::{place, rough};
use crate::engine::{DeliveryId, LaneId, Nanos};
use crate::event::{EventType, Kind, Offer, Pattern, PublicId};
use crate::fanout::fan_out;
use crate::roster::Ready;
use crate::runtime::Sender;
use crate::runtime::clock::{random, wall};
use crate::store::command::{Command, Emit, Target};
use crate::store::read::{Attempted, Place};
use crate::store::reply::{Emitted, Placed};
use crate::store::{Refusal, Reply};

/// How often to look whether an attempt was made.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// How often the event is matched anew because subscribers changed in between.
const MATCHES_MAX: u32 = 5;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender subscriber test --db sender.db shop
  hookproof-sender subscriber test --db sender.db shop --type order.paid --data '{\"order\":0}' --wait 30s

A `serve` or `drain` on this database makes the attempt. The exit code is 0 if the endpoint took the event.")]
pub(super) struct Test {
    /// Its name or id
    name: String,
    /// The event's type; one that the subscriber wants, if left out
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<EventType>,
    /// The event's data
    #[arg(long, value_name = "JSON", default_value = "{\"test\":true}")]
    data: String,
    /// How long to wait for the first attempt
    #[arg(long, value_name = "TIME", default_value = "10s")]
    wait: Nanos,
    #[command(flatten)]
    reach: Reach,
}

impl Test {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        let lane = super::desk::Look::open(database)?.subscriber(&self.name)?.lane;
        let options = operating(database, &self.reach, None)?;
        with_desk(options, |desk| {
            let delivery = self.record(desk, lane)?;
            let within = Duration::from_nanos(self.wait.0);
            let seen = desk.wait(timeout(within, first_attempt(desk.sender(), delivery)));
            match seen.ok().transpose()? {
                Some((attempted, at)) => tell(delivery, &attempted, at, printer),
                None => Err(Failure::refused(format_args!(
                    "no attempt within {}; expected a `serve` on this database, a subscriber that is not paused, and \
                     room in its limits; delivery {} goes on waiting",
                    self.wait, delivery.0
                ))),
            }
        })
    }

    /// Records the event for this one subscriber.
    fn record(&self, desk: &Desk, lane: LaneId) -> Result<DeliveryId, Failure> {
        let limits = *desk.sender().limits();
        let id = PublicId::new(Kind::Event, wall(), random());
        for _ in 0..MATCHES_MAX {
            let roster = desk.sender().roster();
            let subscriber = roster.get(lane).ok_or_else(|| Failure::refused("the subscriber was removed"))?;
            let ready = subscriber.ready().map_err(|fault| {
                Failure::refused(format_args!("{} can't be sent to: {fault}", subscriber.name()))
            })?;
            let kind = self.event_type.as_ref().map_or_else(|| wanted(ready), |kind| kind.as_str().to_owned());
            let offer = Offer::from_parts(None, &kind, None, self.data.as_bytes(), &limits);
            let offer = offer.map_err(Failure::usage)?;
            let emit = fan_out(&roster, &offer, &id, desk.sender().clock().now());
            let Some(emit) = only_for(lane, emit) else {
                return Err(Failure::refused(format_args!(
                    "{} does not want {kind}; expected a type that its events match",
                    subscriber.name()
                )));
            };
            match desk.wait(desk.sender().command(Command::Emit(emit)))? {
                Reply::Emitted(Emitted { targets, .. }) => return placed(&targets),
                Reply::Refused(Refusal::StaleRoster { known, .. }) => {
                    desk.wait(desk.sender().wait_for_roster_after(known));
                }
                Reply::Refused(refusal) => return Err(refusal.into()),
                other => return Err(Failure::ours(format_args!("the store answered {other:?}"))),
            }
        }
        Err(Failure::refused("subscribers keep changing; expected a moment without; try again"))
    }
}

/// The same event for one subscriber alone, whatever else would take its place.
fn only_for(lane: LaneId, emit: Emit) -> Option<Emit> {
    let target = emit.targets.into_iter().find(|target| target.lane == lane)?;
    let body = emit.bodies.into_iter().nth(target.body)?;
    Some(Emit { targets: vec![Target { body: 0, coalesce: None, ..target }], bodies: vec![body], ..emit })
}

/// A type that the subscriber wants.
fn wanted(ready: &Ready) -> String {
    match ready.patterns().as_slice().first() {
        None | Some(Pattern::All) => "hookproof.test".to_owned(),
        Some(Pattern::Exactly(kind)) => kind.as_str().to_owned(),
        Some(Pattern::Below(prefix)) => format!("{prefix}test"),
    }
}

fn placed(targets: &[Placed]) -> Result<DeliveryId, Failure> {
    match targets.first() {
        Some(Placed::Waiting { delivery, .. }) => Ok(*delivery),
        Some(Placed::Overflowed { .. }) => {
            Err(Failure::refused("the subscriber's queue is full; expected room for one more"))
        }
        Some(Placed::Duplicate | Placed::Absent) | None => {
            Err(Failure::refused("the subscriber takes nothing now; expected an active one; try `subscriber resume`"))
        }
    }
}

/// Waits for the first attempt, and where the delivery is after it.
async fn first_attempt(sender: &Sender, delivery: DeliveryId) -> Result<(Attempted, Place), Failure> {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let found = sender.read(move |reader| {
            let attempt = reader.attempts_of(delivery)?.into_iter().next();
            Ok::<_, Failure>(attempt.zip(reader.delivery(delivery)?))
        });
        if let Some((attempt, delivery)) = found.await?? {
            return Ok((attempt, delivery.place));
        }
    }
}

fn tell(
    delivery: DeliveryId,
    attempted: &Attempted,
    at: Place,
    printer: &mut Printer,
) -> Result<ExitCode, Failure> {
    let attempt = &attempted.attempt;
    let latency = rough(attempt.latency);
    if printer.json {
        printer.object(&json!({
            "delivery": delivery.0, "place": place(at), "status": attempt.status,
            "error": attempt.error.as_deref(), "latency_ms": attempt.latency.0 / 1_000_000,
        }))?;
    } else {
        let answer = match (attempt.status, &attempt.error) {
            (Some(status), _) => format!("answered {status}"),
            (None, Some(error)) => format!("failed: {error}"),
            (None, None) => "failed".to_owned(),
        };
        printer.line(format_args!("{}: {answer} after {latency} (delivery {})", place(at), delivery.0))?;
    }
    Ok(if at == Place::Delivered { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
