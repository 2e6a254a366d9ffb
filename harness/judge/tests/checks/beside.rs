//! A healthy lane is judged beside everything that befalls others, and after a fault from the moment it is served again.

use hookproof_judge::check::Status;
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Process, ProcessEvent, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Fifty deliveries a second apart; from 25 s on `b` answers 429, and each delivery of `a` comes `later` ms later.
fn beside(behaviour: &str, later: u64) -> (Scenario, Trace) {
    let other = format!(
        "[[subscriber]]\nname = \"b\"\nevents = [\"audio.*\"]\n[[subscriber.behaviour]]\nat = \"25s\"\n{behaviour}\n"
    );
    let scenario = build::scenario_with(&other);
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..50 {
        build::offer(&mut trace, token, token * SECOND, &["a"]);
        let late = if token >= 25 { later * MS } else { 0 };
        build::deliver(&mut trace, "a", token, token * SECOND + 10 * MS + late, 204);
    }
    build::end(&mut trace, 60 * SECOND);
    (scenario, trace)
}

#[test]
fn a_healthy_lane_is_compared_across_everything_that_befalls_others() {
    for behaviour in
        ["answer = 429\nretry_after = \"1s\"", "answer = 500", "answer = \"refuse\"", "answer = \"reset\""]
    {
        for (later, expected) in [(0, Status::Pass), (900, Status::Fail)] {
            let (scenario, trace) = beside(behaviour, later);
            build::verdict("isolation.latency", &scenario, &trace, expected);
        }
    }
}

/// 500 ms an answer and one at a time carry two of three events a second: the backlog grows by the cap alone.
#[test]
fn a_full_cap_in_flight_explains_a_backlog_and_no_more() {
    let other = "[[subscriber]]\nname = \"b\"\nevents = [\"audio.*\"]\n[[subscriber.behaviour]]\nat = \"10s\"\nanswer = 500\n";
    for (cap, expected) in [("1", Status::Pass), ("2", Status::Fail)] {
        let limit = format!("rate = \"20/s\", burst = 20, in_flight = {cap}");
        let text = build::scenario(&limit).text;
        let scenario = build::named(&format!("{text}answers = \"500ms\"\n{other}"));
        let mut trace = build::trace(&scenario, &[]);
        for token in 0..60 {
            build::offer(&mut trace, token, token * SECOND / 3, &["a"]);
            build::deliver(&mut trace, "a", token, token * SECOND / 2 + 10 * MS, 204);
            let answer = trace.answers.last_mut().expect("answered");
            answer.t += SECOND / 2;
            answer.end += SECOND / 2;
        }
        build::end(&mut trace, 60 * SECOND);
        build::verdict("isolation.latency", &scenario, &trace, expected);
    }
}

#[test]
fn a_single_gap_counts_beside_any_failure_of_others() {
    let (scenario, mut trace) = beside("answer = 500", 0);
    build::verdict("isolation.gap", &scenario, &trace, Status::Pass);
    for n in 30..34_usize {
        let t = 34 * SECOND + 20 * MS;
        (trace.arrivals[n].t, trace.arrivals[n].read) = (t, t);
        (trace.answers[n].t, trace.answers[n].end) = (t, t);
    }
    build::verdict("isolation.gap", &scenario, &trace, Status::Fail);
}

/// Deliveries come 100 ms apart. The process is killed at 10 s and ready at 11 s; the deliveries of that time come then. The
/// delivery of 9.9 s comes at `came` ms.
fn after_a_kill(came: u64, expected: Status) {
    let scenario = build::named(&format!(
        "{}[sender]\ntakeover_within = \"30s\"\n[[fault]]\nat = \"10s\"\ndo = \"kill\"\nlasts = \"1s\"\n",
        build::scenario("rate = \"100/s\", burst = 50, in_flight = 10").text
    ));
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..400 {
        let t = token * 100;
        let at = match t {
            9_900 => came,
            10_000..11_000 => 11_000 + token % 10,
            _ => t + 10,
        };
        build::offer(&mut trace, token, t * MS, &["a"]);
        build::deliver(&mut trace, "a", token, at * MS, 204);
    }
    use ProcessEvent::{Exited, Killed, Ready, Started};
    let life =
        [(0, Started), (0, Ready), (10_000, Killed), (10_000, Exited), (10_500, Started), (11_000, Ready)];
    trace.processes.extend(life.map(|(t, event)| Process { t: t * MS, worker: 0, event, status: None }));
    build::end(&mut trace, 60 * SECOND);
    build::verdict("latency.first-attempt", &scenario, &trace, expected);
}

#[test]
fn a_kill_excuses_lateness_until_the_lane_was_served_again() {
    after_a_kill(11_020, Status::Pass);
    after_a_kill(12_500, Status::Pass);
    after_a_kill(24_000, Status::Warn);
}
