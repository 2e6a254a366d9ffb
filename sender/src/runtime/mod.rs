//! The sender as a running thing: the engine with a clock, a store on disk and a network.
//!
//! ```text
//!   emit ──► emitter ──► store's thread ──► heart ──► engine          upkeep: sweeps and purges
//!                             ▲               │  ▲                    watcher: what other processes do
//!                             └── settle ─────┘  └── post (HTTP)
//! ```
//!
//! Only this folder reads clocks ([`clock`]), waits for time, and starts tasks.

mod breakdown;
pub mod clock;
mod emitter;
pub mod handover;
mod heart;
pub mod lanes;
mod link;
mod owner;
mod post;
pub mod tenure;
mod upkeep;
mod watcher;
mod word;

pub use emitter::{Accepted, EmitError};
pub use link::Failed;
pub use upkeep::Retention;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender as StopSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle as ThreadHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::delivery_ids::DeliveryIds;
use crate::engine::{Engine, LaneView, Limits, Nanos};
use crate::event::{self, Offer};
use crate::guard::Guard;
use crate::roster::{Roster, RosterKeeper};
use crate::store::command::Command;
use crate::store::lane::OwnerId;
use crate::store::sqlite::{self, SqliteReader, SqliteStore};
use crate::store::thread::{Capacity, Handle, Health, StoreThread};
use crate::store::{Reader, Reply, StoreError};
use crate::subscriber::RegionSecrets;
use clock::{Clock, random};
use emitter::Emitter;
use heart::Heart;
use owner::Owner;
use post::HttpPost;
use tenure::Tenure;
use upkeep::keep_up;
use watcher::Watcher;
use word::{Mouth, Word};

/// The store's queue. Settlements have a quarter to themselves, more than the engine ever leaves unanswered.
const CAPACITY: Capacity = Capacity {
    requests_max: 200_000,
    bytes_max: 256 << 20,
    commit_rows_max: 5_000,
    commit_bytes_max: 16 << 20,
};
/// Readers kept open for questions.
const READERS_MAX: usize = 4;

/// What a sender needs to know before it begins.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database file. Made, if it does not exist.
    pub database: PathBuf,
    /// What an acknowledgement survives.
    pub durability: sqlite::Durability,
    /// Which addresses may be sent to.
    pub guard: Guard,
    /// What an offered event may be.
    pub limits: event::Limits,
    /// For how long a lane stays ours without a word.
    pub lease: Nanos,
    /// For how long things are kept.
    pub retention: Retention,
    /// The secrets of regions, for pseudonyms.
    pub regions: RegionSecrets,
    /// Whether this process makes attempts. One that does not only emits and operates.
    pub delivers: bool,
}

/// A sender could not begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database.
    #[error("can't open the database {}: {error}", .path.display())]
    Store {
        /// Which.
        path: PathBuf,
        /// Why.
        error: StoreError,
    },
    /// Something else beside it.
    #[error("can't {doing} beside the database {}: {error}", .path.display())]
    Beside {
        /// What was being done.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The store did not carry out what has to be done at the start.
    #[error("can't begin with the database {}: {error}", .path.display())]
    Begin {
        /// Which.
        path: PathBuf,
        /// Why.
        error: Failed,
    },
}

/// A running sender. Copies are of the same.
#[derive(Clone)]
pub struct Sender(Arc<Inner>);

struct Inner {
    database: PathBuf,
    store: Handle,
    emitter: Arc<Emitter>,
    clock: Clock,
    mouth: Mouth,
    readers: Mutex<Vec<SqliteReader>>,
    running: Mutex<Option<Running>>,
}

/// What has to be ended in order.
struct Running {
    heart: Option<JoinHandle<()>>,
    watcher: ThreadHandle<()>,
    stop_watcher: StopSender<()>,
    upkeep: JoinHandle<()>,
    stop_upkeep: watch::Sender<bool>,
    thread: StoreThread,
    owner: Owner,
}

