//! The harness's own delays and the sender's declarations blame no sender, and excuse nothing else.

use hookproof_judge::check::{Status, Strictness, Verdict, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Declared, ENDPOINTS, Lack, Offset, ProcessEvent, Stall, Trace, Unoffered};

use crate::build::{scenario, trace};
use crate::excuses::{fault, process};

const SECOND: u64 = 1_000_000_000;

fn verdict(id: &str, scenario: &Scenario, trace: &Trace) -> Verdict {
    let judgement = judge(scenario, trace, Strictness::Usual);
    judgement.verdicts.into_iter().find(|verdict| verdict.id == id).expect("judged")
}

#[track_caller]
fn check(id: &str, scenario: &Scenario, trace: &Trace, expected: Status) {
    let verdict = verdict(id, scenario, trace);
    assert_eq!(verdict.status, expected, "{id}: {}", verdict.sentence);
}

/// `count` arrivals at 3 s, after the endpoints stalled for half a second.
fn stalled(scenario: &Scenario, count: usize) -> Trace {
    let mut trace = trace(scenario, &vec![3 * SECOND; count]);
    trace.stalls.push(Stall { thread: ENDPOINTS.to_owned(), from: 5 * SECOND / 2, until: 3 * SECOND });
    trace
}

#[test]
fn a_stall_makes_a_squeezed_window_inconclusive_and_excuses_no_certain_breach() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    check("rate.envelope", &limited, &trace(&limited, &[3 * SECOND; 7]), Status::Fail);
    let mut named = stalled(&limited, 7);
    check("rate.envelope", &limited, &named, Status::Inconclusive);
    named.header.clock = hookproof_judge::trace::ClockKind::Real;
    let told = verdict("rate.envelope", &limited, &named).sentence;
    assert!(told.contains("stalled for 500 ms at 2.5 s"), "{told}");
    check("harness.stall", &limited, &named, Status::Inconclusive);
    // In half a second the rate allows five more: ten conform, and eleven do not.
    check("rate.envelope", &limited, &stalled(&limited, 10), Status::Inconclusive);
    check("rate.envelope", &limited, &stalled(&limited, 11), Status::Fail);
    let capped = scenario("rate = \"1000/s\", burst = 100, windows = [\"4 per 400ms\"]");
    check("rate.window", &capped, &stalled(&capped, 8), Status::Inconclusive);
    check("rate.window", &capped, &stalled(&capped, 9), Status::Fail);
}

#[test]
fn a_stall_elsewhere_excuses_nothing() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut trace = stalled(&limited, 7);
    trace.stalls[0].until = 5 * SECOND / 2 + 100_000_000;
    check("rate.envelope", &limited, &trace, Status::Fail);
    trace.stalls[0] = Stall { thread: "generator".to_owned(), from: 0, until: 3 * SECOND };
    check("rate.envelope", &limited, &trace, Status::Fail);
}

#[test]
fn slack_is_forgiven_to_others_and_not_to_ours_and_is_said() {
    let forgiving = scenario("rate = \"10/s\", burst = 5, burst_slack = 2");
    let mut seven = trace(&forgiving, &[3 * SECOND; 7]);
    check("rate.envelope", &forgiving, &seven, Status::Pass);
    check("rate.envelope", &forgiving, &trace(&forgiving, &[3 * SECOND; 8]), Status::Fail);
    let judgement = judge(&forgiving, &seven, Strictness::Usual);
    let report = hookproof_judge::report::Report::new(&forgiving, &seven, judgement, String::new());
    assert!(report.subscribers[0].contract.contains("burst slack 2"), "{}", report.subscribers[0].contract);
    seven.header.driver = "hookproof".to_owned();
    check("rate.envelope", &forgiving, &seven, Status::Fail);
    let windowed = scenario("rate = \"1000/s\", burst = 100, windows = [\"4 per 1s\"], window_slack = 1");
    check("rate.window", &windowed, &trace(&windowed, &[3 * SECOND; 5]), Status::Pass);
    check("rate.window", &windowed, &trace(&windowed, &[3 * SECOND; 6]), Status::Fail);
}

