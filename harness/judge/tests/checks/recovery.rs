use hookproof_judge::check::{Status, Strictness, Verdict, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Cut, CutKind, Fault, Process, ProcessEvent, Trace};

use crate::build::{scenario, trace};

const MILLI: u64 = 1_000_000;
const DOWN: u64 = 1_500 * MILLI;
const READY: u64 = 1_600 * MILLI;

const ROOMY: &str = "rate = \"10/s\", burst = 8, in_flight = 4";

fn killed(limit: &str, more: &str) -> Scenario {
    let kill = "[[fault]]\nat = \"1500ms\"\ndo = \"kill\"\nlasts = \"100ms\"\n";
    let text = format!("{}{more}{kill}", scenario(limit).text);
    Scenario::from_text(&text, "built.toml").expect("valid")
}

fn process(t: u64, event: ProcessEvent) -> Process {
    Process { t, worker: 0, event, status: None }
}

/// One delivery arrives at 1 s, the sender is down from 1.5 to 1.6 s, and two others arrive at `second` and `third`.
fn restarted(scenario: &Scenario, second: u64, third: u64) -> Trace {
    let mut trace = trace(scenario, &[1_000 * MILLI, second, third]);
    let until = Some(READY);
    let plan = Some(0);
    trace.faults.push(Fault { t: DOWN, kind: FaultKind::Kill, until, detail: None, delay: None, plan });
    use ProcessEvent::{Exited, Killed, Ready, Started};
    let events =
        [(0, Started), (1, Ready), (DOWN, Killed), (DOWN + 1, Exited), (READY - 1, Started), (READY, Ready)];
    trace.processes.extend(events.map(|(t, event)| process(t, event)));
    trace
}

fn gap(scenario: &Scenario, trace: &Trace) -> Verdict {
    let judgement = judge(scenario, trace, Strictness::Usual);
    judgement.verdicts.into_iter().find(|one| one.id == "recovery.gap").expect("judged")
}

#[track_caller]
fn check(limit: &str, more: &str, second: u64, change: impl Fn(&mut Trace), expected: Status) {
    let scenario = killed(limit, more);
    let mut trace = restarted(&scenario, second * MILLI, 9_000 * MILLI);
    change(&mut trace);
    let verdict = gap(&scenario, &trace);
    assert_eq!(verdict.status, expected, "{limit} {more}: {}", verdict.sentence);
}

const fn as_it_is(_: &mut Trace) {}

#[test]
fn a_lane_with_work_is_served_within_a_second_and_one_gap_of_its_rate() {
    check(ROOMY, "", 2_699, as_it_is, Status::Pass);
    check(ROOMY, "", 2_701, as_it_is, Status::Warn);
    check(ROOMY, "[expect]\nrecovery_gap_max = \"5s\"\n", 2_701, as_it_is, Status::Pass);
    check("rate = \"1/s\", burst = 8, in_flight = 4", "", 3_599, as_it_is, Status::Pass);
    check("rate = \"1/s\", burst = 8, in_flight = 4", "", 3_601, as_it_is, Status::Warn);
}

#[test]
fn on_a_server_a_lane_of_a_process_that_was_killed_is_free_once_its_lease_is_over() {
    let served = |sender: &str, kind: FaultKind, second: u64, expected| {
        let kill = format!("[sender]\n{sender}\n[[fault]]\nat = \"1500ms\"\ndo = \"{kind}\"\n");
        let text = format!("{}{kill}", scenario(ROOMY).text);
        let scenario = Scenario::from_text(&text, "built.toml").expect("valid");
        let mut trace = restarted(&scenario, second * MILLI, 20_000 * MILLI);
        if kind == FaultKind::Restart {
            trace.faults[0].kind = kind;
            let killed = { trace.processes.iter_mut() }.find(|one| one.event == ProcessEvent::Killed);
            killed.expect("it was killed").event = ProcessEvent::Asked;
        }
        let verdict = gap(&scenario, &trace);
        assert_eq!(verdict.status, expected, "{sender} {kind} {second}: {}", verdict.sentence);
    };
    // Killed at 1.5 s, and perhaps unnoticed until 7.5 s; then a second and one gap of the rate are allowed.
    let shared = "store = \"postgres\"\ntakeover_within = \"6s\"";
    served(shared, FaultKind::Kill, 2_000, Status::Pass);
    served(shared, FaultKind::Kill, 8_599, Status::Pass);
    served(shared, FaultKind::Kill, 8_601, Status::Warn);
    // A stopping process announces its end, and so does a lock on a file.
    served(shared, FaultKind::Restart, 2_701, Status::Warn);
    served("takeover_within = \"6s\"", FaultKind::Kill, 2_701, Status::Warn);
}

#[test]
fn the_gap_counts_from_the_first_work_and_is_told() {
    let scenario = killed(ROOMY, "");
    let mut trace = restarted(&scenario, 4_000 * MILLI, 9_000 * MILLI);
    (trace.accepted[1].t, trace.accepted[2].t) = (3_500 * MILLI, 3_500 * MILLI);
    let verdict = gap(&scenario, &trace);
    assert_eq!(verdict.status, Status::Pass, "{}", verdict.sentence);
    let told: Vec<String> =
        verdict.figures.iter().map(|figure| format!("{}: {}", figure.name, figure.value)).collect();
    assert_eq!(told, ["a gap: 500 ms"]);
}

