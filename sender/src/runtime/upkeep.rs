//! Gives up expired deliveries, ends pauses, and deletes old rows. Small steps leave room for other commands.

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

const EVERY: Duration = Duration::from_millis(500);
/// Polls to wait after a command found nothing, so that an idle process leaves its store alone.
const LOOKS_WHERE_IDLE: [u32; 2] = [2, 10];
/// One commit writes so many in about a millisecond.
pub const UPKEEP_ROWS: u32 = 500;
/// The rest waits for the next poll.
const STEPS_MAX: u32 = 64;
const FRUITLESS_STEPS_MAX: u32 = 4;
const LAST_STEP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Events without open deliveries. At least the longest dedupe window.
    pub settled: Nanos,
    pub attempts: Nanos,
    /// Dead letters.
    pub dead: Nanos,
    /// The log of changes.
    pub changes: Nanos,
}

impl Default for Retention {
    /// A day, a week, a month, a year.
    fn default() -> Self {
        Self {
            settled: Nanos::DAY,
            attempts: Nanos::DAY.times(7),
            dead: Nanos::DAY.times(30),
            changes: Nanos::DAY.times(365),
        }
    }
}

pub(super) async fn run_maintenance(
    store: Handle,
    clock: Clock,
    retention: Retention,
    work_done: Arc<Mutex<WorkDone>>,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks_until = [0; 2];
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => return,
        }
        let due = upkeep_due(&retention, clock.now(), UPKEEP_ROWS);
        for ((command, looks_until), where_idle) in
            due.into_iter().zip(&mut looks_until).zip(LOOKS_WHERE_IDLE)
        {
            if *looks_until > 0 {
                *looks_until -= 1;
                continue;
            }
            let mut steps = Steps::default();
            while steps.go_on() {
                let step = step(&store, command.clone());
                tokio::pin!(step);
                let (done, stopped) = tokio::select! {
                    biased;
                    done = &mut step => (done, false),
                    // A failing store answers only once it is stopped, which is after this task.
                    _ = stop.changed() => (timeout(LAST_STEP, step).await.unwrap_or_default(), true),
                };
                let given_up = WorkDone { dead: done.given_up, ..WorkDone::default() };
                work_done.lock().unwrap_or_else(PoisonError::into_inner).add(given_up);
                if stopped {
                    return;
                }
                steps.record_step(done);
            }
            if steps.found_nothing() {
                *looks_until = where_idle - 1;
            }
        }
    }
}

/// The commands due at `now`, for at most `rows` rows each.
#[must_use]
pub fn upkeep_due(retention: &Retention, now: StoreTime, rows: u32) -> [Command; 2] {
    let before = |kept: Nanos| StoreTime(now.0.saturating_sub(kept.0));
    let purge = Purge {
        settled_before: before(retention.settled),
        attempts_before: before(retention.attempts),
        dead_before: before(retention.dead),
        changes_before: before(retention.changes),
        max: rows,
    };
    [Command::Sweep(Sweep { max: rows }), Command::Purge(purge)]
}

/// Where no row is old enough, a purge takes few steps at a time.
#[derive(Default)]
struct Steps {
    done: u32,
    fruitless: u32,
    last: Option<Step>,
}

impl Steps {
    fn go_on(&self) -> bool {
        self.last.is_none_or(|last| last.more)
            && self.done < STEPS_MAX
            && self.fruitless < FRUITLESS_STEPS_MAX
    }

    fn record_step(&mut self, done: Step) {
        self.done += 1;
        self.fruitless += u32::from(done.rows == 0);
        self.last = Some(done);
    }

    /// Whether all rows were checked and none was due.
    fn found_nothing(&self) -> bool {
        self.fruitless == self.done && self.last.is_some_and(|last| !last.more)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    rows: u64,
    given_up: u64,
    more: bool,
}

impl Step {
    fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Swept(swept) => {
                let given_up = swept.expired + swept.gone;
                Self { rows: given_up + swept.resumed + swept.corrected, given_up, more: swept.more }
            }
            Reply::Purged(purged) => {
                let rows = purged.events + purged.deliveries + purged.attempts + purged.dead;
                Self { rows, given_up: 0, more: purged.more }
            }
            other => {
                warn!(?other, "the database gave maintenance an unexpected answer");
                Self::default()
            }
        }
    }
}

async fn step(store: &Handle, command: Command) -> Step {
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
                notifies: None,
            })
        };
        store.commit(NOW, &(0..LETTERS).map(emit).collect::<Vec<_>>()).unwrap();
        store.commit(NOW, &[Command::Shed(Shed { lane, max: LETTERS })]).unwrap();
        store
    }

    /// For each command its steps, its rows, and whether it found nothing.
    fn count_steps(store: &mut dyn Store, now: StoreTime) -> [(u32, u64, bool); 2] {
        upkeep_due(&Retention::default(), now, UPKEEP_ROWS).map(|command| {
            let (mut steps, mut rows) = (Steps::default(), 0);
            while steps.go_on() {
                let step = Step::of(&store.commit(now, std::slice::from_ref(&command)).unwrap()[0]);
                rows += step.rows;
                steps.record_step(step);
            }
            (steps.done, rows, steps.found_nothing())
        })
    }

    #[test]
    fn retention_takes_a_few_steps_for_any_amount_and_deletes_on_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = with_letters(&folder.path().join("store.db").into());
        // All are checked, none is deleted.
        for tick in 0..100 {
            let [_, (steps, rows, _)] = count_steps(&mut *store, after(Nanos::DAY.times(2)));
            assert_eq!(rows, 0);
            assert!(steps <= FRUITLESS_STEPS_MAX, "{steps} steps at look {tick}");
        }
        let purges: Vec<_> =
            (0..100).map(|_| count_steps(&mut *store, after(Nanos::DAY.times(31)))[1]).collect();
        let gone: u64 = purges.iter().map(|(_, rows, _)| rows).sum();
        assert_eq!(gone, 2 * u64::from(LETTERS), "all letters and their events");
        let last = purges.iter().rposition(|(_, rows, _)| *rows > 0).unwrap();
        assert!(purges[..=last].iter().all(|(.., nothing)| !nothing), "the next look goes on with it");
        assert!(purges[last + 1..].iter().all(|(.., nothing)| *nothing), "nothing is left to look for");
    }
}
