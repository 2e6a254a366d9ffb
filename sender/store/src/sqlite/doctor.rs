//! Checks of a file for operators: its clock, its structure, and unreadable deliveries.

use std::path::{Path, PathBuf};

use hookproof_failed_sync::ends_the_process;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result, params};

use super::failure::{Doing, is_about_the_disk, is_about_the_row};
use super::values::int;
use super::{SqliteFile, SqliteReader, SqliteStore};
use crate::clock::{Fault, Start, TOLERANCE};
use crate::engine::{DeliveryId, StoreTime};
use crate::units::rough;
use crate::vacuum::Space;
use crate::{Finding, LogSize, State, StoreError};

/// Deliveries examined in one transaction, so that no read blocks the log for long.
const ROWS_MAX: u32 = 20_000;
/// The first fault of a table is reported.
const FAULTS_MAX: u32 = 2;

/// A check ends when the log exceeds this, because the check prevents its truncation.
const CHECK_LOG_BYTES_MAX: u64 = 64 << 20;
/// Free space is reported from this size on, if it is also at least a quarter of the file.
const FREE_BYTES_TOLD: u64 = 64 << 20;
const FREE_PART_TOLD: u64 = 4;

/// Whether a process starting now would use the file's time unchanged, and it matches the wall clock.
pub(crate) fn examine_clock(
    file: &SqliteFile,
    start: Start,
    wall: StoreTime,
) -> std::result::Result<Finding, StoreError> {
    let check = "clock";
    if let Some(Fault::Corrected(by) | Fault::Kept(by)) = start.fault {
        let detail = format!("the database's clock is {} ahead of the wall clock", rough(by));
        return Ok(Finding::off(check, detail));
    }
    if SqliteReader::open_with(file.path(), file.keys())?.clock()?.is_correcting {
        return Ok(Finding::off(check, "deliveries have times of a clock that was ahead"));
    }
    let mut finding = Finding::well(check);
    let behind = wall.since(start.now);
    // Durations are correct anyway, and following the clock at once would cut short the running ones.
    if behind > TOLERANCE {
        finding.detail = format!(
            "the wall clock was set forward by {}; the database's clock follows after a restart of the machine",
            rough(behind)
        );
    }
    Ok(finding)
}

/// Runs the checks that apply to files only. With `mend`, also truncates the log.
pub(crate) fn examine(database: &SqliteFile, mend: bool) -> std::result::Result<Vec<Finding>, StoreError> {
    let reader = SqliteReader::open_with(database.path(), database.keys())?;
    let mut findings = vec![
        Finding::checked("deliveries", deliveries(&reader))?,
        Finding::checked("log", log(database, mend))?,
        Finding::checked("space", space(&reader))?,
    ];
    findings.extend(file(&reader)?);
    Ok(findings)
}

fn deliveries(reader: &SqliteReader) -> std::result::Result<Finding, StoreError> {
    let (mut after, mut missing) = (Some(DeliveryId(0)), 0);
    while let Some(from) = after {
        let found = reader.missing_parts(from)?;
        missing += found.rows;
        after = found.next;
    }
    let what = "waiting deliveries lack a part or are damaged; they become dead letters when they are due";
    Ok(if missing == 0 {
        Finding::well("deliveries")
    } else {
        Finding::off("deliveries", format!("{missing} {what}"))
    })
}

fn log(database: &SqliteFile, mend: bool) -> std::result::Result<Finding, StoreError> {
    let bytes = log_bytes(database.path());
    if bytes < LogSize::PINNED_BYTES {
        return Ok(Finding::well("log"));
    }
    let what = "a program keeps a read transaction open, or the disk is too slow";
    let finding = Finding::off("log", format!("the log is {} MiB long; {what}", bytes >> 20));
    let is_cut = mend && SqliteStore::open(database.path(), &database.options())?.cut_log()?;
    Ok(if is_cut { finding.mended() } else { finding })
}

pub(crate) fn log_bytes(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len())
}

