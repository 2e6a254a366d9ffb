//! A PostgreSQL server, as far as the bench looks at it: the one that `HOOKPROOF_POSTGRES` names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::exchange::Failure;
use crate::figures::float;

/// The system tells processor time in hundredths of a second.
const TICK_MICROS: f64 = 10_000.0;

/// The address of a database that is the bench's own.
#[derive(Clone)]
pub(crate) struct Server(String);

/// What the server has used so far.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    /// Bytes of its log.
    pub(crate) log_bytes: u64,
    /// Ticks of the processor, of all its processes.
    pub(crate) ticks: u64,
}

impl Used {
    /// How much of one processor it had until a later moment.
    pub(crate) fn percent_until(&self, later: &Self, took: Duration) -> f64 {
        float(later.ticks - self.ticks) * TICK_MICROS / 10_000.0 / took.as_secs_f64()
    }

    /// Microseconds of processor time until a later moment, for each of these events.
    pub(crate) fn micros_until(&self, later: &Self, events: u64) -> f64 {
        float(later.ticks - self.ticks) * TICK_MICROS / float(events)
    }
}

/// A transaction that stays open until this is dropped.
pub(crate) struct Held {
    _runtime: tokio::runtime::Runtime,
    _client: tokio_postgres::Client,
}

impl Server {
    /// The one that is named, if one is.
    pub(crate) fn named() -> Option<Self> {
        std::env::var("HOOKPROOF_POSTGRES").ok().map(Self)
    }

    /// The address of a new schema in it.
    pub(crate) fn schema(&self) -> Result<String, Failure> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
        self.ask(&format!("CREATE SCHEMA {name}"))?;
        let joint = if self.0.contains('?') { '&' } else { '?' };
        Ok(format!("{}{joint}options=-csearch_path%3D{name}", self.0))
    }

    pub(crate) fn used(&self) -> Result<Used, Failure> {
        let told = self.ask("SELECT pg_current_wal_lsn() - '0/0'")?;
        let log_bytes = told.and_then(|text| text.parse().ok());
        let log_bytes = log_bytes
            .ok_or_else(|| Failure::Says("the server does not tell the place of its log".to_owned()))?;
        // One of those that last.
        let one = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
        let one = self
            .ask(one)?
            .ok_or_else(|| Failure::Says("the server does not tell its processes".to_owned()))?;
        Ok(Used { log_bytes, ticks: ticks(&one)? })
    }

    /// Begins a transaction, and keeps it open.
    pub(crate) fn hold(&self) -> Result<Held, Failure> {
        let failed = |error: tokio_postgres::Error| Failure::Says(format!("PostgreSQL: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (client, connection) =
            runtime.block_on(tokio_postgres::connect(&self.0, NoTls)).map_err(failed)?;
        drop(runtime.spawn(connection));
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
        runtime.block_on(client.batch_execute(begin)).map_err(failed)?;
        Ok(Held { _runtime: runtime, _client: client })
    }

    fn ask(&self, statement: &str) -> Result<Option<String>, Failure> {
        let failed = |error: tokio_postgres::Error| Failure::Says(format!("PostgreSQL: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.0, NoTls).await.map_err(failed)?;
            let connection = tokio::spawn(connection);
            let answers = client.simple_query(statement).await.map_err(failed)?;
            drop(client);
            // However it ended, the answer is here.
            drop(connection.await);
            Ok(answers.iter().find_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
                _ => None,
            }))
        })
    }
}

/// What the processes of a server have had of the processors, given one of them: their parent, its children, and those of them that
/// have ended.
fn ticks(one: &str) -> Result<u64, Failure> {
    let parent = figures_of(one).and_then(|figures| figures.get(PARENT).copied());
    let parent = parent.ok_or_else(|| Failure::Says(format!("the system does not tell of process {one}")))?;
    let mut sum = 0;
    for process in std::fs::read_dir("/proc")?.map_while(Result::ok) {
        // One that has ended meanwhile is no longer there to be read.
        let name = process.file_name();
        let Some(figures) = name.to_str().and_then(figures_of) else { continue };
        if name.to_str() == Some(&parent.to_string()) {
            sum += figures.iter().skip(SPENT).take(4).sum::<u64>();
        } else if figures.get(PARENT) == Some(&parent) {
            sum += figures.iter().skip(SPENT).take(2).sum::<u64>();
        }
    }
    Ok(sum)
}

/// Where in [`figures_of`] a process's parent is, and what it has spent by itself and in the system, and its ended children.
const PARENT: usize = 1;
const SPENT: usize = 11;

/// What the system tells of a process, behind its name; what is no number counts as none.
fn figures_of(process: &str) -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|figure| figure.parse().unwrap_or(0)).collect())
}
