//! A file of the version before, and what was in it.

use std::sync::Arc;

use hookproof_receiver::clock::Clock;
use hookproof_receiver::inbox::{Accepted, Arrival, Counting, Effects, Inbox, Options};
use rusqlite::Connection;

/// What version 1 wrote: one delivery in each state that it may have, with the time of the system.
const BEFORE: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE received (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, received_ms INTEGER NOT NULL, event TEXT,
      content_type TEXT, body BLOB, attempts INTEGER NOT NULL DEFAULT 0, due_ms INTEGER, finished_ms INTEGER, error TEXT,
      CHECK ((due_ms IS NULL) <> (finished_ms IS NULL))) STRICT;
    CREATE INDEX received_due ON received (due_ms, seq) WHERE due_ms IS NOT NULL;
    CREATE INDEX received_finished ON received (finished_ms) WHERE finished_ms IS NOT NULL;
    CREATE TABLE effects (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, done_ms INTEGER NOT NULL) STRICT;
    CREATE INDEX effects_done ON effects (done_ms);
    CREATE TABLE of_the_work (id TEXT);
    INSERT INTO received VALUES (1, 'done', 1, NULL, NULL, NULL, 1, NULL, 1000 * unixepoch(), NULL),
      (2, 'given up', 1, 'push', 'text/plain', x'626f6479', 20, NULL, 1000 * unixepoch(), 'never'),
      (3, 'failed', 1, NULL, NULL, x'626f6479', 1, 2, NULL, 'not today'),
      (4, 'waiting', 1, NULL, NULL, x'', 0, 1, NULL, NULL);
    INSERT INTO effects VALUES (7, 'done', 1000 * unixepoch());
    INSERT INTO of_the_work VALUES ('done');
    PRAGMA application_id = 0x484B5049;
    PRAGMA user_version = 1;";

#[test]
fn an_inbox_of_the_version_before_is_taken_over_with_all_that_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inbox.db");
    Connection::open(&path).unwrap().execute_batch(BEFORE).unwrap();
    let inbox = Inbox::open(Options::new(&path), Clock::wall(), Arc::new(Counting)).unwrap();
    let effects = Effects::open(&path).unwrap();
    let settle = || {
        while effects.standing().unwrap().waiting > 0 {
            std::thread::yield_now();
        }
    };
    settle();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let accept = |id: &str| runtime.block_on(inbox.accept(Arrival::new(id, "body")));
    for id in ["done", "given up", "failed", "waiting"] {
        assert_eq!(accept(id), Ok(Accepted::Known), "{id}");
    }
    assert_eq!(accept("new"), Ok(Accepted::New));
    settle();
    inbox.close();
    // What was put off is due since later than what had just come.
    assert_eq!(effects.processed(10).unwrap(), ["done", "waiting", "failed", "new"]);
    assert_eq!(effects.standing().unwrap().given_up, 1);
    let sql = Connection::open(&path).unwrap();
    let count = |what: &str| sql.query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0));
    assert_eq!(count("of_the_work"), Ok(1_u32), "what the work wrote is left as it is");
    assert_eq!(
        count("inbox_failed WHERE id = 'given up' AND body = x'626f6479' AND event = 'push'"),
        Ok(1_u32)
    );
    assert_eq!(
        count("sqlite_schema WHERE name LIKE '%\\_1' ESCAPE '\\'"),
        Ok(0_u32),
        "nothing is left of the old tables"
    );
}
