use crate::binary::Database;
use crate::binary::endpoint::Endpoint;
use crate::faults::WIDE;

#[test]
fn a_delivery_whose_body_or_event_is_gone_is_set_aside_and_its_lane_goes_on() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(&[first]);
    database.json(&["subscriber", "pause", "sink", "--json"]);
    let events: Vec<String> = (0..6).map(|n| serving.emit(&n.to_string())).collect();
    let lost = "UPDATE events SET body = NULL WHERE event IN (SELECT event FROM deliveries WHERE state = 0 ORDER BY delivery LIMIT 2);
         DELETE FROM events WHERE event = (SELECT event FROM deliveries WHERE state = 0 ORDER BY delivery LIMIT 1 OFFSET 2)";
    database.sql().execute_batch(lost).unwrap();
    database.json(&["subscriber", "resume", "sink", "--json"]);
    sink.wait_for_events(&events[3..]);
    let status = serving.until("/v1/status", |status| status["deliveries"]["waiting"] == 0);
    assert_eq!((&status["deliveries"]["dead"], &status["unreadable"]), (&3.into(), &3.into()), "{status}");
    assert_eq!(sink.count(), 4, "the others once each");
    let dead = serving.get("/v1/dead").json();
    let reasons: Vec<_> = dead["items"].as_array().unwrap().iter().map(|letter| &letter["reason"]).collect();
    assert_eq!(reasons, ["unreadable"; 3], "{dead}");
    assert!(serving.figure("hookproof_unreadable_rows") > 2.5);
    assert_eq!(serving.get("/readyz").status, 200);
    assert!(
        serving.complaints().iter().all(|line| line.contains("became dead letters")),
        "{:#?}",
        serving.complaints()
    );
    serving.stop_in_order();
}

#[test]
fn a_process_that_could_not_say_that_it_ends_is_found_dead_by_the_next() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let serving = database.serve();
    sink.wait_for_events(&[serving.emit("before")]);
    let fault =
        "CREATE TRIGGER fault BEFORE DELETE ON nodes BEGIN SELECT raise(ABORT, 'a row that cannot go'); END";
    database.sql().execute_batch(fault).unwrap();
    serving.stop_in_order();
    let nodes = || {
        let ran = database.command(&["nodes", "--json"]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    assert!(nodes().contains("lease_ms"), "its lease lasts");
    database.sql().execute_batch("DROP TRIGGER fault").unwrap();
    // Opening the database looks for dead nodes.
    database.json(&["emit", "--type", "x", "--key", "after", "--data", "1", "--json"]);
    assert_eq!(nodes(), "");
}
