//! The living nodes, and the lanes of ours that belong to other nodes.
//!
//! `docs/internals/leases.md` has the rules. At most [`MOVES_MAX`] lanes move at a time, so that the others go on
//! sending. A list of nodes says until when each lease lasts. After that a node counts as living until a newer list
//! comes. Leases may differ in length, so the store is asked at their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::messages::lane::OwnerId;
use crate::messages::node::{Homes, Node, Nodes};

pub const SETTLED_AFTER: Nanos = Nanos::SECOND;
pub const MOVES_MAX: usize = 32;
const ASK_EVERY: Nanos = Nanos::from_millis(250);

#[derive(Debug)]
pub(super) struct Membership {
    owner: OwnerId,
    nodes: Nodes,
    view: View,
    /// The next change of the view by time alone.
    next_change: StoreTime,
    /// The first end of another node's lease; `asked` is the store's last question for it.
    next_end: StoreTime,
    asked: StoreTime,
    /// Lanes of ours that belong to another node and have not begun to move.
    going: BTreeSet<LaneId>,
    /// Lanes that have begun to move, with the term that ends by it.
    moving: BTreeMap<LaneId, Term>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    /// The homes of lanes. Nothing while this process is no living node.
    homes: Option<Arc<Homes>>,
    /// True if an operator drains this node. Nothing while this process is no living node.
    draining: Option<bool>,
    /// Nodes that have lived long enough to be handed lanes.
    settled: BTreeSet<OwnerId>,
}

