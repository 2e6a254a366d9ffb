//! The reading side, on a connection that writes nothing. `arrivals` tracks the deliveries of other processes,
//! `figures` counts, and `listing` returns pages.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio_postgres::error::SqlState;

use hookproof_words::event_type::EventPatterns;

use super::address::Address;
use super::failure::failure;
use super::link::{Link, Purpose};
use super::{change, clock, job, latencies, lease, open, seal, token};
use crate::StoreError;
use crate::change::RecordedChange;
use crate::clock::{Beginning, Start};
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
use crate::seal::Seal;
use crate::token::StoredToken;

mod arrivals;
mod figures;
mod listing;
mod outside;

use arrivals::Arrivals;

/// How often an idle node polls. It limits the latency of an event that another process records after a pause. Each
/// poll costs the server processor time.
const CALM_PAUSE: Duration = Duration::from_millis(50);

type Read<T> = Result<T, tokio_postgres::Error>;

#[derive(Debug)]
pub struct PostgresReader {
    address: Address,
    seal: Seal,
    /// `None` after a failure.
    link: RefCell<Option<Link>>,
    arrivals: RefCell<Arrivals>,
    late: Cell<u64>,
}

impl PostgresReader {
    /// The tables were made by a [`super::PostgresStore`]. Fails if they are missing, have another version, or cannot
    /// be reached.
    pub fn open(address: &Address) -> Result<Self, StoreError> {
        let link = open::reader(address)?;
        Ok(Self {
            address: address.clone(),
            seal: seal::unlock(&link, address)?,
            link: RefCell::new(Some(link)),
            arrivals: RefCell::default(),
            late: Cell::new(0),
        })
    }

    pub(crate) fn into_seal(self) -> Seal {
        self.seal
    }

    fn query<T>(&self, doing: &'static str, read: impl FnOnce(&Link) -> Read<T>) -> Result<T, StoreError> {
        let mut place = self.link.borrow_mut();
        let link = match place.take().filter(|link| !link.is_closed()) {
            Some(link) => link,
            // The tables were checked when the reader was opened.
            None => open::connect(&self.address, Purpose::Reading)?,
        };
        match read(&link) {
            Ok(found) => {
                *place = Some(link);
                Ok(found)
            }
            Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                // Dropping the connection ends an open transaction.
                Err(StoreError::TooMuch { doing })
            }
            Err(error) => Err(failure(doing, &error)),
        }
    }

    fn moment<T>(&self, doing: &'static str, read: impl FnOnce(&Link) -> Read<T>) -> Result<T, StoreError> {
        self.query(doing, |sql| {
            sql.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            let found = read(sql)?;
            sql.batch("COMMIT")?;
            Ok(found)
        })
    }

    fn page<T>(
        &self,
        doing: &'static str,
        listing: char,
        from: Option<Cursor>,
        read: impl FnOnce(&Link, Option<[u64; 2]>) -> Read<(Vec<T>, Option<[u64; 2]>)>,
    ) -> Result<Page<T>, ReadError> {
        let place = from.map(|cursor| cursor.place(listing)).transpose()?;
        let (items, next) = self.moment(doing, |sql| read(sql, place))?;
        Ok(Page { items, next: next.map(|at| Cursor::new(listing, at)) })
    }
}

impl Notices for PostgresReader {
    fn glance(&self) -> Result<Glance, StoreError> {
        self.query("poll the database", |sql| {
            sql.soon(|sql| outside::glance(sql, &mut self.arrivals.borrow_mut(), &self.late))
        })
    }

    fn calm_pause(&self) -> Option<Duration> {
        Some(CALM_PAUSE)
    }

    fn work_after(&self, after: DeliveryId, max: u32) -> Result<Work, StoreError> {
        self.query("look for new work", |sql| outside::work_after(sql, after, max))
    }

    fn heads(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, StoreTime)>, StoreError> {
        self.query("look for due work", |sql| outside::heads(sql, lanes))
    }
}

impl Reader for PostgresReader {
    fn outbox(&self, after: Option<OutboxId>, max: u32) -> Result<Vec<OutboxRow>, StoreError> {
        self.query("read the outbox", |sql| outside::outbox(sql, after, max))
    }

    fn outbox_rejected(&self, from: Option<Cursor>, max: u32) -> Result<Page<RejectedRow>, ReadError> {
        self.page("list rejected outbox rows", 'o', from, |sql, place| outside::rejected(sql, place, max))
    }

    fn subscribers_since(&self, since: u64, max: u32) -> Result<Vec<Subscriber>, StoreError> {
        let found = self.query("read the subscribers", |sql| listing::subscribers_since(sql, since, max))?;
        found.into_iter().map(|one| self.seal.open_subscriber(one)).collect()
    }

