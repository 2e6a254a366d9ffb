//! Lease renewals, announcements, and requests for lanes.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, StoreTime};
use crate::messages::command::{Acquire, LaneSelection, Renew};
use crate::messages::lane::OwnerId;
use crate::messages::node::{Announcement, Homes};

pub const LEASE_DEFAULT: Nanos = Nanos::from_secs(30);
pub const LEASES: RangeInclusive<Nanos> = Nanos::SECOND..=Nanos::HOUR;
/// A process leaves one part in this many of its lease unused.
const MARGIN: u64 = 50;
const RETIRE_TRIES: u8 = 3;
const RETIRE_PAUSE: Nanos = Nanos::from_millis(100);
/// Bounds the rows of a request's commit.
const ACQUIRE_MAX: u32 = 1_000;

#[derive(Debug)]
pub(super) enum Step {
    Renew(Renew),
    Acquire(Acquire),
    Retire(OwnerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    Wanted,
    Search,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process goes on.
    NotYet,
    /// Keeps its lanes until they are given back. Still a node.
    Begun,
    /// The request is on its way, after this many failures.
    Retiring { failures: u8 },
    /// Retries at that moment.
    Again { at: StoreTime, failures: u8 },
    /// It is no node.
    Retired,
    /// The store failed. Its lease must end, or another node finds it dead.
    GivenUp,
}

#[derive(Debug)]
pub(super) struct Tenure {
    owner: OwnerId,
    lease: Nanos,
    /// `is_news`: the store must hear it before the next renewal is due.
    said: Arc<Announcement>,
    is_news: bool,
    /// The homes of lanes; nothing is asked for without them.
    homes: Option<Arc<Homes>>,
    /// Lanes of ours with due work that we do not own.
    wanted: BTreeSet<LaneId>,
    asking: Option<Asking>,
    /// Searches and wanted lanes take turns.
    last: Asking,
    /// A search continues after this lane.
    searched_to: Option<LaneId>,
    renewing: bool,
    end: End,
    next_renewal: StoreTime,
    next_search: StoreTime,
}

impl Tenure {
    /// Announces first. Once it knows its lanes, it asks for all that have due work.
    pub(super) fn new(owner: OwnerId, lease: Nanos, said: Announcement, now: StoreTime) -> Self {
        Self {
            owner,
            lease,
            said: Arc::new(said),
            is_news: true,
            homes: None,
            wanted: BTreeSet::new(),
            asking: None,
            last: Asking::Wanted,
            searched_to: None,
            renewing: false,
            end: End::NotYet,
            next_renewal: now,
            next_search: now,
        }
    }

    pub(super) fn announce_change(&mut self, change: impl FnOnce(&mut Announcement)) {
        let mut said = Announcement::clone(&self.said);
        change(&mut said);
        if said != *self.said {
            (self.said, self.is_news) = (Arc::new(said), true);
        }
    }

    pub(super) fn go_by(&mut self, homes: Option<Arc<Homes>>) {
        self.homes = homes;
        self.search_soon();
    }

    pub(super) fn search_soon(&mut self) {
        self.next_search = StoreTime(0);
    }

    pub(super) fn want(&mut self, lane: LaneId) {
        self.wanted.insert(lane);
    }

    pub(super) fn stop(&mut self) {
        self.end = End::Begun;
    }

    pub(super) fn retired(&mut self) {
        self.end = End::Retired;
    }

    /// Retries a few times if `may_recover`.
    pub(super) fn not_retired(&mut self, now: StoreTime, may_recover: bool) {
        let End::Retiring { failures } = self.end else { return };
        let failures = failures + 1;
        self.end = if may_recover && failures < RETIRE_TRIES {
            End::Again { at: StoreTime(now.0.saturating_add(RETIRE_PAUSE.0)), failures }
        } else {
            End::GivenUp
        };
    }

    pub(super) fn has_retired(&self) -> bool {
        self.end == End::Retired
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.end, End::Retired | End::GivenUp)
    }

