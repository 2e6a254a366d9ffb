//! What can only be seen from the inside.

use super::*;
use crate::engine::{LaneId, Term};
use crate::store::command::{Acquire, Body, Claim, Emit, Subscribe, Target, Which};
use crate::store::lane::{Bounds, Secret, WhenFull};

const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);

fn open(options: Options) -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store =
        SqliteStore::open(&folder.path().join("store.db"), &Options { create: true, ..options }).unwrap();
    (folder, store)
}

fn subscribe() -> Command {
    Command::Subscribe(Subscribe {
        id: "sub".into(),
        name: "name".into(),
        url: "http://localhost/".into(),
        patterns: "[]".into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: 100, bytes_max: 1_000, when_full: WhenFull::Refuse },
        secret: Secret::new("x"),
    })
}

#[test]
fn durability_is_what_was_asked_for() {
    let check = |durability, synchronous: i64| {
        let (_folder, store) = open(Options { durability, ..Options::default() });
        let ask = |pragma: &str| store.sql.query_row(pragma, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(ask("PRAGMA synchronous"), synchronous);
        assert_eq!(ask("PRAGMA busy_timeout"), 5_000);
        let mode: String = store.sql.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    };
    check(Durability::default(), 2);
    check(Durability::PowerLoss, 2);
    check(Durability::Process, 1);
}

#[test]
fn a_store_that_may_not_be_written_says_so_and_recovers() {
    let (_folder, mut store) = open(Options::default());
    store.sql.execute_batch("PRAGMA query_only = ON").unwrap();
    let error = store.commit(NOW, &[subscribe()]).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }) && error.may_pass(), "{error}");
    store.sql.execute_batch("PRAGMA query_only = OFF").unwrap();
    assert_eq!(store.commit(NOW, &[subscribe()]), Ok(vec![Reply::Subscribed { lane: LaneId(1) }]));
}

/// The promise that a backlog slows nobody hangs on these plans.
#[test]
fn the_hot_queries_walk_an_index_and_sort_nothing() {
    let (_folder, store) = open(Options::default());
    let check = |query: &str, parameters: &[&dyn rusqlite::ToSql], expected: &str| {
        let mut explain = store.sql.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
        let steps: Vec<String> = explain
            .query_map(parameters, |row| row.get(3))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        assert_eq!(steps.join("; "), expected);
    };
    check(claim::QUEUE, &[&1], "SEARCH deliveries USING COVERING INDEX deliveries_due (lane=?)");
    check(
        "SELECT delivery, lane, bytes, attempts FROM deliveries INDEXED BY deliveries_expiring
         WHERE state = 0 AND expires <= ?1 ORDER BY expires, delivery",
        &[&1],
        "SEARCH deliveries USING INDEX deliveries_expiring (expires<?)",
    );
    check(
        emit::RECEIVED_BEFORE,
        &[&1, &2],
        "SEARCH e USING INDEX events_id (id=?); SEARCH d USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
    );
}

/// Statements that SQLite compiles anew for each value cost ten times as much as the rest of a claim.
#[test]
fn statements_are_compiled_once() {
    use rusqlite::StatementStatus::RePrepare;
    let (_folder, mut store) = open(Options::default());
    let acquire = Acquire { owner: OwnerId(1), lease: Nanos::HOUR, which: Which::All, max: 1 };
    store.commit(NOW, &[subscribe(), Command::Acquire(acquire)]).unwrap();
    for number in 0..20_u64 {
        let claim = Claim { lane: LaneId(1), term: Term(1), max: 1, bytes_max: 1 };
        let commands = [emit(number), Command::Claim(claim)];
        let replies = store.commit(StoreTime(NOW.0 + number), &commands).unwrap();
        assert!(matches!(&replies[1], Reply::Claimed(claimed) if claimed.rows.len() == 1), "{replies:?}");
    }
    for statement in [claim::QUEUE, claim::ROW, claim::BODY] {
        let compiled_again = store.sql.prepare_cached(statement).unwrap().get_status(RePrepare);
        assert_eq!(compiled_again, 0, "{statement}");
    }
}

fn emit(number: u64) -> Command {
    let target = Target {
        lane: LaneId(1),
        body: 0,
        due: NOW,
        expires: StoreTime(u64::MAX),
        dedupe: Nanos::ZERO,
        coalesce: None,
        signature: None,
    };
    Command::Emit(Emit {
        roster: 1,
        id: number.to_string().into(),
        kind: "k".into(),
        key: None,
        received: NOW,
        bodies: vec![Body { bytes: number.to_string().into_bytes().into(), hash: number }],
        targets: vec![target],
        outbox: None,
    })
}
