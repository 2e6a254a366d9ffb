//! Metrics for Prometheus. The store's counts cover all processes and survive restarts; only a lane's owner
//! reports the lane's own state.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::App;
use super::exposition::{Counted, Exposition, Family, Gathered, Type, Value};
use super::input::Query;
use super::problem::Problem;
use crate::engine::{LaneId, LaneView, Nanos, StoreTime, UnderWay};
use crate::roster::Roster;
use crate::runtime::Sender;
use crate::runtime::clock::Clock;
use crate::store::lane::LaneState;
use crate::store::latency::{Histogram, Measured};
use crate::store::read::{LaneStatus, Limited, Over, ReadError, Reader, Status};
use crate::store::thread::Health;

/// Beyond 100,000 subscribers, the last ones have no metrics of their own.
const PAGE: u32 = 1_000;
const PAGES_MAX: u32 = 100;
const SHARE_OVER: Nanos = Nanos::from_secs(15);

/// Text and milliseconds. They include the alerts' thresholds (0.5 s, 2 s).
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

/// Lanes shown by default: first those that [need attention](Need).
const LANES_MAX: usize = 100;

/// `GET /metrics`
pub(super) async fn metrics(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(uri.query(), &["lanes"])?;
    let lanes_max = query.word("lanes", &[("all", usize::MAX)])?.unwrap_or(LANES_MAX);
    let moment = Moment::read(app.sender().clone(), lanes_max).await?;
    let body = Exposition::body(|text| moment.write(text));
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(Exposition::CONTENT_TYPE))];
    Ok((StatusCode::OK, kind, body).into_response())
}

/// The families for OTLP, with the default number of lanes.
pub(super) async fn gathered(sender: &Sender) -> Result<Vec<Gathered>, Problem> {
    let moment = Moment::read(sender.clone(), LANES_MAX).await?;
    match moment.write(Exposition::Gathered(Vec::new())).await {
        Exposition::Gathered(all) => Ok(all),
        Exposition::Text(_) => Ok(Vec::new()),
    }
}

struct Moment {
    sender: Sender,
    now: StoreTime,
    views: Vec<LaneView>,
    figures: Figures,
}

impl Moment {
    async fn read(sender: Sender, lanes_max: usize) -> Result<Self, Problem> {
        let (now, views) = (sender.clock().now(), sender.views().await);
        let (known, roster) = (views.clone(), sender.roster());
        let read = move |reader: &dyn Reader| {
            Figures::read(reader, now, lanes_max, &Known::new(&known, &roster, now))
        };
        let figures = sender.read(read).await??;
        Ok(Self { sender, now, views, figures })
    }

    async fn write(self, mut text: Exposition) -> Exposition {
        let Self { sender, now, views, figures } = self;
        totals(&mut text, &figures.status);
        of_all_lanes(&mut text, &figures);
        lanes(&mut text, &figures, now).await;
        under_way(&mut text, &UnderWay::of(&views));
        owned(&mut text, &figures, &views, &sender.roster()).await;
        store(&mut text, &sender.health());
        clock(&mut text, sender.clock());
        if let Some(spans) = sender.spans() {
            let help = "Spans that were not exported: the collector failed, or too many waited.";
            text.family("hookproof_spans_dropped_total", Type::Counter, help).sample(&[], spans.dropped());
        }
        text
    }
}

/// The most urgent first. Covers everything that holds a lane back, so an omitted lane is in steady state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    BreakerOpen,
    /// Its endpoint answered 410, or failed for long.
    Disabled,
    /// Its oldest delivery has been due for a minute.
    Behind,
    /// Below its contract, its endpoint asked for a pause, or it answers 429.
    Throttled,
    /// Its queue is 80 % full.
    NearlyFull,
    /// Its bucket is full while deliveries wait.
    HeldToContract,
    Nothing,
}

impl Need {
    const ALL: [(&str, Self); 7] = [
        ("breaker_open", Self::BreakerOpen),
        ("disabled", Self::Disabled),
        ("behind", Self::Behind),
        ("throttled", Self::Throttled),
        ("nearly_full", Self::NearlyFull),
        ("held_to_contract", Self::HeldToContract),
        ("nothing", Self::Nothing),
    ];
}

