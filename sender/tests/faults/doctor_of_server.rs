//! Transactions that block the server's clean-up, and findings that `doctor` does not repair.

use std::process::{Command, Output};

use serde_json::Value;

use crate::postgres_server::{Fsync, Private, execute, hold, none, query};

/// More than pass beside a short transaction.
const MANY: &str =
    "DO $$ BEGIN FOR i IN 1..10500 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$";

/// `doctor` reports any open transaction on a server.
fn server(test: &str) -> Option<(Private, String)> {
    let Some(server) = Private::start(Fsync::Off) else {
        none(test);
        return None;
    };
    let address = server.address("hooks");
    execute(&address, "CREATE SCHEMA hooks");
    let add = ["subscriber", "add", "sink", "http://127.0.0.1:9/", "--allow-private-targets"];
    let added = sender(&address, &add);
    assert!(added.status.success(), "{added:?}");
    Some((server, address))
}

fn sender(address: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
    command.args(arguments).env("HOOKPROOF_DB", address);
    command.env_remove("HOOKPROOF_LOG").env_remove("HOOKPROOF_REGIONS");
    command.output().unwrap()
}

fn transactions(address: &str) -> (Option<i32>, String, String) {
    let output = sender(address, &["doctor", "--json"]);
    let told = String::from_utf8(output.stdout).unwrap();
    let mut found = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finding = found.find(|finding| finding["check"] == "transactions");
    let finding = finding.unwrap_or_else(|| panic!("nothing of transactions: {told}"));
    let text = |key| finding[key].as_str().unwrap().to_owned();
    (output.status.code(), text("state"), text("detail"))
}

#[test]
fn a_strangers_transaction_that_stays_open_is_told_with_its_program_and_what_to_do() {
    let test = "a_strangers_transaction_that_stays_open_is_told_with_its_program_and_what_to_do";
    let Some((_server, address)) = server(test) else { return };
    assert_eq!(transactions(&address), (Some(0), "well".to_owned(), String::new()));
    let stranger = hold(
        &address,
        "SET application_name = 'nightly report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM subscribers",
    );
    let pid = query(&address, "SELECT pid FROM pg_stat_activity WHERE application_name = 'nightly report'")
        .remove(0);
    let (code, state, detail) = transactions(&address);
    assert_eq!((code, &*state), (Some(0), "well"), "it has only just begun: {detail}");
    execute(&address, MANY);
    let (code, state, detail) = transactions(&address);
    assert_eq!((code, &*state), (Some(1), "off"), "{detail}");
    let whose = format!("nightly report (pid {pid}, user hookproof) for ");
    assert!(
        detail.contains(&whose) && detail.contains(", idle, transactions begun meanwhile: 10"),
        "{detail}"
    );
    assert!(detail.contains("tables grow") && detail.contains("pg_terminate_backend"), "{detail}");
    execute(&address, &format!("SELECT pg_terminate_backend({pid}, 60000)"));
    assert_eq!(transactions(&address), (Some(0), "well".to_owned(), String::new()));
    drop(stranger);
}

/// The server hides the start time from this user, but not the number of later transactions.
#[test]
fn a_transaction_of_another_user_is_told_without_since_when() {
    let test = "a_transaction_of_another_user_is_told_without_since_when";
    let Some((_server, address)) = server(test) else { return };
    execute(
        &address,
        "CREATE USER plain; GRANT USAGE ON SCHEMA hooks TO plain; GRANT ALL ON ALL TABLES IN SCHEMA hooks TO plain;
         GRANT ALL ON ALL SEQUENCES IN SCHEMA hooks TO plain",
    );
    let plain = address.replace("//hookproof@", "//plain@");
    let stranger = hold(
        &address,
        "SET application_name = 'nightly report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM subscribers",
    );
    execute(&address, MANY);
    let (code, _, detail) = transactions(&plain);
    assert!(
        detail.contains("user hookproof) for an unknown time (grant pg_read_all_stats to see it)"),
        "{detail}"
    );
    assert_eq!(code, Some(1));
    drop(stranger);
}

#[test]
fn a_prepared_transaction_is_told_by_its_name() {
    let Some((server, address)) = server("a_prepared_transaction_is_told_by_its_name") else { return };
    execute(&address, "ALTER SYSTEM SET max_prepared_transactions = 5");
    server.end();
    server.begin();
    execute(&address, "BEGIN; CREATE TABLE halfway (); PREPARE TRANSACTION 'left behind'");
    execute(&address, MANY);
    let (code, state, detail) = transactions(&address);
    assert_eq!((code, &*state), (Some(1), "off"), "{detail}");
    assert!(detail.contains("prepared transaction 'left behind' (user hookproof) for "), "{detail}");
    execute(&address, "ROLLBACK PREPARED 'left behind'");
    assert_eq!(transactions(&address).1, "well");
}

#[test]
fn there_is_nothing_to_mend_on_a_server() {
    let Some((_server, address)) = server("there_is_nothing_to_mend_on_a_server") else { return };
    let output = sender(&address, &["doctor", "--mend"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{complaint}");
    assert!(complaint.contains("--mend is for files") && complaint.contains("on a server"), "{complaint}");
    assert!(output.stdout.is_empty(), "{output:?}");
}