impl Sender {
    /// Opens the database and begins. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the database can't be opened, or nothing can be written beside it.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Self::open_bounded(options, None).await
    }

    /// The same with a bound on the connections of all subscribers together, other than what the process's limit on
    /// open files leaves.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_bounded(
        options: Options,
        connections_max: Option<NonZeroU32>,
    ) -> Result<Self, OpenError> {
        let path = options.database.clone();
        let store = |error| OpenError::Store { path: path.clone(), error };
        let beside = |doing| {
            let path = path.clone();
            move |error| OpenError::Beside { doing, path, error }
        };
        let identity = u64::from_le_bytes(random());
        let file =
            sqlite::Options { durability: options.durability, create: true, identity, ..Default::default() };
        let writer = SqliteStore::open(&path, &file).map_err(store)?;
        let reader = SqliteReader::open(&path).map_err(store)?;
        let glance = reader.glance().map_err(store)?;
        let clock = steady(glance.clock);
        let thread = StoreThread::start(Box::new(writer), Arc::new(move || clock.now()), CAPACITY);
        let thread = thread.map_err(beside("start the store's thread"))?;
        let handle = thread.handle();
        let owner = OwnerId(u64::from_le_bytes(random()) >> 1);
        let owner = Owner::register(&path, owner).map_err(beside("lock a file"))?;
        evict_the_dead(&path, &reader, &handle, owner.id()).map_err(store)?;
        bury_the_dead(&path, &reader).map_err(store)?;
        let mut keeper = RosterKeeper::new(options.regions.clone());
        let roster = Arc::clone(keeper.catch_up(&reader, clock.now()).map_err(store)?);

        let (mouth, words) = word::channel();
        let emitter = Emitter::new(handle.clone(), clock, options.limits, Arc::clone(&roster), mouth.clone());
        let emitter = Arc::new(emitter);
        let post = HttpPost::new(options.guard.clone(), DeliveryIds::new(glance.identity), connections_max);
        let post = Arc::new(post.map_err(beside("set up TLS"))?);
        let heart = Heart {
            engine: Engine::new(u64::from_le_bytes(random()), Limits::default()),
            clock,
            store: handle.clone(),
            post,
            tenure: Tenure::new(owner.id(), options.lease, clock.now()),
            lanes: lanes::Lanes::default(),
            roster,
            words,
            mouth: mouth.clone(),
            posted: HashMap::new(),
            stop: lanes::Stop::default(),
        };
        let heart = options.delivers.then(|| tokio::spawn(heart.run()));
        let watcher = Watcher {
            reader: Box::new(reader),
            database: path.clone(),
            owner: owner.id(),
            store: handle.clone(),
            clock,
            roster: keeper,
            emitter: Arc::clone(&emitter),
            mouth: mouth.clone(),
            seen: glance,
            outbox: watcher::Outbox::default(),
            looks: 0,
        };
        let (watcher, stop_watcher) = watcher.start().map_err(beside("start the watcher's thread"))?;
        let (stop_upkeep, stop) = watch::channel(false);
        let upkeep = tokio::spawn(keep_up(handle.clone(), clock, options.retention, stop));
        info!(database = %path.display(), owner = owner.id().0, subscribers = emitter.roster().lanes().count(), "the sender runs");
        let running = Running { heart, watcher, stop_watcher, upkeep, stop_upkeep, thread, owner };
        let (readers, running) = (Mutex::default(), Mutex::new(Some(running)));
        let database = path.clone();
        Ok(Self(Arc::new(Inner { database, store: handle, emitter, clock, mouth, readers, running })))
    }

    /// Records events, and answers for each in order once it is durable.
    pub async fn emit(&self, offers: &[Offer<'_>]) -> Vec<Result<Accepted, EmitError>> {
        self.0.emitter.emit(offers).await
    }

    /// What an offered event may be.
    #[must_use]
    pub fn limits(&self) -> &event::Limits {
        self.0.emitter.limits()
    }

    /// Has the store carry out one command.
    ///
    /// # Errors
    /// When it was not carried out. A refusal is a reply, not an error.
    pub async fn command(&self, command: Command) -> Result<Reply, Failed> {
        link::commit(&self.0.store, command).await
    }

    /// Asks the database something, on a thread where that may take a while.
    ///
    /// # Errors
    /// When no reader can be opened.
    pub async fn read<T, F>(&self, ask: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader) -> T + Send + 'static,
    {
        let sender = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let reader = sender.readers().pop().map_or_else(|| SqliteReader::open(&sender.0.database), Ok)?;
            let answer = ask(&reader);
            let mut readers = sender.readers();
            if readers.len() < READERS_MAX {
                readers.push(reader);
            }
            Ok(answer)
        });
        match asked.await {
            Ok(answer) => answer,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }

    /// The subscribers as this process knows them.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        self.0.emitter.roster()
    }

    /// Waits until this process knows of a change of subscribers that is newer than that.
    pub async fn wait_for_roster_after(&self, version: u64) {
        self.0.emitter.wait_for_roster_after(version).await;
    }

    /// How the lanes of this process are.
    pub async fn views(&self) -> Vec<LaneView> {
        let (tell, told) = oneshot::channel();
        self.0.mouth.say(Word::View(tell));
        told.await.unwrap_or_default()
    }

    /// How the store's thread is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.store.health()
    }

    /// The steady time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Ends in order: starts nothing more, finishes what is under way, commits, gives all lanes back. False if that
    /// took longer than `within`; what is still under way then is cut off, as by a crash.
    pub async fn stop(&self, within: Duration) -> bool {
        let running = self.0.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return true };
        self.0.mouth.say(Word::Stop);
        let mut in_order = true;
        if let Some(mut heart) = running.heart {
            in_order = timeout(within, &mut heart).await.is_ok();
            if !in_order {
                warn!("not everything ended in time: what is under way is cut off");
                heart.abort();
            }
        }
        running.stop_upkeep.send_replace(true);
        drop(running.stop_watcher);
        let ended = running.upkeep.await;
        debug_assert!(ended.is_ok(), "upkeep does not panic");
        let rest = tokio::task::spawn_blocking(move || {
            // First the store, or a watcher that waits for it in trouble would wait for ever.
            running.thread.stop();
            let watched = running.watcher.join().is_ok();
            if in_order && watched {
                running.owner.retire();
            }
            watched
        });
        in_order &= rest.await.unwrap_or(false);
        info!(in_order, "the sender has stopped");
        in_order
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<SqliteReader>> {
        self.0.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock that is nowhere behind what the store has seen.
fn steady(latest: crate::engine::WallTime) -> Clock {
    let clock = Clock::new(latest);
    if let Some(ahead) = clock.ahead() {
        warn!(
            %ahead,
            "the database's time is ahead of the wall clock: some process on it had a wrong clock, or this one has; \
             what falls due and expires is counted by the database's time"
        );
    }
    clock
}

/// Removes the files of dead owners that left no lanes behind: killed commands, most of all.
fn bury_the_dead(database: &Path, reader: &dyn Reader) -> Result<(), StoreError> {
    let dead = owner::the_dead(database);
    let owners = if dead.is_empty() { Vec::new() } else { reader.owners()? };
    let has_lanes = |id| owners.iter().any(|owner| owner.owner == id && owner.lanes > 0);
    dead.into_iter().filter(|id| !has_lanes(*id)).for_each(|id| owner::bury(database, id));
    Ok(())
}

/// Frees the lanes of owners that are surely dead, without waiting for their leases.
fn evict_the_dead(
    database: &Path,
    reader: &dyn Reader,
    store: &Handle,
    ourselves: OwnerId,
) -> Result<(), StoreError> {
    for owner in reader.owners()? {
        if owner.owner != ourselves && owner.lanes > 0 && owner::is_surely_dead(database, owner.owner) {
            info!(owner = owner.owner.0, lanes = owner.lanes, "another process has died; its lanes are free");
            let (id, database) = (owner.owner, database.to_owned());
            link::submit(store, vec![Command::Evict(id)], move |reply| {
                // Until then its file has to tell others that it is dead.
                if reply.is_ok() {
                    owner::bury(&database, id);
                }
            });
        }
    }
    Ok(())
}
