use std::collections::BTreeMap;

use hookproof_judge::scenario::Duration;
use hookproof_judge::signature::{Profile, Secret};
use serde_json::Value;

use crate::sender_mutants::attempt::Outcome;
use crate::sender_mutants::breaker::Breaker;
use crate::sender_mutants::limiter::Limiter;
use crate::sender_mutants::sender::Bug;

/// The delays of a sender with its own schedule, each ±10 %.
const SCHEDULE: [u64; 3] = [300_000_000, 700_000_000, 1_200_000_000];

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) n: u64,
    pub(crate) body: String,
    /// Its type, if a newer event may replace it until it is due.
    replaceable: Option<String>,
    pub(crate) events: usize,
    pub(crate) attempts: u32,
    key: String,
    accepted: u64,
    due: u64,
    open: bool,
}

#[derive(Debug)]
pub(crate) enum Next {
    Start(u64),
    Expired(u64),
    Until(u64),
    Wait,
}

pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) gone: bool,
    pub(crate) done: usize,
    pub(crate) made: Vec<u64>,
    /// Body, reason, attempts.
    pub(crate) dead: Vec<(String, String, u32)>,
    events: Vec<String>,
    queue: BTreeMap<u64, Delivery>,
    limiter: Limiter,
    pub(crate) breaker: Breaker,
    retry: Retry,
    keeps: Keeps,
    rest: Rest,
    pub(crate) coalescing: Coalescing,
}

pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) secret: Secret,
    pub(crate) shown: String,
    pub(crate) timeout: u64,
    pub(crate) origin: String,
}

pub(crate) struct Coalescing {
    windows: Vec<(String, u64)>,
    pub(crate) replaced: usize,
}

struct Keeps {
    rows: usize,
    order: bool,
}

struct Rest {
    until: u64,
    storms: bool,
    asleep: bool,
}

struct Retry {
    base: u64,
    cap: u64,
    attempts: u32,
    ttl: u64,
    half: bool,
}

fn length(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse::<Duration>().ok()).map_or(0, |length| length.0)
}

impl Delivery {
    pub(crate) fn new(n: u64, body: &str, now: u64) -> Self {
        let (body, key) = (body.to_owned(), String::new());
        let (replaceable, events) = (None, 1);
        Self { n, body, replaceable, events, attempts: 0, key, accepted: now, due: now, open: false }
    }
}

impl Delivery {
    pub(crate) fn carrying(self, events: usize) -> Self {
        Self { events, ..self }
    }

    /// Waits for newer events of its type and key during `window`.
    pub(crate) fn held_for(self, window: u64, kind: &str) -> Self {
        let replaceable = (window > 0).then(|| kind.to_owned());
        Self { due: self.due + window, replaceable, ..self }
    }
}

