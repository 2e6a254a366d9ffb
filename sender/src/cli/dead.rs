use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::{Printer, Table, moment, reason};
use super::session::{Look, PAGE_ROWS, WriteSession, each, with_session};
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::event::PublicId;
use crate::operate::dead::{GROUPS_MAX, LOOK_BACK_DAYS, analyse};
use crate::store::Reply;
use crate::store::command::{self, Command, Forget, Redrive};

const STEP_ROWS: u32 = 500;

#[derive(Subcommand, Debug)]
pub(super) enum Dead {
    /// Show them, the newest first
    List(List),
    /// Show their common causes, and likely remedies
    Analyse(Analyse),
    /// Have them delivered after all, through their subscribers' limits
    Redrive(DeadSelection),
    /// Forget them
    Purge(WhichPurged),
}

impl Dead {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        match self {
            Self::List(list) => list.run(common, printer),
            Self::Analyse(analyse) => analyse.run(common, printer),
            Self::Redrive(which) => which.redrive(common, printer),
            Self::Purge(WhichPurged { which }) => which.purge(common, printer),
        }?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender dead list --db sender.db
  hookproof sender dead list --db sender.db --subscriber shop --max 1000 --json")]
pub(super) struct List {
    /// Only this subscriber's, by its name or id
    #[arg(long, value_name = "NAME")]
    subscriber: Option<String>,
    /// Show so many at most
    #[arg(long, value_name = "COUNT", default_value = "100")]
    max: u64,
}

impl List {
    fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane =
            self.subscriber.as_deref().map(|name| look.subscriber(name)).transpose()?.map(|found| found.lane);
        let names = names(&look)?;
        let headings =
            &["DELIVERY", "GIVEN UP", "SUBSCRIBER", "REASON", ">TRIES", ">STATUS", "TYPE", "EVENT", "ERROR"];
        let (mut table, mut left) = (Table::new(headings), self.max);
        let page = PAGE_ROWS.min(u32::try_from(self.max).unwrap_or(u32::MAX)).max(1);
        each(
            |from| look.reader.dead(lane, from, page),
            |dead| {
                if left == 0 {
                    return Ok(false);
                }
                left -= 1;
                let delivery = &dead.delivery;
                let name = name_of(&names, delivery.lane);
                let id = look.delivery_ids.name(delivery.received, delivery.delivery).to_string();
                if printer.json {
                    printer.object(&json!({
                        "id": id, "subscriber": name, "event": &*delivery.event,
                        "type": &*delivery.kind, "key": delivery.key.as_deref(), "reason": reason(dead.reason),
                        "attempts": delivery.attempts, "status": dead.status, "error": dead.error.as_deref(),
                        "received": moment(delivery.received), "given_up": moment(delivery.at),
                    }))?;
                } else {
                    table.row([
                        id,
                        moment(delivery.at),
                        name,
                        reason(dead.reason).to_owned(),
                        delivery.attempts.to_string(),
                        dead.status.map_or_else(String::new, |status| status.to_string()),
                        delivery.kind.to_string(),
                        delivery.event.to_string(),
                        dead.error.as_deref().unwrap_or_default().to_owned(),
                    ]);
                }
                Ok(!printer.is_closed())
            },
        )?;
        if printer.json { Ok(()) } else { printer.table(&table, "no dead letters") }
    }
}

fn names(look: &Look) -> Result<BTreeMap<LaneId, String>, Failure> {
    let mut names = BTreeMap::new();
    each(
        |from| look.reader.subscribers(from, PAGE_ROWS),
        |subscriber| Ok(names.insert(subscriber.lane, subscriber.name.to_string()).is_none()),
    )?;
    Ok(names)
}

