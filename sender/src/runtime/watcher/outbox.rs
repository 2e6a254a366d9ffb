//! Rows that any program put into the outbox become events, the oldest first.
//!
//! A row waits while a subscriber that wants it is full and refuses, or is broken. Other lanes get it past a
//! full one, which gets no newer row before its oldest.
//!
//! Invariant between two polls: each remaining row up to `read` is for a lane in `waits` with a place not
//! after the row. So a scan from there finds all rows of the lane, and memory holds one place for each lane.
//!
//! On a server, a row with a smaller number may be committed later. While any row waits, a separate scan
//! looks for such late rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use tracing::{info, warn};

use super::super::emitter::{EmitError, Emitter, Outboxed, Wanted};
use crate::engine::LaneId;
use crate::store::StoreError;
use crate::store::command::OutboxId;
use crate::store::read::{OutboxRow, Reader};

/// Rows in one read, and reads in one poll.
const ROWS_MAX: u32 = 1_000;
const PAGES_MAX: u32 = 4;
/// About fifty milliseconds: long enough that a contract of ten thousand a second drains only part of a
/// queue.
const LOOKS_BETWEEN_ROUNDS: u64 = 12;
/// Lanes in one poll; rows of the first and the largest read; reads for each lane.
const LANES_MAX: usize = 8;
const TRIED_ROWS: u32 = 1;
const TRIED_ROWS_MAX: u32 = 512;
const TRIES_MAX: u32 = 12;
/// About a second.
const LOOKS_AFTER_FAILURE: u64 = 250;
/// About a minute.
const LOOKS_BETWEEN_COMPLAINTS: u64 = 15_000;
/// About a second; and how many waiting rows are remembered, to tell late rows from them.
const LOOKS_BETWEEN_LATE: u64 = 250;
const KNOWN_MAX: usize = ROWS_MAX as usize;
/// About five minutes. Finds rows inserted below all remembered ones.
const LOOKS_BETWEEN_REREADS: u64 = 75_000;

#[derive(Debug, Default)]
pub(in crate::runtime) struct Outbox {
    read: Option<OutboxId>,
    /// The first row that may wait, by lane.
    waits: BTreeMap<LaneId, OutboxId>,
    /// The rows were matched with this version.
    roster: u64,
    /// The last lane of this round, and the poll that starts the next round.
    turn: Option<LaneId>,
    round: u64,
    resume: u64,
    reread: u64,
    late: Late,
    /// A warning was logged; the next comes at this poll or later.
    told: bool,
    silent_until: u64,
}

/// Rows that become visible after newer ones.
#[derive(Debug, Default)]
struct Late {
    /// The newest waiting rows that were read.
    known: BTreeSet<OutboxId>,
    /// How far the scan went. `None` restarts it.
    looked: Option<OutboxId>,
    next: u64,
}

impl Late {
    fn know(&mut self, row: OutboxId) {
        self.known.insert(row);
        if self.known.len() > KNOWN_MAX {
            self.known.pop_first();
        }
    }

    /// Starts at the first row if all waiting rows are known.
    fn after(&self) -> Option<OutboxId> {
        let first = self.known.first().filter(|_| self.known.len() >= KNOWN_MAX);
        self.looked.max(first.copied())
    }

    fn among(&mut self, mut rows: Vec<OutboxRow>, read: Option<OutboxId>) -> Vec<OutboxRow> {
        self.looked = rows.last().map(|last| last.id).filter(|last| Some(*last) < read);
        rows.retain(|row| Some(row.id) <= read && !self.known.contains(&row.id));
        rows
    }
}

struct Interrupted;

/// A new row goes to all lanes without a waiting row.
struct AllBut<'a>(&'a BTreeMap<LaneId, OutboxId>);

impl Wanted for AllBut<'_> {
    fn wants(&self, _: &[LaneId]) -> bool {
        true
    }

    fn withholds(&self, _: OutboxId, lane: LaneId) -> bool {
        self.0.contains_key(&lane)
    }
}

/// A row read again also goes to lanes without an earlier waiting row.
struct OneLane<'a>(LaneId, &'a BTreeMap<LaneId, OutboxId>);

impl Wanted for OneLane<'_> {
    fn wants(&self, lanes: &[LaneId]) -> bool {
        lanes.contains(&self.0)
    }

    fn withholds(&self, row: OutboxId, lane: LaneId) -> bool {
        lane != self.0 && self.1.get(&lane).is_some_and(|first| *first < row)
    }
}

