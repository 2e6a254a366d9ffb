//! `doctor`: what is off with a database, and mending what is safe to mend.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach};
use super::print::Printer;
use super::session::{Look, PAGE_ROWS, each};
use super::words::rough;
use crate::boot_clock::BootClock;
use crate::engine::{DeliveryId, Nanos};
use crate::roster::RosterKeeper;
use crate::runtime::clock::Clock;
use crate::runtime::{process_is_dead, store_time};
use crate::store::clock::Fault;
use crate::store::command::Sweep;
use crate::store::lane::LaneState;
use crate::store::read::Owner;
use crate::store::sqlite::{LogSize, Options, Space, SqliteReader, SqliteStore};
use crate::store::{Command, Database, Reply, Store};

/// A lane whose first delivery has been due for longer, and that nobody holds, is stuck.
const STUCK_AFTER: Nanos = Nanos::MINUTE;
/// So many are named.
const NAMES_MAX: usize = 10;
/// The file is looked at for as long as the log is no longer than this: a look keeps it from being cut.
const CHECK_LOG_BYTES_MAX: u64 = 64 << 20;
/// Free space in a file is told of if it is this much, and one part of so many of the file.
const FREE_BYTES_TOLD: u64 = 64 << 20;
const FREE_PART_TOLD: u64 = 4;
/// Rows corrected in one commit.
const STEP_ROWS: u32 = 500;
/// Something is off.
const EXIT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender doctor --db sender.db
  hookproof-sender doctor --db sender.db --mend --json

Looks at: the clock, leases of dead processes, subscribers that nobody delivers to, broken subscribers, deliveries of
which a part is missing, the length of the log, how much of the file is free, and whether it is whole.
--mend brings the clock back to the wall clock (which must be right!), frees the leases of dead processes and cuts the
log. Deliveries that cannot be read become dead letters (unreadable) by themselves when they are due.
Exit codes: 0 nothing is off, or all of it was mended; 1 something is off; 64 bad command line; 70 our own failure.")]
pub(super) struct Doctor {
    /// Mend what is safe to mend
    #[arg(long)]
    mend: bool,
    #[command(flatten)]
    reach: Reach,
}

/// What one check found.
struct Finding {
    check: &'static str,
    state: State,
    detail: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    /// It would have held up those that write.
    Unchecked,
    Off,
    Mended,
}

impl Finding {
    fn well(check: &'static str) -> Self {
        Self { check, state: State::Well, detail: String::new() }
    }

    fn off(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Off, detail: detail.into() }
    }

    /// Off, unless there is nothing to name.
    fn of(check: &'static str, names: &[String], what: &str) -> Self {
        if names.is_empty() {
            return Self::well(check);
        }
        let more = names.len().saturating_sub(NAMES_MAX);
        let named = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Self::off(check, format!("{what}: {named}{more}"))
    }

    fn mended(self) -> Self {
        Self { state: State::Mended, ..self }
    }
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Unchecked => "unchecked",
            Self::Off => "off",
            Self::Mended => "mended",
        }
    }
}

impl Doctor {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        let look = Look::open(&database)?;
        let findings = match &database {
            Database::File(path) => self.of_file(&database, path, look)?,
            // A server looks after its clock, its log and its files itself, and tells nobody which process is dead.
            Database::Postgres(_) => {
                let clock = clock_of_server(&look);
                vec![clock, lanes(&look)?, subscribers(&look, &self.reach)?, letters(&look)?]
            }
        };
        let is_off = findings.iter().any(|finding| finding.state == State::Off);
        for Finding { check, state, detail } in findings {
            if printer.json {
                printer.object(&json!({ "check": check, "state": state.word(), "detail": detail }))?;
            } else {
                printer.line(format_args!("{:<9} {check:<12} {detail}", state.word()))?;
            }
        }
        Ok(if is_off { ExitCode::from(EXIT_OFF) } else { ExitCode::SUCCESS })
    }
}