#[test]
fn a_lane_that_is_never_served_again_is_left_alone() {
    let never = |trace: &mut Trace| {
        trace.arrivals.truncate(1);
        trace.answers.truncate(1);
    };
    check(ROOMY, "", 2_000, never, Status::Warn);
}

#[test]
fn nothing_due_is_no_gap() {
    let all_done = |trace: &mut Trace| {
        trace.offers.truncate(1);
        trace.accepted.truncate(1);
        trace.arrivals.truncate(1);
        trace.answers.truncate(1);
    };
    check(ROOMY, "", 2_000, all_done, Status::Inconclusive);
}

#[test]
fn a_burst_or_a_window_that_may_be_in_doubt_as_a_whole_is_not_judged_and_named() {
    for limit in [
        "rate = \"10/s\", burst = 7, in_flight = 4",
        "rate = \"10/s\", burst = 8",
        "rate = \"10/s\", burst = 8, in_flight = 4, windows = [\"7 per 1s\"]",
    ] {
        check(limit, "", 7_000, as_it_is, Status::Inconclusive);
    }
    let scenario = killed("rate = \"10/s\", burst = 7, in_flight = 4", "");
    let verdict = gap(&scenario, &restarted(&scenario, 7_000 * MILLI, 9_000 * MILLI));
    assert_eq!(verdict.figures[0].value, "a: its burst of 7 is less than twice its in-flight cap of 4");
}

#[test]
fn a_pause_a_failure_and_a_silence_before_the_kill_excuse_the_lane() {
    let paused = |trace: &mut Trace| {
        (trace.answers[0].status, trace.answers[0].retry_after) = (429, Some("4".into()));
        // Its last answer was a success.
        let mut good = trace.arrivals[0].clone();
        (good.t, good.read, good.n, good.token) = (1_200 * MILLI, 1_200 * MILLI, 3, Some(9));
        let answered = hookproof_judge::trace::Answer {
            t: good.t,
            end: good.t,
            n: 3,
            status: 204,
            retry_after: None,
            whole: true,
        };
        trace.arrivals.push(good);
        trace.answers.push(answered);
    };
    check(ROOMY, "", 6_000, paused, Status::Pass);
    check(ROOMY, "", 6_200, paused, Status::Warn);
    let failed = |trace: &mut Trace| trace.answers[0].status = 500;
    check(ROOMY, "", 6_000, failed, Status::Inconclusive);
    let silent = |trace: &mut Trace| {
        trace.answers.remove(0);
        let (t, endpoint) = (1_100 * MILLI, "a".into());
        trace.cuts.push(Cut {
            t,
            endpoint,
            n: Some(0),
            began: None,
            token: None,
            why: None,
            how: CutKind::Close,
        });
    };
    check(ROOMY, "", 6_000, silent, Status::Inconclusive);
}

#[test]
fn a_recovery_under_hidden_arrivals_or_a_second_fault_is_not_judged() {
    let stall = "[[subscriber.behaviour]]\nat = \"2s\"\nlasts = \"4s\"\nanswer = \"stall\"\n";
    check(ROOMY, stall, 6_000, as_it_is, Status::Inconclusive);
    let locked = |trace: &mut Trace| {
        let (t, until) = (1_400 * MILLI, Some(5_000 * MILLI));
        trace.faults.push(Fault {
            t,
            kind: FaultKind::LockDatabase,
            until,
            detail: None,
            delay: None,
            plan: None,
        });
    };
    check(ROOMY, "", 6_000, locked, Status::Inconclusive);
    let again = |trace: &mut Trace| trace.processes.push(process(2_000 * MILLI, ProcessEvent::Killed));
    check(ROOMY, "", 6_000, again, Status::Inconclusive);
}

#[test]
fn a_storm_counts_from_the_first_request_after_the_recovery() {
    let text = format!(
        "{}[[subscriber.behaviour]]\nat = \"1s\"\nlasts = \"1s\"\nanswer = 500\n",
        scenario(ROOMY).text
    );
    let scenario = Scenario::from_text(&text, "built.toml").expect("valid");
    let storm = |first: u64, gap: u64, many: u64| {
        let arrivals: Vec<u64> = (0..many).map(|n| first * MILLI + n * gap * MILLI).collect();
        let judgement = judge(&scenario, &trace(&scenario, &arrivals), Strictness::Usual);
        judgement.verdicts.into_iter().find(|one| one.id == "recovery.no-storm").expect("judged").status
    };
    // The sender's breaker opened, and its first request comes long after `no_storm` (10 s).
    for first in [2_500, 60_000] {
        assert_eq!(storm(first, 100, 20), Status::Pass, "{first}");
        assert_eq!(storm(first, 1, 20), Status::Fail, "{first}");
    }
    assert_eq!(storm(500, 100, 3), Status::Inconclusive, "nothing came after the recovery");
}