struct Known<'a> {
    views: BTreeMap<LaneId, &'a LaneView>,
    roster: &'a Roster,
    now: StoreTime,
}

impl<'a> Known<'a> {
    fn new(views: &'a [LaneView], roster: &'a Roster, now: StoreTime) -> Self {
        Self { views: views.iter().map(|view| (view.lane, view)).collect(), roster, now }
    }

    fn need(&self, lane: &LaneStatus, limited: Option<&Limited>) -> Need {
        let (counts, bounds) = (&lane.counts, &lane.bounds);
        let view = self.views.get(&lane.lane);
        let is = |holds: fn(&LaneView) -> bool| view.is_some_and(|view| holds(view));
        let due = lane.next.filter(|_| lane.state == LaneState::Active);
        let is_nearly = |waits: u64, max: u64| waits.saturating_mul(5) > max.saturating_mul(4);
        if is(|view| view.holds.breaker.is_open()) {
            Need::BreakerOpen
        } else if lane.state == LaneState::Disabled {
            Need::Disabled
        } else if due.is_some_and(|due| self.now.since(due) > Nanos::MINUTE) {
            Need::Behind
        } else if is(|view| view.share_percent < 100 || view.paused_for > Nanos::ZERO)
            || limited.is_some_and(|it| it.limited.saturating_mul(20) > it.attempts)
        {
            Need::Throttled
        } else if is_nearly(counts.waiting, bounds.rows_max)
            || is_nearly(counts.waiting_bytes, bounds.bytes_max)
        {
            Need::NearlyFull
        } else if view.is_some_and(|view| {
            let in_flight = u64::from(view.in_flight);
            counts.waiting > in_flight && view.level + in_flight >= burst(self.roster, lane.lane)
        }) {
            Need::HeldToContract
        } else {
            Need::Nothing
        }
    }

    /// The largest backlog first, in their order.
    fn choose(&self, lanes: Vec<LaneStatus>, limited: &[Limited], max: usize) -> Chosen {
        let limited: BTreeMap<LaneId, &Limited> = limited.iter().map(|it| (it.lane, it)).collect();
        let mut needs = [0; Need::ALL.len()];
        let mut by_need: Vec<_> = lanes
            .into_iter()
            .map(|lane| {
                let need = self.need(&lane, limited.get(&lane.lane).copied());
                needs[need as usize] += 1;
                (need, lane)
            })
            .collect();
        by_need.sort_by_key(|(need, lane)| (*need, Reverse(lane.counts.waiting), lane.lane));
        let mut left_out = [0; 2];
        for (need, _) in by_need.iter().skip(max) {
            left_out[usize::from(*need == Need::Nothing)] += 1;
        }
        let mut shown: Vec<_> = by_need.into_iter().take(max).map(|(_, lane)| lane).collect();
        shown.sort_by_key(|lane| lane.lane);
        Chosen { shown, needs, left_out }
    }
}

struct Chosen {
    shown: Vec<LaneStatus>,
    needs: [u64; Need::ALL.len()],
    /// Omitted lanes with needs, and the others.
    left_out: [u64; 2],
}

fn burst(roster: &Roster, lane: LaneId) -> u64 {
    roster.get(lane).map_or(0, |known| known.settings().contract().bucket().burst().into())
}

struct Figures {
    status: Status,
    lanes: Vec<LaneStatus>,
    needs: [u64; Need::ALL.len()],
    left_out: [u64; 2],
    limited: Vec<Limited>,
    all_lengths: [Lengths; LENGTHS.len()],
    lengths: Vec<(LaneId, [Lengths; LENGTHS.len()])>,
}

/// The exported part, several times smaller than a histogram.
#[derive(Clone, Copy, Default)]
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

    fn write(&self, family: &mut Family<'_>, labels: &[(&str, &str)]) {
        let within = LATENCY_BOUNDS.into_iter().map(|(le, _)| le).zip(self.within).collect();
        family.histogram(
            labels,
            Counted { within, samples: self.samples, sum: Value::Millionths(self.sum_us) },
        );
    }

    fn add(&mut self, other: &Self) {
        self.within.iter_mut().zip(other.within).for_each(|(sum, count)| *sum += count);
        self.samples += other.samples;
        self.sum_us += other.sum_us;
    }
}

