//! The locked rows as the commit will leave them: lanes with their counts, owners, and the state. Each is read once
//! at the start and written once at the end.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::{Error, Row};

use super::failure::{Result, Stop, Wanted, failure};
use super::link::{Link, Query, Table};
use super::values::{Count, int, listed};
use crate::StoreError;
use crate::engine::{LaneId, Nanos, StoreTime, Term};
use crate::lane::{Bounds, Counts, LaneState, OwnerId};
use crate::queue_cache::{Lane, QueueCache, QueueVersion};
use crate::reply::Record;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) lane: Lane,
    pub(super) version: QueueVersion,
    pub(super) record: Option<Record>,
    /// The number of changes to this row. Its key grows with every 64th.
    pub(super) changes: u64,
    changed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) until: StoreTime,
    pub(super) evicted: bool,
    /// The number of lanes that others took from it.
    pub(super) taken: u64,
    changed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) roster: u64,
    stirred: u64,
    next_lane: u64,
    nodes: u64,
    changed: bool,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) writer: Writer,
    lanes: BTreeMap<LaneId, Option<Entry>>,
    owners: BTreeMap<OwnerId, Lease>,
    owners_are_locked: bool,
    state: State,
    state_is_locked: bool,
    /// The latest time of any commit, which measures leases.
    pub(super) clock: StoreTime,
    totals: Counts,
    /// `totals` before this commit.
    before: Counts,
    marked_minute: Option<u64>,
    pub(super) server_clock: StoreTime,
    pub(super) by_server_clock: bool,
    /// Whether expired leases are still respected.
    spares: bool,
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) lanes: Vec<(LaneId, Entry)>,
    pub(super) owners: Vec<(OwnerId, Lease)>,
    pub(super) state: Option<[i64; 4]>,
}

/// Figures need only the last hour.
const MARKS_KEPT_MINUTES: u64 = 24 * 60;

macro_rules! counts {
    () => {
        "accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept, failed_attempts, latency_us"
    };
}
pub(super) use counts;

impl Lease {
    pub(super) fn read(row: &Row) -> std::result::Result<Self, Error> {
        let taken = row.try_get::<_, Count>(3)?.0;
        Ok(Self { until: row.try_get(1)?, evicted: row.try_get(2)?, taken, changed: false })
    }
}

impl Ledger {
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

    pub(super) fn lane(&self, lane: LaneId) -> Result<Option<&Lane>> {
        Ok(self.entry(lane)?.map(|found| &found.lane))
    }

    pub(super) fn version(&self, lane: LaneId) -> Result<QueueVersion> {
        Ok(self.entry(lane)?.map(|found| found.version).unwrap_or_default())
    }

    fn entry(&self, lane: LaneId) -> Result<Option<&Entry>> {
        self.lanes.get(&lane).map(Option::as_ref).ok_or_else(|| Stop::lanes([lane]))
    }

