use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::{Printer, place, rough};
use super::session::{Look, user, with_session};
use crate::engine::{LaneId, Nanos};
use crate::event::{EventType, PublicId};
use crate::operate::deliveries::ending;
use crate::operate::flow::State;
use crate::operate::trial::{self, Trial, TrialError, Tried};
use crate::store::read::Attempted;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber test --db sender.db shop
  hookproof sender subscriber test --db sender.db shop --type order.paid --data '{\"order\":0}' --wait 30s

A `serve` or `drain` on this database makes the attempt. The exit code is 0 if the endpoint took the event.")]
pub(super) struct Test {
    /// Its name or id
    name: String,
    /// The event's type; one that the subscriber wants, if left out
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<EventType>,
    /// The event's data
    #[arg(long, value_name = "JSON", default_value = trial::DATA)]
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
        let look = Look::open(&database)?;
        let lane = look.subscriber(&self.name)?.lane;
        let options = operating(database.clone(), &self.reach, None)?;
        let trial = Trial { lane, event_type: self.event_type.as_ref(), data: &self.data };
        let tried = with_session(options, |session| {
            let delivery = session.wait(trial.record(session.sender(), &user()))?;
            if stderr().is_terminal() {
                eprintln!("the event is recorded; waiting up to {} for its first attempt", self.wait);
            }
            let within = Duration::from_nanos(self.wait.0);
            Ok(session.wait(Tried::within(within, session.sender(), delivery))?)
        })?;
        let id = look.delivery_ids.name(tried.delivery.received, tried.delivery.delivery);
        let Some(attempted) = &tried.attempted else {
            let why = self.why_not(&Look::open(&database)?, lane)?;
            let name = &self.name;
            return Err(Failure::refused(format_args!(
                "no attempt ended within {}; {name}: {why}; the event still waits, as {id}",
                self.wait
            )));
        };
        if printer.json {
            printer.object(&tried.to_json(&id))?;
        } else {
            printer.line(summary(&tried, attempted, &id))?;
        }
        Ok(if tried.is_delivered() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

impl Test {
    fn why_not(&self, look: &Look, lane: LaneId) -> Result<String, Failure> {
        let lane = look.reader.lane(lane)?;
        let flow = look.flows(&self.reach)?.of(&*look.reader, lane.as_slice())?.pop();
        let flow = flow.filter(|flow| flow.state != State::Active);
        Ok(flow.map_or_else(
            || {
                "active: the attempt is under way, or other deliveries come first within its limits"
                    .to_owned()
            },
            |flow| flow.to_string(),
        ))
    }
}

fn summary(tried: &Tried, attempted: &Attempted, id: &PublicId) -> String {
    let attempt = &attempted.attempt;
    let (place, ending) = (place(tried.delivery.place), ending(attempt));
    format!("{place}: {ending} after {} ({id})", rough(attempt.latency))
}

impl From<TrialError> for Failure {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Offer(_) => Self::usage(error),
            TrialError::Failed(_) => Self::ours(error),
            _ => Self::refused(error),
        }
    }
}
