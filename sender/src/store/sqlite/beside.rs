//! Claims beside the commits, on a connection of their own: handing out work does not wait for the disk.
//!
//! It hands out only what is the same before and after the commit that may be under way: see [`crate::store::held`]. Whatever
//! is not the plain case (a lane that is not held here, or has changed hands) it leaves to the next commit.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rusqlite::{Connection, OptionalExtension};

use super::claim::{Answer, RowReader};
use super::content::Contents;
use super::failure::Doing;
use super::fronts::{Fronts, Known};
use super::ledger;
use super::open::Watched;
use super::values::size;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::store::command::Claim;
use crate::store::held::{Held, Waiting};
use crate::store::lane::{LaneState, OwnerId};
use crate::store::reply::Claimed;
use crate::store::{Claimer, QuickClaims, StoreError};

const DOING: &str = "claim deliveries";
/// Deliveries that the disk does not give, of which one claim finds out: the disk takes its time for each.
const PASSED_OVER_MAX: u32 = 8;

/// What is handed out, and up to where: of commits and claims beside them alike.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) held: Held,
    pub(super) fronts: Fronts,
}

impl Out {
    /// A commit begins, at which the store gave out these numbers; nobody else has written since the last, or somebody may have.
    pub(super) fn begin(&mut self, now: StoreTime, found: Known, undisturbed: bool) {
        self.fronts.begin(found);
        self.fronts.fresh.begin(now, undisturbed);
        if !undisturbed {
            self.held.doubt_all();
        }
    }

    /// The commit is durable, and left these numbers.
    pub(super) fn keep(&mut self, left: Known) {
        self.fronts.keep(left, &self.held);
        self.held.keep();
    }

    /// The commit failed, or nobody knows.
    pub(super) fn undo(&mut self) {
        self.held.undo();
        self.fronts.undo();
    }
}

/// Claims for a [`super::SqliteStore`], beside it.
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
        // Locked before anything is read: whatever is given back after this was still held when it was read.
        let out = Arc::clone(&self.out);
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        let mut passed_over = 0;
        loop {
            match self.answer(&mut out, now, claims) {
                // The transaction went with the failure: the others are read in a new one.
                Err(Failed { not_given: Some(delivery), .. }) if passed_over < PASSED_OVER_MAX => {
                    out.held.unread.note(delivery, now);
                    passed_over += 1;
                }
                answer => return answer.map_err(|failed| failed.error).doing(DOING),
            }
        }
    }
}

/// Why claims were not answered.
struct Failed {
    error: rusqlite::Error,
    /// The delivery that the disk did not give, if it is that.
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
                // What cannot be read has to be set aside, which writes.
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
            // Whoever has it reads the file, or is at a commit.
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

/// Whether a lane is owned under this term, and not removed.
fn plain(sql: &Connection, lane: LaneId, term: Term) -> rusqlite::Result<bool> {
    let found: Option<(LaneState, Option<OwnerId>, Term)> = sql
        .prepare_cached("SELECT state, owner, term FROM lanes WHERE lane = ?1")?
        .query_row([lane], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(found
        .is_some_and(|(state, owner, found)| state != LaneState::Removed && owner.is_some() && found == term))
}
