//! The engine and some broken senders behind one interface, so that one property judges them all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hookproof_sender::engine::contract::{Contract, IN_FLIGHT_MAX};
use hookproof_sender::engine::pressure::PressurePolicy;
use hookproof_sender::engine::retry::{Backoff, RetryPolicy};
use hookproof_sender::engine::{
    AttemptId, Engine, Input, Instant, LaneId, LaneRecord, LaneView, Lateness, Limits, Nanos, Origin,
    Outcome, Settings, Term,
};

use crate::shell::{Shell, WakeUp, Write, no_breaker};

/// What a lane goes by.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) contract: Contract,
    pub(crate) lateness: Lateness,
}

/// How a lane passes to its next owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// The owner gave it back in order; so much time has passed since, and so much of it can be proved.
    Clean { proved: Nanos },
    /// The owner was killed; so much time that has passed since can be proved, and of what it had written so many percent
    /// had become durable.
    Killed { proved: Nanos, durable: usize },
    /// The owner lost its lease and is alive: it gives up what it has under way, and may hear of that later.
    Lost { durable: usize },
}

/// A sender with one lane and an endless supply of patience.
pub(crate) trait Sender {
    fn offer(&mut self, now: Instant, count: u64);
    /// The next request that it makes at `now`, by a number of its own.
    fn start(&mut self, now: Instant) -> Option<u64>;
    fn ended(&mut self, now: Instant, request: u64, outcome: Outcome);
    fn change(&mut self, now: Instant, terms: &Terms);
    fn set_paused(&mut self, now: Instant, paused: bool);
    /// Asks the sender to stop in order. It may be asked for `next_wake` and told of ends until it has.
    fn stop(&mut self, now: Instant);
    /// The next owner begins, by these terms. Nothing is under way any more.
    fn hand_over(&mut self, now: Instant, how: HandOver, terms: &Terms);
    fn next_wake(&self) -> Option<Instant>;
    /// How it stands, for a test that gives up.
    fn told(&self) -> String {
        String::new()
    }
    /// Whether work is due that is not under way, and neither breaker nor endpoint hold it back.
    fn is_due(&self, _: Instant) -> bool {
        false
    }
}

const LANE: LaneId = LaneId(1);

/// How to spoil the engine from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Silent attempts count as over when they end.
    NoDoubt,
    /// Silent attempts count as over as soon as a later one is answered.
    NoQuarantine,
    /// After a crash it begins with an empty bucket.
    ForgetsAtCrash,
    /// After a crash nothing of the dead owner counts as under way, only as just ended.
    NothingUnderWay,
    /// What the owner before may have had under way is reckoned by the new owner's settings.
    TakesOverByItsOwnSettings,
    /// What is not durable counts as if it were.
    DurableTooSoon,
    /// The store does not tell what ended since the record.
    NotTold,
    /// After an orderly stop it begins with an empty bucket.
    ForgetsAtStop,
    /// Each change of contract begins with an empty bucket.
    ForgetsAtChange,
    /// Any number of requests may be in flight.
    NoCapInFlight,
    /// The first word of this kind does not reach the engine.
    Loses(WakeUp),
    /// The word that a lane is its owner's does not reach the second owner.
    LosesHandOver,
}

/// The engine, with settings that keep retries quick and pressure light, so that the limiter is what limits.
pub(crate) struct EngineSender {
    shell: Shell,
    terms: Terms,
    flaw: Flaw,
    term: u64,
    requests: BTreeMap<u64, AttemptId>,
    made: u64,
}

impl EngineSender {
    /// A lane whose writes take `delay` to become durable.
    pub(crate) fn new(now: Instant, terms: Terms, delay: Nanos, flaw: Flaw) -> Self {
        let mut shell = Shell::new(Engine::new(5, Limits::default()));
        shell.delay = delay;
        shell.says_durable_too_soon = flaw == Flaw::DurableTooSoon;
        if let Flaw::Loses(wake_up) = flaw {
            shell.loses = Some(wake_up);
        }
        let mut sender = Self { shell, terms, flaw, term: 1, requests: BTreeMap::new(), made: 0 };
        sender.take(now, Origin::Fresh);
        if flaw == Flaw::LosesHandOver {
            sender.shell.loses = Some(WakeUp::Take);
        }
        sender
    }

    fn settings(&self) -> Arc<Settings> {
        let backoff = Backoff::full_jitter(Nanos::from_millis(1), Nanos::from_millis(50)).unwrap();
        let retry = RetryPolicy::new(backoff, 5, Nanos::DAY, Nanos::SECOND).unwrap();
        let pressure = PressurePolicy::new(Nanos::from_millis(1), 1, Nanos::DAY, 1_000, 100).unwrap();
        let Self { terms: Terms { contract, lateness }, flaw, .. } = self;
        let lateness = match flaw {
            Flaw::NoDoubt => Lateness::new(lateness.deadline(), Nanos::ZERO, Nanos::ZERO).unwrap(),
            Flaw::NoQuarantine => Lateness::new(lateness.deadline(), Nanos::ZERO, lateness.doubt()).unwrap(),
            _ => *lateness,
        };
        let in_flight = if *flaw == Flaw::NoCapInFlight { IN_FLIGHT_MAX } else { contract.in_flight() };
        let bucket = Some(contract.bucket());
        let contract = Contract::new(bucket, contract.windows().to_vec(), in_flight).unwrap();
        Arc::new(Settings::new(contract, retry, no_breaker(), pressure, lateness))
    }

