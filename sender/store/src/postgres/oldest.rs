//! The oldest waiting deliveries of lanes, which are given up first, and the oldest dead letters, which are forgotten
//! first.
//!
//! They are read in blocks and kept until the commit writes. The commit adds its own changes. Entries may be
//! outdated, so the caller checks each one that it takes. Forgetting everything is correct, and costs a round trip.

use std::collections::BTreeMap;

use super::values::size;
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::read::Place;

/// The order of a delivery: its due time, if that matters, then its number.
pub(super) type Rank = (StoreTime, DeliveryId);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Waiting(LaneId),
    Letters(LaneId),
    AllLetters,
}

/// The first block, if the need is unknown.
pub(super) const BLOCK: u64 = 16;
const BLOCK_MAX: u64 = 1_024;

#[derive(Debug, Default)]
pub(super) struct Oldest(BTreeMap<Of, Known>);

#[derive(Debug)]
struct Known {
    deliveries: BTreeMap<Rank, LaneId>,
    /// Everything in the database up to here was read. `is_all`: nothing remains to be read.
    read_to: Rank,
    is_all: bool,
    taken: u64,
}

pub(super) const fn rank(delivery: DeliveryId) -> Rank {
    (StoreTime(0), delivery)
}

impl Oldest {
    pub(super) fn knows(&self, of: Of) -> bool {
        self.0.contains_key(&of)
    }

    pub(super) fn knows_all(&self, of: Of) -> bool {
        self.0.get(&of).is_some_and(|known| known.is_all)
    }

    pub(super) fn read_to(&self, of: Of) -> Rank {
        self.0.get(&of).map_or(rank(DeliveryId(0)), |known| known.read_to)
    }

    pub(super) fn block(&self, of: Of, likely: u64) -> u64 {
        let taken = self.0.get(&of).map_or(0, |known| known.taken);
        likely.max(2 * taken).min(BLOCK_MAX)
    }

    /// Adds the rows that follow `after`. Fewer than `asked` means that there are no more.
    pub(super) fn add(&mut self, of: Of, after: Rank, found: &[(Rank, LaneId)], asked: u64) {
        let new = || Known { deliveries: BTreeMap::new(), read_to: after, is_all: false, taken: 0 };
        let known = self.0.entry(of).or_insert_with(new);
        known.deliveries.extend(found.iter().copied());
        known.read_to = found.iter().map(|(rank, _)| *rank).max().unwrap_or(after);
        known.is_all = size(found.len()) < asked;
    }

    pub(super) fn insert(&mut self, lane: LaneId, place: Place, (at, delivery): Rank) {
        let (orders, rank) = match place {
            Place::Waiting => ([Some(Of::Waiting(lane)), None], (at, delivery)),
            Place::Dead => ([Some(Of::Letters(lane)), Some(Of::AllLetters)], rank(delivery)),
            Place::Delivered | Place::Coalesced | Place::Forgotten => return,
        };
        for of in orders.into_iter().flatten() {
            if let Some(known) = self.0.get_mut(&of) {
                known.deliveries.insert(rank, lane);
            }
        }
    }

    /// Takes the first entry, which may be outdated. `None` if the first is unknown.
    pub(super) fn take(&mut self, of: Of) -> Option<(Rank, LaneId)> {
        let known = self.0.get_mut(&of)?;
        let (first, lane) = known.next().next()?;
        known.deliveries.remove(&first);
        known.taken += 1;
        Some((first, lane))
    }

    pub(super) fn lanes(&self, of: Of) -> impl Iterator<Item = LaneId> {
        self.0.get(&of).into_iter().flat_map(|known| known.next().map(|(_, lane)| lane))
    }
}

impl Known {
    /// The next entries, up to the place where the database was read completely.
    fn next(&self) -> impl Iterator<Item = (Rank, LaneId)> {
        let is_next = |rank: &Rank| self.is_all || *rank <= self.read_to;
        self.deliveries.iter().map(|(rank, lane)| (*rank, *lane)).take_while(move |(rank, _)| is_next(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId(1);
    const OF: Of = Of::Letters(LANE);

    fn read(oldest: &mut Oldest, found: &[u64], asked: u64) {
        let found: Vec<_> = found.iter().map(|number| (rank(DeliveryId(*number)), LANE)).collect();
        let after = oldest.read_to(OF);
        oldest.add(OF, after, &found, asked);
    }

    fn take(oldest: &mut Oldest) -> Option<u64> {
        oldest.take(OF).map(|((_, delivery), _)| delivery.0)
    }

    #[test]
    fn a_row_after_the_last_read_one_waits_for_the_next_block() {
        let mut oldest = Oldest::default();
        assert!(take(&mut oldest).is_none() && !oldest.knows(OF));
        read(&mut oldest, &[2, 4], 2);
        for new in [9, 3] {
            oldest.insert(LANE, Place::Dead, (StoreTime(7), DeliveryId(new)));
        }
        assert_eq!([(); 4].map(|()| take(&mut oldest)), [Some(2), Some(3), Some(4), None]);
        assert!(!oldest.knows_all(OF));
        read(&mut oldest, &[6], 2);
        assert_eq!([(); 3].map(|()| take(&mut oldest)), [Some(6), Some(9), None]);
        assert!(oldest.knows_all(OF));
    }

    #[test]
    fn blocks_are_as_long_as_likely_and_grow_with_what_is_taken() {
        let mut oldest = Oldest::default();
        assert_eq!((oldest.block(OF, 3), oldest.block(OF, 1 << 20)), (3, BLOCK_MAX));
        read(&mut oldest, &[1, 2, 3], 3);
        assert_eq!([(); 3].map(|()| take(&mut oldest)), [Some(1), Some(2), Some(3)]);
        assert_eq!(oldest.block(OF, 1), 6);
    }

    #[test]
    fn only_orders_that_are_known_are_noted() {
        let mut oldest = Oldest::default();
        read(&mut oldest, &[], 1);
        for place in [Place::Waiting, Place::Delivered, Place::Coalesced] {
            oldest.insert(LANE, place, (StoreTime(1), DeliveryId(1)));
        }
        oldest.insert(LaneId(2), Place::Dead, rank(DeliveryId(2)));
        assert_eq!(take(&mut oldest), None);
        assert!(!oldest.knows(Of::Waiting(LANE)) && !oldest.knows(Of::AllLetters));
    }
}