impl Figures {
    fn read(
        reader: &dyn Reader,
        now: StoreTime,
        lanes_max: usize,
        known: &Known<'_>,
    ) -> Result<Self, ReadError> {
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
        // The totals include removed lanes, and must not fall.
        let ids: Vec<_> = lanes.iter().map(|lane| lane.lane).collect();
        lanes.retain(|lane| lane.state != LaneState::Removed);
        let since = StoreTime(now.0.saturating_sub(SHARE_OVER.0));
        let limited = reader.limited(since, now)?;
        let Chosen { shown: lanes, needs, left_out } = known.choose(lanes, &limited, lanes_max);
        let (mut lengths, mut all_lengths) = (Vec::new(), [Lengths::default(); LENGTHS.len()]);
        for ids in ids.chunks(PAGE as usize) {
            for (lane, measured) in reader.latencies(ids, Over::Ever)? {
                let found = LENGTHS.map(|(_, _, _, measure)| Lengths::of(measure(&measured)));
                all_lengths.iter_mut().zip(&found).for_each(|(sum, lengths)| sum.add(lengths));
                if lanes.binary_search_by_key(&lane, |lane| lane.lane).is_ok() {
                    lengths.push((lane, found));
                }
            }
        }
        debug_assert!(lengths.is_sorted_by_key(|(lane, _)| *lane), "they are looked up by their lanes");
        Ok(Self { status, lanes, needs, left_out, limited, all_lengths, lengths })
    }
}

fn totals(text: &mut Exposition, status: &Status) {
    let mut one = |name, kind, help, value: u64| text.family(name, kind, help).sample(&[], value);
    one(
        "hookproof_accepted_total",
        Type::Counter,
        "Deliveries ever recorded; one sent again after it was delivered counts anew.",
        status.counts.accepted,
    );
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
        "Dead letters of the last hour, without redriven ones.",
        status.dead_last_hour,
    );
    one(
        "hookproof_unreadable_rows",
        Type::Gauge,
        "Unreadable dead letters in the database.",
        status.unreadable,
    );
    one("hookproof_outbox_rows", Type::Gauge, "Rows waiting in the outbox.", status.outbox);
    one(
        "hookproof_outbox_rejected_rows",
        Type::Gauge,
        "Rejected rows of the outbox.",
        status.outbox_rejected,
    );
    let mut family = text.family("hookproof_subscribers", Type::Gauge, "Subscribers by state.");
    for (state, count) in ["active", "paused", "disabled"].into_iter().zip(status.subscribers) {
        family.sample(&[("state", state)], count);
    }
}

fn of_all_lanes(text: &mut Exposition, figures: &Figures) {
    let counts = &figures.status.counts;
    let mut one = |name, kind, help, value: u64| text.family(name, kind, help).sample(&[], value);
    let help = "Deliveries answered with 2xx, of all subscribers.";
    one("hookproof_all_delivered_total", Type::Counter, help, counts.delivered);
    let help = "Attempts that failed, of all subscribers.";
    one("hookproof_all_failed_attempts_total", Type::Counter, help, counts.failed_attempts);
    let help = "Deliveries replaced by newer ones or forgotten, of all subscribers.";
    one("hookproof_all_coalesced_total", Type::Counter, help, counts.coalesced);
    let help = "Dead letters ever made and not redriven or forgotten, of all subscribers.";
    one("hookproof_all_dead", Type::Gauge, help, counts.dead);
    one("hookproof_all_waiting", Type::Gauge, "Waiting deliveries of all subscribers.", counts.waiting);
    let help = "Bytes of waiting bodies of all subscribers.";
    one("hookproof_all_waiting_bytes", Type::Gauge, help, counts.waiting_bytes);
    for ((_, name, help, _), lengths) in LENGTHS.into_iter().zip(&figures.all_lengths) {
        lengths.write(&mut text.family(name, Type::Histogram, help), &[]);
    }
    let help = "Subscribers by their most urgent problem known to this process.";
    let mut family = text.family("hookproof_subscribers_in_need", Type::Gauge, help);
    for ((need, _), count) in Need::ALL.into_iter().zip(figures.needs) {
        family.sample(&[("need", need)], count);
    }
    let help = "Subscribers without metrics of their own here; /metrics?lanes=all has them all.";
    let mut family = text.family("hookproof_subscribers_left_out", Type::Gauge, help);
    for (attention, count) in ["true", "false"].into_iter().zip(figures.left_out) {
        family.sample(&[("attention", attention)], count);
    }
}

