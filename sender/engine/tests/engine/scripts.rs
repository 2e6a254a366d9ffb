use hookproof_engine::engine::contract::{Bucket, Contract, Rate, Window};
use hookproof_engine::engine::{Lateness, Nanos, Outcome};
use proptest::prelude::*;

use crate::senders::Terms;
use crate::world::answer;

pub(crate) const DEADLINE_MAX: Nanos = Nanos::from_millis(400);

/// Each follows the previous event after a given gap.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Offer(u64),
    Change(Terms),
    Pause,
    Resume,
    /// An operator has the endpoint tried at once, and ends its own pause if true.
    Retry(bool),
    /// Stopped in order, and restarted after this time, of which this percentage is proved.
    Restart(Nanos, u64),
    /// Killed after this percentage of its writes became durable. Another owner takes over after the given time,
    /// partly proved, perhaps under other terms.
    Kill(Nanos, u64, usize, Option<Terms>),
    /// Its lease ends, and it lives on; another owner takes over at once. The percentage is that of durable writes.
    LoseLease(usize, Option<Terms>),
}

#[derive(Clone, Debug)]
pub(crate) struct Treatment {
    /// From far below the deadline to far beyond it; the sender aborts at the deadline.
    pub(crate) takes: Nanos,
    pub(crate) outcome: Outcome,
    /// The request's arrival between its start and its latest moment, in parts of 1/255.
    pub(crate) arrives: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) terms: Terms,
    pub(crate) delay: Nanos,
    pub(crate) events: Vec<(Nanos, Event)>,
    pub(crate) treatments: Vec<Treatment>,
}

impl Script {
    /// One contract, and no surviving owner: the small sender supports nothing else.
    pub(crate) fn without_changes(mut self) -> Self {
        for (_, event) in &mut self.events {
            match event {
                Event::Change(_) | Event::LoseLease(..) => *event = Event::Resume,
                Event::Kill(.., terms) => *terms = None,
                _ => {}
            }
        }
        self
    }
}

impl Script {
    /// An operator retries instead of pausing.
    pub(crate) fn with_retries(mut self) -> Self {
        for (_, event) in &mut self.events {
            match event {
                Event::Pause => *event = Event::Retry(false),
                Event::Resume => *event = Event::Retry(true),
                _ => {}
            }
        }
        self
    }

    /// A sender that waits in vain would never stop in order.
    pub(crate) fn without_restarts(mut self) -> Self {
        for (_, event) in &mut self.events {
            if matches!(event, Event::Restart(..)) {
                *event = Event::Resume;
            }
        }
        self
    }

    pub(crate) fn with_roomy_limits(mut self, in_flight: u32) -> Self {
        let bucket = Bucket::new(Rate::per_second(1_000).unwrap(), 1_000).unwrap();
        self.terms.contract = Contract::new(Some(bucket), vec![], in_flight).unwrap();
        for (_, event) in &mut self.events {
            match event {
                Event::Change(_) => *event = Event::Resume,
                Event::Kill(.., terms) | Event::LoseLease(_, terms) => *terms = None,
                _ => {}
            }
        }
        self
    }
}

pub(crate) fn scripts() -> impl Strategy<Value = Script> {
    let gap = prop_oneof![Just(Nanos::ZERO), (0_u64..2_000_000_000).prop_map(Nanos), millis(0..400)];
    let events = prop::collection::vec((gap, event()), 1..12);
    let treatments = prop::collection::vec(treatment(), 1..12);
    let delay = prop_oneof![2 => Just(Nanos::ZERO), 1 => millis(0..20), 1 => millis(0..600)];
    (terms(), delay, events, treatments).prop_map(|(terms, delay, events, treatments)| Script {
        terms,
        delay,
        events,
        treatments,
    })
}

fn event() -> impl Strategy<Value = Event> {
    let others = || prop_oneof![2 => Just(None), 1 => terms().prop_map(Some)];
    let kill = (millis(0..500), 0_u64..=100, 0_usize..=100, others());
    prop_oneof![
        6 => (1_u64..40).prop_map(Event::Offer),
        2 => terms().prop_map(Event::Change),
        1 => Just(Event::Pause),
        2 => Just(Event::Resume),
        1 => (millis(0..500), 0_u64..=100).prop_map(|(downtime, proved)| Event::Restart(downtime, proved)),
        2 => kill.prop_map(|(downtime, proved, durable, others)| Event::Kill(downtime, proved, durable, others)),
        2 => (0_usize..=100, others()).prop_map(|(durable, others)| Event::LoseLease(durable, others)),
    ]
}

fn terms() -> impl Strategy<Value = Terms> {
    let deadline = prop_oneof![Just(DEADLINE_MAX), millis(1..400)];
    let quarantine = prop_oneof![1 => Just(Nanos::ZERO), 3 => millis(0..300)];
    let doubt = prop_oneof![1 => Just(Nanos::ZERO), 4 => millis(0..1_500)];
    (contract(), deadline, quarantine, doubt).prop_map(|(contract, deadline, quarantine, doubt)| Terms {
        contract,
        lateness: Lateness::new(deadline, quarantine, doubt).unwrap(),
    })
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
        1 => Just(Outcome::ProxyFailed),
        1 => Just(Outcome::Withheld),
        2 => Just(Outcome::Silent),
    ];
    (takes, outcome, any::<u8>()).prop_map(|(takes, outcome, arrives)| Treatment { takes, outcome, arrives })
}

fn millis(range: std::ops::Range<u64>) -> impl Strategy<Value = Nanos> {
    range.prop_map(Nanos::from_millis)
}
