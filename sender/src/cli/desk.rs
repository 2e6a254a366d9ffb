//! Where operators' commands meet the database: one that writes, one that only reads.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::failure::Failure;
use super::signals::outlive_file_size_limit;
use crate::delivery_ids::DeliveryIds;
use crate::engine::{LaneId, WallTime};
use crate::excerpt::Excerpt;
use crate::runtime::clock::Clock;
use crate::runtime::{Options, Sender};
use crate::store::paging::{Cursor, Page};
use crate::store::read::{LaneStatus, ReadError, Reader, Subscriber, Whom};
use crate::store::sqlite::SqliteReader;
use crate::store::{Command, Reply};

/// Rows asked for at a time.
pub(super) const PAGE_ROWS: u32 = 500;
/// How long an operator's command waits for its own end.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// The tokio runtime that all commands run on.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(format_args!("can't start the runtime: {error}")))?;
    {
        let _within = runtime.enter();
        outlive_file_size_limit()?;
    }
    Ok(runtime)
}

/// A database to change things in.
pub(super) struct Desk {
    runtime: Runtime,
    sender: Sender,
}

impl Desk {
    pub(super) fn open(options: Options) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let sender = runtime.block_on(Sender::open(options))?;
        Ok(Self { runtime, sender })
    }

    pub(super) const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Waits for something.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Has the store carry out a command; a refusal is a failure here.
    pub(super) fn command(&self, command: Command) -> Result<Reply, Failure> {
        match self.wait(self.sender.command(command))? {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    /// Ends in order.
    pub(super) fn close(self) {
        self.wait(self.sender.stop(STOP_WITHIN));
    }
}

/// Carries out `work` with a database open for changes, and closes it whatever comes of it.
pub(super) fn with_desk<T>(
    options: Options,
    work: impl FnOnce(&Desk) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let desk = Desk::open(options)?;
    let result = work(&desk);
    desk.close();
    result
}

/// A database to look into. Writes nothing.
pub(super) struct Look {
    pub(super) reader: SqliteReader,
    /// Now, as the store counts.
    pub(super) now: WallTime,
    /// What deliveries are called outside.
    pub(super) delivery_ids: DeliveryIds,
}

impl Look {
    pub(super) fn open(database: &Path) -> Result<Self, Failure> {
        let reader = SqliteReader::open(database)?;
        let glance = reader.glance()?;
        let (now, delivery_ids) = (Clock::new(glance.clock).now(), DeliveryIds::new(glance.identity));
        Ok(Self { reader, now, delivery_ids })
    }

    /// The subscriber that a person names, by its name or its public id.
    pub(super) fn subscriber(&self, name: &str) -> Result<Subscriber, Failure> {
        for whom in [Whom::Name(name.into()), Whom::Id(name.into())] {
            if let Some(found) = self.reader.subscriber(&whom)? {
                return Ok(found);
            }
        }
        Err(Failure::refused(format_args!(
            "there is no subscriber {}; expected the name or the id of one; `subscriber list` shows them",
            Excerpt::of(name)
        )))
    }

    /// The figures of one lane.
    pub(super) fn lane(&self, lane: LaneId) -> Result<Option<LaneStatus>, Failure> {
        let mut found = None;
        each(
            |from| self.reader.lanes(from, PAGE_ROWS),
            |status| {
                if status.lane == lane {
                    found = Some(status);
                }
                Ok(found.is_none())
            },
        )?;
        Ok(found)
    }
}

/// Calls `take` with every item of a listing, until it answers false.
pub(super) fn each<T>(
    mut page: impl FnMut(Option<Cursor>) -> Result<Page<T>, ReadError>,
    mut take: impl FnMut(T) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut from = None;
    loop {
        let Page { items, next } = page(from)?;
        for item in items {
            if !take(item)? {
                return Ok(());
            }
        }
        match next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}
