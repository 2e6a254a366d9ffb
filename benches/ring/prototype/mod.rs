//! The ring, as bare as it can be: append-only parts that are emptied by TRUNCATE once nothing in them is owed.
//!
//! ```text
//!   emits ───────┐                       ┌── d_0 s_0 ◄── emptied by TRUNCATE, with a lock_timeout
//!   settlements ─┴─► writer ─► COPY ────►├── d_1 s_1      claims go on behind where each lane has come to
//!                                        ├── d_2 s_2
//!                                        └── d_3 s_3 ◄── the newest, written to;    late: what is tried again
//! ```
//!
//! As with our store, one connection commits whatever waits, in three journeys or one more where something is to be tried again, and
//! another one claims. A third one, which is idle but for that, empties parts.

mod claims;
mod copy;
mod emptier;
mod parts;
mod schema;
mod writer;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use hookproof_sender::store::command::{Body, Fate};
use hookproof_sender::store::thread::Clock;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Statement};

use crate::failure::Failure;
use crate::workload::{Queue, Row, Told};
use claims::Claims;
use emptier::Emptier;
use parts::Parts;
use writer::{Job, Writer};

/// What a claim hands out: all of a delivery, as it may have to be written again.
pub(crate) struct Delivery {
    /// The part that it is in; nothing, if it is in `late`.
    table: Option<usize>,
    delivery: i64,
    due: i64,
    expires: i64,
    received: i64,
    hash: i64,
    lane: i32,
    attempts: i16,
    id: Box<str>,
    kind: Box<str>,
    key: Option<Box<str>>,
    signature: Option<Box<str>>,
    body: Arc<[u8]>,
}

/// What the ring is to hold.
pub(crate) struct Setup {
    pub(crate) lanes: u64,
    pub(crate) body: Body,
    /// Ids are looked for in all parts before they are written, and not only by the index of one.
    pub(crate) looks_up: bool,
}

/// The ring, at work.
pub(crate) struct Ring {
    jobs: Sender<Job>,
    claims: Sender<claims::Claim>,
    commits: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    emptier: JoinHandle<emptier::Emptied>,
}

/// A connection, carried on by whoever waits for it.
struct Link {
    runtime: Runtime,
    client: Client,
}

impl Ring {
    pub(crate) fn start(
        address: &str,
        setup: Setup,
        clock: Clock,
        told: Sender<Told<Delivery>>,
    ) -> Result<Self, Failure> {
        drop(Link::open(address, &schema::schema())?);
        let parts = Arc::new(Parts::default());
        let (wake, woken) = channel();
        let emptier = Emptier::open(address, parts.clone(), woken)?;
        let (submit, jobs) = channel();
        let writer = Writer::open(address, setup, (parts.clone(), wake), (clock.clone(), told.clone()))?;
        let commits = writer.commits();
        let (ask, asked) = channel();
        let claims = Claims::open(address, parts, clock, told)?;
        let threads = vec![
            std::thread::Builder::new().name("ring".to_owned()).spawn(move || writer.run(&jobs))?,
            std::thread::Builder::new().name("ring-claims".to_owned()).spawn(move || claims.run(&asked))?,
        ];
        let emptier = std::thread::Builder::new().name("ring-empty".to_owned()).spawn(|| emptier.run())?;
        Ok(Self { jobs: submit, claims: ask, commits, threads, emptier })
    }

    /// Ends, and tells how often parts were emptied.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        drop((self.jobs, self.claims));
        let panicked = |_| Failure::Says("a thread of the ring panicked".to_owned());
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked))?;
        self.emptier.join().map_err(panicked)?.tell()
    }
}

impl Queue for Ring {
    type Row = Delivery;

    fn emit(&self, events: Range<u64>) -> Result<(), Failure> {
        self.jobs.send(Job::Emit(events)).map_err(|_| ended())
    }

    fn claim(&self, lane: u64, again: bool) -> Result<(), Failure> {
        self.claims.send(claims::Claim { lane, again }).map_err(|_| ended())
    }

    fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    fn settle(&self, lane: u64, settled: Vec<(Delivery, Fate)>) -> Result<(), Failure> {
        self.jobs.send(Job::Settle { lane, settled }).map_err(|_| ended())
    }
}

impl Row for Delivery {
    fn event(&self) -> &str {
        &self.id
    }

    fn attempts(&self) -> u32 {
        u32::from(self.attempts.unsigned_abs())
    }
}

impl Link {
    fn open(address: &str, settings: &str) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls))?;
        // How it ends is told to whoever asks it something.
        drop(runtime.spawn(connection));
        runtime.block_on(client.batch_execute(settings))?;
        Ok(Self { runtime, client })
    }

    fn query(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.runtime.block_on(self.client.query(statement, values))
    }
}

fn ended() -> Failure {
    Failure::Says("a thread of the ring has ended".to_owned())
}

fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
