//! The running sender: the engine with a clock, a store on disk and a network.
//!
//! ```text
//!   emit ──► emitter ──► store's thread ──► shell ──► dispatcher      upkeep: sweeps and purges
//!                             ▲               │  ▲                    watcher: what other processes do
//!                             └── settle ─────┘  └── post (HTTP)
//! ```
//!
//! Only this folder reads clocks ([`clock`]), waits for time, and starts tasks.

use std::sync::mpsc::Sender as StopSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

use clock::{Clock, random, rest, wall};
use emitter::Emitter;
pub use emitter::{Accepted, EmitError, Refused, RefusedList};
use jobs::Jobs;
pub use link::Failed;
use lookout::TokenCache;
pub use lookout::{KnownTokens, LOOK_EVERY, Lookout, OWNERS_EVERY, dead_owners};
use owner::{Owner, Registration};
use post::HttpPost;
use readers::Readers;
use shell::{EventSender, Message, Shell};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, error, info, warn};
use upkeep::run_maintenance;
pub use upkeep::{Retention, UPKEEP_ROWS, upkeep_due};
pub use watcher::LastLook;
use watcher::Watcher;

use crate::boot_clock::BootClock;
use crate::delivery_ids::DeliveryIds;
use crate::dispatch::{Dispatcher, Event, Settings, Stuck, WorkDone};
use crate::engine::{LaneView, Limits, Nanos};
use crate::event::{self, Offer};
use crate::guard::Guard;
use crate::roster::{Roster, RosterKeeper};
use crate::spans::Spans;
use crate::store::command::Command;
use crate::store::job::{StartJob, Task};
use crate::store::lane::OwnerId;
use crate::store::liveness::Liveness;
use crate::store::thread::{Capacity, Handle, Health, StoreThread};
use crate::store::{Database, Durability, Reader, Reply, Store, StoreError};
use crate::subscriber::RegionSecrets;
use crate::transport;

pub mod clock;
mod emitter;
pub(crate) mod jobs;
mod link;
mod lookout;
mod owner;
mod post;
mod readers;
mod shell;
mod upkeep;
mod watcher;

/// A quarter is reserved for commands that add no work: settlements, claims, checkpoints, renewals. Beyond it they
/// are retried later.
const CAPACITY: Capacity = Capacity {
    requests_max: 200_000,
    bytes_max: 256 << 20,
    commit_rows_max: 5_000,
    commit_bytes_max: 16 << 20,
};
/// How long the store may fail before new events are refused. Most faults pass sooner.
pub const FAILING_MAX: Nanos = Nanos::SECOND;

const LOG_PATIENCE: Nanos = Nanos::from_secs(5);
const LOG_PAUSE: Nanos = Nanos::from_millis(20);

#[derive(Clone, Debug)]
pub struct Options {
    /// Created if it does not exist.
    pub database: Database,
    pub durability: Durability,
    pub guard: Guard,
    pub limits: event::Limits,
    /// A lane's lease lasts so long without renewal.
    pub lease: Nanos,
    pub retention: Retention,
    pub regions: RegionSecrets,
    /// This node's name. Default: machine name and process id.
    pub name: Option<Arc<str>>,
    /// Where other nodes reach its API, if it has one.
    pub address: Option<Arc<str>>,
    /// Whether this process makes attempts. Otherwise it only emits and operates.
    pub delivers: bool,
}

/// Clones share it.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

struct Inner {
    owner: OwnerId,
    store: Handle,
    emitter: Arc<Emitter>,
    clock: Clock,
    events: EventSender,
    readers: Arc<Readers>,
    looked: watcher::Looked,
    tokens: TokenCache,
    proxy: Option<Arc<transport::EgressProxy>>,
    work_done: Arc<Mutex<WorkDone>>,
    running: Mutex<Option<Running>>,
}

struct Running {
    shell: Option<JoinHandle<bool>>,
    watcher: ThreadHandle<()>,
    stop_watcher: StopSender<()>,
    upkeep: JoinHandle<()>,
    jobs: Jobs,
    stop_upkeep: watch::Sender<bool>,
    thread: StoreThread,
    owner: Owner,
    database: Database,
}