impl Doctor {
    fn of_file(&self, database: &Database, path: &Path, look: Look) -> Result<Vec<Finding>, Failure> {
        let reader = SqliteReader::open(path)?;
        let mut patient = Patient { database, path, look, reader, store: None };
        let mut findings = vec![
            patient.clock(self.mend)?,
            patient.leases(self.mend)?,
            lanes(&patient.look)?,
            subscribers(&patient.look, &self.reach)?,
            patient.deliveries()?,
            letters(&patient.look)?,
            patient.log(self.mend)?,
            patient.space()?,
        ];
        findings.push(patient.file()?);
        Ok(findings)
    }
}

/// The database file that is looked at.
struct Patient<'a> {
    database: &'a Database,
    path: &'a Path,
    look: Look,
    reader: SqliteReader,
    /// Opened for mending.
    store: Option<SqliteStore>,
}

impl Patient<'_> {
    fn store(&mut self) -> Result<&mut SqliteStore, Failure> {
        if self.store.is_none() {
            self.store = Some(SqliteStore::open(self.path, &Options::default())?);
        }
        self.store.as_mut().ok_or_else(|| Failure::ours("the database was not opened"))
    }

    fn clock(&mut self, mend: bool) -> Result<Finding, Failure> {
        let check = "clock";
        let clock = Clock::at(BootClock::default(), self.look.now);
        let is_correcting = self.reader.clock()?.is_correcting;
        let finding = match (self.look.fault, clock.behind()) {
            (Some(Fault::Corrected(by) | Fault::Kept(by)), _) => {
                Finding::off(check, format!("the database's time is {} ahead of the wall clock", rough(by)))
            }
            (None, _) if is_correcting => {
                Finding::off(check, "deliveries still have times of a clock that was ahead")
            }
            // Every length of time is right all the same, and to follow at once would cut those that are running.
            (None, Some(behind)) => {
                let behind = rough(behind);
                let detail = format!(
                    "the wall clock was set forward by {behind}; the database's time follows when the machine is started anew"
                );
                return Ok(Finding { detail, ..Finding::well(check) });
            }
            (None, None) => return Ok(Finding::well(check)),
        };
        if !mend {
            return Ok(finding);
        }
        self.store()?;
        let start = store_time::begin_within(
            Nanos(u64::MAX),
            self.store.as_mut().ok_or_else(|| Failure::ours("the database was not opened"))?,
            self.database,
            None,
        )?;
        if let Some(Fault::Kept(_)) = start.fault {
            let detail =
                format!("{}; end the processes that count by it (serve, drain) first", finding.detail);
            return Ok(Finding::off(check, detail));
        }
        let clock = Clock::at(BootClock::default(), start.now);
        loop {
            let sweep = Command::Sweep(Sweep { max: STEP_ROWS });
            let replies = self.store()?.commit(clock.now(), &[sweep])?;
            if !matches!(replies[..], [Reply::Swept(swept)] if swept.more) {
                break;
            }
        }
        self.look = Look::open(self.database)?;
        Ok(finding.mended())
    }

    fn leases(&mut self, mend: bool) -> Result<Finding, Failure> {
        let is_dead = |owner: &Owner| owner.lanes > 0 && process_is_dead(self.database, owner.owner);
        let dead: Vec<_> = self.look.reader.owners()?.into_iter().filter(is_dead).collect();
        let names: Vec<_> =
            dead.iter().map(|owner| format!("{:x} ({} subscribers)", owner.owner.0, owner.lanes)).collect();
        let finding = Finding::of("leases", &names, "processes that are dead hold subscribers");
        if dead.is_empty() || !mend {
            return Ok(finding);
        }
        let now = self.look.now;
        let commands: Vec<_> = dead.iter().map(|owner| Command::Evict(owner.owner)).collect();
        self.store()?.commit(now, &commands)?;
        Ok(finding.mended())
    }

    fn deliveries(&self) -> Result<Finding, Failure> {
        let (mut after, mut missing) = (Some(DeliveryId(0)), 0);
        while let Some(from) = after {
            let found = self.reader.missing_parts(from)?;
            missing += found.rows;
            after = found.next;
        }
        let what = "deliveries wait of which a part is missing or makes no sense; they become dead letters when they are due";
        Ok(if missing == 0 {
            Finding::well("deliveries")
        } else {
            Finding::off("deliveries", format!("{missing} {what}"))
        })
    }

    fn log(&mut self, mend: bool) -> Result<Finding, Failure> {
        let bytes = log_bytes(self.path);
        if bytes < LogSize::PINNED_BYTES {
            return Ok(Finding::well("log"));
        }
        let what = "some program has been reading the database for long, or the disk can't keep up";
        let finding = Finding::off("log", format!("the log is {} MiB long; {what}", bytes >> 20));
        if mend && self.store()?.cut_log()? { Ok(finding.mended()) } else { Ok(finding) }
    }

    /// Free space is not wrong: it is used again.
    fn space(&self) -> Result<Finding, Failure> {
        let Space { bytes, free_bytes } = self.reader.space()?;
        let mut finding = Finding::well("space");
        if free_bytes >= FREE_BYTES_TOLD.max(bytes / FREE_PART_TOLD) {
            let [free, all] = [free_bytes, bytes].map(|bytes| bytes >> 20);
            finding.detail = format!(
                "{free} of the file's {all} MiB are free for later deliveries; `vacuum` gives them back to the disk"
            );
        }
        Ok(finding)
    }

    fn file(&self) -> Result<Finding, Failure> {
        let checked = self.reader.quick_check(CHECK_LOG_BYTES_MAX)?;
        if checked.faults.is_empty() && !checked.unchecked.is_empty() {
            let detail = format!(
                "not checked wholly ({}), since the log grew by what was written meanwhile: try again when that is less",
                checked.unchecked.join(", ")
            );
            return Ok(Finding { check: "file", state: State::Unchecked, detail });
        }
        Ok(Finding::of(
            "file",
            &checked.faults,
            "the file is damaged; copy it, and restore a backup or `.recover` it",
        ))
    }
}

