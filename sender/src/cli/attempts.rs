use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::timeout;

use super::delivery::Subscribers;
use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, moment, rough};
use super::session::{Look, PAGE_ROWS, each, runtime};
use super::signals::Signals;
use crate::engine::{DeliveryId, StoreTime};
use crate::operate::deliveries::{ending, outcome, tried_json};
use crate::store::read::{Tried, Tries};

const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Those that are told apart from new ones while they are followed.
const FOLLOWED_MAX: u32 = 1_000;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender attempts --db sender.db --failed --max 20
  hookproof sender attempts --db sender.db --subscriber shop --follow

Attempts are kept for 7 days (`serve --keep-attempts`). --follow shows those of all processes, and goes on until Ctrl-C. It looks
at the thousand that began last, of at most 10,000 of all subscribers, so at a high rate it can miss a slow one: `delivery show`
has each.")]
pub(super) struct Attempts {
    /// Only this subscriber's, by its name or id
    #[arg(long, value_name = "NAME")]
    subscriber: Option<String>,
    /// Only those that delivered nothing
    #[arg(long)]
    failed: bool,
    /// Show so many at most of those that have ended, the newest last
    #[arg(long, value_name = "COUNT", default_value = "20")]
    max: usize,
    /// Then show each that ends
    #[arg(long)]
    follow: bool,
}

impl Attempts {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = self.subscriber.as_deref().map(|name| look.subscriber(name)).transpose()?;
        let of = Tries { lanes: lane.map(|found| found.lane).into(), failed: self.failed };
        let newest = || Ok::<_, Failure>(look.reader.attempts(of.clone(), None, FOLLOWED_MAX)?.items);
        let mut known: BTreeSet<_> = newest()?.iter().map(key).collect();
        let mut found = Vec::new();
        if self.max > 0 {
            let add = |tried| {
                found.push(tried);
                Ok(found.len() < self.max)
            };
            each(|from| look.reader.attempts(of.clone(), from, PAGE_ROWS), add)?;
        }
        known.extend(found.iter().map(key));
        let mut shown = Shown { look: &look, names: Subscribers::default() };
        for tried in found.iter().rev() {
            shown.print(tried, printer)?;
        }
        if !self.follow {
            return if found.is_empty() && !printer.json { printer.line("no such attempts") } else { Ok(()) };
        }
        let runtime = runtime()?;
        let mut signals = runtime.block_on(async { Signals::new() })?;
        while !printer.is_closed()
            && runtime.block_on(async { timeout(LOOK_EVERY, signals.next()).await }).is_err()
        {
            let found = newest()?;
            let fresh: Vec<_> = found.iter().rev().filter(|tried| !known.contains(&key(tried))).collect();
            if fresh.len() == FOLLOWED_MAX as usize {
                eprintln!("more attempts end than can be shown: some are left out");
            }
            fresh.into_iter().try_for_each(|tried| shown.print(tried, printer))?;
            known = found.iter().map(key).collect();
        }
        Ok(())
    }
}

fn key(tried: &Tried) -> (StoreTime, DeliveryId) {
    (tried.attempted.attempt.at, tried.attempted.delivery)
}

struct Shown<'l> {
    look: &'l Look,
    names: Subscribers,
}

impl Shown<'_> {
    fn print(&mut self, tried: &Tried, printer: &mut Printer) -> Result<(), Failure> {
        let Tried { lane, received, attempted } = tried;
        let id = received.map(|received| self.look.delivery_ids.name(received, attempted.delivery));
        let (subscriber, name) = self.names.find(self.look, *lane)?;
        if printer.json {
            let mut line = tried_json(tried, id.as_ref(), subscriber.as_deref());
            line["name"] = json!(name);
            return printer.object(&line);
        }
        let attempt = &attempted.attempt;
        let id = id.map_or_else(|| "a delivery that is no longer kept".to_owned(), |id| id.to_string());
        let (at, number) = (moment(attempt.at), attempted.number);
        let (what, took) = (outcome(attempt.outcome), rough(attempt.latency));
        printer
            .line(format_args!("{at}  {name}  {id}  attempt {number} {what} in {took}: {}", ending(attempt)))
    }
}
