//! The PostgreSQL server that `HOOKPROOF_POSTGRES` names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::failure::Failure;
use crate::figures::{self, float};

/// Linux reports processor time in hundredths of a second.
const TICK_MICROS: f64 = 10_000.0;

/// A schema's tables, and the catalogue as one: dead tuples, and bytes with indexes.
const TABLES: &str = "SELECT relname, n_dead_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables
    WHERE schemaname = current_schema() UNION ALL
    SELECT '(catalogue)', sum(n_dead_tup), sum(pg_total_relation_size(relid)) FROM pg_stat_sys_tables
    WHERE schemaname = 'pg_catalog' ORDER BY 3 DESC";
/// Smaller tables are not listed.
const BYTES_TOLD: u64 = 1 << 20;
const DEAD_TOLD: u64 = 1_000;

/// The address of a database that belongs to the bench.
#[derive(Clone)]
pub(crate) struct Server(String);

#[derive(Clone, Copy)]
pub(crate) struct Used {
    log_bytes: u64,
    ticks: u64,
}

impl Used {
    pub(crate) fn percent_until(&self, later: &Self, took: Duration) -> f64 {
        float(later.ticks - self.ticks) * TICK_MICROS / 10_000.0 / took.as_secs_f64()
    }

    pub(crate) fn micros_until(&self, later: &Self, events: u64) -> f64 {
        micros(later.ticks - self.ticks, events)
    }

    pub(crate) fn log_bytes_until(&self, later: &Self, events: u64) -> f64 {
        float(later.log_bytes - self.log_bytes) / float(events)
    }
}

pub(crate) struct HeldConnection {
    _runtime: tokio::runtime::Runtime,
    _client: tokio_postgres::Client,
}

impl Server {
    pub(crate) fn named() -> Option<Self> {
        std::env::var("HOOKPROOF_POSTGRES").ok().map(Self)
    }

    pub(crate) fn at(address: &str) -> Self {
        Self(address.to_owned())
    }

    pub(crate) fn schema(&self) -> Result<String, Failure> {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed));
        self.query_value(&format!("CREATE SCHEMA {name}"))?;
        let joint = if self.0.contains('?') { '&' } else { '?' };
        Ok(format!("{}{joint}options=-csearch_path%3D{name}", self.0))
    }

    pub(crate) fn used(&self) -> Result<Used, Failure> {
        let told = self.query_value("SELECT pg_current_wal_lsn() - '0/0'")?;
        let log_bytes = told.and_then(|text| text.parse().ok());
        let log_bytes = log_bytes
            .ok_or_else(|| Failure::Says("the server does not tell the place of its log".to_owned()))?;
        let one = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'";
        let one = self
            .query_value(one)?
            .ok_or_else(|| Failure::Says("the server does not tell its processes".to_owned()))?;
        Ok(Used { log_bytes, ticks: ticks(&one)? })
    }

    /// Keeps a transaction open that has read.
    pub(crate) fn hold(&self) -> Result<HeldConnection, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&self.0, NoTls))?;
        drop(runtime.spawn(connection));
        let table = "CREATE TABLE IF NOT EXISTS public.strangers ()";
        runtime.block_on(client.batch_execute(table))?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.strangers";
        runtime.block_on(client.batch_execute(begin))?;
        Ok(HeldConnection { _runtime: runtime, _client: client })
    }

    pub(crate) fn report_tables(&self) -> Result<(), Failure> {
        let (mut dead_in_all, mut bytes_in_all) = (0, 0);
        for row in self.rows(TABLES)? {
            let figure = |column| row.get(column).and_then(|text| text.parse::<u64>().ok());
            let (Some(name), Some(dead), Some(bytes)) = (row.get(0), figure(1), figure(2)) else {
                return Err(Failure::Says("the server does not tell of its tables".to_owned()));
            };
            if bytes >= BYTES_TOLD || dead >= DEAD_TOLD {
                figures::table(name, dead, bytes);
            }
            dead_in_all += dead;
            bytes_in_all += bytes;
        }
        figures::table("all tables", dead_in_all, bytes_in_all);
        Ok(())
    }

    pub(crate) fn query_value(&self, statement: &str) -> Result<Option<String>, Failure> {
        Ok(self.rows(statement)?.first().and_then(|row| row.get(0)).map(ToOwned::to_owned))
    }

    fn rows(&self, statement: &str) -> Result<Vec<SimpleQueryRow>, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.0, NoTls).await?;
            let connection = tokio::spawn(connection);
            let answers = client.simple_query(statement).await?;
            drop(client);
            // The answer is complete, so the connection's end does not matter.
            drop(connection.await);
            let row = |answer| match answer {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            };
            Ok(answers.into_iter().filter_map(row).collect())
        })
    }
}

pub(crate) fn micros(ticks: u64, events: u64) -> f64 {
    float(ticks) * TICK_MICROS / float(events)
}

/// Processor ticks of a server's processes, given one of them: their parent, its children, and its ended children.
fn ticks(one: &str) -> Result<u64, Failure> {
    let parent = figures_of(one).and_then(|figures| figures.get(PARENT).copied());
    let parent = parent.ok_or_else(|| Failure::Says(format!("the system does not tell of process {one}")))?;
    let mut sum = 0;
    for process in std::fs::read_dir("/proc")?.map_while(Result::ok) {
        // The process may have ended.
        let name = process.file_name();
        let Some(figures) = name.to_str().and_then(figures_of) else { continue };
        if name.to_str() == Some(&parent.to_string()) {
            sum += figures.iter().skip(SPENT).take(4).sum::<u64>();
        } else if figures.get(PARENT) == Some(&parent) {
            sum += spent(&figures);
        }
    }
    Ok(sum)
}

/// Positions in [`figures_of`]: the parent, and the first of the process's own times, in user and system mode, and
/// those of ended children.
const PARENT: usize = 1;
const SPENT: usize = 11;

/// The fields of `/proc/PID/stat` after the name; a field that is not a number counts as 0.
pub(crate) fn figures_of(process: &str) -> Option<Vec<u64>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|figure| figure.parse().unwrap_or(0)).collect())
}

pub(crate) fn spent(figures: &[u64]) -> u64 {
    figures.iter().skip(SPENT).take(2).sum()
}