    pub(super) fn need(&self, lanes: impl IntoIterator<Item = LaneId>) -> Result<()> {
        let missing: BTreeSet<_> = lanes.into_iter().filter(|lane| !self.lanes.contains_key(lane)).collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Stop::Unlocked(Wanted { lanes: missing, ..Wanted::default() }))
        }
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = (LaneId, &Lane)> {
        self.lanes.iter().filter_map(|(id, found)| Some((*id, &found.as_ref()?.lane)))
    }

    pub(super) fn locked(&self) -> u32 {
        u32::try_from(self.lanes.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn amend(&mut self, lane: LaneId, amend: impl FnOnce(&mut Lane)) -> Result<()> {
        self.change(lane, |found| amend(&mut found.lane))
    }

    pub(super) fn set_record(&mut self, lane: LaneId, record: Record) -> Result<()> {
        self.change(lane, |found| found.record = Some(record))
    }

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

    pub(super) fn count(&mut self, lane: LaneId, count: impl Fn(&mut Counts)) -> Result<()> {
        self.amend(lane, |lane| count(&mut lane.counts))?;
        count(&mut self.totals);
        Ok(())
    }

    pub(super) fn compare(&mut self, cache: &mut QueueCache) {
        for (id, lane) in &mut self.lanes {
            match lane {
                Some(found) => cache.compare(*id, found.lane.term, &mut found.version),
                None => cache.compare(*id, Term(0), &mut QueueVersion::default()),
            }
        }
    }

    pub(super) const fn totals(&self) -> &Counts {
        &self.totals
    }

    pub(super) fn put(&mut self, lane: LaneId, bounds: Bounds) {
        let new = Lane {
            state: LaneState::Active,
            bounds,
            owner: None,
            term: Term(0),
            counts: Counts::default(),
            capped: false,
        };
        let entry = Entry { lane: new, version: QueueVersion::NEW, record: None, changes: 0, changed: false };
        self.lanes.insert(lane, Some(entry));
    }

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

    /// Tells other processes that an earlier delivery is due.
    pub(super) fn stir(&mut self) -> Result<()> {
        self.locked_state()?.stirred += 1;
        Ok(())
    }

    /// Tells other processes to read the nodes now.
    pub(super) fn nodes_have_changed(&mut self) -> Result<()> {
        self.locked_state()?.nodes += 1;
        Ok(())
    }

    pub(super) fn owners(&mut self) -> Result<&mut BTreeMap<OwnerId, Lease>> {
        if self.owners_are_locked {
            Ok(&mut self.owners)
        } else {
            Err(Stop::Unlocked(Wanted { owners: true, ..Wanted::default() }))
        }
    }

    /// From now on, only evicted owners count as dead.
    pub(super) const fn spare(&mut self) {
        self.spares = true;
    }

    pub(super) const fn leases_over(&self) -> StoreTime {
        if self.spares { StoreTime(0) } else { self.clock }
    }

    pub(super) fn lives(&mut self, owner: OwnerId) -> Result<bool> {
        let over = self.leases_over();
        Ok(self.owners()?.get(&owner).is_some_and(|lease| lease.until > over))
    }

    pub(super) fn amend_owner(&mut self, owner: OwnerId, amend: impl FnOnce(&mut Lease)) -> Result<()> {
        if let Some(lease) = self.owners()?.get_mut(&owner) {
            amend(lease);
            lease.changed = true;
        }
        Ok(())
    }

    pub(super) fn set_lease(&mut self, owner: OwnerId, until: StoreTime) -> Result<()> {
        let taken = self.owners()?.get(&owner).map_or(0, |lease| lease.taken);
        self.owners()?.insert(owner, Lease { until, evicted: false, taken, changed: true });
        Ok(())
    }

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

    /// The change of the totals, wrapping where they fell. `None` if unchanged.
    pub(super) fn moved(&self) -> Option<[i64; 10]> {
        (self.totals != self.before).then(|| {
            let (now, before) = (listed(&self.totals), listed(&self.before));
            std::array::from_fn(|place| now[place].wrapping_sub(before[place]).cast_signed())
        })
    }

    /// The totals before the first commit of a minute, if this is it.
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
            version: read_version(row, 18)?,
            record: None,
            changes: row.try_get::<_, Count>(22)?.0,
            changed: false,
        })
    }
}

pub(super) fn read_version(row: &Row, first: usize) -> std::result::Result<QueueVersion, Error> {
    let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
    Ok(QueueVersion {
        arrivals: count(first)?,
        earliest: row.try_get(first + 1)?,
        disturbed: count(first + 2)?,
        head: row.try_get(first + 3)?,
    })
}

pub(super) fn read_bounds(row: &Row, first: usize) -> std::result::Result<Bounds, Error> {
    let number = |column| row.try_get::<_, Count>(column).map(|count| count.0);
    Ok(Bounds { rows_max: number(first)?, bytes_max: number(first + 1)?, when_full: row.try_get(first + 2)? })
}

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

