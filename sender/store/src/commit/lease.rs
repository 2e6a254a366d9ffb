//! The owner of each lane.
//!
//! A lease covers all lanes of an owner, and each lane names its owner. Every change of owner starts a new term.
//! The store's clock measures leases. It is the latest time that any process reported, so a process with a slow clock
//! cannot lose a lease that it has just renewed.

use std::collections::BTreeMap;

use super::Rows;
use crate::command::{Acquire, Drain, LaneSelection, Persist, Renew};
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::lane::{LaneState, OwnerId};
use crate::node::{Announcement, Nodes};
use crate::reply::{Ended, Handover, Record, Refusal, Renewed, Reply, TakenLane};

#[derive(Default)]
pub(crate) struct Past {
    pub(crate) record: Option<Record>,
    /// Attempts that ended after the checkpoint, if the lane has window caps and had an owner.
    pub(crate) ended: Vec<Ended>,
    /// When the first waiting delivery is due, whether or not a process claimed it.
    pub(crate) next: Option<StoreTime>,
}

pub(crate) trait LeaseRows: Rows {
    fn clock(&self) -> StoreTime;

    /// The lanes without a living owner, at most `max`. Not called for [`Which::These`].
    fn find_free(
        &mut self,
        asking: OwnerId,
        which: &LaneSelection,
        max: Option<u32>,
    ) -> Result<Vec<LaneId>, Self::Error>;

    fn lives(&mut self, owner: OwnerId) -> Result<bool, Self::Error>;

    fn pasts(&mut self, lanes: &[LaneId]) -> Result<BTreeMap<LaneId, Past>, Self::Error>;

    fn rob(&mut self, from: OwnerId) -> Result<(), Self::Error>;

    /// The number of lanes taken from an owner. `None`: it never had a lease.
    fn lanes_taken(&mut self, owner: OwnerId) -> Result<Option<u64>, Self::Error>;

    fn set_lease(&mut self, owner: OwnerId, until: StoreTime) -> Result<(), Self::Error>;

    fn end_lease(&mut self, owner: OwnerId) -> Result<(), Self::Error>;

    fn set_record(&mut self, lane: LaneId, record: Record) -> Result<(), Self::Error>;

    fn announcement(&mut self, owner: OwnerId) -> Result<Option<Announcement>, Self::Error>;

    fn set_announcement(
        &mut self,
        owner: OwnerId,
        announcement: Announcement,
        lives: bool,
    ) -> Result<(), Self::Error>;

    fn set_draining(&mut self, owner: OwnerId, draining: bool) -> Result<(), Self::Error>;

    fn delete_node(&mut self, owner: OwnerId) -> Result<bool, Self::Error>;

    fn nodes_have_changed(&mut self) -> Result<(), Self::Error>;

    fn nodes(&mut self) -> Result<Nodes, Self::Error>;

    fn clock_after(&self, length: Nanos) -> StoreTime {
        StoreTime(self.clock().0.saturating_add(length.0))
    }

    fn acquire(&mut self, acquire: &Acquire) -> Result<Reply, Self::Error> {
        let lanes = self.free_lanes(acquire)?;
        if lanes.is_empty() {
            return Ok(Reply::Acquired(Vec::new()));
        }
        let taken = self.take(acquire.owner, &lanes)?;
        if self.lanes_taken(acquire.owner)?.is_none() {
            // A new owner's count starts at zero, so its next renewal must check every lane.
            self.cache().see_taken(acquire.owner, None);
        }
        self.set_lease(acquire.owner, self.clock_after(acquire.lease))?;
        Ok(Reply::Acquired(taken))
    }

    fn free_lanes(&mut self, acquire: &Acquire) -> Result<Vec<LaneId>, Self::Error> {
        let belongs =
            |lane: LaneId| acquire.homes.as_ref().is_none_or(|homes| homes.is_home(lane, acquire.owner));
        let found = match &acquire.which {
            LaneSelection::These(lanes) => lanes.clone(),
            which => {
                // No row says where a lane should be, so with placement the search reads all free lanes.
                let max = Some(acquire.max).filter(|_| acquire.homes.is_none());
                let mut found = self.find_free(acquire.owner, which, max)?;
                found.retain(|lane| belongs(*lane));
                found.truncate(usize::try_from(acquire.max).unwrap_or(usize::MAX));
                found
            }
        };
        // Another owner may have taken some between the search and the lock.
        self.lock(found.iter().copied())?;
        let mut free = Vec::new();
        for lane in found {
            let is_wanted = free.len() < usize::try_from(acquire.max).unwrap_or(usize::MAX)
                && belongs(lane)
                && !free.contains(&lane);
            if is_wanted && self.is_free(acquire.owner, lane)? {
                free.push(lane);
            }
        }
        Ok(free)
    }

    fn is_free(&mut self, asking: OwnerId, lane: LaneId) -> Result<bool, Self::Error> {
        let found = self.lane(lane)?.map(|lane| (lane.state, lane.owner));
        Ok(match found {
            None | Some((LaneState::Removed, _)) => false,
            Some((_, None)) => true,
            Some((_, Some(owner))) => owner != asking && !self.lives(owner)?,
        })
    }