/// Never a fault, because free space is reused.
fn space(reader: &SqliteReader) -> std::result::Result<Finding, StoreError> {
    let Space { bytes, free_bytes } = reader.space()?;
    let mut finding = Finding::well("space");
    if free_bytes >= FREE_BYTES_TOLD.max(bytes / FREE_PART_TOLD) {
        let [free, all] = [free_bytes, bytes].map(|bytes| bytes >> 20);
        finding.detail = format!(
            "{free} of the file's {all} MiB are free for later deliveries; `vacuum` gives them back to the disk"
        );
    }
    Ok(finding)
}

fn file(reader: &SqliteReader) -> std::result::Result<Vec<Finding>, StoreError> {
    let check = "file";
    let checked = match reader.quick_check(CHECK_LOG_BYTES_MAX) {
        Err(error) if error.is_damage() => return Ok(vec![Finding::unreadable(check, error)]),
        checked => checked?,
    };
    let mut findings: Vec<_> = checked.faults.into_iter().map(|fault| Finding::off(check, fault)).collect();
    if !checked.unchecked.is_empty() {
        let detail = format!(
            "not checked completely ({}), since the log grew too much during the check: try again with fewer \
             writes",
            checked.unchecked.join(", ")
        );
        findings.push(Finding { check, state: State::Unchecked, detail });
    }
    if findings.is_empty() {
        findings.push(Finding::well(check));
    }
    Ok(findings)
}

fn check_table(sql: &Connection, table: &str) -> Result<Option<String>> {
    let mut check = sql.prepare("SELECT quick_check FROM pragma_quick_check(?1) LIMIT ?2")?;
    let found =
        check.query_map(params![table, FAULTS_MAX], |row| row.get(0))?.collect::<Result<Vec<String>>>();
    let faults = match found {
        Err(error) if is_damage(&error) => vec![error.to_string()],
        found => found?,
    };
    let Some(first) = faults.into_iter().find(|fault| fault != "ok") else { return Ok(None) };
    let rows = unreadable_rows(sql, table)?;
    let follows = consequence(table);
    let remedy = "copy the file, then restore a backup or repair it with `.recover` of sqlite3";
    Ok(Some(format!(
        "table {table} is damaged: {rows}; {follows}; {remedy} (SQLite: {})",
        first.replace('\n', " ")
    )))
}

fn is_damage(error: &Error) -> bool {
    is_about_the_row(error) || is_about_the_disk(error)
}

fn unreadable_rows(sql: &Connection, table: &str) -> Result<String> {
    let mut keys = sql.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
    let mut keys = keys.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>>>()?;
    if keys.is_empty() {
        keys.push("rowid".to_owned());
    }
    let first = read_rows(sql, table, &keys, "ASC")?;
    if first.is_all {
        return Ok(format!("all rows are readable ({}), but an index is damaged", first.rows));
    }
    let last = read_rows(sql, table, &keys, "DESC")?;
    let from = first.key.unwrap_or_else(|| "the beginning".to_owned());
    let to = last.key.unwrap_or_else(|| "the end".to_owned());
    let (before, after) = (first.rows, last.rows);
    Ok(format!(
        "the rows between {from} and {to} are unreadable; readable rows: {before} before and {after} after them"
    ))
}

#[derive(Default)]
struct Readable {
    rows: u64,
    key: Option<String>,
    is_all: bool,
}

fn read_rows(sql: &Connection, table: &str, keys: &[String], order: &str) -> Result<Readable> {
    let list =
        |suffix: &str| keys.iter().map(|key| format!("\"{key}\"{suffix}")).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {}, * FROM \"{table}\" ORDER BY {}", list(""), list(&format!(" {order}")));
    let mut query = sql.prepare(&text)?;
    let (mut rows, mut readable) = (query.query([])?, Readable::default());
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                readable.rows += 1;
                let named = keys.iter().enumerate().map(|(place, name)| match row.get_ref(place) {
                    Ok(ValueRef::Integer(value)) => format!("{name} {value}"),
                    Ok(ValueRef::Text(value)) => format!("{name} {:?}", String::from_utf8_lossy(value)),
                    _ => name.clone(),
                });
                readable.key = Some(named.collect::<Vec<_>>().join(", "));
            }
            Ok(None) => return Ok(Readable { is_all: true, ..readable }),
            Err(error) if is_damage(&error) => return Ok(readable),
            Err(error) => return Err(error),
        }
    }
}

