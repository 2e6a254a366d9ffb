//! The limiter by itself, at its edges.

use hookproof_sender::engine::contract::{
    BURST_MAX, Bucket, Contract, IN_FLIGHT_MAX, Rate, WINDOW_LIMIT_MAX, Window,
};
use hookproof_sender::engine::limiter::{Limiter, Ready};
use hookproof_sender::engine::{Instant, Nanos};
use proptest::prelude::*;

fn contract(rate: Rate, burst: u32, windows: Vec<Window>) -> Contract {
    Contract::new(Some(Bucket::new(rate, burst).unwrap()), windows, IN_FLIGHT_MAX).unwrap()
}

/// Starts and ends as many attempts as there is room for at one moment.
fn burst(limiter: &mut Limiter, now: Instant) -> u32 {
    let mut made = 0;
    while limiter.ready(now) == Ready::Now {
        limiter.start(now);
        limiter.end(now, Nanos::ZERO);
        made += 1;
    }
    made
}

#[test]
fn does_not_allow_one_extra_after_a_long_idle() {
    let mut limiter = Limiter::fresh(contract(Rate::per_second(10).unwrap(), 20, vec![]));
    assert_eq!(burst(&mut limiter, Instant(1) + Nanos::DAY.times(7)), 20);
}

#[test]
fn does_not_drift_over_a_million_attempts_at_a_rate_that_divides_nothing() {
    let rate = Rate::new(7, Nanos::from_secs(3)).unwrap();
    let mut limiter = Limiter::fresh(contract(rate, 2, vec![]));
    let (mut now, mut made) = (Instant::START, 0_u64);
    while made < 1_000_000 {
        match limiter.ready(now) {
            Ready::At(next) => now = next,
            _ => made += u64::from(burst(&mut limiter, now)),
        }
    }
    // The nth attempt after the burst of two is due at n·3/7 seconds, rounded up.
    assert_eq!(now, Instant(((made - 2) * 3 * Nanos::SECOND.0).div_ceil(7)));
}

#[test]
fn the_extremes_neither_overflow_nor_stall() {
    let rates = [Rate::new(1, Nanos::DAY).unwrap(), Rate::per_second(1_000_000).unwrap()];
    let windows = vec![Window::new(WINDOW_LIMIT_MAX, Nanos::DAY.times(31)).unwrap()];
    for from in rates {
        for to in rates {
            let mut limiter = Limiter::fresh(contract(from, BURST_MAX, windows.clone()));
            assert_eq!(burst(&mut limiter, Instant(1)), BURST_MAX, "{from:?}");
            limiter.change(contract(to, 1, vec![]), Instant(1));
            assert!(limiter.level() >= u64::from(BURST_MAX));
            let Ready::At(next) = limiter.ready(Instant(1)) else { panic!("{to:?}: not ready by time") };
            let wait = to.per().times(u64::from(BURST_MAX));
            assert_eq!(next, Instant(1) + wait);
            // A million attempts at one a day outlast the scale.
            assert_eq!(burst(&mut limiter, next), u32::from(next != Instant::NEVER));
        }
    }
}

#[test]
fn raising_and_lowering_a_limit_gains_nothing() {
    let low = contract(Rate::per_second(1).unwrap(), 10, vec![Window::new(10, Nanos::MINUTE).unwrap()]);
    let high = contract(Rate::per_second(1).unwrap(), 100, vec![]);
    let mut limiter = Limiter::fresh(low.clone());
    let now = Instant(1);
    assert_eq!(burst(&mut limiter, now), 10);
    for _ in 0..10 {
        limiter.change(high.clone(), now);
        limiter.change(low.clone(), now);
        assert_eq!(burst(&mut limiter, now), 0);
    }
    limiter.change(high, now);
    assert_eq!(burst(&mut limiter, now), 90);
    limiter.change(low, now);
    assert_eq!(limiter.ready(now), Ready::At(now + Nanos::from_secs(91)));
}