impl Sender {
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Self::open_with(options, transport::Settings::default()).await
    }

    pub async fn open_with(options: Options, requests: transport::Settings) -> Result<Self, OpenError> {
        let database = options.database.clone();
        let store = |error| OpenError::Store { database: database.clone(), error };
        let beside = |doing| {
            let database = database.clone();
            move |error| OpenError::Beside { doing, database, error }
        };
        let (liveness, identity) = (database.parts().liveness(), u64::from_le_bytes(random()));
        let mut writer = database.parts().writer(options.durability, identity).map_err(store)?;
        let reader = database.parts().reader().map_err(store)?;
        let glance = reader.glance().map_err(store)?;
        let (registration, clock) = join(&mut *writer, (&database, &*liveness), requests.clock)?;
        options.delivers.then(|| writer.maintain_reserve());
        let thread = StoreThread::start(writer, Arc::new(move || clock.now()), CAPACITY);
        let thread = thread.map_err(beside("start the database thread"))?;
        let (id, handle) = (registration.id(), thread.handle());
        owner::clear_up_the_dead(&liveness, &*reader, &handle, id).map_err(store)?;
        let mut keeper = RosterKeeper::caught_up(options.regions.clone(), &*reader, wall()).map_err(store)?;
        let requests = requests.of_database(glance.identity);
        let (roster, proxy) = (Arc::clone(keeper.reach(glance.roster)), requests.proxy.clone());
        let (events, messages) = shell::channel();
        let (told, at, spans) = (events.clone(), Arc::clone(&roster), requests.spans.clone());
        let emitter = Emitter::new(handle.clone(), clock, options.limits, at, told, spans);
        let post = HttpPost::new(options.guard.clone(), DeliveryIds::new(glance.identity), requests);
        watcher::log_broken(&Roster::default(), &roster);
        let dispatcher = dispatcher(id, (options.name, options.address), options.lease, roster, clock);
        let shell = Shell::new(dispatcher, clock, handle.clone(), Arc::new(post), (events.clone(), messages));
        let work_done = shell.work_done();
        let looked = Arc::new(Mutex::new(LastLook { at: clock.now(), error: None }));
        let (lookout, tokens) = Lookout::with_tokens(glance, keeper, &*reader).map_err(store)?;
        let watcher = Watcher {
            reader,
            liveness,
            owner: id,
            store: handle.clone(),
            lookout,
            emitter: Arc::clone(&emitter),
            events: events.clone(),
            outbox: watcher::Outbox::default(),
            looks: 0,
            clock,
            looked: Arc::clone(&looked),
        };
        let readers = Arc::new(Readers::start(&database).map_err(beside("start the threads that read"))?);
        let (watcher, stop_watcher) = watcher.start().map_err(beside("start the watcher's thread"))?;
        // From here on nothing fails, and requests may be sent.
        let owner = registration.hold();
        info!(%database, owner = id.0, subscribers = emitter.roster().lanes().count(), "the sender runs");
        let shell = options.delivers.then(|| tokio::spawn(shell.run()));
        let (stop_upkeep, stop) = watch::channel(false);
        let jobs = Jobs::start(handle.clone(), Arc::clone(&readers), clock, id, options.delivers, &stop);
        let upkeep = run_maintenance(handle.clone(), clock, options.retention, Arc::clone(&work_done), stop);
        let upkeep = tokio::spawn(upkeep);
        let running =
            Running { shell, watcher, stop_watcher, upkeep, jobs, stop_upkeep, thread, owner, database };
        Ok(Self(Arc::new(Inner {
            owner: id,
            store: handle,
            emitter,
            clock,
            events,
            readers,
            looked,
            tokens,
            proxy,
            work_done,
            running: Mutex::new(Some(running)),
        })))
    }

    /// Records events. Answers in order, each once it is durable.
    pub async fn emit(&self, offers: &[Offer<'_>]) -> Vec<Result<Accepted, EmitError>> {
        self.0.emitter.emit(offers).await
    }

    #[must_use]
    pub fn limits(&self) -> &event::Limits {
        self.0.emitter.limits()
    }

    /// A refusal is a reply, not an error.
    pub async fn command(&self, command: Command) -> Result<Reply, Failed> {
        link::commit(&self.0.store, command).await
    }

    /// As a command. This process works at it first.
    pub async fn start_job(&self, task: Task) -> Result<Reply, Failed> {
        let by = Arc::clone(&task.by);
        let start = Command::StartJob(StartJob { task, worker: self.owner() });
        let reply = self.command(start.by(&by, None)).await;
        if let Some(running) = &*self.0.running.lock().unwrap_or_else(PoisonError::into_inner) {
            running.jobs.started.notify_one();
        }
        reply
    }

    /// Runs on a reader thread. Fails when too many queries wait already, or no reader can be opened.
    pub async fn read<T, F>(&self, ask: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        self.0.readers.query(ask).await
    }

    /// As [`Database::empty_log`], for up to 5 s. False after the stop.
    pub async fn empty_log(&self) -> Result<bool, StoreError> {
        let database = {
            let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().map(|running| running.database.clone())
        };
        let (Some(database), began) = (database, self.clock().now()) else { return Ok(false) };
        loop {
            let database = database.clone();
            let emptied = tokio::task::spawn_blocking(move || database.empty_log()).await;
            let emptied = emptied.unwrap_or_else(|error| {
                Err(StoreError::Io { doing: "empty the database's log", detail: error.to_string() })
            });
            if emptied != Ok(false) || self.clock().now().since(began) >= LOG_PATIENCE {
                return emptied;
            }
            rest(LOG_PAUSE).await;
        }
    }

    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.0.emitter.roster()
    }

    /// A change in any process is in use here within a second, if the database can be read.
    #[must_use]
    pub fn tokens(&self) -> KnownTokens {
        self.0.tokens.borrow().clone()
    }

    pub async fn wait_for_roster_after(&self, version: u64) {
        self.0.emitter.wait_for_roster_after(version).await;
    }

    /// Counts this process's work. Also available after the stop.
    #[must_use]
    pub fn work_done(&self) -> WorkDone {
        *self.0.work_done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn views(&self) -> Vec<LaneView> {
        let (tell, told) = oneshot::channel();
        self.0.events.send_message(Message::Views(tell));
        told.await.unwrap_or_default()
    }

    /// At most [`crate::dispatch::STUCK_MAX`]. Empty if it does not deliver, or has stopped.
    pub async fn lanes_that_cannot_move(&self) -> Vec<Stuck> {
        let (tell, told) = oneshot::channel();
        self.0.events.send_message(Message::Stuck(tell));
        told.await.unwrap_or_default()
    }

    #[must_use]
    pub fn health(&self) -> Health {
        self.0.store.health()
    }

    #[must_use]
    pub fn last_look(&self) -> LastLook {
        self.0.looked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As [`transport::EgressProxy::failure`].
    #[must_use]
    pub fn proxy_failure(&self) -> Option<String> {
        self.0.proxy.as_ref()?.failure()
    }

    #[must_use]
    pub(crate) fn spans(&self) -> Option<&Spans> {
        self.0.emitter.spans()
    }

    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.0.owner
    }

    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Starts no more attempts. Events are still recorded until [`Self::stop`].
    pub fn start_nothing_more(&self) {
        self.0.events.send(Event::Stop);
    }

    /// Finishes the running attempts, commits, releases all lanes, and closes the database. False if that exceeds
    /// `within`; the rest is cut off, as by a crash.
    pub async fn stop(&self, within: Duration) -> bool {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return true };
        self.start_nothing_more();
        let (mut in_order, mut left_nothing) = (true, true);
        if let Some(mut shell) = running.shell {
            in_order = match timeout(within, &mut shell).await {
                Ok(Ok(nothing)) => {
                    left_nothing = nothing;
                    true
                }
                Ok(Err(error)) => {
                    error!(%error, "the sending task has failed: its lanes stay until their leases end");
                    false
                }
                Err(_) => {
                    warn!("not all attempts ended in time: cutting off the rest");
                    shell.abort();
                    false
                }
            };
        }
        running.stop_upkeep.send_replace(true);
        drop(running.stop_watcher);
        let ended = tokio::join!(running.upkeep, running.jobs.worker);
        debug_assert!(matches!(ended, (Ok(()), Ok(()))), "neither panics");
        let inner = Arc::clone(&self.0);
        let rest = tokio::task::spawn_blocking(move || {
            // A watcher that waits for a failing store would never end.
            running.thread.stop();
            let watched = running.watcher.join().is_ok();
            if in_order && watched {
                running.owner.end(left_nothing);
            }
            if !inner.readers.stop() {
                warn!("a reader is still open: the log stays beside the database");
            }
            // The last process on it does this.
            let parts = running.database.parts();
            match parts.leave_whole() {
                Ok(true) => debug!("the database is closed"),
                // They do it.
                Ok(false) if parts.liveness().others_may_live(None) => {
                    debug!("other processes go on with the database");
                }
                Ok(false) => warn!(
                    database = %running.database,
                    "another program has the database open: the newest commits stay in its log, so copy it by `backup`"
                ),
                Err(error) => warn!(%error, "the log stays beside the database"),
            }
            watched
        });
        in_order &= rest.await.unwrap_or(false);
        info!(in_order, "the sender has stopped");
        in_order
    }
}

