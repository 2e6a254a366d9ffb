//! Claims beside the commits, on a connection of their own: handing out work does not wait for the disk.
//!
//! It hands out only what is the same before and after the commit that may be under way: see [`crate::store::held`].
//! Whatever is not the plain case (a lane that is not held here, or has changed hands) it leaves to the next commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::address::Address;
use super::claim::{Answer, Bodies, answer, plain};
use super::link::{Link, Purpose};
use super::queues::Hands;
use crate::engine::StoreTime;
use crate::store::command::Claim;
use crate::store::reply::Claimed;
use crate::store::{Claimer, StoreError};

/// Claims for a [`super::PostgresStore`], beside it.
#[derive(Debug)]
pub(super) struct PostgresClaimer {
    address: Address,
    /// Nothing before the first claim, and after a failure.
    link: Option<Link>,
    hands: Arc<Mutex<Hands>>,
}

impl PostgresClaimer {
    pub(super) fn new(address: &Address, hands: Arc<Mutex<Hands>>) -> Self {
        Self { address: address.clone(), link: None, hands }
    }
}

impl Claimer for PostgresClaimer {
    fn claim(&mut self, now: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError> {
        let link = match self.link.take().filter(|link| !link.is_closed()) {
            Some(link) => link,
            None => Link::open(&self.address, Purpose::Hot)?,
        };
        // Locked before anything is read: whatever is given back after this was still held when it was read.
        let mut hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = answer_all(&link, &mut hands, now, claims)?;
        self.link = Some(link);
        Ok(answers)
    }
}

fn answer_all(
    sql: &Link,
    Hands { held, queues }: &mut Hands,
    now: StoreTime,
    claims: &[Claim],
) -> Result<Option<Vec<Claimed>>, StoreError> {
    for (place, claim) in claims.iter().enumerate() {
        let twice = claims[..place].iter().any(|other| other.lane == claim.lane);
        if twice || !held.holds(claim.lane, claim.term) {
            return Ok(None);
        }
    }
    let Some(signs) = plain(sql, claims)? else { return Ok(None) };
    let mut bodies: Bodies = BTreeMap::new();
    let mut answers = Vec::with_capacity(claims.len());
    for claim in claims {
        let (lane, term, signs) = (claim.lane, claim.term, &signs[&claim.lane]);
        queues.look(lane, term, signs);
        let from = queues.from(lane, term, held.count(lane));
        let hand = |delivery| held.in_hand_beside(lane, delivery);
        let Answer { claimed, unreadable, place, moving_after, rows } =
            answer(sql, &mut bodies, claim, (from, hand), now)?;
        if !unreadable.is_empty() {
            // What cannot be read has to be set aside, which writes.
            return Ok(None);
        }
        answers.push((claimed, (place, moving_after), rows));
    }
    let mut all = Vec::with_capacity(answers.len());
    for (claimed, (place, moving_after), rows) in answers {
        for row in &claimed.rows {
            held.take_beside(claimed.lane, row.delivery);
        }
        let (lane, term) = (claimed.lane, claimed.term);
        queues.advance((lane, term), place, &signs[&lane], rows);
        if let Some(moving) = moving_after {
            queues.pass_over((lane, term), moving);
        }
        all.push(claimed);
    }
    Ok(Some(all))
}