    fn take(&mut self, now: Instant, origin: Origin) {
        let settings = self.settings();
        self.shell.take(now, LANE, self.term, &settings, origin);
    }

    fn origin(&self, how: HandOver, now: Instant) -> Origin {
        let record = self.shell.records.get(&LANE).cloned();
        let proved = match how {
            HandOver::Clean { proved } => {
                let record = record.expect("a clean stop leaves a record");
                return match self.flaw {
                    Flaw::ForgetsAtStop => Origin::Fresh,
                    _ => Origin::Resumed { record, downtime: proved },
                };
            }
            HandOver::Killed { proved, .. } => proved,
            HandOver::Lost { .. } => Nanos::ZERO,
        };
        // Before its first record is durable an owner sends nothing.
        let Some(record) = record.filter(|_| self.flaw != Flaw::ForgetsAtCrash) else { return Origin::Fresh };
        let told = self.shell.ended.get(&LANE).filter(|_| self.flaw != Flaw::NotTold);
        let ended = told.into_iter().flatten().map(|(at, count)| (now.since(*at), *count)).collect();
        Origin::Seized { record: Some(self.spoilt(record)), downtime: proved, ended }
    }

    fn spoilt(&self, record: LaneRecord) -> LaneRecord {
        let mut value = serde_json::to_value(record).unwrap();
        let limiter = &mut value["limiter"];
        match self.flaw {
            Flaw::NothingUnderWay => limiter["under_way"] = 0.into(),
            Flaw::TakesOverByItsOwnSettings => {
                let Terms { contract, lateness } = &self.terms;
                let lengths = [lateness.deadline(), lateness.quarantine(), lateness.doubt()];
                limiter["lateness"] = lengths.iter().map(|length| length.0).collect();
                limiter["under_way"] = contract.in_flight().min(contract.bucket().burst()).into();
            }
            _ => {}
        }
        serde_json::from_value(value).unwrap()
    }

    /// So many percent of what was written become durable; whether the owner lives to hear of it is up to it.
    fn make_durable(&mut self, percent: usize, now: Instant) {
        let written = self.shell.writes.len() * percent / 100;
        let writes: Vec<_> = self.shell.writes.drain(..written).collect();
        for (_, write) in writes {
            if let Some(answer) = self.shell.make_durable(write, now) {
                self.shell.engine.handle(now, answer);
            }
        }
    }
}

impl Sender for EngineSender {
    fn offer(&mut self, now: Instant, count: u64) {
        self.shell.offer(now, LANE, count, Nanos::DAY);
    }

    fn start(&mut self, now: Instant) -> Option<u64> {
        self.shell.engine.handle(now, Input::Tick);
        self.shell.commit(now);
        let sent = self.shell.next_send(now)?;
        self.made += 1;
        self.requests.insert(self.made, sent.attempt);
        Some(self.made)
    }

    fn ended(&mut self, now: Instant, request: u64, outcome: Outcome) {
        let attempt = self.requests.remove(&request).expect("a request ends once");
        self.shell.engine.handle(now, Input::Ended { attempt, outcome });
    }

    fn change(&mut self, now: Instant, terms: &Terms) {
        self.terms = terms.clone();
        let settings = self.settings();
        if self.flaw == Flaw::ForgetsAtChange {
            self.term += 1;
            self.shell.store.let_go(LANE);
            self.take(now, Origin::Fresh);
        } else {
            self.shell.engine.handle(now, Input::Change { lane: LANE, settings });
        }
    }

    fn set_paused(&mut self, now: Instant, paused: bool) {
        let input = if paused { Input::Pause { lane: LANE } } else { Input::Resume { lane: LANE } };
        self.shell.engine.handle(now, input);
    }

    fn stop(&mut self, now: Instant) {
        self.shell.engine.handle(now, Input::Stop);
    }

    fn hand_over(&mut self, now: Instant, how: HandOver, terms: &Terms) {
        let next = Engine::new(6 + self.term, Limits::default());
        match how {
            HandOver::Clean { .. } => {
                assert!(self.start(now).is_none(), "nothing starts once a lane is on its way out");
                self.make_durable(100, now);
                assert!(self.shell.engine.is_at_rest(), "an orderly stop comes to an end");
                self.shell.replace(next);
            }
            HandOver::Killed { durable, .. } => {
                self.make_durable(durable, now);
                self.shell.writes.clear();
                self.shell.replace(next);
            }
            HandOver::Lost { durable } => {
                // Of what it had written the store refuses its records, and takes what became of deliveries.
                self.make_durable(durable, now);
                self.shell.writes.retain(|(_, write)| matches!(write, Write::Settle(..)));
                self.shell.engine.handle(now, Input::Lose { lane: LANE, term: Term(self.term) });
            }
        }
        self.terms = terms.clone();
        let origin = self.origin(how, now);
        self.shell.store.let_go(LANE);
        self.term += 1;
        self.take(now, origin);
    }