    fn subscribers(&self, from: Option<Cursor>, max: u32) -> Result<Page<Subscriber>, ReadError> {
        let Page { items, next } =
            self.page("list subscribers", 's', from, |sql, place| listing::subscribers(sql, place, max))?;
        let items = items.into_iter().map(|one| self.seal.open_subscriber(one)).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    fn subscriber(&self, which: &SubscriberRef) -> Result<Option<Subscriber>, StoreError> {
        let found = self.query("read a subscriber", |sql| listing::subscriber(sql, which))?;
        found.map(|one| self.seal.open_subscriber(one)).transpose()
    }

    fn secrets(&self, lane: LaneId, now: StoreTime) -> Result<Vec<LiveSecret>, StoreError> {
        let found = self.query("read a subscriber's secrets", |sql| listing::secrets(sql, lane, now))?;
        found.into_iter().map(|secret| self.seal.open_secret(lane, secret)).collect()
    }

    fn status(&self, now: StoreTime) -> Result<Status, StoreError> {
        self.moment("read the status", |sql| figures::status(sql, now))
    }

    fn lanes(&self, from: Option<Cursor>, max: u32) -> Result<Page<LaneStatus>, ReadError> {
        self.page("list lanes", 'l', from, |sql, place| figures::lanes(sql, place, max))
    }

    fn lane(&self, lane: LaneId) -> Result<Option<LaneStatus>, StoreError> {
        self.query("read a lane", |sql| figures::lane(sql, lane))
    }

    fn checkpoints(&self, lanes: &[LaneId]) -> Result<Vec<(LaneId, Record)>, StoreError> {
        self.query("read checkpoints", |sql| figures::checkpoints(sql, lanes))
    }

    fn latencies(&self, lanes: &[LaneId], over: Over) -> Result<Vec<(LaneId, Measured)>, StoreError> {
        self.query("read latencies", |sql| latencies::read(sql, lanes, over))
    }

    fn last_hour(&self, lanes: &[LaneId], now: StoreTime) -> Result<Vec<LastHour>, StoreError> {
        self.query("read the last hour", |sql| latencies::last_hour(sql, lanes, now))
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
        self.query("read a delivery", |sql| listing::delivery(sql, delivery))
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
        self.query("read an event's deliveries", |sql| listing::siblings(sql, delivery))
    }

    fn lanes_in_part(&self, event: &str) -> Result<Vec<LaneId>, StoreError> {
        self.query("read the subscribers of an event", |sql| listing::lanes_in_part(sql, event))
    }

    fn body(&self, delivery: DeliveryId) -> Result<Option<Body>, StoreError> {
        let found = self.query("read a body", |sql| listing::body(sql, delivery))?;
        Ok(found.map(|(field, body)| self.seal.open_body(field, body)).transpose()?)
    }

    fn attempts(&self, of: Tries, from: Option<Cursor>, max: u32) -> Result<Page<Tried>, ReadError> {
        self.page("list attempts", 't', from, |sql, place| listing::attempts(sql, &of, place, max))
    }

    fn attempts_of(&self, delivery: DeliveryId) -> Result<Vec<Attempted>, StoreError> {
        let found = self.query("read a delivery's attempts", |sql| listing::attempts_of(sql, delivery))?;
        found.into_iter().map(|one| self.seal.open_attempted(one)).collect()
    }

    fn resent(&self, delivery: DeliveryId) -> Result<Vec<Resent>, StoreError> {
        self.query("read a delivery's attempts", |sql| listing::resent(sql, delivery))
    }

    fn dead(&self, lanes: &Lanes, from: Option<Cursor>, max: u32) -> Result<Page<DeadLetter>, ReadError> {
        self.page("list dead letters", 'x', from, |sql, place| listing::dead(sql, lanes, place, max))
    }

    fn dead_groups(&self, since: StoreTime, max: u32) -> Result<Vec<DeadGroup>, StoreError> {
        self.query("analyse dead letters", |sql| figures::dead_groups(sql, since, max))
    }

    fn delivered(
        &self,
        lane: LaneId,
        span: (StoreTime, StoreTime),
        events: Option<&EventPatterns>,
    ) -> Result<u64, StoreError> {
        self.query("count delivered ones", |sql| figures::delivered(sql, lane, span, events))
    }

    fn audit(
        &self,
        lane: Option<LaneId>,
        from: StoreTime,
        until: StoreTime,
        max: u32,
    ) -> Result<Vec<AuditSecond>, StoreError> {
        self.query("audit attempts", |sql| figures::audit(sql, lane, (from, until), max))
    }

    fn limited(&self, from: StoreTime, until: StoreTime) -> Result<Vec<Limited>, StoreError> {
        self.query("count attempts", |sql| figures::limited(sql, from, until))
    }

    fn attempt_times(
        &self,
        lane: Option<LaneId>,
        from: (StoreTime, DeliveryId),
        until: StoreTime,
        max: u32,
    ) -> Result<TimesPage, StoreError> {
        self.query("read the times of attempts", |sql| figures::attempt_times(sql, lane, from, until, max))
    }

    fn read_clock(&self, beginning: Beginning<'_>) -> Result<Start, StoreError> {
        self.query("read the database's clock", |sql| clock::read_clock(sql, beginning))
    }

    fn notified(&self) -> Result<Vec<(LaneId, Condition)>, StoreError> {
        self.query("list notified conditions", outside::notified)
    }

    fn jobs(&self, which: Option<JobId>) -> Result<Vec<Job>, StoreError> {
        self.query("list jobs", |sql| job::jobs(sql, which))
    }

    fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        self.query("list tokens", token::tokens)
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
        self.query("list owners", outside::owners)
    }

    fn nodes(&self) -> Result<Nodes, StoreError> {
        self.query("list nodes", |sql| lease::nodes(sql, StoreTime(0)))
    }
}