#[test]
fn a_silent_attempt_stays_in_flight_for_its_quarantine() {
    let mut limiter = Limiter::fresh(contract(Rate::per_second(1_000_000).unwrap(), 1, vec![]));
    limiter.start(Instant(0));
    assert_eq!(limiter.ready(Instant(5)), Ready::OnEnd);
    limiter.end(Instant(5), Nanos(1_000));
    assert_eq!(limiter.ready(Instant(6)), Ready::At(Instant(1_005)));
    assert_eq!(limiter.in_flight(), 1);
    assert_eq!(limiter.ready(Instant(1_005)), Ready::At(Instant(2_005)), "and is charged then");
}

#[test]
fn a_damaged_snapshot_counts_as_a_crash() {
    let contract = contract(Rate::per_second(1).unwrap(), 5, vec![Window::new(9, Nanos::MINUTE).unwrap()]);
    let mut limiter = Limiter::fresh(contract.clone());
    burst(&mut limiter, Instant(1));
    let snapshot = serde_json::to_value(limiter.snapshot(Instant(1))).unwrap();
    let resumed = |snapshot: &serde_json::Value| {
        let snapshot = serde_json::from_value(snapshot.clone()).unwrap();
        Limiter::resume(contract.clone(), &snapshot, Nanos::ZERO, Instant(1)).ready(Instant(1))
    };
    assert_eq!(resumed(&snapshot), Ready::At(Instant(1) + Nanos::SECOND));
    let rows =
        [("rate_count", 0), ("rate_per", 0), ("burst", 0), ("rate_count", u64::MAX), ("rate_per", u64::MAX)];
    for (field, value) in rows {
        let mut damaged = snapshot.clone();
        damaged[field] = value.into();
        let Ready::At(next) = resumed(&damaged) else { panic!("{field} = {value}") };
        assert!(next > Instant(1) + Nanos::DAY, "{field} = {value}: {next:?}");
    }
}

proptest! {
    #[test]
    fn no_snapshot_panics(numbers in prop::array::uniform8(any::<u64>()), ends in prop::collection::vec(any::<(u64, u32)>(), 0..5)) {
        let [rate_count, rate_per, burst, level, level_rest, held, remembered, left] = numbers;
        let snapshot = serde_json::json!({
            "rate_count": rate_count % 1_000, "rate_per": rate_per % 1_000 + 1, "burst": burst % 2_000_000,
            "level": level % (1 << 32), "level_rest": level_rest, "in_flight": level_rest % 20_000, "held": held, "ends": ends,
            "remembered": remembered, "quarantined": [left, 1],
        });
        let snapshot = serde_json::from_value(snapshot).unwrap();
        let windows = vec![Window::new(9, Nanos::MINUTE).unwrap()];
        let contract = contract(Rate::per_second(1).unwrap(), 5, windows);
        let mut limiter = Limiter::resume(contract, &snapshot, Nanos(left), Instant(held));
        let _ = limiter.ready(Instant(held));
        let _ = limiter.ready(Instant::NEVER);
    }

    /// A snapshot taken at any moment loses nothing and gains nothing.
    #[test]
    fn a_limiter_that_was_stopped_and_resumed_goes_on_as_if_it_had_not(
        steps in prop::collection::vec((0_u64..2_000, 0_u64..300), 1..40),
        stop in 0_usize..40,
    ) {
        let windows = vec![Window::new(7, Nanos::SECOND).unwrap()];
        let contract = contract(Rate::new(7, Nanos::from_secs(3)).unwrap(), 5, windows);
        let mut whole = Limiter::fresh(contract.clone());
        let mut stopped = whole.clone();
        let mut now = Instant(1);
        for (step, (gap, quarantine)) in steps.into_iter().enumerate() {
            now = now + Nanos::from_millis(gap);
            if step == stop {
                let snapshot = stopped.snapshot(now);
                now = now + Nanos::from_millis(700);
                stopped = Limiter::resume(contract.clone(), &snapshot, Nanos::from_millis(700), now);
            }
            prop_assert_eq!(whole.ready(now), stopped.ready(now));
            if whole.ready(now) == Ready::Now {
                for limiter in [&mut whole, &mut stopped] {
                    limiter.start(now);
                    limiter.end(now, Nanos::from_millis(quarantine));
                }
            }
        }
    }
}
