use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::options::{Common, Reach};
use super::print::{Printer, rough};
use super::session::{Look, PAGE_ROWS, each};
use crate::boot_clock::BootClock;
use crate::engine::{Nanos, StoreTime};
use crate::operate::flow::{self, Flows, HELD_UP_MAX, HeldUp};
use crate::roster::RosterKeeper;
use crate::runtime::clock;
use crate::runtime::clock::{Clock, wall};
use crate::store::clock::{Fault, Start};
use crate::store::command::Sweep;
use crate::store::lane::LaneState;
use crate::store::liveness::Life;
use crate::store::read::{Owner, Reader};
use crate::store::{Command, Database, Durability, Finding, Reply, State, Store, StoreError};

/// A lane with due deliveries and no owner for this long is stuck.
const STUCK_AFTER: Nanos = Nanos::MINUTE;
const STEP_ROWS: u32 = 500;
/// The exit code if a check fails.
const EXIT_OFF: u8 = 1;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender doctor --db sender.db
  hookproof sender doctor --db sender.db --mend --json
  hookproof sender doctor --db postgres://hookproof@db.example/hookproof

Checks the clock, subscribers without a delivering process, subscribers whose deliveries are held up, broken subscribers, and
unreadable deliveries. In a file it also checks
leases of dead processes, incomplete deliveries, the size of the log, free space in the file, and damage. On a PostgreSQL server it
also lists transactions that stay open, of any program, since they keep the server from removing old rows.
For damaged tables it names the unreadable rows and the consequences. Then it makes the other checks.
--mend works on a file only. It sets the clock back to the wall clock (which must be right!), frees the leases of dead processes and
truncates the log. Unreadable deliveries become dead letters (unreadable) when they are due, without --mend.
Exit codes: 0 no fault, or all are mended; 1 a fault is left; 64 bad command line; 70 failure of this program.")]
pub(super) struct Doctor {
    /// Repair the faults that are safe to repair, in a file
    #[arg(long)]
    mend: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Doctor {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let database = common.existing_database()?;
        if let Some(why) = database.nothing_to_mend().filter(|_| self.mend) {
            return Err(Failure::usage(format_args!("--mend is for files: {database} {why}")));
        }
        let findings = self.examine(&database)?;
        let is_off = findings.iter().any(|finding| finding.state == State::Off);
        for Finding { check, state, detail } in findings {
            if printer.json {
                printer.object(&json!({ "check": check, "state": state.word(), "detail": detail }))?;
            } else {
                printer.labelled(&format!("{:<9} {check:<12} ", state.word()), &detail)?;
            }
        }
        Ok(if is_off { ExitCode::from(EXIT_OFF) } else { ExitCode::SUCCESS })
    }

    /// Unreadable data stops only one check.
    fn examine(&self, database: &Database) -> Result<Vec<Finding>, Failure> {
        let reader = match database.parts().reader() {
            // A damaged first page makes a store look like the file of another program.
            Err(
                error @ (StoreError::Damaged { .. } | StoreError::Broken { .. } | StoreError::Foreign { .. }),
            ) => {
                let remedy = "if it was a Hookproof database, copy the file, then restore a backup or repair it with `.recover` of sqlite3";
                return Ok(vec![Finding::off("file", format!("no database can be read: {error}; {remedy}"))]);
            }
            reader => reader?,
        };
        // It may set back the time of the others.
        let mut findings = vec![checked("clock", clock(database, self.mend))?];
        let now = match Look::open(database) {
            Ok(look) => look.now,
            Err(Failure::Damaged(_)) => wall(),
            Err(failure) => return Err(failure),
        };
        let look = (&*reader, now);
        match leases(database, look, self.mend) {
            Err(Failure::Damaged(why)) => findings.push(Finding::unreadable("leases", why)),
            found => findings.extend(found?),
        }
        findings.push(checked("lanes", lanes(look))?);
        match flow(look, &self.reach) {
            Err(Failure::Damaged(why)) => findings.push(Finding::unreadable("flow", why)),
            found => findings.extend(found?),
        }
        findings.push(checked("subscribers", subscribers(look, &self.reach))?);
        findings.push(checked("unreadable", letters(look))?);
        findings.extend(database.examine(self.mend)?);
        drop(reader);
        if self.mend {
            database.parts().leave_whole()?;
        }
        Ok(findings)
    }
}

fn checked(check: &'static str, found: Result<Finding, Failure>) -> Result<Finding, Failure> {
    match found {
        Err(Failure::Damaged(why)) => Ok(Finding::unreadable(check, why)),
        found => found,
    }
}

/// The wall clock if the store's time is unreadable.
type Looking<'a> = (&'a dyn Reader, StoreTime);

fn writer(database: &Database) -> Result<Box<dyn Store>, StoreError> {
    database.parts().writer(Durability::default(), 0)
}

