//! An endpoint that slows down under load gets a load that it answers within the target.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use hookproof_engine::engine::pressure::PressurePolicy;
use hookproof_engine::engine::{Input, LaneId, Nanos, Origin, Settings, StoreTime, Term, Why};
use proptest::prelude::*;

use crate::shell::{Sent, no_breaker, per_second, settings_with};
use crate::world::{Reply, World, status};

const LANE: LaneId = LaneId(1);

#[derive(Clone)]
struct Queue {
    service: Rc<Cell<Nanos>>,
    free: Rc<Cell<StoreTime>>,
    answers: Rc<RefCell<Vec<(StoreTime, Nanos)>>>,
}

impl Queue {
    fn new(service: Nanos) -> Self {
        Self { service: Rc::new(Cell::new(service)), free: Rc::default(), answers: Rc::default() }
    }

    fn reply(&self, sent: &Sent) -> Reply {
        let end = sent.at.max(self.free.get()) + self.service.get();
        self.free.set(end);
        self.answers.borrow_mut().push((sent.at, end.since(sent.at)));
        status(end.since(sent.at), 204)
    }

    fn mean_of_last(&self, count: usize) -> Nanos {
        let answers = self.answers.borrow();
        let last = &answers[answers.len().saturating_sub(count)..];
        Nanos(last.iter().map(|(_, took)| took.0).sum::<u64>() / u64::try_from(last.len().max(1)).unwrap())
    }
}

#[derive(Clone, Debug)]
struct Case {
    rate: u64,
    in_flight: u32,
    quick_ms: u64,
    slow_ms: u64,
}

#[derive(Debug)]
struct SlowdownFigures {
    /// Answers, and those at least a quarter above the target.
    answers: usize,
    late: usize,
    possible: usize,
}

const LOOKED_AT: Nanos = Nanos::from_secs(300);
const TARGET: Nanos = Nanos::from_millis(500);

/// Fast for `calm`, then slow for an hour. `follow` breaks the baseline.
fn play(
    case: &Case,
    calm: Nanos,
    policy: &PressurePolicy,
    follow: bool,
) -> (SlowdownFigures, World<impl FnMut(&Sent) -> Reply>) {
    let queue = Queue::new(Nanos::from_millis(case.quick_ms));
    let endpoint = queue.clone();
    let mut world = World::new(move |sent: &Sent| endpoint.reply(sent));
    let with = |policy: &PressurePolicy| {
        let burst = u32::try_from(case.rate).unwrap() + 2;
        settings_with(per_second(case.rate, burst, case.in_flight), no_breaker(), policy.clone())
    };
    world.lane(1, &with(policy), 0);
    let second = |world: &mut World<_>| {
        world.offer(LANE, case.rate.saturating_sub(world.shell.store.waiting(LANE) as u64));
        world.run(Nanos::SECOND);
    };
    for _ in 0..calm.0 / Nanos::SECOND.0 {
        second(&mut world);
    }
    queue.service.set(Nanos::from_millis(case.slow_ms));
    for _ in 0..3_600 {
        if follow {
            let usual = queue.mean_of_last(64).times(4).max(TARGET);
            let settings: Arc<Settings> = with(&policy.clone().with_target(Some(usual)));
            world.handle(Input::Change { lane: LANE, settings });
        }
        second(&mut world);
    }
    let from = world.now.sooner(LOOKED_AT);
    let answers = queue.answers.borrow();
    let last: Vec<_> = answers.iter().filter(|(at, _)| *at >= from).map(|(_, took)| *took).collect();
    let late = last.iter().filter(|took| took.0 > TARGET.0 / 4 * 5).count();
    let possible = usize::try_from(LOOKED_AT.0 / Nanos::from_millis(case.slow_ms).0).unwrap();
    (SlowdownFigures { answers: last.len(), late, possible }, world)
}

