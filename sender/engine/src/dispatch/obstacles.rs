//! Failed store operations and their retries.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, StoreTime};

/// The first pause after a failure; each further one is twice as long.
pub(super) const PAUSE_FIRST: Nanos = Nanos::from_millis(100);
/// A lane waits at most this long after the cause is repaired.
pub const PAUSE_LONGEST: Nanos = Nanos::MINUTE;
pub const STUCK_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub lane: LaneId,
    pub why: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// A claim. The engine retries it.
    Claim,
    Settle(u64),
    Persist,
}

#[derive(Debug)]
struct Obstacle {
    tries: u32,
    again: StoreTime,
    why: Arc<str>,
}

/// The engine bounds the unconfirmed settlements, and each lane adds at most two.
#[derive(Debug, Default)]
pub(super) struct Obstacles {
    known: BTreeMap<(LaneId, Cause), Obstacle>,
    /// The dispatcher's own retries: at most one for each operation, ordered by time.
    planned: BTreeMap<(LaneId, Cause), StoreTime>,
    due: BTreeSet<(StoreTime, LaneId, Cause)>,
}

impl Obstacles {
    /// Counts a failure. Returns the moment of the retry, and true if the lane had no other failure.
    pub(super) fn meet(
        &mut self,
        now: StoreTime,
        lane: LaneId,
        cause: Cause,
        why: Arc<str>,
    ) -> (StoreTime, bool) {
        let is_new = self.known.range(all_of(lane)).next().is_none();
        let tries = self.known.get(&(lane, cause)).map_or(0, |known| known.tries);
        let again = now + pause(tries);
        self.known.insert((lane, cause), Obstacle { tries: tries.saturating_add(1), again, why });
        if cause != Cause::Claim {
            self.plan(again, lane, cause);
        }
        (again, is_new)
    }

    /// The store had no room, which is no failure of the lane: the retry comes soon.
    pub(super) fn put_off(&mut self, now: StoreTime, lane: LaneId, cause: Cause) {
        self.plan(now + PAUSE_FIRST, lane, cause);
    }

    fn plan(&mut self, at: StoreTime, lane: LaneId, cause: Cause) {
        self.unplan(lane, cause);
        self.planned.insert((lane, cause), at);
        self.due.insert((at, lane, cause));
    }

    /// Cancels a retry: a newer one follows, or the operation is over.
    pub(super) fn unplan(&mut self, lane: LaneId, cause: Cause) {
        if let Some(at) = self.planned.remove(&(lane, cause)) {
            self.due.remove(&(at, lane, cause));
        }
    }

    /// The operation succeeded or is no longer wanted. Returns true if it was the lane's last failure.
    pub(super) fn pass(&mut self, lane: LaneId, cause: Cause) -> bool {
        self.unplan(lane, cause);
        self.known.remove(&(lane, cause)).is_some() && self.known.range(all_of(lane)).next().is_none()
    }

    pub(super) fn take_due(&mut self, now: StoreTime) -> Option<(LaneId, Cause)> {
        let (_, lane, cause) = *self.due.first().filter(|(at, ..)| *at <= now)?;
        self.unplan(lane, cause);
        Some((lane, cause))
    }

    pub(super) fn hurry(&mut self) {
        for (_, lane, cause) in std::mem::take(&mut self.due) {
            self.plan(StoreTime::START, lane, cause);
        }
    }

    pub(super) fn next_due(&self) -> StoreTime {
        self.due.first().map_or(StoreTime::NEVER, |(at, ..)| *at)
    }

    /// The end of the lane's pause in claims: its last claim failed, or settlements are unwritten. A restart
    /// would repeat the deliveries of unwritten settlements.
    pub(super) fn claims_wait_until(&self, now: StoreTime, lane: LaneId) -> Option<StoreTime> {
        let until = |((_, cause), obstacle): (&(LaneId, Cause), &Obstacle)| match cause {
            Cause::Claim => obstacle.again,
            // It is not due while it is retried.
            Cause::Settle(_) => obstacle.again.max(now + PAUSE_FIRST),
            Cause::Persist => StoreTime::START,
        };
        self.known.range(all_of(lane)).map(until).max().filter(|until| *until > now)
    }

    /// Blocked lanes in ascending order, each with its first failure.
    pub(super) fn stuck(&self) -> impl Iterator<Item = Stuck> {
        let mut before = None;
        let first = self.known.iter().filter(move |((lane, _), _)| before.replace(*lane) != Some(*lane));
        first.map(|((lane, _), obstacle)| Stuck { lane: *lane, why: Arc::clone(&obstacle.why) })
    }
}

fn all_of(lane: LaneId) -> RangeInclusive<(LaneId, Cause)> {
    (lane, Cause::Claim)..=(lane, Cause::Persist)
}

fn pause(tries: u32) -> Nanos {
    let doubled = PAUSE_FIRST.0.saturating_mul(1_u64.checked_shl(tries).unwrap_or(u64::MAX));
    Nanos(doubled).min(PAUSE_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId(7);

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [0, 1, 2, 9, 10, 63, 64, u32::MAX].map(|tries| pause(tries).0 / 1_000_000);
        assert_eq!(pauses, [100, 200, 400, 51_200, 60_000, 60_000, 60_000, 60_000]);
    }

    #[test]
    fn a_lane_is_stuck_from_its_first_obstacle_to_its_last() {
        let mut obstacles = Obstacles::default();
        assert!(obstacles.meet(StoreTime(0), LANE, Cause::Settle(1), "a".into()).1);
        assert!(!obstacles.meet(StoreTime(0), LANE, Cause::Persist, "b".into()).1, "it was stuck already");
        assert_eq!(obstacles.stuck().collect::<Vec<_>>(), [Stuck { lane: LANE, why: "a".into() }]);
        assert!(!obstacles.pass(LANE, Cause::Settle(1)));
        assert!(obstacles.pass(LANE, Cause::Persist));
        assert!(!obstacles.pass(LANE, Cause::Persist), "it was not stuck any more");
    }

    #[test]
    fn claims_wait_for_settlements_but_not_for_a_record() {
        let mut obstacles = Obstacles::default();
        let (again, _) = obstacles.meet(StoreTime(0), LANE, Cause::Settle(1), "a".into());
        obstacles.meet(StoreTime(0), LaneId(8), Cause::Persist, "b".into());
        assert_eq!(obstacles.claims_wait_until(StoreTime(0), LANE), Some(again));
        assert_eq!(obstacles.claims_wait_until(StoreTime(0), LaneId(8)), None);
        assert_eq!(obstacles.take_due(again), Some((LANE, Cause::Settle(1))));
        assert!(obstacles.claims_wait_until(again, LANE).is_some(), "it is being tried, and not done");
        obstacles.pass(LANE, Cause::Settle(1));
        assert_eq!(obstacles.claims_wait_until(again, LANE), None);
    }
}
