//! `hookproof query TRACE SQL`: asks a trace anything. Each kind of record is a table with its fields as columns, in a
//! database in memory that can only be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};
use serde_json::{Map, Value};

use super::exit::{USAGE, refuse};
use super::out::{say, written};
use crate::report::visible;
use crate::trace::Trace;

/// The tables, and the columns that each has whatever the trace holds.
const TABLES: [(&str, &str); 12] = [
    ("header", "format, version, scenario, seed, driver, clock, began_unix_ns, scenario_toml"),
    ("offer", "t, intended, token, type, key, owed"),
    ("accepted", "t, token, status, matched"),
    ("refused", "t, token, status, retry_after, unknown, why"),
    (
        "arrival",
        "t, read, n, endpoint, connection, token, id, attempt, method, path, content_type, bytes, sha256, signature, \
         verified, timestamp",
    ),
    ("answer", "t, end, n, status, retry_after, whole"),
    ("cut", "t, endpoint, n, how"),
    ("fault", "t, do, until, detail"),
    ("process", "t, worker, event, status"),
    ("depth", "t, subscriber, waiting, bytes, dead, delivered, coalesced, resident_bytes"),
    ("dead", "t, subscriber, token, id, reason, attempts"),
    ("trailer", "t, ended, lines, offers, arrivals, dead_listed, late, dropped"),
];

/// What to ask, and of which trace.
#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The trace (.jsonl, .jsonl.zst)
    trace: PathBuf,
    /// A SELECT over the tables header, offer, accepted, refused, arrival, answer, cut, fault, process, depth, dead, trailer
    sql: String,
    /// Print rows as JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print at most this many rows
    #[arg(long, default_value_t = 1_000)]
    rows: usize,
}

/// Prints the rows.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match answer(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => refuse("query", what, USAGE),
    }
}

fn answer(arguments: &Arguments) -> Result<(), String> {
    // A trace that would be refused answers no questions either.
    Trace::open(&arguments.trace).map_err(|error| error.to_string())?;
    let database = load(&arguments.trace)?;
    let mut statement = database.prepare(&arguments.sql).map_err(|error| error.to_string())?;
    if !statement.readonly() {
        return Err("only questions can be asked; expected a SELECT".to_owned());
    }
    match print(&mut statement, arguments) {
        Ok(()) => Ok(()),
        Err(Unprinted::Question(error)) => Err(error.to_string()),
        Err(Unprinted::Output(error)) => {
            written(Err(error)).map_err(|error| format!("writing to stdout: {error}"))
        }
    }
}

/// What kept rows from being printed.
#[derive(Debug, thiserror::Error)]
enum Unprinted {
    #[error(transparent)]
    Question(#[from] rusqlite::Error),
    #[error(transparent)]
    Output(#[from] io::Error),
}

fn load(path: &Path) -> Result<Connection, String> {
    let told = |error: rusqlite::Error| format!("filling the tables: {error}");
    let mut database = Connection::open_in_memory().map_err(told)?;
    let filled = database.transaction().map_err(told)?;
    let mut inserts: BTreeMap<&str, (Vec<&str>, String)> = BTreeMap::new();
    for (table, columns) in TABLES {
        let columns: Vec<&str> = columns.split(", ").map(str::trim).collect();
        let named: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
        filled.execute_batch(&format!("CREATE TABLE {table} ({})", named.join(", "))).map_err(told)?;
        let places = vec!["?"; columns.len()].join(", ");
        inserts.insert(table, (columns, format!("INSERT INTO {table} VALUES ({places})")));
    }
    for line in lines(path).map_err(|error| error.to_string())? {
        let Ok(line) = line else { break };
        let Ok(record) = serde_json::from_str::<Map<String, Value>>(&line) else { break };
        let kind = record.get("k").and_then(Value::as_str).unwrap_or_default();
        let Some((columns, insert)) = inserts.get(kind) else { continue };
        let values = columns.iter().map(|column| sql(record.get(*column)));
        let mut insert = filled.prepare_cached(insert).map_err(told)?;
        insert.execute(params_from_iter(values)).map_err(told)?;
    }
    filled.commit().map_err(told)?;
    database.pragma_update(None, "query_only", true).map_err(told)?;
    // Attaching makes the file that it names.
    let no_file = |asked: AuthContext<'_>| match asked.action {
        AuthAction::Attach { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    };
    database.authorizer(Some(no_file)).map_err(told)?;
    Ok(database)
}

fn lines(path: &Path) -> io::Result<Box<dyn Iterator<Item = io::Result<String>>>> {
    let file = File::open(path)?;
    Ok(if path.extension().is_some_and(|extension| extension == "zst") {
        Box::new(BufReader::new(zstd::Decoder::new(file)?).lines())
    } else {
        Box::new(BufReader::new(file).lines())
    })
}

fn sql(value: Option<&Value>) -> Sql {
    match value {
        None | Some(Value::Null) => Sql::Null,
        Some(Value::Bool(flag)) => Sql::Integer(i64::from(*flag)),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(number) => Sql::Integer(number),
            // Tokens and seeds may be larger than SQLite's integers: as text they are still exact.
            None => Sql::Text(number.to_string()),
        },
        Some(Value::String(text)) => Sql::Text(text.clone()),
        Some(other) => Sql::Text(other.to_string()),
    }
}

fn print(statement: &mut Statement<'_>, arguments: &Arguments) -> Result<(), Unprinted> {
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut out = io::stdout().lock();
    let mut rows = statement.query([])?;
    if !arguments.json {
        writeln!(out, "{}", names.join("\t"))?;
    }
    let mut printed = 0;
    while let Some(row) = rows.next()? {
        if printed == arguments.rows {
            say(format_args!("hookproof query: there are more rows; --rows shows more than {printed}"));
            break;
        }
        printed += 1;
        let values = (0..names.len()).map(|at| row.get_ref(at).map(json)).collect::<Result<Vec<_>, _>>()?;
        if arguments.json {
            let object: Map<String, Value> = names.iter().cloned().zip(values).collect();
            writeln!(out, "{}", Value::Object(object))?;
        } else {
            let cells = values.into_iter().map(|value| match value {
                Value::String(text) => visible(&text.replace(['\t', '\n'], " ")),
                Value::Null => String::new(),
                other => other.to_string(),
            });
            writeln!(out, "{}", cells.collect::<Vec<_>>().join("\t"))?;
        }
    }
    Ok(())
}

fn json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Blob(_) => Value::Null,
        ValueRef::Integer(number) => Value::from(number),
        ValueRef::Real(number) => Value::from(number),
        ValueRef::Text(text) => Value::from(String::from_utf8_lossy(text).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_makes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (trace, other) = (folder.path().join("trace.jsonl"), folder.path().join("other.db"));
        std::fs::write(&trace, "").unwrap();
        let database = load(&trace).unwrap();
        let attach = format!("ATTACH '{}' AS x", other.display());
        assert!(database.execute_batch(&attach).is_err() && !other.exists());
        assert!(database.prepare("SELECT count(*) FROM arrival").is_ok());
    }
}
