//! What a commit has locked, as the commit will leave it: lanes with their figures, owners, the numbers that change with
//! subscribers. Read once, on the way in; written once, on the way out.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Error, Row};

use super::queues::{Queues, Signs};
use super::stop::{Result, Stop, Wanted};
use super::values::{Count, int, listed};
use super::writer::Writer;
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::store::commit::Lane;
use crate::store::held::Held;
use crate::store::lane::{Bounds, Counts, LaneState, OwnerId};
use crate::store::reply::Record;

/// One lane, and the columns to be written.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) lane: Lane,
    /// How its queue has changed.
    pub(super) signs: Signs,
    /// To be kept, if something was persisted and not yet written.
    pub(super) record: Option<Record>,
    /// How often its row was changed: one in 64 times its key grows as well.
    pub(super) changes: u64,
    changed: bool,
}

/// One owner's lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) until: StoreTime,
    pub(super) evicted: bool,
    /// How many lanes others took from it.
    pub(super) taken: u64,
    changed: bool,
}

/// What there is once for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) roster: u64,
    stirred: u64,
    next_lane: u64,
    nodes: u64,
    changed: bool,
}

/// All that the present commit has locked.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Whose commit it is, by the row that it counts in.
    pub(super) writer: Writer,
    lanes: BTreeMap<LaneId, Option<Entry>>,
    owners: BTreeMap<OwnerId, Lease>,
    owners_are_locked: bool,
    state: State,
    state_is_locked: bool,
    /// The latest time that any commit had: leases are reckoned by it.
    pub(super) clock: StoreTime,
    /// How many deliveries are where, in total.
    totals: Counts,
    /// The same before this commit.
    before: Counts,
    marked_minute: Option<u64>,
    /// The server's clock as the commit began.
    pub(super) server_clock: StoreTime,
    /// Leases are reckoned by it.
    pub(super) by_server_clock: bool,
    /// Leases that are over by the clock hold all the same.
    spares: bool,
}

/// What a commit has changed of what it locked.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Lanes, with their counts in their order.
    pub(super) lanes: Vec<(LaneId, Entry)>,
    pub(super) owners: Vec<(OwnerId, Lease)>,
    /// The roster, how often something stirred, the next lane, and how often nodes changed.
    pub(super) state: Option<[i64; 4]>,
}

/// Marks older than this are deleted: figures are given for the last hour.
const MARKS_KEPT_MINUTES: u64 = 24 * 60;

/// The ten counts of a row, in the order of [`Counts`].
macro_rules! counts {
    () => {
        "accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept, failed_attempts, latency_us"
    };
}
pub(super) use counts;

impl Lease {
    /// Reads a row of `owners` without its number.
    pub(super) fn read(row: &Row) -> std::result::Result<Self, Error> {
        let taken = row.try_get::<_, Count>(3)?.0;
        Ok(Self { until: row.try_get(1)?, evicted: row.try_get(2)?, taken, changed: false })
    }
}

impl Ledger {
    /// What was found locked, as it was wanted; and the rows of the state and of the totals.
    pub(super) fn read(
        wanted: &Wanted,
        (lanes, owners): (BTreeMap<LaneId, Option<Entry>>, BTreeMap<OwnerId, Lease>),
        (state, sums): (&Row, &Row),
        (writer, now): (Writer, StoreTime),
    ) -> Result<Self> {
        let number = |column| state.try_get::<_, Count>(column).map(|count| count.0);
        let totals = read_counts(sums)?;
        Ok(Self {
            writer,
            lanes,
            owners,
            owners_are_locked: wanted.owners,
            state: State {
                roster: number(0)?,
                stirred: number(1)?,
                next_lane: number(2)?,
                nodes: number(3)?,
                changed: false,
            },
            state_is_locked: wanted.state,
            clock: sums.try_get::<_, Option<StoreTime>>(10)?.unwrap_or_default().max(now),
            totals,
            before: totals,
            marked_minute: sums.try_get::<_, Option<Count>>(11)?.map(|minute| minute.0),
            server_clock: sums.try_get(12)?,
            by_server_clock: false,
            spares: false,
        })
    }

    /// A lane, unless there is none.
    pub(super) fn lane(&self, lane: LaneId) -> Result<Option<&Lane>> {
        Ok(self.entry(lane)?.map(|found| &found.lane))
    }

    /// How the queue of a lane has changed, unless there is no such lane.
    pub(super) fn signs(&self, lane: LaneId) -> Result<Option<Signs>> {
        Ok(self.entry(lane)?.map(|found| found.signs))
    }

