//! The guarantee: whatever happens, the requests that reach an endpoint conform to its contract, over all windows and
//! wherever between start and end each of them arrived.
//!
//! `HOOKPROOF_CASES=1000000 cargo test -p hookproof-sender --release --test engine guarantee` looks longer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use hookproof_sender::engine::contract::{Bucket, Contract, Rate, Window};
use hookproof_sender::engine::{Instant, Nanos, Outcome};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::judge::{Arrival, History, Made, Start, judge_all_placements, judge_arrivals};
use crate::senders::{EngineSender, Flaw, HandOver, SendCharged, Sender};
use crate::world::answer;

const TIMEOUT: Nanos = Nanos::from_millis(400);
const QUARANTINE: Nanos = Nanos::from_millis(150);

/// Something that happens to a sender, so long after what happened before.
#[derive(Clone, Debug)]
enum Event {
    Offer(u64),
    Change(Contract),
    Pause,
    Resume,
    /// Stopped in order, started again so long after, of which so many percent can be proved.
    Restart(Nanos, u64),
    /// Killed, and somebody else takes over so long after, of which so many percent can be proved.
    Kill(Nanos, u64),
    /// Its lease runs out; somebody else takes over at once.
    LoseLease,
}

/// How an endpoint treats a request.
#[derive(Clone, Debug)]
struct Treatment {
    /// From far below the deadline to far beyond: then the sender gives up at the deadline.
    takes: Nanos,
    outcome: Outcome,
    /// Where between start and latest moment the request arrives, in 1/255 of the way.
    arrives: u8,
}

#[derive(Clone, Debug)]
struct Script {
    contract: Contract,
    events: Vec<(Nanos, Event)>,
    /// Used in turn, over and over.
    treatments: Vec<Treatment>,
}

