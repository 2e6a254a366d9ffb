//! Nodes: the delivering processes, as they announce themselves to each other.
//!
//! An owner becomes a node by an announcement with the renewal of its leases, and ends when it retires. Only nodes
//! are homes of lanes ([`Homes`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lane::OwnerId;
use crate::engine::{LaneId, StoreTime};

pub const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub name: Arc<str>,
    pub version: Arc<str>,
    pub address: Option<Arc<str>>,
    /// Lanes that it cannot serve: the secret of their region is missing, or their settings are unreadable.
    pub unable: Arc<BTreeSet<LaneId>>,
    /// True if an operator drains it. The store uses this for a node that it does not know, so that draining
    /// outlives an ended lease.
    pub draining: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub owner: OwnerId,
    /// Its announcement, with the operators' present choice of `draining`.
    pub announced: Announcement,
    /// The time since when it has lived without a break.
    pub since: StoreTime,
    /// The end of its leases, by [`Nodes::lease_time`].
    pub until: StoreTime,
}

/// Includes nodes with ended leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    pub all: Vec<Node>,
    /// Grows with each change of the nodes or their announcements, and with each lane that is handed back.
    pub changes: u64,
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
    /// `now` is [`Nodes::lease_time`].
    #[must_use]
    pub fn lives(&self, now: StoreTime) -> bool {
        now < self.until
    }

    #[must_use]
    pub fn takes_lanes(&self) -> bool {
        !self.announced.draining
    }
}

/// The possible homes of lanes at one moment. A lane's home is the node that should own it, by rendezvous hashing.
/// Each node ranks all nodes for a lane by the hash of both; the first node that can serve the lane is its home.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Homes {
    nodes: Vec<Candidate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    owner: OwnerId,
    unable: Arc<BTreeSet<LaneId>>,
}

impl Homes {
    #[must_use]
    pub fn among(nodes: &[Node], now: StoreTime) -> Self {
        Self::of(nodes.iter().filter(|node| node.lives(now)))
    }

    /// The given nodes that take lanes, alive or not.
    #[must_use]
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let takers = nodes.into_iter().filter(|node| node.takes_lanes());
        let candidate =
            |node: &Node| Candidate { owner: node.owner, unable: Arc::clone(&node.announced.unable) };
        Self { nodes: takers.map(candidate).collect() }
    }

    /// Nothing if no node can serve it.
    #[must_use]
    pub fn home(&self, lane: LaneId) -> Option<OwnerId> {
        let able = self.nodes.iter().filter(|node| !node.unable.contains(&lane));
        able.map(|node| node.owner).max_by_key(|owner| (rank(lane, *owner), *owner))
    }

    #[must_use]
    pub fn is_home(&self, lane: LaneId, owner: OwnerId) -> bool {
        self.home(lane) == Some(owner)
    }
}

/// Must be equal in every process and version: nodes that rank differently would hand a lane to each other for
/// ever.
fn rank(lane: LaneId, owner: OwnerId) -> u64 {
    mix(mix(lane.0) ^ owner.0)
}

/// The finaliser of `SplitMix64`.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LANES: u64 = 2_000;
    const NOW: StoreTime = StoreTime::from_secs(100);

    fn node(owner: u64) -> Node {
        let announced = Announcement {
            name: "node".into(),
            version: "1".into(),
            address: None,
            unable: Arc::default(),
            draining: false,
        };
        Node { owner: OwnerId(owner), announced, since: StoreTime(0), until: StoreTime::from_secs(200) }
    }

    fn homes_of(nodes: &[Node]) -> Vec<Option<OwnerId>> {
        let homes = Homes::among(nodes, NOW);
        (1..=LANES).map(|lane| homes.home(LaneId(lane))).collect()
    }

    fn some_nodes() -> impl Strategy<Value = Vec<Node>> {
        let owners = proptest::collection::btree_set(any::<u64>(), 2..=8).prop_map(Vec::from_iter);
        owners.prop_shuffle().prop_map(|owners| owners.into_iter().map(node).collect())
    }

    proptest! {
        #[test]
        fn each_lane_has_one_home_among_the_nodes_whatever_their_order(nodes in some_nodes()) {
            let homes = homes_of(&nodes);
            let mut backwards = nodes.clone();
            backwards.reverse();
            prop_assert_eq!(&homes, &homes_of(&backwards));
            prop_assert!(homes.iter().all(|home| nodes.iter().any(|node| Some(node.owner) == *home)));
        }

        #[test]
        fn every_node_is_the_home_of_about_its_share(nodes in some_nodes()) {
            let mut shares: BTreeMap<_, u64> = BTreeMap::new();
            homes_of(&nodes).into_iter().for_each(|home| *shares.entry(home).or_default() += 1);
            let share = LANES / u64::try_from(nodes.len()).unwrap();
            // A share is 250 of 2,000 with a standard deviation of 15: the bounds are more than seven deviations
            // away.
            prop_assert!(shares.len() == nodes.len(), "{shares:?}");
            prop_assert!(shares.values().all(|found| (share / 2..=share * 2).contains(found)), "{shares:?}");
        }

        #[test]
        fn a_node_that_joins_takes_some_and_moves_nothing_else(nodes in some_nodes()) {
            let (joins, before) = nodes.split_last().unwrap();
            for (old, new) in homes_of(before).into_iter().zip(homes_of(&nodes)) {
                prop_assert!(new == old || new == Some(joins.owner));
            }
        }

        #[test]
        fn the_lanes_of_a_node_that_leaves_are_spread_and_no_others(nodes in some_nodes(), how in 0..3_u8) {
            let before = homes_of(&nodes);
            let mut nodes = nodes;
            let left = nodes[0].owner;
            match how {
                0 => drop(nodes.remove(0)),
                1 => nodes[0].until = NOW,
                _ => nodes[0].announced.draining = true,
            }
            for (old, new) in before.into_iter().zip(homes_of(&nodes)) {
                let is_right = if old == Some(left) { new.is_some() && new != old } else { new == old };
                prop_assert!(is_right, "{old:?} became {new:?}");
            }
        }
    }

    #[test]
    fn a_lane_that_its_home_cannot_serve_goes_to_the_next_in_rank_and_comes_back() {
        let mut nodes = [node(7), node(8), node(9)];
        let lane = LaneId(1);
        let home = |nodes: &[Node]| Homes::among(nodes, NOW).home(lane);
        let mut ranked = Vec::new();
        while let Some(first) = home(&nodes) {
            ranked.push(first);
            let node = nodes.iter_mut().find(|node| node.owner == first).unwrap();
            node.announced.unable = Arc::new(BTreeSet::from([lane]));
        }
        ranked.sort_unstable();
        assert_eq!(ranked, [OwnerId(7), OwnerId(8), OwnerId(9)], "each in its turn, and then nobody");
        nodes[1].announced.unable = Arc::default();
        assert_eq!(home(&nodes), Some(OwnerId(8)));
    }

    #[test]
    fn the_ranks_of_released_versions_never_change() {
        let homes = Homes::of(&[node(1), node(2), node(3), node(4)]);
        let found: Vec<_> = (1..=16).map(|lane| homes.home(LaneId(lane)).unwrap().0).collect();
        assert_eq!(found, [1, 1, 1, 1, 4, 4, 4, 4, 4, 1, 3, 4, 1, 2, 2, 3]);
    }
}
