//! Claims beside the commits, on a separate connection, so that no claim waits for the disk, and a silent connection
//! blocks no commit.
//!
//! A claim hands out only deliveries that are the same before and after the commit under way (see
//! [`crate::held`]). Nothing is locked while the database answers. If a commit ran meanwhile, the claim skips
//! the deliveries that the commit moved, and does not advance the cursor.
//! Everything else, such as a lane that changed hands, is left to the next commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::address::Address;
use super::claim::{Ahead, Answer, Bodies, lengthen, plain};
use super::link::{Link, Purpose, SOON};
use super::open;
use super::queues::{Hands, Search, Signs, lock};
use crate::command::Claim;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::held::InHand;
use crate::reply::Claimed;
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
    hands: Arc<Mutex<Hands>>,
}

impl PostgresClaimer {
    pub(super) fn new(address: &Address, hands: Arc<Mutex<Hands>>) -> Self {
        Self { address: address.within(SOON), link: None, again: StoreTime(0), has_failed: false, hands }
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
            let answers = answer_all(&link, &self.hands, now, claims)?;
            self.link = Some(link);
            Ok(answers)
        });
        lock(&self.hands).end_claim();
        self.has_failed = answers.is_err();
        answers
    }
}

struct Begun {
    signs: BTreeMap<LaneId, Signs>,
    searches: Vec<Search>,
    /// [`Hands::turns`] at that time.
    turns: u64,
}

fn answer_all(
    sql: &Link,
    hands: &Mutex<Hands>,
    now: StoreTime,
    claims: &[Claim],
) -> Result<Option<Vec<Claimed>>, StoreError> {
    let Some(Begun { signs, searches, turns }) = begin(sql, hands, claims)? else { return Ok(None) };
    let mut bodies: Bodies = BTreeMap::new();
    let mut answers = Vec::with_capacity(claims.len());
    for (claim, from) in claims.iter().zip(searches) {
        let ahead = Ahead::read(sql, claim, from)?;
        let front = {
            let hands = lock(hands);
            ahead.choose(claim, |delivery| hands.in_hand_beside(claim.lane, delivery), now)
        };
        let answer = front.answer(sql, &mut bodies, claim)?;
        if !answer.unreadable.is_empty() {
            return Ok(None);
        }
        answers.push(answer);
    }
    let mut hands = lock(hands);
    if !are_held(&hands, claims) {
        return Ok(None);
    }
    let nobody_else = hands.turns() == turns;
    let hand_out = |answer: Answer| {
        let signs = &signs[&answer.claimed.lane];
        hand_out(&mut hands, answer, signs, nobody_else)
    };
    Ok(Some(answers.into_iter().map(hand_out).collect()))
}

/// Determines where these claims begin. `None`: they need a commit.
fn begin(sql: &Link, hands: &Mutex<Hands>, claims: &[Claim]) -> Result<Option<Begun>, StoreError> {
    for (place, claim) in claims.iter().enumerate() {
        if claims[..place].iter().any(|other| other.lane == claim.lane) {
            return Ok(None);
        }
    }
    for _ in 0..TRIES_MAX {
        let turns = {
            let mut hands = lock(hands);
            if !are_held(&hands, claims) {
                return Ok(None);
            }
            hands.begin_claim();
            hands.turns()
        };
        let Some(signs) = plain(sql, claims)? else { return Ok(None) };
        let mut hands = lock(hands);
        // Otherwise a commit may already have seen these changes, and newer ones.
        if hands.turns() == turns {
            let Hands { held, queues, .. } = &mut *hands;
            let search = |claim: &Claim| {
                queues.refresh(claim.lane, claim.term, &signs[&claim.lane]);
                queues.from(claim.lane, claim.term, held.count(claim.lane))
            };
            let searches = claims.iter().map(search).collect();
            return Ok(Some(Begun { signs, searches, turns }));
        }
    }
    Ok(None)
}

fn are_held(hands: &Hands, claims: &[Claim]) -> bool {
    claims.iter().all(|claim| hands.held.holds(claim.lane, claim.term))
}

fn hand_out(hands: &mut Hands, answer: Answer, signs: &Signs, nobody_else: bool) -> Claimed {
    let Answer { mut claimed, place, moving_after, mut rows, .. } = answer;
    let (lane, term) = (claimed.lane, claimed.term);
    if !nobody_else {
        let is_free = |delivery: DeliveryId| hands.in_hand_beside(lane, delivery) == InHand::No;
        claimed.rows.retain(|row| is_free(row.delivery));
        rows.retain(|(delivery, _)| is_free(*delivery));
    }
    lengthen(&mut claimed, hands.grace);
    for row in &claimed.rows {
        hands.held.take_beside(lane, row.delivery, None);
    }
    if nobody_else {
        hands.queues.advance((lane, term), place, signs, rows);
        if let Some(moving) = moving_after {
            hands.queues.pass_over((lane, term), moving);
        }
    } else {
        hands.queues.remember((lane, term), signs, rows);
    }
    claimed
}