#[test]
fn what_arrives_conforms_to_the_contract_over_all_windows() {
    let result = runner(cases()).run(&scripts(), |script| {
        let sender = |now, contract| EngineSender::new(now, contract, TIMEOUT, QUARANTINE, Flaw::None);
        Play::of(&script, sender).judge().map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

#[test]
fn a_limiter_that_charges_on_send_does_not_conform() {
    is_found_out("charged on send", SendCharged::new);
}

#[test]
fn a_sender_that_forgets_something_does_not_conform() {
    for flaw in
        [Flaw::NoQuarantine, Flaw::ForgetsAtCrash, Flaw::NoHold, Flaw::ForgetsAtStop, Flaw::ForgetsAtChange]
    {
        let sender = |now, contract| EngineSender::new(now, contract, TIMEOUT, QUARANTINE, flaw);
        is_found_out(&format!("{flaw:?}"), sender);
    }
}

#[test]
fn the_scripts_reach_what_they_are_for() {
    let reached = RefCell::new(BTreeMap::new());
    let count = |what, many: usize| *reached.borrow_mut().entry(what).or_insert(0) += many;
    runner(2_000)
        .run(&scripts(), |script| {
            let sender = |now, contract| EngineSender::new(now, contract, TIMEOUT, QUARANTINE, Flaw::None);
            let play = Play::of(&script, sender);
            count("requests", play.made.len());
            count("silent ends", play.silent);
            count("hand-overs with requests under way", play.cut_short);
            count("times that a limit was reached", usize::from(play.waited));
            Ok(())
        })
        .unwrap();
    let reached = reached.into_inner();
    let enough = reached.values().all(|&many| many > 500) && reached["requests"] > 40_000;
    assert!(enough, "{reached:?}");
}

/// The same property must find the sender's flaw, with the same scripts and no more of them.
fn is_found_out<S: Sender>(flaw: &str, sender: impl Fn(Instant, Contract) -> S) {
    let result = runner(cases())
        .run(&scripts(), |script| Play::of(&script, &sender).judge().map_err(TestCaseError::fail));
    assert!(matches!(result, Err(TestError::Fail(..))), "{flaw} passed {} cases", cases());
}

fn cases() -> u32 {
    match std::env::var("HOOKPROOF_CASES") {
        Ok(cases) => cases.parse().expect("HOOKPROOF_CASES is a number of cases"),
        Err(_) => 50_000,
    }
}

/// The seed is fixed so that a green run stays green; `HOOKPROOF_SEED` looks elsewhere, and a failure prints its script.
fn runner(cases: u32) -> TestRunner {
    let seed =
        std::env::var("HOOKPROOF_SEED").map_or(0, |seed| seed.parse().expect("HOOKPROOF_SEED is a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_096, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn scripts() -> impl Strategy<Value = Script> {
    let gap = prop_oneof![Just(Nanos::ZERO), (0_u64..2_000_000_000).prop_map(Nanos), millis(0..400)];
    let events = prop::collection::vec((gap, event()), 1..12);
    let treatments = prop::collection::vec(treatment(), 1..12);
    (contract(), events, treatments).prop_map(|(contract, events, treatments)| Script {
        contract,
        events,
        treatments,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (1_u64..30).prop_map(Event::Offer),
        2 => contract().prop_map(Event::Change),
        1 => Just(Event::Pause),
        2 => Just(Event::Resume),
        1 => (millis(0..500), 0_u64..=100).prop_map(|(downtime, proved)| Event::Restart(downtime, proved)),
        2 => (millis(0..500), 0_u64..=100).prop_map(|(downtime, proved)| Event::Kill(downtime, proved)),
        1 => Just(Event::LoseLease),
    ]
}

fn contract() -> impl Strategy<Value = Contract> {
    let rate = prop_oneof![(1_u64..50, Just(Nanos::SECOND)), (1_u64..2_000, Just(Nanos::MINUTE))];
    let bucket = (rate, 1_u32..12)
        .prop_map(|((count, per), burst)| Bucket::new(Rate::new(count, per).unwrap(), burst).unwrap());
    let length = prop_oneof![Just(Nanos::from_millis(100)), Just(Nanos::SECOND), millis(1..2_000)];
    let window = (1_u32..12, length).prop_map(|(limit, length)| Window::new(limit, length).unwrap());
    let windows = move |how_many| prop::collection::vec(window.clone(), how_many);
    let limits = prop_oneof![
        4 => (bucket.prop_map(Some), windows(0..3)),
        1 => (Just(None), windows(1..3)),
    ];
    let in_flight = prop_oneof![1_u32..5, Just(100)];
    (limits, in_flight)
        .prop_map(|((bucket, windows), in_flight)| Contract::new(bucket, windows, in_flight).unwrap())
}

fn treatment() -> impl Strategy<Value = Treatment> {
    let takes = prop_oneof![Just(Nanos::ZERO), millis(0..60), millis(0..1_000)];
    let outcome = prop_oneof![
        6 => Just(Outcome::Answered(answer(200, None))),
        1 => Just(Outcome::Answered(answer(503, None))),
        1 => Just(Outcome::Answered(answer(429, Some("0")))),
        1 => Just(Outcome::Unsent),
        1 => Just(Outcome::Withheld),
        2 => Just(Outcome::Silent),
    ];
    (takes, outcome, any::<u8>()).prop_map(|(takes, outcome, arrives)| Treatment { takes, outcome, arrives })
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos::from_millis)
}

/// A request that has started and not ended.
#[derive(Clone, Copy)]
struct UnderWay<'a> {
    start: Start,
    treatment: &'a Treatment,
    /// Which owner's it is.
    owner: u32,
    /// That owner is in another process now: its end is not reported.
    elsewhere: bool,
}

/// One script played with one sender.
struct Play<'a, S> {
    sender: S,
    now: Instant,
    treatments: std::iter::Cycle<std::slice::Iter<'a, Treatment>>,
    /// Requests under way: when each ends, and its number.
    under_way: BTreeMap<(Instant, u64), UnderWay<'a>>,
    /// How many owners there were.
    owners: u32,
    history: History,
    made: Vec<Made>,
    arrivals: Vec<Arrival>,
    silent: usize,
    cut_short: usize,
    waited: bool,
}

impl<'a, S: Sender> Play<'a, S> {
    fn of(script: &'a Script, sender: impl Fn(Instant, Contract) -> S) -> Self {
        let now = Instant(1);
        let mut history = History::default();
        history.change(now, script.contract.clone());
        let mut play = Self {
            sender: sender(now, script.contract.clone()),
            now,
            treatments: script.treatments.iter().cycle(),
            under_way: BTreeMap::new(),
            owners: 0,
            history,
            made: vec![],
            arrivals: vec![],
            silent: 0,
            cut_short: 0,
            waited: false,
        };
        for (gap, event) in &script.events {
            play.run(*gap);
            play.happen(event);
        }
        play.run(Nanos::from_secs(4));
        play
    }

    fn judge(&self) -> Result<(), String> {
        judge_arrivals(&self.history, &self.arrivals)?;
        judge_all_placements(&self.history, &self.made)
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Offer(count) => self.sender.offer(self.now, *count),
            Event::Change(contract) => {
                self.history.change(self.now, contract.clone());
                self.sender.change(self.now, contract);
            }
            Event::Pause => self.sender.set_paused(self.now, true),
            Event::Resume => self.sender.set_paused(self.now, false),
            Event::Restart(downtime, proved) => {
                self.sender.stop(self.now);
                self.run(TIMEOUT);
                self.now = self.now + *downtime;
                let proved = Nanos(downtime.0 / 100 * proved);
                self.sender.hand_over(self.now, HandOver::Clean { proved });
            }
            Event::Kill(downtime, proved) => {
                for (key, under_way) in std::mem::take(&mut self.under_way) {
                    if under_way.owner == self.owners {
                        self.cut_short += 1;
                        self.arrive(under_way.start, self.now + QUARANTINE, under_way.treatment);
                    } else {
                        // An owner that lost its lease before lives on, in a process of its own.
                        self.under_way.insert(key, UnderWay { elsewhere: true, ..under_way });
                    }
                }
                self.owners += 1;
                self.now = self.now + *downtime;
                self.history.seize(self.now);
                let proved = Nanos(downtime.0 / 100 * proved);
                self.sender.hand_over(self.now, HandOver::Killed { proved });
            }
            Event::LoseLease => {
                self.cut_short += self.under_way.len();
                self.owners += 1;
                self.history.seize(self.now);
                self.sender.hand_over(self.now, HandOver::Lost);
            }
        }
        self.start_all();
    }

    fn run(&mut self, length: Nanos) {
        let until = self.now + length;
        self.start_all();
        loop {
            let end = self.under_way.keys().next().map(|(end, _)| *end);
            let next = end.into_iter().chain(self.sender.next_wake()).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.waited |= end != Some(next);
            self.now = self.now.max(next);
            while let Some(entry) = self.under_way.first_entry()
                && entry.key().0 <= self.now
            {
                let (_, request) = *entry.key();
                let under_way = entry.remove();
                self.end(request, &under_way);
            }
            self.start_all();
        }
        self.now = until;
    }

    fn start_all(&mut self) {
        while let Some(request) = self.sender.start(self.now) {
            let treatment = self.treatments.next().expect("there is at least one treatment");
            let end = self.now + treatment.takes.min(TIMEOUT);
            let start = self.history.start(self.now);
            let under_way = UnderWay { start, treatment, owner: self.owners, elsewhere: false };
            self.under_way.insert((end, request), under_way);
        }
    }

    fn end(&mut self, request: u64, under_way: &UnderWay<'a>) {
        let UnderWay { start, treatment, elsewhere, .. } = *under_way;
        let outcome = if treatment.takes > TIMEOUT { Outcome::Silent } else { treatment.outcome.clone() };
        match outcome {
            Outcome::Unsent | Outcome::Withheld => {}
            Outcome::Answered(_) => self.arrive(start, self.now, treatment),
            Outcome::Silent => {
                self.silent += 1;
                self.arrive(start, self.now + QUARANTINE, treatment);
            }
        }
        if !elsewhere {
            self.sender.ended(self.now, request, outcome);
        }
    }

    fn arrive(&mut self, start: Start, late: Instant, treatment: &Treatment) {
        let way = late.since(start.at).0 / 255 * u64::from(treatment.arrives);
        self.made.push(Made { start, late });
        self.arrivals.push(Arrival { start, at: start.at + Nanos(way) });
    }
}
