//! This process's knowledge of queues. [`QueueCache`] is its one owner, in both stores.
//!
//! - `queues`: the claimed deliveries of each lane this process owns, with their state, so that settling reads
//!   nothing; and the cursor, where the next claim begins.
//! - `handoff`: deliveries that a commit has just recorded, so that a lane that keeps up is served from memory.
//! - `lane_rows`: the rows of lanes in a file, with their counts.
//! - `unreadable`: deliveries that claims skip for a while.
//! - `scans`: how far sweeps and purges have come.
//! - `taken`: whether an owner may have lost a lane.
//!
//! **Lifecycle.** A commit calls [`QueueCache::begin`], stages facts while it runs, and ends with
//! [`QueueCache::commit`] or [`QueueCache::roll_back`]. It says which facts happen, never which knowledge survives.
//! A commit rolled back leaves claims, scans and `taken` as they were before it, and no other knowledge. A commit that ended in
//! neither way counts as rolled back.
//!
//! **Validity.** Knowledge of a queue holds for one term and one [`QueueVersion`]. PostgreSQL keeps a version for each
//! lane, which other nodes change under the lock of its row. SQLite has one version for all ([`FileVersion`]), because
//! only a change of the whole file can be noticed. To drop all but the claims is always correct, and slower. Claims cannot
//! be read again: if the process dies, its successor finds everything waiting.
//!
//! **Claims beside a commit** do not wait for its end. A delivery that the commit moves (releases, gives up, replaces)
//! is unchanged on disk, so these claims skip it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Command;
use crate::command::Claim;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use crate::lane::{Bounds, Counts, LaneState, OwnerId};
use crate::reply::{Claimed, ClaimedRow};
use handoff::{Handoff, Recorded};
pub(super) use queues::{Place, QueueVersion, Search, Standing, Unreadable, Waiting};
use queues::{Queue, Queues};
pub(super) use scans::NOTED_AFTER;
use scans::Scans;

mod handoff;
mod queues;
mod scans;
#[cfg(test)]
mod tests;

/// Two counts of a file. While they are unchanged, nobody else has changed its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileVersion {
    /// Grows with every delivery that begins to wait.
    pub(super) arrivals: u64,
    /// `PRAGMA data_version`: changes when another connection has committed, in any process.
    pub(super) data: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) state: LaneState,
    pub(super) bounds: Bounds,
    pub(super) owner: Option<OwnerId>,
    pub(super) term: Term,
    pub(super) counts: Counts,
    /// Whether it has window caps, or once had them.
    pub(super) capped: bool,
}

/// The rows of lanes, as a commit left them. `None`: there is no such lane.
pub(super) type LaneRows = BTreeMap<LaneId, Option<Lane>>;

const LANE_ROWS_MAX: usize = 16_384;

/// Deliveries read for a claim, in a commit or beside it. Nothing is marked as claimed yet.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) claimed: Claimed,
    /// The state of each claimed row, if it is valid.
    pub(super) known: Vec<Option<Waiting>>,
    /// Everything that waits up to here is claimed once the answer is handed out.
    pub(super) cursor: Option<Place>,
    /// After this place, deliveries were skipped because the commit under way moves them.
    pub(super) skipped_after: Option<Place>,
}

/// The cache as a claim beside the commits saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) version: QueueVersion,
    /// Whether the cache knows this version, so that the claim's position holds.
    pub(super) is_current: bool,
}

#[derive(Debug, Default)]
pub(super) struct QueueCache {
    queues: Queues,
    handoff: Handoff,
    lane_rows: LaneRows,
    pub(super) unreadable: Unreadable,
    pub(super) scans: Scans,
    staged: Staged,
    /// The version that the last commit left. `None` on a server, and while it is unknown.
    file: Option<FileVersion>,
    /// The version of every queue of a file, as far as it is this process's own count.
    of_file: QueueVersion,
    /// Extends the expiry of claimed deliveries, where time scales differ.
    pub(super) expiry_grace: Nanos,
    /// Increments when a commit reads or changes this.
    turns: u64,
    /// Deliveries moved by commits that ended since the claim under way began. `None` without a claim.
    moved: Option<BTreeSet<DeliveryId>>,
}

