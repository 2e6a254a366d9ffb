//! Moves a whole store from a file to a server, or back, table by table, in PostgreSQL's text form for copies.
//!
//! No process may use either side. A move is all or nothing: a server receives it in one transaction, and a file is
//! written under another name and renamed at the end. So an interrupted move can be repeated.
//! Delivery numbers stay, because endpoints see them. Body numbers change on the way to a file, where those of an
//! event are consecutive. All leases are over afterwards. Owners known to be dead stay dead.

mod to_file;
mod to_server;

use tokio_postgres::error::SqlState;

use super::database::Database;
use super::sqlite::{FileFault, Zeros};
use super::{StoreError, postgres};
use crate::engine::Nanos;

/// How long a move waits for a locked table of the server. All delivering processes have ended by then, so another
/// program holds the lock, perhaps for ever.
pub const LOCKED_MAX: Nanos = Nanos::from_secs(10);

/// A failed move. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error("a database is moved between a file and a server; expected --from one and --to the other")]
    Alike,
    #[error("{database} is in use ({by}); end all processes on it first")]
    InUse { database: String, by: String },
    #[error("{database} is not empty ({what}); expected a new file, or an empty database")]
    Occupied {
        database: String,
        /// The existing content.
        what: String,
    },
    #[error(
        "{database} holds these rows already, from an earlier move; deliver from it, or move to an empty database"
    )]
    Moved { database: String },
    #[error("a row of {table} cannot be moved: {detail}")]
    Row { table: &'static str, detail: String },
    /// One of them cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the file cannot be read or written: {0}")]
    File(String),
    #[error("the server says: {}", postgres::message_of(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error("the file cannot be put in its place: {0}")]
    Io(#[from] std::io::Error),
}

impl From<FileFault> for MoveError {
    fn from(fault: FileFault) -> Self {
        match fault {
            FileFault::Row { table, detail } => Self::Row { table, detail },
            FileFault::Store(error) => Self::Store(error),
            FileFault::Sqlite(error) => Self::File(error),
            FileFault::Io(error) => Self::Io(error),
        }
    }
}

struct Table {
    name: &'static str,
    of_file: &'static str,
    of_server: &'static str,
}

impl Table {
    /// The treatment of NUL in its texts. Rows of the outbox will become events, so they must not be altered.
    fn zeros(&self) -> Zeros {
        if self.name == "outbox" { Zeros::Refused } else { Zeros::Replaced }
    }

    fn in_file(&self) -> &'static str {
        if self.name == "bodies" { "further_bodies" } else { self.name }
    }
}

/// A table with the same columns on both sides.
macro_rules! same {
    ($name:literal, $columns:literal) => {
        Table {
            name: $name,
            of_file: concat!("SELECT ", $columns, " FROM ", $name),
            of_server: concat!("SELECT ", $columns, " FROM ", $name),
        }
    };
}

/// The columns of `lanes` that are the same on both sides, after `capped`.
macro_rules! of_lane {
    () => {
        "owner, term, accepted, delivered, dead, coalesced, waiting, waiting_bytes, retrying, dead_kept, failed_attempts,
         latency_us, record_at, record"
    };
}

