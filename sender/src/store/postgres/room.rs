//! Who has room, and who makes some ([`Bounded`]), by PostgreSQL's rows.

use std::collections::BTreeSet;

use super::values::{Count, int, size};
use super::{Result, Stop, Work, columns};
use crate::engine::{DeliveryId, LaneId};
use crate::store::command::{Reason, Shed};
use crate::store::lane::{Bounds, Counts, Limits};
use crate::store::reply::{Refusal, Reply};
use crate::store::room::{Bounded, Room};

impl Bounded for Work<'_> {
    type Error = Stop;

    fn room(&mut self) -> &mut Room {
        &mut self.room
    }

    fn limits(&self) -> &Limits {
        self.limits
    }

    fn totals(&self) -> &Counts {
        self.ledger.totals()
    }

    fn bounds(&mut self, lane: LaneId) -> Result<Option<(Bounds, Counts)>> {
        Ok(self.ledger.lane(lane)?.map(|lane| (lane.bounds, lane.counts)))
    }

    fn shed_rows(&mut self, lane: LaneId, max: u32, reason: Reason) -> Result<u64> {
        self.ledger.need([lane])?;
        self.flush()?;
        let (held, head) = (self.held.rows(lane), self.ledger.head(lane)?);
        let query = "SELECT delivery, bytes, attempts FROM deliveries WHERE lane = $1 AND state = 0
            AND at >= $4 AND delivery <> ALL($3) ORDER BY at, delivery LIMIT $2";
        let mut victims = Vec::new();
        for row in self.sql.query(query, &[&lane, &i64::from(max), &held, &head])? {
            victims.push(Victim {
                delivery: row.try_get(0)?,
                bytes: row.try_get::<_, Count>(1)?.0,
                tried: row.try_get::<_, i64>(2)? > 0,
            });
        }
        self.bury(lane, &victims, reason)?;
        Ok(size(victims.len()))
    }

    fn fullest(&mut self, max: u64) -> Result<BTreeSet<LaneId>> {
        // What this commit has counted so far must be seen. Its deliveries are written once all lanes are locked, since a commit that
        // begins anew gets other numbers.
        columns::flush_ledger(self.sql, &mut self.ledger)?;
        let query =
            "SELECT lane FROM lanes WHERE when_full = 0 AND waiting > 0 ORDER BY waiting DESC, lane LIMIT $1";
        let found = self.sql.query(query, &[&int(max)])?;
        let lanes = found.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<BTreeSet<_>>>()?;
        // All at once: each that is not locked yet costs another try of this commit.
        self.ledger.need(lanes.iter().copied())?;
        Ok(lanes)
    }
}

impl Work<'_> {
    pub(super) fn shed(&mut self, shed: Shed) -> Result<Reply> {
        if self.ledger.lane(shed.lane)?.is_none() {
            return Ok(Reply::Refused(Refusal::UnknownLane(shed.lane)));
        }
        let rows = self.shed_rows(shed.lane, shed.max, Reason::Overflow)?;
        Ok(Reply::Dropped { rows, more: rows == u64::from(shed.max) })
    }
}

/// A waiting delivery that is to be given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) delivery: DeliveryId,
    pub(super) bytes: u64,
    pub(super) tried: bool,
}
