//! What templates can say of a subscriber, in the scenario's own words and as plain figures.

use serde_json::{Map, Value, json};

use super::template::Variables;
use crate::scenario::{Backoff, Limit, Queue, Retry, SECOND, Subscriber, WhenFull};

/// What an absent limit is told as, to senders that limit by default: more than any of them sends.
const RATE_BOUNDLESS: &str = "1000000/s";
const BURST_BOUNDLESS: u32 = 1_000_000;
const IN_FLIGHT_BOUNDLESS: u32 = 10_000;
const ROWS_BOUNDLESS: u64 = 1_000_000_000;
const BYTES_BOUNDLESS: &str = "1024GiB";

/// What a call about a subscriber may name.
#[must_use]
pub(crate) fn of_subscriber(subscriber: &Subscriber, url: &str, secret: &str) -> Variables {
    let events: Vec<&str> = subscriber.events.iter().map(|pattern| pattern.as_str()).collect();
    let coalesce = subscriber.handling.coalesce.iter();
    let coalesce =
        coalesce.map(|rule| json!({ "events": rule.kind, "window": rule.window.to_string() })).collect();
    let breaker = subscriber.breaker.as_ref().map_or_else(
        || json!({}),
        |breaker| {
            json!({
                "failures": breaker.failures,
                "cooldown": breaker.cooldown.to_string(),
                "cooldown_max": breaker.cooldown_max.to_string(),
            })
        },
    );
    let mut variables = of_limit(&subscriber.limit);
    let own = [
        ("name", subscriber.name.clone()),
        ("url", url.to_owned()),
        ("secret", secret.to_owned()),
        ("events", json!(events).to_string()),
        ("sign", subscriber.sign.name().to_owned()),
        ("timeout", subscriber.timeout.to_string()),
        ("timeout_seconds", subscriber.timeout.0.div_ceil(SECOND).to_string()),
        ("dedupe", subscriber.handling.dedupe.to_string()),
        ("coalesce", Value::Array(coalesce).to_string()),
        ("queue", queue(&subscriber.queue).to_string()),
        ("retry", retry(&subscriber.retry).to_string()),
        ("attempts", subscriber.retry.attempts.to_string()),
        ("breaker", breaker.to_string()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
    variables
}

/// What a call about a limit may name.
#[must_use]
pub(crate) fn of_limit(limit: &Limit) -> Variables {
    let windows: Vec<String> = limit.windows.iter().map(ToString::to_string).collect();
    let (rate, burst) =
        limit.bucket.as_ref().map_or((RATE_BOUNDLESS.to_owned(), BURST_BOUNDLESS), |bucket| {
            (bucket.rate.to_string(), bucket.burst)
        });
    let in_flight = limit.in_flight.unwrap_or(IN_FLIGHT_BOUNDLESS);
    let per_second = limit.bucket.as_ref().map_or(u64::from(BURST_BOUNDLESS), |bucket| {
        (bucket.rate.count.saturating_mul(SECOND) / bucket.rate.per.0).max(1)
    });
    let whole = json!({
        "rate": rate,
        "burst": burst,
        "windows": windows,
        "in_flight": in_flight,
        "quarantine": limit.quarantine.to_string(),
    });
    let variables = [
        ("limit", whole.to_string()),
        ("rate", rate),
        ("rate_per_second", per_second.to_string()),
        ("burst", burst.to_string()),
        ("in_flight", in_flight.to_string()),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn queue(queue: &Queue) -> Value {
    json!({
        "rows": queue.rows.unwrap_or(ROWS_BOUNDLESS),
        "bytes": queue.bytes.map_or_else(|| BYTES_BOUNDLESS.to_owned(), |bytes| bytes.to_string()),
        "when_full": match queue.when_full {
            WhenFull::ShedOldest => "shed-oldest",
            WhenFull::Refuse => "refuse",
        },
    })
}

/// Only what has a meaning for the backoff: a sender may rightly refuse the rest.
fn retry(retry: &Retry) -> Value {
    let mut value = Map::from_iter([
        ("backoff".to_owned(), json!(retry.backoff.name())),
        ("attempts".to_owned(), json!(retry.attempts)),
        ("ttl".to_owned(), json!(retry.ttl.to_string())),
        ("retry_after_cap".to_owned(), json!(retry.retry_after_cap.to_string())),
    ]);
    if retry.backoff == Backoff::Fixed {
        let schedule: Vec<String> = retry.schedule.iter().map(ToString::to_string).collect();
        value.insert("schedule".to_owned(), json!(schedule));
    } else {
        value.insert("base".to_owned(), json!(retry.base.to_string()));
        value.insert("cap".to_owned(), json!(retry.cap.to_string()));
    }
    if retry.backoff == Backoff::Additive {
        value.insert("jitter".to_owned(), json!(retry.jitter.to_string()));
    }
    Value::Object(value)
}