    fn next_wake(&self) -> Option<Instant> {
        let durable = self.shell.writes.front().map(|(due, _)| *due);
        durable.into_iter().chain(self.shell.engine.next_wake()).min()
    }

    fn told(&self) -> String {
        let (views, waiting) = (self.shell.engine.views(), self.shell.store.waiting(LANE));
        let (wake, writes) = (self.shell.engine.next_wake(), self.shell.writes.len());
        format!("{views:?}, {waiting} wait in the store, {writes} writes are not durable, wakes at {wake:?}")
    }

    fn is_due(&self, now: Instant) -> bool {
        let held_back = |view: &LaneView| view.breaker.is_open() || view.paused_for > Nanos::ZERO;
        self.shell.is_due(LANE, now) && !self.shell.engine.views().iter().any(held_back)
    }
}

/// The limiter that every known sender has: it charges when it sends, and what is under way is somebody else's affair.
/// Otherwise beyond reproach: exact, clamped, and it forgets nothing, whatever happens to its process.
pub(crate) struct SendCharged {
    contract: Contract,
    /// Tokens in units of 1/`rate.per`, as they were then.
    tokens: u128,
    as_of: Instant,
    starts: VecDeque<Instant>,
    waiting: u64,
    open: u64,
    paused: bool,
    stopping: bool,
    made: u64,
}

impl SendCharged {
    pub(crate) fn new(now: Instant, terms: Terms) -> Self {
        let contract = terms.contract;
        let starts = VecDeque::new();
        let (waiting, open, made) = (0, 0, 0);
        let (paused, stopping) = (false, false);
        let mut sender =
            Self { contract, tokens: 0, as_of: now, starts, waiting, open, paused, stopping, made };
        sender.tokens = sender.most();
        sender
    }

    fn most(&self) -> u128 {
        u128::from(self.contract.bucket().burst()) * u128::from(self.contract.bucket().rate().per().0)
    }

    fn refill(&mut self, now: Instant) {
        let gained = u128::from(now.since(self.as_of).0) * u128::from(self.contract.bucket().rate().count());
        self.tokens = (self.tokens + gained).min(self.most());
        self.as_of = now;
    }

    /// When the next request may start, as far as time is what it waits for.
    fn free_at(&self) -> Instant {
        let rate = self.contract.bucket().rate();
        let missing = u128::from(rate.per().0).saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(rate.count()));
        let tokens = self.as_of + Nanos(wait.try_into().unwrap());
        let windows = self.contract.windows().iter().filter_map(|window| {
            let nth = self.starts.len().checked_sub(window.limit() as usize)?;
            Some(self.starts[nth] + window.length())
        });
        windows.fold(tokens, Instant::max)
    }

    fn may_send(&self) -> bool {
        let free = self.open < u64::from(self.contract.in_flight());
        self.waiting > 0 && free && !self.paused && !self.stopping
    }
}

impl Sender for SendCharged {
    fn offer(&mut self, _: Instant, count: u64) {
        self.waiting += count;
    }

    fn start(&mut self, now: Instant) -> Option<u64> {
        self.refill(now);
        if !self.may_send() || self.free_at() > now {
            return None;
        }
        self.tokens -= u128::from(self.contract.bucket().rate().per().0);
        self.starts.push_back(now);
        (self.waiting, self.open, self.made) = (self.waiting - 1, self.open + 1, self.made + 1);
        Some(self.made)
    }

    fn ended(&mut self, _: Instant, _: u64, _: Outcome) {
        self.open = self.open.saturating_sub(1);
    }

    fn change(&mut self, now: Instant, terms: &Terms) {
        let contract = &terms.contract;
        self.refill(now);
        let (from, to) = (self.contract.bucket(), contract.bucket());
        // What was used stays used.
        let used = (self.most() - self.tokens) * u128::from(to.rate().per().0);
        let used = used.div_ceil(u128::from(from.rate().per().0));
        self.contract = contract.clone();
        self.tokens = self.most().saturating_sub(used);
    }

    fn set_paused(&mut self, _: Instant, paused: bool) {
        self.paused = paused;
    }

    fn stop(&mut self, _: Instant) {
        self.stopping = true;
    }

    fn hand_over(&mut self, now: Instant, how: HandOver, terms: &Terms) {
        self.change(now, terms);
        self.stopping = false;
        if !matches!(how, HandOver::Lost { .. }) {
            self.open = 0;
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.may_send().then(|| self.free_at())
    }
}
