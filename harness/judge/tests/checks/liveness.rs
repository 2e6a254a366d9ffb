//! `liveness.served`: for how long a lane may be silent with a delivery due, and what excuses it for longer.

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{ClockSet, Cut, CutKind, Fault, Process, ProcessEvent, Stall, Trace};

use crate::build;

const MS: u64 = 1_000_000;
const ROOMY: &str = "rate = \"10/s\", burst = 5, in_flight = 2, doubt = \"5s\"";
/// X is 3.1 s with these: the timeout, the takeover, and 1/rate.
const BOUNDS: &str = "timeout = \"1s\"\nbreaker = { cooldown = \"1ms\", cooldown_max = \"1ms\" }\n\
                      [sender]\ntakeover_within = \"2s\"\n";

/// Event 0 is delivered at a second. Event 1 is taken at two seconds, and comes then; event 2 with it.
fn run(limit: &str, more: &str, came: u64) -> (Scenario, Trace) {
    let (subscriber, rest) = BOUNDS.split_once("[sender]").expect("it has both");
    let text = format!("{}{subscriber}{more}\n[sender]{rest}", build::scenario(limit).text);
    let scenario = build::named(&text);
    let mut trace = build::trace(&scenario, &[]);
    build::offer(&mut trace, 0, 1_000 * MS, &["a"]);
    build::deliver(&mut trace, "a", 0, 1_000 * MS, 204);
    build::offer(&mut trace, 1, 2_000 * MS, &["a"]);
    build::offer(&mut trace, 2, came * MS, &["a"]);
    build::deliver(&mut trace, "a", 1, came * MS, 204);
    build::deliver(&mut trace, "a", 2, came * MS, 204);
    build::end(&mut trace, (came + 1_000) * MS);
    (scenario, trace)
}

#[track_caller]
fn check(limit: &str, more: &str, came: u64, change: &dyn Fn(&mut Trace), expected: Status) {
    let (scenario, mut trace) = run(limit, more, came);
    change(&mut trace);
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|one| one.id == "liveness.served").expect("judged");
    assert_eq!(verdict.status, expected, "{limit} {more} {came}: {} {:?}", verdict.sentence, verdict.witness);
}

/// It may come 50 ms before that many milliseconds after a second, and not 50 ms after them.
#[track_caller]
fn until(limit: &str, more: &str, last: u64, change: &dyn Fn(&mut Trace)) {
    check(limit, more, last - 50, change, Status::Pass);
    check(limit, more, last + 50, change, Status::Fail);
}

const fn as_it_is(_: &mut Trace) {}

#[test]
fn a_lane_with_a_delivery_due_is_sent_to_within_x() {
    until(ROOMY, "", 5_100, &as_it_is);
    until("rate = \"1/s\", burst = 5, in_flight = 2", "", 6_000, &as_it_is);
}

#[test]
fn a_sender_that_acknowledges_after_the_delivery_lets_none_wait() {
    let late = |trace: &mut Trace| trace.accepted.iter_mut().for_each(|one| one.t = 5_050 * MS);
    check(ROOMY, "", 5_050, &late, Status::Pass);
}

#[test]
fn a_delivery_that_never_comes_is_due_to_the_end() {
    let never = |trace: &mut Trace| {
        build::without(trace, 2);
        build::without(trace, 1);
    };
    check(ROOMY, "", 20_000, &never, Status::Fail);
}

#[test]
fn a_retry_is_due_after_the_longest_delay_that_its_schedule_allows() {
    // Of event 1 the first attempt fails at 2.5 s.
    let failed = |trace: &mut Trace| {
        build::deliver(trace, "a", 1, 2_500 * MS, 500);
        let at = trace.arrivals.len() - 1;
        trace.arrivals[1..].rotate_right(1);
        trace.answers[1..].rotate_right(1);
        assert_eq!(at, 3);
        for (n, (arrival, answer)) in (0..).zip(trace.arrivals.iter_mut().zip(&mut trace.answers)) {
            (arrival.n, answer.n) = (n, n);
        }
    };
    // The endpoint is well: it fails that one attempt and no behaviour is declared.
    until(ROOMY, "retry = { base = \"4s\", cap = \"4s\" }", 9_600, &failed);
}