    fn take(&mut self, owner: OwnerId, lanes: &[LaneId]) -> Result<Vec<TakenLane>, Self::Error> {
        let mut pasts = self.pasts(lanes)?;
        let mut taken = Vec::with_capacity(lanes.len());
        for id in lanes {
            let Some(lane) = self.lane(*id)? else { continue };
            let (from, term, state) = (lane.owner, Term(lane.term.0 + 1), lane.state);
            let Past { record, ended, next } = pasts.remove(id).unwrap_or_default();
            let handover = match (from, record) {
                (None, Some(record)) => Handover::Clean(record),
                (None, None) => Handover::Fresh,
                (Some(from), record) => {
                    self.rob(from)?;
                    Handover::Seized { from, record, at: self.now(), ended }
                }
            };
            self.amend(*id, |lane| {
                lane.owner = Some(owner);
                lane.term = term;
            })?;
            self.cache().own(*id, owner, term);
            taken.push(TakenLane { lane: *id, term, state, handover, next });
        }
        Ok(taken)
    }

    fn renew(&mut self, renew: &Renew) -> Result<Reply, Self::Error> {
        let taken = self.lanes_taken(renew.owner)?;
        let none_was_lost = taken.is_some() && self.cache().taken_seen(renew.owner) == taken;
        let held = if none_was_lost { Vec::new() } else { self.cache().owned_by(renew.owner) };
        self.lock(held.iter().map(|(lane, _)| *lane))?;
        if let Some(announcement) = &renew.announce {
            // Before the lease is extended: a node with an expired lease starts anew.
            self.announce(renew.owner, announcement)?;
        }
        self.set_lease(renew.owner, self.clock_after(renew.lease))?;
        self.cache().see_taken(renew.owner, Some(taken.unwrap_or(0)));
        let mut lost = Vec::new();
        for (lane, term) in held {
            let current = self.lane(lane)?;
            if current.is_none_or(|lane| lane.owner != Some(renew.owner) || lane.term != term) {
                self.cache().lose(lane, term);
                lost.push((lane, term));
            }
        }
        Ok(Reply::Renewed(Renewed { lost, nodes: self.nodes()? }))
    }

    fn evict(&mut self, owner: OwnerId) -> Result<Reply, Self::Error> {
        self.end_lease(owner)?;
        self.retire(owner)?;
        // The lanes of an owner that is no node are free too.
        self.nodes_have_changed()?;
        Ok(Reply::Done)
    }

    fn persist(&mut self, persist: &Persist) -> Result<Reply, Self::Error> {
        let (lane, term) = (persist.lane, persist.term);
        let Some(found) = self.lane(lane)? else {
            return Ok(Reply::Refused(Refusal::UnknownLane(lane)));
        };
        let current = found.term;
        if current != term || found.owner.is_none() {
            self.cache().lose(lane, term);
            return Ok(Reply::Refused(Refusal::StaleTerm { lane, term, current }));
        }
        self.set_record(lane, Record { bytes: persist.record.clone(), at: self.now() })?;
        if persist.hand_back {
            self.cache().lose(lane, term);
            self.amend(lane, |lane| lane.owner = None)?;
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    fn announce(&mut self, owner: OwnerId, announced: &Announcement) -> Result<(), Self::Error> {
        let known = self.announcement(owner)?;
        let draining = known.as_ref().map_or(announced.draining, |known| known.draining);
        let announced = Announcement { draining, ..announced.clone() };
        let lives = known.is_some() && self.lives(owner)?;
        if lives && known.is_some_and(|known| known == announced) {
            return Ok(());
        }
        self.set_announcement(owner, announced, lives)?;
        self.nodes_have_changed()
    }

    fn retire(&mut self, owner: OwnerId) -> Result<Reply, Self::Error> {
        if self.delete_node(owner)? {
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }

    fn drain(&mut self, drain: Drain) -> Result<Reply, Self::Error> {
        let Drain { owner, draining } = drain;
        let Some(known) = self.announcement(owner)? else {
            return Ok(Reply::Refused(Refusal::UnknownNode(owner)));
        };
        if known.draining != draining {
            self.set_draining(owner, draining)?;
            self.nodes_have_changed()?;
        }
        Ok(Reply::Done)
    }
}

/// How much older than its commit a checkpoint may be, because a store in trouble commits late.
pub(crate) const LATE_MAX: Nanos = Nanos(5 * Nanos::MINUTE.0);

/// How long before its checkpoint's commit an attempt that the checkpoint lacks may have begun.
pub(crate) const MARGIN: Nanos = Nanos(Nanos::HOUR.0 + LATE_MAX.0);

/// No window cap counts more ends than this.
pub(crate) const ENDS_MAX: u32 = crate::engine::contract::WINDOW_LIMIT_MAX;

pub(crate) const RUNS_MAX: usize = 1_024;

/// Groups ends into runs. All ends of a run count as ended with its last one, and none later than now.
pub(crate) fn runs(mut ends: Vec<StoreTime>, now: StoreTime) -> Vec<Ended> {
    ends.sort_unstable();
    let runs = ends.chunks(ends.len().div_ceil(RUNS_MAX).max(1));
    let run = |run: &[StoreTime]| {
        let at = run.last().copied().unwrap_or(now).min(now);
        Ended { at, count: u32::try_from(run.len()).unwrap_or(u32::MAX) }
    };
    runs.map(run).collect()
}
