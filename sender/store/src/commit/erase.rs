//! Forgetting a data subject. Ids, times and counts stay, so that duplicates are known, and limits and audits hold.

use std::collections::BTreeSet;

use super::room::RoomRows;
use crate::command::Erase;
use crate::engine::{DeliveryId, LaneId};
use crate::read::Place;
use crate::reply::{Erased, Reply};
use hookproof_words::ids::size;

pub(crate) struct Erasable {
    pub(crate) event: u64,
    pub(crate) delivery: DeliveryId,
    pub(crate) lane: LaneId,
    pub(crate) place: Place,
    pub(crate) bytes: u64,
    pub(crate) tried: bool,
    /// How many attempts it made, if they have content.
    pub(crate) history: u64,
}

pub(crate) trait EraseRows: RoomRows {
    /// All deliveries of its event, the oldest first, if that has content. Their lanes are locked.
    fn erasable(&mut self, chosen: DeliveryId) -> Result<Vec<Erasable>, Self::Error>;

    /// Counts attempts and answers. Unless it is a plan, deletes the answers, and the attempts' errors and hashes.
    fn erase_history(&mut self, deliveries: &[DeliveryId], plan: bool) -> Result<(u64, u64), Self::Error>;

    /// Deletes the rest, answers too. Deliveries that wait or are dead letters become forgotten.
    fn erase_content(&mut self, events: &[u64], deliveries: &[DeliveryId]) -> Result<(), Self::Error>;

    fn erase(&mut self, erase: &Erase) -> Result<Reply, Self::Error> {
        let found = self.erasable(erase.delivery)?;
        let after = erase.after.filter(|_| erase.plan);
        let (mut tried, mut left, mut more) = (Vec::new(), u64::from(erase.max), None);
        for one in found.iter().filter(|one| one.history > 0 && after < Some(one.delivery)) {
            if one.history > left && !tried.is_empty() {
                more = tried.last().copied();
                break;
            }
            left = left.saturating_sub(one.history);
            tried.push(one.delivery);
        }
        let (attempts, answers) = self.erase_history(&tried, erase.plan)?;
        if more.is_some() {
            return Ok(Reply::Erased(Erased { attempts, answers, ..Erased::default() }, more));
        }
        let events: BTreeSet<u64> = found.iter().map(|one| one.event).collect();
        let deliveries: Vec<DeliveryId> = found.iter().map(|one| one.delivery).collect();
        let count = |place| size(found.iter().filter(|one| one.place == place).count());
        let erased = Erased {
            events: size(events.len()),
            deliveries: size(deliveries.len()),
            waiting: count(Place::Waiting),
            dead: count(Place::Dead),
            attempts,
            answers,
        };
        if erase.plan || found.is_empty() {
            return Ok(Reply::Erased(erased, None));
        }
        for Erasable { delivery, lane, place, bytes, tried, .. } in found {
            match place {
                Place::Waiting => {
                    self.disturb(lane)?;
                    self.cache().leave(lane, delivery);
                    self.count(lane, |counts| {
                        counts.leave(bytes, tried);
                        counts.coalesced += 1;
                    })?;
                }
                Place::Dead => {
                    self.count(lane, |counts| {
                        counts.dead = counts.dead.saturating_sub(1);
                        counts.dead_kept = counts.dead_kept.saturating_sub(1);
                        counts.coalesced += 1;
                    })?;
                }
                Place::Delivered | Place::Coalesced | Place::Forgotten => {}
            }
        }
        self.erase_content(&events.into_iter().collect::<Vec<_>>(), &deliveries)?;
        Ok(Reply::Erased(erased, None))
    }
}
