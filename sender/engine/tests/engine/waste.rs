//! Full use: with due work, a lane makes at least 98 % of the attempts that its contract permits.
//!
//! The contract must leave room: an attempt holds its permit for the endpoint's latency R. A bucket needs σ ≥ 2 +
//! 2·ρ·R. A window cap permits L per W + R, because each permit is held for R and then for W.

use hookproof_engine::engine::Nanos;
use hookproof_engine::engine::contract::{Bucket, Contract, Rate, Window};
use proptest::prelude::*;

use crate::shell::{Sent, settings};
use crate::world::{World, status};

const ATTEMPTS: u64 = 1_000;

#[derive(Clone, Debug)]
struct Case {
    contract: Contract,
    latency: Nanos,
    /// Answers come earlier by these percentages, in turn.
    jitter: Vec<u64>,
    /// The contract's long-term rate: attempts, and their time.
    permitted: (u64, Nanos),
    /// Attempts to measure. For a window cap whole windows, because it is used up at once.
    attempts: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_busy_lane_uses_its_whole_contract(case in prop_oneof![bucket(), window()]) {
        let (made, permitted) = attempts_in_the_long_run(&case);
        prop_assert!(made * 100 >= permitted * 98, "{made} of {permitted}");
    }
}

#[test]
fn a_bucket_with_too_little_room_gets_less_which_is_littles_law() {
    let bucket = Bucket::new(Rate::per_second(100).unwrap(), 3).unwrap();
    let contract = Contract::new(Some(bucket), vec![], 100).unwrap();
    let latency = Nanos::from_millis(100);
    let case =
        Case { contract, latency, jitter: vec![0], permitted: (100, Nanos::SECOND), attempts: ATTEMPTS };
    let (made, permitted) = attempts_in_the_long_run(&case);
    assert!(made < permitted / 2, "{made} of {permitted}");
}

/// Counts attempts after the burst is used up.
fn attempts_in_the_long_run(case: &Case) -> (u64, u64) {
    let (per, length) = case.permitted;
    let time_for = |attempts: u64| Nanos(length.0.saturating_mul(attempts) / per);
    let spare = 2 * (per + u64::from(case.contract.bucket().burst()).min(10_000));
    let warm_up = time_for(spare) + case.latency.times(2);
    let mut jitter = case.jitter.iter().cycle();
    let latency = case.latency;
    let mut world = World::new(move |_: &Sent| {
        let more = jitter.next().map_or(0, |percent| latency.0 / 100 * percent);
        status(Nanos(latency.0 - more), 204)
    });
    let lane = world.lane(1, &settings(case.contract.clone()), 0);
    let mut made_in = |run: Nanos| {
        let needed =
            u64::try_from(u128::from(run.0) * u128::from(per) / u128::from(length.0)).unwrap() + spare;
        world.offer(lane, needed.saturating_sub(world.shell.store.waiting(lane) as u64));
        let before = world.sent.len();
        world.run(run);
        assert!(world.shell.store.next(lane).is_some(), "work ran out, so the figure says nothing");
        (world.sent.len() - before) as u64
    };
    made_in(warm_up);
    (made_in(time_for(case.attempts)), case.attempts)
}

fn bucket() -> impl Strategy<Value = Case> {
    let rate = prop_oneof![
        (1_u64..2_000, Just(Nanos::SECOND)),
        (1_u64..50_000, Just(Nanos::MINUTE)),
        (1_u64..100_000, Just(Nanos::DAY)),
    ];
    (rate, latency(), 0_u32..20, jitter(), any::<bool>()).prop_map(
        |((count, per), latency, more, jitter, paced)| {
            let in_flight =
                u32::try_from(u128::from(latency.0) * u128::from(count) / u128::from(per.0)).unwrap();
            let bucket = Bucket::new(Rate::new(count, per).unwrap(), 2 + 2 * (in_flight + 1) + more).unwrap();
            let contract = Contract::new(Some(bucket), vec![], 10_000).unwrap().paced(paced);
            Case { contract, latency, jitter, permitted: (count, per), attempts: ATTEMPTS }
        },
    )
}

fn window() -> impl Strategy<Value = Case> {
    let length = prop_oneof![Just(Nanos::SECOND), Just(Nanos::MINUTE), Just(Nanos::DAY)];
    (1_u32..500, length, latency(), jitter()).prop_map(|(limit, length, latency, jitter)| {
        let window = Window::new(limit, length).unwrap();
        let contract = Contract::new(None, vec![window], 10_000).unwrap();
        let limit = u64::from(limit);
        let attempts = ATTEMPTS.div_ceil(limit) * limit;
        Case { contract, latency, jitter, permitted: (limit, length + latency), attempts }
    })
}

fn latency() -> impl Strategy<Value = Nanos> {
    prop_oneof![Just(Nanos::ZERO), (0_u64..2_000_000_000).prop_map(Nanos)]
}

fn jitter() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![Just(vec![0]), prop::collection::vec(0_u64..50, 1..8)]
}
