//! The rows of nodes: announcements and draining. A node changes under the lock of the owners, so a row that was read
//! stays valid until the commit ends.

use std::sync::Arc;

use tokio_postgres::{Error, Row};

use super::Result;
use super::clock::server_clock;
use super::link::Link;
use super::values::Count;
use crate::engine::{LaneId, StoreTime};
use crate::lane::OwnerId;
use crate::node::{Announcement, Node, Nodes};

const ONE: &str = "SELECT name, version, address, unable, draining FROM nodes WHERE owner = $1";
/// Without nodes, one row without an owner.
const ALL: &str = concat!(
    "SELECT n.name, n.version, n.address, n.unable, n.draining, n.owner, n.since, coalesce(o.until, 0), s.nodes,
     (SELECT max(clock) FROM newest_totals), ",
    server_clock!(),
    " FROM state s LEFT JOIN nodes n ON true LEFT JOIN owners o ON o.owner = n.owner"
);
const ANNOUNCE: &str = "INSERT INTO nodes VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (owner) DO UPDATE SET name = $2, version = $3, address = $4, unable = $5,
    since = CASE WHEN $8 THEN nodes.since ELSE $7 END";

pub(super) fn announced(sql: &Link, owner: OwnerId) -> Result<Option<Announcement>> {
    Ok(sql.first(ONE, &[&owner])?.as_ref().map(announcement).transpose()?)
}

/// Writes an announcement. A living node keeps its start time.
pub(super) fn announce(
    sql: &Link,
    owner: OwnerId,
    announcement: &Announcement,
    (clock, lives): (StoreTime, bool),
) -> Result<()> {
    let Announcement { name, version, address, unable, draining } = announcement;
    let unable: Vec<LaneId> = unable.iter().copied().collect();
    let (name, version, address) = (&**name, &**version, address.as_deref());
    sql.execute(ANNOUNCE, &[&owner, &name, &version, &address, &unable, draining, &clock, &lives])?;
    Ok(())
}

/// All nodes, as of `now` or the latest commit, if that is later.
pub(super) fn nodes(sql: &Link, now: StoreTime) -> std::result::Result<Nodes, Error> {
    let mut nodes = Nodes { at: now, ..Nodes::default() };
    for row in sql.query(ALL, &[])? {
        nodes.changes = row.try_get::<_, Count>(8)?.0;
        nodes.at = nodes.at.max(row.try_get::<_, Option<_>>(9)?.unwrap_or_default());
        nodes.server_clock = Some(row.try_get(10)?);
        if let Some(owner) = row.try_get(5)? {
            let (announced, since, until) = (announcement(&row)?, row.try_get(6)?, row.try_get(7)?);
            nodes.all.push(Node { owner, announced, since, until });
        }
    }
    // The database treats the largest numbers as negative.
    nodes.all.sort_unstable_by_key(|node| node.owner);
    Ok(nodes)
}

fn announcement(row: &Row) -> std::result::Result<Announcement, Error> {
    Ok(Announcement {
        name: row.try_get::<_, &str>(0)?.into(),
        version: row.try_get::<_, &str>(1)?.into(),
        address: row.try_get::<_, Option<&str>>(2)?.map(Into::into),
        unable: Arc::new(row.try_get::<_, Vec<LaneId>>(3)?.into_iter().collect()),
        draining: row.try_get(4)?,
    })
}