/// A commit's notes in lanes' rows for their owners ([`QueueVersion`]).
impl Ledger {
    pub(super) fn head(&self, lane: LaneId) -> Result<StoreTime> {
        Ok(self.version(lane)?.head)
    }

    pub(super) fn arrive(&mut self, lane: LaneId, due: StoreTime) -> Result<()> {
        self.change(lane, |lane| lane.version.arrive(due))
    }

    pub(super) fn disturb(&mut self, lane: LaneId) -> Result<()> {
        self.change(lane, |lane| lane.version.disturbed += 1)
    }
}

impl Changes {
    pub(super) fn tables(&self) -> Vec<Table<'_>> {
        let mut tables = Vec::new();
        if !self.lanes.is_empty() {
            tables.push(lanes(&self.lanes));
        }
        if !self.owners.is_empty() {
            tables.push(
                Table::new(
                    "INSERT INTO owners SELECT * FROM unnest($1::int8[], $2::int8[], $3::bool[], $4::int8[])
                     ON CONFLICT (owner) DO UPDATE SET until = excluded.until, evicted = excluded.evicted,
                     taken = excluded.taken",
                )
                .with(self.owners.iter().map(|(owner, _)| *owner))
                .with(self.owners.iter().map(|(_, lease)| lease.until))
                .with(self.owners.iter().map(|(_, lease)| lease.evicted))
                .with(self.owners.iter().map(|(_, lease)| int(lease.taken))),
            );
        }
        tables
    }

    /// `None` if it did not change.
    pub(super) fn state(&self) -> Option<Query<'_>> {
        let [roster, stirred, next_lane, nodes] = self.state.as_ref()?;
        let text = "UPDATE state SET roster = $1, stirred = $2, next_lane = $3, nodes = $4";
        Some(Query { text, values: vec![roster, stirred, next_lane, nodes] })
    }
}

/// Written as upserts, so that PostgreSQL does not choose the join order. With few rows in a table it would read them
/// first, with all their dead versions.
fn lanes(lanes: &[(LaneId, Entry)]) -> Table<'_> {
    let table = Table::new(
        "INSERT INTO lanes AS l (lane, state, rows_max, bytes_max, when_full, capped, owner, term, arrivals, earliest,
         disturbed, head, changes, record_at, record, accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying,
         dead_kept, failed_attempts, latency_us)
         SELECT * FROM unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int2[], $6::bool[], $7::int8[], $8::int8[],
         $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::bytea[], $16::int8[],
         $17::int8[], $18::int8[], $19::int8[], $20::int8[], $21::int8[], $22::int8[], $23::int8[], $24::int8[],
         $25::int8[])
         ON CONFLICT (lane, era) DO UPDATE SET state = excluded.state, rows_max = excluded.rows_max,
         bytes_max = excluded.bytes_max, when_full = excluded.when_full, owner = excluded.owner, term = excluded.term,
         arrivals = excluded.arrivals, earliest = excluded.earliest, disturbed = excluded.disturbed, head = excluded.head,
         changes = excluded.changes + 1, record_at = coalesce(excluded.record_at, l.record_at),
         record = coalesce(excluded.record, l.record), accepted = excluded.accepted, delivered = excluded.delivered,
         dead = excluded.dead, coalesced = excluded.coalesced, waiting = excluded.waiting,
         waiting_bytes = excluded.waiting_bytes, retrying = excluded.retrying, dead_kept = excluded.dead_kept,
         failed_attempts = excluded.failed_attempts, latency_us = excluded.latency_us",
    )
    .with(lanes.iter().map(|(id, _)| *id))
    .with(lanes.iter().map(|(_, lane)| lane.lane.state))
    .with(lanes.iter().map(|(_, lane)| int(lane.lane.bounds.rows_max)))
    .with(lanes.iter().map(|(_, lane)| int(lane.lane.bounds.bytes_max)))
    .with(lanes.iter().map(|(_, lane)| lane.lane.bounds.when_full))
    .with(lanes.iter().map(|(_, lane)| lane.lane.capped))
    .with(lanes.iter().map(|(_, lane)| lane.lane.owner))
    .with(lanes.iter().map(|(_, lane)| lane.lane.term))
    .with(lanes.iter().map(|(_, lane)| int(lane.version.arrivals)))
    .with(lanes.iter().map(|(_, lane)| lane.version.earliest))
    .with(lanes.iter().map(|(_, lane)| int(lane.version.disturbed)))
    .with(lanes.iter().map(|(_, lane)| lane.version.head))
    .with(lanes.iter().map(|(_, lane)| int(lane.changes)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| record.at)))
    .with(lanes.iter().map(|(_, lane)| lane.record.as_ref().map(|record| &*record.bytes)));
    (0..10).fold(table, |table, place| {
        table.with(lanes.iter().map(move |(_, lane)| int(listed(&lane.lane.counts)[place])))
    })
}

