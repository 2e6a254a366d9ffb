//! Figures for Prometheus. What the store counts holds for all processes on the database, and across restarts; what
//! only a lane's owner knows comes from the owner alone.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::exposition::{Exposition, Family, Type, Value};
use super::problem::Problem;
use crate::engine::{LaneId, LaneView, Nanos, StoreTime, UnderWay};
use crate::runtime::clock::Clock;
use crate::store::lane::LaneState;
use crate::store::latency::{Histogram, Measured};
use crate::store::read::{LaneStatus, Limited, Over, ReadError, Reader, Status};
use crate::store::thread::Health;

/// Lanes read at a time, and such pages at most: beyond 100,000 subscribers the last ones have no figures of their own.
const PAGE: u32 = 1_000;
const PAGES_MAX: u32 = 100;
/// Over which time the share of 429 is told.
const SHARE_OVER: Nanos = Nanos::from_secs(15);

/// The bounds of latency's buckets, as Prometheus reads them and in milliseconds: what alerts ask for (0.5 s, 2 s) is among
/// them, so that they compare counts and no estimate; up to the longest timeout that is common.
const LATENCY_BOUNDS: [(&str, u64); 14] = [
    ("0.005", 5),
    ("0.01", 10),
    ("0.025", 25),
    ("0.05", 50),
    ("0.1", 100),
    ("0.25", 250),
    ("0.5", 500),
    ("1", 1_000),
    ("1.5", 1_500),
    ("2", 2_000),
    ("3", 3_000),
    ("5", 5_000),
    ("8", 8_000),
    ("30", 30_000),
];

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let now = app.sender().clock().now();
    let figures = app.sender().read(move |reader| Figures::read(reader, now)).await??;
    let views = app.sender().views().await;
    let body = Exposition::body(|mut text| async move {
        totals(&mut text, &figures.status);
        lanes(&mut text, &figures, now).await;
        under_way(&mut text, &UnderWay::of(&views));
        owned(&mut text, &figures, &views, &app).await;
        store(&mut text, &app.sender().health());
        clock(&mut text, app.sender().clock());
        text
    });
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(Exposition::CONTENT_TYPE))];
    Ok((StatusCode::OK, kind, body).into_response())
}

/// What the store knows.
struct Figures {
    status: Status,
    lanes: Vec<LaneStatus>,
    limited: Vec<Limited>,
    /// In the order of lanes, by [`LENGTHS`].
    lengths: Vec<(LaneId, [Lengths; LENGTHS.len()])>,
}

/// What is told of a histogram. One that counts many different lengths takes several times the room.
struct Lengths {
    within: [u64; LATENCY_BOUNDS.len()],
    samples: u64,
    sum_us: u64,
}

impl Lengths {
    fn of(counted: &Histogram) -> Self {
        Self {
            within: LATENCY_BOUNDS.map(|(_, millis)| counted.at_most(Nanos::from_millis(millis))),
            samples: counted.samples(),
            sum_us: counted.sum_us(),
        }
    }
}

