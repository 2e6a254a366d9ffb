//! One test event to one subscriber, through its limits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::json_forms;
use crate::engine::{DeliveryId, LaneId};
use crate::event::{EventType, Kind, Offer, Pattern, PublicId};
use crate::fanout::{fan_out, left_out};
use crate::roster::Ready;
use crate::runtime::clock::{random, wall};
use crate::runtime::{Failed, Sender};
use crate::store::command::{Command, Emit, Target};
use crate::store::lane::LaneState;
use crate::store::read::{Attempted, Delivery, Place};
use crate::store::reply::{Emitted, Placed};
use crate::store::{Refusal, Reply, StoreError};

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Retries of the match when subscribers changed meanwhile.
const MATCHES_MAX: u32 = 5;

pub(crate) const DATA: &str = "{\"test\":true}";

pub(crate) struct Trial<'a> {
    pub(crate) lane: LaneId,
    /// The event's type. Default: one that the subscriber's patterns match.
    pub(crate) event_type: Option<&'a EventType>,
    pub(crate) data: &'a str,
}

#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) attempted: Option<Attempted>,
    pub(crate) delivery: Delivery,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    #[error(transparent)]
    Offer(#[from] crate::event::Refusal),
    #[error("{0}")]
    Subscriber(String),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Failed(#[from] Failed),
}

impl From<StoreError> for TrialError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl Trial<'_> {
    /// It is sent in its turn.
    pub(crate) async fn record(&self, sender: &Sender, by: &Arc<str>) -> Result<DeliveryId, TrialError> {
        let limits = *sender.limits();
        let id = PublicId::new(Kind::Event, wall(), random());
        for _ in 0..MATCHES_MAX {
            let roster = sender.roster();
            let gone = || TrialError::Subscriber("the subscriber was removed".to_owned());
            let known = roster.get(self.lane).ok_or_else(gone)?;
            let name = known.name();
            if known.state() == LaneState::Disabled {
                let why = known.pause().why_disabled();
                return Err(TrialError::Subscriber(format!(
                    "{name} is disabled: {why}; `subscriber resume {name}` once the endpoint takes events again, and \
                     test it then"
                )));
            }
            let ready = known
                .ready()
                .map_err(|fault| TrialError::Subscriber(format!("{name} cannot be delivered to: {fault}")))?;
            let kind = self.event_type.map_or_else(|| wanted(ready), |kind| kind.as_str().to_owned());
            let data = self.data.as_bytes();
            let offer = match (kind.parse::<EventType>(), self.data) {
                // Such data tells no receiver of an event that the sender did not emit.
                (Ok(event_type), DATA) if event_type.is_reserved() => {
                    Offer { event_type, ..Offer::from_parts(None, "test", None, data, &limits)? }
                }
                _ => Offer::from_parts(None, &kind, None, data, &limits)?,
            };
            let emit = fan_out(&roster, &offer, &id, sender.clock().now(), wall());
            if left_out(&roster, &offer, &emit).contains(&self.lane) {
                let problem = format!("the data is too long after shaping for {name}; expected shorter data");
                return Err(TrialError::Subscriber(problem));
            }
            let emit = only_for(self.lane, emit).ok_or_else(|| {
                TrialError::Subscriber(format!(
                    "{name} does not want {kind}, or is not active; expected a type that matches its events; \
                     try `resume`"
                ))
            })?;
            match sender.command(Command::Emit(emit).by(by, None)).await? {
                Reply::Emitted(Emitted { targets, .. }) => return placed(&targets),
                Reply::Refused(Refusal::StaleRoster { known, .. }) => {
                    sender.wait_for_roster_after(known).await;
                }
                Reply::Refused(refusal) => return Err(refusal.into()),
                other => return Err(TrialError::Subscriber(format!("the database answered {other:?}"))),
            }
        }
        let problem = "subscribers keep changing; try again";
        Err(TrialError::Subscriber(problem.to_owned()))
    }
}

impl Tried {
    /// The delivery after its first attempt, or after `longest`.
    pub(crate) async fn within(
        longest: Duration,
        sender: &Sender,
        delivery: DeliveryId,
    ) -> Result<Self, TrialError> {
        match timeout(longest, first_attempt(sender, delivery)).await {
            Ok(tried) => tried,
            Err(_) => now(sender, delivery).await,
        }
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.delivery.place == Place::Delivered
    }

    /// `id` is the delivery's public id.
    pub(crate) fn to_json(&self, id: &PublicId) -> Value {
        let attempt = self.attempted.as_ref().map(|attempted| &attempted.attempt);
        json!({
            "id": id.as_str(),
            "place": json_forms::place(self.delivery.place),
            "status": attempt.and_then(|attempt| attempt.status),
            "error": attempt.and_then(|attempt| attempt.error.as_deref()),
            "latency_us": attempt.map(|attempt| attempt.latency.0 / 1_000),
        })
    }
}

/// Keeps the target of one lane, and does not coalesce it.
fn only_for(lane: LaneId, emit: Emit) -> Option<Emit> {
    let target = emit.targets.into_iter().find(|target| target.lane == lane)?;
    let body = emit.bodies.into_iter().nth(target.body)?;
    let targets = vec![Target { body: 0, coalesce: None, ..target }];
    Some(Emit { targets, bodies: vec![body], withheld: false, ..emit })
}

fn wanted(ready: &Ready) -> String {
    match ready.patterns().as_slice().first() {
        None | Some(Pattern::All) => "test".to_owned(),
        Some(Pattern::Exactly(kind)) => kind.as_str().to_owned(),
        Some(Pattern::Below(prefix)) => format!("{prefix}test"),
    }
}

fn placed(targets: &[Placed]) -> Result<DeliveryId, TrialError> {
    let problem = match targets.first() {
        Some(Placed::Waiting { delivery, .. }) => return Ok(*delivery),
        Some(Placed::Overflowed { .. } | Placed::Refused(_)) => {
            "the subscriber's queue is full; expected room for one delivery"
        }
        Some(Placed::Duplicate | Placed::Absent) | None => "the subscriber is not active; try `resume`",
    };
    Err(TrialError::Subscriber(problem.to_owned()))
}

async fn first_attempt(sender: &Sender, delivery: DeliveryId) -> Result<Tried, TrialError> {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let tried = now(sender, delivery).await?;
        if tried.attempted.is_some() {
            return Ok(tried);
        }
    }
}

async fn now(sender: &Sender, delivery: DeliveryId) -> Result<Tried, TrialError> {
    let found = sender.read(move |reader| {
        let attempted = reader.attempts_of(delivery)?.into_iter().next();
        Ok::<_, StoreError>(reader.delivery(delivery)?.map(|delivery| Tried { attempted, delivery }))
    });
    let gone = "the delivery was deleted, with its subscriber or since it expired";
    found.await??.ok_or_else(|| TrialError::Subscriber(gone.to_owned()))
}
