use serde_json::{Value, json};

use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::StoreError;
use crate::store::lane::{Counts, Limits};
use crate::store::read::Reader;

/// The effect as of now; deliveries and events go on meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) waiting: u64,
    /// Those that this process has claimed, which are still sent.
    pub(crate) claimed: u64,
    pub(crate) would_shed: u64,
    /// The newest delivery.
    pub(crate) last: DeliveryId,
    /// Deleted, because the number of dead letters is bounded.
    pub(crate) would_forget: u64,
}

impl Plan {
    pub(crate) fn read(
        reader: &dyn Reader,
        now: StoreTime,
        lane: LaneId,
        claimed: u64,
        max: u64,
    ) -> Result<Self, StoreError> {
        let all = reader.status(now)?.counts;
        let counts = reader.lane(lane)?.map(|lane| lane.counts).unwrap_or_default();
        Ok(Self { last: reader.glance()?.last, ..Self::of(&counts, &all, claimed, max) })
    }

    fn of(counts: &Counts, all: &Counts, claimed: u64, max: u64) -> Self {
        let limits = Limits::default();
        let claimed = claimed.min(counts.waiting);
        let would_shed = (counts.waiting - claimed).min(max);
        let of_its_own = (counts.dead_kept + would_shed).saturating_sub(limits.dead_per_lane_max);
        let of_anybody = (all.dead_kept + would_shed - of_its_own).saturating_sub(limits.dead_max);
        Self {
            waiting: counts.waiting,
            claimed,
            would_shed,
            last: DeliveryId(0),
            would_forget: of_its_own + of_anybody,
        }
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "waiting": self.waiting,
            "claimed": self.claimed,
            "would_shed": self.would_shed,
            "would_forget": self.would_forget,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(waiting: u64, dead: u64, all_dead: u64, (claimed, max): (u64, u64), expected: (u64, u64)) {
        let counts = Counts { waiting, dead_kept: dead, ..Counts::default() };
        let all = Counts { dead_kept: all_dead, ..Counts::default() };
        let plan = Plan::of(&counts, &all, claimed, max);
        assert_eq!((plan.would_shed, plan.would_forget), expected);
        assert!(plan.claimed + plan.would_shed <= plan.waiting);
    }

    #[test]
    fn claimed_deliveries_and_those_beyond_the_maximum_stay() {
        check(100, 0, 0, (0, u64::MAX), (100, 0));
        check(100, 0, 0, (10, u64::MAX), (90, 0));
        check(100, 0, 0, (10, 40), (40, 0));
        check(5, 0, 0, (10, u64::MAX), (0, 0));
    }

    #[test]
    fn dead_letters_beyond_what_is_kept_are_told() {
        check(100_000, 0, 0, (0, u64::MAX), (100_000, 0));
        check(100_000, 1, 1, (0, u64::MAX), (100_000, 1));
        check(250_000, 0, 0, (0, u64::MAX), (250_000, 150_000));
        check(100, 0, 999_950, (0, u64::MAX), (100, 50));
        check(100, 100_000, 1_000_000, (0, u64::MAX), (100, 100));
    }
}