    fn entry(&self, lane: LaneId) -> Result<Option<&Entry>> {
        self.lanes.get(&lane).map(Option::as_ref).ok_or_else(|| Stop::lanes([lane]))
    }

    /// Sees to it that all these are locked.
    pub(super) fn need(&self, lanes: impl IntoIterator<Item = LaneId>) -> Result<()> {
        let missing: BTreeSet<_> = lanes.into_iter().filter(|lane| !self.lanes.contains_key(lane)).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Stop::Unlocked(Wanted { lanes: missing, ..Wanted::default() }))
        }
    }

    /// The lanes that are locked.
    pub(super) fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().filter_map(|(id, found)| Some((*id, &found.as_ref()?.lane)))
    }

    /// How many lanes are locked.
    pub(super) fn locked(&self) -> u32 {
        u32::try_from(self.lanes.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn amend(&mut self, lane: LaneId, amend: impl FnOnce(&mut Lane)) -> Result<()> {
        self.change(lane, |found| amend(&mut found.lane))
    }

    pub(super) fn set_record(&mut self, lane: LaneId, record: Record) -> Result<()> {
        self.change(lane, |found| found.record = Some(record))
    }

    /// Changes a lane; nothing happens to one that is not there.
    pub(super) fn change(&mut self, lane: LaneId, change: impl FnOnce(&mut Entry)) -> Result<()> {
        match self.lanes.get_mut(&lane) {
            None => Err(Stop::lanes([lane])),
            Some(None) => Ok(()),
            Some(Some(found)) => {
                change(found);
                found.changed = true;
                Ok(())
            }
        }
    }

    /// Counts something, in the lane and in total.
    pub(super) fn count(&mut self, lane: LaneId, count: impl Fn(&mut Counts)) -> Result<()> {
        self.amend(lane, |lane| count(&mut lane.counts))?;
        count(&mut self.totals);
        Ok(())
    }

    /// Takes account of how the queues of lanes that are held here have changed.
    pub(super) fn look(&mut self, held: &Held, queues: &mut Queues) {
        for (id, lane) in &mut self.lanes {
            if let Some(lane) = lane
                && held.holds(*id, lane.lane.term)
            {
                let term = lane.lane.term;
                queues.look(*id, term, &lane.signs);
                let head = queues.head(*id, term, held.rows(*id));
                lane.signs.are_seen(head);
            }
        }
    }

    pub(super) const fn totals(&self) -> &Counts {
        &self.totals
    }

    /// A lane that was just inserted.
    pub(super) fn put(&mut self, lane: LaneId, bounds: Bounds, capped: bool) {
        let new = Lane {
            state: LaneState::Active,
            bounds,
            owner: None,
            term: Term(0),
            counts: Counts::default(),
            capped,
        };
        let entry = Entry { lane: new, signs: Signs::NONE, record: None, changes: 0, changed: false };
        self.lanes.insert(lane, Some(entry));
    }

    /// A lane that has just been deleted.
    pub(super) fn drop_lane(&mut self, lane: LaneId) {
        self.lanes.insert(lane, None);
    }

    pub(super) const fn roster(&self) -> u64 {
        self.state.roster
    }

    fn locked_state(&mut self) -> Result<&mut State> {
        if !self.state_is_locked {
            return Err(Stop::Unlocked(Wanted { state: true, ..Wanted::default() }));
        }
        self.state.changed = true;
        Ok(&mut self.state)
    }

    /// The next roster: some subscriber changed.
    pub(super) fn next_roster(&mut self) -> Result<u64> {
        let state = self.locked_state()?;
        state.roster += 1;
        Ok(state.roster)
    }

    pub(super) fn next_lane(&mut self) -> Result<LaneId> {
        let state = self.locked_state()?;
        state.next_lane += 1;
        Ok(LaneId(state.next_lane - 1))
    }

    /// Something is due that was recorded before.
    pub(super) fn stir(&mut self) -> Result<()> {
        self.locked_state()?.stirred += 1;
        Ok(())
    }

    /// Whoever looks at the nodes now and then should look at once.
    pub(super) fn nodes_have_changed(&mut self) -> Result<()> {
        self.locked_state()?.nodes += 1;
        Ok(())
    }

    /// The leases of all owners.
    pub(super) fn owners(&mut self) -> Result<&mut BTreeMap<OwnerId, Lease>> {
        if self.owners_are_locked {
            Ok(&mut self.owners)
        } else {
            Err(Stop::Unlocked(Wanted { owners: true, ..Wanted::default() }))
        }
    }

    /// From now on only who was evicted counts as dead.
    pub(super) const fn spare(&mut self) {
        self.spares = true;
    }

    /// Leases until then are over.
    pub(super) const fn leases_over(&self) -> StoreTime {
        if self.spares { StoreTime(0) } else { self.clock }
    }

    /// Whether a lease holds.
    pub(super) fn lives(&mut self, owner: OwnerId) -> Result<bool> {
        let over = self.leases_over();
        Ok(self.owners()?.get(&owner).is_some_and(|lease| lease.until > over))
    }

    /// Changes the lease of an owner, unless it is unknown.
    pub(super) fn amend_owner(&mut self, owner: OwnerId, amend: impl FnOnce(&mut Lease)) -> Result<()> {
        if let Some(lease) = self.owners()?.get_mut(&owner) {
            amend(lease);
            lease.changed = true;
        }
        Ok(())
    }

    /// The lease of an owner, known or new.
    pub(super) fn set_lease(&mut self, owner: OwnerId, until: StoreTime) -> Result<()> {
        let taken = self.owners()?.get(&owner).map_or(0, |lease| lease.taken);
        self.owners()?.insert(owner, Lease { until, evicted: false, taken, changed: true });
        Ok(())
    }

    /// What has changed since the last time, to be written.
    pub(super) fn changes(&mut self) -> Changes {
        let mut changes = Changes::default();
        for (id, lane) in &mut self.lanes {
            let Some(lane) = lane.as_mut().filter(|lane| lane.changed) else { continue };
            debug_assert!(lane.lane.counts.conserved(), "lane {}: {:?}", id.0, lane.lane.counts);
            lane.changed = false;
            let record = lane.record.take();
            changes.lanes.push((*id, Entry { record, ..lane.clone() }));
            lane.changes += 1;
        }
        for (owner, lease) in self.owners.iter_mut().filter(|(_, lease)| lease.changed) {
            lease.changed = false;
            changes.owners.push((*owner, *lease));
        }
        if self.state.changed {
            self.state.changed = false;
            changes.state = Some(self.state.numbers());
        }
        changes
    }

    /// By how much the totals have changed, wrapped around where they fell; nothing, if not at all.
    pub(super) fn moved(&self) -> Option<[i64; 10]> {
        (self.totals != self.before).then(|| {
            let (now, before) = (listed(&self.totals), listed(&self.before));
            std::array::from_fn(|place| now[place].wrapping_sub(before[place]).cast_signed())
        })
    }

    /// How everything stood before the first commit of a minute, if this is one.
    pub(super) fn mark(&self, now: StoreTime) -> Option<(u64, u64, Counts)> {
        let minute = now.0 / Nanos::MINUTE.0;
        let is_new = self.moved().is_some() && self.marked_minute.is_none_or(|marked| minute > marked);
        is_new.then(|| (minute, minute.saturating_sub(MARKS_KEPT_MINUTES), self.before))
    }
}

impl State {
    fn numbers(&self) -> [i64; 4] {
        [int(self.roster), int(self.stirred), int(self.next_lane), int(self.nodes)]
    }
}

impl Entry {
    /// Reads a row of `lanes`.
    pub(super) fn read(row: &Row) -> std::result::Result<Self, Error> {
        let lane = Lane {
            counts: read_counts(row)?,
            state: row.try_get(11)?,
            bounds: read_bounds(row, 12)?,
            owner: row.try_get(15)?,
            term: row.try_get(16)?,
            capped: row.try_get(17)?,
        };
        Ok(Self {
            lane,
            signs: Signs::read(row, 18)?,
            record: None,
            changes: row.try_get::<_, Count>(22)?.0,
            changed: false,
        })
    }
}

/// Bounds from three columns.
pub(super) fn read_bounds(row: &Row, first: usize) -> std::result::Result<Bounds, Error> {
    let number = |column| row.try_get::<_, Count>(column).map(|count| count.0);
    Ok(Bounds { rows_max: number(first)?, bytes_max: number(first + 1)?, when_full: row.try_get(first + 2)? })
}

/// Counts from the first ten columns; nothing counts as none.
pub(super) fn read_counts(row: &Row) -> std::result::Result<Counts, Error> {
    let number =
        |column| row.try_get::<_, Option<i64>>(column).map(|count| count.unwrap_or(0).max(0).cast_unsigned());
    Ok(Counts {
        accepted: number(0)?,
        delivered: number(1)?,
        dead: number(2)?,
        coalesced: number(3)?,
        waiting: number(4)?,
        waiting_bytes: number(5)?,
        retrying: number(6)?,
        dead_kept: number(7)?,
        failed_attempts: number(8)?,
        latency_us: number(9)?,
    })
}
