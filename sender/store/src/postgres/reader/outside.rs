//! Changes by other processes: new work, subscribers, outbox rows, leases.

use std::cell::Cell;
use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::Read;
use super::arrivals::Arrivals;
use crate::command::{Condition, OutboxId};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::paging::{last_if_full, outbox_id_at, place_before};
use crate::postgres::clock::server_clock;
use crate::postgres::link::Link;
use crate::postgres::values::{Bits, Count, size};
use crate::read::{Glance, OutboxRow, Owner, Place, RejectedRow, Work};

/// Looks for the newest delivery in `done` first, and then only above it in `deliveries`. Below it, an open
/// transaction keeps dead rows of deliveries that moved to `done`.
const GLANCE: &str = "SELECT s.identity, s.roster, s.stirred, s.nodes,
    greatest(d.newest, (SELECT delivery FROM deliveries WHERE delivery > d.newest ORDER BY delivery DESC LIMIT 1)),
    (SELECT max(id) FROM outbox)
    FROM state s, (SELECT coalesce((SELECT delivery FROM done ORDER BY delivery DESC LIMIT 1), 0) AS newest) d";

/// One snapshot of the deliveries after a place, the oldest running transaction, and the time.
const ARRIVED: &str = concat!(
    "SELECT ARRAY(SELECT delivery FROM all_deliveries WHERE delivery > $1 ORDER BY delivery LIMIT 10000),
    pg_snapshot_xmin(pg_current_snapshot())::text::int8, ",
    server_clock!()
);

const NEXT: &str = "SELECT pg_current_xact_id()::text::int8";

pub(super) fn glance(sql: &Link, arrivals: &mut Arrivals, late: &Cell<u64>) -> Read<Glance> {
    let row = sql.one(GLANCE, &[])?;
    let last: DeliveryId = row.try_get(4)?;
    let settled = arrivals.begin(last.0);
    if last.0 > settled {
        poll_arrivals(sql, arrivals, settled, late)?;
    }
    Ok(Glance {
        identity: row.try_get::<_, Bits>(0)?.0,
        roster: row.try_get::<_, Count>(1)?.0,
        last,
        settled: DeliveryId(arrivals.settled().min(last.0)),
        late: late.get(),
        stirred: row.try_get::<_, Count>(2)?.0,
        nodes: row.try_get::<_, Count>(3)?.0,
        outbox: row.try_get(5)?,
    })
}

fn poll_arrivals(sql: &Link, arrivals: &mut Arrivals, settled: u64, late: &Cell<u64>) -> Read<()> {
    let found = sql.one(ARRIVED, &[&DeliveryId(settled)])?;
    let numbers: Vec<u64> = found.try_get::<_, Vec<Count>>(0)?.into_iter().map(|number| number.0).collect();
    if arrivals.advance(&numbers, found.try_get::<_, Count>(1)?.0, found.try_get(2)?) {
        late.set(late.get() + 1);
    }
    if arrivals.wants_next() {
        arrivals.set_next(sql.one(NEXT, &[])?.try_get::<_, Count>(0)?.0);
    }
    Ok(())
}

pub(super) fn work_after(sql: &Link, after: DeliveryId, max: u32) -> Read<Work> {
    let query =
        "SELECT delivery, lane, at, state FROM all_deliveries WHERE delivery > $1 ORDER BY delivery LIMIT $2";
    let rows = sql.query(query, &[&after, &i64::from(max)])?;
    let mut lanes: BTreeMap<LaneId, StoreTime> = BTreeMap::new();
    let mut last = after;
    for row in &rows {
        last = row.try_get(0)?;
        if row.try_get::<_, Place>(3)? == Place::Waiting {
            let at = row.try_get(2)?;
            let first = lanes.entry(row.try_get(1)?).or_insert(at);
            *first = at.min(*first);
        }
    }
    Ok(Work { lanes: lanes.into_iter().collect(), last, more: size(rows.len()) >= u64::from(max) })
}

