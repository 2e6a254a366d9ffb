//! What was sent in each second, against what may be.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::input::{Query, bad};
use super::moment;
use super::problem::{Problem, ok};
use crate::engine::contract::Contract;
use crate::engine::{LaneId, Nanos, WallTime};
use crate::store::read::AuditSecond;

/// Seconds in one answer.
const SECONDS_MAX: u32 = 10_000;
/// The longest span of one question.
const SPAN_MAX: Nanos = Nanos::DAY;
/// The span, if none is given: the last so much.
const SPAN_DEFAULT: Nanos = Nanos::MINUTE;

/// `GET /v1/audit`
pub(super) async fn per_second(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["per", "subscriber", "from", "until"])?;
    query.word("per", &[("second", ())])?;
    let now = app.sender().clock().now();
    let until = moment_of(&query, "until")?.unwrap_or(now);
    let from = moment_of(&query, "from")?.unwrap_or(WallTime(until.0.saturating_sub(SPAN_DEFAULT.0)));
    if from >= until || until.since(from) > SPAN_MAX {
        let message = format!("from must lie before until, and not more than {SPAN_MAX} before");
        return Err(Problem::bad_request("bad_span", message).field("from"));
    }
    let lane = query.lane(&app).await?;
    let seconds = app.sender().read(move |reader| reader.audit(lane, from, until, SECONDS_MAX)).await??;
    let truncated = seconds.len() >= SECONDS_MAX as usize;
    let seconds: Vec<_> = seconds.iter().map(|second| shown(&app, second)).collect();
    Ok(ok(&json!({
        "from": moment::shown(from),
        "until": moment::shown(until),
        "seconds": seconds,
        "truncated": truncated,
    })))
}

fn moment_of(query: &Query, name: &str) -> Result<Option<WallTime>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    moment::read(text).map(Some).ok_or_else(|| bad(name, text, moment::FORM))
}

fn shown(app: &App, second: &AuditSecond) -> Value {
    let roster = app.sender().roster();
    let subscriber = roster.get(second.lane);
    let limits = subscriber.map(|subscriber| Limits::of(subscriber.settings().contract()));
    json!({
        "subscriber": subscriber.map(|subscriber| &**subscriber.id()),
        "second": moment::shown(WallTime::from_secs(second.second)),
        "attempts": second.attempts,
        "answered_429": second.limited,
        "allowed": limits.map(|limits| limits.in_one_second),
        "above_rate": limits.map(|limits| second.attempts > limits.rate_rounded_up),
        "above_contract": limits.map(|limits| second.attempts > limits.in_one_second),
    })
}

/// What a contract means for one second. It is the contract of now; one that was changed since may have allowed more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The rate, without the burst: more than that is paid for from what was saved before.
    rate_rounded_up: u64,
    /// The most that may begin in any one second.
    in_one_second: u64,
}

impl Limits {
    pub(super) fn of(contract: &Contract) -> Self {
        let bucket = contract.bucket();
        let in_second = |round_up: u64| {
            let (count, per) = (u128::from(bucket.rate().count()), u128::from(bucket.rate().per().0.max(1)));
            let exact = count * u128::from(Nanos::SECOND.0);
            u64::try_from((exact + u128::from(round_up) * (per - 1)) / per).unwrap_or(u64::MAX)
        };
        let by_bucket = in_second(0).saturating_add(u64::from(bucket.burst()));
        let caps = contract.windows().iter().filter(|window| window.length() >= Nanos::SECOND);
        let in_one_second = caps.map(|window| u64::from(window.limit())).fold(by_bucket, u64::min);
        Self { rate_rounded_up: in_second(1), in_one_second }
    }
}

/// The share of answers that were 429, of each lane that made attempts, in percent.
pub(super) fn share_429(seconds: &[AuditSecond]) -> Vec<(LaneId, u64, u64)> {
    let mut lanes = std::collections::BTreeMap::new();
    for second in seconds {
        let (attempts, limited) = lanes.entry(second.lane).or_insert((0, 0));
        *attempts += second.attempts;
        *limited += second.limited;
    }
    lanes.into_iter().map(|(lane, (attempts, limited))| (lane, attempts, limited)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::contract::{Bucket, Rate, Window};

    #[track_caller]
    fn check(rate: (u64, Nanos), burst: u32, windows: &[(u32, Nanos)], expected: (u64, u64)) {
        let bucket = Bucket::new(Rate::new(rate.0, rate.1).unwrap(), burst).unwrap();
        let windows = windows.iter().map(|(limit, length)| Window::new(*limit, *length).unwrap()).collect();
        let limits = Limits::of(&Contract::new(Some(bucket), windows, 10).unwrap());
        assert_eq!((limits.rate_rounded_up, limits.in_one_second), expected);
    }

    #[test]
    fn a_second_holds_the_rate_and_the_burst_but_never_more_than_a_cap() {
        check((50, Nanos::SECOND), 20, &[], (50, 70));
        check((50, Nanos::SECOND), 20, &[(60, Nanos::SECOND)], (50, 60));
        check((50, Nanos::SECOND), 20, &[(60, Nanos::MINUTE)], (50, 60));
        // A cap on less than a second may be used several times in one.
        check((50, Nanos::SECOND), 20, &[(10, Nanos::from_millis(100))], (50, 70));
        check((90, Nanos::MINUTE), 1, &[], (2, 2));
        check((60, Nanos::MINUTE), 1, &[], (1, 2));
    }
}