#[test]
fn lateness_while_the_machine_stalls_says_nothing() {
    let stall = |trace: &mut Trace| {
        trace.stalls.push(Stall { thread: "endpoints".to_owned(), from: 3_000 * MS, until: 5_000 * MS });
    };
    until(ROOMY, "", 5_100, &as_it_is);
    check(ROOMY, "", 7_050, &stall, Status::Inconclusive);
    check(ROOMY, "", 7_150, &stall, Status::Fail);
}

#[test]
fn a_request_without_an_answer_excuses_while_it_is_in_doubt() {
    let silent = |trace: &mut Trace| {
        build::deliver(trace, "a", 0, 1_500 * MS, 204);
        trace.arrivals[1..].rotate_right(1);
        for (n, arrival) in (0..).zip(&mut trace.arrivals) {
            arrival.n = n;
        }
        trace.answers.pop();
        trace.answers[1..].iter_mut().for_each(|answer| answer.n += 1);
        let (endpoint, how) = ("a".into(), CutKind::Blackhole);
        let cut = Cut { t: 1_900 * MS, endpoint, n: Some(1), how, began: None, token: None, why: None };
        trace.cuts.push(cut);
    };
    until(ROOMY, "", 10_000, &silent);
}

#[test]
fn a_sender_may_give_way_to_an_endpoint_that_misbehaves_for_a_minute() {
    let answers = "[[subscriber.behaviour]]\nanswer = 500\nshare = 0.000001";
    until(ROOMY, answers, 65_100, &as_it_is);
}

#[test]
fn a_behaviour_that_hides_attempts_excuses_to_its_end() {
    let hides = "[[subscriber.behaviour]]\nanswer = \"refuse\"\nlasts = \"8s\"\nshare = 0.000001";
    check(ROOMY, hides, 71_050, &as_it_is, Status::Pass);
    let forever = "[[subscriber.behaviour]]\nanswer = \"refuse\"\nshare = 0.000001";
    check(ROOMY, forever, 5_050, &as_it_is, Status::Pass);
    // Nothing is left to judge.
    check(ROOMY, forever, 500_000, &as_it_is, Status::NotApplicable);
}

#[test]
fn a_kill_excuses_until_the_declared_takeover_and_longer_where_all_may_be_in_doubt() {
    let kill = |trace: &mut Trace| {
        use ProcessEvent::{Exited, Killed, Ready, Started};
        let events =
            [(0, Started), (0, Ready), (2_500, Killed), (2_500, Exited), (3_900, Started), (4_000, Ready)];
        let status = None;
        let record = |(t, event)| Process { t: t * MS, worker: 0, event, status: status.clone() };
        trace.processes.extend(events.map(record));
        let (until, detail, delay, plan) = (Some(4_000 * MS), None, None, Some(0));
        trace.faults.push(Fault { t: 2_500 * MS, kind: FaultKind::Kill, until, detail, delay, plan });
    };
    let fault = "[[fault]]\nat = \"2500ms\"\ndo = \"kill\"\nlasts = \"1500ms\"";
    until(ROOMY, fault, 9_100, &kill);
    let narrow = "rate = \"10/s\", burst = 5, in_flight = 3, doubt = \"5s\"";
    until(narrow, fault, 15_100, &kill);
}

#[test]
fn a_full_window_excuses_until_it_has_room() {
    let windows = "rate = \"10/s\", burst = 5, in_flight = 1, windows = [\"3 per 8s\"]";
    until(windows, "", 12_100, &as_it_is);
    let wide = "rate = \"10/s\", burst = 5, in_flight = 1, windows = [\"9 per 8s\"]";
    until(wide, "", 5_100, &as_it_is);
}

#[test]
fn a_lane_that_keeps_an_order_is_judged_unless_an_attempt_failed() {
    until(ROOMY, "ordered = true", 5_100, &as_it_is);
    let failed = |trace: &mut Trace| trace.answers[0].status = 500;
    check(ROOMY, "ordered = true", 60_000, &failed, Status::NotApplicable);
    let hides =
        "ordered = true\n[[subscriber.behaviour]]\nanswer = \"refuse\"\nlasts = \"1s\"\nshare = 0.000001";
    check(ROOMY, hides, 60_000, &as_it_is, Status::NotApplicable);
}