pub(super) fn heads(sql: &Link, lanes: &[LaneId]) -> Read<Vec<(LaneId, StoreTime)>> {
    let query =
        "SELECT u.lane, d.at FROM unnest($1::int8[]) WITH ORDINALITY u (lane, place)
        CROSS JOIN LATERAL (SELECT head FROM lanes l WHERE l.lane = u.lane ORDER BY l.era DESC LIMIT 1) l
        CROSS JOIN LATERAL (SELECT at FROM deliveries d WHERE d.lane = u.lane AND d.state = 0 AND d.at >= l.head
            ORDER BY at, delivery LIMIT 1) d
        ORDER BY u.place";
    sql.query(query, &[&lanes])?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The columns of a row, left empty in an oversized row: any program may write one.
macro_rules! columns {
    ($table:literal) => {
        concat!(
            "SELECT id, CASE WHEN bytes > 4194304 THEN '' ELSE type END,
             CASE WHEN bytes > 4194304 THEN NULL ELSE key END, CASE WHEN bytes > 4194304 THEN '' ELSE data END,
             CASE WHEN bytes > 4194304 THEN NULL ELSE event END, bytes",
            $table
        )
    };
}

const OUTBOX: &str = columns!(
    " FROM (SELECT *, (octet_length(type) + octet_length(data) + coalesce(octet_length(key), 0)
     + coalesce(octet_length(event), 0))::int8 AS bytes FROM outbox WHERE id >= $1 ORDER BY id LIMIT $2) o ORDER BY id"
);
const REJECTED: &str = columns!(
    ", why, at FROM (SELECT *, (octet_length(type) + octet_length(data) + coalesce(octet_length(key), 0)
     + coalesce(octet_length(event), 0))::int8 AS bytes FROM outbox_rejected WHERE id <= $1 ORDER BY id DESC LIMIT $2) o
     ORDER BY id DESC"
);

pub(super) fn outbox(sql: &Link, after: Option<OutboxId>, max: u32) -> Read<Vec<OutboxRow>> {
    let Some(from) = after.map_or(Some(i64::MIN), |after| after.0.checked_add(1)) else {
        return Ok(Vec::new());
    };
    let (mut page, mut bytes) = (Vec::new(), 0);
    for row in sql.query(OUTBOX, &[&from, &i64::from(max)])? {
        if bytes >= OutboxRow::PAGE_BYTES_MAX {
            break;
        }
        let row = outbox_row(&row)?;
        bytes += row.data.len();
        page.push(row);
    }
    Ok(page)
}

pub(super) fn rejected(
    sql: &Link,
    place: Option<[u64; 2]>,
    max: u32,
) -> Read<(Vec<RejectedRow>, Option<[u64; 2]>)> {
    let before = outbox_id_at(place);
    let rows = sql.query(REJECTED, &[&before, &i64::from(max)])?;
    let rejected =
        |row: &Row| Ok(RejectedRow { row: outbox_row(row)?, why: row.try_get(6)?, at: row.try_get(7)? });
    let rows: Vec<RejectedRow> = rows.iter().map(rejected).collect::<Read<_>>()?;
    let next = last_if_full(&rows, max, |row| place_before(row.row.id)).flatten();
    Ok((rows, next))
}

fn outbox_row(row: &Row) -> Read<OutboxRow> {
    let (id, Count(bytes)) = (row.try_get(0)?, row.try_get(5)?);
    Ok(OutboxRow {
        id,
        kind: row.try_get::<_, &str>(1)?.into(),
        key: row.try_get::<_, Option<&str>>(2)?.map(Into::into),
        data: row.try_get::<_, &str>(3)?.into(),
        event: row.try_get::<_, Option<&str>>(4)?.map(Into::into),
        unreadable: OutboxRow::refusal(id, bytes),
    })
}

pub(super) fn notified(sql: &Link) -> Read<Vec<(LaneId, Condition)>> {
    let rows = sql.query("SELECT lane, condition FROM notified ORDER BY lane, condition", &[])?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

pub(super) fn owners(sql: &Link) -> Read<Vec<Owner>> {
    let query =
        "SELECT o.owner, o.until, (SELECT count(*) FROM lanes l WHERE l.owner = o.owner) FROM owners o
        ORDER BY o.owner";
    let owner = |row: &Row| {
        Ok(Owner { owner: row.try_get(0)?, until: row.try_get(1)?, lanes: row.try_get::<_, Count>(2)?.0 })
    };
    sql.query(query, &[])?.iter().map(owner).collect()
}