    /// True if a request for lanes is on its way, so its lanes must be given back.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    pub(super) fn acquired(&mut self, lanes: &[LaneId]) {
        if self.asking.take() == Some(Asking::Search) {
            // It would find again the lanes that are handed back at once.
            let is_full = lanes.len() >= ACQUIRE_MAX as usize;
            self.searched_to = lanes.iter().max().copied().filter(|_| is_full);
        }
    }

    /// Returns true if it was wanted.
    pub(super) fn is_wanted_no_more(&mut self, lane: LaneId) -> bool {
        self.wanted.remove(&lane)
    }

    pub(super) fn renewed(&mut self, asked: StoreTime) {
        self.renewing = false;
        self.next_renewal = StoreTime(asked.0 + self.lease.0 / 3);
    }

    pub(super) fn not_renewed(&mut self, now: StoreTime) {
        self.renewing = false;
        self.next_renewal = StoreTime(now.0 + self.lease.0 / 30);
    }

    /// The answer is needed before a renewal is due.
    pub(super) fn renew_soon(&mut self) {
        self.next_renewal = StoreTime(0);
    }

    /// The store counts longer, so that a new owner finds nothing open though timers are late and connections take a
    /// moment to close.
    pub(super) fn until(&self, asked: StoreTime) -> StoreTime {
        let lease = self.lease.0;
        StoreTime(asked.0.saturating_add(lease - lease / MARGIN))
    }

    pub(super) fn next_step(&self) -> StoreTime {
        let renewal = match (self.renewing, self.is_news && self.end == End::NotYet) {
            (true, _) => StoreTime(u64::MAX),
            (false, true) => StoreTime(0),
            (false, false) => self.next_renewal,
        };
        let more = self.searched_to.is_some() || !self.wanted.is_empty();
        let search = match (self.is_asking() || !self.may_ask(), more) {
            (true, _) => StoreTime(u64::MAX),
            (false, true) => StoreTime(0),
            (false, false) => self.next_search,
        };
        match self.end {
            End::Begun => StoreTime(0),
            End::Again { at, .. } => renewal.min(at),
            End::NotYet | End::Retiring { .. } | End::Retired | End::GivenUp => renewal.min(search),
        }
    }

    pub(super) fn steps(&mut self, now: StoreTime) -> Vec<Step> {
        let (owner, lease) = (self.owner, self.lease);
        let mut steps = Vec::new();
        let failures = match self.end {
            End::Begun => Some(0),
            End::Again { at, failures } if at <= now => Some(failures),
            _ => None,
        };
        if let Some(failures) = failures {
            self.end = End::Retiring { failures };
            steps.push(Step::Retire(owner));
        }
        let goes_on = self.end == End::NotYet;
        if !self.renewing && (self.next_renewal <= now || self.is_news && goes_on) {
            (self.renewing, self.is_news) = (true, false);
            let announce = goes_on.then(|| Arc::clone(&self.said));
            steps.push(Step::Renew(Renew { owner, lease, announce }));
        }
        if !self.is_asking()
            && self.may_ask()
            && let Some(which) = self.next_acquisition(now)
        {
            let homes = self.homes.clone();
            steps.push(Step::Acquire(Acquire { owner, lease, which, homes, max: ACQUIRE_MAX }));
        }
        steps
    }

    fn may_ask(&self) -> bool {
        self.end == End::NotYet && self.homes.is_some()
    }

    fn next_acquisition(&mut self, now: StoreTime) -> Option<LaneSelection> {
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
                    // Owners may have died in silence.
                    self.next_search = StoreTime(now.0 + self.lease.0 / 3);
                }
                LaneSelection::WithWork { after: self.searched_to.take().unwrap_or(LaneId(0)) }
            }
            Asking::Wanted => {
                let rest = self.wanted.iter().nth(ACQUIRE_MAX as usize).copied();
                let rest = rest.map(|first| self.wanted.split_off(&first)).unwrap_or_default();
                LaneSelection::These(std::mem::replace(&mut self.wanted, rest).into_iter().collect())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Nanos = Nanos::from_secs(30);

    /// After its announcement and its first search.
    fn tenure() -> Tenure {
        let said = Announcement {
            name: "node".into(),
            version: "1".into(),
            address: None,
            unable: Arc::default(),
            draining: false,
        };
        let mut tenure = Tenure::new(OwnerId(1), LEASE, said, StoreTime(0));
        assert!(matches!(tenure.steps(StoreTime(0))[..], [Step::Renew(Renew { announce: Some(_), .. })]));
        assert!(tenure.steps(StoreTime(1)).is_empty(), "it asks for nothing before it knows what is its own");
        assert_eq!(tenure.next_step(), StoreTime(u64::MAX));
        tenure.renewed(StoreTime(0));
        tenure.go_by(Some(Arc::default()));
        assert!(matches!(
            tenure.steps(StoreTime(0))[..],
            [Step::Acquire(Acquire {
                which: LaneSelection::WithWork { after: LaneId(0) },
                homes: Some(_),
                ..
            })]
        ));
        tenure
    }

    fn lanes(lanes: std::ops::RangeInclusive<u64>) -> Vec<LaneId> {
        lanes.map(LaneId).collect()
    }

    #[test]
    fn a_lease_ends_sooner_here_than_in_the_store() {
        let until = tenure().until(StoreTime::from_secs(100));
        assert_eq!(until, StoreTime(StoreTime::from_secs(130).0 - 600_000_000));
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
    fn a_changed_announcement_is_sent_at_once_and_an_unchanged_one_is_not() {
        let mut tenure = tenure();
        tenure.acquired(&[]);
        tenure.announce_change(|said| said.draining = false);
        assert!(tenure.steps(StoreTime(1)).is_empty());
        tenure.announce_change(|said| said.draining = true);
        assert_eq!(tenure.next_step(), StoreTime(0));
        assert!(matches!(
            &tenure.steps(StoreTime(1))[..],
            [Step::Renew(Renew { announce: Some(said), .. })] if said.draining
        ));
        // Retries after a pause, and does not spin.
        tenure.not_renewed(StoreTime(2));
        assert_eq!(tenure.next_step(), StoreTime(2 + LEASE.0 / 30));
    }

    #[test]
    fn nothing_is_asked_for_by_one_that_is_no_node_any_more() {
        let mut tenure = tenure();
        tenure.acquired(&lanes(1..=1_000));
        tenure.want(LaneId(1));
        tenure.go_by(None);
        assert!(tenure.steps(StoreTime(1)).is_empty());
        assert_eq!(tenure.next_step(), StoreTime::from_secs(10), "nor does it turn in circles for that");
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
            let [Step::Acquire(Acquire { which: LaneSelection::These(asked), .. })] = &steps[..] else {
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
        tenure.announce_change(|said| said.draining = true);
        tenure.stop();
        let third = StoreTime::from_secs(10);
        assert_eq!(tenure.next_step(), StoreTime(0));
        assert!(matches!(tenure.steps(StoreTime(2))[..], [Step::Retire(OwnerId(1))]));
        assert!(!tenure.has_retired());
        tenure.not_retired(StoreTime(2), true);
        let again = StoreTime(2 + RETIRE_PAUSE.0);
        assert!(tenure.steps(StoreTime(again.0 - 1)).is_empty());
        assert_eq!(tenure.next_step(), again);
        assert!(matches!(tenure.steps(again)[..], [Step::Retire(OwnerId(1))]));
        assert!(!tenure.is_over());
        tenure.retired();
        assert!(tenure.has_retired() && tenure.is_over());
        assert_eq!(tenure.next_step(), third);
        assert!(tenure.steps(StoreTime::from_secs(9)).is_empty());
        // Another announcement would make it a node again.
        assert!(matches!(tenure.steps(third)[..], [Step::Renew(Renew { announce: None, .. })]));
        assert_eq!(tenure.next_step(), StoreTime(u64::MAX));
        tenure.renewed(third);
        assert_eq!(tenure.next_step(), StoreTime::from_secs(20));
    }

    #[test]
    fn a_store_that_fails_to_have_it_retire_is_asked_a_few_times_and_then_left_alone() {
        let (mut tenure, mut now) = (tenure(), StoreTime(2));
        tenure.stop();
        for _ in 0..RETIRE_TRIES {
            assert!(!tenure.is_over());
            assert!(matches!(tenure.steps(now)[..], [Step::Retire(OwnerId(1))]));
            tenure.not_retired(now, true);
            now = StoreTime(now.0 + RETIRE_PAUSE.0);
        }
        assert!(tenure.steps(now).is_empty());
        assert!(tenure.is_over() && !tenure.has_retired());
        let mut tenure = self::tenure();
        tenure.stop();
        assert_eq!(tenure.steps(StoreTime(2)).len(), 1);
        tenure.not_retired(StoreTime(2), false);
        assert!(tenure.is_over() && !tenure.has_retired(), "it will not recover");
    }

    #[test]
    fn a_search_goes_on_behind_what_it_found_and_ends_with_a_page_that_is_not_full() {
        let mut tenure = tenure();
        tenure.acquired(&lanes(1..=1_000));
        assert_eq!(tenure.next_step(), StoreTime(0));
        assert!(matches!(
            tenure.steps(StoreTime(1))[..],
            [Step::Acquire(Acquire { which: LaneSelection::WithWork { after: LaneId(1_000) }, .. })]
        ));
        tenure.acquired(&lanes(1_001..=1_007));
        assert!(tenure.steps(StoreTime(1)).is_empty());
        assert!(matches!(
            tenure.steps(StoreTime::from_secs(10))[..],
            [
                Step::Renew(_),
                Step::Acquire(Acquire { which: LaneSelection::WithWork { after: LaneId(0) }, .. })
            ]
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
                asked.push(matches!(which, LaneSelection::These(_)));
                if asked.last() == Some(&true) {
                    tenure.acquired(&[]);
                }
            }
        }
        assert_eq!(asked, [true, false, true, false, true, false]);
    }
}
