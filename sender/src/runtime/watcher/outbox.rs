//! The outbox: rows that any program put there become events, the oldest first.
//!
//! A row waits while a subscriber that wants it can't take it: full, and it would rather refuse than shed, or broken. Beside
//! one that is full, the others get it meanwhile. No newer row is tried for that lane before it; as soon as there is room, the oldest rows for
//! that lane get it.
//!
//! What holds between two looks: each row up to `read` that is still there is for some lane of `waits`, whose place is
//! not after it. So a lane's rows are found from its place on, and memory holds one place for each lane, however many
//! rows wait.
//!
//! But for rows that come to be seen after newer ones: on a server, whoever put one in first may commit last. As long as any row
//! waits, such are looked for beside the newest that do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use tracing::{info, warn};

use super::super::emitter::{EmitError, Emitter, Outboxed, Wanted};
use crate::engine::LaneId;
use crate::store::StoreError;
use crate::store::command::OutboxId;
use crate::store::read::{OutboxRow, Reader};

/// Rows read for the first time in one go, and how often in one look.
const ROWS_MAX: u32 = 1_000;
const PAGES_MAX: u32 = 4;
/// Looks from one round of trying again to the next: about fifty milliseconds, in which a contract of ten thousand a
/// second makes room for no more than a queue that is worth the name.
const LOOKS_BETWEEN_ROUNDS: u64 = 12;
/// Lanes tried again in one look; rows read for each at first, at last (where there is room for them), and how often.
const LANES_MAX: usize = 8;
const TRIED_ROWS: u32 = 1;
const TRIED_ROWS_MAX: u32 = 512;
const TRIES_MAX: u32 = 12;
/// Looks, about a second, after the store took nothing.
const LOOKS_AFTER_FAILURE: u64 = 250;
/// Looks, about a minute, between two complaints that rows wait.
const LOOKS_BETWEEN_COMPLAINTS: u64 = 15_000;
/// Looks, about a second, from one look for rows that came late to the next; and how many of those that wait are known, so that
/// others between them are found.
const LOOKS_BETWEEN_LATE: u64 = 250;
const KNOWN_MAX: usize = ROWS_MAX as usize;
/// Looks, about five minutes, after which all rows are read again: somebody may have put in one with a number that was
/// passed already, long before all that is known.
const LOOKS_BETWEEN_REREADS: u64 = 75_000;

/// How far the outbox was read, and what waits.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Outbox {
    read: Option<OutboxId>,
    /// Lanes for which rows wait, and the first row that may.
    waits: BTreeMap<LaneId, OutboxId>,
    /// Of the subscribers that the rows were matched with.
    roster: u64,
    /// The lane that was tried last in this round, and the look with which the next begins.
    turn: Option<LaneId>,
    round: u64,
    /// Nothing is tried before that look.
    resume: u64,
    reread: u64,
    late: Late,
    /// Somebody was told that rows wait, and is told again no sooner than with that look.
    told: bool,
    silent_until: u64,
}

/// Rows that come to be seen after newer ones.
#[derive(Debug, Default)]
struct Late {
    /// The newest of the rows that were read and left to wait.
    known: BTreeSet<OutboxId>,
    /// Up to where this was looked through; nothing, where the next look begins anew.
    looked: Option<OutboxId>,
    /// The look with which to go on.
    next: u64,
}

impl Late {
    /// A row waits.
    fn know(&mut self, row: OutboxId) {
        self.known.insert(row);
        if self.known.len() > KNOWN_MAX {
            self.known.pop_first();
        }
    }

    /// After which row to look on. As long as all that wait are known, that begins with the first there is.
    fn after(&self) -> Option<OutboxId> {
        let first = self.known.first().filter(|_| self.known.len() >= KNOWN_MAX);
        self.looked.max(first.copied())
    }

    /// Which of these came late, of those up to `read`.
    fn among(&mut self, mut rows: Vec<OutboxRow>, read: Option<OutboxId>) -> Vec<OutboxRow> {
        self.looked = rows.last().map(|last| last.id).filter(|last| Some(*last) < read);
        rows.retain(|row| Some(row.id) <= read && !self.known.contains(&row.id));
        rows
    }
}

/// Nothing more is to be done in this look.
struct Interrupted;

/// Rows that are read for the first time are for everybody for whom none waits.
struct AllBut<'a>(&'a BTreeMap<LaneId, OutboxId>);

impl Wanted for AllBut<'_> {
    fn wants(&self, _: &[LaneId]) -> bool {
        true
    }

    fn withholds(&self, _: OutboxId, lane: LaneId) -> bool {
        self.0.contains_key(&lane)
    }
}

/// Rows that are read again for one lane are also for those for whom none before them waits.
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
    /// Makes events of the rows that there are, as far as one look goes. Looks are counted from 1.
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
            // An interruption is a matter of the next look.
            let _ = self.read_on(reader, emitter, look)?;
        }
        if self.waits.is_empty() && look >= self.resume {
            self.read = None;
            self.nothing_waits();
        }
        Ok(())
    }

    /// The outbox is empty.
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

    /// Rows that were not there when newer ones were read.
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

    /// Rows that were never looked at.
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

    /// Rows that wait, a few lanes in a look, until each has had its turn.
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

    /// The oldest rows for one lane, until it takes no more. Whether it might have.
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

    /// Keeps what became of rows.
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