fn consequence(table: &str) -> &'static str {
    match table {
        "deliveries" | "expiring" | "swept" => "its deliveries may never be made or given up",
        "events" | "further_bodies" => {
            "deliveries of its events become dead letters (unreadable) when they are due"
        }
        "subscribers" | "secrets" | "lanes" | "capped" => "its subscribers cannot be delivered to or changed",
        "attempts" | "answers" | "latencies" | "marks" => {
            "its history and figures are lost, and commits to it fail"
        }
        "outbox" | "outbox_rejected" | "sqlite_sequence" => "its outbox rows do not become events",
        "file_place" => "a copy of the file without its log is not detected",
        "notified" => "operators are not notified of changes",
        "jobs" => "jobs of operators cannot go on",
        "tokens" => "no process starts",
        "changes" => "changes of operators fail",
        "owners" | "nodes" | "membership" => "processes may fail to take over subscribers",
        _ => "events may not be accepted or delivered",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub rows: u64,
    /// Where the next search continues. `None`: at the end.
    pub next: Option<DeliveryId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub faults: Vec<String>,
    pub unchecked: Vec<String>,
}

impl SqliteReader {
    /// Checks each table in a transaction of its own. Ends when the log has grown beyond `log_bytes_max`.
    pub fn quick_check(&self, log_bytes_max: u64) -> std::result::Result<Checked, StoreError> {
        let tables = self.moment("list the tables", |sql| {
            sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>>>()
        })?;
        let mut checked = Checked::default();
        for table in tables {
            match self.moment_within(log_bytes_max, "check a table", |sql| check_table(sql, &table)) {
                Err(StoreError::TooMuch { .. }) => checked.unchecked.push(table),
                Err(error) if error.is_damage() => {
                    let follows = consequence(&table);
                    checked.faults.push(format!("table {table} cannot be read: {error}; {follows}"));
                }
                found => checked.faults.extend(found?),
            }
        }
        Ok(checked)
    }

    /// Searches a limited number of deliveries for waiting ones with a missing body or event or with invalid figures.
    pub fn missing_parts(&self, after: DeliveryId) -> std::result::Result<Missing, StoreError> {
        self.moment("look for missing parts", |sql| {
            let (rows, seen, last): (u64, u32, Option<DeliveryId>) = sql
                .prepare_cached(
                    "SELECT coalesce(sum(state = 0 AND (
                         d.attempts NOT BETWEEN 0 AND 4294967295
                         OR min(d.lane, d.bytes, d.at, d.expires, d.ttl, coalesce(d.last_attempt, 0)) < 0
                         OR (d.body <> 0 AND NOT EXISTS (SELECT 1 FROM further_bodies b WHERE b.body = d.body))
                         OR NOT EXISTS (SELECT 1 FROM events e
                             WHERE e.event = d.event AND (d.body <> 0 OR e.body IS NOT NULL)))), 0), count(*), max(delivery)
                     FROM (SELECT * FROM deliveries WHERE delivery > ?1 ORDER BY delivery LIMIT ?2) d",
                )?
                .query_row(params![int(after.0), ROWS_MAX], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            Ok(Missing { rows, next: last.filter(|_| seen == ROWS_MAX) })
        })
    }
}

impl SqliteStore {
    /// Moves the log's content into the file and truncates the log. Returns false if another program reads or writes.
    pub fn cut_log(&mut self) -> std::result::Result<bool, StoreError> {
        let cut = self.sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        let busy: bool = ends_the_process(&self.sql, cut).doing("truncate the log")?;
        Ok(!busy)
    }
}
