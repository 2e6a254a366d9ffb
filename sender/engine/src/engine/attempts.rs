//! The attempts under way, of all lanes.

use super::breaker::IsProbe;
use super::ids::{AttemptId, DeliveryId, LaneId, Term};
use super::time::Instant;

/// One attempt under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// Where its lane was when it started. Another lane may be there by now: `lane` and `term` tell.
    pub(super) slot: u32,
    pub(super) lane: LaneId,
    pub(super) term: Term,
    pub(super) delivery: DeliveryId,
    pub(super) ending: Ending,
}

/// An attempt as its lane sees it when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// How many attempts the delivery has had, this one included.
    pub(super) attempts: u32,
    pub(super) expires: Instant,
    pub(super) started: Instant,
    pub(super) probe: IsProbe,
}

/// A slab: places are used again, ids are not.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    places: Vec<Place>,
    free: Vec<u32>,
    live: usize,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    attempt: Option<Attempt>,
}

impl Attempts {
    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// A new attempt.
    pub(super) fn insert(&mut self, attempt: Attempt) -> AttemptId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, attempt: None });
            u32::try_from(self.places.len() - 1).expect("far fewer attempts at once than 2^32")
        });
        let place = &mut self.places[slot as usize];
        place.attempt = Some(attempt);
        self.live += 1;
        AttemptId { slot, generation: place.generation }
    }

    /// The attempt is over. Nothing if it was already.
    pub(super) fn remove(&mut self, id: AttemptId) -> Option<Attempt> {
        let place =
            self.places.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        let attempt = place.attempt.take()?;
        self.live -= 1;
        // A place whose generations are used up is never used again, so that no id ever comes twice.
        if let Some(generation) = place.generation.checked_add(1) {
            place.generation = generation;
            self.free.push(id.slot);
        }
        Some(attempt)
    }
}
