//! Which nodes there are, and which of our lanes belong to another one. Pure, like all of the dispatcher.
//!
//! A lane that is free is taken by its home ([`crate::store::homes`]), at once. One that we own and that belongs to another
//! node is handed to it in order, but only once that node has lived for [`SETTLED_AFTER`] without a break: one that comes and
//! goes gets what is free and moves nothing. [`MOVES_MAX`] lanes move at a time, so that all others go on sending. What moves
//! is free in between, so that its home takes it as it takes any other lane, and no node has to ask another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::store::homes::Homes;
use crate::store::lane::OwnerId;
use crate::store::node::Node;

/// How long a node has to live until lanes that others own are handed to it.
pub const SETTLED_AFTER: Nanos = Nanos::SECOND;
/// Lanes of one process that are on their way to other nodes, at most.
pub const MOVES_MAX: usize = 32;

/// The nodes, as one of them knows them.
#[derive(Debug)]
pub(super) struct Membership {
    owner: OwnerId,
    nodes: Vec<Node>,
    view: View,
    /// When the view changes, if nobody tells of anything before.
    next_change: StoreTime,
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
            nodes: Vec::new(),
            view: View::default(),
            next_change: StoreTime(u64::MAX),
            going: BTreeSet::new(),
            moving: BTreeMap::new(),
        }
    }

    /// These are the nodes now.
    pub(super) fn hear(&mut self, nodes: Vec<Node>) {
        self.nodes = nodes;
        self.next_change = StoreTime(0);
    }

    /// When to look again, if nobody tells of anything before.
    pub(super) fn next_change(&self) -> StoreTime {
        self.next_change
    }

    /// Looks at the nodes if it is time to. True if what they come to has changed.
    pub(super) fn look(&mut self, now: StoreTime) -> bool {
        if now < self.next_change {
            return false;
        }
        let living: Vec<&Node> = self.nodes.iter().filter(|node| node.lives(now)).collect();
        let settles = |node: &Node| StoreTime(node.since.0.saturating_add(SETTLED_AFTER.0));
        let ourselves = living.iter().find(|node| node.owner == self.owner);
        let view = View {
            homes: ourselves.map(|_| Arc::new(Homes::of(living.iter().copied()))),
            draining: ourselves.map(|node| node.announced.draining),
            settled: living.iter().filter(|node| settles(node) <= now).map(|node| node.owner).collect(),
        };
        let moments = living.iter().flat_map(|node| [node.until, settles(node)]);
        self.next_change = moments.filter(|at| *at > now).min().unwrap_or(StoreTime(u64::MAX));
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