type OfLane<T, V> = (&'static str, Type, &'static str, fn(&T) -> V);

/// Redrives reduce the dead letters, so that is not a counter.
const OF_STORED: [OfLane<LaneStatus, u64>; 10] = [
    ("hookproof_delivered_total", Type::Counter, "Deliveries answered with 2xx.", |lane| {
        lane.counts.delivered
    }),
    ("hookproof_failed_attempts_total", Type::Counter, "Attempts that failed.", |lane| {
        lane.counts.failed_attempts
    }),
    ("hookproof_coalesced_total", Type::Counter, "Deliveries replaced by newer ones or forgotten.", |lane| {
        lane.counts.coalesced
    }),
    ("hookproof_dead", Type::Gauge, "Dead letters ever made and not redriven or forgotten.", |lane| {
        lane.counts.dead
    }),
    ("hookproof_dead_kept", Type::Gauge, "Dead letters in the database.", |lane| lane.counts.dead_kept),
    ("hookproof_waiting", Type::Gauge, "Waiting deliveries.", |lane| lane.counts.waiting),
    ("hookproof_waiting_max", Type::Gauge, "Limit of waiting deliveries.", |lane| lane.bounds.rows_max),
    ("hookproof_waiting_bytes", Type::Gauge, "Bytes of waiting bodies.", |lane| lane.counts.waiting_bytes),
    ("hookproof_waiting_bytes_max", Type::Gauge, "Limit of bytes of waiting bodies.", |lane| {
        lane.bounds.bytes_max
    }),
    ("hookproof_retrying", Type::Gauge, "Waiting deliveries with a failed attempt.", |lane| {
        lane.counts.retrying
    }),
];

async fn lanes(text: &mut Exposition, figures: &Figures, now: StoreTime) {
    for (name, kind, help, value) in OF_STORED {
        per_lane(text.family(name, kind, help), &figures.lanes, |lane| Some(value(lane).into())).await;
    }
    let help = "How long the longest due delivery has been due; absent while the subscriber is paused.";
    let family = text.family("hookproof_oldest_due_age_seconds", Type::Gauge, help);
    per_lane(family, &figures.lanes, |lane| {
        let due = lane.next.filter(|_| lane.state == LaneState::Active);
        Some(Value::Millionths(due.map_or(0, |due| now.since(due).0 / 1_000)))
    })
    .await;
    for (place, (name, _, help, _)) in LENGTHS.into_iter().enumerate() {
        lengths(text.family(name, Type::Histogram, help), figures, place).await;
    }
}

type Measure = fn(&Measured) -> &Histogram;

/// The name for a lane, the name for all, the help, and the histogram.
const LENGTHS: [(&str, &str, &str, Measure); 3] = [
    (
        "hookproof_latency_seconds",
        "hookproof_all_latency_seconds",
        "Duration of attempts that sent at least one byte.",
        |measured| &measured.answer,
    ),
    (
        "hookproof_first_attempt_seconds",
        "hookproof_all_first_attempt_seconds",
        "Time from emit to the first attempt of the delivery.",
        |measured| &measured.first_attempt,
    ),
    (
        "hookproof_delivery_seconds",
        "hookproof_all_delivery_seconds",
        "Time from emit to the end of the successful attempt.",
        |measured| &measured.delivery,
    ),
];

async fn lengths(mut family: Family<'_>, figures: &Figures, place: usize) {
    for lane in &figures.lanes {
        let Ok(found) = figures.lengths.binary_search_by_key(&lane.lane, |(lane, _)| *lane) else { continue };
        let labels = [("subscriber", &*lane.id), ("name", &*lane.name)];
        figures.lengths[found].1[place].write(&mut family, &labels);
        family.pause().await;
    }
}