impl Figures {
    fn read(reader: &dyn Reader, now: StoreTime) -> Result<Self, ReadError> {
        let status = reader.status(now)?;
        let (mut lanes, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = reader.lanes(cursor, PAGE)?;
            lanes.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        lanes.retain(|lane| lane.state != LaneState::Removed);
        let since = StoreTime(now.0.saturating_sub(SHARE_OVER.0));
        let limited = reader.limited(since, now)?;
        let mut lengths = Vec::new();
        for lanes in lanes.chunks(PAGE as usize) {
            let ids: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
            for (lane, measured) in reader.latencies(&ids, Over::Ever)? {
                lengths.push((lane, LENGTHS.map(|(_, _, measure)| Lengths::of(measure(&measured)))));
            }
        }
        debug_assert!(lengths.is_sorted_by_key(|(lane, _)| *lane), "they are looked up by their lanes");
        Ok(Self { status, lanes, limited, lengths })
    }
}

fn totals(text: &mut Exposition, status: &Status) {
    let mut one = |name, kind, help, value: u64| text.family(name, kind, help).sample(&[], value);
    one("hookproof_accepted_total", Type::Counter, "Deliveries ever recorded.", status.counts.accepted);
    one(
        "hookproof_delivered_last_hour",
        Type::Gauge,
        "Deliveries made in the last hour.",
        status.delivered_last_hour,
    );
    one(
        "hookproof_failed_last_hour",
        Type::Gauge,
        "Attempts that failed in the last hour.",
        status.failed_last_hour,
    );
    one(
        "hookproof_dead_last_hour",
        Type::Gauge,
        "Dead letters made in the last hour, less the redriven.",
        status.dead_last_hour,
    );
    one(
        "hookproof_unreadable_rows",
        Type::Gauge,
        "Dead letters kept of which some part could not be read.",
        status.unreadable,
    );
    one("hookproof_outbox_rows", Type::Gauge, "Rows that wait in the outbox.", status.outbox);
    one(
        "hookproof_outbox_rejected_rows",
        Type::Gauge,
        "Rows of the outbox set aside.",
        status.outbox_rejected,
    );
    let mut family = text.family("hookproof_subscribers", Type::Gauge, "Subscribers by state.");
    for (state, count) in ["active", "paused", "disabled"].into_iter().zip(status.subscribers) {
        family.sample(&[("state", state)], count);
    }
}

/// A figure of each lane, by its name, what it may do and what it is.
type OfLane<T, V> = (&'static str, Type, &'static str, fn(&T) -> V);

/// What is dead falls when dead letters are redriven, so it is no counter.
const OF_STORED: [OfLane<LaneStatus, u64>; 10] = [
    ("hookproof_delivered_total", Type::Counter, "Deliveries that endpoints took.", |lane| {
        lane.counts.delivered
    }),
    ("hookproof_failed_attempts_total", Type::Counter, "Attempts that failed.", |lane| {
        lane.counts.failed_attempts
    }),
    ("hookproof_coalesced_total", Type::Counter, "Deliveries replaced by newer ones.", |lane| {
        lane.counts.coalesced
    }),
    ("hookproof_dead", Type::Gauge, "Deliveries given up and not redriven.", |lane| lane.counts.dead),
    ("hookproof_dead_kept", Type::Gauge, "Dead letters kept.", |lane| lane.counts.dead_kept),
    ("hookproof_waiting", Type::Gauge, "Deliveries that wait.", |lane| lane.counts.waiting),
    ("hookproof_waiting_max", Type::Gauge, "Deliveries that may wait.", |lane| lane.bounds.rows_max),
    ("hookproof_waiting_bytes", Type::Gauge, "Bytes of bodies that wait.", |lane| lane.counts.waiting_bytes),
    ("hookproof_waiting_bytes_max", Type::Gauge, "Bytes of bodies that may wait.", |lane| {
        lane.bounds.bytes_max
    }),
    ("hookproof_retrying", Type::Gauge, "Deliveries that wait and were tried before.", |lane| {
        lane.counts.retrying
    }),
];

async fn lanes(text: &mut Exposition, figures: &Figures, now: StoreTime) {
    for (name, kind, help, value) in OF_STORED {
        per_lane(text.family(name, kind, help), &figures.lanes, |lane| Some(value(lane).into())).await;
    }
    let help = "How long the longest due delivery has been due; nothing, where an operator holds it back.";
    let family = text.family("hookproof_oldest_due_age_seconds", Type::Gauge, help);
    per_lane(family, &figures.lanes, |lane| {
        let due = lane.next.filter(|_| lane.state == LaneState::Active);
        Some(Value::Millionths(due.map_or(0, |due| now.since(due).0 / 1_000)))
    })
    .await;
    for (place, (name, help, _)) in LENGTHS.into_iter().enumerate() {
        lengths(text.family(name, Type::Histogram, help), figures, place).await;
    }
}

/// Of what was measured, one part.
type Measure = fn(&Measured) -> &Histogram;

/// How long things took, by name.
const LENGTHS: [(&str, &str, Measure); 3] = [
    ("hookproof_latency_seconds", "How long attempts took of which something was sent.", |measured| {
        &measured.answer
    }),
    (
        "hookproof_first_attempt_seconds",
        "From when an event was received to the first attempt of its delivery.",
        |measured| &measured.first_attempt,
    ),
    (
        "hookproof_delivery_seconds",
        "From when an event was received to the end of the attempt that delivered it.",
        |measured| &measured.delivery,
    ),
];

/// The family at that place of [`LENGTHS`].
async fn lengths(mut family: Family<'_>, figures: &Figures, place: usize) {
    for lane in &figures.lanes {
        let Ok(found) = figures.lengths.binary_search_by_key(&lane.lane, |(lane, _)| *lane) else { continue };
        let Lengths { within, samples, sum_us } = &figures.lengths[found].1[place];
        let labels = |le| [("subscriber", &*lane.id), ("name", &*lane.name), ("le", le)];
        for ((le, _), within) in LATENCY_BOUNDS.into_iter().zip(within) {
            family.with_suffix("_bucket", &labels(le), *within);
        }
        family.with_suffix("_bucket", &labels("+Inf"), *samples);
        let [subscriber, name, _] = labels("");
        family.with_suffix("_sum", &[subscriber, name], Value::Millionths(*sum_us));
        family.with_suffix("_count", &[subscriber, name], *samples);
        family.pause().await;
    }
}

/// The requests of this process, of all its lanes together: beyond the lanes that have figures of their own, too.
fn under_way(text: &mut Exposition, requests: &UnderWay) {
    let mut one = |name, help, value: u64| text.family(name, Type::Gauge, help).sample(&[], value);
    let help = "Attempts of this process whose request may yet arrive, of all subscribers.";
    one("hookproof_attempts_in_flight", help, requests.in_flight);
    let help = "Those of them that ended without an answer.";
    one("hookproof_attempts_in_doubt", help, requests.in_doubt);
}

/// What a lane's owner alone knows.
const OF_OWNED: [OfLane<LaneView, Value>; 6] = [
    ("hookproof_in_flight", Type::Gauge, "Attempts whose request may yet arrive.", |view| {
        u64::from(view.in_flight).into()
    }),
    ("hookproof_bucket_level", Type::Gauge, "How full the bucket is, in attempts.", |view| view.level.into()),
    (
        "hookproof_share",
        Type::Gauge,
        "How much of its contract a lane works at under pressure, from 0 to 1.",
        |view| Value::Millionths(u64::from(view.share_percent) * 10_000),
    ),
    (
        "hookproof_latency_target_seconds",
        Type::Gauge,
        "How long answers may take before the share is lowered; 0 while too few have come to say.",
        |view| Value::Millionths(view.target.unwrap_or_default().0 / 1_000),
    ),
    ("hookproof_breaker_open", Type::Gauge, "Whether the breaker holds attempts back.", |view| {
        view.breaker.is_open().into()
    }),
    (
        "hookproof_endpoint_pause_seconds",
        Type::Gauge,
        "How much longer the endpoint wants to be left alone.",
        |view| Value::Millionths(view.paused_for.0 / 1_000),
    ),
];

/// What the owner of lanes knows of them.
async fn owned(text: &mut Exposition, figures: &Figures, views: &[LaneView], app: &App) {
    let views: BTreeMap<LaneId, &LaneView> = views.iter().map(|view| (view.lane, view)).collect();
    for (name, kind, help, value) in OF_OWNED {
        let of_lane = |lane: &LaneStatus| views.get(&lane.lane).map(|view| value(view));
        per_lane(text.family(name, kind, help), &figures.lanes, of_lane).await;
    }
    let roster = app.sender().roster();
    let help = "How full the bucket may be, in attempts.";
    per_lane(text.family("hookproof_bucket_burst", Type::Gauge, help), &figures.lanes, |lane| {
        let burst = || roster.get(lane.lane).map_or(0, |known| known.settings().contract().bucket().burst());
        views.contains_key(&lane.lane).then(|| Value::from(u64::from(burst())))
    })
    .await;
    let names: BTreeMap<LaneId, &LaneStatus> = figures.lanes.iter().map(|lane| (lane.lane, lane)).collect();
    let help = "The share of attempts that were answered 429 in the last 15 s, from 0 to 1.";
    let mut family = text.family("hookproof_answered_429_share", Type::Gauge, help);
    for Limited { lane, attempts, limited } in &figures.limited {
        if let Some(lane) = names.get(lane) {
            let share = limited.saturating_mul(1_000_000) / (*attempts).max(1);
            family.sample(&[("subscriber", &lane.id), ("name", &lane.name)], Value::Millionths(share));
            family.pause().await;
        }
    }
}

fn store(text: &mut Exposition, health: &Health) {
    let mut one = |name, kind, help, value: u64| text.family(name, kind, help).sample(&[], value);
    let failing = u64::from(health.failing.is_some() || health.reserve_left.is_some());
    one("hookproof_store_failing", Type::Gauge, "Whether the store cannot write events.", failing);
    one("hookproof_store_log_bytes", Type::Gauge, "How long the database's log is.", health.log_bytes);
    let waiting = u64::try_from(health.requests).unwrap_or(u64::MAX);
    one("hookproof_store_requests_waiting", Type::Gauge, "Requests that wait for the store.", waiting);
    one(
        "hookproof_store_commits_total",
        Type::Counter,
        "Commits that wrote something.",
        health.written.commits,
    );
    one("hookproof_store_rows_total", Type::Counter, "Rows written by this process.", health.written.rows);
    one(
        "hookproof_store_recorded_total",
        Type::Counter,
        "Deliveries recorded by this process.",
        health.written.recorded,
    );
    one(
        "hookproof_store_settled_total",
        Type::Counter,
        "Deliveries settled by this process.",
        health.written.settled,
    );
    let help = "Deliveries that this process gave up to make room for new ones.";
    one("hookproof_shed_total", Type::Counter, help, health.written.shed);
    let help = "Dead letters that this process forgot, as more were kept than may be.";
    one("hookproof_dead_forgotten_total", Type::Counter, help, health.written.forgotten);
}

/// The steady clock beside the wall clock, as far as that is worth a word.
fn clock(text: &mut Exposition, clock: Clock) {
    let mut one = |name, help, off: Option<Nanos>| {
        let value = Value::Millionths(off.map_or(0, |off| off.0 / 1_000));
        text.family(name, Type::Gauge, help).sample(&[], value);
    };
    one(
        "hookproof_clock_ahead_seconds",
        "How far the database's time is ahead of the wall clock.",
        clock.ahead(),
    );
    one("hookproof_clock_behind_seconds", "How far it is behind.", clock.behind());
}

/// A sample for each of the lanes of which there is something to tell.
async fn per_lane(
    mut family: Family<'_>,
    lanes: &[LaneStatus],
    value: impl Fn(&LaneStatus) -> Option<Value>,
) {
    for lane in lanes {
        if let Some(value) = value(lane) {
            family.sample(&[("subscriber", &lane.id), ("name", &lane.name)], value);
            family.pause().await;
        }
    }
}