fn case() -> impl Strategy<Value = Case> {
    (20_u64..200, 10_u32..60, 1_u64..4, 40_u64..200)
        .prop_map(|(rate, in_flight, quick_ms, slow_ms)| Case { rate, in_flight, quick_ms, slow_ms })
        // Far above the target at the whole contract, within it at the least share.
        .prop_filter("strained", |case| {
            u64::from(case.in_flight) * case.slow_ms > 1_000
                && u64::from(case.in_flight / 10).max(1) * case.slow_ms <= 400
        })
}

/// Whether only the rate holds the latency. At the share at which the rate equals the endpoint's capacity, the cap in
/// flight must allow more than it answers within the target: cap × share × slow > target, where rate × share × slow =
/// 1.
fn rate_binds(case: &Case) -> bool {
    Nanos::SECOND.times(case.in_flight.into()) > TARGET.times(case.rate)
}

/// The throttle's promise: the endpoint is busy at least three quarters of the time, and answers near the target. The
/// lane probes for more. Where the rate binds, at most one answer in twenty is late. Where the cap binds, one more in
/// flight may cross the target, so the bound is one in five.
fn holds(case: &Case, seen: &SlowdownFigures) -> bool {
    let most = if rate_binds(case) { 20 } else { 5 };
    seen.late * most <= seen.answers && seen.answers * 4 >= seen.possible * 3
}

/// `PROPTEST_CASES=4000 cargo test -p hookproof-engine --test engine pressure` runs more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn a_lasting_slowdown_is_held_where_the_endpoint_answers_in_its_target(case in case()) {
        let (seen, _) = play(&case, Nanos::from_secs(10), &PressurePolicy::default(), false);
        prop_assert!(holds(&case, &seen), "{seen:?}");
        let (broken, _) = play(&case, Nanos::from_secs(10), &PressurePolicy::default(), true);
        // Where the whole rate barely exceeds the endpoint's capacity, there is nothing to hold.
        let is_told_apart = case.rate * case.slow_ms > 1_500;
        prop_assert!(!is_told_apart || !holds(&case, &broken), "not caught: {broken:?}");
    }
}

#[test]
fn throttle_reports_are_few_and_give_their_reason() {
    let case = Case { rate: 100, in_flight: 20, quick_ms: 2, slow_ms: 100 };
    let policy = PressurePolicy::default();
    let (_, world) = play(&case, Nanos::from_secs(10), &policy, false);
    let told = &world.shell.told;
    assert!((1..=400).contains(&told.len()), "{} in an hour", told.len());
    assert!(told.iter().any(|(_, shift)| shift.to < shift.from && matches!(shift.why, Why::Latency { .. })));
    assert!(
        told.iter().all(|(_, shift)| (shift.to > shift.from) == (shift.why == Why::Recovered)),
        "{told:?}"
    );
    for two in told.windows(2) {
        assert_eq!(two[0].1.to, two[1].1.from, "each goes on where the last one ended");
        assert!(two[1].1.at.since(two[0].1.at) >= Nanos::from_secs(10) || two[1].1.to == 100);
    }
}

#[test]
fn the_latency_baseline_survives_a_change_of_owner() {
    for clean in [true, false] {
        let mut world = World::new(|_: &Sent| status(Nanos::from_millis(20), 204));
        let settings = settings_with(per_second(100, 20, 10), no_breaker(), PressurePolicy::default());
        let lane = world.lane(1, &settings, 100);
        world.run(Nanos::from_secs(10));
        let usual = world.shell.engine.views()[0].usual;
        assert!(usual.is_some());
        if clean {
            world.handle(Input::Leave { lane });
            world.pump();
        } else {
            world.handle(Input::Lose { lane, term: Term(1) });
        }
        let (record, downtime) = (world.shell.records[&lane].clone(), Nanos::SECOND);
        let origin = if clean {
            Origin::Resumed { record, downtime }
        } else {
            Origin::Seized { record: Some(record), downtime, ended: vec![] }
        };
        world.shell.take(world.now, lane, 2, &settings, origin);
        assert_eq!(world.shell.engine.views()[0].usual, usual, "clean: {clean}");
    }
}
