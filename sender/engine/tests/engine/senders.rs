use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hookproof_engine::engine::breaker::{BreakerPolicy, Standing};
use hookproof_engine::engine::contract::{Contract, IN_FLIGHT_MAX};
use hookproof_engine::engine::pressure::PressurePolicy;
use hookproof_engine::engine::retry::{Backoff, RetryPolicy};
use hookproof_engine::engine::{
    AttemptId, Engine, Input, LaneId, LaneRecord, LaneView, Lateness, Limits, Nanos, Origin, Outcome,
    Retried, Settings, StoreTime, Term,
};

use crate::shell::{Shell, WakeUp, Write, no_breaker};

#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) contract: Contract,
    pub(crate) lateness: Lateness,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// The owner handed the lane back in order; `proved` is the proved part of the time since.
    Clean { proved: Nanos },
    /// The owner was killed; `proved` is the proved part of the time since, and `durable` the percentage of its
    /// writes that became durable.
    Killed { proved: Nanos, durable: usize },
    /// The owner lost its lease and lives: it aborts its attempts, and may learn of that later.
    Lost { durable: usize },
}

pub(crate) trait Sender {
    fn offer(&mut self, now: StoreTime, count: u64);
    /// Starts its next request at `now`, and returns the sender's number for it.
    fn start(&mut self, now: StoreTime) -> Option<u64>;
    fn ended(&mut self, now: StoreTime, request: u64, outcome: Outcome);
    fn change(&mut self, now: StoreTime, terms: &Terms);
    fn set_paused(&mut self, now: StoreTime, paused: bool);
    /// An operator has the endpoint tried at once.
    fn retry(&mut self, _: StoreTime, _insist: bool) {}
    fn stop(&mut self, now: StoreTime);
    fn hand_over(&mut self, now: StoreTime, how: HandOver, terms: &Terms);
    fn next_wake(&self) -> Option<StoreTime>;
    /// Shown by a test that fails.
    fn describe_state(&self) -> String {
        String::new()
    }
    /// Whether work is due that is not in flight, and neither breaker nor endpoint hold it back.
    fn is_due(&self, _: StoreTime) -> bool {
        false
    }
}

const LANE: LaneId = LaneId(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    NoDoubt,
    /// The doubt of silent attempts ends with any later answer.
    NoQuarantine,
    ForgetsAtCrash,
    /// After a crash the dead owner's attempts count as ended, not as in flight.
    NothingUnderWay,
    /// The new owner's settings apply to the previous owner's attempts.
    TakesOverByItsOwnSettings,
    /// Writes count as durable at once.
    DurableTooSoon,
    /// The store does not report attempts that ended after the checkpoint.
    NotTold,
    ForgetsAtStop,
    ForgetsAtChange,
    NoCapInFlight,
    Loses(WakeUp),
    /// The second owner never learns that it has the lane.
    LosesHandOver,
}

/// The engine, with quick retries and hardly any throttling, so that only the limiter limits.
pub(crate) struct EngineSender {
    shell: Shell,
    terms: Terms,
    flaw: Flaw,
    term: u64,
    breaker: BreakerPolicy,
    requests: BTreeMap<u64, AttemptId>,
    made: u64,
    /// Breakers that an operator had probed before the end of their cooldown.
    pub(crate) probes: usize,
    asked: Retried,
}

impl EngineSender {
    /// Writes become durable after `delay`.
    pub(crate) fn new(now: StoreTime, terms: Terms, delay: Nanos, flaw: Flaw) -> Self {
        let mut shell = Shell::new(Engine::new(5, Limits::default()));
        shell.delay = delay;
        shell.says_durable_too_soon = flaw == Flaw::DurableTooSoon;
        if let Flaw::Loses(wake_up) = flaw {
            shell.loses = Some(wake_up);
        }
        let (requests, breaker) = (BTreeMap::new(), no_breaker());
        let asked = Retried::default();
        let mut sender = Self { shell, terms, flaw, term: 1, breaker, requests, made: 0, probes: 0, asked };
        sender.take(now, Origin::Fresh);
        if flaw == Flaw::LosesHandOver {
            sender.shell.loses = Some(WakeUp::Take);
        }
        sender
    }

    /// It opens at each failure.
    pub(crate) fn with_a_breaker(mut self) -> Self {
        self.breaker =
            BreakerPolicy::new(1, 1, Nanos::DAY, Nanos::from_millis(500), Nanos::from_secs(4)).unwrap();
        let settings = self.settings();
        self.shell.engine.handle(StoreTime(1), Input::Change { lane: LANE, settings });
        self
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
        Arc::new(Settings::new(contract, retry, self.breaker.clone(), pressure, lateness))
    }

    fn take(&mut self, now: StoreTime, origin: Origin) {
        let settings = self.settings();
        self.shell.take(now, LANE, self.term, &settings, origin);
    }

