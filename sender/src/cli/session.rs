use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::failure::Failure;
use super::options::Reach;
use super::signals::outlive_file_size_limit;
use crate::delivery_ids::DeliveryIds;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::excerpt::Excerpt;
use crate::operate::flow::Flows;
use crate::roster::{Roster, RosterKeeper};
use crate::runtime::clock::rest;
use crate::runtime::jobs::rest_after;
use crate::runtime::{Options, Sender, clock};
use crate::store::clock::Fault;
use crate::store::paging::{Cursor, Page};
use crate::store::read::{ReadError, Reader, Subscriber, SubscriberRef};
use crate::store::{Command, Database, Reply};
use crate::transport::Settings;

pub(super) const PAGE_ROWS: u32 = 500;
/// The part of the machine's list of users that is read.
const USERS_BYTES_MAX: u64 = 1 << 20;
const STOP_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::ours(format_args!("cannot start the runtime: {error}")))?;
    {
        let _within = runtime.enter();
        outlive_file_size_limit()?;
    }
    Ok(runtime)
}

pub(super) struct WriteSession {
    runtime: Runtime,
    sender: Sender,
}

impl WriteSession {
    pub(super) fn open(options: Options, requests: Settings) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let sender = runtime.block_on(Sender::open_with(options, requests))?;
        Ok(Self { runtime, sender })
    }

    pub(super) const fn sender(&self) -> &Sender {
        &self.sender
    }

    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// As a change of the person who runs this, which is recorded.
    pub(super) fn change(&self, command: Command) -> Result<Reply, Failure> {
        self.command(command.by(&user(), None))
    }

    pub(super) fn command(&self, command: Command) -> Result<Reply, Failure> {
        match self.wait(self.sender.command(command))? {
            Reply::Refused(refusal) => Err(refusal.into()),
            reply => Ok(reply),
        }
    }

    pub(super) fn in_steps(&self, step: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
        let clock = self.sender.clock();
        in_steps(|| clock.now(), |length| self.wait(rest(length)), step)
    }

    pub(super) fn close(self) {
        self.wait(self.sender.stop(STOP_WITHIN));
    }
}

fn in_steps(
    mut now: impl FnMut() -> StoreTime,
    mut rest: impl FnMut(Nanos),
    mut step: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    loop {
        let began = now();
        if !step()? {
            return Ok(());
        }
        rest(rest_after(now().since(began)));
    }
}

pub(super) fn with_session<T>(
    options: Options,
    work: impl FnOnce(&WriteSession) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let session = WriteSession::open(options, Settings::default())?;
    let result = work(&session);
    session.close();
    result
}

/// The operating system's user, by its name where the machine's list has it.
pub(super) fn user() -> Arc<str> {
    let number = rustix::process::getuid().as_raw().to_string();
    let users = File::open("/etc/passwd").map(|file| file.take(USERS_BYTES_MAX));
    let lines = users.into_iter().flat_map(|file| BufReader::new(file).lines()).map_while(Result::ok);
    let mut names = lines.filter_map(|line| {
        let mut fields = line.split(':');
        let (name, found) = (fields.next()?, fields.nth(1)?);
        (found == number).then(|| name.to_owned())
    });
    format!("user {}", names.next().unwrap_or(number.clone())).into()
}

pub(super) struct Look {
    pub(super) reader: Box<dyn Reader>,
    pub(super) now: StoreTime,
    pub(super) fault: Option<Fault>,
    pub(super) delivery_ids: DeliveryIds,
}

impl Look {
    pub(super) fn open(database: &Database) -> Result<Self, Failure> {
        let reader = database.parts().reader()?;
        let glance = reader.glance()?;
        let start = clock::read_clock(&*reader, &*database.parts().liveness())?;
        Ok(Self {
            reader,
            now: start.now,
            fault: start.fault,
            delivery_ids: DeliveryIds::new(glance.identity),
        })
    }

    pub(super) fn roster(&self, reach: &Reach) -> Result<Arc<Roster>, Failure> {
        let mut keeper = RosterKeeper::new(reach.regions()?);
        Ok(Arc::clone(keeper.catch_up(&*self.reader, clock::wall())?))
    }

    pub(super) fn flows(&self, reach: &Reach) -> Result<Flows, Failure> {
        Ok(Flows::read(&*self.reader, self.roster(reach)?, Vec::new(), self.now)?)
    }

    pub(super) fn subscriber(&self, name: &str) -> Result<Subscriber, Failure> {
        for whom in [SubscriberRef::Name(name.into()), SubscriberRef::Id(name.into())] {
            if let Some(found) = self.reader.subscriber(&whom)? {
                return Ok(found);
            }
        }
        Err(Failure::refused(format_args!(
            "there is no subscriber {}; expected a name or an id from `subscriber list`",
            Excerpt::of(name)
        )))
    }
}

pub(super) fn names(look: &Look) -> Result<BTreeMap<LaneId, String>, Failure> {
    let mut names = BTreeMap::new();
    each(
        |from| look.reader.subscribers(from, PAGE_ROWS),
        |subscriber| Ok(names.insert(subscriber.lane, subscriber.name.to_string()).is_none()),
    )?;
    Ok(names)
}

pub(super) fn name_of(names: &BTreeMap<LaneId, String>, lane: LaneId) -> String {
    names.get(&lane).cloned().unwrap_or_else(|| format!("removed ({})", lane.0))
}

/// Stops when `take` returns false.
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn a_command_rests_for_as_long_as_each_step_took_and_not_after_the_last() {
        let time = Cell::new(0);
        let rests = RefCell::new(Vec::new());
        let mut steps = [3, 40, 5_000, 7].map(Nanos::from_millis).into_iter();
        let now = || StoreTime(time.get());
        in_steps(
            now,
            |length| rests.borrow_mut().push(length),
            || {
                let Some(took) = steps.next() else { return Ok(false) };
                time.set(time.get() + took.0);
                Ok(steps.len() > 0)
            },
        )
        .unwrap();
        assert_eq!(*rests.borrow(), [3, 40, 1_000].map(Nanos::from_millis));
    }
}
