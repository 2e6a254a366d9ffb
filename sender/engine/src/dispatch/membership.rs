//! Which nodes there are, and which of our lanes belong to another one. Pure, like all of the dispatcher.
//!
//! A lane that is free is taken by its home ([`crate::messages::homes`]), at once. One that we own and that belongs to another
//! node is handed to it in order, but only once that node has lived for [`SETTLED_AFTER`] without a break: one that comes and
//! goes gets what is free and moves nothing. [`MOVES_MAX`] lanes move at a time, so that all others go on sending. What moves
//! is free in between, so that its home takes it as it takes any other lane, and no node has to ask another one.
//!
//! Who has lived on in silence is not dead. A list tells until when each node's lease lasts; once that is over, only a newer
//! list says whether it was renewed, and until one comes the node counts as before. Nodes may have leases of different
//! lengths, so that the list is asked for then, and not when our own lease is to be renewed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::messages::homes::Homes;
use crate::messages::lane::OwnerId;
use crate::messages::node::{Node, Nodes};

/// How long a node has to live until lanes that others own are handed to it.
pub const SETTLED_AFTER: Nanos = Nanos::SECOND;
/// Lanes of one process that are on their way to other nodes, at most.
pub const MOVES_MAX: usize = 32;
/// How long the store is left alone after it was asked whether a node lives.
const ASK_EVERY: Nanos = Nanos::from_millis(250);

/// The nodes, as one of them knows them.
#[derive(Debug)]
pub(super) struct Membership {
    owner: OwnerId,
    nodes: Nodes,
    view: View,
    /// When the view changes, if nobody tells of anything before.
    next_change: StoreTime,
    /// When the first lease is over of those that we know of, and when the store was asked for that.
    next_end: StoreTime,
    asked: StoreTime,
    /// Lanes of ours that belong to another node, and have not begun to move.
    going: BTreeSet<LaneId>,
    /// Those that have begun to, and their ownerships that end with that.
    moving: BTreeMap<LaneId, Term>,
}