/// Owners before lanes, lanes before their rows.
const TABLES: [Table; 19] = [
    same!("sealing", "id, proof, plain"),
    same!(
        "subscribers",
        "lane, id, name, url, patterns, settings, created, version, removed, retried, insisted, pause_reason, pause_until"
    ),
    same!("notified", "lane, condition"),
    same!("secrets", "id, lane, secret, created, retires"),
    Table {
        name: "owners",
        of_file: "SELECT owner, 0, evicted, taken FROM owners",
        of_server: "SELECT owner, 0, evicted::int, taken FROM owners",
    },
    Table {
        name: "lanes",
        of_file: concat!(
            "SELECT lane, state, rows_max, bytes_max, when_full, EXISTS (SELECT 1 FROM capped c WHERE c.lane = l.lane), 0,
             9223372036854775807, 0, 0, ",
            of_lane!(),
            ", 0 FROM lanes l"
        ),
        of_server: concat!("SELECT lane, state, rows_max, bytes_max, when_full, ", of_lane!(), " FROM lanes"),
    },
    Table {
        name: "events",
        of_file: "SELECT event, event_id_text(id), kind, key, received, in_part IS NOT NULL,
            '{' || coalesce((SELECT group_concat(delivery) FROM deliveries d WHERE d.event = e.event
                AND d.delivery >= first_delivery AND d.delivery < first_delivery + deliveries), '') || '}',
            '{' || coalesce((SELECT group_concat(body) FROM further_bodies
                WHERE body >= first_body AND body < first_body + bodies), '') || '}', body FROM events e",
        of_server: "SELECT event, id, kind, key, received,
            coalesce((SELECT min(n) FROM unnest(deliveries) n), 0),
            coalesce((SELECT max(n) - min(n) + 1 FROM unnest(deliveries) n), 0),
            coalesce((SELECT min(m.number) FROM moved_bodies m WHERE m.body = ANY(bodies)), 0),
            cardinality(bodies), CASE WHEN in_part THEN 1 END, bytes FROM events",
    },
    Table {
        name: "bodies",
        of_file: "SELECT body, bytes FROM further_bodies",
        of_server: "SELECT m.number, b.bytes, b.body FROM bodies b JOIN moved_bodies m USING (body)",
    },
    Table {
        name: "deliveries",
        of_file: "SELECT delivery, lane, event, nullif(body, 0), bytes, state, attempts, at, expires, ttl, last_attempt, reason,
            status, error, coalesce, signature FROM deliveries",
        // A reference to a missing body becomes a number that no body has.
        of_server: "SELECT delivery, lane, event,
            CASE WHEN body IS NULL THEN 0 ELSE coalesce(m.number, 9223372036854775807) END, bytes, state, attempts, at,
            expires, ttl, last_attempt, reason, status, error, d.coalesce, signature
            FROM all_deliveries d LEFT JOIN moved_bodies m USING (body)",
    },
    Table {
        name: "attempts",
        of_file: "SELECT at, delivery, lane, number, latency, outcome, status, error, body_hash, before, capped IS NOT NULL,
            connect, first_byte, asked IS NOT NULL FROM attempts",
        of_server: "SELECT at, delivery, lane, number, latency, outcome, status, error, body_hash, before,
            CASE WHEN capped THEN 1 END, connect, first_byte, CASE WHEN asked THEN 1 END FROM attempts",
    },
    Table {
        name: "answers",
        of_file: "SELECT lane, slot, at, delivery, head, body, cut FROM answers",
        of_server: "SELECT lane, slot, at, delivery, head, body, cut::int FROM answers",
    },
    same!("resent", "delivery, at, after"),
    same!(
        "jobs",
        "job, kind, lane, ids, since, before, up_to, planned, begun_by, state, done, skipped, cursor, begun, ended, error, worker,
         until, events"
    ),
    same!("tokens", "name, digest, scope, created, created_by, expires, subscribers"),
    same!("changes", "number, at, made_by, operation, subscriber, name, subject, changed"),
    same!("latencies", "lane, measure, hour, counted"),
    same!("marks", "minute, delivered, failed_attempts, dead, latency_us"),
    same!("outbox", "id, type, key, data, event"),
    same!("outbox_rejected", "id, type, key, data, event, why, at"),
];

/// A server's other tables. Their contents come from the tables above or are created anew.
const BESIDE: [&str; 4] = ["done", "nodes", "state", "totals"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub table: &'static str,
    pub rows: u64,
}

/// Reports each table when its rows are copied. They become visible only when this returns. For each locked table of
/// the server, it waits for `locked_max`. After a failure nothing has changed on either side.
pub fn transfer(
    from: &Database,
    to: &Database,
    locked_max: Nanos,
    tell: &mut dyn FnMut(Moved),
) -> Result<(), MoveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let set = lock_timeout(locked_max);
    let (address, moved) = match (from, to) {
        (Database::File(file), Database::Postgres(address)) => {
            (address, runtime.block_on(to_server::transfer(file, address, &set, tell)))
        }
        (Database::Postgres(address), Database::File(file)) => {
            (address, runtime.block_on(to_file::transfer(address, file.path(), &set, tell)))
        }
        _ => return Err(MoveError::Alike),
    };
    match moved {
        Err(MoveError::Postgres(error)) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            Err(runtime.block_on(locked(address, locked_max))?)
        }
        moved => moved,
    }
}

/// In milliseconds. Never 0, which means no limit.
fn lock_timeout(length: Nanos) -> String {
    format!("SET lock_timeout = {}", (length.0 / 1_000_000).max(1))
}

/// The error for a locked table, with all programs that hold locks on the tables, because the waiting statement is
/// gone.
async fn locked(address: &postgres::Address, locked_max: Nanos) -> Result<MoveError, MoveError> {
    const HOLDERS: &str = "SELECT DISTINCT coalesce(
            coalesce(nullif(a.application_name, ''), 'a program without a name') || ' (pid ' || a.pid || ', user ' || a.usename || ')',
            'prepared transaction ' || quote_literal(p.gid) || ' (user ' || p.owner || ')',
            'process ' || l.pid || ' of the server')
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
            LEFT JOIN pg_prepared_xacts p ON l.virtualtransaction = '-1/' || p.transaction
        WHERE l.granted AND l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.relation IN (SELECT to_regclass(name)::oid FROM unnest($1::text[]) name)
        ORDER BY 1";
    let (client, _) = address.connect("").await?;
    let tables: Vec<&str> = TABLES.iter().map(|table| table.name).chain(BESIDE).collect();
    let rows = client.query(HOLDERS, &[&tables]).await?;
    let holders = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    let who = match &holders[..] {
        [] => "the locks are gone by now".to_owned(),
        holders => format!("they are locked by {}", holders.join(", ")),
    };
    let by = format!("its tables stayed locked for {locked_max}; {who}");
    Ok(MoveError::InUse { database: address.to_string(), by })
}

async fn nobody_works(client: &tokio_postgres::Client, address: &postgres::Address) -> Result<(), MoveError> {
    match client.query_opt(postgres::ALIVE, &[]).await? {
        None => Ok(()),
        Some(row) => Err(MoveError::InUse { database: address.to_string(), by: row.try_get(0)? }),
    }
}