    fn origin(&self, how: HandOver, now: StoreTime) -> Origin {
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
        // An owner sends nothing before its first checkpoint is durable.
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

    fn make_durable(&mut self, percent: usize, now: StoreTime) {
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
    fn offer(&mut self, now: StoreTime, count: u64) {
        self.shell.offer(now, LANE, count, Nanos::DAY);
    }

    fn start(&mut self, now: StoreTime) -> Option<u64> {
        self.shell.engine.handle(now, Input::Tick);
        self.shell.commit(now);
        let sent = self.shell.next_send(now)?;
        self.made += 1;
        self.requests.insert(self.made, sent.attempt);
        Some(self.made)
    }

    fn ended(&mut self, now: StoreTime, request: u64, outcome: Outcome) {
        let attempt = self.requests.remove(&request).expect("a request ends once");
        self.shell.engine.handle(now, Input::Ended { attempt, outcome });
    }

    fn change(&mut self, now: StoreTime, terms: &Terms) {
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

    fn set_paused(&mut self, now: StoreTime, paused: bool) {
        let input = if paused { Input::Pause { lane: LANE } } else { Input::Resume { lane: LANE } };
        self.shell.engine.handle(now, input);
    }

    fn retry(&mut self, now: StoreTime, insist: bool) {
        let open = |view: LaneView| matches!(view.holds.breaker, Standing::Open { until, .. } if until > now);
        self.probes += self.shell.engine.views().into_iter().filter(|view| open(*view)).count();
        self.shell.store.bring_forward(LANE, now);
        self.shell.engine.handle(now, Input::Work { lane: LANE, due: now });
        self.asked.asked += 1;
        if insist {
            self.asked.insisted = self.asked.asked;
        }
        self.shell.engine.handle(now, Input::Retry { lane: LANE, asked: self.asked });
    }

    fn stop(&mut self, now: StoreTime) {
        self.shell.engine.handle(now, Input::Stop);
    }

    fn hand_over(&mut self, now: StoreTime, how: HandOver, terms: &Terms) {
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
                // The store refuses its checkpoints, and accepts its settlements.
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

    fn next_wake(&self) -> Option<StoreTime> {
        let durable = self.shell.writes.front().map(|(due, _)| *due);
        durable.into_iter().chain(self.shell.engine.next_wake()).min()
    }

    fn describe_state(&self) -> String {
        let (views, waiting) = (self.shell.engine.views(), self.shell.store.waiting(LANE));
        let (wake, writes) = (self.shell.engine.next_wake(), self.shell.writes.len());
        format!("{views:?}, {waiting} wait in the store, {writes} writes are not durable, wakes at {wake:?}")
    }

    fn is_due(&self, now: StoreTime) -> bool {
        let held_back = |view: &LaneView| view.holds.breaker.is_open() || view.paused_for > Nanos::ZERO;
        self.shell.is_due(LANE, now) && !self.shell.engine.views().iter().any(held_back)
    }
}

/// It charges on sending, and ignores attempts in flight. Otherwise it is faultless: exact, clamped, with a memory
/// that survives its process.
pub(crate) struct SendCharged {
    contract: Contract,
    /// In units of 1/`rate.per`, as of `as_of`.
    tokens: u128,
    as_of: StoreTime,
    starts: VecDeque<StoreTime>,
    waiting: u64,
    open: u64,
    paused: bool,
    stopping: bool,
    made: u64,
}

impl SendCharged {
    pub(crate) fn new(now: StoreTime, terms: Terms) -> Self {
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

    fn refill(&mut self, now: StoreTime) {
        let gained = u128::from(now.since(self.as_of).0) * u128::from(self.contract.bucket().rate().count());
        self.tokens = (self.tokens + gained).min(self.most());
        self.as_of = now;
    }

    /// When rate and windows allow the next request.
    fn free_at(&self) -> StoreTime {
        let rate = self.contract.bucket().rate();
        let missing = u128::from(rate.per().0).saturating_sub(self.tokens);
        let wait = missing.div_ceil(u128::from(rate.count()));
        let tokens = self.as_of + Nanos(wait.try_into().unwrap());
        let windows = self.contract.windows().iter().filter_map(|window| {
            let nth = self.starts.len().checked_sub(window.limit() as usize)?;
            Some(self.starts[nth] + window.length())
        });
        windows.fold(tokens, StoreTime::max)
    }

    fn may_send(&self) -> bool {
        let free = self.open < u64::from(self.contract.in_flight());
        self.waiting > 0 && free && !self.paused && !self.stopping
    }
}

impl Sender for SendCharged {
    fn offer(&mut self, _: StoreTime, count: u64) {
        self.waiting += count;
    }

    fn start(&mut self, now: StoreTime) -> Option<u64> {
        self.refill(now);
        if !self.may_send() || self.free_at() > now {
            return None;
        }
        self.tokens -= u128::from(self.contract.bucket().rate().per().0);
        self.starts.push_back(now);
        (self.waiting, self.open, self.made) = (self.waiting - 1, self.open + 1, self.made + 1);
        Some(self.made)
    }

    fn ended(&mut self, _: StoreTime, _: u64, _: Outcome) {
        self.open = self.open.saturating_sub(1);
    }

    fn change(&mut self, now: StoreTime, terms: &Terms) {
        let contract = &terms.contract;
        self.refill(now);
        let (from, to) = (self.contract.bucket(), contract.bucket());
        // The used part stays used.
        let used = (self.most() - self.tokens) * u128::from(to.rate().per().0);
        let used = used.div_ceil(u128::from(from.rate().per().0));
        self.contract = contract.clone();
        self.tokens = self.most().saturating_sub(used);
    }

    fn set_paused(&mut self, _: StoreTime, paused: bool) {
        self.paused = paused;
    }

    fn stop(&mut self, _: StoreTime) {
        self.stopping = true;
    }

    fn hand_over(&mut self, now: StoreTime, how: HandOver, terms: &Terms) {
        self.change(now, terms);
        self.stopping = false;
        if !matches!(how, HandOver::Lost { .. }) {
            self.open = 0;
        }
    }

    fn next_wake(&self) -> Option<StoreTime> {
        self.may_send().then(|| self.free_at())
    }
}
