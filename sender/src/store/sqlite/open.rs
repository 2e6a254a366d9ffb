//! Opening a file: is it ours, do we know its version, and may we write it?

use std::fs::{Metadata, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::Options;
use super::event_id;
use super::failure::Doing;
use super::values::Bits;
use crate::store::{Durability, StoreError};

/// "HKPF": marks a file as ours.
const APPLICATION_ID: i64 = 0x484B_5046;

/// Each step leads from the version that is its index to the next. Released ones never change.
const MIGRATIONS: [&str; 6] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];

/// How long a reader waits for another process: while it opens the file, and never after.
const READER_PATIENCE: Duration = Duration::from_secs(5);

/// A write-ahead log that a burst has made longer shrinks to this again.
const LOG_BYTES_KEPT: u32 = 64 << 20;

/// Pages that a connection keeps in memory, in KiB. More would cost more than it saves: SQLite looks through all of the
/// writer's at the end of each commit in which a tree was balanced, and the system keeps the file's pages too.
const WRITER_CACHE_KIB: u32 = 4 * 1024;
/// A commit may change so much before it writes pages to the log that it may change again.
const WRITER_SPILLS_KIB: u32 = 8 * 1024;
/// Each of half a dozen connections has one: SQLite empties it at the first reading after somebody else's commit.
const READER_CACHE_KIB: u32 = 512;

/// As many statements as the store has, with room to spare.
const STATEMENTS_CACHED: usize = 128;

const OPENING: &str = "open the store";

/// Opens a file to write to, made or migrated if need be.
pub(super) fn writer(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    if options.create {
        create_private(path)?;
    }
    let mut sql = connect(path, options.patience)?;
    let version = recognise(&sql, path)?;
    if sql.is_readonly("main").doing(OPENING)? {
        let detail = format!("{} may not be written", path.display());
        return Err(StoreError::ReadOnly { doing: OPENING, detail });
    }
    let synchronous = match options.durability {
        Durability::PowerLoss => "FULL",
        Durability::Process => "NORMAL",
    };
    let settings = format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA journal_size_limit = {LOG_BYTES_KEPT};
         PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA cache_spill = -{WRITER_SPILLS_KIB};
         PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF;"
    );
    sql.execute_batch(&settings).doing(OPENING)?;
    if version < known() {
        migrate(&mut sql, &MIGRATIONS, options.identity).doing("migrate the store")?;
    }
    // Only now: a new file must be allowed its schema.
    if let Some(pages) = options.pages_max {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        sql.query_row(&pragma, [], |_| Ok(())).doing(OPENING)?;
    }
    Ok(sql)
}

/// Opens a file that a writer has open, to move its log's content into it.
pub(super) fn mover(path: &Path) -> Result<Connection, StoreError> {
    let sql = connect(path, Duration::ZERO)?;
    sql.execute_batch("PRAGMA synchronous = NORMAL").doing(OPENING)?;
    Ok(sql)
}

/// Opens a file to read from.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let sql = connect(path, READER_PATIENCE)?;
    let found = recognise(&sql, path)?;
    if found < known() {
        let detail = format!("its schema is {found}, open it for writing first to bring it to {}", known());
        return Err(StoreError::Foreign { path: path.to_owned(), detail });
    }
    let settings = format!(
        "PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE_KIB}; PRAGMA temp_store = MEMORY;"
    );
    sql.execute_batch(&settings).doing(OPENING)?;
    Ok(sql)
}

fn connect(path: &Path, patience: Duration) -> Result<Connection, StoreError> {
    // Without SQLITE_OPEN_URI: a path is a path, whatever it is called.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(path, flags).doing(OPENING)?;
    sql.busy_timeout(patience).doing(OPENING)?;
    // Plans are made once and for all: SQLite would otherwise compile some statements anew for each value bound.
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).doing(OPENING)?;
    sql.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    Ok(sql)
}

/// Makes an empty file that only its owner may read: it will hold secrets. One that is there is left alone.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => {
            Err(StoreError::Io { doing: "create the store", detail: format!("{}: {error}", path.display()) })
        }
    }
}

/// The newest version known.
fn known() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The file's version, 0 if it is empty; an error if it is not ours or too new. Writes nothing.
fn recognise(sql: &Connection, path: &Path) -> Result<i64, StoreError> {
    let foreign = |detail: String| StoreError::Foreign { path: path.to_owned(), detail };
    let ask = |pragma: &str| sql.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let application = match ask("PRAGMA application_id") {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::NotADatabase) => {
            return Err(foreign("it is no SQLite database; choose another file".to_owned()));
        }
        other => other.doing(OPENING)?,
    };
    let tables = ask("SELECT count(*) FROM sqlite_schema").doing(OPENING)?;
    if application == 0 && tables == 0 {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(foreign("it is an SQLite database of another program; choose another file".to_owned()));
    }
    let found = ask("PRAGMA user_version").doing(OPENING)?;
    if found > known() {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: known() });
    }
    Ok(found)
}

