//! What has to be done now and then: give up what has expired, delete what was kept long enough. In small steps, with
//! other commands between them, so that delivery never waits for it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::clock::Clock;
use super::link::commit;
use crate::engine::{Nanos, WallTime};
use crate::store::command::{Command, Purge, Sweep};
use crate::store::reply::Reply;
use crate::store::thread::Handle;

/// How often to look for something to do.
const EVERY: Duration = Duration::from_millis(500);
/// Rows in one step: what one commit writes in about a millisecond.
const STEP_ROWS: u32 = 500;

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

/// Sweeps and purges until told to stop.
pub(super) async fn keep_up(
    store: Handle,
    clock: Clock,
    retention: Retention,
    mut stop: watch::Receiver<bool>,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => return,
        }
        let now = clock.now();
        let before = |kept: Nanos| WallTime(now.0.saturating_sub(kept.0));
        let purge = Purge {
            settled_before: before(retention.settled),
            attempts_before: before(retention.attempts),
            dead_before: before(retention.dead),
            max: STEP_ROWS,
        };
        for command in [Command::Sweep(Sweep { max: STEP_ROWS }), Command::Purge(purge)] {
            let mut more = true;
            while more {
                // A store in trouble answers no sooner than it is told to stop, which comes after this.
                more = tokio::select! {
                    more = step(&store, command.clone()) => more,
                    _ = stop.changed() => return,
                };
            }
        }
    }
}

/// One step. True if there may be more to do.
async fn step(store: &Handle, command: Command) -> bool {
    match commit(store, command).await {
        Ok(Reply::Swept(swept)) => {
            if swept.expired + swept.gone > 0 {
                info!(expired = swept.expired, gone = swept.gone, "gave up deliveries");
            }
            swept.more
        }
        Ok(Reply::Purged(purged)) => purged.more,
        Ok(other) => {
            warn!(?other, "the store answered upkeep with something else");
            false
        }
        Err(_) => false,
    }
}
