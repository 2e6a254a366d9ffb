//! Changes to locked rows, written at the end of the commit with one statement for each table.

use super::ledger::{Changes, Entry};
use super::link::Ask;
use super::table::Table;
use super::values::{int, listed};
use crate::engine::LaneId;

impl Changes {
    pub(super) fn tables(&self) -> Vec<Table<'_>> {
        let mut tables = Vec::new();
        if !self.lanes.is_empty() {
            tables.push(lanes(&self.lanes));
        }
        if !self.owners.is_empty() {
            tables.push(
                Table::new(
                    "INSERT INTO owners SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[])
                     ON CONFLICT (owner) DO UPDATE SET until = excluded.until, evicted = excluded.evicted,
                     taken = excluded.taken",
                )
                .with(self.owners.iter().map(|(owner, _)| *owner))
                .with(self.owners.iter().map(|(_, lease)| lease.until))
                .with(self.owners.iter().map(|(_, lease)| lease.evicted))
                .with(self.owners.iter().map(|(_, lease)| int(lease.taken))),
            );
        }
        tables
    }

    /// `None` if it did not change.
    pub(super) fn state(&self) -> Option<Ask<'_>> {
        let [roster, stirred, next_lane, nodes] = self.state.as_ref()?;
        let text = "UPDATE state SET roster = $1, stirred = $2, next_lane = $3, nodes = $4";
        Some(Ask { text, values: vec![roster, stirred, next_lane, nodes] })
    }
}

/// Written as upserts, so that PostgreSQL does not choose the join order. With few rows in a table it would read them
/// first, with all their dead versions.
fn lanes(lanes: &[(LaneId, Entry)]) -> Table<'_> {
    let table = Table::new(
        "INSERT INTO lanes AS l (lane, state, rows_max, bytes_max, when_full, capped, owner, term, arrivals, earliest,
         disturbed, head, changes, record_at, record, accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying,
         dead_kept, failed_attempts, latency_us)
         SELECT * FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::bool[], $7::int8[], $8::int8[],
         $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::bytea[], $16::int8[],
         $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[], $22::int8[], $23::int8[], $24::int8[],
         $25::int8[])
         ON CONFLICT (lane, era) DO UPDATE SET state = excluded.state, rows_max = excluded.rows_max,
         bytes_max = excluded.bytes_max, when_full = excluded.when_full, owner = excluded.owner, term = excluded.term,
         arrivals = excluded.arrivals, earliest = excluded.earliest, disturbed = excluded.disturbed, head = excluded.head,
         changes = excluded.changes + 1, record_at = coalesce(excluded.record_at, l.record_at),
         record = coalesce(excluded.record, l.record), accepted = excluded.accepted, delivered = excluded.delivered,
         dead = excluded.dead, coalesced = excluded.coalesced, waiting = excluded.waiting,
         waiting_bytes = excluded.waiting_bytes, retrying = excluded.retrying, dead_kept = excluded.dead_kept,
         failed_attempts = excluded.failed_attempts, latency_us = excluded.latency_us",
    )
    .with(lanes.iter().map(|(id, _)| *id))
    .with(lanes.iter().map(|(_, lane)| lane.lane.state))
    .with(lanes.iter().map(|(_, lane)| int(lane.lane.bounds.rows_max)))
    .with(lanes.iter().map(|(_, lane)| int(lane.lane.bounds.bytes_max)))
    .with(lanes.iter().map(|(_, lane)| lane.lane.bounds.when_full))
    .with(lanes.iter().map(|(_, lane)| lane.lane.capped))
    .with(lanes.iter().map(|(_, lane)| lane.lane.owner))
    .with(lanes.iter().map(|(_, lane)| lane.lane.term))
    .with(lanes.iter().map(|(_, lane)| int(lane.signs.arrivals)))
    .with(lanes.iter().map(|(_, lane)| lane.signs.earliest))
    .with(lanes.iter().map(|(_, lane)| int(lane.signs.disturbed)))
    .with(lanes.iter().map(|(_, lane)| lane.signs.head))
    .with(lanes.iter().map(|(_, lane)| int(lane.changes)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| record.at)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| &*record.bytes)));
    (0..10).fold(table, |table, place| {
        table.with(lanes.iter().map(move |(_, lane)| int(listed(&lane.lane.counts)[place])))
    })
}
