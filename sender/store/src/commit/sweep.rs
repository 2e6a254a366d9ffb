//! Gives up deliveries that expired or belong to a removed subscriber, ends pauses, and deletes rows past their
//! retention. In small steps.

use super::retry::RetryRows;
use crate::command::{Purge, Reason, Sweep};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::lane::LaneState;
use crate::reply::{Purged, Reply, Swept};
use hookproof_words::ids::size;

pub(crate) type Expired = Vec<(LaneId, DeliveryId, Reason)>;

pub(crate) trait SweepRows: RetryRows {
    /// Corrects times written under a clock ahead of ours, and notes when deliveries expire, where the store needs
    /// that. Returns the number corrected, and whether more remains.
    fn prepare_sweep(&mut self, max: u32) -> Result<(u64, bool), Self::Error>;

    /// The longest expired deliveries that are not handed out, on locked lanes, and whether more remains.
    fn expired(&mut self, max: u32) -> Result<(Expired, bool), Self::Error>;

    /// Removed lanes with waiting deliveries, prepared to give up `max` deliveries in total.
    fn removed_lanes(&mut self, max: u32) -> Result<Vec<LaneId>, Self::Error>;

    /// Lanes with a pause that ended by now, locked, at most `max`.
    fn ended_pauses(&mut self, max: u32) -> Result<Vec<LaneId>, Self::Error>;

    /// Forgets the pause, unless it ends later now.
    fn end_pause(&mut self, lane: LaneId) -> Result<bool, Self::Error>;

    fn tidy(&mut self) -> Result<(), Self::Error>;

    /// Converts `moment` to a time before which rows are surely old. While the store's time is ahead of the wall
    /// clock, nothing expires or ages until the wall clock agrees.
    fn surely_before(&self, moment: StoreTime) -> StoreTime;

    /// Returns whether more may remain.
    fn purge_events(&mut self, before: StoreTime, max: u32, purged: &mut Purged)
    -> Result<bool, Self::Error>;

    /// Deletes attempts older than `before`, except those that a window cap counts and no checkpoint holds, with their
    /// answers, and the marks of deliveries that were sent again. Returns the number of attempts deleted, and whether more
    /// may remain.
    fn delete_attempts(&mut self, before: StoreTime, max: u32) -> Result<(u64, bool), Self::Error>;

    fn delete_removed(&mut self, before: StoreTime) -> Result<(), Self::Error>;

    /// Looks at the oldest of the log, at most `max`. The newest stays, for its number.
    fn delete_changes(&mut self, before: StoreTime, max: u32) -> Result<(), Self::Error>;

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
        let resumed = self.end_pauses(sweep.max)?;
        self.tidy()?;
        let max = u64::from(sweep.max);
        let more = preparing || clearing || expired + gone >= max || resumed >= max;
        Ok(Reply::Swept(Swept { expired, gone, resumed, corrected, more }))
    }

    fn end_pauses(&mut self, max: u32) -> Result<u64, Self::Error> {
        let mut resumed = 0;
        for lane in self.ended_pauses(max)? {
            let paused = self.lane(lane)?.is_some_and(|lane| lane.state == LaneState::Paused);
            if self.end_pause(lane)? && paused {
                self.amend(lane, |lane| lane.state = LaneState::Active)?;
                let version = self.next_roster()?;
                self.set_retried(lane, false, version)?;
                self.make_due(lane, None, 1)?;
                resumed += 1;
            }
        }
        Ok(resumed)
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
        let [mut letters, mut events, mut attempts] = self.cache().scans.at.ended;
        if !letters {
            let after = self.cache().scans.at.letter.unwrap_or(DeliveryId(0));
            let (dead, place) = self.forget_old(self.surely_before(purge.dead_before), after, share)?;
            purged.dead = dead;
            self.cache().scans.at.letter = place;
            letters = place.is_none();
        }
        let settled_before = self.surely_before(purge.settled_before);
        if !events {
            events = !self.purge_events(settled_before, share, &mut purged)?;
        }
        if !attempts {
            let before = self.surely_before(purge.attempts_before);
            let (deleted, more) = self.delete_attempts(before, share)?;
            purged.attempts = deleted;
            attempts = !more;
        }
        self.delete_removed(settled_before)?;
        self.delete_changes(self.surely_before(purge.changes_before), share)?;
        self.forget_latencies(share)?;
        let ended = [letters, events, attempts];
        purged.more = ended.contains(&false);
        self.cache().scans.at.ended = if purged.more { ended } else { [false; 3] };
        Ok(Reply::Purged(purged))
    }
}
