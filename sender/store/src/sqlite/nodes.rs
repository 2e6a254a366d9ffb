//! The rows of nodes: announcements and draining.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Result, Row, params};

use crate::engine::{LaneId, StoreTime};
use crate::lane::OwnerId;
use crate::node::{Announcement, Node, Nodes};

const ANNOUNCED: &str = "n.name, n.version, n.address, n.unable, n.draining";

/// An invalid row counts as none.
pub(super) fn announced(sql: &Connection, owner: OwnerId) -> Result<Option<Announcement>> {
    let query = format!("SELECT {ANNOUNCED} FROM nodes n WHERE n.owner = ?1");
    let found = sql.prepare_cached(&query)?.query_row([owner], |row| Ok(readable(announcement(row))));
    found.optional()?.flatten().transpose()
}

/// Writes an announcement. A living node keeps its start time.
pub(super) fn announce(
    sql: &Connection,
    owner: OwnerId,
    announcement: Announcement,
    (clock, lives): (StoreTime, bool),
) -> Result<()> {
    let Announcement { name, version, address, unable, draining } = announcement;
    let unable: Vec<String> = unable.iter().map(|lane| lane.0.to_string()).collect();
    sql.prepare_cached(
        "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (owner) DO UPDATE SET name = ?2, version = ?3, address = ?4, unable = ?5,
         since = iif(?8, since, ?7)",
    )?
    .execute(params![owner, name, version, address, unable.join(","), draining, clock, lives])
    .map(drop)
}

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

/// Skips an invalid row, which must not affect other nodes.
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