/// The changes of a commit under way.
#[derive(Debug, Default)]
struct Staged {
    is_under_way: bool,
    now: StoreTime,
    /// The steps that undo its changes to claims, in order.
    journal: Vec<Undo>,
    /// The cursors go back to here once it is durable. Until then, claims beside it do not see its additions.
    cursors: BTreeMap<LaneId, Place>,
}

#[derive(Debug)]
enum Undo {
    Claimed(LaneId, DeliveryId),
    Settled(LaneId, DeliveryId),
    Lane(LaneId, Option<Queue>),
    Taken(OwnerId, Option<u64>),
}

/// A panic elsewhere cannot leave this half changed, so a poisoned lock is fine.
pub(super) fn lock(cache: &Mutex<QueueCache>) -> MutexGuard<'_, QueueCache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueueCache {
    /// Begins a commit, on a file with the version found. Returns the rows of lanes that are known to be unchanged. On
    /// a server, [`Self::compare`] follows for each lane.
    pub(super) fn begin(&mut self, now: StoreTime, found: Option<FileVersion>) -> LaneRows {
        if self.staged.is_under_way {
            self.roll_back();
        }
        self.turns += 1;
        self.staged = Staged { is_under_way: true, now, ..Staged::default() };
        // Taken, so that after a failure everything is read again.
        let lane_rows = std::mem::take(&mut self.lane_rows);
        let Some(found) = found else { return lane_rows };
        // Another process may also make a delivery due sooner that waits already, which no count shows.
        let is_undisturbed = self.file.is_some_and(|known| known.data == found.data);
        if !is_undisturbed {
            self.of_file.arrivals += 1;
            self.of_file.disturbed += 1;
        }
        self.handoff.begin(now, is_undisturbed);
        self.file = Some(found);
        if is_undisturbed { lane_rows } else { LaneRows::new() }
    }

    /// Ends a durable commit, which left this version of a file and these rows.
    pub(super) fn commit(&mut self, left: Option<(FileVersion, LaneRows)>) {
        let Self { handoff, queues, unreadable, staged, .. } = self;
        handoff.commit(|lane, delivery| {
            unreadable.or(delivery, staged.now, queues.standing_beside(lane, delivery)) == Standing::Free
        });
        for (lane, place) in std::mem::take(&mut self.staged.cursors) {
            self.queues.step_back(lane, place);
        }
        self.file = left.map(|(version, rows)| {
            self.lane_rows = if rows.len() > LANE_ROWS_MAX { LaneRows::new() } else { rows };
            version
        });
        self.scans.commit();
        self.end();
    }

    pub(super) fn roll_back(&mut self) {
        while let Some(undo) = self.staged.journal.pop() {
            self.queues.undo(undo);
        }
        self.forget();
        self.handoff.roll_back();
        self.scans.roll_back();
        self.end();
    }

    pub(super) fn forget(&mut self) {
        self.queues.forget_all();
        self.handoff.forget_all();
        self.lane_rows.clear();
        self.file = None;
    }

    fn end(&mut self) {
        let moving = self.queues.end_of_moves();
        if let Some(moved) = &mut self.moved {
            moved.extend(moving);
        }
        self.staged = Staged::default();
        self.turns += 1;
    }
}

impl QueueCache {
    /// A command begins. The frequent ones, a renewal and a checkpoint stage all that they change. Any other may
    /// change deliveries of any lane.
    pub(super) fn run(&mut self, command: &Command) {
        if !command.spares_queues() {
            self.of_file.disturbed += 1;
            self.handoff.drop_all();
        }
    }

    /// Forgets the claims of an earlier term.
    pub(super) fn own(&mut self, lane: LaneId, owner: OwnerId, term: Term) {
        if !self.queues.holds(lane, term) {
            self.handoff.forget(lane);
            let before = self.queues.insert(lane, Queue::new(owner, term));
            self.staged.journal.push(Undo::Lane(lane, before));
        }
    }

    pub(super) fn lose(&mut self, lane: LaneId, term: Term) {
        if let Some(before) = self.queues.remove(lane, term) {
            self.staged.journal.push(Undo::Lane(lane, Some(before)));
        }
    }

