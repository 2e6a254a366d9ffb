use hookproof_engine::engine::contract::{
    BURST_MAX, Bucket, Contract, IN_FLIGHT_MAX, Rate, WINDOW_LIMIT_MAX, Window,
};
use hookproof_engine::engine::limiter::{End, Limiter, Ready, Since};
use hookproof_engine::engine::{Lateness, Nanos, StoreTime};
use proptest::prelude::*;

fn contract(rate: Rate, burst: u32, windows: Vec<Window>) -> Contract {
    Contract::new(Some(Bucket::new(rate, burst).unwrap()), windows, IN_FLIGHT_MAX).unwrap()
}

/// In nanoseconds.
fn late(deadline: u64, quarantine: u64, doubt: u64) -> Lateness {
    Lateness::new(Nanos(deadline), Nanos(quarantine), Nanos(doubt)).unwrap()
}

fn record(limiter: &mut Limiter, now: StoreTime) {
    let (revision, _) = limiter.snapshot(false, now);
    limiter.recorded(revision);
}

fn fresh(contract: Contract) -> Limiter {
    let mut limiter = Limiter::fresh(contract, late(0, 0, 0));
    record(&mut limiter, StoreTime::START);
    limiter
}

fn change(limiter: &mut Limiter, contract: Contract, now: StoreTime) {
    limiter.change(contract, late(0, 0, 0), now);
    record(limiter, now);
}

fn burst(limiter: &mut Limiter, now: StoreTime) -> u32 {
    let mut made = 0;
    while limiter.ready(now) == Ready::Now {
        limiter.start(now);
        if limiter.end(now, End::Answered, now) {
            limiter.settled();
        }
        made += 1;
    }
    made
}

#[test]
fn does_not_allow_one_extra_after_a_long_idle() {
    let mut limiter = fresh(contract(Rate::per_second(10).unwrap(), 20, vec![]));
    assert_eq!(burst(&mut limiter, StoreTime(1) + Nanos::DAY.times(7)), 20);
}

#[test]
fn does_not_drift_over_a_million_attempts_at_a_rate_that_divides_nothing() {
    let rate = Rate::new(7, Nanos::from_secs(3)).unwrap();
    let mut limiter = fresh(contract(rate, 2, vec![]));
    let (mut now, mut made) = (StoreTime::START, 0_u64);
    while made < 1_000_000 {
        match limiter.ready(now) {
            Ready::At(next) => now = next,
            _ => made += u64::from(burst(&mut limiter, now)),
        }
    }
    // After the burst of two, the nth attempt is due at n·3/7 seconds, rounded up.
    assert_eq!(now, StoreTime(((made - 2) * 3 * Nanos::SECOND.0).div_ceil(7)));
}

#[test]
fn the_extremes_neither_overflow_nor_stall() {
    let rates = [Rate::new(1, Nanos::DAY).unwrap(), Rate::per_second(1_000_000).unwrap()];
    let windows = vec![Window::new(WINDOW_LIMIT_MAX, Nanos::DAY.times(31)).unwrap()];
    for from in rates {
        for to in rates {
            let mut limiter = fresh(contract(from, BURST_MAX, windows.clone()));
            assert_eq!(burst(&mut limiter, StoreTime(1)), BURST_MAX, "{from:?}");
            change(&mut limiter, contract(to, 1, vec![]), StoreTime(1));
            assert!(limiter.level() >= u64::from(BURST_MAX));
            let Ready::At(next) = limiter.ready(StoreTime(1)) else { panic!("{to:?}: not ready by time") };
            let wait = to.per().times(u64::from(BURST_MAX));
            assert_eq!(next, StoreTime(1) + wait);
            // A million attempts at one a day exceed the time scale.
            assert_eq!(burst(&mut limiter, next), u32::from(next != StoreTime::NEVER));
        }
    }
}

