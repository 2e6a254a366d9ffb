//! What others do to the database, as one process finds out: new deliveries, changed subscribers, other nodes, dead owners.
//!
//! The thread of the `watcher` looks with it, and so does the simulator. It reads the store; which process is dead, and
//! which deliveries this process recorded itself, it is told.

use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::Event;
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::roster::{Roster, RosterKeeper};
use crate::store::StoreError;
use crate::store::lane::OwnerId;
use crate::store::read::{Glance, Owner, Reader};

/// How often a process looks: what is emitted elsewhere waits half of this on average.
pub const LOOK_EVERY: Duration = Duration::from_millis(4);
/// Looks from one look at the other owners to the next.
pub(super) const LOOKS_BETWEEN_OWNERS: u32 = 250;
/// How often a process looks whether others are dead: about once a second.
pub const OWNERS_EVERY: Duration = LOOK_EVERY.saturating_mul(LOOKS_BETWEEN_OWNERS);
/// Rows looked at in one go.
const ROWS_MAX: u32 = 1_000;

/// What was seen of a database so far.
#[derive(Debug)]
pub struct Lookout {
    seen: Glance,
    keeper: RosterKeeper,
}

impl Lookout {
    /// What the process read when it began.
    #[must_use]
    pub const fn new(seen: Glance, keeper: RosterKeeper) -> Self {
        Self { seen, keeper }
    }

    /// The subscribers as last seen.
    #[must_use]
    pub const fn roster(&self) -> &Arc<Roster> {
        self.keeper.present()
    }

    /// Looks for what has changed, and tells the dispatcher's events for it in their order. `recorded_here` says whether
    /// this process itself recorded all deliveries after the first and up to the second: then it knows of them.
    ///
    /// # Errors
    /// When the store cannot be read. What was not told yet is found by the next look.
    pub fn look(
        &mut self,
        reader: &dyn Reader,
        now: StoreTime,
        recorded_here: impl FnOnce(DeliveryId, DeliveryId) -> bool,
        mut tell: impl FnMut(Event),
    ) -> Result<Glance, StoreError> {
        let glance = reader.glance()?;
        let caught_up = self.catch_up(reader, now, &glance, &mut tell);
        let is_late = glance.late != self.seen.late;
        // Numbers that have settled since may be of deliveries that came late, unseen among so many others.
        if glance.last != self.seen.last || glance.settled != self.seen.settled || is_late {
            if is_late || !recorded_here(self.seen.settled, glance.last) {
                self.find_new_work(reader, &mut tell)?;
            }
            (self.seen.last, self.seen.settled) = (glance.last, glance.settled);
            self.seen.late = glance.late;
        }
        if glance.nodes != self.seen.nodes {
            tell(Event::Nodes(reader.nodes()?));
            self.seen.nodes = glance.nodes;
        }
        if glance.stirred != self.seen.stirred {
            self.find_stirred_work(reader, &mut tell)?;
            self.seen.stirred = glance.stirred;
        }
        caught_up.map(|()| glance)
    }

    /// Changed subscribers. Deliveries go on where they can't be read.
    fn catch_up(
        &mut self,
        reader: &dyn Reader,
        now: StoreTime,
        glance: &Glance,
        tell: &mut impl FnMut(Event),
    ) -> Result<(), StoreError> {
        if glance.roster != self.seen.roster {
            self.keeper.catch_up(reader, now)?;
            tell(Event::Roster(Arc::clone(self.keeper.reach(glance.roster))));
            self.seen.roster = glance.roster;
        }
        Ok(())
    }

    /// Deliveries recorded since the last look.
    fn find_new_work(&self, reader: &dyn Reader, tell: &mut impl FnMut(Event)) -> Result<(), StoreError> {
        let mut after = self.seen.settled;
        loop {
            let work = reader.work_after(after, ROWS_MAX)?;
            after = work.last;
            tell(Event::Work(work.lanes));
            if !work.more {
                return Ok(());
            }
        }
    }

    /// Something is due that was recorded before: redriven, or held back.
    fn find_stirred_work(&self, reader: &dyn Reader, tell: &mut impl FnMut(Event)) -> Result<(), StoreError> {
        let lanes: Vec<LaneId> = self.roster().lanes().collect();
        for some in lanes.chunks(ROWS_MAX as usize) {
            tell(Event::Work(reader.heads(some)?));
        }
        Ok(())
    }
}

/// The owners that are dead and that somebody may still count on: their lanes are free at once, and belong to other nodes,
/// without waiting for their leases.
pub fn dead_owners(
    owners: Vec<Owner>,
    ourselves: OwnerId,
    is_dead: impl Fn(OwnerId) -> bool,
) -> impl Iterator<Item = Owner> {
    let counts = move |owner: &Owner| owner.owner != ourselves && counts(owner);
    owners.into_iter().filter(move |owner| counts(owner) && is_dead(owner.owner))
}

/// Whether somebody may still count on an owner: it has lanes, or was not evicted, so that lanes may belong to it.
pub(super) fn counts(owner: &Owner) -> bool {
    owner.lanes > 0 || owner.until > StoreTime(0)
}