impl Lane {
    pub(crate) fn new(settings: &Value, now: u64) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
        let retry = &settings["retry"];
        let count = |value: &Value| value.as_u64().unwrap_or_default();
        Self {
            name: text(&settings["name"]),
            target: Target {
                url: text(&settings["url"]),
                secret: Secret::parse(Profile::STANDARD_WEBHOOKS, &text(&settings["secret"])).unwrap(),
                shown: text(&settings["secret"]),
                timeout: length(&settings["timeout"]),
                origin: text(&settings["permission"]["origin"]),
            },
            gone: false,
            done: 0,
            made: Vec::new(),
            dead: Vec::new(),
            events: list(&settings["events"]),
            queue: BTreeMap::new(),
            limiter: Limiter::new(&settings["limit"], now),
            breaker: Breaker::new(&settings["breaker"]),
            retry: Retry {
                base: length(&retry["base"]),
                cap: length(&retry["cap"]),
                attempts: u32::try_from(count(&retry["attempts"])).unwrap(),
                ttl: length(&retry["ttl"]),
                half: retry["backoff"] == "equal-jitter",
            },
            keeps: Keeps {
                rows: usize::try_from(count(&settings["queue"]["rows"])).unwrap(),
                order: settings["ordered"] == true,
            },
            rest: Rest { until: 0, storms: false, asleep: false },
            coalescing: {
                let rules = settings["coalesce"].as_array().into_iter().flatten();
                let windows = rules.map(|rule| (text(&rule["events"]), length(&rule["window"]))).collect();
                Coalescing { windows, replaced: 0 }
            },
        }
    }

    pub(crate) fn wants(&self, kind: &str) -> bool {
        self.events.iter().any(|pattern| {
            pattern.strip_suffix('*').map_or(pattern == kind, |prefix| kind.starts_with(prefix))
        })
    }

    pub(crate) fn window(&self, kind: &str) -> Option<u64> {
        self.coalescing.windows.iter().find(|(known, _)| known == kind).map(|(_, window)| *window)
    }

    pub(crate) fn replace(&mut self, kind: &str, key: &Value, body: &str, now: u64) -> bool {
        let key = key.to_string();
        let waits = |one: &&mut Delivery| {
            one.replaceable.as_deref() == Some(kind) && one.key == key && !one.open && one.due > now
        };
        let Some(older) = self.queue.values_mut().find(waits).filter(|one| one.attempts == 0) else {
            return false;
        };
        body.clone_into(&mut older.body);
        self.coalescing.replaced += 1;
        true
    }

    pub(crate) fn put(&mut self, mut delivery: Delivery) {
        if self.keeps.order || delivery.replaceable.is_some() {
            let body: Value = serde_json::from_str(&delivery.body).unwrap_or_default();
            delivery.key = body["key"].to_string();
        }
        self.queue.insert(delivery.n, delivery);
    }

    pub(crate) fn with(&mut self, n: u64, change: impl FnOnce(&mut Delivery)) {
        if let Some(delivery) = self.queue.get_mut(&n) {
            change(delivery);
        }
    }

    pub(crate) fn delivery(&self, n: u64) -> Option<&Delivery> {
        self.queue.get(&n)
    }

    pub(crate) fn surplus(&self) -> Option<u64> {
        let full = self.queue.len() > self.keeps.rows;
        self.queue.values().find(|one| full && !one.open).map(|one| one.n)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.values().map(|one| one.events).sum()
    }

    pub(crate) fn change(&mut self, limit: &Value, now: u64) {
        self.limiter.change(limit, now);
    }

    pub(crate) fn waiting(&self) -> Vec<u64> {
        self.queue.keys().copied().collect()
    }

    pub(crate) fn delivered(&mut self, n: u64) {
        self.done += self.queue.remove(&n).map_or(0, |one| one.events);
    }

    pub(crate) fn let_go(&mut self, before: u64) {
        self.made.retain(|t| *t >= before);
    }

    pub(crate) fn forget(&mut self, n: u64) {
        self.queue.remove(&n);
    }

    pub(crate) fn bury(&mut self, n: u64, why: &str) {
        if let Some(one) = self.queue.remove(&n) {
            self.dead.push((one.body, why.to_owned(), one.attempts));
        }
    }

    pub(crate) fn set_asleep(&mut self, asleep: bool) {
        self.rest.asleep = asleep;
    }

    pub(crate) fn rest_until(&mut self, until: u64) {
        self.rest.until = self.rest.until.max(until);
    }

    /// Whether an older delivery of its key has not ended its first attempt.
    fn is_behind(&self, one: &Delivery) -> bool {
        let older = self.queue.range(..one.n).map(|(_, older)| older);
        self.keeps.order && older.into_iter().any(|older| older.key == one.key && older.attempts == 0)
    }

    fn first(&self, bug: &Bug) -> Option<&Delivery> {
        let waits = self.queue.values().filter(|one| !one.open);
        let backwards = self.keeps.order && bug.is("sends-the-newest-first");
        if backwards || bug.is("keeps-no-order") {
            return { waits }.next_back();
        }
        let free = |one: &&Delivery| !self.is_behind(one);
        let left = |one: &&Delivery| one.n % 10 == 3 && bug.is("leaves-a-tenth-behind");
        waits.filter(|one| free(one) && !left(one)).min_by_key(|one| (one.due, one.n))
    }

    /// Right after a crash, the whole allowance may just have been sent.
    pub(crate) fn fill(&mut self, now: u64) {
        self.rest.until = now + self.limiter.fill(now);
    }

    pub(crate) fn next(&mut self, now: u64, bug: &Bug) -> Next {
        if self.gone && !bug.is("ignores-410") {
            return Next::Wait;
        }
        if self.rest.asleep {
            return Next::Wait;
        }
        let waits = |one: &&Delivery| !one.open;
        if let Some(old) = self.queue.values().filter(waits).find(|one| now > one.accepted + self.retry.ttl)
            && !bug.is("never-expires")
        {
            return Next::Expired(old.n);
        }
        let Some((n, due, attempts)) = self.first(bug).map(|one| (one.n, one.due, one.attempts)) else {
            return Next::Wait;
        };
        let from = due.max(if bug.is("pauses-one-delivery-only") { 0 } else { self.rest.until });
        if from > now {
            self.rest.storms |= self.rest.until > now;
            return Next::Until(from);
        }
        if let Some(next) = self.breaker.wait(now) {
            return next;
        }
        let free = (bug.is("storms-on-recovery") && self.rest.storms)
            || (bug.is("does-not-charge-retries") && attempts > 0);
        if !free && let Some(next) = self.limiter.wait(now, bug) {
            return next;
        }
        self.limiter.start(now, bug, free);
        self.breaker.start(n, bug);
        self.with(n, |one| one.open = true);
        Next::Start(n)
    }

    pub(crate) fn finished(&mut self, now: u64, bug: &Bug) {
        self.limiter.end(now, bug);
    }

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
            self.rest.until = self.rest.until.max(now + pause);
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
        one.due = if bug.is("retries-at-once") && matches!(outcome, Outcome::Answered { .. } | Outcome::Late)
        {
            now
        } else {
            now + delay
        };
        false
    }
}