#[test]
fn raising_and_lowering_a_limit_gains_nothing() {
    let low = contract(Rate::per_second(1).unwrap(), 10, vec![Window::new(10, Nanos::MINUTE).unwrap()]);
    let high = contract(Rate::per_second(1).unwrap(), 100, vec![]);
    let mut limiter = fresh(low.clone());
    let now = StoreTime(1);
    assert_eq!(burst(&mut limiter, now), 10);
    for _ in 0..10 {
        change(&mut limiter, high.clone(), now);
        change(&mut limiter, low.clone(), now);
        assert_eq!(burst(&mut limiter, now), 0);
    }
    change(&mut limiter, high, now);
    assert_eq!(burst(&mut limiter, now), 90);
    change(&mut limiter, low, now);
    assert_eq!(limiter.ready(now), Ready::At(now + Nanos::from_secs(91)));
}

/// A limiter with an attempt that ended in silence at 5, and a free slot.
fn doubting(deadline: u64, quarantine: u64, doubt: u64) -> Limiter {
    let contract = contract(Rate::per_second(1_000_000).unwrap(), 2, vec![]);
    let mut limiter = Limiter::fresh(contract, late(deadline, quarantine, doubt));
    record(&mut limiter, StoreTime::START);
    limiter.start(StoreTime(0));
    limiter.end(StoreTime(0), End::Silent, StoreTime(5));
    record(&mut limiter, StoreTime(5));
    limiter
}

/// The end of the doubt, if a later attempt began and was answered at these times.
fn in_doubt_until(began: u64, answered: u64) -> u64 {
    let mut limiter = doubting(0, 1_000, 60_000);
    limiter.start(StoreTime(began));
    limiter.end(StoreTime(began), End::Answered, StoreTime(answered));
    limiter.in_doubt().1.unwrap().0
}

#[test]
fn nothing_starts_before_a_record_of_it_is_durable() {
    let mut limiter = Limiter::fresh(contract(Rate::per_second(1).unwrap(), 5, vec![]), late(0, 0, 0));
    assert_eq!(limiter.ready(StoreTime(1)), Ready::OnEvent);
    let (first, _) = limiter.snapshot(false, StoreTime(1));
    limiter.recorded(first);
    assert_eq!(limiter.ready(StoreTime(1)), Ready::Now);
    limiter.change(contract(Rate::per_second(1).unwrap(), 50, vec![]), late(0, 0, 0), StoreTime(1));
    limiter.recorded(first);
    assert_eq!(limiter.ready(StoreTime(1)), Ready::OnEvent);
    record(&mut limiter, StoreTime(1));
    assert_eq!(limiter.ready(StoreTime(1)), Ready::Now);
}

#[test]
fn only_an_answer_to_a_later_attempt_ends_a_doubt_early() {
    for (began, answered, until) in [(5, 100, 60_005), (6, 100, 1_100), (6, 59_500, 60_005)] {
        assert_eq!(in_doubt_until(began, answered), until, "began at {began}, answered at {answered}");
    }
}

#[test]
fn an_attempt_is_charged_when_its_doubt_ends() {
    let mut limiter = doubting(0, 1_000, 60_000);
    assert_eq!(limiter.in_flight(), 1);
    assert_eq!(burst(&mut limiter, StoreTime(60_004)), 1);
    assert_eq!(limiter.ready(StoreTime(60_005)), Ready::At(StoreTime(61_004)), "one a microsecond");
    assert_eq!((limiter.in_flight(), limiter.level()), (0, 2));
}

#[test]
fn an_attempt_in_doubt_without_a_durable_record_counts_against_the_cap_in_flight() {
    let bucket = Bucket::new(Rate::per_second(1).unwrap(), 10).unwrap();
    let mut limiter = fresh(Contract::new(Some(bucket), vec![], 1).unwrap());
    limiter.change(limiter.contract().clone(), late(0, 1_000, 60_000), StoreTime(0));
    record(&mut limiter, StoreTime(0));
    limiter.start(StoreTime(0));
    limiter.end(StoreTime(0), End::Silent, StoreTime(5));
    assert_eq!(limiter.ready(StoreTime(5)), Ready::OnEvent);
    assert_eq!(limiter.ready(StoreTime(70_000)), Ready::OnEvent, "nor does time help");
    record(&mut limiter, StoreTime(70_000));
    assert_eq!(limiter.ready(StoreTime(70_000)), Ready::Now);
}

