use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::failure::Failure;
use super::jobs;
use super::options::{Common, Delivering, Reach, operating};
use super::print::{Printer, rough};
use super::session::{Look, PAGE_ROWS, WriteSession, each, user, with_session};
use super::signals::Signals;
use crate::dispatch::WorkDone;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::operate::flow_watch::watch_flow;
use crate::operate::jobs::shed_task;
use crate::operate::shed::Plan;
use crate::runtime::Sender;
use crate::store::Database;
use crate::store::job::JobState;
use crate::store::lane::{LaneState, OwnerId};
use crate::store::liveness::{Life, Liveness};
use crate::store::read::{Owner, Reader};

const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender drain --db sender.db --for 10s
  * * * * * hookproof sender drain --db /var/lib/hookproof/sender.db --for 55s      (crontab)

Ends early if no delivery falls due within the time. May run beside `serve` and other drains.")]
pub(super) struct Drain {
    /// How long to work at most; attempts under way at that point are finished
    #[arg(long = "for", value_name = "TIME", default_value = "10s")]
    span: Nanos,
    #[command(flatten)]
    delivering: Delivering,
}

impl Drain {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        if !(Nanos::from_millis(100)..=Nanos::DAY).contains(&self.span) {
            return Err(Failure::usage(format_args!("--for is {}; expected 100ms to 1d", self.span)));
        }
        let options = self.delivering.options(common.existing_database()?)?;
        let others = Arc::new(Others::of(&common.existing_database()?));
        let session = WriteSession::open(options, self.delivering.requests.settings()?)?;
        let (sender, clock) = (session.sender(), session.sender().clock());
        let begun = clock.now();
        let worked = session.wait(work(sender, begun, self.span, &others));
        let stopped = session.wait(sender.stop(Duration::from_nanos(self.delivering.stop_within.0)));
        let idle = worked?;
        let left = left(&*common.existing_database()?.parts().reader()?, &others)?;
        summarise(sender.work_done(), &left, clock.now().since(begun), idle, printer)?;
        if !stopped {
            return Err(Failure::refused(format_args!(
                "some attempts did not end within {} and were cut off; they will be made again",
                self.delivering.stop_within
            )));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Read before this process registers, since it learns of its own lanes with a delay.
struct Others {
    liveness: Arc<dyn Liveness>,
    before: BTreeMap<OwnerId, StoreTime>,
}

impl Others {
    fn of(database: &Database) -> Self {
        // Opening will report an error.
        let owners = Look::open(database).and_then(|look| Ok(look.reader.owners()?)).unwrap_or_default();
        let before = owners.into_iter().map(|owner| (owner.owner, owner.until)).collect();
        Self { liveness: database.parts().liveness(), before }
    }

    /// A killed process does not renew its lease.
    fn living(&self, owners: &[Owner]) -> BTreeSet<OwnerId> {
        let lives = |owner: &&Owner| {
            let is_renewed = self.before.get(&owner.owner).is_some_and(|until| owner.until > *until);
            match self.liveness.life_of(owner.owner) {
                Life::Alive => true,
                Life::Dead => false,
                Life::Unknown => is_renewed,
            }
        };
        let was_there = |owner: &&Owner| self.before.contains_key(&owner.owner);
        owners.iter().filter(was_there).filter(lives).map(|owner| owner.owner).collect()
    }
}

/// True if no work is left.
async fn work(sender: &Sender, begun: StoreTime, span: Nanos, others: &Arc<Others>) -> Result<bool, Failure> {
    let until = StoreTime(begun.0.saturating_add(span.0));
    let left = Duration::from_nanos(until.since(sender.clock().now()).0);
    let mut signals = Signals::new()?;
    Ok(tokio::select! {
        idle = timeout(left, idle(sender, until, others)) => idle.ok().transpose()?.is_some(),
        never = watch_flow(sender) => match never {},
        // A signal ends it early.
        () = signals.next() => false,
    })
}

/// Waits until this process can deliver nothing more before `until`.
async fn idle(sender: &Sender, until: StoreTime, others: &Arc<Others>) -> Result<(), Failure> {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let left = until.since(sender.clock().now());
        let views = sender.views().await;
        let held_back = views.iter().filter(|view| view.paused_for > left && view.in_flight == 0);
        let held_back = held_back.map(|view| view.lane).collect();
        let others = Arc::clone(others);
        if !sender.read(move |reader| has_work(reader, until, &others, &held_back)).await?? {
            return Ok(());
        }
    }
}

/// Whether a job runs, or a delivery is due before `until` for a subscriber without another living owner.
fn has_work(
    reader: &dyn Reader,
    until: StoreTime,
    others: &Others,
    held_back: &BTreeSet<LaneId>,
) -> Result<bool, Failure> {
    let others = others.living(&reader.owners()?);
    let jobs = reader.jobs(None).unwrap_or_default();
    let mut found = jobs.iter().any(|job| job.state == JobState::Running);
    if found {
        return Ok(true);
    }
    each(
        |from| reader.lanes(from, PAGE_ROWS),
        |lane| {
            let is_due = lane.next.is_some_and(|next| next < until);
            let may = lane.owner.is_none_or(|(owner, _)| !others.contains(&owner));
            found = lane.state == LaneState::Active && is_due && may && !held_back.contains(&lane.lane);
            Ok(!found)
        },
    )?;
    Ok(found)
}

#[derive(Debug, Default)]
struct Left {
    waiting: u64,
    others: u64,
    other_subscribers: u64,
}

fn left(reader: &dyn Reader, others: &Others) -> Result<Left, Failure> {
    let others = others.living(&reader.owners()?);
    let mut left = Left::default();
    each(
        |from| reader.lanes(from, PAGE_ROWS),
        |lane| {
            left.waiting += lane.counts.waiting;
            if lane.counts.waiting > 0 && lane.owner.is_some_and(|(owner, _)| others.contains(&owner)) {
                left.others += lane.counts.waiting;
                left.other_subscribers += 1;
            }
            Ok(true)
        },
    )?;
    Ok(left)
}

fn summarise(
    done: WorkDone,
    left: &Left,
    took: Nanos,
    idle: bool,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let WorkDone { delivered, failed_attempts, dead } = done;
    let Left { waiting, others, other_subscribers } = left;
    if printer.json {
        return printer.object(&json!({
            "delivered": delivered, "failed_attempts": failed_attempts, "dead": dead, "waiting": waiting,
            "waiting_for_other_processes": others, "took_ms": took.0 / 1_000_000, "nothing_left": idle,
        }));
    }
    let elsewhere = match other_subscribers {
        0 => String::new(),
        1 => format!(", {others} of them for 1 subscriber of another process"),
        count => format!(", {others} of them for {count} subscribers of other processes"),
    };
    let end = match (idle, others) {
        (true, 0) => "no more deliveries fall due in time",
        (true, _) => "no more deliveries of this process fall due in time",
        (false, _) => "the time of --for is over",
    };
    printer.line(format_args!(
        "drained for {}: delivered: {delivered}; failed attempts: {failed_attempts}; given up: {dead}; \
         waiting: {waiting}{elsewhere}; {end}",
        rough(took),
    ))
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender subscriber shed --db sender.db shop
  hookproof sender subscriber shed --db sender.db shop --max 10000 --yes
  hookproof sender subscriber shed --db sender.db shop --yes

Without --yes it only prints how many deliveries that would be. The longest due go first. They become dead letters (shed);
`dead redrive` makes them wait again. Deliveries that a running process has claimed already are still sent.")]
pub(super) struct Shed {
    /// Its name or id
    name: String,
    /// At most so many; by default, all that wait
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Give them up
    #[arg(long)]
    yes: bool,
}

impl Shed {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane = look.subscriber(&self.name)?.lane;
        let max = self.max.unwrap_or(u64::MAX);
        // Other processes' claims are unknown here.
        let plan = Plan::read(&*look.reader, look.now, lane, 0, max)?;
        if !self.yes {
            return self.print_plan(&plan, printer);
        }
        let (options, task) = (
            operating(common.existing_database()?, &Reach::default(), None)?,
            shed_task(lane, &plan, user()),
        );
        with_session(options, |session| jobs::carry_out(session, task, Some(&self.name), printer)).map(drop)
    }

    fn print_plan(&self, plan: &Plan, printer: &mut Printer) -> Result<(), Failure> {
        if printer.json {
            let mut shown = plan.to_json();
            shown["name"] = json!(self.name);
            return printer.object(&shown);
        }
        let Plan { waiting, would_shed, would_forget, .. } = plan;
        let name = &self.name;
        printer.line(format_args!(
            "{would_shed} of {waiting} waiting deliveries to {name} would become dead letters; repeat with \
             --yes to do it"
        ))?;
        if *would_forget == 0 {
            return Ok(());
        }
        printer.line(format_args!("oldest dead letters that would be deleted to make room: {would_forget}"))
    }
}