/// Takes the steps that the file has not taken, all in one transaction. Another process may have taken them first.
fn migrate(sql: &mut Connection, steps: &[&str], identity: u64) -> rusqlite::Result<()> {
    event_id::teach(sql)?;
    let tx = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done: usize = tx.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for (version, step) in steps.iter().enumerate().skip(done) {
        tx.execute_batch(step)?;
        if version == 0 {
            tx.execute(
                "INSERT INTO totals VALUES (1, ?1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
                [Bits(identity)],
            )?;
        }
    }
    let versions =
        format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {}", steps.len().max(done));
    tx.execute_batch(&versions)?;
    tx.commit()
}

/// Knows the file that was opened, so as to notice when it is deleted, moved or replaced: SQLite would go on writing
/// to what nobody will ever read.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    known: Option<(u64, u64)>,
}

impl Watched {
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        // Not by opening it: closing it again would drop the locks that SQLite holds on it for this process.
        let metadata = std::fs::metadata(path).map_err(|error| StoreError::Io {
            doing: OPENING,
            detail: format!("{}: {error}", path.display()),
        })?;
        Ok(Self { path: path.to_owned(), known: file_number(&metadata) })
    }

    pub(super) fn check(&self, doing: &'static str) -> Result<(), StoreError> {
        let found = std::fs::metadata(&self.path);
        if self.known.is_some() && found.ok().and_then(|metadata| file_number(&metadata)) != self.known {
            return Err(StoreError::Missing { doing, path: self.path.clone() });
        }
        Ok(())
    }
}

