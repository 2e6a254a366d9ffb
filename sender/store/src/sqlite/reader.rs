//! The reading side, on connections of its own, so that reader and writer do not wait for each other.
//!
//! `figures` counts, `listing` returns pages, and `outside` tracks other processes and applications.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hookproof_words::event_type::EventPatterns;
use rusqlite::{Connection, Transaction};

use super::failure::Doing;
use super::{change, clock, job, latencies, lease, ledger, open, token};
use crate::StoreError;
use crate::change::RecordedChange;
use crate::clock::{Beginning, FileClock, Start};
use crate::command::{Body, Condition, OutboxId};
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::job::{Job, JobId};
use crate::paging::{Cursor, Page};
use crate::read::{
    Attempted, AuditSecond, ChangesOf, DeadGroup, DeadLetter, Delivery, Filter, Glance, LaneStatus, Lanes,
    LastHour, Limited, LiveSecret, Measured, Nodes, Notices, OutboxRow, Over, Owner, ReadError, Reader,
    RejectedRow, Resent, Status, Subscriber, SubscriberRef, TimesPage, Tried, Tries, Work,
};
use crate::reply::Record;
use crate::seal::{Keyring, Seal};
use crate::token::StoredToken;

pub(super) mod figures;
mod listing;
mod outside;

#[derive(Debug)]
pub struct SqliteReader {
    sql: Connection,
    seal: Seal,
    watched: open::Watched,
    /// The steps that the present read may still take, of [`STEP`] instructions each.
    left: Arc<AtomicU32>,
    log: Arc<LogBound>,
}

#[derive(Debug)]
struct LogBound {
    path: PathBuf,
    bytes_max: AtomicU64,
}

impl LogBound {
    const NONE: u64 = u64::MAX;

    fn is_passed(&self) -> bool {
        let max = self.bytes_max.load(Ordering::Relaxed);
        // Without a log, the limit is kept.
        max != Self::NONE && fs::metadata(&self.path).is_ok_and(|log| log.len() > max)
    }
}

const STEP: i32 = 1_000_000;

/// Steps that a read may take, which are some seconds. A read prevents the log from starting again.
const STEPS_MAX: u32 = 500;

impl SqliteReader {
    /// Fails if the file is missing or is not a store of this version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, &Keyring::default())
    }

    pub fn open_with(path: &Path, keys: &Keyring) -> Result<Self, StoreError> {
        let (mut sql, left) = (open::reader(path)?, Arc::new(AtomicU32::new(STEPS_MAX)));
        // `doctor` names a damaged part, this one too.
        let seal = match open::unlock(&sql, path, keys) {
            Err(error) if error.is_damage() => Seal::unproven(keys),
            unlocked => unlocked?,
        };
        let mut log_path = path.as_os_str().to_owned();
        log_path.push("-wal");
        let log = Arc::new(LogBound { path: log_path.into(), bytes_max: AtomicU64::new(LogBound::NONE) });
        let (watched, watched_log) = (Arc::clone(&left), Arc::clone(&log));
        let is_over = move || {
            let left = watched.load(Ordering::Relaxed);
            watched.store(left.saturating_sub(1), Ordering::Relaxed);
            left == 0 || watched_log.is_passed()
        };
        sql.progress_handler(STEP, Some(is_over)).doing("open the database")?;
        Ok(Self { sql, seal, watched: open::Watched::new(path)?, left, log })
    }

    pub fn clock(&self) -> Result<FileClock, StoreError> {
        self.moment("read the database's clock", |sql| clock::file_clock(sql))
    }

    pub(super) fn moment<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.moment_of(STEPS_MAX, doing, read)
    }

    /// The same without a limit of steps, while the log is at most `log_bytes_max` long.
    pub(super) fn moment_within<T>(
        &self,
        log_bytes_max: u64,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.log.bytes_max.store(log_bytes_max, Ordering::Relaxed);
        let result = if self.log.is_passed() {
            Err(StoreError::TooMuch { doing })
        } else {
            self.moment_of(u32::MAX, doing, read)
        };
        self.log.bytes_max.store(LogBound::NONE, Ordering::Relaxed);
        result
    }

    fn moment_of<T>(
        &self,
        steps_max: u32,
        doing: &'static str,
        read: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.watched.check(doing)?;
        self.left.store(steps_max, Ordering::Relaxed);
        let moment = self.sql.unchecked_transaction().doing(doing)?;
        let result = read(&moment).doing(doing)?;
        moment.finish().doing(doing)?;
        Ok(result)
    }

    fn page<T>(
        &self,
        doing: &'static str,
        listing: char,
        from: Option<Cursor>,
        read: impl FnOnce(&Transaction<'_>, Option<[u64; 2]>) -> rusqlite::Result<(Vec<T>, Option<[u64; 2]>)>,
    ) -> Result<Page<T>, ReadError> {
        let place = from.map(|cursor| cursor.place(listing)).transpose()?;
        let (items, next) = self.moment(doing, |moment| read(moment, place))?;
        Ok(Page { items, next: next.map(|at| Cursor::new(listing, at)) })
    }
}

