//! When to renew the leases of this process, and which lanes to ask for. Pure: it says what to do, and is told.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::engine::{LaneId, Nanos, StoreTime};
use crate::store::command::{Acquire, Renew, Which};
use crate::store::lane::OwnerId;

/// How long a lease is unless the operator says otherwise.
pub const LEASE_DEFAULT: Nanos = Nanos::from_secs(30);
/// How long a lease may be.
pub const LEASES: RangeInclusive<Nanos> = Nanos::SECOND..=Nanos::HOUR;
/// Lanes asked for at once: so many rows are written in one commit.
const ACQUIRE_MAX: u32 = 1_000;

/// One thing to ask of the store.
#[derive(Debug)]
pub(super) enum Step {
    /// Stay the owner of what is owned.
    Renew(Renew),
    /// Become the owner of more.
    Acquire(Acquire),
}

/// Which lanes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    /// Those that are wanted.
    Wanted,
    /// All that have something to do, from one lane on.
    Search,
}

/// One process's hold on its lanes.
#[derive(Debug)]
pub(super) struct Tenure {
    owner: OwnerId,
    lease: Nanos,
    /// Lanes that have something to do and belong to nobody that we know of.
    wanted: BTreeSet<LaneId>,
    /// The request for lanes that is on its way.
    asking: Option<Asking>,
    /// What was asked for last: searches and what is wanted take turns.
    last: Asking,
    /// A search is under way, and goes on behind this lane.
    searched_to: Option<LaneId>,
    renewing: bool,
    /// What is owned is kept until it is given back; nothing more is asked for.
    stopping: bool,
    next_renewal: StoreTime,
    next_search: StoreTime,
}

impl Tenure {
    /// Begins by asking for all lanes that have something to do.
    pub(super) fn new(owner: OwnerId, lease: Nanos, now: StoreTime) -> Self {
        Self {
            owner,
            lease,
            wanted: BTreeSet::new(),
            asking: None,
            last: Asking::Wanted,
            searched_to: None,
            renewing: false,
            stopping: false,
            next_renewal: StoreTime(now.0 + lease.0 / 3),
            next_search: now,
        }
    }

    /// A lane that is not ours has something to do.
    pub(super) fn want(&mut self, lane: LaneId) {
        self.wanted.insert(lane);
    }

    /// The process is to end.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether a request for lanes is on its way: what it brings has to be given back.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// The answer to a request for lanes.
    pub(super) fn acquired(&mut self, lanes: &[LaneId]) {
        if self.asking.take() == Some(Asking::Search) {
            // Lanes that are handed back at once are free again: a search must not come back to them.
            let is_full = lanes.len() >= ACQUIRE_MAX as usize;
            self.searched_to = lanes.iter().max().copied().filter(|_| is_full);
        }
    }

    /// Whether the lane was still to be asked for. It no longer is.
    pub(super) fn is_wanted_no_more(&mut self, lane: LaneId) -> bool {
        self.wanted.remove(&lane)
    }

    /// The leases were renewed, as asked for at that moment.
    pub(super) fn renewed(&mut self, asked: StoreTime) {
        self.renewing = false;
        self.next_renewal = StoreTime(asked.0 + self.lease.0 / 3);
    }

    /// The leases could not be renewed: try again soon.
    pub(super) fn not_renewed(&mut self, now: StoreTime) {
        self.renewing = false;
        self.next_renewal = StoreTime(now.0 + self.lease.0 / 30);
    }

    /// Until when a lease holds that was asked for at that moment.
    pub(super) fn until(&self, asked: StoreTime) -> StoreTime {
        StoreTime(asked.0.saturating_add(self.lease.0))
    }

    /// When there is a next step, if nothing happens before.
    pub(super) fn next_step(&self) -> StoreTime {
        let renewal = if self.renewing { StoreTime(u64::MAX) } else { self.next_renewal };
        let more = self.searched_to.is_some() || !self.wanted.is_empty();
        let search = match (self.is_asking() || self.stopping, more) {
            (true, _) => StoreTime(u64::MAX),
            (false, true) => StoreTime(0),
            (false, false) => self.next_search,
        };
        renewal.min(search)
    }

