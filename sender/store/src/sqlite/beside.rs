//! Claims beside the commits, on a separate connection (see [`crate::queue_cache`]). Other cases, such as a lane that
//! changed hands, are left to the next commit.

use std::sync::{Arc, Mutex, TryLockError};

use rusqlite::{Connection, OptionalExtension};

use super::claim::RowReader;
use super::content::Contents;
use super::failure::Doing;
use super::ledger;
use super::open::Watched;
use crate::command::Claim;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::lane::{LaneState, OwnerId};
use crate::queue_cache::{QueueCache, lock};
use crate::reply::Claimed;
use crate::seal::Seal;
use crate::{Claimer, QuickClaims, StoreError};

const DOING: &str = "claim deliveries";
/// How many unreadable deliveries one claim discovers. The disk is slow with each.
const PASSED_OVER_MAX: u32 = 8;

#[derive(Debug)]
pub(super) struct SqliteClaimer {
    pub(super) sql: Connection,
    pub(super) seal: Seal,
    pub(super) watched: Watched,
    pub(super) cache: Arc<Mutex<QueueCache>>,
    pub(super) contents: Contents,
    pub(super) expiry_grace: Nanos,
}

impl Claimer for SqliteClaimer {
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError> {
        self.watched.check(DOING)?;
        // Locked before anything is read: a delivery released later was still held when it was read.
        let cache = Arc::clone(&self.cache);
        let mut cache = lock(&cache);
        let mut passed_over = 0;
        loop {
            match self.answer(&mut cache, now, claims) {
                // The failure ended the transaction, so the other deliveries are read in a new one.
                Err(Failed { not_given: Some(delivery), .. }) if passed_over < PASSED_OVER_MAX => {
                    cache.unreadable.record_failure(delivery, now);
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
        cache: &mut QueueCache,
        now: StoreTime,
        claims: &[Claim],
    ) -> Result<Option<Vec<Claimed>>, Failed> {
        let moment = self.sql.unchecked_transaction()?;
        for (place, claim) in claims.iter().enumerate() {
            let twice = claims[..place].iter().any(|other| other.lane == claim.lane);
            if twice || !cache.holds(claim.lane, claim.term) || !plain(&moment, claim.lane, claim.term)? {
                return Ok(None);
            }
        }
        let (next, arrivals) = ledger::numbers(&moment)?;
        self.contents.begin(next);
        let view = cache.view(arrivals);
        let mut answers = Vec::with_capacity(claims.len());
        for claim in claims {
            let from = cache.read_from(claim, &view);
            let mut reader = RowReader {
                sql: &moment,
                seal: &self.seal,
                now,
                contents: &mut self.contents,
                expiry_grace: self.expiry_grace,
                not_given: None,
            };
            let answer = reader.answer(claim, from, |one| cache.standing_beside(claim.lane, one, now));
            let not_given = reader.not_given;
            let (answer, unreadable) = answer.map_err(|error| Failed { error, not_given })?;
            if !unreadable.is_empty() {
                return Ok(None);
            }
            answers.push(answer);
        }
        moment.finish()?;
        Ok(Some(answers.into_iter().map(|answer| cache.claim_beside(now, answer, &view)).collect()))
    }
}

impl QuickClaims for Mutex<QueueCache> {
    fn claim(&self, now: StoreTime, claim: &Claim) -> Option<Claimed> {
        match self.try_lock() {
            Ok(mut cache) => cache.claim_recorded(claim, now),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().claim_recorded(claim, now),
            // The holder is reading the file, or is in a commit.
            Err(TryLockError::WouldBlock) => None,
        }
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