#[test]
fn with_windows_an_attempt_counts_against_the_cap_in_flight_until_it_is_settled() {
    let window = Window::new(100, Nanos::MINUTE).unwrap();
    let mut limiter = fresh(Contract::new(None, vec![window], 1).unwrap());
    limiter.start(StoreTime(0));
    assert!(limiter.end(StoreTime(0), End::Answered, StoreTime(5)));
    assert_eq!(limiter.ready(StoreTime(5)), Ready::OnEvent);
    limiter.settled();
    assert_eq!(limiter.ready(StoreTime(5)), Ready::Now);
}

fn taken_over(limiter: &mut Limiter, contract: Contract) -> Limiter {
    let (_, left) = limiter.snapshot(false, StoreTime(100));
    let since = Since { downtime: Nanos::ZERO, ended: &[] };
    let mut next = Limiter::seize(contract, late(0, 0, 0), Some(&left), since, StoreTime(100));
    record(&mut next, StoreTime(100));
    next
}

#[test]
fn a_takeover_goes_on_at_once_where_the_burst_is_more_than_the_cap_in_flight() {
    let bucket = Bucket::new(Rate::per_second(1_000).unwrap(), 10).unwrap();
    let contract = Contract::new(Some(bucket), vec![], 4).unwrap();
    let mut dead = fresh(contract.clone());
    dead.change(contract.clone(), late(7_000_000, 1_000, 60_000), StoreTime(0));
    record(&mut dead, StoreTime(0));
    let mut next = taken_over(&mut dead, contract);
    assert_eq!((next.in_flight(), next.level()), (4, 6));
    assert_eq!(next.ready(StoreTime(100)), Ready::At(StoreTime(100) + Nanos::from_millis(1)));
    assert_eq!(next.in_doubt().1, Some(StoreTime(60_100)), "by the dead owner's record");
}

#[test]
fn a_cut_attempt_alone_stays_in_doubt_until_a_record_includes_it() {
    let window = Window::new(3, Nanos::MINUTE).unwrap();
    let mut limiter = fresh(Contract::new(None, vec![window], 1).unwrap());
    limiter.start(StoreTime(1));
    assert!(!limiter.end(StoreTime(1), End::CutOff, StoreTime(5)), "no settlement tells of it");
    assert_eq!(limiter.ready(StoreTime(5)), Ready::OnEvent);
    record(&mut limiter, StoreTime(6));
    assert_eq!(limiter.ready(StoreTime(6)), Ready::Now);
    assert_eq!(burst(&mut limiter, StoreTime(6)), 2, "it counts in the window");
}

#[test]
fn a_damaged_snapshot_counts_as_none() {
    let contract = contract(Rate::per_second(1).unwrap(), 5, vec![Window::new(9, Nanos::MINUTE).unwrap()]);
    let mut limiter = fresh(contract.clone());
    burst(&mut limiter, StoreTime(1));
    let snapshot = serde_json::to_value(limiter.snapshot(true, StoreTime(1)).1).unwrap();
    let resumed = |snapshot: &serde_json::Value| {
        let snapshot = serde_json::from_value(snapshot.clone()).unwrap();
        let mut limiter =
            Limiter::resume(contract.clone(), late(0, 0, 0), &snapshot, Nanos::ZERO, StoreTime(1));
        record(&mut limiter, StoreTime(1));
        limiter.ready(StoreTime(1))
    };
    assert_eq!(resumed(&snapshot), Ready::At(StoreTime(1) + Nanos::SECOND));
    for (field, value) in
        [("rate_count", 0), ("rate_per", 0), ("rate_count", u64::MAX), ("rate_per", u64::MAX)]
    {
        let mut damaged = snapshot.clone();
        damaged[field] = value.into();
        assert_eq!(resumed(&damaged), Ready::At(StoreTime(1) + Nanos::HOUR), "{field} = {value}");
    }
}

