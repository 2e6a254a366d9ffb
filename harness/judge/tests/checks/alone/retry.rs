use hookproof_judge::trace::CutKind;

use super::Row;
use super::run::{Run, retried};

pub(super) const ROWS: [Row; 11] = [
    Row {
        check: "retry.after-429",
        broken: "told to come back in two seconds, a delivery comes back in a tenth of one",
        good: || run_with_retry_after(429),
        breaks: |run| {
            run.moved(1, 1_110);
        },
    },
    Row {
        check: "retry.after-503",
        broken: "an endpoint is left alone for five seconds longer than it asked for",
        good: || run_with_retry_after(503),
        breaks: |run| {
            run.moved(1, 8_010);
        },
    },
    Row {
        check: "retry.after-endpoint",
        broken: "another delivery comes inside the pause that an endpoint asked for",
        good: || {
            let mut run = run_with_retry_after(429);
            run.event(1, 2_000).request(1, 3_020, 204);
            run
        },
        breaks: |run| {
            run.moved(2, 2_010);
        },
    },
    Row {
        check: "retry.after-hostile",
        broken: "after `Retry-After: inf` nothing is tried for 49 s; no pause is to count for more than two",
        good: hostile,
        breaks: |run| {
            run.moved(1, 50_010);
        },
    },
    Row {
        check: "retry.after-zero",
        broken: "after `Retry-After: 0` five attempts come in 40 ms",
        good: zero,
        breaks: |run| {
            for (n, t) in [(1, 1_020), (2, 1_030), (3, 1_040), (4, 1_050)] {
                run.moved(n, t);
            }
        },
    },
    Row {
        check: "retry.backoff-bounds",
        broken: "a retry comes after half a second; the shortest delay is a whole one",
        good: || {
            let mut run = retried("retry = { backoff = \"equal-jitter\", base = \"2s\" }");
            run.moved(1, 2_510);
            run
        },
        breaks: |run| {
            run.moved(1, 1_510);
        },
    },
    Row {
        check: "retry.backoff-jitter",
        broken: "each of two hundred retries waits for the longest delay, inside the bounds",
        good: jittered,
        breaks: |run| {
            (0..SAMPLES).for_each(|token| {
                run.moved(usize::try_from(2 * token + 1).expect("small"), failed_at(token) + BASE);
            });
        },
    },
    Row {
        check: "retry.attempts",
        broken: "a delivery is tried a third time; two attempts are declared",
        good: exhausted,
        breaks: |run| {
            run.request(0, 3_010, 500);
        },
    },
    Row {
        check: "retry.status",
        broken: "a delivery that was answered 400 is given up, with attempts left",
        good: refused,
        breaks: |run| {
            run.unsent().dead(0, 2_000, "rejected");
        },
    },
    Row {
        check: "retry.gone",
        broken: "an event is sent to an endpoint that answered 410",
        good: gone,
        breaks: |run| {
            run.request(1, 3_010, 204);
        },
    },
    Row {
        check: "retry.hidden",
        broken: "after a close the next request is the same attempt, by its number",
        good: closed,
        breaks: |run| run.trace.arrivals[1].attempt = Some("1".into()),
    },
];

const SAMPLES: u64 = 210;
/// The longest first delay, in milliseconds.
const BASE: u64 = 10_000;

fn run_with_retry_after(status: u16) -> Run {
    let more = format!("[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = {status}\nretry_after = \"2s\"");
    let mut run = Run::new(&more);
    run.event(0, 1_000).request(0, 1_010, status).retry_after("2").request(0, 3_010, 204);
    run
}

/// The endpoint asks for an endless delay; the retry comes after a second.
fn hostile() -> Run {
    let retry = "retry = { base = \"1s\", cap = \"1s\", retry_after_cap = \"2s\" }";
    let behaviour = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 503\nretry_after_text = \"inf\"";
    let mut run = Run::new(&format!("{retry}\n{behaviour}"));
    run.event(0, 1_000).request(0, 1_010, 503).retry_after("inf").request(0, 2_010, 204).ends(300_000);
    run
}

fn zero() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nattempts = \"1..4\"\nanswer = 503\nretry_after = \"0s\"";
    let mut run = Run::new(&format!("retry = {{ base = \"10s\" }}\n{behaviour}"));
    run.event(0, 1_000);
    for attempt in 0..4 {
        run.request(0, 1_010 + attempt * 4_000, 503).retry_after("0");
    }
    run.request(0, 17_010, 204);
    run
}

const fn failed_at(token: u64) -> u64 {
    1_010 + token * 15_000
}

/// Two hundred deliveries fail once; their delays are uniform from zero to the longest.
fn jittered() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = 500";
    let mut run = Run::new(&format!("retry = {{ base = \"10s\" }}\n{behaviour}"));
    for token in 0..SAMPLES {
        let failed = failed_at(token);
        run.event(token, failed - 10).request(token, failed, 500);
        run.request(token, failed + BASE * token / SAMPLES, 204);
    }
    run.ends(failed_at(SAMPLES));
    run
}

fn exhausted() -> Run {
    let mut run = Run::new("retry = { attempts = 2 }\n[[subscriber.behaviour]]\nanswer = 500");
    run.event(0, 1_000).request(0, 1_010, 500).request(0, 1_510, 500).dead(0, 1_600, "exhausted");
    run
}

fn refused() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = 400";
    let mut run = Run::new(&format!("retry = {{ ttl = \"10min\" }}\n{behaviour}"));
    run.event(0, 1_000).request(0, 1_010, 400).request(0, 1_510, 204);
    run
}

fn gone() -> Run {
    let mut run = Run::new("[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 410");
    run.event(0, 1_000).request(0, 1_010, 410).dead(0, 1_100, "gone").event(1, 3_000);
    run
}

fn closed() -> Run {
    let mut run = Run::new("[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = \"close\"");
    run.event(0, 1_000).request(0, 1_010, 500).cut(1_010, CutKind::Close).request(0, 1_510, 204);
    for (arrival, number) in run.trace.arrivals.iter_mut().zip(["1", "2"]) {
        arrival.attempt = Some(number.into());
    }
    run
}
