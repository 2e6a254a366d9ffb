use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving};

#[track_caller]
fn conforms(sink: &Endpoint, per_minute: u128, burst: u128) {
    let times: Vec<u128> = sink.arrivals().iter().map(|arrival| arrival.at.into()).collect();
    for (first, from) in times.iter().enumerate() {
        for (last, until) in times.iter().enumerate().skip(first) {
            let allowed = burst * 60_000_000_000 + per_minute * (until - from);
            let count = (last - first + 1) as u128;
            assert!(count * 60_000_000_000 <= allowed, "{count} within {} ns", until - from);
        }
    }
}

#[test]
fn a_bucket_of_sixty_a_minute_and_twenty_at_once_outlives_restarts_and_kills() {
    let sink = Endpoint::taking();
    let database =
        Database::with_sink(&sink.url, &["limit.rate=60/1min", "limit.burst=20", "limit.quarantine=10ms"]);
    let mut serving = database.serve();
    (0..40).for_each(|n| drop(serving.emit(&n.to_string())));
    sink.wait_for(20);
    serving.stop_in_order();
    serving = database.serve();
    sink.wait_for(22);
    serving.kill();
    serving = database.serve();
    sink.wait_for(24);
    serving.stop_in_order();
    conforms(&sink, 60, 20);
}

#[test]
fn a_stop_in_order_keeps_what_is_left_of_a_burst() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &["limit.rate=5/1d", "limit.burst=10"]);
    for round in 1..=2 {
        let serving = database.serve();
        // Only the rest of the burst lets five go within a day.
        (0..5).for_each(|n| drop(serving.emit(&n.to_string())));
        sink.wait_for(5 * round);
        serving.until("/v1/status", |status| status["deliveries"]["waiting"] == 0);
        serving.stop_in_order();
    }
    let serving = database.serve();
    serving.emit("one too many");
    assert_eq!(serving.get("/v1/status").json()["deliveries"]["waiting"], 1);
    serving.stop_in_order();
    assert_eq!(sink.count(), 10);
}

#[test]
fn a_burst_of_one_spaces_evenly_and_a_window_caps() {
    let spaced = Endpoint::taking();
    let capped = Endpoint::taking();
    let database = Database::with_sink(&spaced.url, &["limit.rate=10/s", "limit.burst=1"]);
    database.subscribe(
        "capped",
        &capped.url,
        &["limit.rate=1000/s", "limit.burst=100", "limit.windows=3 per 1s"],
    );
    let serving = database.serve();
    (0..9).for_each(|n| drop(serving.emit(&n.to_string())));
    let spaced: Vec<u64> = spaced.wait_for(9).iter().map(|arrival| arrival.at).collect();
    assert!(spaced.windows(2).all(|pair| pair[1] - pair[0] >= 100_000_000), "{spaced:?}");
    let capped: Vec<u64> = capped.wait_for(9).iter().map(|arrival| arrival.at).collect();
    assert!(capped.windows(4).all(|four| four[3] - four[0] >= 1_000_000_000), "{capped:?}");
    serving.stop_in_order();
}

#[test]
fn a_paced_contract_starts_one_by_one_whatever_its_burst_holds() {
    const STEP: u64 = 50_000_000;
    let sink = Endpoint::taking();
    let settings = ["limit.rate=20/s", "limit.burst=30", "limit.pace=true"];
    let database = Database::with_sink(&sink.url, &settings);
    for number in 0..30 {
        database.json(&["emit", "--type", "a", "--data", &number.to_string(), "--json"]);
    }
    let sql = database.sql();
    let now = "SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)";
    let before = sql.query_row(now, [], |row| row.get::<_, u64>(0)).unwrap() * 1_000_000;
    let told = database.json(&["drain", "--for", "5min", "--allow-private-targets", "--json"]);
    assert_eq!(told["delivered"], 30);
    let mut starts = sql.prepare("SELECT at FROM attempts ORDER BY at").unwrap();
    let starts: Vec<u64> = starts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for (n, start) in (0..).zip(&starts) {
        // A recorded start is never before its slot.
        assert!(*start >= before + n * STEP, "start {n} after {} ns", start - before);
    }
    assert_eq!(database.json(&["subscriber", "show", "sink", "--json"])["limit"]["pace"], true);
}

