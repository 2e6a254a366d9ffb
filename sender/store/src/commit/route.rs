//! The result for each target of an event.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::{Emit, Target};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::reply::{Bound, Placed};

#[derive(Debug)]
pub(crate) enum Route {
    Fresh,
    Replace(Replaced),
    Duplicate,
    Absent,
    Refused(Bound),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub(crate) delivery: DeliveryId,
    pub(crate) bytes: u64,
    pub(crate) due: StoreTime,
}

impl Route {
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self, Self::Fresh | Self::Replace(_))
    }

    pub(crate) const fn placed_nowhere(&self) -> Placed {
        match self {
            Self::Duplicate => Placed::Duplicate,
            Self::Refused(bound) => Placed::Refused(*bound),
            Self::Fresh | Self::Replace(_) | Self::Absent => Placed::Absent,
        }
    }
}

/// The lanes that have an event of this id already.
#[derive(Debug, Default)]
pub(crate) struct Before {
    lanes: BTreeMap<LaneId, StoreTime>,
    /// Lanes that have the event from a partial acceptance.
    in_part: BTreeSet<LaneId>,
}

impl Before {
    /// Notes a recorded delivery of such an event.
    pub(crate) fn saw(&mut self, lane: LaneId, received: StoreTime, in_part: bool) {
        let last = self.lanes.entry(lane).or_insert(received);
        *last = received.max(*last);
        if in_part {
            self.in_part.insert(lane);
        }
    }

    /// Whether the target has the event already: received within its window, or from a partial acceptance.
    pub(crate) fn has(&self, emit: &Emit, target: &Target) -> bool {
        let since = emit.received.0.saturating_sub(target.dedupe.0);
        let lately = target.dedupe.0 > 0 && self.lanes.get(&target.lane).is_some_and(|at| at.0 > since);
        lately || self.in_part.contains(&target.lane)
    }

    pub(crate) fn in_part(&self) -> bool {
        !self.in_part.is_empty()
    }
}
