//! What others did: new work, changed subscribers, rows in the outbox, leases.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::super::claim::QUEUE;
use super::super::ledger::totals;
use super::super::values::int;
use crate::engine::{DeliveryId, LaneId, WallTime};
use crate::store::command::OutboxId;
use crate::store::read::{Glance, OutboxRow, Owner, Place, RejectedRow, Work};

pub(super) fn glance(sql: &Connection) -> Result<Glance> {
    let totals = totals(sql)?;
    let outbox = sql.prepare_cached("SELECT max(id) FROM outbox")?.query_row([], |row| row.get(0))?;
    Ok(Glance {
        identity: totals.identity,
        clock: totals.clock,
        roster: totals.roster,
        last: DeliveryId(totals.next_delivery - 1),
        stirred: totals.stirred,
        outbox,
    })
}

pub(super) fn work_after(sql: &Connection, after: DeliveryId, max: u32) -> Result<Work> {
    let mut query = sql.prepare_cached(
        "SELECT delivery, lane, at, state FROM deliveries WHERE delivery > ?1 ORDER BY delivery LIMIT ?2",
    )?;
    let mut rows = query.query(params![after, max])?;
    let mut lanes: BTreeMap<LaneId, WallTime> = BTreeMap::new();
    let (mut last, mut looked_at) = (after, 0);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        looked_at += 1;
        if row.get::<_, Place>(3)? == Place::Waiting {
            let at = row.get(2)?;
            let first = lanes.entry(row.get(1)?).or_insert(at);
            *first = at.min(*first);
        }
    }
    Ok(Work { lanes: lanes.into_iter().collect(), last, more: looked_at >= max })
}

pub(super) fn heads(sql: &Connection, lanes: &[LaneId]) -> Result<Vec<(LaneId, WallTime)>> {
    let mut query = sql.prepare_cached(QUEUE)?;
    let mut heads = Vec::new();
    for lane in lanes {
        let head = query.query_row([lane], |row| row.get(1)).optional()?;
        heads.extend(head.map(|at| (*lane, at)));
    }
    Ok(heads)
}

pub(super) fn outbox(sql: &Connection, after: OutboxId, max: u32) -> Result<Vec<OutboxRow>> {
    sql.prepare_cached("SELECT id, type, key, data, event FROM outbox WHERE id > ?1 ORDER BY id LIMIT ?2")?
        .query_map(params![after, max], outbox_row)?
        .collect()
}

pub(super) fn rejected(
    sql: &Connection,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<(Vec<RejectedRow>, Option<[u64; 2]>)> {
    let before = place.map_or(u64::MAX, |at| at[0]);
    let rows: Vec<RejectedRow> = sql
        .prepare_cached(
            "SELECT id, type, key, data, event, why, at FROM outbox_rejected
             WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
        )?
        .query_map(params![int(before), max], |row| {
            Ok(RejectedRow { row: outbox_row(row)?, why: row.get(5)?, at: row.get(6)? })
        })?
        .collect::<Result<_>>()?;
    let next = super::listing::last_if_full(&rows, max, |row| [row.row.id.0, 0]);
    Ok((rows, next))
}

fn outbox_row(row: &Row<'_>) -> Result<OutboxRow> {
    Ok(OutboxRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        key: row.get(2)?,
        data: row.get(3)?,
        event: row.get(4)?,
    })
}

pub(super) fn owners(sql: &Connection) -> Result<Vec<Owner>> {
    sql.prepare_cached(
        "SELECT o.owner, o.until, (SELECT count(*) FROM lanes l WHERE l.owner = o.owner) FROM owners o
         ORDER BY o.owner",
    )?
    .query_map([], |row| Ok(Owner { owner: row.get(0)?, until: row.get(1)?, lanes: row.get(2)? }))?
    .collect()
}
