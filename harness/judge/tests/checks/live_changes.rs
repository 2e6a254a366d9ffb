//! A limit that changes during a run: the level of the bucket carries over, and between a change and its delay the looser
//! contract judges.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{ENDPOINTS, Fault, Process, ProcessEvent, Stall, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// The limit becomes `limits[n]` at `2 + n` seconds, and must hold `within` later.
fn changing(first: &str, limits: &[&str], within: &str, more: &str) -> Scenario {
    let change = |(at, limit): (usize, &&str)| {
        let at = at + 2;
        format!("[[fault]]\nat = \"{at}s\"\ndo = \"limit\"\nwithin = \"{within}\"\nlimit = {{ {limit} }}\n")
    };
    let changes: String = limits.iter().enumerate().map(change).collect();
    build::named(&format!("{}{more}{changes}", build::scenario(first).text))
}

/// `count` deliveries at each moment, in milliseconds; the sender confirms each change at once.
fn arriving(scenario: &Scenario, floods: &[(u64, u64)]) -> Trace {
    let times: Vec<u64> =
        floods.iter().flat_map(|(at, count)| (0..*count).map(move |n| at * MS + n)).collect();
    let mut trace = build::trace(scenario, &times);
    let changes = (0..).zip(&scenario.faults).filter(|(_, one)| one.action.kind() == FaultKind::Limit);
    trace.faults.extend(changes.map(|(plan, one)| Fault {
        t: one.at.0 + MS,
        kind: FaultKind::Limit,
        until: None,
        detail: None,
        delay: None,
        plan: Some(plan),
    }));
    build::end(&mut trace, 60 * SECOND);
    trace
}

#[test]
fn a_limit_that_is_set_to_itself_again_and_again_gains_nothing() {
    let same = ["rate = \"1/s\", burst = 5"; 12];
    let scenario = changing(same[0], &same, "100ms", "");
    let refilled: Vec<(u64, u64)> = (0..12).map(|n| (2_200 + n * 1_000, 5)).collect();
    build::verdict("rate.envelope", &scenario, &arriving(&scenario, &refilled), Status::Fail);
    let conforming: Vec<(u64, u64)> = (0..12).map(|n| (2_200 + n * 1_000, 1)).collect();
    build::verdict("rate.envelope", &scenario, &arriving(&scenario, &conforming), Status::Pass);
    build::verdict("rate.live-change", &scenario, &arriving(&scenario, &refilled), Status::NotApplicable);
}

#[test]
fn between_a_change_and_its_delay_the_looser_contract_judges() {
    for (changed, flood, expected) in [
        ("rate = \"10/s\", burst = 5", 60, Status::Fail),
        ("rate = \"1/s\", burst = 1", 60, Status::Fail),
        ("rate = \"1/s\", burst = 1", 6, Status::Fail),
        ("rate = \"1/s\", burst = 1", 5, Status::Pass),
        ("rate = \"10/s\", burst = 20", 20, Status::Pass),
        ("rate = \"10/s\", burst = 20", 21, Status::Fail),
    ] {
        let scenario = changing("rate = \"10/s\", burst = 5", &[changed], "5s", "");
        let trace = arriving(&scenario, &[(3_000, flood)]);
        build::verdict("rate.envelope", &scenario, &trace, expected);
    }
}

#[test]
fn a_raised_burst_is_not_a_full_bucket() {
    for (after, expected) in [(15, Status::Pass), (16, Status::Fail)] {
        let scenario = changing("rate = \"1/min\", burst = 5", &["rate = \"1/min\", burst = 20"], "10ms", "");
        let trace = arriving(&scenario, &[(1_990, 5), (2_020, after)]);
        build::verdict("rate.envelope", &scenario, &trace, expected);
    }
}

#[test]
fn a_lowered_burst_binds_the_windows_that_begin_after_it_and_the_older_one_those_that_hold_it() {
    for (before, after, expected) in [(5, 2, Status::Fail), (3, 2, Status::Pass), (0, 3, Status::Fail)] {
        let scenario = changing("rate = \"1/min\", burst = 5", &["rate = \"1/min\", burst = 2"], "10ms", "");
        let trace = arriving(&scenario, &[(1_990, before), (2_020, after)]);
        build::verdict("rate.envelope", &scenario, &trace, expected);
    }
}

#[test]
fn rates_with_different_units_drain_one_level() {
    for (count, expected) in [(11, Status::Fail), (10, Status::Pass)] {
        let scenario = changing("rate = \"1/7s\", burst = 5", &["rate = \"5/3s\", burst = 5"], "0s", "");
        // From 2 s on, 3 s drain 5 requests.
        let trace = arriving(&scenario, &[(1_999, 5), (5_002, count - 5)]);
        build::verdict("rate.envelope", &scenario, &trace, expected);
    }
}

