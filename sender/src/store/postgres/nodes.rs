//! The nodes: who announced itself, who drains, and that something about it has changed. A node changes under the lock of the
//! owners, so that what was read of it holds until the commit ends.

use std::sync::Arc;

use tokio_postgres::{Error, Row};

use super::clock::server_clock;
use super::link::Link;
use super::values::Count;
use super::{Result, Work};
use crate::engine::{LaneId, StoreTime};
use crate::store::command::Drain;
use crate::store::lane::OwnerId;
use crate::store::node::{Announcement, Node, Nodes};
use crate::store::reply::{Refusal, Reply};

/// What is announced comes first, in the order in which [`announcement`] reads it.
const ONE: &str = "SELECT name, version, address, unable, draining FROM nodes WHERE owner = $1";
/// One row without an owner, where there is no node.
const ALL: &str = concat!(
    "SELECT n.name, n.version, n.address, n.unable, n.draining, n.owner, n.since, coalesce(o.until, 0), s.nodes,
     (SELECT max(clock) FROM newest_totals), ",
    server_clock!(),
    " FROM state s LEFT JOIN nodes n ON true LEFT JOIN owners o ON o.owner = n.owner"
);
const ANNOUNCE: &str = "INSERT INTO nodes VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (owner) DO UPDATE SET name = $2, version = $3, address = $4, unable = $5,
    since = CASE WHEN $8 THEN nodes.since ELSE $7 END";

impl Work<'_> {
    /// Notes what an owner says of itself. Nothing is written if the store knows it already. Comes before its lease is
    /// extended.
    pub(super) fn announce(&mut self, owner: OwnerId, said: &Announcement) -> Result<()> {
        let lives = self.ledger.lives(owner)?;
        let known = self.sql.first(ONE, &[&owner])?.as_ref().map(announcement).transpose()?;
        let draining = known.as_ref().map_or(said.draining, |known| known.draining);
        let said = Announcement { draining, ..said.clone() };
        let lives = lives && known.is_some();
        if lives && known.is_some_and(|known| known == said) {
            return Ok(());
        }
        self.ledger.nodes_have_changed()?;
        let unable: Vec<LaneId> = said.unable.iter().copied().collect();
        let (name, version, address) = (&*said.name, &*said.version, said.address.as_deref());
        self.sql.execute(
            ANNOUNCE,
            &[&owner, &name, &version, &address, &unable, &draining, &self.ledger.clock, &lives],
        )?;
        Ok(())
    }

    /// An owner is a node no more, if it was one.
    pub(super) fn retire(&mut self, owner: OwnerId) -> Result<Reply> {
        if self.sql.execute("DELETE FROM nodes WHERE owner = $1", &[&owner])? > 0 {
            self.ledger.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn drain(&mut self, drain: Drain) -> Result<Reply> {
        let Drain { owner, draining } = drain;
        let Some(node) = self.sql.first("SELECT draining FROM nodes WHERE owner = $1", &[&owner])? else {
            return Ok(Reply::Refused(Refusal::UnknownNode(owner)));
        };
        if node.try_get::<_, bool>(0)? != draining {
            self.sql.execute("UPDATE nodes SET draining = $2 WHERE owner = $1", &[&owner, &draining])?;
            self.ledger.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }
}

/// All nodes, at the time of the last commit, or of the one under way if that is later.
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
    // The database takes the largest numbers for negative ones.
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