fn name_of(names: &BTreeMap<LaneId, String>, lane: LaneId) -> String {
    names.get(&lane).cloned().unwrap_or_else(|| format!("removed ({})", lane.0))
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender dead redrive --db sender.db --subscriber shop
  hookproof sender dead redrive --db sender.db dlv_01hf7yat00000000000000000a
  hookproof sender dead redrive --db sender.db --all

They wait again, with all their attempts and their full time to live. If a queue is full, the rest stay dead letters.")]
pub(super) struct DeadSelection {
    /// Deliveries, by the ids that `dead list` shows
    #[arg(value_name = "DELIVERY")]
    deliveries: Vec<PublicId>,
    /// All of one subscriber, by its name or id
    #[arg(long, value_name = "NAME", conflicts_with_all = ["deliveries", "all"])]
    subscriber: Option<String>,
    /// All there are
    #[arg(long, conflicts_with = "deliveries")]
    all: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender dead purge --db sender.db --subscriber shop
  hookproof sender dead purge --db sender.db dlv_01hf7yat00000000000000000a
  hookproof sender dead purge --db sender.db --all

Purged dead letters cannot be redriven.")]
pub(super) struct WhichPurged {
    #[command(flatten)]
    which: DeadSelection,
}

impl DeadSelection {
    fn find(&self, common: &Common) -> Result<command::Dead, Failure> {
        match &self.subscriber {
            Some(name) => {
                Ok(command::Dead::Of(Look::open(&common.existing_database()?)?.subscriber(name)?.lane))
            }
            None if self.all => Ok(command::Dead::All),
            None if self.deliveries.is_empty() => {
                let problem = "no dead letters are named; expected ids, --subscriber NAME, or --all";
                Err(Failure::usage(problem))
            }
            None => {
                let ids = Look::open(&common.existing_database()?)?.delivery_ids;
                let find = |id: &PublicId| {
                    ids.find(id).ok_or_else(|| {
                        Failure::refused(format_args!(
                            "{id} is not a delivery of this database; expected an id that `dead list` shows"
                        ))
                    })
                };
                Ok(command::Dead::These(self.deliveries.iter().map(find).collect::<Result<_, _>>()?))
            }
        }
    }

    fn redrive(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let which = self.find(common)?;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let (redriven, kept) = with_session(options, |session| redrive(session, &which))?;
        if printer.json {
            printer.object(&json!({ "redriven": redriven, "kept": kept }))?;
        } else {
            printer.line(format_args!("redriven: {redriven}"))?;
            if kept > 0 {
                printer.line(format_args!(
                    "still dead letters, because the queue is full, or the subscriber disabled or removed: {kept}"
                ))?;
            }
        }
        if redriven == 0 && kept > 0 {
            return Err(Failure::refused(
                "none was redriven; `subscriber show NAME` says what its subscriber lacks",
            ));
        }
        self.check_found(redriven + kept)
    }

    fn purge(&self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let which = self.find(common)?;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let purged = with_session(options, |session| purge(session, &which))?;
        if printer.json {
            printer.object(&json!({ "purged": purged }))?;
        } else {
            printer.line(format_args!("purged dead letters: {purged}"))?;
        }
        self.check_found(purged)
    }

    fn check_found(&self, found: u64) -> Result<(), Failure> {
        let named = u64::try_from(self.deliveries.len()).unwrap_or(u64::MAX);
        if found < named {
            let missing = named - found;
            return Err(Failure::refused(format_args!(
                "{missing} of {named} deliveries are not dead letters; expected ids that `dead list` shows"
            )));
        }
        Ok(())
    }
}

fn redrive(session: &WriteSession, which: &command::Dead) -> Result<(u64, u64), Failure> {
    let (mut redriven, mut kept, mut after) = (0, 0, None);
    session.in_steps(|| {
        let step = Redrive { which: which.clone(), after, max: STEP_ROWS };
        match session.command(Command::Redrive(step))? {
            Reply::Redriven(done) => {
                redriven += u64::try_from(done.rows.len()).unwrap_or(u64::MAX);
                kept += done.kept;
                let more = done.last.is_some() && done.last > after;
                after = done.last;
                Ok(more)
            }
            other => Err(Failure::ours(format_args!("the database answered {other:?}"))),
        }
    })?;
    Ok((redriven, kept))
}

fn purge(session: &WriteSession, which: &command::Dead) -> Result<u64, Failure> {
    let (mut purged, mut after) = (0, None);
    session.in_steps(|| {
        let step = Forget { which: which.clone(), after, max: STEP_ROWS };
        match session.command(Command::Forget(step))? {
            Reply::Forgotten { rows, last } => {
                purged += rows;
                after = last;
                Ok(last.is_some())
            }
            other => Err(Failure::ours(format_args!("the database answered {other:?}"))),
        }
    })?;
    Ok(purged)
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender dead analyse --db sender.db
  hookproof sender dead analyse --db sender.db --since 1h --json")]
pub(in crate::cli) struct Analyse {
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value_t = Nanos::DAY.times(LOOK_BACK_DAYS))]
    since: Nanos,
}

impl Analyse {
    pub(in crate::cli) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let since = StoreTime(look.now.0.saturating_sub(self.since.0));
        let found = analyse(&look.reader.dead_groups(since, GROUPS_MAX)?);
        let names = names(&look)?;
        if printer.json {
            return found
                .iter()
                .try_for_each(|(lane, found)| printer.object(&found.to_json(Some(&name_of(&names, *lane)))));
        }
        let headings = &[
            ">ROWS",
            "SUBSCRIBER",
            "REASON",
            ">STATUS",
            ">TRIES EACH",
            "FIRST",
            "LAST",
            "POINTS TO",
            "ERROR",
        ];
        let mut table = Table::new(headings);
        let causes =
            found.iter().flat_map(|(lane, found)| found.causes.iter().map(move |cause| (*lane, cause)));
        for (lane, cause) in causes {
            table.row([
                cause.rows.to_string(),
                name_of(&names, lane),
                reason(cause.reason).to_owned(),
                cause.status.map_or_else(String::new, |status| status.to_string()),
                (cause.attempts / cause.rows.max(1)).to_string(),
                moment(cause.first),
                moment(cause.last),
                cause.points_to().to_owned(),
                cause.error.as_deref().unwrap_or_default().to_owned(),
            ]);
        }
        printer.table(&table, &format!("no dead letters in the last {}", self.since))?;
        found.iter().try_for_each(|(lane, found)| {
            found.findings.iter().try_for_each(|finding| {
                let (name, pattern) = (name_of(&names, *lane), finding.pattern);
                printer.line(format_args!(
                    "{name}: {} {}: {}; {}",
                    finding.rows,
                    pattern.name(),
                    pattern.meaning(),
                    pattern.advice()
                ))
            })
        })
    }
}
