//! The rows of a file as lines of text, for [`crate::transfer`]. Reads a whole file, or writes a new one that has
//! another name until it is complete.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};

use super::event_id::EventId;
use super::{Options, SqliteFile, SqliteStore, event_id, open};
use crate::StoreError;
use crate::excerpt::Excerpt;
use crate::seal::unhex;

const CHUNK_BYTES: usize = 1 << 20;

/// The figures of a file, in the server's order.
const FIGURES: &str = "SELECT identity, roster, stirred, next_lane, next_event, next_body, next_delivery, clock, accepted, delivered,
    dead, coalesced, waiting, waiting_bytes, retrying, dead_kept, failed_attempts, latency_us FROM totals";
const FIGURES_COUNT: usize = 18;
/// The same in the order of the server's answer.
const TOTALS: &str = "UPDATE totals SET identity = ?1, clock = ?2, roster = ?3, stirred = ?4, next_lane = ?5, next_event = ?6,
    next_body = ?7, next_delivery = ?8, accepted = ?9, delivered = ?10, dead = ?11, coalesced = ?12, waiting = ?13,
    waiting_bytes = ?14, retrying = ?15, dead_kept = ?16, failed_attempts = ?17, latency_us = ?18";
/// The next outbox row gets an unused id, also among the rejected rows.
const IDENTITIES: &str = "DELETE FROM sqlite_sequence WHERE name = 'outbox';
    INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox', max(id) FROM
        (SELECT id FROM outbox UNION ALL SELECT id FROM outbox_rejected) HAVING max(id) > 0";
const ALL_ENDS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

#[derive(Debug)]
pub(crate) enum FileFault {
    Row { table: &'static str, detail: String },
    Store(StoreError),
    Sqlite(String),
    Io(std::io::Error),
}

impl From<StoreError> for FileFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for FileFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error.to_string())
    }
}

impl From<std::io::Error> for FileFault {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// A source file, locked against writes.
pub(crate) struct Source(Connection);

impl Source {
    pub(crate) fn open(database: &SqliteFile) -> Result<Self, FileFault> {
        let file = database.path();
        // Refuses a file that is no store of this version.
        drop(SqliteStore::open(file, &database.options())?);
        open::leave_whole(file)?;
        let sql = Connection::open(file)?;
        event_id::teach(&sql)?;
        sql.execute_batch("BEGIN IMMEDIATE")?;
        Ok(Self(sql))
    }

    /// The identity first.
    pub(crate) fn figures(&self) -> Result<Vec<i64>, FileFault> {
        let figures = |row: &rusqlite::Row<'_>| (0..FIGURES_COUNT).map(|column| row.get(column)).collect();
        Ok(self.0.query_row(FIGURES, [], figures)?)
    }

    /// Passes the rows of a query to `send`, in blocks of whole lines.
    pub(crate) async fn read<E: From<FileFault>>(
        &self,
        table: &'static str,
        query: &str,
        zeros: Zeros,
        mut send: impl AsyncFnMut(String) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: rusqlite::Error| FileFault::from(error);
        let mut statement = self.0.prepare(query).map_err(failed)?;
        let columns = statement.column_count();
        let (mut rows, mut lines) = (statement.query([]).map_err(failed)?, String::new());
        while let Some(row) = rows.next().map_err(failed)? {
            for column in 0..columns {
                let wrong = |detail| FileFault::Row { table, detail };
                write(&mut lines, row.get_ref(column).map_err(failed)?, zeros).map_err(wrong)?;
                lines.push(if column + 1 == columns { '\n' } else { '\t' });
            }
            if lines.len() >= CHUNK_BYTES {
                send(std::mem::take(&mut lines)).await?;
            }
        }
        send(lines).await
    }
}

pub(crate) struct Target {
    sql: Connection,
    unfinished: PathBuf,
    file: PathBuf,
}

impl Target {
    /// An existing file in the target's place, of any kind: SQLite would replay an older log into the renamed store.
    pub(crate) fn occupied(file: &Path) -> Option<PathBuf> {
        ALL_ENDS.map(|end| named(file, end)).into_iter().find(|place| place.exists())
    }

    pub(crate) fn begin(file: &Path) -> Result<Self, FileFault> {
        let unfinished = named(file, ".moving");
        // Left by an interrupted move.
        for end in ALL_ENDS {
            remove(&named(&unfinished, end))?;
        }
        let options = Options { create: true, ..Options::default() };
        drop(SqliteStore::open(&unfinished, &options)?);
        let sql = Connection::open(&unfinished)?;
        sql.execute_batch("BEGIN")?;
        Ok(Self { sql, unfinished, file: file.to_owned() })
    }

    pub(crate) fn table(&self, table: &'static str) -> Result<Rows<'_>, FileFault> {
        let kinds = kinds(&self.sql, table)?;
        let places = vec!["?"; kinds.len()].join(", ");
        let insert = self.sql.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
        Ok(Rows { table, kinds, insert })
    }

    /// Completes the file, and gives it its final name.
    pub(crate) fn finish(self, figures: &[i64]) -> Result<(), FileFault> {
        let Self { sql, unfinished, file } = self;
        sql.execute(TOTALS, params_from_iter(figures))?;
        sql.execute_batch(IDENTITIES)?;
        sql.execute_batch("COMMIT")?;
        // Moves the whole content into the one file that is renamed.
        sql.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE")?;
        sql.close().map_err(|(_, error)| error)?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &file)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(fs::File::open(folder)?.sync_all()?)
    }
}

pub(crate) struct Rows<'a> {
    table: &'static str,
    kinds: Vec<Kind>,
    insert: Statement<'a>,
}

