use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::in_flight::InFlight;
use super::options::{Common, Reach, token_from};
use super::print::{self, Printer, ago, rough};
use super::session::{Look, PAGE_ROWS, each};
use crate::api::Token;
use crate::engine::{Nanos, StoreTime};
use crate::operate::flow::{Flows, HELD_UP_MAX, HeldUp};
use crate::operate::json_forms;
use crate::roster::{Roster, RosterKeeper};
use crate::runtime::clock::wall;
use crate::store::LogSize;
use crate::store::clock::{Fault, TOLERANCE};
use crate::store::lane::Counts;
use crate::store::latency::Measured;
use crate::store::read::{Nodes, Over, Status as Figures};
use crate::subscriber::RegionSecrets;

const BEHIND_AFTER: Nanos = Nanos::from_secs(60);
const NAMES_MAX: usize = 10;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender status --db sender.db
  hookproof sender status --db sender.db --json | jq .deliveries.waiting

Requests in flight come from the APIs of the nodes, if they can be reached. The token is sent only to loopback addresses, for a
database in a file. For other nodes use GET /v1/status.")]
pub(super) struct Status {
    #[command(flatten)]
    reach: Reach,
    /// The environment variable with the token that the nodes' APIs ask for
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
}

impl Status {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        let shown = |text: &str| Token::new(text).map(|_| text.to_owned());
        let token = self.token_env.as_deref().map(|name| token_from(name, shown)).transpose()?;
        let look = Look::open(&database)?;
        let nodes = look.reader.nodes()?;
        let found = Found {
            log_bytes: database.log_bytes(),
            in_flight: InFlight::query_nodes(
                &*database.parts().liveness(),
                &nodes,
                look.now,
                token.as_deref(),
            )?,
            ..Found::read(&look, &nodes, self.reach.regions()?)?
        };
        if printer.json {
            printer.object(&found.to_json())?;
        } else {
            printer.sentences(&found.pairs(look.now))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

struct Found {
    figures: Figures,
    senders: usize,
    nodes: [usize; 2],
    in_flight: InFlight,
    overdue: Nanos,
    measured: Measured,
    slow: Vec<String>,
    /// Those of all nodes, from checkpoints.
    held_up: Vec<HeldUp>,
    roster: Arc<Roster>,
    now: StoreTime,
    log_bytes: u64,
    fault: Option<Fault>,
}

impl Found {
    fn read(look: &Look, nodes: &Nodes, regions: RegionSecrets) -> Result<Self, Failure> {
        let figures = look.reader.status(look.now)?;
        let owners = look.reader.owners()?;
        let leases_over = nodes.lease_time(look.now);
        let senders = owners.iter().filter(|owner| owner.lanes > 0 && owner.until > leases_over).count();
        let nodes = json_forms::count_nodes(nodes, look.now);
        let overdue = figures.oldest_due.map_or(Nanos::ZERO, |due| look.now.since(due));
        let mut keeper = RosterKeeper::new(regions);
        let roster = Arc::clone(keeper.catch_up(&*look.reader, wall())?);
        let flows = Flows::read(&*look.reader, Arc::clone(&roster), Vec::new(), look.now)?;
        let held_up = flows.held_up(&*look.reader)?;
        let (mut measured, mut slow) = (Measured::default(), Vec::new());
        each(
            |from| look.reader.subscribers(from, PAGE_ROWS),
            |subscriber| {
                let over = Over::Day { until: look.now };
                for (_, found) in look.reader.latencies(&[subscriber.lane], over)? {
                    if found.answer.percentiles().is_some_and(|found| found.is_slow()) {
                        slow.push(subscriber.name.to_string());
                    }
                    measured.add(&found);
                }
                Ok(true)
            },
        )?;
        let (now, fault, in_flight, log_bytes) = (look.now, look.fault, InFlight::default(), 0);
        Ok(Self {
            figures,
            senders,
            nodes,
            in_flight,
            overdue,
            measured,
            slow,
            held_up,
            roster,
            now,
            log_bytes,
            fault,
        })
    }

    fn to_json(&self) -> Value {
        let mut value = json_forms::totals(&self.figures);
        value["overdue_ms"] = json!(self.overdue.0 / 1_000_000);
        value["behind"] = json!(self.overdue > BEHIND_AFTER);
        json_forms::measured(&mut value, Some(&self.measured));
        value["slow_subscribers"] = json!(self.slow);
        value["broken"] = json_forms::broken(&self.roster);
        value["held_up"] = self.held_up.iter().take(HELD_UP_MAX).map(HeldUp::to_json).collect();
        value["delivering_processes"] = json!(self.senders);
        value["nodes"] = json!({ "living": self.nodes[0], "draining": self.nodes[1] });
        value["requests"] = self.in_flight.to_json();
        value["log_bytes"] = json!(self.log_bytes);
        value["clock"] = json_forms::clock(self.now, wall(), self.fault);
        value
    }

    fn pairs(&self, now: StoreTime) -> Vec<(String, String)> {
        let figures = &self.figures;
        let counts = &figures.counts;
        let [active, paused, disabled] = figures.subscribers;
        let latency = figures
            .latency_last_hour
            .map_or_else(String::new, |it| format!("; answers took {} on average", rough(it)));
        let behind = if self.overdue > BEHIND_AFTER {
            format!("yes: the longest due delivery is {} late", rough(self.overdue))
        } else {
            "no".to_owned()
        };
        let delivered =
            format!("{}, {} in the last hour{latency}", counts.delivered, figures.delivered_last_hour);
        let failed = format!("{}, {} in the last hour", counts.failed_attempts, figures.failed_last_hour);
        let tried =
            format!("{} ({} B, {} tried before)", counts.waiting, counts.waiting_bytes, counts.retrying);
        let mut rows = vec![
            ("subscribers", format!("{active} active, {paused} paused, {disabled} disabled")),
            ("broken", self.broken()),
            ("waiting", tried),
            ("behind", behind),
            ("delivered", delivered),
            ("failed attempts", failed),
            ("dead letters", dead_letters(counts, figures.dead_last_hour)),
            ("coalesced", counts.coalesced.to_string()),
            ("latency", print::latency(Some(&self.measured.answer))),
            ("emit to first attempt", print::lengths(Some(&self.measured.first_attempt), "first attempts")),
            ("emit to delivered", print::lengths(Some(&self.measured.delivery), "deliveries")),
            ("slow endpoints", first_of(&self.slow)),
            ("unreadable", format!("dead letters: {}", figures.unreadable)),
            ("outbox", format!("{} waiting, {} rejected", figures.outbox, figures.outbox_rejected)),
            ("delivered by", format!("{}; {}", delivered_by(self.senders), nodes(self.nodes))),
            ("in flight", self.in_flight.summary()),
            ("clock", clock(self.now, self.fault)),
            ("log", log(self.log_bytes)),
        ];
        if let Some(oldest) = figures.next_to_expire {
            rows.insert(4, ("oldest waiting", format!("received {}", ago(oldest, now))));
        }
        rows.splice(2..2, self.held_up().into_iter().map(|text| ("held up", text)));
        rows.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
    }
}

impl Found {
    /// A row each.
    fn held_up(&self) -> Vec<String> {
        let mut rows: Vec<_> = self.held_up.iter().take(NAMES_MAX).map(ToString::to_string).collect();
        match self.held_up.len().saturating_sub(NAMES_MAX) {
            0 if rows.is_empty() => rows.push("none".to_owned()),
            0 => {}
            more => rows.push(format!("{more} more: `subscriber list` shows all")),
        }
        rows
    }

    fn broken(&self) -> String {
        let broken: Vec<_> =
            self.roster.broken().map(|(known, fault)| format!("{} ({fault})", known.name())).collect();
        if broken.is_empty() {
            return first_of(&broken);
        }
        let what = "their events are refused until you mend them, give their region's secret, or remove them";
        format!("{}; {what}", first_of(&broken))
    }
}

fn dead_letters(counts: &Counts, last_hour: u64) -> String {
    let kept = format!("{}, {last_hour} in the last hour", counts.dead_kept);
    match counts.dead_gone() {
        0 => kept,
        gone => format!("{kept}; deleted as over the limit, purged, or too old: {gone}"),
    }
}

fn log(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    if bytes < LogSize::PINNED_BYTES {
        return format!("{mebibytes} MiB");
    }
    format!("{mebibytes} MiB: a program keeps a read transaction open on the database; end it")
}

fn clock(now: StoreTime, fault: Option<Fault>) -> String {
    let (ahead, behind) = (rough(now.since(wall())), rough(wall().since(now)));
    match fault {
        Some(Fault::Corrected(by)) => format!(
            "the database's clock is {} ahead of the wall clock; the next writing process corrects it",
            rough(by)
        ),
        Some(Fault::Kept(_)) => {
            format!("the database's clock is {ahead} ahead of the wall clock and in use: see `doctor`")
        }
        None if behind > TOLERANCE => format!("the database's clock is {behind} behind the wall clock"),
        None => "right".to_owned(),
    }
}

fn delivered_by(senders: usize) -> String {
    match senders {
        1 => "1 process with subscribers".to_owned(),
        senders => format!("{senders} processes with subscribers"),
    }
}

fn nodes([living, draining]: [usize; 2]) -> String {
    let living = if living == 1 { "1 node".to_owned() } else { format!("{living} nodes") };
    if draining == 0 { living } else { format!("{living}, {draining} of them draining") }
}

fn first_of(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let first = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_that_are_kept_no_more_are_told() {
        let counts = Counts { dead: 5, dead_kept: 5, ..Counts::default() };
        assert_eq!(dead_letters(&counts, 2), "5, 2 in the last hour");
        assert_eq!(
            dead_letters(&Counts { dead: 12, ..counts }, 2),
            "5, 2 in the last hour; deleted as over the limit, purged, or too old: 7"
        );
    }

    #[test]
    fn one_process_is_no_processes() {
        assert_eq!(delivered_by(0), "0 processes with subscribers");
        assert_eq!(delivered_by(1), "1 process with subscribers");
        assert_eq!(delivered_by(2), "2 processes with subscribers");
        assert_eq!(nodes([1, 0]), "1 node");
        assert_eq!(nodes([3, 2]), "3 nodes, 2 of them draining");
    }
}
