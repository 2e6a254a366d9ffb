//! Compares each exact check with its pairwise definition on thousands of random inputs. A check with a shortcut must
//! differ on some of these inputs, or they would prove nothing.

use hookproof_judge::check::exact::{
    earliest, first_excess, fits, fullest, inversion, least_burst, most_open, peak, peak_across, percentile,
};
use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::{Bucket, Duration, Limit, Rate, Window};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::build;

const CASES: u32 = 3_000;

fn config() -> Config {
    Config { cases: CASES, failure_persistence: None, ..Config::default() }
}

fn times() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![3 => Just(0_u64), 5 => 1..20_u64, 2 => 20..200_u64];
    prop::collection::vec(gap, 0..40).prop_map(|gaps| {
        gaps.into_iter()
            .scan(0, |t, gap| {
                *t += gap;
                Some(*t)
            })
            .collect()
    })
}

fn bucket() -> impl Strategy<Value = Bucket> {
    (1..9_u64, 1..60_u64, 1..9_u32).prop_map(|(count, per, burst)| {
        let rate = Rate { count, per: Duration(per) };
        Bucket { rate, burst }
    })
}

/// The definition: every window from one arrival to another holds at most `burst + rate·length`.
fn conforms(times: &[u64], bucket: Bucket, within: impl Fn(u64, u64) -> bool) -> bool {
    let (count, per) = (u128::from(bucket.rate.count), u128::from(bucket.rate.per.0));
    (0..times.len()).all(|i| {
        (i..times.len()).all(|j| {
            let arrivals = (j - i + 1) as u128;
            let allowed = u128::from(bucket.burst) * per + count * u128::from(times[j] - times[i]);
            !within(times[i], times[j]) || arrivals * per <= allowed
        })
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_envelope_is_that_of_all_windows(times in times(), bucket in bucket()) {
        let peak = peak(&times, bucket.rate);
        let level = peak.map_or(0, |peak| peak.level);
        prop_assert_eq!(fits(level, bucket), conforms(&times, bucket, |_, _| true));
        if let Some(peak) = peak {
            let least = u32::try_from(least_burst(level, bucket.rate)).expect("small");
            let holds = |times: &[u64], burst: u32| conforms(times, Bucket { burst, ..bucket }, |_, _| true);
            let (enough, too_little) = (holds(&times, least), least > 1 && holds(&times, least - 1));
            prop_assert!(enough && !too_little);
            let witness = least > 1 && holds(&times[peak.from..=peak.to], least - 1);
            prop_assert!(!witness);
        }
    }

    #[test]
    fn windows_across_a_restart_are_all_windows_that_hold_one(
        times in times(), bucket in bucket(), mut restarts in prop::collection::vec(0..2_000_u64, 0..4),
    ) {
        restarts.sort_unstable();
        let across = |from: u64, until: u64| restarts.iter().any(|restart| from < *restart && *restart <= until);
        let needed = peak_across(&times, &restarts, bucket).map_or(0, |(level, _)| level);
        prop_assert_eq!(fits(needed, bucket), conforms(&times, bucket, across));
    }

    #[test]
    fn no_sliding_window_is_missed(times in times(), count in 1..9_u64, length in 1..60_u64) {
        let window = Window { count, length: Duration(length) };
        let holds = |from: u64| times.iter().filter(|t| from <= **t && **t - from < length).count();
        let most = times.iter().map(|t| holds(*t)).max().unwrap_or(0);
        prop_assert_eq!(fullest(&times, length), most);
        prop_assert_eq!(first_excess(&times, window).is_some(), most as u64 > count);
    }

    #[test]
    fn open_requests_are_counted_at_every_moment(spans in prop::collection::vec((0..100_u64, 0..30_u64), 0..30)) {
        let mut spans: Vec<(u64, u64)> = spans.into_iter().map(|(from, length)| (from, from + length)).collect();
        spans.sort_unstable();
        let open = |t: u64| spans.iter().filter(|(from, until)| *from <= t && t < *until).count();
        let most = (0..200).map(open).max().unwrap_or(0);
        prop_assert_eq!(most_open(&spans).map_or(0, |(count, _)| count), most);
    }

    #[test]
    fn an_inversion_is_found_exactly_where_there_is_one(
        events in prop::collection::vec((0..50_u64, 0..50_u64, 0..10_u64), 0..20),
    ) {
        let mut places: Vec<(u64, u64, u64, u32)> =
            (0..).zip(events).map(|(n, (came, offered, took))| (came, offered, offered + took, n)).collect();
        let overtakes = |a: &(u64, u64, u64, u32), b: &(u64, u64, u64, u32)| b.2 < a.1 && (a.0, a.1, a.2, a.3) < (b.0, b.1, b.2, b.3);
        let any = places.iter().any(|a| places.iter().any(|b| overtakes(a, b)));
        prop_assert_eq!(inversion(&mut places).is_some(), any);
    }

    #[test]
    fn a_percentile_is_the_least_value_that_enough_do_not_exceed(
        mut values in prop::collection::vec(0..1_000_u64, 1..200), thousandths in 1..=1_000_usize,
    ) {
        values.sort_unstable();
        let value = percentile(&values, thousandths);
        let share = |limit: u64| values.iter().filter(|one| **one <= limit).count() * 1_000;
        prop_assert!(values.contains(&value) && share(value) >= thousandths * values.len());
        prop_assert!(values.iter().all(|less| *less >= value || share(*less) < thousandths * values.len()));
    }

    #[test]
    fn the_earliest_schedule_conforms_and_no_moment_of_it_could_be_sooner(
        due in times(), bucket in bucket(), count in 1..6_u64, length in 1..40_u64,
    ) {
        let window = Window { count, length: Duration(length) };
        let limit = Limit { bucket: Some(bucket), windows: vec![window], ..Limit::default() };
        let schedule = earliest(&due, &limit, 0);
        let fine = |times: &[u64]| conforms(times, bucket, |_, _| true) && first_excess(times, window).is_none();
        prop_assert!(fine(&schedule));
        for at in 0..schedule.len() {
            let floor = due[at].max(at.checked_sub(1).map_or(0, |before| schedule[before]));
            let mut sooner = schedule[..=at].to_vec();
            sooner[at] = sooner[at].saturating_sub(1);
            prop_assert!(schedule[at] == floor || !fine(&sooner), "{at} of {schedule:?}");
        }
    }

    #[test]
    fn whole_traces_are_judged_as_their_arrivals_are(times in times(), bucket in bucket()) {
        let Bucket { rate, burst } = bucket;
        let scenario = build::scenario(&format!("rate = \"{}/{}ns\", burst = {burst}", rate.count, rate.per.0));
        let judgement = judge(&scenario, &build::trace(&scenario, &times), Strictness::Usual);
        let status = judgement.verdicts.iter().find(|verdict| verdict.id == "rate.envelope").expect("judged").status;
        let expected = match (times.is_empty(), conforms(&times, bucket, |_, _| true)) {
            (true, _) => Status::Inconclusive,
            (false, true) => Status::Pass,
            (false, false) => Status::Fail,
        };
        prop_assert_eq!(status, expected);
    }
}

#[track_caller]
fn differs(corner: impl Fn(&[u64], Bucket) -> bool) {
    let mut runner = TestRunner::new(config());
    let differences = std::cell::Cell::new(0_u32);
    let counted = runner.run(&(times(), bucket()), |(times, bucket)| {
        let exact = peak(&times, bucket.rate).is_none_or(|peak| fits(peak.level, bucket));
        differences.set(differences.get() + u32::from(corner(&times, bucket) != exact));
        Ok(())
    });
    counted.expect("nothing here fails by itself");
    assert!(differences.get() > 0, "the inputs cannot tell the corner from the check");
}

#[test]
fn counting_by_the_clock_is_not_the_same() {
    differs(|times, bucket| {
        let window = |t: &u64| t / bucket.rate.per.0;
        let most = u64::from(bucket.burst) + bucket.rate.count;
        times.chunk_by(|a, b| window(a) == window(b)).all(|some| some.len() as u64 <= most)
    });
}

#[test]
fn a_level_that_is_rounded_is_not_the_same() {
    differs(|times, bucket| {
        let (mut level, mut latest) = (0_u64, 0);
        times.iter().all(|t| {
            level = level.saturating_sub((t - latest) * bucket.rate.count / bucket.rate.per.0) + 1;
            latest = *t;
            level <= u64::from(bucket.burst)
        })
    });
}

#[test]
fn neighbours_alone_are_not_the_same() {
    differs(|times, bucket| times.windows(2).all(|pair| conforms(pair, bucket, |_, _| true)));
}
