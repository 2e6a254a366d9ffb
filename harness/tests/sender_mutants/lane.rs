//! One subscriber: its queue, its limiter, its retries.

use std::collections::{BTreeMap, VecDeque};

use hookproof::scenario::{Duration, Rate, Window};
use hookproof::wire::{Profile, Secret};
use serde_json::Value;

use crate::attempt::Outcome;
use crate::sender::Bug;

const SECOND: f64 = 1e9;
/// The delays of a sender that has a schedule of its own, each a tenth shorter or longer.
const SCHEDULE: [u64; 3] = [300_000_000, 700_000_000, 1_200_000_000];

/// A delivery that isn't settled.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) n: u64,
    pub(crate) body: String,
    pub(crate) attempts: u32,
    accepted: u64,
    due: u64,
    open: bool,
}

/// What a lane may do.
#[derive(Debug)]
pub(crate) enum Next {
    /// Start an attempt.
    Start(u64),
    /// Give one up.
    Expired(u64),
    /// Nothing before then.
    Until(u64),
    /// Nothing until something changes.
    Wait,
}

/// One subscriber.
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) timeout: u64,
    pub(crate) gone: bool,
    pub(crate) done: usize,
    /// Body, reason, attempts.
    pub(crate) dead: Vec<(String, String, u32)>,
    events: Vec<String>,
    queue: BTreeMap<u64, Delivery>,
    limiter: Limiter,
    retry: Retry,
    rows: usize,
    paused_until: u64,
    /// Whether it waits in a pause, after which a storm could break loose.
    storms: bool,
}

struct Retry {
    base: u64,
    cap: u64,
    attempts: u32,
    ttl: u64,
    /// Whether only half of a delay is drawn.
    half: bool,
}

struct Limiter {
    per_ns: f64,
    burst: f64,
    in_flight_max: usize,
    windows: Vec<Window>,
    level: f64,
    at: u64,
    open: usize,
    ends: VecDeque<u64>,
}

fn length(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse::<Duration>().ok()).map_or(0, |length| length.0)
}

impl Delivery {
    pub(crate) fn new(n: u64, body: &str, now: u64) -> Self {
        Self { n, body: body.to_owned(), attempts: 0, accepted: now, due: now, open: false }
    }
}