fn dispatcher(
    owner: OwnerId,
    (name, address): (Option<Arc<str>>, Option<Arc<str>>),
    lease: Nanos,
    roster: Arc<Roster>,
    clock: Clock,
) -> Dispatcher {
    let announcement = owner::announcement(name, address);
    let seed = u64::from_le_bytes(random());
    let limits = Limits::default();
    Dispatcher::new(Settings { owner, announcement, lease, seed, limits, roster }, clock.now())
}

fn join(
    store: &mut dyn Store,
    (database, liveness): (&Database, &dyn Liveness),
    boot: BootClock,
) -> Result<(Registration, Clock), OpenError> {
    let id = OwnerId(u64::from_le_bytes(random()) >> 1);
    let registration = Registration::new(liveness, id).map_err(|error| OpenError::Beside {
        doing: "lock a file",
        database: database.clone(),
        error,
    })?;
    let clock = clock::begin(store, liveness, id, boot);
    let clock = clock.map_err(|error| OpenError::Store { database: database.clone(), error })?;
    Ok((registration, clock))
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot open the database {database}: {error}")]
    Store { database: Database, error: StoreError },
    #[error("cannot {doing} beside the database {database}: {error}")]
    Beside { doing: &'static str, database: Database, error: std::io::Error },
    #[error("cannot begin with the database {database}: {error}")]
    Begin { database: Database, error: Failed },
}
