//! Attempts sent in each second, against the contract's limits.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::input::{Query, bad};
use super::moment;
use super::problem::{Problem, ok};
use crate::engine::contract::Contract;
use crate::engine::{Nanos, StoreTime};
use crate::operate::audit::{self, Limit};
use crate::store::read::AuditSecond;

const SECONDS_MAX: u32 = 10_000;
const SPAN_MAX: Nanos = Nanos::DAY;
const SPAN_DEFAULT: Nanos = Nanos::MINUTE;

/// `GET /v1/audit`
pub(super) async fn per_second(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["per", "subscriber", "from", "until"])?;
    query.word("per", &[("second", ())])?;
    let now = app.sender().clock().now();
    let until = moment_of(&query, "until")?.unwrap_or(now);
    let from = moment_of(&query, "from")?.unwrap_or(StoreTime(until.0.saturating_sub(SPAN_DEFAULT.0)));
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

fn moment_of(query: &Query, name: &str) -> Result<Option<StoreTime>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    moment::read(text).map(Some).ok_or_else(|| bad(name, text, moment::FORM))
}

fn shown(app: &App, second: &AuditSecond) -> Value {
    let roster = app.sender().roster();
    let subscriber = roster.get(second.lane);
    let limit = subscriber.map(|subscriber| limit_of(subscriber.settings().contract()));
    let (begin, counted) = (StoreTime::from_secs(second.second), (second.attempts, second.limited));
    let allowed = limit.as_ref().map(|limit| limit.most_in(Nanos::SECOND));
    let mut value = audit::shown(begin, subscriber.map(|known| &**known.id()), counted, allowed);
    value["above_rate"] = json!(limit.map(|limit| second.attempts > limit.rate_per_second()));
    value
}

/// An earlier contract may have allowed more.
fn limit_of(contract: &Contract) -> Limit {
    let (rate, burst) = (contract.bucket().rate(), contract.bucket().burst());
    let caps = contract.windows().iter().map(|window| (u64::from(window.limit()), window.length()));
    Limit { count: rate.count(), per: rate.per(), burst, caps: caps.collect() }
}
