//! The nodes: who announced itself, who drains, and that something about it has changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};

use super::Work;
use crate::engine::{LaneId, StoreTime};
use crate::store::command::Drain;
use crate::store::lane::OwnerId;
use crate::store::node::{Announcement, Node, Nodes};
use crate::store::reply::{Refusal, Reply};

/// What is announced, in the order in which [`announcement`] reads it.
const ANNOUNCED: &str = "n.name, n.version, n.address, n.unable, n.draining";

impl Work<'_> {
    /// Notes what an owner says of itself. Nothing is written if the store knows it already. Comes before its leases are
    /// extended.
    pub(super) fn announce(&mut self, owner: OwnerId, said: &Announcement) -> Result<()> {
        let clock = self.ledger.totals.clock;
        let query = format!(
            "SELECT {ANNOUNCED}, coalesce(o.until, 0) > ?2 FROM nodes n LEFT JOIN owners o ON o.owner = n.owner
             WHERE n.owner = ?1"
        );
        let known = self
            .sql
            .prepare_cached(&query)?
            .query_row(params![owner, clock], |row| {
                Ok(readable(announcement(row)).map(|said| (said, row.get(5))))
            })
            .optional()?
            .flatten();
        let known: Option<(Announcement, bool)> = match known {
            Some((said, lives)) => Some((said?, lives?)),
            None => None,
        };
        let lives = known.as_ref().is_some_and(|(_, lives)| *lives);
        let said = Announcement {
            draining: known.as_ref().map_or(said.draining, |(known, _)| known.draining),
            ..said.clone()
        };
        if lives && known.is_some_and(|(known, _)| known == said) {
            return Ok(());
        }
        let Announcement { name, version, address, unable, draining } = said;
        let unable: Vec<String> = unable.iter().map(|lane| lane.0.to_string()).collect();
        self.sql
            .prepare_cached(
                "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (owner) DO UPDATE SET name = ?2, version = ?3, address = ?4, unable = ?5,
                 since = iif(?8, since, ?7)",
            )?
            .execute(params![owner, name, version, address, unable.join(","), draining, clock, lives])?;
        self.nodes_have_changed()
    }

    /// An owner is a node no more, if it was one.
    pub(super) fn retire(&mut self, owner: OwnerId) -> Result<Reply> {
        let gone = self.sql.prepare_cached("DELETE FROM nodes WHERE owner = ?1")?.execute([owner])?;
        if gone > 0 {
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    pub(super) fn drain(&mut self, drain: Drain) -> Result<Reply> {
        let Drain { owner, draining } = drain;
        let before: Option<bool> = self
            .sql
            .prepare_cached("SELECT draining FROM nodes WHERE owner = ?1")?
            .query_row([owner], |row| row.get(0))
            .optional()?;
        let Some(before) = before else { return Ok(Reply::Refused(Refusal::UnknownNode(owner))) };
        if before != draining {
            self.sql
                .prepare_cached("UPDATE nodes SET draining = ?2 WHERE owner = ?1")?
                .execute(params![owner, draining])?;
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    /// Whoever looks at the nodes now and then should look at once.
    pub(super) fn nodes_have_changed(&mut self) -> Result<()> {
        self.sql.prepare_cached("UPDATE membership SET changes = changes + 1")?.execute([])?;
        Ok(())
    }

    /// Forgets nodes of which no owner is known any more.
    pub(super) fn forget_nodes(&self) -> Result<()> {
        self.sql
            .prepare_cached("DELETE FROM nodes WHERE owner NOT IN (SELECT owner FROM owners)")?
            .execute([])?;
        Ok(())
    }
}

/// All nodes, at a time of the store's clock.
pub(super) fn nodes(sql: &Connection, at: StoreTime) -> Result<Nodes> {
    let changes = sql.prepare_cached("SELECT changes FROM membership")?.query_row([], |row| row.get(0))?;
    let query = format!(
        "SELECT {ANNOUNCED}, n.owner, n.since, coalesce(o.until, 0) FROM nodes n LEFT JOIN owners o ON o.owner = n.owner"
    );
    let mut query = sql.prepare_cached(&query)?;
    let node = |row: &Row<'_>| {
        let (owner, since, until): (OwnerId, StoreTime, StoreTime) = (row.get(5)?, row.get(6)?, row.get(7)?);
        Ok(Node { owner, announced: announcement(row)?, since, until })
    };
    let mut all: Vec<Node> = query.query_map([], node)?.filter_map(readable).collect::<Result<_>>()?;
    all.sort_unstable_by_key(|node| node.owner);
    Ok(Nodes { all, changes, at, server_clock: None })
}

/// A row that makes no sense announces nothing: no other node may stop for it.
fn readable<T>(read: Result<T>) -> Option<Result<T>> {
    match read {
        Err(
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..),
        ) => None,
        read => Some(read),
    }
}

fn announcement(row: &Row<'_>) -> Result<Announcement> {
    Ok(Announcement {
        name: row.get(0)?,
        version: row.get(1)?,
        address: row.get(2)?,
        unable: Arc::new(lanes(&row.get::<_, String>(3)?)?),
        draining: row.get(4)?,
    })
}

fn lanes(text: &str) -> Result<BTreeSet<LaneId>> {
    let lane = |number: &str| {
        let number = number.parse().map_err(|error| {
            Error::FromSqlConversionFailure(3, Type::Text, Box::<std::num::ParseIntError>::new(error))
        })?;
        Ok(LaneId(number))
    };
    text.split(',').filter(|number| !number.is_empty()).map(lane).collect()
}