#[test]
fn drains_in_parallel_and_beside_serve_end_by_themselves_and_deliver_each_event_once() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &["limit.rate=6000/1min", "limit.burst=20"]);
    for name in ["b", "c", "d"] {
        database.subscribe(name, &sink.url, &["limit.rate=6000/1min", "limit.burst=20"]);
    }
    let serving = database.serve();
    let drain = ["drain", "--for", "5min", "--allow-private-targets", "--log-json", "--json"];
    let batch = "{\"type\":\"a\",\"data\":1}\n".repeat(30);
    let kind = "application/x-ndjson";
    crate::binary::http::request(&serving.address, "POST", "/v1/events", kind, batch.as_bytes());
    let drains: Vec<Serving> = (0..3).map(|_| Serving::spawn(database.command(&drain))).collect();
    for mut drain in drains {
        let (code, printed) = drain.wait();
        assert_eq!(code, Some(0), "{printed} {:#?}", drain.lines());
    }
    sink.wait_for(120);
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 120);
    serving.stop_in_order();
    assert_eq!(sink.count(), 120, "each once");
}

#[test]
fn each_drain_tells_what_it_did_itself_and_who_has_the_rest() {
    let sink = Endpoint::taking();
    let generous = ["limit.rate=1000/s", "limit.burst=100"];
    let database = Database::with_sink(&sink.url, &generous);
    for name in ["b", "c", "d"] {
        database.subscribe(name, &sink.url, &generous);
    }
    for number in 0..30 {
        database.json(&["emit", "--type", "a", "--data", &number.to_string(), "--json"]);
    }
    let drain = ["drain", "--for", "5min", "--allow-private-targets", "--json"];
    let drains: Vec<Serving> = (0..3).map(|_| Serving::spawn(database.command(&drain))).collect();
    let delivered = drains.into_iter().map(|mut drain| {
        let told: serde_json::Value = serde_json::from_str(&drain.wait().1).unwrap();
        told["delivered"].as_u64().unwrap()
    });
    assert_eq!(delivered.sum::<u64>(), 120);
    // Any running process expires deliveries, and reports it.
    (0..3).for_each(|_| drop(database.json(&["emit", "--type", "a", "--data", "1", "--json"])));
    assert_eq!(database.sql().execute("UPDATE deliveries SET expires = 1 WHERE state = 0", []).unwrap(), 12);
    assert_eq!(database.json(&drain)["dead"], 12);
    let slow = Database::with_sink(&sink.url, &["limit.rate=1/1h", "limit.burst=1"]);
    let serving = slow.serve();
    (0..5).for_each(|n| drop(serving.emit(&n.to_string())));
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 1);
    let told = slow.json(&drain);
    let found = ["delivered", "waiting", "waiting_for_other_processes"].map(|name| told[name].as_u64());
    assert_eq!(found, [Some(0), Some(4), Some(4)], "{told}");
    let output = slow.command(&drain[..4]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let end = "delivered: 0; failed attempts: 0; given up: 0; waiting: 4, 4 of them for 1 subscriber of another process; no more deliveries of this process fall due in time\n";
    assert!(text.ends_with(end), "{text}");
    serving.stop_in_order();
}

#[test]
fn no_more_requests_are_under_way_than_agreed() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let slow = Endpoint::answering(|_| {
        MOST.fetch_max(UNDER_WAY.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Long enough for a second attempt to start, if it may.
        (0..200).for_each(|_| std::thread::yield_now());
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        "204 No Content\r\n".to_owned()
    });
    let wide = ["limit.in_flight=3", "limit.rate=1000/s", "limit.burst=100"];
    let database = Database::with_sink(&slow.url, &wide);
    let serving = database.serve();
    let events: Vec<String> = (0..60).map(|n| serving.emit(&n.to_string())).collect();
    slow.wait_for_events(&events);
    serving.stop_in_order();
    let most = MOST.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} at once");
}