fn clock(database: &Database, mend: bool) -> Result<Finding, Failure> {
    let Look { now, fault, .. } = Look::open(database)?;
    let finding = database.examine_clock(Start { now, fault }, wall())?;
    if !mend || finding.state != State::Off {
        return Ok(finding);
    }
    let mut store = writer(database)?;
    let liveness = database.parts().liveness();
    let start = clock::begin_within(Nanos(u64::MAX), &mut *store, &*liveness, None)?;
    if let Some(Fault::Kept(_)) = start.fault {
        let detail = format!("{}; end the processes that use it (serve, drain) first", finding.detail);
        return Ok(Finding { detail, ..finding });
    }
    let clock = Clock::at(BootClock::default(), start.now);
    loop {
        let replies = store.commit(clock.now(), &[Command::Sweep(Sweep { max: STEP_ROWS })])?;
        if !matches!(replies[..], [Reply::Swept(swept)] if swept.more) {
            return Ok(finding.mended());
        }
    }
}

/// `None` where only leases show deaths.
fn leases(database: &Database, (reader, now): Looking<'_>, mend: bool) -> Result<Option<Finding>, Failure> {
    let liveness = database.parts().liveness();
    if !liveness.sees_deaths() {
        return Ok(None);
    }
    let is_dead = |owner: &Owner| owner.lanes > 0 && liveness.life_of(owner.owner) == Life::Dead;
    let dead: Vec<_> = reader.owners()?.into_iter().filter(is_dead).collect();
    let names: Vec<_> =
        dead.iter().map(|owner| format!("{:x} (subscribers: {})", owner.owner.0, owner.lanes)).collect();
    let finding = Finding::of("leases", &names, "dead processes still hold subscribers");
    if dead.is_empty() || !mend {
        return Ok(Some(finding));
    }
    let commands: Vec<_> = dead.iter().map(|owner| Command::Evict(owner.owner)).collect();
    writer(database)?.commit(now, &commands)?;
    Ok(Some(finding.mended()))
}

fn lanes((reader, now): Looking<'_>) -> Result<Finding, Failure> {
    let mut stuck = Vec::new();
    let (owners, leases_over) = (reader.owners()?, reader.nodes()?.lease_time(now));
    let lives = |id| owners.iter().any(|owner| owner.owner == id && owner.until > leases_over);
    each(
        |from| reader.lanes(from, PAGE_ROWS),
        |lane| {
            let late = lane.next.map_or(Nanos::ZERO, |next| now.since(next));
            let is_held = lane.owner.is_some_and(|(owner, _)| lives(owner));
            if lane.state == LaneState::Active && late > STUCK_AFTER && !is_held {
                stuck.push(format!("{} (for {})", lane.name, rough(late)));
            }
            Ok(true)
        },
    )?;
    Ok(Finding::of(
        "lanes",
        &stuck,
        "no process delivers to these subscribers, though deliveries are due (start `serve`)",
    ))
}

/// One for each. Broken subscribers and those without a process have their own checks. A pause, and a lane that waits in
/// its turn, are no faults.
fn flow((reader, now): Looking<'_>, reach: &Reach) -> Result<Vec<Finding>, Failure> {
    let mut keeper = RosterKeeper::new(reach.regions()?);
    let roster = Arc::clone(keeper.catch_up(reader, now)?);
    let mut held_up = Flows::read(reader, roster, Vec::new(), now)?.held_up(reader)?;
    held_up.retain(|one| !matches!(one.flow.state, flow::State::Broken | flow::State::NoProcess));
    if held_up.is_empty() {
        return Ok(vec![Finding::well("flow")]);
    }
    let state = |one: &HeldUp| if one.flow.state.is_a_fault() { State::Off } else { State::Well };
    let finding = |one: &HeldUp| Finding { check: "flow", state: state(one), detail: one.to_string() };
    Ok(held_up.iter().take(HELD_UP_MAX).map(finding).collect())
}

fn subscribers((reader, now): Looking<'_>, reach: &Reach) -> Result<Finding, Failure> {
    let mut keeper = RosterKeeper::new(reach.regions()?);
    let roster = keeper.catch_up(reader, now)?;
    let broken: Vec<_> =
        roster.broken().map(|(known, fault)| format!("{} ({fault})", known.name())).collect();
    Ok(Finding::of("subscribers", &broken, "cannot be delivered to"))
}

fn letters((reader, now): Looking<'_>) -> Result<Finding, Failure> {
    let unreadable = reader.status(now)?.unreadable;

    Ok(if unreadable == 0 {
        Finding::well("unreadable")
    } else {
        Finding::off(
            "unreadable",
            format!("unreadable dead letters: {unreadable}; `dead purge` deletes them"),
        )
    })
}