#[test]
fn a_report_says_by_which_defaults_it_judges() {
    let bare = scenario("rate = \"10/s\", burst = 5");
    // The scenario writes its own values, and some that are the default.
    let text =
        "[subscriber.retry]\nattempts = 12\n[expect]\nack_max = \"9s\"\n[sender]\nstop_within = \"30s\"\n";
    let own =
        Scenario::from_text(&format!("{}timeout = \"8s\"\n{text}", bare.text), "own.toml").expect("valid");
    let report = |scenario: &Scenario| {
        let trace = trace(scenario, &[SECOND]);
        let judgement = judge(scenario, &trace, Strictness::Usual);
        hookproof_judge::report::Report::new(scenario, &trace, judgement, String::new())
    };
    let (bare, own) = (report(&bare), report(&own));
    for part in [
        "retry full-jitter from 1s to 1h, 12 attempts (a)",
        "timeout 8s (a)",
        "ack_max 10s",
        "takeover_within 1min",
        "stop_within 30s",
    ] {
        assert!(bare.course.defaults.iter().any(|one| one == part), "{part}: {:?}", bare.course.defaults);
    }
    let set = ["retry", "timeout", "ack_max", "stop_within"];
    assert!(
        !own.course.defaults.iter().any(|one| set.iter().any(|key| one.starts_with(&format!("{key} ")))),
        "{:?}",
        own.course.defaults
    );
    assert_eq!(bare.subscribers[0].contract, "10/s burst 5, 2 in flight by default");
    use hookproof_judge::report::{Colours, Regressions, html, markdown, terminal};
    let pages = [
        terminal(&bare, Colours::No),
        markdown(std::slice::from_ref(&bare), &[], &Regressions::new()),
        html(&bare, &[]),
    ];
    for page in pages {
        assert!(page.contains("timeout 8s (a)"), "{page}");
    }
}

fn ahead(scenario: &Scenario, seconds: u64) -> Trace {
    let mut trace = trace(scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    for arrival in &mut trace.arrivals {
        arrival.signed.timestamp = Some((arrival.t / SECOND + seconds).to_string().into());
    }
    trace
}

#[test]
fn another_machines_clock_is_judged_against_its_own_offset() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    check("format.timestamp", &limited, &ahead(&limited, 8), Status::Fail);
    let mut measured = ahead(&limited, 8);
    measured.offset = Some(Offset { t: 0, ns: 8_000_000_000, error: 1_000_000 });
    check("format.timestamp", &limited, &measured, Status::Pass);
    // A clock that may be right is no excuse.
    measured.offset = Some(Offset { t: 0, ns: 400_000_000, error: 500_000_000 });
    check("format.timestamp", &limited, &measured, Status::Fail);
    let mut remote = ahead(&limited, 8);
    remote.declared.lacks = vec![Lack::Start];
    check("format.timestamp", &limited, &remote, Status::Pass);
    remote.arrivals[1].signed.timestamp = Some("99".into());
    check("format.timestamp", &limited, &remote, Status::Fail);
    let mut milliseconds = ahead(&limited, 1_700_000_000_000);
    milliseconds.declared.lacks = vec![Lack::Start];
    check("format.timestamp", &limited, &milliseconds, Status::Fail);
}