impl Rows<'_> {
    /// Adds a row. `line` has no line end.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), FileFault> {
        let values = line.split('\t').zip(&self.kinds).map(|(column, kind)| read(column, *kind));
        let values = values.collect::<Result<Vec<_>, _>>();
        let values = values.map_err(|detail| FileFault::Row { table: self.table, detail })?;
        self.insert.execute(params_from_iter(values))?;
        Ok(())
    }
}

fn kinds(target: &Connection, table: &str) -> rusqlite::Result<Vec<Kind>> {
    let mut columns = target.prepare("SELECT type FROM pragma_table_info(?1) ORDER BY cid")?;
    columns.query_map([table], |row| Ok(Kind::of(&row.get::<_, String>(0)?)))?.collect()
}

fn named(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    name.into()
}

fn remove(file: &Path) -> std::io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

// Rows in PostgreSQL's text form for copies: a line each, with columns separated by tabs, and `\N` for NULL.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bytes,
    /// An event's id, which a file stores in a special form.
    EventId,
}

impl Kind {
    fn of(declared: &str) -> Self {
        match declared {
            "INTEGER" => Self::Number,
            "BLOB" => Self::Bytes,
            "ANY" => Self::EventId,
            _ => Self::Text,
        }
    }
}

/// The treatment of NUL characters, which a server's texts cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// For texts that people read. Another character replaces it, as in a server's own records.
    Replaced,
    /// For texts that are still to be processed.
    Refused,
}

fn write(line: &mut String, value: ValueRef<'_>, zeros: Zeros) -> Result<(), String> {
    match value {
        ValueRef::Null => line.push_str("\\N"),
        ValueRef::Integer(number) => line.push_str(&number.to_string()),
        ValueRef::Real(number) => return Err(format!("{number} is not a whole number")),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| "a text is not UTF-8".to_owned())?;
            for letter in text.chars() {
                match letter {
                    '\0' if zeros == Zeros::Replaced => line.push('\u{fffd}'),
                    '\0' => {
                        return Err(format!(
                            "{} has a NUL, which a PostgreSQL server cannot store",
                            Excerpt::of(text)
                        ));
                    }
                    '\\' => line.push_str("\\\\"),
                    '\t' => line.push_str("\\t"),
                    '\n' => line.push_str("\\n"),
                    '\r' => line.push_str("\\r"),
                    letter => line.push(letter),
                }
            }
        }
        ValueRef::Blob(bytes) => {
            line.push_str("\\\\x");
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
        }
    }
    Ok(())
}

fn read(column: &str, kind: Kind) -> Result<Value, String> {
    if column == "\\N" {
        return Ok(Value::Null);
    }
    Ok(match kind {
        Kind::Number => Value::Integer(column.parse().map_err(|_| format!("{column:?} is not a number"))?),
        Kind::Text => Value::Text(unescaped(column)?),
        Kind::Bytes => Value::Blob(bytes(column)?),
        Kind::EventId => EventId::new(&unescaped(column)?).into(),
    })
}

fn unescaped(column: &str) -> Result<String, String> {
    let mut text = String::with_capacity(column.len());
    let mut letters = column.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        text.push(match letters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\\') => '\\',
            other => return Err(format!("a backslash before {other:?} is invalid")),
        });
    }
    Ok(text)
}

pub(crate) fn bytes(column: &str) -> Result<Vec<u8>, String> {
    let bytes = column.strip_prefix("\\\\x").and_then(unhex);
    bytes.ok_or_else(|| "bytes that are not hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value, kind: Kind, expected: &str) {
        let mut line = String::new();
        write(&mut line, ValueRef::from(&value), Zeros::Refused).unwrap();
        assert_eq!(line, expected);
        assert_eq!(read(&line, kind), Ok(value));
    }

    #[test]
    fn a_written_row_reads_back() {
        check(Value::Null, Kind::Text, "\\N");
        check(Value::Integer(i64::MIN), Kind::Number, "-9223372036854775808");
        check(Value::Text("a\tb\\N\r\nü".to_owned()), Kind::Text, "a\\tb\\\\N\\r\\nü");
        check(Value::Text("\\N".to_owned()), Kind::Text, "\\\\N");
        check(Value::Text(String::new()), Kind::Text, "");
        check(Value::Blob(vec![0, 10, 255]), Kind::Bytes, "\\\\x000aff");
        check(Value::Blob(Vec::new()), Kind::Bytes, "\\\\x");
    }

    #[test]
    fn a_value_that_the_target_cannot_store_is_refused() {
        let written = |value, zeros| {
            let mut line = String::new();
            write(&mut line, value, zeros).map(|()| line)
        };
        let zero = ValueRef::Text(b"a\0b");
        let why = r#""a\0b" has a NUL, which a PostgreSQL server cannot store"#;
        assert_eq!(written(zero, Zeros::Refused), Err(why.to_owned()));
        assert_eq!(written(zero, Zeros::Replaced), Ok("a\u{fffd}b".to_owned()));
        assert!(written(ValueRef::Text(b"\xff"), Zeros::Replaced).is_err());
        assert!(written(ValueRef::Real(0.5), Zeros::Replaced).is_err());
        assert!(read("1.5", Kind::Number).is_err() && read("\\q", Kind::Text).is_err());
        assert!(read("\\\\x0", Kind::Bytes).is_err() && read("\\\\xzz", Kind::Bytes).is_err());
    }
}
