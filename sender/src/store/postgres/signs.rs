//! What a commit leaves in a lane's row for whoever holds the lane: how its queue has changed ([`super::queues`]).

use super::ledger::Ledger;
use super::stop::Result;
use crate::engine::{LaneId, StoreTime};

impl Ledger {
    /// Nothing waits on a lane that is due sooner.
    pub(super) fn head(&self, lane: LaneId) -> Result<StoreTime> {
        Ok(self.signs(lane)?.map_or(StoreTime(0), |signs| signs.head))
    }

    /// A delivery of a lane waits now that did not, or not then.
    pub(super) fn arrive(&mut self, lane: LaneId, due: StoreTime) -> Result<()> {
        self.change(lane, |lane| lane.signs.arrive(due))
    }

    /// Deliveries of a lane have changed that may be handed out.
    pub(super) fn disturb(&mut self, lane: LaneId) -> Result<()> {
        self.change(lane, |lane| lane.signs.disturbed += 1)
    }
}