    /// A renewal has checked the lanes of an owner, from which this many were taken so far. `None`: its count starts anew.
    pub(super) fn see_taken(&mut self, owner: OwnerId, taken: Option<u64>) {
        let before = self.queues.set_taken(owner, taken);
        self.staged.journal.push(Undo::Taken(owner, before));
    }

    pub(super) fn arrive(&mut self, lane: LaneId, due: StoreTime) {
        self.handoff.add(lane, due);
        self.move_cursor(lane, (due, DeliveryId(0)));
    }

    /// A new delivery waits. `row`: how to hand it out from memory, unless a later event can replace it.
    pub(super) fn record(&mut self, lane: LaneId, due: StoreTime, row: Option<impl FnOnce() -> ClaimedRow>) {
        match row {
            Some(row) if due <= self.staged.now && self.handoff.follows(lane) => {
                self.handoff.record(lane, Recorded { due, row: row() });
                self.move_cursor(lane, (due, DeliveryId(0)));
            }
            _ => self.arrive(lane, due),
        }
    }

    pub(super) fn disturb(&mut self, lane: LaneId) {
        self.handoff.drop_lane(lane);
    }

    /// A delivery is given up or replaced. It may be claimed.
    pub(super) fn leave(&mut self, lane: LaneId, delivery: DeliveryId) {
        self.queues.leave(lane, delivery);
    }

    /// Returns false if it was not claimed under this term.
    pub(super) fn settle(&mut self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        let was_claimed = self.queues.give_back(lane, term, delivery);
        if was_claimed {
            self.staged.journal.push(Undo::Settled(lane, delivery));
        } else {
            self.queues.leave(lane, delivery);
            // It may be the next one to hand out.
            self.handoff.drop_lane(lane);
        }
        was_claimed
    }

    fn move_cursor(&mut self, lane: LaneId, place: Place) {
        let staged = self.staged.cursors.entry(lane).or_insert(place);
        *staged = place.min(*staged);
    }
}

impl QueueCache {
    pub(super) fn holds(&self, lane: LaneId, term: Term) -> bool {
        self.queues.holds(lane, term)
    }

    pub(super) fn taken_seen(&self, owner: OwnerId) -> Option<u64> {
        self.queues.taken(owner)
    }

    pub(super) fn owned_by(&self, owner: OwnerId) -> Vec<(LaneId, Term)> {
        self.queues.owned_by(owner)
    }

    pub(super) fn has(&self, lane: LaneId, delivery: DeliveryId) -> bool {
        self.queues.has(lane, delivery)
    }

    pub(super) fn claimed_in_all(&self) -> usize {
        self.queues.len()
    }

    pub(super) fn standing(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        self.unreadable.or(delivery, now, self.queues.standing(lane, delivery))
    }

    /// The state of a claimed delivery, if it is unchanged since its claim.
    pub(super) fn known(&mut self, lane: LaneId, term: Term, delivery: DeliveryId) -> Option<Waiting> {
        self.queue(lane, term)?.known(delivery)
    }

    /// Whether [`Self::known`] may have an answer once the lane's version is compared.
    pub(super) fn may_know(&self, lane: LaneId, term: Term, delivery: DeliveryId) -> bool {
        self.queues.may_know(lane, term, delivery)
    }

    /// Also raises the row's lower bound by what the cache knows.
    pub(super) fn compare(&mut self, lane: LaneId, term: Term, version: &mut QueueVersion) {
        self.queues.compare(lane, term, version);
    }

    /// Where to search a lane for deliveries that are not claimed. `version`: of a lane's row.
    pub(super) fn search(&mut self, lane: LaneId, term: Term, version: &QueueVersion) -> Search {
        match self.queues.of(lane, term) {
            Some(queue) => {
                queue.refresh(version);
                queue.search()
            }
            None => Search { place: (version.head, DeliveryId(0)), claimed_after: self.queues.count(lane) },
        }
    }