#[test]
fn a_window_cap_holds_across_a_change_that_keeps_it() {
    let capped = |rate: &str| format!("rate = \"{rate}\", burst = 50, windows = [\"5 per 1s\"]");
    let (first, same, other) = (capped("100/s"), capped("100/s"), capped("90/s"));
    for changed in [&same, &other] {
        let scenario = changing(&first, &[changed], "100ms", "");
        for (after, expected) in [(5, Status::Fail), (2, Status::Pass)] {
            let trace = arriving(&scenario, &[(1_990, 3), (2_150, after)]);
            build::verdict("rate.window", &scenario, &trace, expected);
        }
    }
}

#[test]
fn a_cap_in_flight_holds_between_a_change_and_its_delay() {
    let capped = |cap: u32| format!("rate = \"100/s\", burst = 50, in_flight = {cap}");
    for (open, expected) in [(5, Status::Fail), (4, Status::Pass)] {
        let scenario = changing(&capped(4), &[&capped(2)], "5s", "");
        let mut trace = arriving(&scenario, &[(3_000, open)]);
        for answer in &mut trace.answers {
            (answer.t, answer.end) = (4 * SECOND, 4 * SECOND);
        }
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}

/// A process ends between two floods, and the same limit is set there.
#[test]
fn a_change_does_not_hide_a_bucket_that_a_new_process_filled() {
    let kill = "[[fault]]\nat = \"2s\"\ndo = \"kill\"\n";
    let same = "rate = \"1/min\", burst = 5";
    let scenario = changing(same, &[same], "10ms", kill);
    for (after, expected) in [(5, Status::Fail), (2, Status::Pass)] {
        let mut trace = arriving(&scenario, &[(1_900, 3), (2_100, after)]);
        let event = |t: u64, event| Process { t: t * MS, worker: 0, event, status: None };
        use ProcessEvent::{Exited, Killed, Ready, Started};
        trace.processes.extend([
            event(0, Started),
            event(0, Ready),
            event(2_000, Killed),
            event(2_000, Exited),
            event(2_010, Started),
            event(2_010, Ready),
        ]);
        build::verdict("rate.across-restart", &scenario, &trace, expected);
    }
}

fn stalled(trace: &mut Trace, from: u64, until: u64) {
    trace.stalls.push(Stall { thread: ENDPOINTS.to_owned(), from: from * MS, until: until * MS });
}

#[test]
fn what_a_stall_stamped_late_may_have_come_before_the_limit_was_lowered() {
    let bucket = |burst: u32| format!("rate = \"1/min\", burst = {burst}");
    let window = |cap: u32| format!("rate = \"100/s\", burst = 50, windows = [\"{cap} per 10s\"]");
    let limits: [(&str, &dyn Fn(u32) -> String); 2] = [("envelope", &bucket), ("window", &window)];
    for (check, limit) in limits {
        let scenario = changing(&limit(5), &[&limit(2)], "10ms", "");
        for (from, count, expected, since) in [
            (1_500, 5, Status::Inconclusive, Status::Inconclusive),
            (2_100, 5, Status::Fail, Status::Warn),
            // The older contract has room for five, and no window for one more.
            (1_500, 6, Status::Fail, Status::Inconclusive),
        ] {
            let mut trace = arriving(&scenario, &[(2_500, count)]);
            stalled(&mut trace, from, 2_500);
            build::verdict(&format!("rate.{check}"), &scenario, &trace, expected);
            build::verdict("rate.live-change", &scenario, &trace, since);
        }
    }
}

#[test]
fn no_request_of_a_stall_came_before_its_event() {
    let limit = |burst: u32| format!("rate = \"1/min\", burst = {burst}");
    let scenario = changing(&limit(5), &[&limit(2)], "10ms", "");
    for (offered, expected) in [(1_900, Status::Inconclusive), (2_400, Status::Fail)] {
        let mut trace = arriving(&scenario, &[(2_500, 5)]);
        trace.offers.iter_mut().for_each(|offer| offer.t = offered * MS);
        stalled(&mut trace, 1_500, 2_500);
        build::verdict("rate.envelope", &scenario, &trace, expected);
    }
}

#[test]
fn an_excess_before_a_stall_is_no_excess_in_it() {
    let scenario = changing("rate = \"1/s\", burst = 5", &["rate = \"1/s\", burst = 2"], "10ms", "");
    for before in [0, 30] {
        let mut trace = arriving(&scenario, &[(1_000, before), (10_000, 4)]);
        stalled(&mut trace, 4_000, 10_000);
        build::verdict("rate.live-change", &scenario, &trace, Status::Inconclusive);
    }
}