fn lanes(look: &Look) -> Result<Finding, Failure> {
    let (now, mut stuck) = (look.now, Vec::new());
    let owners = look.reader.owners()?;
    let lives = |id| owners.iter().any(|owner| owner.owner == id && owner.until > now);
    each(
        |from| look.reader.lanes(from, PAGE_ROWS),
        |lane| {
            let late = lane.next.map_or(Nanos::ZERO, |next| now.since(next));
            let is_held = lane.owner.is_some_and(|(owner, _)| lives(owner));
            if lane.state == LaneState::Active && late > STUCK_AFTER && !is_held {
                stuck.push(format!("{} (for {})", lane.name, rough(late)));
            }
            Ok(true)
        },
    )?;
    Ok(Finding::of("lanes", &stuck, "deliveries are due and no process holds their subscribers"))
}

fn subscribers(look: &Look, reach: &Reach) -> Result<Finding, Failure> {
    let mut keeper = RosterKeeper::new(reach.regions()?);
    let roster = keeper.catch_up(&*look.reader, look.now)?;
    let broken: Vec<_> =
        roster.broken().map(|(known, fault)| format!("{} ({fault})", known.name())).collect();
    Ok(Finding::of("subscribers", &broken, "can't be sent to"))
}

fn letters(look: &Look) -> Result<Finding, Failure> {
    let unreadable = look.reader.status(look.now)?.unreadable;
    let what = "dead letters could not be read; `dead purge` forgets them";
    Ok(if unreadable == 0 {
        Finding::well("unreadable")
    } else {
        Finding::off("unreadable", format!("{unreadable} {what}"))
    })
}

/// A server's clock is no business of ours, unless it was set back.
fn clock_of_server(look: &Look) -> Finding {
    match look.fault {
        Some(Fault::Corrected(by) | Fault::Kept(by)) => Finding::off(
            "clock",
            format!(
                "the server's clock is {} behind what was committed by it; what is due waits for it",
                rough(by)
            ),
        ),
        None => Finding::well("clock"),
    }
}

/// How long the log beside the database is; nothing, where there is none.
pub(super) fn log_bytes(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_cut() {
        let names: Vec<_> = (0..12).map(|n| n.to_string()).collect();
        let detail = Finding::of("lanes", &names, "stuck").detail;
        assert!(detail.starts_with("stuck: 0, 1,") && detail.ends_with("9, and 2 more"), "{detail}");
    }
}
