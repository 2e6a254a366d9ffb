//! The guarantee: the requests that reach an endpoint keep its contract over all windows, at every possible arrival
//! time. A request arrives between its start and its end. An unanswered one may arrive later: within `doubt` of its
//! end, and within `quarantine` of an answer to any request that began after that end, both as configured when it
//! began.
//!
//! `HOOKPROOF_CASES=1000000 cargo test -p hookproof-engine --release --test engine guarantee` runs more cases.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hookproof_engine::engine::{Lateness, Nanos, Outcome, StoreTime};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::doubtful::{DoubtFlaw, Doubtful};
use crate::judge::{Arrival, History, JudgedRequest, Start, judge_all_placements, judge_arrivals};
use crate::liveness::Silence;
use crate::scripts::{DEADLINE_MAX, Event, Script, Treatment, scripts};
use crate::senders::{EngineSender, Flaw, HandOver, SendCharged, Sender, Terms};

#[test]
fn arrivals_conform_to_the_contract_over_all_windows() {
    let result = runner(cases()).run(&scripts(), |script| {
        Play::of(&script, engine(&script, Flaw::None)).judge().map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_limiter_that_charges_on_send_does_not_conform() {
    is_found_out("charged on send", |script| Play::of(script, SendCharged::new).judge());
}

#[test]
fn a_sender_that_forgets_something_does_not_conform() {
    let flaws = [
        Flaw::NoDoubt,
        Flaw::NoQuarantine,
        Flaw::ForgetsAtCrash,
        Flaw::NothingUnderWay,
        Flaw::TakesOverByItsOwnSettings,
        Flaw::DurableTooSoon,
        Flaw::NotTold,
        Flaw::ForgetsAtStop,
        Flaw::ForgetsAtChange,
        Flaw::NoCapInFlight,
    ];
    for flaw in flaws {
        is_found_out(&format!("{flaw:?}"), |script| Play::of(script, engine(script, flaw)).judge());
    }
}

#[test]
fn an_owner_that_keeps_open_what_it_has_when_its_lease_ends_does_not_conform() {
    is_found_out("lease ignored", |script| {
        Play::by(Owner::IgnoresItsLease, script, engine(script, Flaw::None)).judge()
    });
    let roomy = |script: &Script| {
        let script = script.clone().with_roomy_limits(2);
        Play::by(Owner::IgnoresItsLease, &script, engine(&script, Flaw::None)).judge()
    };
    let broken = is_found_out("lease ignored", roomy);
    assert!(broken.contains("over the cap in flight"), "{broken}");
}

#[test]
fn a_sender_that_gets_doubt_wrong_does_not_conform() {
    for flaw in [DoubtFlaw::NotCharged, DoubtFlaw::EarlierAnswersCount] {
        let doubtful = |script: &Script| {
            let script = script.clone().without_changes();
            Play::of(&script, |_, terms| Doubtful::new(terms, flaw)).judge()
        };
        is_found_out(&format!("{flaw:?}"), doubtful);
    }
}

#[test]
fn the_same_sender_with_doubt_right_conforms() {
    let result = runner(cases() / 20).run(&scripts(), |script| {
        let script = script.without_changes();
        let doubtful = |_, terms| Doubtful::new(terms, DoubtFlaw::None);
        Play::of(&script, doubtful).judge().map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn an_operator_who_retries_an_endpoint_stays_within_its_contract() {
    let probes = RefCell::new(0);
    let result = runner(cases() / 5).run(&scripts(), |script| {
        let script = script.with_retries();
        let breaking = |now, terms| engine(&script, Flaw::None)(now, terms).with_a_breaker();
        let play = Play::of(&script, breaking);
        *probes.borrow_mut() += play.sender.probes;
        play.judge().map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let probes = probes.into_inner();
    assert!(probes > cases() as usize / 100, "too few probes for an operator: {probes}");
}

#[test]
fn the_scripts_reach_what_they_are_for() {
    let reached = RefCell::new(BTreeMap::new());
    let count = |what, many: usize| *reached.borrow_mut().entry(what).or_insert(0) += many;
    runner(2_000)
        .run(&scripts(), |script| {
            let play = Play::of(&script, engine(&script, Flaw::None));
            count("requests", play.requests.len());
            count("silent ends", play.silent);
            count("hand-overs with requests under way", play.cut_short);
            count("times that a limit was reached", usize::from(play.waited));
            count(
                "arrivals after the end",
                play.arrivals().1.iter().filter(|made| made.late > made.end).count(),
            );
            Ok(())
        })
        .unwrap();
    let reached = reached.into_inner();
    let enough = reached.values().all(|&many| many > 500) && reached["requests"] > 40_000;
    assert!(enough, "{reached:?}");
}

pub(crate) fn engine(script: &Script, flaw: Flaw) -> impl Fn(StoreTime, Terms) -> EngineSender {
    let delay = script.delay;
    move |now, terms| EngineSender::new(now, terms, delay, flaw)
}

/// The same number of the same scripts must reveal the flaw. Returns the broken rule.
pub(crate) fn is_found_out(flaw: &str, judge: impl Fn(&Script) -> Result<(), String>) -> String {
    let result = runner(cases()).run(&scripts(), |script| judge(&script).map_err(TestCaseError::fail));
    match result {
        Err(TestError::Fail(reason, _)) => reason.to_string(),
        other => panic!("{flaw} passed {} cases: {other:?}", cases()),
    }
}

pub(crate) fn cases() -> u32 {
    match std::env::var("HOOKPROOF_CASES") {
        Ok(cases) => cases.parse().expect("HOOKPROOF_CASES is a number of cases"),
        Err(_) => 50_000,
    }
}

/// The fixed seed keeps a green run green; `HOOKPROOF_SEED` chooses another. A failure prints its script.
pub(crate) fn runner(cases: u32) -> TestRunner {
    let seed =
        std::env::var("HOOKPROOF_SEED").map_or(0, |seed| seed.parse().expect("HOOKPROOF_SEED is a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_096, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A lane lives that starts this many more attempts once windows and doubt have ended; a few scripts would start millions.
const ALIVE: u64 = 2_000;

#[derive(Clone, Copy)]
struct UnderWay<'a> {
    start: Start,
    lateness: Lateness,
    treatment: &'a Treatment,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// They abort their attempts in flight.
    KeepsItsLease,
    /// They continue.
    IgnoresItsLease,
}

struct Request {
    start: Start,
    end: StoreTime,
    silent: Option<Lateness>,
    arrives: u8,
}

pub(crate) struct Play<'a, S> {
    sender: S,
    owner: Owner,
    now: StoreTime,
    terms: Terms,
    treatments: std::iter::Cycle<std::slice::Iter<'a, Treatment>>,
    /// Keyed by end and number.
    under_way: BTreeMap<(StoreTime, u64), UnderWay<'a>>,
    history: History,
    requests: Vec<Request>,
    silent: usize,
    cut_short: usize,
    started: u64,
    waited: bool,
    silence: Silence,
}

impl<'a, S: Sender> Play<'a, S> {
    pub(crate) fn of(script: &'a Script, sender: impl Fn(StoreTime, Terms) -> S) -> Self {
        Self::by(Owner::KeepsItsLease, script, sender)
    }

    fn by(owner: Owner, script: &'a Script, sender: impl Fn(StoreTime, Terms) -> S) -> Self {
        let now = StoreTime(1);
        let mut history = History::default();
        history.change(now, script.terms.contract.clone());
        let mut play = Self {
            sender: sender(now, script.terms.clone()),
            owner,
            now,
            terms: script.terms.clone(),
            treatments: script.treatments.iter().cycle(),
            under_way: BTreeMap::new(),
            history,
            requests: vec![],
            silent: 0,
            cut_short: 0,
            started: 0,
            waited: false,
            silence: Silence::new(now, script),
        };
        for (gap, event) in &script.events {
            play.run(*gap);
            play.happen(event);
        }
        play.run(Nanos::from_secs(4));
        play
    }

    pub(crate) fn judge_silence(mut self) -> Result<(), String> {
        self.sender.set_paused(self.now, false);
        self.silence.begin(self.now, false);
        self.run(self.silence.waits());
        let alive = self.started + ALIVE;
        for _ in 0..3 {
            self.run_up_to(self.silence.longest(), alive);
        }
        self.silence.judge()
    }

    fn judge(&self) -> Result<(), String> {
        let (arrivals, made) = self.arrivals();
        judge_arrivals(&self.history, &arrivals)?;
        judge_all_placements(&self.history, &made)
    }

    /// When each request arrived, and how late it could have.
    fn arrivals(&self) -> (Vec<Arrival>, Vec<JudgedRequest>) {
        let answered: Vec<_> = self.requests.iter().filter(|request| request.silent.is_none()).collect();
        let made = self.requests.iter().map(|request| {
            let late = request.silent.map_or(request.end, |lateness| {
                let later = answered.iter().filter(|answer| answer.start.at > request.end);
                let heard = later.map(|answer| answer.end).min().unwrap_or(StoreTime::NEVER);
                (request.end + lateness.doubt()).min(heard + lateness.quarantine())
            });
            let way = late.since(request.start.at).0 / 255 * u64::from(request.arrives);
            let arrival = Arrival { start: request.start, at: request.start.at + Nanos(way) };
            (arrival, JudgedRequest { start: request.start, end: request.end, late })
        });
        made.unzip()
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Offer(count) => self.sender.offer(self.now, *count),
            Event::Change(terms) => {
                self.adopt(Some(terms));
                self.sender.change(self.now, terms);
            }
            Event::Pause => {
                self.sender.set_paused(self.now, true);
                self.silence.begin(self.now, true);
            }
            Event::Resume => {
                self.sender.set_paused(self.now, false);
                self.silence.begin(self.now, false);
            }
            Event::Retry(insist) => self.sender.retry(self.now, *insist),
            Event::Restart(downtime, proved) => {
                self.sender.stop(self.now);
                self.silence.begin(self.now, true);
                self.run(DEADLINE_MAX);
                self.now = self.now + *downtime;
                let proved = Nanos(downtime.0 / 100 * proved);
                self.sender.hand_over(self.now, HandOver::Clean { proved }, &self.terms);
                self.silence.begin(self.now, false);
            }
            Event::Kill(downtime, proved, durable, terms) => {
                self.cut_short();
                self.now = self.now + *downtime;
                self.adopt(terms.as_ref());
                self.history.seize(self.now);
                let how = HandOver::Killed { proved: Nanos(downtime.0 / 100 * proved), durable: *durable };
                self.sender.hand_over(self.now, how, &self.terms);
                self.silence.seize(self.now);
            }
            Event::LoseLease(durable, terms) => {
                let cut = if self.owner == Owner::KeepsItsLease { self.cut_short() } else { Vec::new() };
                // The engine may learn of them before or after it learns that it lost the lane.
                let (before, after) = cut.split_at(cut.len() / 2);
                before.iter().for_each(|request| self.sender.ended(self.now, *request, Outcome::CutOff));
                self.adopt(terms.as_ref());
                self.history.seize(self.now);
                self.sender.hand_over(self.now, HandOver::Lost { durable: *durable }, &self.terms);
                self.silence.seize(self.now);
                after.iter().for_each(|request| self.sender.ended(self.now, *request, Outcome::CutOff));
            }
        }
        self.start_all();
    }

    fn adopt(&mut self, terms: Option<&Terms>) {
        let Some(terms) = terms else { return };
        self.history.change(self.now, terms.contract.clone());
        self.terms = terms.clone();
        self.silence.adopt(terms);
    }

    fn run(&mut self, length: Nanos) {
        self.run_up_to(length, u64::MAX);
    }

    /// Ends early once this many attempts have started in all.
    fn run_up_to(&mut self, length: Nanos, started: u64) {
        let until = self.now + length;
        self.start_all();
        loop {
            let end = self.under_way.keys().next().map(|(end, _)| *end);
            let next = end.into_iter().chain(self.sender.next_wake()).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.waited |= end != Some(next);
            self.end_all(next);
            self.start_all();
            if self.started >= started {
                return;
            }
        }
        self.now = until;
        self.update_silence();
    }

    /// Updates the silence after all possible starts.
    fn update_silence(&mut self) {
        let is_due = self.sender.is_due(self.now);
        self.silence.update(self.now, self.started, is_due, || self.sender.describe_state());
    }

    fn end_all(&mut self, until: StoreTime) {
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= until
        {
            let (end, request) = *entry.key();
            let under_way = entry.remove();
            self.now = self.now.max(end);
            self.end(request, &under_way);
        }
        self.now = self.now.max(until);
    }

    fn start_all(&mut self) {
        while let Some(request) = self.sender.start(self.now) {
            let treatment = self.treatments.next().expect("there is at least one treatment");
            let lateness = self.terms.lateness;
            let end = self.now + treatment.takes.min(lateness.deadline());
            let start = self.history.start(self.now);
            let under_way = UnderWay { start, lateness, treatment };
            self.under_way.insert((end, request), under_way);
            self.started += 1;
        }
        self.update_silence();
    }

    fn end(&mut self, request: u64, under_way: &UnderWay<'a>) {
        let UnderWay { start, treatment, .. } = *under_way;
        let is_late = self.now.since(start.at) < treatment.takes;
        let outcome = if is_late { Outcome::Silent } else { treatment.outcome.clone() };
        match outcome {
            Outcome::Unsent | Outcome::ProxyFailed | Outcome::Withheld | Outcome::Unpermitted(_) => {}
            Outcome::Answered(_) => {
                let arrives = treatment.arrives;
                self.requests.push(Request { start, end: self.now, silent: None, arrives });
            }
            Outcome::Silent | Outcome::CutOff => self.given_up(under_way),
        }
        self.sender.ended(self.now, request, outcome);
    }

    fn cut_short(&mut self) -> Vec<u64> {
        let cut = std::mem::take(&mut self.under_way);
        self.cut_short += cut.len();
        cut.values().for_each(|under_way| self.given_up(under_way));
        cut.into_keys().map(|(_, request)| request).collect()
    }

    fn given_up(&mut self, under_way: &UnderWay<'a>) {
        self.silent += 1;
        let UnderWay { start, lateness, treatment, .. } = *under_way;
        let request = Request { start, end: self.now, silent: Some(lateness), arrives: treatment.arrives };
        self.requests.push(request);
    }
}
