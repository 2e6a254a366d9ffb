//! What a commit has changed of what it locked: written with everything else, a statement for each table.

use super::ledger::{Lane, Lease, State, listed};
use super::link::{Ask, Value};
use super::values::int;
use crate::engine::{LaneId, StoreTime, Term};
use crate::store::lane::{LaneState, OwnerId, WhenFull};
use crate::store::reply::Record;

/// What a commit has changed of what it locked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) lanes: LaneColumns,
    pub(super) records: Vec<(LaneId, Record)>,
    pub(super) owners: Vec<(OwnerId, Lease)>,
    pub(super) state: Option<State>,
}

/// Lanes by columns, as they are written.
#[derive(Debug, Default)]
pub(super) struct LaneColumns {
    pub(super) lane: Vec<LaneId>,
    pub(super) state: Vec<LaneState>,
    pub(super) rows_max: Vec<i64>,
    pub(super) bytes_max: Vec<i64>,
    pub(super) when_full: Vec<WhenFull>,
    pub(super) owner: Vec<Option<OwnerId>>,
    pub(super) term: Vec<Term>,
    pub(super) counts: [Vec<i64>; 10],
}

impl LaneColumns {
    pub(super) fn push(&mut self, id: LaneId, lane: &Lane) {
        self.lane.push(id);
        self.state.push(lane.state);
        self.rows_max.push(int(lane.bounds.rows_max));
        self.bytes_max.push(int(lane.bounds.bytes_max));
        self.when_full.push(lane.bounds.when_full);
        self.owner.push(lane.owner);
        self.term.push(lane.term);
        for (column, count) in self.counts.iter_mut().zip(listed(&lane.counts)) {
            column.push(int(count));
        }
    }

    /// Writes all of them in one statement.
    pub(super) const UPDATE: &str = "UPDATE lanes l SET state = u.state, rows_max = u.rows_max, bytes_max = u.bytes_max,
        when_full = u.when_full, owner = u.owner, term = u.term, accepted = u.c0, delivered = u.c1, dead = u.c2,
        coalesced = u.c3, waiting = u.c4, waiting_bytes = u.c5, retrying = u.c6, dead_kept = u.c7,
        failed_attempts = u.c8, latency_us = u.c9
        FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::int8[], $7::int8[], $8::int8[],
        $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[], $16::int8[],
        $17::int8[]) u (lane, state, rows_max, bytes_max, when_full, owner, term, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9)
        WHERE l.lane = u.lane";

    pub(super) fn ask(&self) -> Option<Ask<'_>> {
        if self.lane.is_empty() {
            return None;
        }
        let mut values: Vec<Value<'_>> = vec![
            &self.lane,
            &self.state,
            &self.rows_max,
            &self.bytes_max,
            &self.when_full,
            &self.owner,
            &self.term,
        ];
        values.extend(self.counts.iter().map(|column| column as Value<'_>));
        Some(Ask { text: Self::UPDATE, values })
    }
}

/// What a commit seldom changes, by columns.
pub(super) struct Rest<'a> {
    records: (Vec<LaneId>, Vec<StoreTime>, Vec<&'a [u8]>),
    owners: (Vec<OwnerId>, Vec<StoreTime>, Vec<bool>, Vec<i64>),
    state: Option<[i64; 3]>,
}

impl<'a> Rest<'a> {
    pub(super) fn of(changes: &'a Changes) -> Self {
        let mut rest = Self {
            records: Default::default(),
            owners: Default::default(),
            state: changes.state.map(|state| state.numbers()),
        };
        for (lane, record) in &changes.records {
            rest.records.0.push(*lane);
            rest.records.1.push(record.at);
            rest.records.2.push(&record.bytes);
        }
        for (owner, lease) in &changes.owners {
            rest.owners.0.push(*owner);
            rest.owners.1.push(lease.until);
            rest.owners.2.push(lease.evicted);
            rest.owners.3.push(int(lease.taken));
        }
        rest
    }

    pub(super) fn asks(&self, changes: &Changes) -> Vec<Ask<'_>> {
        let mut asks = Vec::new();
        if !changes.records.is_empty() {
            asks.push(Ask {
                text: "UPDATE lanes l SET record_at = u.at, record = u.record
                    FROM unnest($1::int8[], $2::int8[], $3::bytea[]) u (lane, at, record) WHERE l.lane = u.lane",
                values: vec![&self.records.0, &self.records.1, &self.records.2],
            });
        }
        if !changes.owners.is_empty() {
            asks.push(Ask {
                text:
                    "INSERT INTO owners SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[])
                    ON CONFLICT (owner) DO UPDATE SET until = excluded.until, evicted = excluded.evicted,
                    taken = excluded.taken",
                values: vec![&self.owners.0, &self.owners.1, &self.owners.2, &self.owners.3],
            });
        }
        if let Some([roster, stirred, next_lane]) = &self.state {
            asks.push(Ask {
                text: "UPDATE state SET roster = $1, stirred = $2, next_lane = $3",
                values: vec![roster, stirred, next_lane],
            });
        }
        asks
    }
}