#[test]
fn more_moments_than_a_record_holds_are_rounded_to_later_ones() {
    let window = Window::new(WINDOW_LIMIT_MAX, Nanos::HOUR).unwrap();
    let contract = Contract::new(None, vec![window], 1).unwrap();
    let mut limiter = fresh(contract);
    for at in (0..5_000).map(StoreTime) {
        limiter.start(at);
        limiter.end(at, End::Unsent, at);
        limiter.settled();
    }
    let snapshot = serde_json::to_value(limiter.snapshot(true, StoreTime(5_000)).1).unwrap();
    let ends: Vec<(u64, u64)> = serde_json::from_value(snapshot["ends"].clone()).unwrap();
    assert!(ends.len() <= 1_024);
    assert_eq!(ends.iter().map(|(_, count)| count).sum::<u64>(), 5_000);
    let mut ended = 0;
    for (age, count) in ends {
        ended += count;
        assert!(5_000 - age >= ended - 1, "none of them ended later than it is said to have");
    }
}

proptest! {
    #[test]
    fn no_snapshot_panics(
        numbers in prop::array::uniform8(any::<u64>()),
        ends in prop::collection::vec(any::<(u64, u32)>(), 0..5),
        doubts in prop::collection::vec(any::<[u64; 4]>(), 0..5),
    ) {
        let [rate_count, rate_per, full, level, level_rest, under_way, remembered, left] = numbers;
        let doubt = |[ago, ahead, quarantine, left]: &[u64; 4]| serde_json::json!({
            "ago": ago, "ahead": ahead, "count": ago % (1 << 32), "quarantine": quarantine, "left": left,
            "heard": ago % 2 == 0,
        });
        let snapshot = serde_json::json!({
            "rate_count": rate_count % 1_000, "rate_per": rate_per % 1_000 + 1, "full": full % (1 << 32),
            "level": level % (1 << 32), "level_rest": level_rest, "under_way": under_way % (1 << 32), "ends": ends,
            "remembered": remembered, "lateness": [left, left, left],
            "in_doubt": doubts.iter().map(doubt).collect::<Vec<_>>(),
        });
        let snapshot = serde_json::from_value(snapshot).unwrap();
        let windows = vec![Window::new(9, Nanos::MINUTE).unwrap()];
        let contract = contract(Rate::per_second(1).unwrap(), 5, windows);
        let now = StoreTime(under_way);
        let since = Since { downtime: Nanos(left), ended: &[(Nanos(left), u32::MAX)] };
        let resumed = Limiter::resume(contract.clone(), late(0, 0, 0), &snapshot, Nanos(left), now);
        let seized = Limiter::seize(contract, late(0, 0, 0), Some(&snapshot), since, now);
        for mut limiter in [resumed, seized] {
            record(&mut limiter, now);
            let _ = limiter.ready(now);
            let _ = limiter.ready(StoreTime::NEVER);
        }
    }

    #[test]
    fn a_limiter_that_was_stopped_and_resumed_goes_on_as_if_it_had_not(
        steps in prop::collection::vec((0_u64..2_000, any::<bool>()), 1..40),
        stop in 0_usize..40,
    ) {
        let windows = vec![Window::new(7, Nanos::SECOND).unwrap()];
        let contract = contract(Rate::new(7, Nanos::from_secs(3)).unwrap(), 5, windows);
        let lateness = Lateness::new(Nanos::SECOND, Nanos::from_millis(300), Nanos::SECOND).unwrap();
        let mut whole = Limiter::fresh(contract.clone(), lateness);
        record(&mut whole, StoreTime(1));
        let mut stopped = whole.clone();
        let mut now = StoreTime(1);
        for (step, (gap, is_silent)) in steps.into_iter().enumerate() {
            now = now + Nanos::from_millis(gap);
            if step == stop {
                let (_, snapshot) = stopped.snapshot(true, now);
                now = now + Nanos::from_millis(700);
                stopped = Limiter::resume(contract.clone(), lateness, &snapshot, Nanos::from_millis(700), now);
                record(&mut stopped, now);
            }
            prop_assert_eq!(whole.ready(now), stopped.ready(now));
            if whole.ready(now) == Ready::Now {
                for limiter in [&mut whole, &mut stopped] {
                    limiter.start(now);
                    if limiter.end(now, if is_silent { End::Silent } else { End::Answered }, now) {
                        limiter.settled();
                    }
                    record(limiter, now);
                }
            }
        }
    }
}