    /// What to ask of the store now.
    pub(super) fn steps(&mut self, now: StoreTime) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.renewing && self.next_renewal <= now {
            self.renewing = true;
            steps.push(Step::Renew(Renew { owner: self.owner, lease: self.lease, announce: None }));
        }
        if !self.is_asking()
            && !self.stopping
            && let Some(which) = self.which(now)
        {
            let (owner, lease) = (self.owner, self.lease);
            steps.push(Step::Acquire(Acquire { owner, lease, which, homes: None, max: ACQUIRE_MAX }));
        }
        steps
    }

    /// Which lanes to ask for, if any.
    fn which(&mut self, now: StoreTime) -> Option<Which> {
        let searches = self.searched_to.is_some() || self.next_search <= now;
        let asking = match (searches, self.wanted.is_empty()) {
            (false, true) => return None,
            (true, true) => Asking::Search,
            (false, false) => Asking::Wanted,
            (true, false) if self.last == Asking::Wanted => Asking::Search,
            (true, false) => Asking::Wanted,
        };
        (self.asking, self.last) = (Some(asking), asking);
        Some(match asking {
            Asking::Search => {
                if self.searched_to.is_none() {
                    // Once in a while for those whose owner has died without a word.
                    self.next_search = StoreTime(now.0 + self.lease.0 / 3);
                }
                Which::WithWork { after: self.searched_to.take().unwrap_or(LaneId(0)) }
            }
            Asking::Wanted => {
                let rest = self.wanted.iter().nth(ACQUIRE_MAX as usize).copied();
                let rest = rest.map(|first| self.wanted.split_off(&first)).unwrap_or_default();
                Which::These(std::mem::replace(&mut self.wanted, rest).into_iter().collect())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Nanos = Nanos::from_secs(30);

    fn tenure() -> Tenure {
        let mut tenure = Tenure::new(OwnerId(1), LEASE, StoreTime(0));
        assert!(matches!(
            tenure.steps(StoreTime(0))[..],
            [Step::Acquire(Acquire { which: Which::WithWork { after: LaneId(0) }, .. })]
        ));
        tenure
    }

    fn lanes(lanes: std::ops::RangeInclusive<u64>) -> Vec<LaneId> {
        lanes.map(LaneId).collect()
    }

    #[test]
    fn renews_each_third_of_a_lease_and_not_twice_at_once() {
        let mut tenure = tenure();
        let third = StoreTime::from_secs(10);
        assert_eq!(tenure.next_step(), third);
        assert!(matches!(tenure.steps(third)[..], [Step::Renew(_)]));
        assert!(tenure.steps(StoreTime::from_secs(25)).is_empty());
        tenure.renewed(third);
        assert_eq!(tenure.next_step(), StoreTime::from_secs(20));
    }

    #[test]
    fn asks_for_what_is_wanted_in_requests_of_bounded_size() {
        let mut tenure = tenure();
        (0..1_500).for_each(|lane| tenure.want(LaneId(lane)));
        assert!(tenure.steps(StoreTime(1)).is_empty(), "one request at a time");
        tenure.acquired(&[]);
        for expected in [1_000, 500] {
            assert_eq!(tenure.next_step(), StoreTime(0));
            let steps = tenure.steps(StoreTime(1));
            let [Step::Acquire(Acquire { which: Which::These(asked), .. })] = &steps[..] else {
                panic!("{steps:?}")
            };
            assert_eq!(asked.len(), expected);
            tenure.acquired(asked);
        }
        assert!(tenure.steps(StoreTime(1)).is_empty());
    }

    #[test]
    fn on_its_way_out_it_keeps_what_it_owns_asks_for_no_more_and_sleeps_in_between() {
        let mut tenure = tenure();
        tenure.acquired(&lanes(1..=1_000));
        tenure.want(LaneId(1));
        tenure.stop();
        let third = StoreTime::from_secs(10);
        assert_eq!(tenure.next_step(), third);
        assert!(tenure.steps(StoreTime::from_secs(9)).is_empty());
        assert!(matches!(tenure.steps(third)[..], [Step::Renew(_)]));
        assert_eq!(tenure.next_step(), StoreTime(u64::MAX));
        tenure.renewed(third);
        assert_eq!(tenure.next_step(), StoreTime::from_secs(20));
    }

    #[test]
    fn a_search_goes_on_behind_what_it_found_and_ends_with_a_page_that_is_not_full() {
        let mut tenure = tenure();
        tenure.acquired(&lanes(1..=1_000));
        assert_eq!(tenure.next_step(), StoreTime(0));
        assert!(matches!(
            tenure.steps(StoreTime(1))[..],
            [Step::Acquire(Acquire { which: Which::WithWork { after: LaneId(1_000) }, .. })]
        ));
        tenure.acquired(&lanes(1_001..=1_007));
        assert!(tenure.steps(StoreTime(1)).is_empty());
        assert!(matches!(
            tenure.steps(StoreTime::from_secs(10))[..],
            [Step::Renew(_), Step::Acquire(Acquire { which: Which::WithWork { after: LaneId(0) }, .. })]
        ));
    }

    #[test]
    fn neither_a_long_search_nor_what_is_wanted_again_and_again_keeps_the_other_waiting() {
        let mut tenure = tenure();
        let mut asked = Vec::new();
        for page in 0..3 {
            tenure.acquired(&lanes(page * 1_000 + 1..=page * 1_000 + 1_000));
            tenure.want(LaneId(9_999));
            for _ in 0..2 {
                let [Step::Acquire(Acquire { which, .. })] = &tenure.steps(StoreTime(1))[..] else {
                    panic!("nothing is asked for")
                };
                asked.push(matches!(which, Which::These(_)));
                if asked.last() == Some(&true) {
                    tenure.acquired(&[]);
                }
            }
        }
        assert_eq!(asked, [true, false, true, false, true, false]);
    }
}
