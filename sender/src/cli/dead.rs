use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::failure::Failure;
use super::jobs;
use super::options::{Common, Reach, operating};
use super::print::{Printer, Table, moment};
use super::session::{Look, PAGE_ROWS, each, name_of, names, user, with_session};
use crate::engine::{Nanos, StoreTime};
use crate::event::PublicId;
use crate::operate::dead::{GROUPS_MAX, LOOK_BACK_DAYS, analyse};
use crate::operate::jobs::Letters;
use crate::store::command;
use crate::store::job::{JOB_IDS_MAX, JobKind};

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
            Self::Redrive(which) => which.carry_out(JobKind::Redrive, common, printer),
            Self::Purge(WhichPurged { which }) => which.carry_out(JobKind::Purge, common, printer),
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
        let found = self.subscriber.as_deref().map(|name| look.subscriber(name)).transpose()?;
        let lanes = found.map(|found| found.lane).into();
        let names = names(&look)?;
        let headings =
            &["DELIVERY", "GIVEN UP", "SUBSCRIBER", "REASON", ">TRIES", ">STATUS", "TYPE", "EVENT", "ERROR"];
        let (mut table, mut left) = (Table::new(headings), self.max);
        let page = PAGE_ROWS.min(u32::try_from(self.max).unwrap_or(u32::MAX)).max(1);
        each(
            |from| look.reader.dead(&lanes, from, page),
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
                        "type": &*delivery.kind, "key": delivery.key.as_deref(), "reason": dead.reason.name(),
                        "attempts": delivery.attempts, "status": dead.status, "error": dead.error.as_deref(),
                        "received": moment(delivery.received), "given_up": moment(delivery.at),
                    }))?;
                } else {
                    table.row([
                        id,
                        moment(delivery.at),
                        name,
                        dead.reason.name().to_owned(),
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

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender dead redrive --db sender.db --subscriber shop
  hookproof sender dead redrive --db sender.db dlv_01hf7yat00000000000000000a
  hookproof sender dead redrive --db sender.db --all

They wait again, with all their attempts and their full time to live. With --subscriber, they go on
when a full queue has room again; with --all, those without room stay dead letters.")]
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
    /// Only those given up in this time until now
    #[arg(long, value_name = "TIME", conflicts_with = "deliveries")]
    since: Option<Nanos>,
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
    fn find(&self, look: &Look) -> Result<command::Dead, Failure> {
        match &self.subscriber {
            Some(name) => Ok(command::Dead::Of(look.subscriber(name)?.lane)),
            None if self.all => Ok(command::Dead::All),
            None if self.deliveries.is_empty() => {
                let problem = "no dead letters are named; expected ids, --subscriber NAME, or --all";
                Err(Failure::usage(problem))
            }
            None if self.deliveries.len() > JOB_IDS_MAX => Err(Failure::usage(format_args!(
                "{} deliveries are named; expected {JOB_IDS_MAX} at most, or --subscriber NAME, or --all",
                self.deliveries.len()
            ))),
            None => {
                let find = |id: &PublicId| {
                    look.delivery_ids.find(id).ok_or_else(|| {
                        Failure::refused(format_args!(
                            "{id} is not a delivery of this database; expected an id that `dead list` shows"
                        ))
                    })
                };
                Ok(command::Dead::These(self.deliveries.iter().map(find).collect::<Result<_, _>>()?))
            }
        }
    }

    fn carry_out(&self, kind: JobKind, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let since = self.since.map_or(StoreTime(0), |since| StoreTime(look.now.0.saturating_sub(since.0)));
        let letters = Letters { kind, which: self.find(&look)?, since };
        if !printer.json {
            let roster = look.roster(&Reach::default())?;
            printer.line(letters.plan(&*look.reader, &roster, look.now)?)?;
        }
        let task = letters.task(&*look.reader, look.now, user())?;
        let options = operating(common.existing_database()?, &Reach::default(), None)?;
        let done = with_session(options, |session| {
            jobs::carry_out(session, task, self.subscriber.as_deref(), printer)
        })?;
        if done.skipped > 0 && !printer.json {
            printer.line(format_args!(
                "still dead letters, because the queue is full, or the subscriber disabled or removed: {}",
                done.skipped
            ))?;
        }
        if done.state.is_over() && done.done == 0 && done.skipped > 0 {
            return Err(Failure::refused(
                "none was redriven; `subscriber show NAME` says what its subscriber lacks",
            ));
        }
        if done.state.is_over() { self.check_found(done.done + done.skipped) } else { Ok(()) }
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
                cause.reason.name().to_owned(),
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
