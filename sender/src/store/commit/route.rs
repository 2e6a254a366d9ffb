//! What becomes of each target of an event, as every store decides it.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::command::{Emit, Target};
use crate::store::reply::{Bound, Placed};

/// What is to become of one target.
#[derive(Debug)]
pub(in crate::store) enum Route {
    /// A delivery of its own.
    Fresh,
    /// A delivery in the place of an older one.
    Replace(Replaced),
    Duplicate,
    Absent,
    Refused(Bound),
}

/// A delivery that a newer one takes the place of.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Replaced {
    pub(in crate::store) delivery: DeliveryId,
    pub(in crate::store) bytes: u64,
    pub(in crate::store) due: StoreTime,
}

impl Route {
    /// Whether a delivery is recorded.
    pub(in crate::store) const fn is_new(&self) -> bool {
        matches!(self, Self::Fresh | Self::Replace(_))
    }

    /// What to say of a target that nothing is recorded for.
    pub(in crate::store) const fn placed_nowhere(&self) -> Placed {
        match self {
            Self::Duplicate => Placed::Duplicate,
            Self::Refused(bound) => Placed::Refused(*bound),
            Self::Fresh | Self::Replace(_) | Self::Absent => Placed::Absent,
        }
    }
}

/// Who has an event of this id already.
#[derive(Debug, Default)]
pub(in crate::store) struct Before {
    /// When it was received last.
    lanes: BTreeMap<LaneId, StoreTime>,
    /// They have what was taken in part.
    in_part: BTreeSet<LaneId>,
}

impl Before {
    /// A delivery of such an event was recorded for a lane.
    pub(in crate::store) fn saw(&mut self, lane: LaneId, received: StoreTime, in_part: bool) {
        let last = self.lanes.entry(lane).or_insert(received);
        *last = received.max(*last);
        if in_part {
            self.in_part.insert(lane);
        }
    }

    /// Whether a target has the event already: since not longer ago than its window, or of one that was taken in part.
    pub(in crate::store) fn has(&self, emit: &Emit, target: &Target) -> bool {
        let since = emit.received.0.saturating_sub(target.dedupe.0);
        let lately = target.dedupe.0 > 0 && self.lanes.get(&target.lane).is_some_and(|at| at.0 > since);
        lately || self.in_part.contains(&target.lane)
    }

    /// Whether the event was taken in part before.
    pub(in crate::store) fn in_part(&self) -> bool {
        !self.in_part.is_empty()
    }
}