// The number of a writer's row in `totals` grows with every 64th commit. So a search for a writer's newest row skips
// at most 64 dead rows, however long an open transaction keeps them (`schema.sql`). The upper half of the number
// stays the same.
const COMMITS: i64 = 64;
/// The bits in which one writer's numbers differ.
const OWN: i64 = (1 << 32) - 1;

const NEW: &str = "WITH new AS (SELECT (1 + (random() * 2147483645)::int8) << 32 AS writer)
    INSERT INTO totals (writer) SELECT writer FROM new WHERE NOT EXISTS (
        SELECT 1 FROM totals t WHERE t.writer BETWEEN new.writer AND new.writer + 4294967295) RETURNING writer";
const DRAWS_MAX: u32 = 100;
const ANEW: &str = "INSERT INTO totals (writer, token) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT 1 FROM totals WHERE writer = $1 FOR NO KEY UPDATE";
/// Locks the row, so that it waits for a commit under way.
const FIND: &str =
    "SELECT writer, token FROM totals WHERE writer BETWEEN $1 AND $2 ORDER BY writer DESC LIMIT 1 FOR UPDATE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer(pub(super) i64);

impl Writer {
    pub(super) fn new(link: &Link) -> std::result::Result<Self, StoreError> {
        let doing = "open the database";
        for _ in 0..DRAWS_MAX {
            if let Some(row) = link.first(NEW, &[]).map_err(|error| failure(doing, &error))? {
                return row.try_get(0).map(Self).map_err(|error| failure(doing, &error));
            }
        }
        Err(StoreError::Broken { doing, detail: "every random number for a writer was taken".to_owned() })
    }

    pub(super) const fn after(self, token: i64) -> Self {
        Self(self.0 & !OWN | (token / COMMITS) & OWN)
    }

    /// Locks the row, so that [`Self::find`] waits.
    pub(super) fn lock(&self) -> Query<'_> {
        Query { text: LOCK, values: vec![&self.0] }
    }

    /// Creates the row again after it was deleted as idle. It may exist already, because a commit can start more than
    /// once.
    pub(super) fn make_anew(self, link: &Link, token: i64) -> std::result::Result<(), Error> {
        link.execute(ANEW, &[&self.0, &token]).map(drop)
    }

    /// Whether it has counted little. Deleting the row of any other writer leaves dead rows for all its numbers,
    /// which summing must skip while an open transaction keeps them.
    pub(super) const fn is_new(self) -> bool {
        self.0 & OWN == 0
    }

    /// The present row, with the token of its last commit. `None` if it was deleted.
    pub(super) fn find(self, link: &Link) -> std::result::Result<Option<(Self, i64)>, Error> {
        let row = link.first(FIND, &[&(self.0 & !OWN), &(self.0 | OWN)])?;
        row.map(|row| Ok((Self(row.try_get(0)?), row.try_get(1)?))).transpose()
    }
}