    /// `version`: of the lane's row, which was read before them; `None` on a file.
    pub(super) fn claim(&mut self, answer: Answer, version: Option<&QueueVersion>) -> Claimed {
        let version = *version.unwrap_or(&self.of_file);
        let lane = answer.claimed.lane;
        self.handoff.forget(lane);
        if let Some(queue) = self.queues.of(lane, answer.claimed.term) {
            queue.refresh(&version);
            for (row, known) in answer.claimed.rows.iter().zip(answer.known) {
                if queue.claim(row.delivery, known, version.disturbed) {
                    self.staged.journal.push(Undo::Claimed(lane, row.delivery));
                }
            }
            queue.reach(answer.cursor);
        }
        answer.claimed
    }

    fn queue(&mut self, lane: LaneId, term: Term) -> Option<&mut Queue> {
        let queue = self.queues.of(lane, term)?;
        if self.file.is_some() {
            queue.refresh(&self.of_file);
        }
        Some(queue)
    }
}

/// Claims beside the commits. They survive a commit that is rolled back.
impl QueueCache {
    /// From now on, until the next claim or [`Self::end_claim`], records the deliveries that commits move. The
    /// database may report these as they were before or after.
    pub(super) fn begin_claim(&mut self) {
        self.moved = Some(BTreeSet::new());
    }

    pub(super) fn end_claim(&mut self) {
        self.moved = None;
    }

    /// While this is unchanged, no commit has had access.
    pub(super) const fn turns(&self) -> u64 {
        self.turns
    }

    pub(super) fn view(&self, arrivals: u64) -> View {
        let is_current = self.file.is_some_and(|known| known.arrivals == arrivals);
        View { version: self.of_file, is_current }
    }

    /// Where a claim that reads a file begins. `None`: at the beginning.
    pub(super) fn read_from(&mut self, claim: &Claim, view: &View) -> Option<StoreTime> {
        self.handoff.forget(claim.lane);
        self.queue(claim.lane, claim.term).filter(|_| view.is_current)?.read_from()
    }

    pub(super) fn standing_beside(&self, lane: LaneId, delivery: DeliveryId, now: StoreTime) -> Standing {
        if self.moved.as_ref().is_some_and(|moved| moved.contains(&delivery)) {
            return Standing::Moving;
        }
        self.unreadable.or(delivery, now, self.queues.standing_beside(lane, delivery))
    }

    pub(super) fn claim_beside(&mut self, now: StoreTime, answer: Answer, view: &View) -> Claimed {
        let Answer { mut claimed, mut known, cursor, skipped_after } = answer;
        let (lane, term) = (claimed.lane, claimed.term);
        if !view.is_current {
            // A commit may have moved some while they were read.
            let is_free = |row: &ClaimedRow| self.standing_beside(lane, row.delivery, now) == Standing::Free;
            let free: Vec<bool> = claimed.rows.iter().map(is_free).collect();
            let (mut rows, mut states) = (free.iter(), free.iter());
            claimed.rows.retain(|_| rows.next() == Some(&true));
            known.retain(|_| states.next() == Some(&true));
        }
        let Some(queue) = self.queues.of(lane, term) else { return claimed };
        for (row, known) in claimed.rows.iter().zip(known) {
            queue.claim(row.delivery, known, view.version.disturbed);
        }
        if view.is_current {
            queue.reach(cursor);
            if let Some(place) = skipped_after {
                self.move_cursor(lane, place);
            }
            if self.file.is_some() && claimed.next.is_none_or(|next| next > now) {
                self.handoff.follow(lane, term, claimed.next);
            }
        }
        claimed
    }

    /// Claims from memory. `None`: the store must be read.
    pub(super) fn claim_recorded(&mut self, claim: &Claim, now: StoreTime) -> Option<Claimed> {
        let Self { handoff, queues, unreadable, .. } = self;
        let is_free = |delivery| {
            unreadable.or(delivery, now, queues.standing_beside(claim.lane, delivery)) == Standing::Free
        };
        if !queues.holds(claim.lane, claim.term) {
            return None;
        }
        let (claimed, due) = handoff.hand_out(claim, now, is_free)?;
        let disturbed = self.of_file.disturbed;
        let queue = self.queue(claim.lane, claim.term)?;
        for (row, due) in claimed.rows.iter().zip(due) {
            let bytes = u64::try_from(row.body.bytes.len()).unwrap_or(u64::MAX);
            queue.claim(row.delivery, Some(Waiting::new(bytes, due)), disturbed);
        }
        Some(claimed)
    }
}
