//! Nodes: the processes that deliver, as they announce themselves to one another.
//!
//! A node is an owner of lanes that has said so. It says it with the renewal of its leases, lives for as long as these do, and
//! is gone when it retires. One that only owns is none: lanes that have a home go to nodes alone ([`super::homes`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lane::OwnerId;
use crate::engine::{LaneId, StoreTime};

/// Bytes of a node's name.
pub const NAME_BYTES_MAX: usize = 64;

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// What people call it. Nothing keeps two nodes from having the same.
    pub name: Arc<str>,
    /// The program's version, for people.
    pub version: Arc<str>,
    /// Where others reach its API, if it has one.
    pub address: Option<Arc<str>>,
    /// Lanes that it cannot serve: it lacks the secret of their region, or cannot read their settings.
    pub unable: Arc<BTreeSet<LaneId>>,
    /// Whether an operator has told it to take no lanes. It counts where the store does not know of the node: what an
    /// operator said outlives a lease that was over for a while.
    pub draining: bool,
}

/// A node as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The owner of its lanes.
    pub owner: OwnerId,
    /// What it says of itself. Whether it is draining is what the operators have said since.
    pub announced: Announcement,
    /// Since when it lives without a break.
    pub since: StoreTime,
    /// When its leases end, by [`Nodes::lease_time`].
    pub until: StoreTime,
}

/// All nodes at one moment of the store, also those whose leases are over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Each of them, in the order of their owners.
    pub all: Vec<Node>,
    /// Grows with each change of what they say, of who they are, and with each lane that is handed back.
    pub changes: u64,
    /// The latest time that any commit had then.
    pub at: StoreTime,
    /// The server's clock then, by which leases are reckoned there. It is behind `at` where it was set back, or where a node's
    /// clock is ahead. Nothing on a file: there leases go by the store's time.
    pub server_clock: Option<StoreTime>,
}

impl Nodes {
    /// Whether others were read later. Between two changes only leases move, with the clock.
    #[must_use]
    pub fn are_older_than(&self, others: &Self) -> bool {
        (self.changes, self.at) < (others.changes, others.at)
    }

    /// The time by which leases end, given the store's.
    #[must_use]
    pub fn lease_time(&self, now: StoreTime) -> StoreTime {
        self.server_clock.unwrap_or(now)
    }

    /// Those whose leases last, given the store's time.
    pub fn living(&self, now: StoreTime) -> impl Iterator<Item = &Node> + Clone {
        let now = self.lease_time(now);
        self.all.iter().filter(move |node| node.lives(now))
    }
}

impl Node {
    /// Whether its leases last, given the time by which they end.
    #[must_use]
    pub fn lives(&self, now: StoreTime) -> bool {
        now < self.until
    }

    /// Whether lanes are handed to it: no operator has told it to take none.
    #[must_use]
    pub fn takes_lanes(&self) -> bool {
        !self.announced.draining
    }
}
