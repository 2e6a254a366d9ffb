use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres_server::{execute, new_schema, query};
use crate::store::postgres::Stranger;

/// A node reads all rows again far later.
const SOON: Duration = Duration::from_secs(60);

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn sender(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
    command.args(arguments).env("HOOKPROOF_DB", address).stdin(Stdio::null());
    command
}

#[expect(clippy::disallowed_methods, reason = "the test's one clock")]
fn wait_until_left(address: &str, types: &[&str]) {
    let begun = Instant::now();
    while query(address, "SELECT type FROM outbox ORDER BY id") != types {
        assert!(begun.elapsed() < SOON, "others than {types:?} are left");
        std::thread::yield_now();
    }
}

#[test]
fn a_row_that_commits_after_newer_ones_is_an_event_soon_though_others_wait() {
    let Some(address) = new_schema("a_row_that_commits_after_newer_ones") else { return };
    let run = |arguments: &[&str]| {
        let output = sender(&address, arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for (name, rows) in [("full", "queue.rows=1"), ("good", "queue.rows=10")] {
        let settings = ["--allow-private-targets", "--events", name, rows, "queue.when_full=refuse"];
        run(&[&["subscriber", "add", name, "http://127.0.0.1:9/"][..], &settings].concat());
        run(&["subscriber", "pause", name]);
    }
    let _serving = Serving(sender(&address, &["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap());
    let insert = |kind: &str| format!("INSERT INTO outbox (type, data) VALUES ('{kind}', '1')");
    execute(&address, &insert("full"));
    wait_until_left(&address, &[]);
    let early = Stranger::connect(&address);
    early.run_sql(&format!("BEGIN; {}", insert("good")));
    execute(&address, &format!("{}; {}", insert("full"), insert("good")));
    wait_until_left(&address, &["full"]);
    early.run_sql("COMMIT");
    wait_until_left(&address, &["full"]);
    let numbers = query(&address, "SELECT count(*) FROM events WHERE kind = 'good'");
    assert_eq!(numbers, ["2"]);
}