impl Notices for SqliteReader {
    fn glance(&self) -> Result<Glance, StoreError> {
        self.moment("poll the database", |sql| outside::glance(sql))
    }

    fn work_after(&self, after: DeliveryId, max: u32) -> Result<Work, StoreError> {
        self.moment("look for new work", |sql| outside::work_after(sql, after, max))
    }

    fn heads(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, StoreTime)>, StoreError> {
        self.moment("look for due work", |sql| outside::heads(sql, lanes))
    }
}

impl Reader for SqliteReader {
    fn outbox(&self, after: Option<OutboxId>, max: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.moment("read the outbox", |sql| outside::outbox(sql, after, max))
    }

    fn outbox_rejected(&self, from: Option<Cursor>, max: u32) -> Result<Page<RejectedRow>, ReadError> {
        self.page("list rejected outbox rows", 'o', from, |sql, place| outside::rejected(sql, place, max))
    }

    fn subscribers_since(&self, since: u64, max: u32) -> Result<Vec<Subscriber>, StoreError> {
        let found = self.moment("read the subscribers", |sql| listing::subscribers_since(sql, since, max))?;
        found.into_iter().map(|one| self.seal.open_subscriber(one)).collect()
    }

    fn subscribers(&self, from: Option<Cursor>, max: u32) -> Result<Page<Subscriber>, ReadError> {
        let Page { items, next } =
            self.page("list subscribers", 's', from, |sql, place| listing::subscribers(sql, place, max))?;
        let items = items.into_iter().map(|one| self.seal.open_subscriber(one)).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    fn subscriber(&self, which: &SubscriberRef) -> Result<Option<Subscriber>, StoreError> {
        let found = self.moment("read a subscriber", |sql| listing::subscriber(sql, which))?;
        found.map(|one| self.seal.open_subscriber(one)).transpose()
    }

    fn secrets(&self, lane: LaneId, now: StoreTime) -> Result<Vec<LiveSecret>, StoreError> {
        let found = self.moment("read a subscriber's secrets", |sql| listing::secrets(sql, lane, now))?;
        found.into_iter().map(|secret| self.seal.open_secret(lane, secret)).collect()
    }

    fn status(&self, now: StoreTime) -> Result<Status, StoreError> {
        self.moment("read the status", |sql| figures::status(sql, now))
    }

    fn lanes(&self, from: Option<Cursor>, max: u32) -> Result<Page<LaneStatus>, ReadError> {
        self.page("list lanes", 'l', from, |sql, place| figures::lanes(sql, place, max))
    }

    fn lane(&self, lane: LaneId) -> Result<Option<LaneStatus>, StoreError> {
        self.moment("read a lane", |sql| figures::lane(sql, lane))
    }

    fn checkpoints(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, Record)>, StoreError> {
        self.moment("read checkpoints", |sql| figures::checkpoints(sql, lanes))
    }

    fn latencies(&self, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>, StoreError> {
        self.moment("read latencies", |sql| latencies::read(sql, lanes, over))
    }

    fn last_hour(&self, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>, StoreError> {
        self.moment("read the last hour", |sql| latencies::last_hour(sql, lanes, now))
    }

    fn deliveries(&self, of: Filter, from: Option<Cursor>, max: u32) -> Result<Page<Delivery>, ReadError> {
        match of.queue() {
            Some(lane) => {
                self.page("list a queue", 'q', from, |sql, place| listing::queue(sql, lane, place, max))
            }
            None => self
                .page("list deliveries", 'd', from, |sql, place| listing::deliveries(sql, &of, place, max)),
        }
    }

    fn delivery(&self, delivery: DeliveryId) -> Result<Option<Delivery>, StoreError> {
        self.moment("read a delivery", |sql| listing::delivery(sql, delivery))
    }

    fn deliveries_of_event(
        &self,
        event: &str,
        lanes: &Lanes,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<Delivery>, ReadError> {
        self.page("list an event's deliveries", 'e', from, |sql, place| {
            listing::deliveries_of_event(sql, (event, lanes), place, max)
        })
    }

    fn siblings(&self, delivery: DeliveryId) -> Result<Vec<DeliveryId>, StoreError> {
        self.moment("read an event's deliveries", |sql| listing::siblings(sql, delivery))
    }

    fn lanes_in_part(&self, event: &str) -> Result<Vec<LaneId>, StoreError> {
        self.moment("read the subscribers of an event", |sql| listing::lanes_in_part(sql, event))
    }

    fn body(&self, delivery: DeliveryId) -> Result<Option<Body>, StoreError> {
        let found = self.moment("read a body", |sql| listing::body(sql, delivery))?;
        Ok(found.map(|(field, body)| self.seal.open_body(field, body)).transpose()?)
    }

    fn attempts(&self, of: Tries, from: Option<Cursor>, max: u32) -> Result<Page<Tried>, ReadError> {
        self.page("list attempts", 't', from, |sql, place| listing::attempts(sql, &of, place, max))
    }

    fn attempts_of(&self, delivery: DeliveryId) -> Result<Vec<Attempted>, StoreError> {
        let found = self.moment("read a delivery's attempts", |sql| listing::attempts_of(sql, delivery))?;
        found.into_iter().map(|one| self.seal.open_attempted(one)).collect()
    }

    fn resent(&self, delivery: DeliveryId) -> Result<Vec<Resent>, StoreError> {
        self.moment("read a delivery's attempts", |sql| listing::resent(sql, delivery))
    }

    fn dead(&self, lanes: &Lanes, from: Option<Cursor>, max: u32) -> Result<Page<DeadLetter>, ReadError> {
        self.page("list dead letters", 'x', from, |sql, place| listing::dead(sql, lanes, place, max))
    }

    fn dead_groups(&self, since: StoreTime, max: u32) -> Result<Vec<DeadGroup>, StoreError> {
        self.moment("analyse dead letters", |sql| figures::dead_groups(sql, since, max))
    }

    fn delivered(
        &self,
        lane: LaneId,
        span: (StoreTime, StoreTime),
        events: Option<&EventPatterns>,
    ) -> Result<u64, StoreError> {
        self.moment("count delivered ones", |sql| figures::delivered(sql, lane, span, events))
    }

    fn audit(
        &self,
        lane: Option<LaneId>,
        from: StoreTime,
        until: StoreTime,
        max: u32,
    ) -> Result<Vec<AuditSecond>, StoreError> {
        self.moment("audit attempts", |sql| figures::audit(sql, lane, (from, until), max))
    }

    fn limited(&self, from: StoreTime, until: StoreTime) -> Result<Vec<Limited>, StoreError> {
        self.moment("count attempts", |sql| figures::limited(sql, from, until))
    }

    fn attempt_times(
        &self,
        lane: Option<LaneId>,
        from: (StoreTime, DeliveryId),
        until: StoreTime,
        max: u32,
    ) -> Result<TimesPage, StoreError> {
        self.moment("read the times of attempts", |sql| figures::attempt_times(sql, lane, from, until, max))
    }

    fn read_clock(&self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        Ok(self.clock()?.start(beginning))
    }

    fn notified(&self) -> Result<Vec<(LaneId, Condition)>, StoreError> {
        self.moment("list notified conditions", |sql| outside::notified(sql))
    }

    fn jobs(&self, which: Option<JobId>) -> Result<Vec<Job>, StoreError> {
        self.moment("list jobs", |sql| job::jobs(sql, which))
    }

    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.moment("list tokens", |sql| token::tokens(sql))
    }

    fn changes(
        &self,
        of: &ChangesOf,
        from: Option<Cursor>,
        max: u32,
    ) -> Result<Page<RecordedChange>, ReadError> {
        self.page("list changes", 'c', from, |sql, place| change::changes(sql, &self.seal, of, place, max))
    }

    fn owners(&self) -> Result<Vec<Owner>, StoreError> {
        self.moment("list owners", |sql| outside::owners(sql))
    }

    fn nodes(&self) -> Result<Nodes, StoreError> {
        self.moment("list nodes", |sql| lease::nodes(sql, ledger::totals(sql)?.clock))
    }
}
