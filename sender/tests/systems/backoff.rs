//! To save hours, each `drain` makes one attempt; the test checks the recorded delay, and then makes the delivery due.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::binary::Database;
use crate::binary::endpoint::Endpoint;

const SECOND: u64 = 1_000_000_000;
/// Drains of 100 ms that one attempt may take on a busy machine.
const DRAINS_MAX: u32 = 50;

#[expect(clippy::disallowed_methods, reason = "compared with what the sender wrote down")]
fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn attempts_at(sql: &rusqlite::Connection) -> Vec<u64> {
    let mut attempts = sql.prepare("SELECT at FROM attempts ORDER BY at").unwrap();
    attempts.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Repeats attempts until the delivery is dead. `bounds(n)` limits the delay after the nth attempt, in seconds.
#[track_caller]
fn check(settings: &[&str], attempts: u32, bounds: impl Fn(u32) -> (u64, u64)) {
    let failing = Endpoint::answering(|_| "500 Broken\r\n".to_owned());
    let patient =
        ["breaker.failures=1000", "breaker.failures_when_slow=1000", "limit.rate=1000/s", "limit.burst=1000"];
    let database = Database::with_sink(&failing.url, &[&patient, settings].concat());
    database.json(&["emit", "--type", "a", "--data", "1", "--json"]);
    let sql = database.sql();
    let mut number = 0;
    while number < attempts {
        // A drain that ends too early leaves its attempt to the next.
        let mut drains = 0;
        while failing.count() <= number as usize {
            drains += 1;
            assert!(drains <= DRAINS_MAX, "attempt {} was not made in {DRAINS_MAX} drains", number + 1);
            database.json(&["drain", "--for", "100ms", "--allow-private-targets", "--json"]);
        }
        let ended = now();
        let at = attempts_at(&sql);
        assert_eq!(failing.count(), at.len(), "each attempt is written down");
        // A short delay may have ended within the same drain.
        while number as usize + 1 < at.len() {
            number += 1;
            let (least, _) = bounds(number);
            let gap = at[number as usize] - at[number as usize - 1];
            assert!(least * SECOND <= gap && number < attempts, "{number}: after {gap} ns");
        }
        number += 1;
        let began = at[number as usize - 1];
        let (state, due): (u32, u64) = sql
            .query_row("SELECT state, at FROM deliveries", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        if number == attempts {
            assert_eq!(state, 2, "dead after {attempts}");
            break;
        }
        assert_eq!(state, 0, "it waits after {number}");
        let (least, most) = bounds(number);
        assert!(began + least * SECOND <= due, "{number}: {} s", (due - began) / SECOND);
        assert!(due <= ended + most * SECOND, "{number}: {} s", (due - began) / SECOND);
        sql.execute("UPDATE deliveries SET at = ?1", [began]).unwrap();
    }
    let dead = database.json(&["dead", "list", "--json"]);
    assert_eq!(dead["reason"], "exhausted", "{dead}");
}

#[test]
fn additive_backoff_is_two_to_the_n_and_up_to_thirty_seconds_twelve_times() {
    check(
        &["retry.backoff=additive", "retry.base=2s", "retry.jitter=30s", "retry.cap=1h", "retry.attempts=12"],
        12,
        |n| {
            let step = 2_u64.pow(n);
            (step.min(3_600), (step + 30).min(3_600))
        },
    );
}

#[test]
fn equal_jitter_is_half_the_step_and_up_to_the_other_half_eight_times() {
    check(&["retry.backoff=equal-jitter", "retry.base=1s", "retry.cap=1h", "retry.attempts=8"], 8, |n| {
        let step = 2_u64.pow(n - 1).min(3_600);
        (step / 2, step)
    });
}

#[test]
fn full_jitter_is_anything_up_to_thirty_times_two_to_the_n_five_times() {
    check(&["retry.base=30s", "retry.cap=1h", "retry.attempts=5", "timeout=15s"], 5, |n| {
        (0, (30 * 2_u64.pow(n - 1)).min(3_600))
    });
}

#[test]
fn retry_after_is_kept_for_the_whole_endpoint_on_429_and_on_503() {
    let asking = Endpoint::answering(|number| match number {
        0 => "429 Slow\r\nretry-after: 2\r\n".to_owned(),
        1 => "503 Later\r\nretry-after: 1\r\n".to_owned(),
        _ => "204 No Content\r\n".to_owned(),
    });
    let database =
        Database::with_sink(&asking.url, &["limit.in_flight=1", "retry.base=10ms", "retry.cap=10ms"]);
    let serving = database.serve();
    let events: Vec<String> = (0..4).map(|n| serving.emit(&n.to_string())).collect();
    asking.wait_for_events(&events);
    let at: Vec<u64> = asking.arrivals().iter().map(|arrival| arrival.at).collect();
    assert!(at[1] - at[0] >= 2 * SECOND && at[2] - at[1] >= SECOND, "never early: {at:?}");
    assert!(serving.figure("hookproof_share") < 1.0, "a 429 lowers the rate too");
    serving.stop_in_order();
}

#[test]
fn a_delivery_past_its_ttl_becomes_a_dead_letter() {
    let failing = Endpoint::answering(|_| "500 Broken\r\n".to_owned());
    let database = Database::with_sink(&failing.url, &["retry.ttl=1s", "retry.base=1min", "retry.cap=1min"]);
    let shown = database.json(&["subscriber", "show", "sink", "--json"]);
    assert_eq!(shown["retry"]["ttl"], "1s");
    let serving = database.serve();
    serving.emit("1");
    let dead =
        serving.until("/v1/dead", |dead| dead["items"].as_array().is_some_and(|items| !items.is_empty()));
    assert_eq!(dead["items"][0]["reason"], "expired", "{dead}");
    serving.stop_in_order();
}
