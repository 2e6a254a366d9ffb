//! Changes by other processes: new work, subscribers, outbox rows, leases.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::super::claim::QUEUE;
use super::super::ledger::totals;
use crate::command::{Condition, OutboxId};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::paging::{last_if_full, outbox_id_at, place_before};
use crate::read::{Glance, OutboxRow, Owner, Place, RejectedRow, Work};

pub(super) fn glance(sql: &Connection) -> Result<Glance> {
    let totals = totals(sql)?;
    let outbox = sql.prepare_cached("SELECT max(id) FROM outbox")?.query_row([], |row| row.get(0))?;
    let nodes = sql.prepare_cached("SELECT changes FROM membership")?.query_row([], |row| row.get(0))?;
    Ok(Glance {
        identity: totals.identity,
        roster: totals.roster,
        last: DeliveryId(totals.next_delivery - 1),
        settled: DeliveryId(totals.next_delivery - 1),
        late: 0,
        stirred: totals.stirred,
        nodes,
        outbox,
    })
}

pub(super) fn work_after(sql: &Connection, after: DeliveryId, max: u32) -> Result<Work> {
    let mut query = sql.prepare_cached(
        "SELECT delivery, lane, at, state FROM deliveries WHERE delivery > ?1 ORDER BY delivery LIMIT ?2",
    )?;
    let mut rows = query.query(params![after, max])?;
    let mut lanes: BTreeMap<LaneId, StoreTime> = BTreeMap::new();
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

pub(super) fn heads(sql: &Connection, lanes: &[LaneId]) -> Result<Vec<(LaneId, StoreTime)>> {
    let mut query = sql.prepare_cached(QUEUE)?;
    let mut heads = Vec::new();
    for lane in lanes {
        let head = query.query_row([lane], |row| row.get(1)).optional()?;
        heads.extend(head.map(|at| (*lane, at)));
    }
    Ok(heads)
}

/// The columns of a row, left empty in an oversized row: any program may write one.
const COLUMNS: &str = "id, iif(bytes > 4194304, '', type), iif(bytes > 4194304, NULL, key),
    iif(bytes > 4194304, '', data), iif(bytes > 4194304, NULL, event), bytes";
/// A row's length, computed without loading it.
const BYTES: &str = "octet_length(type) + octet_length(data)
    + ifnull(octet_length(key), 0) + ifnull(octet_length(event), 0) AS bytes";

pub(super) fn outbox(sql: &Connection, after: Option<OutboxId>, max: u32) -> Result<Vec<OutboxRow>> {
    // Programs may use any number as an id.
    let Some(from) = after.map_or(Some(i64::MIN), |after| after.0.checked_add(1)) else {
        return Ok(Vec::new());
    };
    let mut query = sql.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM (SELECT *, {BYTES} FROM outbox WHERE id >= ?1 ORDER BY id LIMIT ?2)"
    ))?;
    let mut rows = query.query(params![from, max])?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while bytes < OutboxRow::PAGE_BYTES_MAX
        && let Some(row) = rows.next()?
    {
        let row = outbox_row(row)?;
        bytes += row.data.len();
        page.push(row);
    }
    Ok(page)
}

pub(super) fn rejected(
    sql: &Connection,
    place: Option<[u64; 2]>,
    max: u32,
) -> Result<(Vec<RejectedRow>, Option<[u64; 2]>)> {
    let before = outbox_id_at(place);
    let rows: Vec<RejectedRow> = sql
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, why, at FROM (SELECT *, {BYTES} FROM outbox_rejected
             WHERE id <= ?1 ORDER BY id DESC LIMIT ?2)"
        ))?
        .query_map(params![before, max], |row| {
            Ok(RejectedRow { row: outbox_row(row)?, why: row.get(6)?, at: row.get(7)? })
        })?
        .collect::<Result<_>>()?;
    let next = last_if_full(&rows, max, |row| place_before(row.row.id)).flatten();
    Ok((rows, next))
}

fn outbox_row(row: &Row<'_>) -> Result<OutboxRow> {
    let id = row.get(0)?;
    let mut unreadable = OutboxRow::refusal(id, row.get(5)?);
    let mut text = |column: usize, name: &str| -> Result<Option<Arc<str>>> {
        // SQLite accepts any bytes as text.
        let (ValueRef::Text(bytes) | ValueRef::Blob(bytes)) = row.get_ref(column)? else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            unreadable.get_or_insert_with(|| format!("the {name} is not UTF-8"));
        }
        Ok(Some(text.into()))
    };
    let (kind, key) = (text(1, "type")?.unwrap_or_default(), text(2, "key")?);
    let (data, event) = (text(3, "data")?.unwrap_or_default(), text(4, "event")?);
    Ok(OutboxRow { id, kind, key, data, event, unreadable })
}

pub(super) fn notified(sql: &Connection) -> Result<Vec<(LaneId, Condition)>> {
    sql.prepare_cached("SELECT lane, condition FROM notified ORDER BY lane, condition")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

pub(super) fn owners(sql: &Connection) -> Result<Vec<Owner>> {
    sql.prepare_cached(
        "SELECT o.owner, o.until, (SELECT count(*) FROM lanes l WHERE l.owner = o.owner) FROM owners o
         ORDER BY o.owner",
    )?
    .query_map([], |row| Ok(Owner { owner: row.get(0)?, until: row.get(1)?, lanes: row.get(2)? }))?
    .collect()
}