/// What tells files apart, where the system has it.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn file_number(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn file_number(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_once_and_from_where_the_file_stands() {
        let mut sql = Connection::open_in_memory().unwrap();
        let second = "ALTER TABLE totals ADD COLUMN later INTEGER NOT NULL DEFAULT 5";
        let version =
            |sql: &Connection| sql.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0)).unwrap();
        migrate(&mut sql, &MIGRATIONS[..1], 7).unwrap();
        assert_eq!(version(&sql), 1);
        migrate(&mut sql, &[MIGRATIONS[0], second], 8).unwrap();
        assert_eq!(version(&sql), 2);
        migrate(&mut sql, &[MIGRATIONS[0], second], 9).unwrap();
        let kept: (i64, i64) = sql
            .query_row("SELECT identity, later FROM totals", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(kept, (7, 5));
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut sql = Connection::open_in_memory().unwrap();
        assert!(migrate(&mut sql, &[MIGRATIONS[0], "CREATE nonsense"], 7).is_err());
        let tables: i64 = sql.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(tables, 0);
    }

    #[test]
    fn what_an_older_file_has_measured_is_kept() {
        let mut sql = Connection::open_in_memory().unwrap();
        migrate(&mut sql, &MIGRATIONS[..2], 7).unwrap();
        sql.execute_batch("INSERT INTO latencies VALUES (1, 0, x'010203'), (1, 5, x'04')").unwrap();
        migrate(&mut sql, &MIGRATIONS, 7).unwrap();
        let mut rows =
            sql.prepare("SELECT lane, measure, hour, counted FROM latencies ORDER BY hour").unwrap();
        let rows =
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
        let rows: Vec<(i64, i64, i64, Vec<u8>)> = rows.map(Result::unwrap).collect();
        assert_eq!(rows, [(1, 0, 0, vec![1, 2, 3]), (1, 0, 5, vec![4])]);
    }

    /// What schema 3 does with a lease, as it stands in `lease.rs` of commit 500d2a7c^: begin it, renew it, lose a lane, and forget it.
    const LEASES_OF_SCHEMA_3: [&str; 4] = [
        "INSERT INTO owners VALUES (?1, ?2, 0, 0)",
        "UPDATE owners SET until = ?2, evicted = 0 WHERE owner = ?1 RETURNING taken",
        "UPDATE owners SET taken = taken + 1 WHERE owner = ?1 AND until = ?2 RETURNING evicted",
        "DELETE FROM owners WHERE owner = ?1 AND until <= ?2 AND NOT EXISTS
         (SELECT 1 FROM lanes WHERE lanes.owner = owners.owner) RETURNING taken",
    ];

    /// Processes of that version know of no nodes. In a newer file they can keep what they have until they end, whatever else they
    /// find there (`tests/store/older.rs`).
    #[test]
    fn a_file_of_schema_3_gets_nodes_and_its_processes_can_still_renew_their_leases() {
        for newest in 4..=MIGRATIONS.len() {
            let mut sql = Connection::open_in_memory().unwrap();
            migrate(&mut sql, &MIGRATIONS[..3], 7).unwrap();
            migrate(&mut sql, &MIGRATIONS[..newest], 7).unwrap();
            let changes: i64 = sql.query_row("SELECT changes FROM membership", [], |row| row.get(0)).unwrap();
            assert_eq!(changes, 0);
            let [begin, others @ ..] = LEASES_OF_SCHEMA_3;
            sql.execute(begin, [1, 2]).unwrap();
            let told = others.map(|text| sql.query_row(text, [1, 3], |row| row.get::<_, i64>(0)).unwrap());
            assert_eq!(told, [0, 0, 1], "schema {newest}");
        }
    }

    #[test]
    fn a_step_to_schema_5_that_is_broken_off_is_taken_whole_the_next_time() {
        let mut sql = Connection::open_in_memory().unwrap();
        migrate(&mut sql, &MIGRATIONS[..4], 7).unwrap();
        sql.execute_batch(
            "INSERT INTO deliveries VALUES (1, 1, 1, 1, 3, 0, 0, 5, 60, 55, NULL, NULL, NULL, NULL, NULL, NULL),
                 (2, 1, 1, 1, 3, 1, 1, 5, 50, 45, NULL, NULL, NULL, NULL, NULL, NULL),
                 (3, 1, 1, 1, 3, 0, 0, 5, 40, 35, NULL, NULL, NULL, NULL, NULL, NULL);
             UPDATE totals SET next_delivery = 4; INSERT INTO bodies VALUES (1, 2, x'010203')",
        )
        .unwrap();
        let broken_off = [MIGRATIONS[4], "DELETE FROM expiring; CREATE nonsense"].concat();
        let steps = [&MIGRATIONS[..4], &[broken_off.as_str()]].concat();
        assert!(migrate(&mut sql, &steps, 7).is_err());
        let bodies = "SELECT count(*) FROM bodies";
        assert_eq!(sql.query_row(bodies, [], |row| row.get::<_, i64>(0)).unwrap(), 1, "as it was");
        migrate(&mut sql, &MIGRATIONS, 7).unwrap();
        let found: (String, i64, i64) = sql
            .query_row(
                "SELECT (SELECT group_concat(delivery) FROM expiring), (SELECT delivery FROM swept),
                 (SELECT count(*) FROM further_bodies)",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!(found, ("3,1".to_owned(), 3, 1));
    }

    #[test]
    fn a_step_to_schema_6_that_is_broken_off_is_taken_whole_the_next_time() {
        let mut sql = Connection::open_in_memory().unwrap();
        migrate(&mut sql, &MIGRATIONS[..5], 7).unwrap();
        sql.execute_batch(
            "INSERT INTO events VALUES (1, 'evt_00000000000000000000000011', 'a.b', NULL, 5, 1, 1, 7, 0, NULL, 2, x'010203'),
                 (2, 'evt-2', 'a.b', NULL, 5, 2, 2, 7, 1, 1, 2, x'010203');
             INSERT INTO further_bodies VALUES (7, 2, x'0405')",
        )
        .unwrap();
        let rows = |sql: &Connection| {
            let query = "SELECT quote(id), first_body, in_part, quote(body) FROM events ORDER BY event";
            let mut query = sql.prepare(query).unwrap();
            let rows =
                query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
            rows.map(Result::unwrap).collect::<Vec<(String, i64, Option<i64>, String)>>()
        };
        let row =
            |id: &str, first_body, in_part| (id.to_owned(), first_body, in_part, "X'010203'".to_owned());
        let as_it_was = [row("'evt_00000000000000000000000011'", 7, None), row("'evt-2'", 7, Some(1))];
        let broken_off = [MIGRATIONS[5], "CREATE nonsense"].concat();
        let steps = [&MIGRATIONS[..5], &[broken_off.as_str()]].concat();
        assert!(migrate(&mut sql, &steps, 7).is_err());
        assert_eq!(rows(&sql), as_it_was);
        migrate(&mut sql, &MIGRATIONS, 7).unwrap();
        let made = "X'00000000000000000000000000000021'";
        assert_eq!(rows(&sql), [row(made, 0, None), row("'evt-2'", 7, Some(1))]);
    }
}