/// Of three deliveries the last never arrived; the run ends at `end`.
fn missing(scenario: &Scenario, end: u64) -> Trace {
    let mut trace = trace(scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    trace.arrivals.pop();
    trace.answers.pop();
    let trailer = trace.trailer.as_mut().expect("there is one");
    (trailer.t, trailer.dead_listed) = (end, false);
    trace.declared.lacks = vec![Lack::Depth, Lack::DeadLetters];
    trace
}

#[test]
fn lost_is_only_what_cannot_come_any_more() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    check("loss.none", &limited, &missing(&limited, 4 * SECOND), Status::Inconclusive);
    check("recovery.drains", &limited, &missing(&limited, 4 * SECOND), Status::Inconclusive);
    check("loss.none", &limited, &missing(&limited, 60 * SECOND), Status::Fail);
    // The harness asks the sender to stop at `asked`: only deliveries due before that are lost.
    for (asked, expected) in [(4 * SECOND, Status::Inconclusive), (58 * SECOND, Status::Fail)] {
        let mut stopped = missing(&limited, 60 * SECOND);
        for (t, event) in
            [(0, ProcessEvent::Started), (asked, ProcessEvent::Asked), (59 * SECOND, ProcessEvent::Exited)]
        {
            stopped.processes.push(process(t, event));
        }
        check("loss.none", &limited, &stopped, expected);
    }
    // This sender reported an empty backlog.
    let mut asked = missing(&limited, 4 * SECOND);
    asked.declared = Declared::default();
    check("loss.none", &limited, &asked, Status::Fail);
}

/// As `missing`, after an incident with its own check for losses; the lane was served once more after it.
#[track_caller]
fn missing_after(id: &str, more: &str, befalls: impl Fn(&mut Trace), end: u64, expected: Status) {
    let scenario = crate::build::scenario_with(more);
    let mut trace = missing(&scenario, end);
    befalls(&mut trace);
    check(id, &scenario, &trace, expected);
    check("loss.none", &scenario, &trace, expected);
}

#[test]
fn nothing_is_lost_by_a_fault_either_that_can_still_come() {
    let resets = "[[subscriber.behaviour]]\nlasts = \"1s\"\nanswer = \"reset-after-read\"";
    for (end, expected) in [(4 * SECOND, Status::Inconclusive), (60 * SECOND, Status::Fail)] {
        missing_after("network.reset", resets, |_| {}, end, expected);
    }
    let planned = |what: FaultKind| {
        format!(
            "[sender]\ntakeover_within = \"20s\"\n[[fault]]\nat = \"0s\"\nlasts = \"1s\"\ndo = \"{what}\""
        )
    };
    let befalls = |what: FaultKind| {
        move |trace: &mut Trace| {
            trace.faults.push(fault(0, what, Some(SECOND)));
            if what == FaultKind::Kill {
                use ProcessEvent::{Exited, Killed, Ready, Started};
                let life =
                    [(0, Started), (0, Ready), (0, Killed), (0, Exited), (SECOND, Started), (SECOND, Ready)];
                trace.processes.extend(life.map(|(t, event)| process(t, event)));
            }
        }
    };
    // It may arrive until the takeover is over, and for the longest silence of a lane.
    for (id, what) in [("crash.ack-then-kill", FaultKind::Kill), ("fault.disk-full", FaultKind::DiskFull)] {
        for (end, expected) in [(25 * SECOND, Status::Inconclusive), (60 * SECOND, Status::Fail)] {
            missing_after(id, &planned(what), befalls(what), end, expected);
        }
    }
}

#[test]
fn a_sender_that_keeps_no_dead_letters_may_give_up_without_a_word_once_it_tried_enough() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut tried = trace(&limited, &[SECOND, 2 * SECOND, 3 * SECOND]);
    tried.answers[2].status = 500;
    tried.trailer.as_mut().expect("there is one").t = 600 * SECOND;
    tried.declared =
        Declared { lacks: vec![Lack::Depth, Lack::DeadLetters, Lack::Breaker], ..Declared::default() };
    check("loss.none", &limited, &tried, Status::Fail);
    tried.declared.schedule = Some(Vec::new());
    check("loss.none", &limited, &tried, Status::Pass);
}

#[test]
fn one_request_may_carry_several_events() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut together = missing(&limited, 60 * SECOND);
    together.arrivals[1].more = Box::new([2]);
    check("loss.none", &limited, &together, Status::Pass);
    check("format.id", &limited, &together, Status::Pass);
}

