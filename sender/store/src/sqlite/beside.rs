//! Claims beside the commits, on a separate connection, so that they do not wait for the disk.
//!
//! A claim hands out only deliveries that are the same before and after the commit under way (see
//! [`crate::held`]). Other cases, such as a lane that changed hands, are left to the next commit.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rusqlite::{Connection, OptionalExtension};

use super::claim::{Answer, RowReader};
use super::content::Contents;
use super::failure::Doing;
use super::fronts::{Fronts, Known};
use super::ledger;
use super::open::Watched;
use super::values::size;
use crate::command::Claim;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::held::{Held, Waiting};
use crate::lane::{LaneState, OwnerId};
use crate::reply::Claimed;
use crate::{Claimer, QuickClaims, StoreError};

const DOING: &str = "claim deliveries";
/// How many unreadable deliveries one claim discovers. The disk is slow with each.
const PASSED_OVER_MAX: u32 = 8;

/// The deliveries that are handed out, and how far each queue was read. Shared by commits and the claims beside them.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) held: Held,
    pub(super) fronts: Fronts,
}

impl Out {
    /// Begins a commit that found these numbers. `undisturbed`: no other process has written since the last one.
    pub(super) fn begin(&mut self, now: StoreTime, found: Known, undisturbed: bool) {
        self.fronts.begin(found);
        self.fronts.fresh.begin(now, undisturbed);
        if !undisturbed {
            self.held.doubt_all();
        }
    }

    pub(super) fn commit(&mut self, left: Known) {
        self.fronts.commit(left, &self.held);
        self.held.commit();
    }

    /// Also for a commit with an unknown outcome.
    pub(super) fn undo(&mut self) {
        self.held.undo();
        self.fronts.undo();
    }
}

#[derive(Debug)]
pub(super) struct SqliteClaimer {
    pub(super) sql: Connection,
    pub(super) watched: Watched,
    pub(super) out: Arc<Mutex<Out>>,
    pub(super) contents: Contents,
    pub(super) expiry_grace: Nanos,
}

impl Claimer for SqliteClaimer {
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError> {
        self.watched.check(DOING)?;
        // Locked before anything is read: a delivery released later was still held when it was read.
        let out = Arc::clone(&self.out);
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed_over = 0;
        loop {
            match self.answer(&mut out, now, claims) {
                // The failure ended the transaction, so the other deliveries are read in a new one.
                Err(Failed { not_given: Some(delivery), .. }) if passed_over < PASSED_OVER_MAX => {
                    out.held.unread.record_failure(delivery, now);
                    passed_over += 1;
                }
                answer => return answer.map_err(|failed| failed.error).doing(DOING),
            }
        }
    }
}

struct Failed {
    error: rusqlite::Error,
    not_given: Option<DeliveryId>,
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self { error, not_given: None }
    }
}

impl SqliteClaimer {
    fn answer(
        &mut self,
        Out { held, fronts }: &mut Out,
        now: StoreTime,
        claims: &[Claim],
    ) -> Result<Option<Vec<Claimed>>, Failed> {
        let moment = self.sql.unchecked_transaction()?;
        for (place, claim) in claims.iter().enumerate() {
            let twice = claims[..place].iter().any(|other| other.lane == claim.lane);
            if twice || !held.holds(claim.lane, claim.term) || !plain(&moment, claim.lane, claim.term)? {
                return Ok(None);
            }
        }
        let found = ledger::numbers(&moment)?;
        self.contents.begin(found.0);
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            fronts.fresh.forget(claim.lane);
            let mut reader = RowReader {
                sql: &moment,
                now,
                contents: &mut self.contents,
                expiry_grace: self.expiry_grace,
                not_given: None,
            };
            let standing = |delivery| held.standing_beside(claim.lane, delivery, now);
            let answer = reader.answer(claim, fronts.of(claim.lane, claim.term, found), standing);
            let not_given = reader.not_given;
            let answer = answer.map_err(|error| Failed { error, not_given })?;
            let Answer { claimed, known, reached, unreadable } = answer;
            if !unreadable.is_empty() {
                return Ok(None);
            }
            answers.push((claimed, known, reached));
        }
        moment.finish()?;
        let take = |(claimed, known, reached): (Claimed, Vec<Option<Waiting>>, Option<StoreTime>)| {
            for (row, known) in claimed.rows.iter().zip(known) {
                held.take_beside(claimed.lane, row.delivery, known);
            }
            if let Some(place) = reached {
                fronts.reach(claimed.lane, claimed.term, place, found);
            }
            if claimed.next.is_none_or(|next| next > now) {
                fronts.reach_the_end(claimed.lane, claimed.term, claimed.next, found);
            }
            claimed
        };
        Ok(Some(answers.into_iter().map(take).collect()))
    }
}

impl QuickClaims for Mutex<Out> {
    fn claim(&self, now: StoreTime, claim: &Claim) -> Option<Claimed> {
        let mut out = match self.try_lock() {
            Ok(out) => out,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The holder is reading the file, or is in a commit.
            Err(TryLockError::WouldBlock) => return None,
        };
        let Out { held, fronts } = &mut *out;
        let claimed = fronts.fresh.hand_out(claim, now, held)?;
        for row in &claimed.rows {
            let bytes = size(row.body.bytes.len());
            let waiting = Waiting { attempts: row.attempts, bytes, last_attempt: None };
            held.take_beside(claimed.lane, row.delivery, Some(waiting));
        }
        Some(claimed)
    }
}

fn plain(sql: &Connection, lane: LaneId, term: Term) -> rusqlite::Result<bool> {
    let found: Option<(LaneState, Option<OwnerId>, Term)> = sql
        .prepare_cached("SELECT state, owner, term FROM lanes WHERE lane = ?1")?
        .query_row([lane], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(found
        .is_some_and(|(state, owner, found)| state != LaneState::Removed && owner.is_some() && found == term))
}
