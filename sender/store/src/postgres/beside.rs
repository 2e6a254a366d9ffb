//! Claims beside the commits, on a separate connection, so that no claim waits for the disk, and a silent connection
//! blocks no commit.
//!
//! A claim hands out only deliveries that are the same before and after the commit under way (see
//! [`crate::queue_cache`]). Nothing is locked while the database answers. If a commit ran meanwhile, the claim skips
//! the deliveries that the commit moved, and does not advance the cursor.
//! Everything else, such as a lane that changed hands, is left to the next commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::address::Address;
use super::claim::{Ahead, Bodies, lengthen, plain};
use super::link::{Link, Purpose, SOON};
use super::open;
use crate::command::Claim;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::queue_cache::{Answer, QueueCache, QueueVersion, Search, View, lock};
use crate::reply::Claimed;
use crate::seal::Seal;
use crate::{Claimer, StoreError};

/// After a failure, commits answer all claims for this long.
const LEFT_ALONE: Nanos = Nanos::from_secs(5);
/// How often a claim starts again because a commit ran while it determined where to begin.
const TRIES_MAX: u32 = 10;

#[derive(Debug)]
pub(super) struct PostgresClaimer {
    address: Address,
    /// `None` before the first claim and after a failure.
    link: Option<Link>,
    again: StoreTime,
    /// Set by a failed claim. The duration of the failure is unknown, so the next claim starts the pause.
    has_failed: bool,
    seal: Seal,
    cache: Arc<Mutex<QueueCache>>,
}

impl PostgresClaimer {
    pub(super) fn new(address: &Address, seal: Seal, cache: Arc<Mutex<QueueCache>>) -> Self {
        Self {
            address: address.within(SOON),
            link: None,
            again: StoreTime(0),
            has_failed: false,
            seal,
            cache,
        }
    }
}

impl Claimer for PostgresClaimer {
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError> {
        let known = self.link.take().filter(|link| !link.is_closed());
        if std::mem::take(&mut self.has_failed) {
            self.again = StoreTime(now.0.saturating_add(LEFT_ALONE.0));
        }
        if known.is_none() && now < self.again {
            return Ok(None);
        }
        let answers = known.map_or_else(|| open::connect(&self.address, Purpose::Hot), Ok).and_then(|link| {
            let answers = answer_all((&link, &self.seal), &self.cache, now, claims)?;
            self.link = Some(link);
            Ok(answers)
        });
        lock(&self.cache).end_claim();
        self.has_failed = answers.is_err();
        answers
    }
}

struct Begun {
    versions: BTreeMap<LaneId, QueueVersion>,
    searches: Vec<Search>,
    /// [`QueueCache::turns`] at that time.
    turns: u64,
}

fn answer_all(
    (sql, seal): (&Link, &Seal),
    cache: &Mutex<QueueCache>,
    now: StoreTime,
    claims: &[Claim],
) -> Result<Option<Vec<Claimed>>, StoreError> {
    let Some(Begun { versions, searches, turns }) = begin(sql, cache, claims)? else { return Ok(None) };
    let mut bodies = Bodies::new(seal);
    let mut answers = Vec::with_capacity(claims.len());
    for (claim, from) in claims.iter().zip(searches) {
        let ahead = Ahead::read(sql, claim, from)?;
        let front = {
            let cache = lock(cache);
            ahead.choose(claim, |delivery| cache.standing_beside(claim.lane, delivery, now), now)
        };
        let (answer, unreadable) = front.answer(sql, &mut bodies, claim)?;
        if !unreadable.is_empty() {
            return Ok(None);
        }
        answers.push(answer);
    }
    let mut cache = lock(cache);
    if !are_held(&cache, claims) {
        return Ok(None);
    }
    let (is_current, grace) = (cache.turns() == turns, cache.expiry_grace);
    let claim = |answer: Answer| {
        let view = View { version: versions[&answer.claimed.lane], is_current };
        let mut claimed = cache.claim_beside(now, answer, &view);
        lengthen(&mut claimed, grace);
        claimed
    };
    Ok(Some(answers.into_iter().map(claim).collect()))
}

/// Determines where these claims begin. `None`: they need a commit.
fn begin(sql: &Link, cache: &Mutex<QueueCache>, claims: &[Claim]) -> Result<Option<Begun>, StoreError> {
    for (place, claim) in claims.iter().enumerate() {
        if claims[..place].iter().any(|other| other.lane == claim.lane) {
            return Ok(None);
        }
    }
    for _ in 0..TRIES_MAX {
        let turns = {
            let mut cache = lock(cache);
            if !are_held(&cache, claims) {
                return Ok(None);
            }
            cache.begin_claim();
            cache.turns()
        };
        let Some(versions) = plain(sql, claims)? else { return Ok(None) };
        let mut cache = lock(cache);
        // Otherwise a commit may already have seen these changes, and newer ones.
        if cache.turns() == turns {
            let search = |claim: &Claim| cache.search(claim.lane, claim.term, &versions[&claim.lane]);
            let searches = claims.iter().map(search).collect();
            return Ok(Some(Begun { versions, searches, turns }));
        }
    }
    Ok(None)
}

fn are_held(cache: &QueueCache, claims: &[Claim]) -> bool {
    claims.iter().all(|claim| cache.holds(claim.lane, claim.term))
}
