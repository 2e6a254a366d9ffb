use serde_json::Value;

use crate::binary::Database;

fn examine(database: &Database, options: &[&str]) -> (Option<i32>, impl Fn(&str) -> (String, String)) {
    let output = database.command(&[&["doctor", "--json"], options].concat()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = move |check: &str| {
        let finding = found.iter().find(|finding| finding["check"] == check);
        let finding = finding.unwrap_or_else(|| panic!("no {check}: {found:?} {complaint}"));
        let text = |key| finding[key].as_str().unwrap().to_owned();
        (text("state"), text("detail"))
    };
    (output.status.code(), find)
}

pub(crate) const CHECKS: [&str; 9] =
    ["clock", "leases", "lanes", "subscribers", "deliveries", "unreadable", "log", "space", "file"];

#[test]
fn a_database_that_is_well_is_said_to_be_so() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let (code, found) = examine(&database, &[]);
    for check in CHECKS {
        assert_eq!(found(check), ("well".to_owned(), String::new()), "{check}");
    }
    assert_eq!(code, Some(0));
}

#[test]
fn a_clock_that_is_months_ahead_is_brought_back_on_an_operators_word() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    database.json(&["emit", "--type", "x", "--data", "1", "--json"]);
    database
        .sql()
        .execute_batch(
            "UPDATE totals SET clock = clock + 8640000000000000; UPDATE clock SET boot = NULL;
             UPDATE deliveries SET at = at + 8640000000000000, expires = expires + 8640000000000000",
        )
        .unwrap();
    let (code, found) = examine(&database, &[]);
    let (state, detail) = found("clock");
    assert_eq!((code, &*state), (Some(1), "off"), "{detail}");
    assert!(detail.contains("99d ahead"), "{detail}");
    // The sender expires nothing by such a clock.
    let emitted = database.command(&["emit", "--type", "x", "--data", "1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&emitted.stderr).contains("ahead of the wall clock"), "{emitted:?}");
    let (code, found) = examine(&database, &["--mend"]);
    assert_eq!((found("clock").0.as_str(), code), ("mended", Some(0)));
    let (code, found) = examine(&database, &[]);
    assert_eq!((found("clock").0.as_str(), code), ("well", Some(0)));
    let status = database.json(&["status", "--json"]);
    assert_eq!((&status["deliveries"]["waiting"], &status["deliveries"]["dead"]), (&2.into(), &0.into()));
    assert!(status["overdue_ms"].as_u64().unwrap() < 3_600_000, "{status}");
}

#[test]
fn lost_and_damaged_rows_are_named() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    database.json(&["emit", "--type", "x", "--data", "1", "--json"]);
    database
        .sql()
        .execute_batch("UPDATE events SET body = NULL; UPDATE subscribers SET patterns = 'nonsense'")
        .unwrap();
    let (code, found) = examine(&database, &["--mend"]);
    assert_eq!(code, Some(1), "neither is mended by a program");
    assert!(found("deliveries").1.starts_with("1 waiting deliveries"), "{:?}", found("deliveries"));
    assert!(found("subscribers").1.contains("sink"), "{:?}", found("subscribers"));
}

#[test]
fn leases_of_the_dead_are_freed() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    let mut serving = database.serve();
    serving.emit("1");
    serving.until("/v1/status", |status| status["lanes"]["items"][0]["owned"] == true);
    serving.kill();
    let (code, found) = examine(&database, &[]);
    assert_eq!((found("leases").0.as_str(), code), ("off", Some(1)));
    let (code, found) = examine(&database, &["--mend"]);
    assert_eq!((found("leases").0.as_str(), code), ("mended", Some(0)));
}

#[test]
fn free_space_is_told_of_when_it_is_much_and_is_nothing_wrong() {
    let database = Database::with_sink("http://127.0.0.1:9/", &[]);
    database
        .sql()
        .execute_batch(
            "WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < 40)
                 INSERT INTO outbox_rejected (type, data, why, at) SELECT 'x', hex(zeroblob(1048576)), 'y', 0 FROM row;
             DELETE FROM outbox_rejected",
        )
        .unwrap();
    let (code, found) = examine(&database, &[]);
    let (state, detail) = found("space");
    assert_eq!((code, &*state), (Some(0), "well"), "{detail}");
    assert!(
        detail.starts_with("80 of the file's 80 MiB are free") && detail.contains("`vacuum`"),
        "{detail}"
    );
    database.json(&["vacuum", "--json"]);
    assert_eq!(examine(&database, &[]).1("space"), ("well".to_owned(), String::new()));
}
