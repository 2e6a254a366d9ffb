//! The variables of a subscriber: settings in the scenario's own words, and as plain figures.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use hookproof_judge::scenario::{Backoff, Duration, Limit, Queue, Rate, Retry, SECOND, Subscriber, WhenFull};

pub type Variables = BTreeMap<String, String>;

/// The value of an absent limit, for senders that limit by default.
const RATE_BOUNDLESS: &str = "1000000/s";
const BURST_BOUNDLESS: u32 = 1_000_000;
const IN_FLIGHT_BOUNDLESS: u32 = 10_000;
const ROWS_BOUNDLESS: u64 = 1_000_000_000;
const BYTES_BOUNDLESS: &str = "1024GiB";

pub const NAMES: [&str; 25] = [
    "name",
    "url",
    "secret",
    "events",
    "filter_types",
    "sign",
    "dedupe",
    "ordered",
    "coalesce",
    "queue",
    "retry",
    "attempts",
    "breaker",
    "permission",
    "timeout",
    "timeout_seconds",
    "limit",
    "rate",
    "rate_count",
    "rate_per",
    "rate_per_second",
    "rate_per_minute",
    "rate_seconds",
    "burst",
    "in_flight",
];

pub const EVENT_NAMES: [&str; 6] = ["token", "uuid", "type", "key", "data", "now"];

/// `types` are the types of the run that it is owed.
#[must_use]
pub fn of_subscriber(subscriber: &Subscriber, types: &[String], url: &str, secret: &str) -> Variables {
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
    let permission = subscriber.permission.as_ref();
    let permission =
        permission.map_or_else(|| json!({}), |permission| json!({ "origin": permission.origin }));
    let mut variables = of_limit(&subscriber.limit);
    let own = [
        ("name", subscriber.name.clone()),
        ("url", url.to_owned()),
        ("secret", secret.to_owned()),
        ("events", json!(events).to_string()),
        // Some senders take an empty list as all types.
        ("filter_types", if types.is_empty() { json!(events) } else { json!(types) }.to_string()),
        ("sign", subscriber.sign.name().to_owned()),
        ("dedupe", subscriber.handling.dedupe.to_string()),
        ("ordered", subscriber.handling.ordered.to_string()),
        ("coalesce", Value::Array(coalesce).to_string()),
        ("queue", queue(&subscriber.queue).to_string()),
        ("retry", retry(&subscriber.retry).to_string()),
        ("attempts", subscriber.retry.attempts.to_string()),
        ("breaker", breaker.to_string()),
        ("permission", permission.to_string()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
    variables.extend(of_timeout(subscriber.timeout));
    variables
}

pub fn of_timeout(timeout: Duration) -> [(String, String); 2] {
    let seconds = timeout.0.div_ceil(SECOND).to_string();
    [("timeout".to_owned(), timeout.to_string()), ("timeout_seconds".to_owned(), seconds)]
}

#[must_use]
pub fn of_limit(limit: &Limit) -> Variables {
    let windows: Vec<String> = limit.windows.iter().map(ToString::to_string).collect();
    let (rate, burst) =
        limit.bucket.as_ref().map_or((RATE_BOUNDLESS.to_owned(), BURST_BOUNDLESS), |bucket| {
            (bucket.rate.to_string(), bucket.burst)
        });
    let in_flight = limit.in_flight_told().unwrap_or(IN_FLIGHT_BOUNDLESS);
    let whole = json!({
        "rate": rate,
        "burst": burst,
        "windows": windows,
        "in_flight": in_flight,
        "pace": limit.pace,
        "quarantine": limit.quarantine.to_string(),
        "doubt": limit.doubt.to_string(),
    });
    let told = limit
        .bucket
        .as_ref()
        .map_or(Rate { count: u64::from(BURST_BOUNDLESS), per: Duration(SECOND) }, |bucket| bucket.rate);
    let variables = [
        ("limit", whole.to_string()),
        ("rate", rate),
        ("rate_count", told.count.to_string()),
        ("rate_per", told.per.to_string()),
        ("rate_per_second", decimal(told.count, told.per.0)),
        ("rate_per_minute", decimal(told.count.saturating_mul(60), told.per.0)),
        ("rate_seconds", decimal(told.per.0, SECOND.saturating_mul(SECOND))),
        ("burst", burst.to_string()),
        ("in_flight", in_flight.to_string()),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `count` in each `nanos`, per second, as a decimal of at most six digits. Rounded down: the sender must not
/// get a higher rate than the contract's.
fn decimal(count: u64, nanos: u64) -> String {
    let millionths = u128::from(count) * u128::from(SECOND) * 1_000_000 / u128::from(nanos.max(1));
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{part:06}").trim_end_matches('0'))
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

/// Only the fields of this backoff: a sender may refuse others.
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

#[cfg(test)]
mod tests {
    use hookproof_judge::scenario::Bucket;

    use super::*;

    #[track_caller]
    fn check(rate: &str, expected: [(&str, &str); 5]) {
        let bucket = Bucket { rate: rate.parse().unwrap(), burst: 1 };
        let told = of_limit(&Limit { bucket: Some(bucket), ..Limit::default() });
        assert_eq!(expected.map(|(name, _)| (name, told[name].as_str())), expected, "{rate}");
    }

    #[test]
    fn a_cap_that_is_not_written_is_told_as_half_of_the_burst() {
        for (burst, written, told) in
            [(200, None, "10"), (9, None, "4"), (1, None, "1"), (200, Some(40), "40")]
        {
            let bucket = Bucket { rate: "9/s".parse().unwrap(), burst };
            let limit = Limit { bucket: Some(bucket), in_flight: written, ..Limit::default() };
            assert_eq!(of_limit(&limit)["in_flight"], told, "{burst} {written:?}");
        }
        assert_eq!(of_limit(&Limit::default())["in_flight"], "10000");
    }

    #[test]
    fn a_rate_is_told_exactly_and_where_it_cannot_be_never_too_high() {
        check(
            "30/min",
            [
                ("rate_count", "30"),
                ("rate_per", "1min"),
                ("rate_seconds", "60"),
                ("rate_per_second", "0.5"),
                ("rate_per_minute", "30"),
            ],
        );
        check(
            "100/3s",
            [
                ("rate_count", "100"),
                ("rate_per", "3s"),
                ("rate_seconds", "3"),
                ("rate_per_second", "33.333333"),
                ("rate_per_minute", "2000"),
            ],
        );
    }
}
