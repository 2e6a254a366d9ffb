//! `hookproof query TRACE SQL`: each kind of record is a table with its fields as columns, in memory and read-only.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hookproof_judge::report::visible;
use hookproof_judge::trace::Trace;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, Statement, params_from_iter};
use serde_json::{Map, Value};

use super::out::{USAGE, print_stderr, refuse, written};

/// They exist even if the trace has no such record.
const TABLES: [(&str, &str); 26] = [
    (
        "header",
        "format, version, scenario, scenario_sha256, schedule_sha256, seed, driver, clock, clock_resolution_ns, \
         began_unix_ns, scenario_toml",
    ),
    ("offer", "t, intended, held, token, type, key, owed"),
    ("accepted", "t, token, status, matched"),
    ("refused", "t, token, status, retry_after, unknown, cut_off, why"),
    (
        "arrival",
        "t, read, n, endpoint, connection, token, more, id, attempt, method, path, content_type, forbidden, origin, http2, bytes, \
         sha256, payload, signature, verified, surplus, disclosed, timestamp",
    ),
    ("answer", "t, end, n, status, retry_after, whole"),
    ("cut", "t, endpoint, n, how, began, token, why"),
    ("fault", "t, do, until, detail, delay, plan"),
    ("process", "t, worker, event, status"),
    (
        "depth",
        "t, subscriber, waiting, bytes, dead, delivered, coalesced, resident_bytes, processor_ns, kept",
    ),
    ("dead", "t, subscriber, token, id, reason, attempts"),
    ("shared-secret", "t, endpoint, with"),
    ("ceiling", "t, per_second"),
    ("machine", "processor, cores, memory_bytes, system"),
    ("clock-set", "from, until, ns"),
    (
        "declared",
        "lacks, schedule, jitter, confirmed_within, content_type, signs, told, partial_acceptance, stale, final_statuses",
    ),
    ("stall", "thread, from, until"),
    ("unoffered", "t, intended, token, why"),
    ("offset", "t, ns, error"),
    ("public", "url, path"),
    ("stray", "t, kind, token, said, count"),
    ("handshake", "t, until, connection"),
    ("certificate", "t, endpoint, connection, certificate, refused"),
    ("permission", "t, endpoint, origin, granted"),
    ("undone", "t, do, worker, plan, why"),
    ("trailer", "t, ended, lines, offers, arrivals, dead_listed, late, dropped"),
];

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// The trace (.jsonl, .jsonl.zst)
    trace: PathBuf,
    /// A SELECT over the tables header, offer, accepted, refused, arrival, answer, cut, fault, process, depth, dead,
    /// "shared-secret", ceiling, machine, "clock-set", declared, stall, unoffered, "offset", public, stray, handshake,
    /// certificate, permission, undone, trailer
    sql: String,
    /// Print rows as JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print at most this many rows
    #[arg(long, default_value_t = 1_000)]
    rows: usize,
}

pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match answer(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => refuse("query", what, USAGE),
    }
}

