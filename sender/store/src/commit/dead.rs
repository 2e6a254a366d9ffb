//! Dead letters: recording and forgetting them. `room` redrives them.

use super::Rows;
use crate::command::{Dead, Forget, Reason};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::paging::{last_if_full, letters_after};
use crate::reply::Reply;

pub(crate) struct Letter {
    pub(crate) delivery: DeliveryId,
    pub(crate) lane: LaneId,
    pub(crate) bytes: u64,
    pub(crate) ttl: Nanos,
    /// When it was given up.
    pub(crate) at: StoreTime,
}

pub(crate) trait DeadRows: Rows {
    /// Whether this commit recorded the delivery. If so, no process has claimed it.
    fn records(&mut self, delivery: DeliveryId) -> bool;

    /// Turns a waiting delivery into a dead letter. Returns the length of its body, and whether it was attempted.
    fn set_dead(
        &mut self,
        lane: LaneId,
        delivery: DeliveryId,
        reason: Reason,
    ) -> Result<(u64, bool), Self::Error>;

    fn oldest_letters(
        &mut self,
        lane: Option<LaneId>,
        after: DeliveryId,
        max: u32,
    ) -> Result<Vec<DeliveryId>, Self::Error>;

    /// Deletes those deliveries that are dead letters, and subtracts them from the counts. Bodies are deleted with
    /// their events.
    fn forget_letters(&mut self, letters: &[DeliveryId]) -> Result<u64, Self::Error>;

    fn forget_oldest(&mut self, lane: Option<LaneId>) -> Result<u64, Self::Error>;

    /// Their lanes are locked.
    fn letters(&mut self, letters: &[DeliveryId]) -> Result<Vec<Letter>, Self::Error>;

    /// Makes dead letters wait again, due now. Each expires at its given time. New events can no longer coalesce with
    /// them.
    fn set_waiting(&mut self, letters: &[(DeliveryId, StoreTime)]) -> Result<(), Self::Error>;

    fn stir(&mut self) -> Result<(), Self::Error>;

    fn letters_after(
        &mut self,
        after: DeliveryId,
        max: u32,
    ) -> Result<Vec<(DeliveryId, StoreTime)>, Self::Error>;

    fn bury(&mut self, lane: LaneId, delivery: DeliveryId, reason: Reason) -> Result<(), Self::Error> {
        if !self.records(delivery) {
            self.disturb(lane)?;
        }
        let (bytes, tried) = self.set_dead(lane, delivery, reason)?;
        self.count_buried(lane, delivery, bytes, tried)
    }

    /// Counts a new dead letter. Beyond the bounds, forgets the oldest letters.
    fn count_buried(
        &mut self,
        lane: LaneId,
        delivery: DeliveryId,
        bytes: u64,
        tried: bool,
    ) -> Result<(), Self::Error> {
        self.cache().leave(lane, delivery);
        self.count(lane, |counts| {
            counts.leave(bytes, tried);
            counts.dead += 1;
            counts.dead_kept += 1;
        })?;
        self.written().settled += 1;
        let kept = self.lane(lane)?.map_or(0, |lane| lane.counts.dead_kept);
        if kept > self.limits().dead_per_lane_max {
            let forgotten = self.forget_oldest(Some(lane))?;
            self.written().forgotten += forgotten;
        }
        if self.totals().dead_kept > self.limits().dead_max {
            let forgotten = self.forget_oldest(None)?;
            self.written().forgotten += forgotten;
        }
        Ok(())
    }

    fn forget(&mut self, forget: &Forget) -> Result<Reply, Self::Error> {
        let letters = self.chosen(&forget.which, forget.after, forget.max)?;
        let rows = self.forget_letters(&letters)?;
        Ok(Reply::Forgotten { rows, last: last_if_full(&letters, forget.max, |letter| *letter) })
    }

    /// The oldest of the selected deliveries. Deliveries selected by id may be no dead letters.
    fn chosen(
        &mut self,
        which: &Dead,
        after: Option<DeliveryId>,
        max: u32,
    ) -> Result<Vec<DeliveryId>, Self::Error> {
        let after = after.unwrap_or(DeliveryId(0));
        match which {
            Dead::All => self.oldest_letters(None, after, max),
            Dead::Of(lane) => self.oldest_letters(Some(*lane), after, max),
            Dead::These(letters) => Ok(letters_after(letters, after, max)),
        }
    }

    /// Examines at most `max` letters after `after` and forgets those older than `before`. Returns the number
    /// forgotten, and the position where the next call continues.
    fn forget_old(
        &mut self,
        before: StoreTime,
        after: DeliveryId,
        max: u32,
    ) -> Result<(u64, Option<DeliveryId>), Self::Error> {
        let found = self.letters_after(after, max)?;
        let old: Vec<_> = found.iter().filter(|(_, at)| *at < before).map(|(letter, _)| *letter).collect();
        let forgotten = if old.is_empty() { 0 } else { self.forget_letters(&old)? };
        let is_full = found.len() >= usize::try_from(max).unwrap_or(usize::MAX);
        Ok((forgotten, found.last().map(|(letter, _)| *letter).filter(|_| is_full)))
    }
}