impl Outbox {
    /// Emits as many rows as one poll takes. `look` counts polls from 1.
    pub(super) fn look(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<(), StoreError> {
        let roster = emitter.roster().version();
        if self.roster != roster {
            self.begin_anew();
            self.roster = roster;
        }
        if look < self.resume {
            return Ok(());
        }
        if look >= self.reread {
            self.reread = look + LOOKS_BETWEEN_REREADS;
            self.read = None;
        }
        if self.try_again(reader, emitter, look)?.is_ok() && self.find_late(reader, emitter, look)?.is_ok() {
            let _ = self.read_on(reader, emitter, look)?;
        }
        if self.waits.is_empty() && look >= self.resume {
            self.read = None;
            self.nothing_waits();
        }
        Ok(())
    }

    pub(super) fn is_empty(&mut self) {
        if !self.waits.is_empty() || self.read.is_some() {
            self.begin_anew();
        }
        self.nothing_waits();
    }

    fn nothing_waits(&mut self) {
        if std::mem::take(&mut self.told) {
            info!("no row of the outbox waits any more");
        }
    }

    fn begin_anew(&mut self) {
        self.read = None;
        self.waits.clear();
        self.turn = None;
        self.late = Late::default();
    }

    fn find_late(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        if look < self.late.next || self.read.is_none() {
            return Ok(Ok(()));
        }
        self.late.next = look + LOOKS_BETWEEN_LATE;
        let rows = reader.outbox(self.late.after(), ROWS_MAX)?;
        let rows = self.late.among(rows, self.read);
        let fates = emitter.emit_outbox(reader, &rows, &AllBut(&self.waits))?;
        Ok(self.note(&rows, fates, look))
    }

    fn read_on(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        for _ in 0..PAGES_MAX {
            let rows = reader.outbox(self.read, ROWS_MAX)?;
            let Some(last) = rows.last() else { break };
            let fates = emitter.emit_outbox(reader, &rows, &AllBut(&self.waits))?;
            if self.note(&rows, fates, look).is_err() {
                return Ok(Err(Interrupted));
            }
            self.read = self.read.max(Some(last.id));
        }
        Ok(Ok(()))
    }

    /// A few lanes in a poll, until each had its turn.
    fn try_again(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        if look < self.round {
            return Ok(Ok(()));
        }
        let from = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let lanes: Vec<LaneId> =
            self.waits.range((from, Bound::Unbounded)).map(|(lane, _)| *lane).take(LANES_MAX).collect();
        let mut more = false;
        for lane in &lanes {
            match self.try_lane(reader, emitter, look, *lane)? {
                Ok(went_on) => more |= went_on,
                Err(Interrupted) => return Ok(Err(Interrupted)),
            }
        }
        self.turn = lanes.last().copied().filter(|_| lanes.len() == LANES_MAX);
        if self.turn.is_none() && !more {
            self.round = look + LOOKS_BETWEEN_ROUNDS;
        }
        Ok(Ok(()))
    }

    /// Returns whether the lane might take more.
    fn try_lane(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
        lane: LaneId,
    ) -> Result<Result<bool, Interrupted>, StoreError> {
        let mut max = TRIED_ROWS;
        for _ in 0..TRIES_MAX {
            let Some(first) = self.waits.get(&lane).copied() else { return Ok(Ok(false)) };
            let mut rows = reader.outbox(Some(OutboxId(first.0 - 1)), max)?;
            rows.retain(|row| Some(row.id) <= self.read);
            let Some(last) = rows.last() else {
                self.waits.remove(&lane);
                return Ok(Ok(false));
            };
            let fates = emitter.emit_outbox(reader, &rows, &OneLane(lane, &self.waits))?;
            let still = rows
                .iter()
                .zip(&fates)
                .find(|(_, fate)| matches!(fate, Outboxed::Waits { refused, .. } if refused.contains(&lane)));
            let place = still.map_or(OutboxId(last.id.0 + 1), |(row, _)| row.id);
            let is_full = still.is_some();
            if self.note(&rows, fates, look).is_err() {
                return Ok(Err(Interrupted));
            }
            self.waits.insert(lane, place);
            if is_full {
                return Ok(Ok(false));
            }
            max = TRIED_ROWS_MAX.min(max * 2);
        }
        Ok(Ok(true))
    }

    fn note(&mut self, rows: &[OutboxRow], fates: Vec<Outboxed>, look: u64) -> Result<(), Interrupted> {
        let (mut waits, mut stale, mut failed) = (None, false, None);
        for (row, fate) in rows.iter().zip(fates) {
            match fate {
                Outboxed::Gone | Outboxed::Untried => {}
                Outboxed::Waits { refused, withheld, error } => {
                    waits = waits.or(error);
                    self.late.know(row.id);
                    for lane in withheld.into_iter().chain(refused) {
                        let first = self.waits.entry(lane).or_insert(row.id);
                        *first = row.id.min(*first);
                    }
                }
                Outboxed::Stale => stale = true,
                Outboxed::Failed(error) => failed = failed.or(Some(error)),
            }
        }
        let is_failed = failed.is_some();
        if let Some(error) = failed.or(waits) {
            self.complain(&error, look);
        }
        if is_failed {
            self.resume = look + LOOKS_AFTER_FAILURE;
        }
        if is_failed || stale {
            self.begin_anew();
            return Err(Interrupted);
        }
        Ok(())
    }

    fn complain(&mut self, error: &EmitError, look: u64) {
        if look >= self.silent_until {
            self.silent_until = look + LOOKS_BETWEEN_COMPLAINTS;
            self.told = true;
            warn!(%error, "rows of the outbox wait");
        }
    }
}