fn answer(arguments: &Arguments) -> Result<(), String> {
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
        filled.execute_batch(&format!("CREATE TABLE \"{table}\" ({})", named.join(", "))).map_err(told)?;
        let places = vec!["?"; columns.len()].join(", ");
        inserts.insert(table, (columns, format!("INSERT INTO \"{table}\" VALUES ({places})")));
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
    // Attaching would create the named file.
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
            // Tokens and seeds may exceed SQLite's integers; text keeps them exact.
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
            print_stderr(format_args!(
                "hookproof query: there are more rows; use --rows to print more than {printed}"
            ));
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
    use hookproof_judge::scenario::{Certificate, FaultKind};
    use hookproof_judge::trace::{
        Accepted, Answer, Arrival, Asked, Ceiling, ClockSet, Cut, CutKind, Dead, Declared, Depth, Ended,
        Fault, Handshake, Head, Machine, Offer, Offset, Payload, Process, ProcessEvent, Public, Record,
        Refused, Retained, SharedSecret, ShownCertificate, Signed, Signs, Stall, Stray, StrayKind,
        Substitution, Text, Trailer, Undone, Unoffered, Verified,
    };

    use super::*;

    fn head_and_signature() -> (Head, Signed) {
        let shared = || Text::from("x");
        let head = Head {
            method: shared(),
            path: shared(),
            content_type: Some(shared()),
            forbidden: Some(shared()),
            origin: Some(shared()),
            http2: true,
        };
        let signed = Signed {
            signature: Some("x".into()),
            verified: Verified::Keys(vec![0].into()),
            surplus: 1,
            disclosed: Some(shared()),
            timestamp: Some(shared()),
        };
        (head, signed)
    }

    fn of_exchanges() -> Vec<Record> {
        let text = || Some("x".to_owned());
        let header = r#"{"k":"header","format":1,"version":"0","scenario":"x","scenario_sha256":"","schedule_sha256":"","seed":1,
            "driver":"x","clock":"real","clock_resolution_ns":1,"began_unix_ns":1,"scenario_toml":""}"#;
        let shared = || Text::from("x");
        let (head, signed) = head_and_signature();
        let (t, n, token) = (1, 1, 1);
        vec![
            serde_json::from_str(header).unwrap(),
            Record::Offer(Offer {
                t,
                intended: 1,
                held: 1,
                token,
                kind: shared(),
                key: shared(),
                owed: vec![shared()].into(),
            }),
            Record::Accepted(Accepted { t, token, status: 202, matched: Some(1) }),
            Record::Refused(Refused {
                t,
                token,
                status: Some(503),
                retry_after: text(),
                unknown: true,
                cut_off: true,
                why: "x".to_owned(),
            }),
            Record::Arrival(Arrival {
                t,
                read: 1,
                n,
                endpoint: shared(),
                connection: 1,
                token: Some(1),
                more: Box::new([1]),
                id: Some(shared()),
                attempt: Some(shared()),
                head: head.into(),
                bytes: 1,
                sha256: shared(),
                payload: Some(Payload::Intact),
                signed,
            }),
            Record::Answer(Answer { t, end: 1, n, status: 200, retry_after: Some(shared()), whole: false }),
            Record::Cut(Cut {
                t,
                endpoint: shared(),
                n: Some(n),
                how: CutKind::Close,
                began: Some(1),
                token: Some(1),
                why: Some(shared()),
            }),
        ]
    }

    fn of_the_run() -> Vec<Record> {
        let text = || Some("x".to_owned());
        let (t, endpoint) = (1, "x".to_owned());
        vec![
            Record::Fault(Fault {
                t,
                kind: FaultKind::Kill,
                until: Some(1),
                detail: text(),
                delay: Some(1),
                plan: Some(0),
            }),
            Record::Process(Process { t, worker: 0, event: ProcessEvent::Exited, status: text() }),
            Record::Depth(Depth {
                t,
                subscriber: text(),
                waiting: Some(1),
                bytes: Some(1),
                dead: Some(1),
                delivered: Some(1),
                coalesced: Some(1),
                resident_bytes: Some(1),
                processor_ns: Some(1),
                kept: Some(Retained { listed: true, oldest_unix_ns: Some(1), disk_bytes: Some(1) }),
            }),
            Record::Dead(Dead {
                t,
                subscriber: endpoint.clone(),
                token: Some(1),
                id: text(),
                reason: endpoint.clone(),
                attempts: Some(1),
            }),
            Record::SharedSecret(SharedSecret { t, endpoint: endpoint.clone(), with: endpoint.clone() }),
            Record::Declared(Declared {
                lacks: Vec::new(),
                schedule: Some(vec![1]),
                jitter: 1,
                confirmed_within: Some(1),
                content_type: Some(endpoint.clone()),
                signs: Some(Signs::Profile(endpoint.clone())),
                told: vec![Substitution { subscriber: endpoint.clone(), what: endpoint.clone() }],
                partial_acceptance: true,
                stale: 1,
                final_statuses: vec![422],
            }),
        ]
    }

    fn of_the_harness() -> Vec<Record> {
        let (t, token, endpoint) = (1, 1, "a".to_owned());
        vec![
            Record::Ceiling(Ceiling { t, per_second: 1 }),
            Record::Machine(Machine::here()),
            Record::ClockSet(ClockSet { from: 1, until: 2, ns: 1 }),
            Record::Stall(Stall { thread: endpoint.clone(), from: 1, until: 2 }),
            Record::Unoffered(Unoffered { t, intended: 1, token, why: endpoint.clone() }),
            Record::Offset(Offset { t, ns: 1, error: 1 }),
            Record::Public(Public { url: endpoint.clone(), path: endpoint.clone() }),
            Record::Stray(Stray {
                t,
                kind: StrayKind::Request,
                token: Some(1),
                said: endpoint.clone(),
                count: 1,
            }),
            Record::Handshake(Handshake { t, until: 2, connection: 1, first: None }),
            Record::Certificate(ShownCertificate {
                t,
                endpoint: endpoint.clone(),
                connection: 1,
                certificate: Certificate::Expired,
                refused: Some(endpoint.clone()),
            }),
            Record::Permission(Asked {
                t,
                endpoint: endpoint.clone(),
                origin: Some(endpoint.clone()),
                granted: true,
            }),
            Record::Undone(Undone {
                t,
                kind: FaultKind::Kill,
                worker: Some(1),
                plan: Some(1),
                why: endpoint,
            }),
            Record::Trailer(Trailer {
                t,
                ended: Ended::Done,
                lines: 1,
                offers: 1,
                arrivals: 1,
                dead_listed: true,
                late: 1,
                dropped: 1,
            }),
        ]
    }

    #[test]
    fn each_kind_of_record_is_a_table_with_all_of_its_fields() {
        let records = [of_exchanges(), of_the_run(), of_the_harness()].concat();
        for record in &records {
            // A new kind needs a record above, and a table.
            match record {
                Record::Header(_) | Record::Offer(_) | Record::Accepted(_) | Record::Refused(_) => {}
                Record::Arrival(_) | Record::Answer(_) | Record::Cut(_) | Record::Fault(_) => {}
                Record::Process(_) | Record::Depth(_) | Record::Dead(_) | Record::SharedSecret(_) => {}
                Record::Ceiling(_) | Record::Machine(_) | Record::Declared(_) | Record::Stall(_) => {}
                Record::Unoffered(_) | Record::Offset(_) | Record::Trailer(_) => {}
                Record::Public(_) | Record::Stray(_) | Record::Handshake(_) | Record::Undone(_) => {}
                Record::ClockSet(_) | Record::Certificate(_) | Record::Permission(_) => {}
            }
            let Ok(Value::Object(mut fields)) = serde_json::to_value(record) else { panic!("{record:?}") };
            let kind = fields.remove("k").unwrap();
            let table = TABLES.iter().find(|(table, _)| kind == *table);
            let (_, columns) = table.unwrap_or_else(|| panic!("{kind} is no table"));
            let mut columns: Vec<&str> = columns.split(", ").map(str::trim).collect();
            columns.sort_unstable();
            let mut keys: Vec<&str> = fields.keys().map(String::as_str).collect();
            keys.sort_unstable();
            assert_eq!(columns, keys, "{kind}");
        }
        assert_eq!(records.len(), TABLES.len());
    }

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