impl Membership {
    pub(super) fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            nodes: Nodes::default(),
            view: View::default(),
            next_change: StoreTime(u64::MAX),
            next_end: StoreTime(u64::MAX),
            asked: StoreTime(0),
            going: BTreeSet::new(),
            moving: BTreeMap::new(),
        }
    }

    /// Takes a list unless a newer one is known: polls and renewals bring lists by different ways.
    pub(super) fn update_nodes(&mut self, nodes: Nodes) {
        if !nodes.are_older_than(&self.nodes) {
            self.nodes = nodes;
            self.next_change = StoreTime(0);
        }
    }

    /// The next moment to look or ask, unless an event comes first.
    pub(super) fn next_step(&self) -> StoreTime {
        self.next_change.min(self.next_ask())
    }

    /// A process that is no node has no lanes to hand over, so it does not ask.
    fn next_ask(&self) -> StoreTime {
        let again = StoreTime(self.asked.0.saturating_add(ASK_EVERY.0));
        self.homes().map_or(StoreTime(u64::MAX), |_| self.next_end.max(again))
    }

    pub(super) fn begin_poll_if_due(&mut self, now: StoreTime) -> bool {
        let is_due = self.next_ask() <= now;
        if is_due {
            self.asked = now;
        }
        is_due
    }

    /// Returns true if the view changed.
    pub(super) fn refresh_view(&mut self, now: StoreTime) -> bool {
        if now < self.next_change {
            return false;
        }
        let is_other = |node: &&Node| node.owner != self.owner;
        // This node may renew an ended lease and live again, unless it was evicted: then its lease ends at 0.
        let read_at = self.nodes.lease_time(self.nodes.at);
        let lives = |node: &&Node| node.lives(if is_other(node) { read_at } else { StoreTime(0) });
        let living: Vec<&Node> = self.nodes.all.iter().filter(lives).collect();
        let settles = |node: &Node| StoreTime(node.since.0.saturating_add(SETTLED_AFTER.0));
        let ourselves = living.iter().find(|node| node.owner == self.owner);
        let view = View {
            homes: ourselves.map(|_| Arc::new(Homes::of(living.iter().copied()))),
            draining: ourselves.map(|node| node.announced.draining),
            settled: living.iter().filter(|node| settles(node) <= now).map(|node| node.owner).collect(),
        };
        // The store may count leases by another clock, which showed `read_at` at `nodes.at` of ours.
        let by_ours =
            |until: StoreTime| StoreTime(self.nodes.at.0.saturating_add(until.0.saturating_sub(read_at.0)));
        let ends = living.iter().filter(|node| is_other(node)).map(|node| by_ours(node.until));
        let end = ends.min().unwrap_or(StoreTime(u64::MAX));
        let moments = living.iter().map(|node| settles(node)).filter(|at| *at > now);
        let next_change = moments.min().unwrap_or(StoreTime(u64::MAX));
        (self.next_change, self.next_end) = (next_change, end);
        let has_changed = view != self.view;
        self.view = view;
        has_changed
    }

    pub(super) fn homes(&self) -> Option<&Arc<Homes>> {
        self.view.homes.as_ref()
    }

    pub(super) fn is_home(&self, lane: LaneId) -> bool {
        self.homes().is_some_and(|homes| homes.is_home(lane, self.owner))
    }

    pub(super) fn drains(&self) -> Option<bool> {
        self.view.draining
    }

    pub(super) fn review(&mut self, ours: impl IntoIterator<Item = LaneId>) {
        self.going = ours.into_iter().filter(|lane| self.is_to_go(*lane)).collect();
    }

    pub(super) fn took(&mut self, lane: LaneId) {
        if self.is_to_go(lane) {
            self.going.insert(lane);
        }
    }

    fn is_to_go(&self, lane: LaneId) -> bool {
        let Some(homes) = self.homes() else { return false };
        let is_settled = |home| home != self.owner && self.view.settled.contains(&home);
        self.view.draining == Some(true) || homes.home(lane).is_some_and(is_settled)
    }

    /// The lanes that begin to move now. `term` returns our term of a lane. `is_under_way` is true until a
    /// moved lane has been handed back.
    pub(super) fn next_moves(
        &mut self,
        term: impl Fn(LaneId) -> Option<Term>,
        is_under_way: impl Fn(LaneId, Term) -> bool,
    ) -> Vec<LaneId> {
        self.moving.retain(|lane, term| is_under_way(*lane, *term));
        let mut moves = Vec::new();
        while self.moving.len() < MOVES_MAX
            && let Some(lane) = self.going.pop_first()
        {
            if let Some(term) = term(lane).filter(|term| self.moving.get(&lane) != Some(term)) {
                self.moving.insert(lane, term);
                moves.push(lane);
            }
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::node::Announcement;

    const US: u64 = 1;

    fn at(millis: u64) -> StoreTime {
        StoreTime(Nanos::from_millis(millis).0)
    }

    /// With the end of each lease in milliseconds.
    fn nodes(changes: u64, read_at: u64, owners: &[(u64, u64)]) -> Nodes {
        let node = |(owner, until): &(u64, u64)| Node {
            owner: OwnerId(*owner),
            announced: Announcement {
                name: "node".into(),
                version: "1".into(),
                address: None,
                unable: Arc::default(),
                draining: false,
            },
            since: StoreTime(0),
            until: at(*until),
        };
        Nodes { all: owners.iter().map(node).collect(), changes, at: at(read_at), server_clock: None }
    }

    fn share(membership: &Membership, owner: u64) -> usize {
        let homes = membership.homes().unwrap();
        (1..=100).filter(|lane| homes.is_home(LaneId(*lane), OwnerId(owner))).count()
    }

    #[test]
    fn an_older_list_of_nodes_never_replaces_a_newer_one() {
        let mut membership = Membership::new(OwnerId(US));
        let newer = nodes(7, 2_000, &[(US, 30_000), (2, 30_000)]);
        // Older by a change, and older by a renewal.
        for older in [nodes(6, 3_000, &[(US, 30_000)]), nodes(7, 1_999, &[(US, 30_000), (2, 1_999)])] {
            membership.update_nodes(newer.clone());
            membership.refresh_view(at(2_000));
            assert!(share(&membership, 2) > 0);
            membership.update_nodes(older);
            assert!(!membership.refresh_view(at(3_000)), "nothing has changed");
            assert!(share(&membership, 2) > 0);
        }
        membership.update_nodes(nodes(8, 3_000, &[(US, 30_000)]));
        assert!(membership.refresh_view(at(3_000)));
        assert_eq!(share(&membership, 2), 0);
    }

    #[test]
    fn one_whose_lease_may_have_been_renewed_counts_until_the_store_says_otherwise() {
        let mut membership = Membership::new(OwnerId(US));
        membership.update_nodes(nodes(1, 2_000, &[(US, 30_000), (2, 3_000)]));
        membership.refresh_view(at(2_000));
        assert!(!membership.begin_poll_if_due(at(2_999)));
        assert_eq!(membership.next_step(), at(3_000));
        assert!(membership.begin_poll_if_due(at(3_000)));
        assert!(!membership.begin_poll_if_due(at(3_000)), "once");
        assert_eq!(membership.next_step(), at(3_250));
        assert!(!membership.refresh_view(at(3_100)));
        assert!(share(&membership, 2) > 0);
        // Its new lease needs another check at its end.
        membership.update_nodes(nodes(1, 3_100, &[(US, 30_000), (2, 4_000)]));
        assert!(!membership.refresh_view(at(3_100)));
        assert_eq!(membership.next_step(), at(4_000));
        assert!(membership.begin_poll_if_due(at(4_000)));
        membership.update_nodes(nodes(1, 4_000, &[(US, 30_000), (2, 4_000)]));
        assert!(membership.refresh_view(at(4_000)));
        assert_eq!(share(&membership, 2), 0);
        assert!(!membership.begin_poll_if_due(at(20_000)), "nothing is asked of the dead");
    }

    #[test]
    fn a_node_with_an_expired_lease_requests_lanes_unless_evicted() {
        let mut membership = Membership::new(OwnerId(US));
        membership.update_nodes(nodes(1, 20_000, &[(US, 20_000), (2, 24_000), (3, 20_000)]));
        membership.refresh_view(at(20_000));
        assert!(share(&membership, US) > 0 && share(&membership, 2) > 0);
        assert_eq!(share(&membership, 3), 0);
        membership.update_nodes(nodes(2, 20_000, &[(US, 0), (2, 25_000)]));
        membership.refresh_view(at(20_000));
        assert!(membership.homes().is_none());
    }

    #[test]
    fn whether_others_live_is_told_by_the_clock_that_leases_are_reckoned_by() {
        // Set back by more than a lease, and by less. In the second case our own new lease lasts beyond the latest
        // commit.
        for clock in [10_000, 16_000] {
            let mut membership = Membership::new(OwnerId(US));
            let owners = [(US, clock + 5_000), (2, clock + 3_500), (3, clock)];
            membership.update_nodes(Nodes { server_clock: Some(at(clock)), ..nodes(1, 20_000, &owners) });
            membership.refresh_view(at(20_000));
            assert!(share(&membership, US) > 0 && share(&membership, 2) > 0, "at {clock}");
            assert_eq!(share(&membership, 3), 0, "at {clock}");
            // At the end of the second node's lease: the others wait for a renewal's commit.
            assert!(
                !membership.begin_poll_if_due(at(20_000)) && !membership.begin_poll_if_due(at(23_499)),
                "at {clock}"
            );
            assert!(membership.begin_poll_if_due(at(23_500)), "at {clock}");
        }
    }
}
