//! What has to be done now and then: give up what has expired, delete what was kept long enough. In small steps, with
//! other commands between them, so that delivery never waits for it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::clock::Clock;
use super::link::commit;
use crate::dispatch::WorkDone;
use crate::engine::{Nanos, StoreTime};
use crate::store::command::{Command, Purge, Sweep};
use crate::store::reply::Reply;
use crate::store::thread::Handle;

/// How often to look for something to do.
const EVERY: Duration = Duration::from_millis(500);
/// Rows in one step: what one commit writes in about a millisecond.
pub const UPKEEP_ROWS: u32 = 500;
/// Steps of each kind in a row: what comes then waits for the next look.
const STEPS_MAX: u32 = 64;
/// Of those, the ones that may look at what is kept and find nothing to do.
const FRUITLESS_STEPS_MAX: u32 = 4;
/// How long to wait, when it is told to stop, for what the step under way did.
const LAST_STEP: Duration = Duration::from_secs(1);

/// For how long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events, once all their deliveries are delivered. At least the longest dedupe window.
    pub settled: Nanos,
    /// The record of attempts.
    pub attempts: Nanos,
    /// Dead letters.
    pub dead: Nanos,
}

impl Default for Retention {
    /// A day, a week, a month.
    fn default() -> Self {
        Self { settled: Nanos::DAY, attempts: Nanos::DAY.times(7), dead: Nanos::DAY.times(30) }
    }
}

/// Sweeps and purges until told to stop. What is given up is added to what this process has done.
pub(super) async fn keep_up(
    store: Handle,
    clock: Clock,
    retention: Retention,
    work_done: Arc<Mutex<WorkDone>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => return,
        }
        let mut round = Round::new(upkeep_due(&retention, clock.now(), UPKEEP_ROWS));
        let mut done = None;
        while let Some(command) = round.next(done) {
            let step = step(&store, command);
            tokio::pin!(step);
            let stopped;
            (done, stopped) = tokio::select! {
                biased;
                done = &mut step => (Some(done), false),
                // A store in trouble answers no sooner than it is told to stop, which comes after this.
                _ = stop.changed() => (timeout(LAST_STEP, step).await.ok(), true),
            };
            let dead = done.as_ref().map_or(0, |done| done.given_up);
            let given_up = WorkDone { dead, ..WorkDone::default() };
            work_done.lock().unwrap_or_else(PoisonError::into_inner).add(given_up);
            if stopped {
                return;
            }
        }
    }
}

/// What there may be to do at that time, so many rows in one step.
#[must_use]
pub fn upkeep_due(retention: &Retention, now: StoreTime, rows: u32) -> [Command; 2] {
    let before = |kept: Nanos| StoreTime(now.0.saturating_sub(kept.0));
    let purge = Purge {
        settled_before: before(retention.settled),
        attempts_before: before(retention.attempts),
        dead_before: before(retention.dead),
        max: rows,
    };
    [Command::Sweep(Sweep { max: rows }), Command::Purge(purge)]
}

/// Goes on with each command for as long as that gets something done. Purges go round and round over all that is kept:
/// where there is nothing to delete, they take few steps at a time, however much is kept.
struct Round {
    /// The next one last.
    commands: Vec<Command>,
    steps: u32,
    fruitless: u32,
}

impl Round {
    fn new(commands: [Command; 2]) -> Self {
        let mut commands = Vec::from(commands);
        commands.reverse();
        Self { commands, steps: 0, fruitless: 0 }
    }

    /// What to do next, now that the last step, if there was one, did that.
    fn next(&mut self, done: Option<Step>) -> Option<Command> {
        if let Some(done) = done {
            self.steps += 1;
            self.fruitless += u32::from(done.rows == 0);
            if !done.more || self.steps >= STEPS_MAX || self.fruitless >= FRUITLESS_STEPS_MAX {
                self.commands.pop();
                (self.steps, self.fruitless) = (0, 0);
            }
        }
        self.commands.last().cloned()
    }
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    rows: u64,
    /// Deliveries that became dead letters.
    given_up: u64,
    /// There may be more to do.
    more: bool,
}