#[test]
fn a_check_without_its_driver_call_is_not_applicable_with_that_reason() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut silent = trace(&limited, &[SECOND, 2 * SECOND, 3 * SECOND]);
    check("queue.bounded", &limited, &silent, Status::Inconclusive);
    silent.declared.lacks = vec![Lack::Depth];
    let verdict = verdict("queue.bounded", &limited, &silent);
    assert_eq!(verdict.status, Status::NotApplicable);
    assert!(verdict.sentence.contains("[depth]"), "{}", verdict.sentence);
}

#[test]
fn waiting_for_the_senders_api_is_a_figure_of_the_sender() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut slow = trace(&limited, &[SECOND, 2 * SECOND, 3 * SECOND]);
    for (at, offer) in (1..).zip(&mut slow.offers) {
        (offer.intended, offer.held, offer.t) =
            (at * SECOND / 10, at * SECOND - SECOND, at * SECOND / 10 + at * SECOND - SECOND);
    }
    for (accepted, offer) in slow.accepted.iter_mut().zip(&slow.offers) {
        accepted.t = offer.t + 1;
    }
    let told = verdict("harness.schedule", &limited, &slow);
    assert_eq!(told.status, Status::Pass, "{}", told.sentence);
    assert!(told.sentence.contains("the sender's API accepted 1/s of 10/s offered"), "{}", told.sentence);
    slow.offers[2].held = 0;
    check("harness.schedule", &limited, &slow, Status::Inconclusive);
}

#[test]
fn events_that_were_not_offered_are_counted_and_make_a_run_inconclusive() {
    let limited = scenario("rate = \"10/s\", burst = 5");
    let mut short = trace(&limited, &[SECOND, 2 * SECOND, 3 * SECOND]);
    check("harness.schedule", &limited, &short, Status::Pass);
    let why = "the sender was slow".to_owned();
    short.unoffered.push(Unoffered { t: 4 * SECOND, intended: 2 * SECOND, token: 9, why });
    let told = verdict("harness.schedule", &limited, &short);
    assert_eq!(told.status, Status::Inconclusive);
    assert!(told.sentence.contains("events not offered: 1"), "{}", told.sentence);
    let judgement = judge(&limited, &short, Strictness::Usual);
    let report = hookproof_judge::report::Report::new(&limited, &short, judgement, String::new());
    let forms = [
        hookproof_judge::report::terminal(&report, hookproof_judge::report::Colours::No),
        hookproof_judge::report::html(&report, &[]),
        hookproof_judge::report::junit(
            std::slice::from_ref(&report),
            &[],
            &hookproof_judge::report::Regressions::new(),
        )
        .expect("text"),
    ];
    assert!(forms.iter().all(|form| form.contains("not offered")), "{forms:?}");
    assert_eq!(report.generator.not_offered, 1);
}

fn overtaken(more: &str) -> (Scenario, Trace) {
    let scenario = crate::build::scenario_with(more);
    let mut trace = trace(&scenario, &[3 * SECOND, 2 * SECOND]);
    (trace.offers[1].t, trace.accepted[1].t) = (SECOND, SECOND);
    crate::build::end(&mut trace, 4 * SECOND);
    (scenario, trace)
}

#[test]
fn an_order_that_a_sender_has_no_notion_of_is_not_judged_and_only_that() {
    let (ordered, mut trace) = overtaken("ordered = true");
    check("order.per-key", &ordered, &trace, Status::Warn);
    trace.declared.lacks = vec![Lack::Breaker];
    check("order.per-key", &ordered, &trace, Status::Warn);
    trace.declared.lacks = vec![Lack::Order];
    check("order.per-key", &ordered, &trace, Status::NotApplicable);
    let told = verdict("order.per-key", &ordered, &trace).sentence;
    assert_eq!(told, "the driver file says that the sender keeps no order");
    let (unordered, mut trace) = overtaken("");
    trace.declared.lacks = vec![Lack::Order];
    assert_eq!(verdict("order.per-key", &unordered, &trace).sentence, "no subscriber is `ordered`");
}
