//! Attempts under way in all lanes, in a slab.

use super::breaker::IsProbe;
use super::ids::{AttemptId, DeliveryId, LaneId, Term};
use super::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The lane's slot at the start. Another lane may use the slot by now: compare `lane` and `term`.
    pub(super) slot: u32,
    pub(super) lane: LaneId,
    pub(super) term: Term,
    pub(super) delivery: DeliveryId,
    pub(super) ending: Ending,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The delivery's attempts so far, this one included.
    pub(super) attempts: u32,
    pub(super) expires: Instant,
    pub(super) started: Instant,
    pub(super) probe: IsProbe,
}

/// A slot is reused; an id is not.
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
    pub(super) fn len(&self) -> usize {
        self.live
    }

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

    /// Returns nothing if the attempt has already ended.
    pub(super) fn remove(&mut self, id: AttemptId) -> Option<Attempt> {
        let place =
            self.places.get_mut(id.slot as usize).filter(|place| place.generation == id.generation)?;
        let attempt = place.attempt.take()?;
        self.live -= 1;
        // A slot whose generations are used up retires, so that no id repeats.
        if let Some(generation) = place.generation.checked_add(1) {
            place.generation = generation;
            self.free.push(id.slot);
        }
        Some(attempt)
    }
}