impl Step {
    /// What a reply says of it.
    fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Swept(swept) => {
                let given_up = swept.expired + swept.gone;
                Self { rows: given_up + swept.corrected, given_up, more: swept.more }
            }
            Reply::Purged(purged) => {
                let rows = purged.events + purged.deliveries + purged.attempts + purged.dead;
                Self { rows, given_up: 0, more: purged.more }
            }
            other => {
                warn!(?other, "the store answered upkeep with something else");
                Self::default()
            }
        }
    }
}

async fn step(store: &Handle, command: Command) -> Step {
    // The store's own thread says what is wrong with it.
    let Ok(reply) = commit(store, command).await else { return Step::default() };
    if let Reply::Swept(swept) = &reply
        && swept.expired + swept.gone > 0
    {
        info!(expired = swept.expired, gone = swept.gone, "gave up deliveries");
    }
    Step::of(&reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::LaneId;
    use crate::store::command::{Body, Emit, Shed, Subscribe, Target};
    use crate::store::lane::{Bounds, Secret, WhenFull};
    use crate::store::{Database, Durability, Store};

    const NOW: StoreTime = StoreTime::from_secs(1_700_000_000);
    const LETTERS: u32 = 5_000;

    fn after(length: Nanos) -> StoreTime {
        StoreTime(NOW.0 + length.0)
    }

    /// A store that keeps so many dead letters, each of an event of its own.
    fn with_letters(database: &Database) -> Box<dyn Store> {
        let mut store = database.parts().writer(Durability::default(), 1).unwrap();
        let subscribe = Command::Subscribe(Subscribe {
            id: "sub_1".into(),
            name: "partner".into(),
            url: "https://partner.example".into(),
            patterns: "[\"*\"]".into(),
            settings: "{}".into(),
            bounds: Bounds { rows_max: 10_000, bytes_max: 1 << 20, when_full: WhenFull::Refuse },
            secret: Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        });
        store.commit(NOW, &[subscribe]).unwrap();
        let lane = LaneId(1);
        let emit = |number: u32| {
            let target = Target {
                lane,
                body: 0,
                due: NOW,
                expires: after(Nanos::HOUR),
                dedupe: Nanos::ZERO,
                coalesce: None,
                signature: None,
            };
            Command::Emit(Emit {
                roster: 1,
                id: number.to_string().into(),
                id_is_new: false,
                kind: "a".into(),
                key: None,
                received: NOW,
                bodies: vec![Body { bytes: b"1".to_vec().into() }],
                targets: vec![target],
                atomic: false,
                withheld: false,
                outbox: None,
            })
        };
        store.commit(NOW, &(0..LETTERS).map(emit).collect::<Vec<_>>()).unwrap();
        store.commit(NOW, &[Command::Shed(Shed { lane, max: LETTERS })]).unwrap();
        store
    }

    /// The steps that one round takes, and the rows that it deletes.
    fn round_at(store: &mut dyn Store, now: StoreTime) -> (u32, u64) {
        let (mut steps, mut rows) = (0, 0);
        let (mut round, mut done) = (Round::new(upkeep_due(&Retention::default(), now, UPKEEP_ROWS)), None);
        while let Some(command) = round.next(done) {
            let step = Step::of(&store.commit(now, &[command]).unwrap()[0]);
            steps += 1;
            rows += step.rows;
            done = Some(step);
        }
        (steps, rows)
    }

    #[test]
    fn what_is_kept_costs_a_few_steps_however_much_it_is_and_goes_when_its_time_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = with_letters(&folder.path().join("store.db").into());
        // Their events are older than a day, and they are not older than a month: all are looked at, none goes.
        for tick in 0..100 {
            let (steps, rows) = round_at(&mut *store, after(Nanos::DAY.times(2)));
            assert_eq!(rows, 0);
            assert!(steps <= 1 + FRUITLESS_STEPS_MAX, "{steps} steps in round {tick}");
        }
        let mut gone = 0;
        for _ in 0..100 {
            gone += round_at(&mut *store, after(Nanos::DAY.times(31))).1;
        }
        assert_eq!(gone, 2 * u64::from(LETTERS), "all letters and their events");
    }
}
