//! A commit's notes in lanes' rows for their owners ([`super::queues`]).

use super::ledger::Ledger;
use super::stop::Result;
use crate::engine::{LaneId, StoreTime};

impl Ledger {
    /// A lower bound for the due times of the lane's waiting deliveries.
    pub(super) fn head(&self, lane: LaneId) -> Result<StoreTime> {
        Ok(self.signs(lane)?.map_or(StoreTime(0), |signs| signs.head))
    }

    pub(super) fn arrive(&mut self, lane: LaneId, due: StoreTime) -> Result<()> {
        self.change(lane, |lane| lane.signs.arrive(due))
    }

    /// Notes a change to deliveries of the lane that can be claimed.
    pub(super) fn disturb(&mut self, lane: LaneId) -> Result<()> {
        self.change(lane, |lane| lane.signs.disturbed += 1)
    }
}
