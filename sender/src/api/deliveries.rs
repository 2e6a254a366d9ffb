use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde_json::{Value, json};

use super::input::{Query, Segment, bad};
use super::problem::{Problem, ok};
use super::token::Caller;
use super::{App, input};
use crate::delivery_ids::DeliveryIds;
use crate::engine::contract::Contract;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::event::PublicId;
use crate::event::timestamp::{TIME_FORM, parse_time};
use crate::excerpt::Excerpt;
use crate::operate::deliveries::{self, Tracked};
use crate::operate::flow::{Flows, Present};
use crate::operate::json_forms::{self, Limit};
use crate::roster::Roster;
use crate::store::StoreError;
use crate::store::paging::Page;
use crate::store::read::{AuditSecond, Delivery, Filter, Lanes, Place, Tries};

const PLACES: [(&str, Place); 5] = [
    ("waiting", Place::Waiting),
    ("delivered", Place::Delivered),
    ("dead", Place::Dead),
    ("coalesced", Place::Coalesced),
    ("forgotten", Place::Forgotten),
];

/// `GET /v1/deliveries`
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["subscriber", "state", "event", "limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let (lanes, place) = (query.lanes(&app, &caller).await?, query.word("state", &PLACES)?);
    let event = query.get("event");
    if let Some(event) = event.filter(|_| place.is_some() || query.get("subscriber").is_some()) {
        return Err(bad("event", event, "no other parameters than limit and cursor"));
    }
    let event = event.map(ToOwned::to_owned);
    let found = app.sender().read(move |reader| match event {
        Some(event) => reader.deliveries_of_event(&event, &lanes, cursor, limit),
        None => reader.deliveries(Filter { lanes, place }, cursor, limit),
    });
    let found = found.await??;
    Ok(shown_page(&Names::now(&app).await?, &found))
}

/// `GET /v1/attempts`
pub(super) async fn attempts(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["subscriber", "failed", "limit", "cursor"])?;
    let (cursor, limit) = (query.cursor()?, query.limit()?);
    let failed = query.word("failed", &[("true", true), ("false", false)])?.unwrap_or_default();
    let of = Tries { lanes: query.lanes(&app, &caller).await?, failed };
    let found = app.sender().read(move |reader| reader.attempts(of, cursor, limit)).await??;
    let names = Names::now(&app).await?;
    let items = found.items.iter().map(|tried| {
        let id = tried.received.map(|received| names.ids.name(received, tried.attempted.delivery));
        deliveries::tried_json(tried, id.as_ref(), names.subscriber(tried.lane))
    });
    Ok(ok(&json!({ "items": items.collect::<Vec<_>>(), "next": found.next.map(|next| next.to_string()) })))
}

pub(super) fn shown_page(names: &Names, page: &Page<Delivery>) -> Response {
    let items: Vec<_> = page.items.iter().map(|delivery| to_json(delivery, names)).collect();
    ok(&json!({ "items": items, "next": page.next.map(|next| next.to_string()) }))
}

/// `GET /v1/deliveries/{id}`
pub(super) async fn show(
    State(app): State<App>,
    Segment(id): Segment,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let names = Names::now(&app).await?;
    let delivery = names.find(&app, &caller, &id).await?;
    let present = Present::of(app.sender()).await;
    let found = app.sender().read(move |reader| {
        let flows = Flows::read(reader, present.roster, present.views, present.now)?;
        Tracked::read(reader, &flows, delivery)
    });
    let found = found.await??.ok_or_else(|| unknown(&id))?;
    let id = names.ids.name(found.delivery.received, found.delivery.delivery);
    Ok(ok(&found.to_json(&id, names.subscriber(found.delivery.lane))))
}

pub(super) fn unknown(id: &str) -> Problem {
    let message = format!("there is no delivery {}; its record may have expired", Excerpt::of(id));
    Problem::not_found("unknown_delivery", message)
}

pub(super) struct Names {
    roster: Arc<Roster>,
    ids: DeliveryIds,
}

impl Names {
    pub(super) async fn now(app: &App) -> Result<Self, StoreError> {
        Ok(Self { roster: app.sender().roster(), ids: app.delivery_ids().await? })
    }

