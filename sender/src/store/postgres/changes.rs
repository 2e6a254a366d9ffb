//! What a commit has changed of what it locked: written with everything else, a statement for each table.

use super::ledger::{Changes, Lane, listed};
use super::link::Ask;
use super::table::Table;
use super::values::int;
use crate::engine::LaneId;

impl Changes {
    /// The tables with changes.
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

    /// The state, if it changed.
    pub(super) fn state(&self) -> Option<Ask<'_>> {
        let [roster, stirred, next_lane, nodes] = self.state.as_ref()?;
        let text = "UPDATE state SET roster = $1, stirred = $2, next_lane = $3, nodes = $4";
        Some(Ask { text, values: vec![roster, stirred, next_lane, nodes] })
    }
}

fn lanes(lanes: &[(LaneId, Lane)]) -> Table<'_> {
    let table = Table::new(
        "UPDATE lanes l SET state = u.state, rows_max = u.rows_max, bytes_max = u.bytes_max,
         when_full = u.when_full, owner = u.owner, term = u.term, accepted = u.c0, delivered = u.c1, dead = u.c2,
         coalesced = u.c3, waiting = u.c4, waiting_bytes = u.c5, retrying = u.c6, dead_kept = u.c7,
         failed_attempts = u.c8, latency_us = u.c9, arrivals = u.arrivals, earliest = u.earliest, disturbed = u.disturbed, head = u.head,
         changes = u.changes, record_at = coalesce(u.record_at, l.record_at), record = coalesce(u.record, l.record)
         FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::int8[],
         $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::bytea[], $15::int8[], $16::int8[],
         $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[], $22::int8[], $23::int8[], $24::int8[])
         u (lane, state, rows_max, bytes_max, when_full, owner, term, arrivals, earliest, disturbed, head, changes,
         record_at, record, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9)
         WHERE l.lane = u.lane AND l.era = (u.changes - 1) / 64",
    )
    .with(lanes.iter().map(|(id, _)| *id))
    .with(lanes.iter().map(|(_, lane)| lane.state))
    .with(lanes.iter().map(|(_, lane)| int(lane.bounds.rows_max)))
    .with(lanes.iter().map(|(_, lane)| int(lane.bounds.bytes_max)))
    .with(lanes.iter().map(|(_, lane)| lane.bounds.when_full))
    .with(lanes.iter().map(|(_, lane)| lane.owner))
    .with(lanes.iter().map(|(_, lane)| lane.term))
    .with(lanes.iter().map(|(_, lane)| int(lane.signs.arrivals)))
    .with(lanes.iter().map(|(_, lane)| lane.signs.earliest))
    .with(lanes.iter().map(|(_, lane)| int(lane.signs.disturbed)))
    .with(lanes.iter().map(|(_, lane)| lane.signs.head))
    .with(lanes.iter().map(|(_, lane)| int(lane.changes)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| record.at)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| &*record.bytes)));
    (0..10).fold(table, |table, place| {
        table.with(lanes.iter().map(move |(_, lane)| int(listed(&lane.counts)[place])))
    })
}
