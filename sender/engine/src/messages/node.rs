//! Nodes: the delivering processes, as they announce themselves to each other.
//!
//! An owner becomes a node by an announcement with the renewal of its leases. It lives as long as its leases,
//! and ends when it retires. Only nodes are homes of lanes ([`super::homes`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lane::OwnerId;
use crate::engine::{LaneId, StoreTime};

/// The most bytes of a node's name.
pub const NAME_BYTES_MAX: usize = 64;

/// A node's announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The name for people; not unique.
    pub name: Arc<str>,
    /// The program's version, for people.
    pub version: Arc<str>,
    /// The address of its API, if it has one.
    pub address: Option<Arc<str>>,
    /// Lanes that it cannot serve: the secret of their region is missing, or their settings are unreadable.
    pub unable: Arc<BTreeSet<LaneId>>,
    /// True if an operator drains it. The store uses this for a node that it does not know, so that draining
    /// outlives an ended lease.
    pub draining: bool,
}

/// A node in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The owner of its lanes.
    pub owner: OwnerId,
    /// Its announcement, with the operators' present choice of `draining`.
    pub announced: Announcement,
    /// The time since when it has lived without a break.
    pub since: StoreTime,
    /// The end of its leases, by [`Nodes::lease_time`].
    pub until: StoreTime,
}

/// All nodes at one moment of the store, including those with ended leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// In the order of their owners.
    pub all: Vec<Node>,
    /// Grows with each change of the nodes or their announcements, and with each lane that is handed back.
    pub changes: u64,
    /// The latest commit time of the store at that moment.
    pub at: StoreTime,
    /// The database server's clock at that moment, which decides the end of leases there. It is behind `at` if
    /// it was set back, or if a node's clock is ahead. Nothing for a file, where the store's time decides.
    pub server_clock: Option<StoreTime>,
}

impl Nodes {
    /// True if `others` were read later. Between two changes only leases move, with the clock.
    #[must_use]
    pub fn are_older_than(&self, others: &Self) -> bool {
        (self.changes, self.at) < (others.changes, others.at)
    }

    /// The time that decides the end of leases, given the store's time.
    #[must_use]
    pub fn lease_time(&self, now: StoreTime) -> StoreTime {
        self.server_clock.unwrap_or(now)
    }

    /// The nodes with valid leases, given the store's time.
    pub fn living(&self, now: StoreTime) -> impl Iterator<Item = &Node> + Clone {
        let now = self.lease_time(now);
        self.all.iter().filter(move |node| node.lives(now))
    }
}

impl Node {
    /// True if its leases are valid at `now`, by [`Nodes::lease_time`].
    #[must_use]
    pub fn lives(&self, now: StoreTime) -> bool {
        now < self.until
    }

    /// True unless an operator drains it.
    #[must_use]
    pub fn takes_lanes(&self) -> bool {
        !self.announced.draining
    }
}