    fn subscriber(&self, lane: LaneId) -> Option<&str> {
        self.roster.get(lane).map(|known| &**known.id())
    }

    /// Only for a restricted caller it checks that the delivery exists.
    pub(super) async fn find(&self, app: &App, caller: &Caller, id: &str) -> Result<DeliveryId, Problem> {
        let found = self.decode(id).ok_or_else(|| unknown(id))?;
        if caller.is_restricted() {
            let delivery = app.sender().read(move |reader| reader.delivery(found)).await??;
            let lanes = caller.lanes(&app.sender().roster());
            delivery.filter(|delivery| lanes.have(delivery.lane)).ok_or_else(|| unknown(id))?;
        }
        Ok(found)
    }

    pub(super) fn decode(&self, id: &str) -> Option<DeliveryId> {
        let found = self.ids.find(&id.parse::<PublicId>().ok()?)?;
        // The store uses signed numbers.
        i64::try_from(found.0).is_ok().then_some(found)
    }
}

pub(super) fn to_json(delivery: &Delivery, names: &Names) -> Value {
    let id = names.ids.name(delivery.received, delivery.delivery);
    deliveries::to_json(delivery, &id, names.subscriber(delivery.lane))
}

const SECONDS_MAX: u32 = 10_000;
const SPAN_MAX: Nanos = Nanos::DAY;
const SPAN_DEFAULT: Nanos = Nanos::MINUTE;

/// `GET /v1/audit`
pub(super) async fn per_second(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["per", "subscriber", "from", "until"])?;
    query.word("per", &[("second", ())])?;
    let now = app.sender().clock().now();
    let until = moment_of(&query, "until")?.unwrap_or(now);
    let from = moment_of(&query, "from")?.unwrap_or(StoreTime(until.0.saturating_sub(SPAN_DEFAULT.0)));
    if from >= until || until.since(from) > SPAN_MAX {
        let message = format!("`from` must be before `until`, by at most {SPAN_MAX}");
        return Err(Problem::bad_request("bad_span", message).field("from"));
    }
    let lane = match query.lanes(&app, &caller).await? {
        Lanes::All => None,
        Lanes::One(lane) => Some(lane),
        Lanes::These(_) => return Err(Problem::restricted("it names no `subscriber`")),
    };
    let seconds = app.sender().read(move |reader| reader.audit(lane, from, until, SECONDS_MAX)).await??;
    let truncated = seconds.len() >= SECONDS_MAX as usize;
    let seconds: Vec<_> = seconds.iter().map(|second| audited(&app, second)).collect();
    Ok(ok(&json!({
        "from": input::time_text(from),
        "until": input::time_text(until),
        "seconds": seconds,
        "truncated": truncated,
    })))
}

fn moment_of(query: &Query, name: &str) -> Result<Option<StoreTime>, Problem> {
    let Some(text) = query.get(name) else { return Ok(None) };
    parse_time(text).map(Some).ok_or_else(|| bad(name, text, TIME_FORM))
}

fn audited(app: &App, second: &AuditSecond) -> Value {
    let roster = app.sender().roster();
    let subscriber = roster.get(second.lane);
    let limit = subscriber.map(|subscriber| limit_of(subscriber.settings().contract()));
    let (begin, counted) = (StoreTime::from_secs(second.second), (second.attempts, second.limited));
    let allowed = limit.as_ref().map(|limit| limit.most_in(Nanos::SECOND));
    let mut value = json_forms::audit(begin, subscriber.map(|known| &**known.id()), counted, allowed);
    value["above_rate"] = json!(limit.map(|limit| second.attempts > limit.rate_per_second()));
    value
}

/// An earlier contract may have allowed more.
fn limit_of(contract: &Contract) -> Limit {
    let (rate, burst) = (contract.bucket().rate(), contract.bucket().burst());
    let caps = contract.windows().iter().map(|window| (u64::from(window.limit()), window.length()));
    Limit { count: rate.count(), per: rate.per(), burst, caps: caps.collect() }
}
