//! Burying deliveries that expired or whose subscriber was removed, and deleting rows that were kept long enough. In small steps.

use super::room::RoomRows;
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::store::command::{Purge, Reason, Sweep};
use crate::store::numbers::size;
use crate::store::reply::{Purged, Reply, Swept};

/// The rows of old deliveries, events and attempts.
pub(in crate::store) trait SweepRows: RoomRows {
    /// Corrects times that a clock ahead of ours wrote, and notes when deliveries expire, where the store has to. Returns how many
    /// were corrected, and whether more is to do.
    fn prepare_sweep(&mut self, max: u32) -> Result<(u64, bool), Self::Error>;

    /// The longest expired deliveries that are not handed out, on lanes that are locked. Whether more is to do besides.
    fn expired(&mut self, max: u32) -> Result<(Vec<(LaneId, DeliveryId, Reason)>, bool), Self::Error>;

    /// Removed lanes where deliveries wait, ready to give up that many in all.
    fn removed_lanes(&mut self, max: u32) -> Result<Vec<LaneId>, Self::Error>;

    /// Deletes small rows that a sweep finds unused.
    fn tidy(&mut self) -> Result<(), Self::Error>;

    /// A moment of the store's time, by the wall clock where the store's time is kept ahead of it: nothing expires, and nothing is
    /// old, before the wall clock says so too.
    fn surely_before(&self, moment: StoreTime) -> StoreTime;

    /// The dead letter after which the next purge continues.
    fn purge_place(&mut self) -> &mut Option<DeliveryId>;

    /// Returns whether there may be more to delete.
    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged)
    -> Result<bool, Self::Error>;

    /// Deletes attempts from before a moment, but those that a window cap still counts and no record holds. Returns how many were
    /// deleted, and whether there may be more to look at.
    fn delete_attempts(&mut self, before: StoreTime, max: u32) -> Result<(u64, bool), Self::Error>;

    /// Deletes subscribers that were removed before a moment and have nothing left.
    fn delete_removed(&mut self, before: StoreTime) -> Result<(), Self::Error>;

    fn forget_latencies(&mut self, max: u32) -> Result<(), Self::Error>;

    fn sweep(&mut self, sweep: Sweep) -> Result<Reply, Self::Error> {
        let (corrected, preparing) = self.prepare_sweep(sweep.max)?;
        let (found, clearing) = self.expired(sweep.max)?;
        for (lane, delivery, reason) in &found {
            self.bury(*lane, *delivery, *reason)?;
        }
        let expired = size(found.len());
        let left = sweep.max.saturating_sub(u32::try_from(expired).unwrap_or(u32::MAX));
        let gone = self.sweep_removed(left)?;
        self.tidy()?;
        let more = preparing || clearing || expired + gone >= u64::from(sweep.max);
        Ok(Reply::Swept(Swept { expired, gone, corrected, more }))
    }

    fn sweep_removed(&mut self, max: u32) -> Result<u64, Self::Error> {
        let mut gone = 0;
        for lane in self.removed_lanes(max)? {
            let left = u64::from(max) - gone;
            if left == 0 {
                break;
            }
            gone += self.shed_rows(lane, u32::try_from(left).unwrap_or(max), Reason::Gone)?;
        }
        Ok(gone)
    }

    fn purge(&mut self, purge: Purge) -> Result<Reply, Self::Error> {
        let share = (purge.max / 3).max(1);
        let mut purged = Purged::default();
        let after = self.purge_place().unwrap_or(DeliveryId(0));
        let (dead, place) = self.forget_old(self.surely_before(purge.dead_before), after, share)?;
        purged.dead = dead;
        *self.purge_place() = place;
        let settled_before = self.surely_before(purge.settled_before);
        let more_events = self.purge_events(settled_before, share, &mut purged)?;
        let (attempts, more_attempts) =
            self.delete_attempts(self.surely_before(purge.attempts_before), share)?;
        purged.attempts = attempts;
        self.delete_removed(settled_before)?;
        self.forget_latencies(share)?;
        purged.more = place.is_some() || more_events || more_attempts;
        Ok(Reply::Purged(purged))
    }
}