impl Lane {
    pub(crate) fn new(settings: &Value, now: u64) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        let (limit, retry) = (&settings["limit"], &settings["retry"]);
        let rate: Rate = text(&limit["rate"]).parse().unwrap();
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "small figures of a test")]
        let limiter = Limiter {
            per_ns: rate.count as f64 / rate.per.0 as f64,
            burst: count(&limit["burst"]) as f64,
            in_flight_max: usize::try_from(count(&limit["in_flight"])).unwrap(),
            windows: list(&limit["windows"]).iter().map(|text| text.parse().unwrap()).collect(),
            level: 0.0,
            at: now,
            open: 0,
            ends: VecDeque::new(),
        };
        Self {
            name: text(&settings["name"]),
            url: text(&settings["url"]),
            secret: Secret::parse(Profile::StandardWebhooks, &text(&settings["secret"])).unwrap(),
            timeout: length(&settings["timeout"]),
            gone: false,
            done: 0,
            dead: Vec::new(),
            events: list(&settings["events"]),
            queue: BTreeMap::new(),
            limiter,
            retry: Retry {
                base: length(&retry["base"]),
                cap: length(&retry["cap"]),
                attempts: u32::try_from(count(&retry["attempts"])).unwrap(),
                ttl: length(&retry["ttl"]),
                half: retry["backoff"] == "equal-jitter",
            },
            rows: usize::try_from(count(&settings["queue"]["rows"])).unwrap(),
            paused_until: 0,
            storms: false,
        }
    }

    pub(crate) fn wants(&self, kind: &str) -> bool {
        self.events.iter().any(|pattern| {
            pattern.strip_suffix('*').map_or(pattern == kind, |prefix| kind.starts_with(prefix))
        })
    }

    pub(crate) fn put(&mut self, delivery: Delivery) {
        self.queue.insert(delivery.n, delivery);
    }

    pub(crate) fn change(&mut self, n: u64, change: impl FnOnce(&mut Delivery)) {
        if let Some(delivery) = self.queue.get_mut(&n) {
            change(delivery);
        }
    }

    pub(crate) fn delivery(&self, n: u64) -> Option<&Delivery> {
        self.queue.get(&n)
    }

    /// What goes when there is one too many.
    pub(crate) fn surplus(&self) -> Option<u64> {
        let full = self.queue.len() > self.rows;
        self.queue.values().find(|one| full && !one.open).map(|one| one.n)
    }

    pub(crate) fn held(&self) -> usize {
        self.queue.len()
    }

    /// Those that wait and are not under way.
    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.queue.keys().copied().collect()
    }

    pub(crate) fn delivered(&mut self, n: u64) {
        self.done += usize::from(self.queue.remove(&n).is_some());
    }

    pub(crate) fn forget(&mut self, n: u64) {
        self.queue.remove(&n);
    }

    pub(crate) fn bury(&mut self, n: u64, why: &str) {
        if let Some(one) = self.queue.remove(&n) {
            self.dead.push((one.body, why.to_owned(), one.attempts));
        }
    }

    /// As if everything had just been sent that may be: what is right after a crash, when nobody knows.
    pub(crate) fn fill(&mut self, now: u64) {
        self.limiter.level = self.limiter.burst;
        self.limiter.at = now;
        let longest = self.limiter.windows.iter().map(|window| window.length.0).max().unwrap_or(0);
        self.paused_until = now + longest;
    }

    pub(crate) fn next(&mut self, now: u64, bug: &Bug) -> Next {
        if self.gone && !bug.is("ignores-410") {
            return Next::Wait;
        }
        let waits = |one: &&Delivery| !one.open;
        if let Some(old) = self.queue.values().filter(waits).find(|one| now > one.accepted + self.retry.ttl)
            && !bug.is("never-expires")
        {
            return Next::Expired(old.n);
        }
        let first = self.queue.values().filter(waits).min_by_key(|one| (one.due, one.n));
        let Some((n, due, attempts)) = first.map(|one| (one.n, one.due, one.attempts)) else {
            return Next::Wait;
        };
        let from = due.max(if bug.is("pauses-one-delivery-only") { 0 } else { self.paused_until });
        if from > now {
            self.storms |= self.paused_until > now;
            return Next::Until(from);
        }
        let free = (bug.is("storms-on-recovery") && self.storms)
            || (bug.is("does-not-charge-retries") && attempts > 0);
        if !free && let Some(next) = self.limiter.wait(now, bug) {
            return next;
        }
        self.limiter.start(now, bug, free);
        self.change(n, |one| one.open = true);
        Next::Start(n)
    }

    pub(crate) fn finished(&mut self, now: u64, bug: &Bug) {
        self.limiter.end(now, bug);
    }

    /// Notes a failed attempt; says whether it was the last.
    pub(crate) fn failed(&mut self, n: u64, now: u64, outcome: &Outcome, luck: f64, bug: &Bug) -> bool {
        let Some(one) = self.queue.get_mut(&n) else { return false };
        one.open = false;
        one.attempts += 1;
        let allowed = self.retry.attempts + u32::from(bug.is("makes-one-attempt-too-many"));
        let own = bug.is("retries-by-a-schedule-of-its-own");
        let allowed = if own { u32::try_from(SCHEDULE.len()).unwrap() + 1 } else { allowed };
        if one.attempts >= allowed {
            return true;
        }
        if let Some(pause) = outcome.pause(luck, bug) {
            self.paused_until = self.paused_until.max(now + pause);
            one.due = now + pause;
            return false;
        }
        let step = self.retry.base.saturating_mul(1 << (one.attempts - 1).min(30)).min(self.retry.cap);
        let step = if own { SCHEDULE[one.attempts as usize - 1] } else { step };
        let share = match () {
            () if own => 0.9 + luck / 5.0,
            () if bug.is("has-no-jitter") => 1.0,
            () if self.retry.half => f64::midpoint(1.0, luck),
            () => luck,
        };
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "small figures of a test"
        )]
        let delay = (step as f64 * share) as u64;
        one.due =
            if bug.is("retries-at-once") && !matches!(outcome, Outcome::Cut) { now } else { now + delay };
        false
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small figures of a test"
)]
impl Limiter {
    fn drain(&mut self, now: u64, bug: &Bug) {
        let drained = self.level - (now - self.at) as f64 * self.per_ns;
        // Below nothing there is nothing to save up.
        self.level = if bug.is("does-not-clamp-its-bucket") { drained } else { drained.max(0.0) };
        self.at = now;
    }

    /// How long nothing may start; none if it may.
    fn wait(&mut self, now: u64, bug: &Bug) -> Option<Next> {
        self.drain(now, bug);
        if self.open >= self.in_flight_max && !bug.is("has-no-cap-on-requests-in-flight") {
            return Some(Next::Wait);
        }
        let open = if bug.is("charges-on-send") { 0.0 } else { self.open as f64 };
        let over = self.level + open + 1.0 - self.burst;
        if over > 1e-9 {
            return Some(Next::Until(now + ((over / self.per_ns) as u64).max(100_000) + 1));
        }
        for window in &self.windows {
            let length = window.length.0;
            let begins = if bug.is("counts-by-the-calendar") {
                now - now % length
            } else {
                now.saturating_sub(length)
            };
            let inside = self.ends.iter().filter(|end| **end >= begins).count() + self.open;
            if inside as u64 >= window.count {
                let oldest = self.ends.iter().find(|end| **end >= begins).copied();
                let Some(oldest) = oldest else { return Some(Next::Wait) };
                let until = if bug.is("counts-by-the-calendar") { begins + length } else { oldest + length };
                return Some(Next::Until(until.max(now) + 100_000));
            }
        }
        None
    }

    fn start(&mut self, now: u64, bug: &Bug, free: bool) {
        self.drain(now, bug);
        self.open += 1;
        if bug.is("charges-on-send") {
            self.level += 1.0;
        }
        if free {
            // Paid back when it ends.
            self.level -= 1.0;
        }
    }

    fn end(&mut self, now: u64, bug: &Bug) {
        self.drain(now, bug);
        self.open -= 1;
        if !bug.is("charges-on-send") {
            self.level += 1.0;
        }
        self.ends.push_back(now);
        let longest = (SECOND * 10.0) as u64;
        while self.ends.front().is_some_and(|end| end + longest < now) {
            self.ends.pop_front();
        }
    }
}