#[test]
fn a_lane_that_coalesces_is_judged_with_its_longest_window() {
    let windows =
        "coalesce = [{ type = \"video.trending\", window = \"1s\" }, { type = \"x\", window = \"4s\" }]";
    let keys = |trace: &mut Trace| {
        (0..)
            .zip(&mut trace.offers)
            .for_each(|(n, offer): (u32, _)| offer.key = format!("k{n}").as_str().into());
    };
    until(ROOMY, windows, 9_100, &keys);
    let stepped = |trace: &mut Trace| {
        keys(trace);
        let (t, kind, plan) = (500 * MS, FaultKind::ClockStep, Some(0));
        trace.faults.push(Fault { t, kind, until: None, detail: None, delay: None, plan });
    };
    check(ROOMY, windows, 60_000, &stepped, Status::NotApplicable);
    let set = |trace: &mut Trace| {
        keys(trace);
        trace.host.clock_sets.push(ClockSet { from: 500 * MS, until: 504 * MS, ns: -60_000_000_000 });
    };
    check(ROOMY, windows, 60_000, &set, Status::NotApplicable);
}

#[test]
fn a_misbehaviour_excuses_nothing_before_it_begins() {
    let later = "[[subscriber.behaviour]]\nat = \"50s\"\nanswer = 500\nshare = 0.000001";
    until(ROOMY, later, 5_100, &as_it_is);
}

/// At 1.5 s `failures` requests fail, and then `probes`, 4.5 s apart. Half a second later event 1 is due.
fn failing(failures: u64, probes: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        let (arrivals, answers) = (trace.arrivals.split_off(1), trace.answers.split_off(1));
        for n in 0..failures + probes {
            let alone = (n + 1).saturating_sub(failures);
            build::deliver(trace, "a", 100 + n, (1_500 + alone * 4_500) * MS, 500);
        }
        trace.accepted[1].t = (2_000 + probes * 4_500) * MS;
        trace.arrivals.extend(arrivals);
        trace.answers.extend(answers);
        for (n, (arrival, answer)) in (0..).zip(trace.arrivals.iter_mut().zip(&mut trace.answers)) {
            (arrival.n, answer.n) = (n, n);
        }
    }
}

#[test]
fn an_open_breaker_excuses_for_its_cooldown_and_a_closed_one_not_at_all() {
    let breaker =
        |text: &str| format!("breaker = {{ failures = 10, cooldown = \"5s\", cooldown_max = \"{text}\" }}");
    let long = breaker("10min");
    own_breaker(&long, 5_100, &failing(2, 0));
    own_breaker(&long, 9_600, &failing(10, 0));
    own_breaker(&long, 15_000 + 40_000 + 3_100, &failing(10, 3));
    own_breaker(&breaker("20s"), 15_000 + 20_000 + 3_100, &failing(10, 3));
}

#[track_caller]
fn own_breaker(breaker: &str, last: u64, change: &dyn Fn(&mut Trace)) {
    let judged = |came: u64, expected: Status| {
        let (scenario, _) = run(ROOMY, "", came);
        let short = "breaker = { cooldown = \"1ms\", cooldown_max = \"1ms\" }";
        let scenario = build::named(&scenario.text.replace(short, breaker));
        let (_, mut trace) = run(ROOMY, "", came);
        trace.header = build::header(&scenario.text);
        change(&mut trace);
        build::verdict("liveness.served", &scenario, &trace, expected);
    };
    judged(last - 50, Status::Pass);
    judged(last + 50, Status::Fail);
}

#[test]
fn a_redrive_excuses_only_retries_of_its_own_subscriber() {
    let failed = |whom: &'static str| {
        move |trace: &mut Trace| {
            failing(1, 0)(trace);
            trace.arrivals[1].token = Some(1);
            trace.arrivals[2].token = Some(1);
            trace.accepted[1].t = 1_400 * MS;
            trace.offers[1].t = 1_400 * MS;
            let (t, kind, plan) = (0, FaultKind::Redrive, Some(0));
            let detail = Some(whom.to_owned());
            trace.faults.push(Fault { t, kind, until: None, detail, delay: None, plan });
        }
    };
    let retry = "retry = { base = \"1s\", cap = \"1s\" }";
    check(ROOMY, retry, 60_000, &failed("b"), Status::Fail);
    check(ROOMY, retry, 60_000, &failed("a"), Status::Pass);
}
