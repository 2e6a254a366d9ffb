use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::json_forms::{moment, node_id};
use crate::engine::{Nanos, StoreTime};
use crate::store::lane::{LaneState, OwnerId};
use crate::store::node::Homes;
use crate::store::read::{Node, Nodes, ReadError, Reader};

const PAGE_ROWS: u32 = 1_000;

#[derive(Debug)]
pub(crate) struct NodeStatus {
    pub(crate) node: Node,
    /// The time by the clock that decides the end of its lease.
    pub(crate) at: StoreTime,
    pub(crate) lanes: u64,
    /// Lanes placed on it, with or without work.
    pub(crate) home_of: u64,
}

impl NodeStatus {
    pub(crate) fn all(reader: &dyn Reader, now: StoreTime) -> Result<Vec<Self>, ReadError> {
        let nodes = reader.nodes()?;
        let (at, homes) = (nodes.lease_time(now), Homes::of(nodes.living(now)));
        let (mut owned, mut at_home): (BTreeMap<OwnerId, u64>, BTreeMap<OwnerId, u64>) = Default::default();
        let mut from = None;
        loop {
            let page = reader.lanes(from, PAGE_ROWS)?;
            for lane in page.items.iter().filter(|lane| lane.state != LaneState::Removed) {
                let owner = lane.owner.map(|(owner, _)| owner);
                owner.into_iter().for_each(|owner| *owned.entry(owner).or_default() += 1);
                homes.home(lane.lane).into_iter().for_each(|owner| *at_home.entry(owner).or_default() += 1);
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let of = |counts: &BTreeMap<OwnerId, u64>, owner| counts.get(&owner).copied().unwrap_or(0);
        let status = |node: &Node| {
            let (lanes, home_of) = (of(&owned, node.owner), of(&at_home, node.owner));
            Self { node: node.clone(), at, lanes, home_of }
        };
        Ok(nodes.living(now).map(status).collect())
    }

    pub(crate) fn to_json(&self) -> Value {
        let said = &self.node.announced;
        json!({
            "name": &*said.name,
            "id": node_id(self.node.owner),
            "version": &*said.version,
            "address": said.address.as_deref(),
            "since": moment(self.node.since),
            "lease_ms": self.lease().0 / 1_000_000,
            "draining": said.draining,
            "takes_lanes": self.node.takes_lanes(),
            "unable": said.unable.len(),
            "lanes": self.lanes,
            "home_of": self.home_of,
        })
    }

    pub(crate) fn lease(&self) -> Nanos {
        self.node.until.since(self.at)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WhichNode {
    #[error("there is no running node with that name or id; `nodes` lists them")]
    Unknown,
    #[error("{0} nodes have that name; expected the id of one from `nodes --json`")]
    Several(usize),
}

/// Finds a living node by its name or id. `now` is the store's time.
pub(crate) fn find(nodes: &Nodes, whom: &str, now: StoreTime) -> Result<OwnerId, WhichNode> {
    let is_meant = |node: &&Node| *node.announced.name == *whom || node_id(node.owner) == whom;
    let found: Vec<&Node> = nodes.living(now).filter(is_meant).collect();
    match found[..] {
        [] => Err(WhichNode::Unknown),
        [node] => Ok(node.owner),
        _ => Err(WhichNode::Several(found.len())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::node::Announcement;

    #[test]
    fn a_node_is_meant_by_its_name_or_its_id_as_long_as_it_is_the_only_one_that_lives() {
        let node = |owner, name: &str, until| Node {
            owner: OwnerId(owner),
            announced: Announcement {
                name: name.into(),
                version: "1".into(),
                address: None,
                unable: Arc::default(),
                draining: false,
            },
            since: StoreTime(0),
            until: StoreTime(until),
        };
        let all = vec![node(1, "a", 10), node(2, "b", 10), node(3, "b", 10), node(4, "a", 5)];
        let mut nodes = Nodes { all, ..Nodes::default() };
        let find = |nodes: &Nodes, now, whom: &str| find(nodes, whom, StoreTime(now));
        assert_eq!(find(&nodes, 5, "a"), Ok(OwnerId(1)));
        assert_eq!(find(&nodes, 5, "0000000000000003"), Ok(OwnerId(3)));
        assert_eq!(find(&nodes, 5, "b"), Err(WhichNode::Several(2)));
        assert_eq!(find(&nodes, 5, "0000000000000004"), Err(WhichNode::Unknown));
        assert_eq!(find(&nodes, 5, ""), Err(WhichNode::Unknown));
        // The server's clock is behind the store's time.
        assert_eq!(find(&nodes, 90, "a"), Err(WhichNode::Unknown));
        nodes.server_clock = Some(StoreTime(5));
        assert_eq!(find(&nodes, 90, "a"), Ok(OwnerId(1)));
    }
}