fn under_way(text: &mut Exposition, requests: &UnderWay) {
    let mut one = |name, help, value: u64| text.family(name, Type::Gauge, help).sample(&[], value);
    let help = "Attempts in flight or in doubt of this process, of all subscribers.";
    one("hookproof_attempts_in_flight", help, requests.in_flight);
    let help = "Attempts in doubt: they ended without an answer and may still arrive.";
    one("hookproof_attempts_in_doubt", help, requests.in_doubt);
}

const OF_OWNED: [OfLane<LaneView, Value>; 6] = [
    ("hookproof_in_flight", Type::Gauge, "Attempts in flight or in doubt.", |view| {
        u64::from(view.in_flight).into()
    }),
    ("hookproof_bucket_level", Type::Gauge, "Attempts that the token bucket allows now.", |view| {
        view.level.into()
    }),
    (
        "hookproof_share",
        Type::Gauge,
        "Share of the contract that the throttle allows, from 0 to 1.",
        |view| Value::Millionths(u64::from(view.share_percent) * 10_000),
    ),
    (
        "hookproof_latency_target_seconds",
        Type::Gauge,
        "Answer time above which the throttle lowers the share; 0 until enough answers came.",
        |view| Value::Millionths(view.target.unwrap_or_default().0 / 1_000),
    ),
    ("hookproof_breaker_open", Type::Gauge, "1 if the circuit breaker is open.", |view| {
        view.holds.breaker.is_open().into()
    }),
    (
        "hookproof_endpoint_pause_seconds",
        Type::Gauge,
        "Remaining time of Retry-After of the endpoint.",
        |view| Value::Millionths(view.paused_for.0 / 1_000),
    ),
];

async fn owned(text: &mut Exposition, figures: &Figures, views: &[LaneView], roster: &Roster) {
    let views: BTreeMap<LaneId, &LaneView> = views.iter().map(|view| (view.lane, view)).collect();
    for (name, kind, help, value) in OF_OWNED {
        let of_lane = |lane: &LaneStatus| views.get(&lane.lane).map(|view| value(view));
        per_lane(text.family(name, kind, help), &figures.lanes, of_lane).await;
    }
    let help = "Size of the token bucket, in attempts.";
    per_lane(text.family("hookproof_bucket_burst", Type::Gauge, help), &figures.lanes, |lane| {
        views.contains_key(&lane.lane).then(|| burst(roster, lane.lane).into())
    })
    .await;
    let names: BTreeMap<LaneId, &LaneStatus> = figures.lanes.iter().map(|lane| (lane.lane, lane)).collect();
    let help = "Share of attempts answered with 429 in the last 15 s, from 0 to 1.";
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
    one("hookproof_store_failing", Type::Gauge, "1 if the database cannot be written.", failing);
    one("hookproof_store_log_bytes", Type::Gauge, "Size of the database's log.", health.log_bytes);
    let waiting = u64::try_from(health.requests).unwrap_or(u64::MAX);
    one("hookproof_store_requests_waiting", Type::Gauge, "Requests waiting for the database.", waiting);
    one(
        "hookproof_store_commits_total",
        Type::Counter,
        "Commits with at least one row.",
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
    let help = "Deliveries that this process shed to make room for new ones.";
    one("hookproof_shed_total", Type::Counter, help, health.written.shed);
    let help = "Deliveries that full queues refused to this process, counted at every emit.";
    one("hookproof_refused_total", Type::Counter, help, health.written.refused);
    let help = "Dead letters that this process deleted to make room.";
    one("hookproof_dead_forgotten_total", Type::Counter, help, health.written.forgotten);
}

fn clock(text: &mut Exposition, clock: Clock) {
    let mut one = |name, help, off: Option<Nanos>| {
        let value = Value::Millionths(off.map_or(0, |off| off.0 / 1_000));
        text.family(name, Type::Gauge, help).sample(&[], value);
    };
    one(
        "hookproof_clock_ahead_seconds",
        "How far the database's clock is ahead of the wall clock.",
        clock.ahead(),
    );
    one(
        "hookproof_clock_behind_seconds",
        "How far the database's clock is behind the wall clock.",
        clock.behind(),
    );
}

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