/// What the nodes come to at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct View {
    /// Whom lanes belong to; nothing, while we are no living node ourselves.
    homes: Option<Arc<Homes>>,
    /// Whether an operator has told us to take no lanes, as long as we are a node.
    draining: Option<bool>,
    /// Nodes that have lived for long enough to be handed lanes.
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

    /// These are the nodes, unless we know newer ones: a glance and a renewal tell of them by different ways.
    pub(super) fn hear(&mut self, nodes: Nodes) {
        if !nodes.are_older_than(&self.nodes) {
            self.nodes = nodes;
            self.next_change = StoreTime(0);
        }
    }

    /// When to look or to ask again, if nobody tells of anything before.
    pub(super) fn next_step(&self) -> StoreTime {
        self.next_change.min(self.next_ask())
    }

    /// Who is no node itself has no lanes to hand to others.
    fn next_ask(&self) -> StoreTime {
        let again = StoreTime(self.asked.0.saturating_add(ASK_EVERY.0));
        self.homes().map_or(StoreTime(u64::MAX), |_| self.next_end.max(again))
    }

    /// Whether the store is to be asked now which nodes still live.
    pub(super) fn asks(&mut self, now: StoreTime) -> bool {
        let is_due = self.next_ask() <= now;
        if is_due {
            self.asked = now;
        }
        is_due
    }

    /// Looks at the nodes if it is time to. True if what they come to has changed.
    pub(super) fn look(&mut self, now: StoreTime) -> bool {
        if now < self.next_change {
            return false;
        }
        let is_other = |node: &&Node| node.owner != self.owner;
        // Who is dead by its lease alone may ask for lanes, and lives again; who was evicted is told that it never lived.
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
        // Leases may be reckoned by another clock than ours, which was at `read_at` when ours was where it was then.
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

    /// Whom lanes belong to, while we are one of the nodes.
    pub(super) fn homes(&self) -> Option<&Arc<Homes>> {
        self.view.homes.as_ref()
    }

    /// Whether a lane belongs to us.
    pub(super) fn is_home(&self, lane: LaneId) -> bool {
        self.homes().is_some_and(|homes| homes.is_home(lane, self.owner))
    }

    /// Whether an operator has told us to take no lanes; nothing, while we are no living node.
    pub(super) fn drains(&self) -> Option<bool> {
        self.view.draining
    }

    /// Looks at all lanes of ours anew: which are to move.
    pub(super) fn review(&mut self, ours: impl IntoIterator<Item = LaneId>) {
        self.going = ours.into_iter().filter(|lane| self.is_to_go(*lane)).collect();
    }

    /// A lane is ours from now on.
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

    /// Lanes that begin to move now. `term` tells under which ownership we have a lane; `is_under_way` whether one that began
    /// to move under an ownership has not been handed back yet.
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

    /// Nodes that are settled, with the end of each lease in milliseconds.
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

    /// The node's share of a hundred lanes.
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
            membership.hear(newer.clone());
            membership.look(at(2_000));
            assert!(share(&membership, 2) > 0);
            membership.hear(older);
            assert!(!membership.look(at(3_000)), "nothing has changed");
            assert!(share(&membership, 2) > 0);
        }
        membership.hear(nodes(8, 3_000, &[(US, 30_000)]));
        assert!(membership.look(at(3_000)));
        assert_eq!(share(&membership, 2), 0);
    }

    #[test]
    fn one_whose_lease_may_have_been_renewed_counts_until_the_store_says_otherwise() {
        let mut membership = Membership::new(OwnerId(US));
        membership.hear(nodes(1, 2_000, &[(US, 30_000), (2, 3_000)]));
        membership.look(at(2_000));
        assert!(!membership.asks(at(2_999)));
        assert_eq!(membership.next_step(), at(3_000));
        assert!(membership.asks(at(3_000)));
        assert!(!membership.asks(at(3_000)), "once");
        assert_eq!(membership.next_step(), at(3_250));
        assert!(!membership.look(at(3_100)));
        assert!(share(&membership, 2) > 0);
        // The node renewed. Its new lease needs another check at its end.
        membership.hear(nodes(1, 3_100, &[(US, 30_000), (2, 4_000)]));
        assert!(!membership.look(at(3_100)));
        assert_eq!(membership.next_step(), at(4_000));
        assert!(membership.asks(at(4_000)));
        // The node did not renew.
        membership.hear(nodes(1, 4_000, &[(US, 30_000), (2, 4_000)]));
        assert!(membership.look(at(4_000)));
        assert_eq!(share(&membership, 2), 0);
        assert!(!membership.asks(at(20_000)), "nothing is asked of the dead");
    }

    #[test]
    fn who_is_dead_by_its_lease_alone_asks_for_lanes_unless_it_was_evicted() {
        let mut membership = Membership::new(OwnerId(US));
        membership.hear(nodes(1, 20_000, &[(US, 20_000), (2, 24_000), (3, 20_000)]));
        membership.look(at(20_000));
        assert!(share(&membership, US) > 0 && share(&membership, 2) > 0);
        assert_eq!(share(&membership, 3), 0);
        membership.hear(nodes(2, 20_000, &[(US, 0), (2, 25_000)]));
        membership.look(at(20_000));
        assert!(membership.homes().is_none());
    }

    #[test]
    fn whether_others_live_is_told_by_the_clock_that_leases_are_reckoned_by() {
        // Set back by more than a lease, and by less: our own lease, just renewed, then lasts beyond the latest
        // commit.
        for clock in [10_000, 16_000] {
            let mut membership = Membership::new(OwnerId(US));
            let owners = [(US, clock + 5_000), (2, clock + 3_500), (3, clock)];
            membership.hear(Nodes { server_clock: Some(at(clock)), ..nodes(1, 20_000, &owners) });
            membership.look(at(20_000));
            assert!(share(&membership, US) > 0 && share(&membership, 2) > 0, "at {clock}");
            assert_eq!(share(&membership, 3), 0, "at {clock}");
            // At the end of the second node's lease: all others wait for a renewal's commit.
            assert!(!membership.asks(at(20_000)) && !membership.asks(at(23_499)), "at {clock}");
            assert!(membership.asks(at(23_500)), "at {clock}");
        }
    }
}
