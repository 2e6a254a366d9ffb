//! A correct sender is not blamed for its endpoint, its contract, an operator or the harness; none of these excuses
//! anything else.

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::{FaultKind, Scenario};
use hookproof_judge::trace::{Cut, CutKind, ENDPOINTS, Fault, Process, ProcessEvent, Stall, Text, Trace};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

pub(crate) fn fault(t: u64, kind: FaultKind, until: Option<u64>) -> Fault {
    Fault { t, kind, until, detail: None, delay: None, plan: Some(0) }
}

pub(crate) fn process(t: u64, event: ProcessEvent) -> Process {
    Process { t, worker: 0, event, status: None }
}

pub(crate) fn empty(scenario: &Scenario) -> Trace {
    build::trace(scenario, &[])
}

pub(crate) fn exchange(
    trace: &mut Trace,
    (token, t): (u64, u64),
    answered: u64,
    status: u16,
    told: Option<&str>,
) {
    build::deliver(trace, "a", token, t, status);
    let answer = trace.answers.last_mut().expect("answered");
    (answer.t, answer.end, answer.retry_after) = (answered, answered, told.map(Text::from));
}

fn stall(trace: &mut Trace, from: u64, until: u64) {
    trace.stalls.push(Stall { thread: ENDPOINTS.to_owned(), from, until });
}

const LOCKED: &str =
    "[sender]\ntakeover_within = \"5s\"\n[[fault]]\nat = \"1s\"\nlasts = \"1s\"\ndo = \"lock-database\"\n";

/// The database was locked from 1 to 2 s; an event was accepted at `taken`, and reached `a` at `came`.
fn after_a_lock(more: &str, taken: u64, came: Option<u64>, beside: bool, expected: Status) {
    let scenario = build::scenario_with(&format!("{more}\n[[subscriber]]\nname = \"b\"\n{LOCKED}"));
    let mut trace = empty(&scenario);
    build::offer(&mut trace, 1, taken, &["a", "b"]);
    if beside {
        build::deliver(&mut trace, "b", 1, 2 * SECOND + taken, 204);
    }
    came.into_iter().for_each(|t| build::deliver(&mut trace, "a", 1, t, 204));
    trace.faults.push(fault(SECOND, FaultKind::LockDatabase, Some(2 * SECOND)));
    build::end(&mut trace, 60 * SECOND);
    build::verdict("fault.locked", &scenario, &trace, expected);
}

#[test]
fn after_a_fault_each_lane_is_served_unless_its_endpoint_is_why_not() {
    let black = "[[subscriber.behaviour]]\nanswer = \"refuse\"";
    after_a_lock("", SECOND / 2, Some(6 * SECOND), true, Status::Pass);
    after_a_lock(black, SECOND / 2, None, true, Status::Pass);
    // Another lane's arrivals prove nothing here, and events accepted later are due too.
    after_a_lock("", SECOND / 2, None, true, Status::Fail);
    after_a_lock("", 3 * SECOND, None, true, Status::Fail);
    after_a_lock("", 3 * SECOND, Some(7 * SECOND), true, Status::Pass);
}

/// The endpoint answered `status` at 1 s; the process was killed at 20 s; the other delivery came at `came`.
fn across_a_kill(more: &str, status: u16, told: Option<&str>, came: u64, expected: Status) {
    let kill = "[sender]\ntakeover_within = \"5s\"\n[[fault]]\nat = \"20s\"\ndo = \"kill\"\n";
    let behaviour = format!("[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = {status}");
    let scenario = build::scenario_with(&format!("{more}\n{behaviour}\n{kill}"));
    let mut trace = empty(&scenario);
    (0..2).for_each(|token| build::offer(&mut trace, token, 0, &["a"]));
    exchange(&mut trace, (0, SECOND), SECOND, status, told);
    exchange(&mut trace, (1, came), came, 204, None);
    use ProcessEvent::{Exited, Killed, Ready, Started};
    let life = [(0, Started), (1, Ready), (20, Killed), (20, Exited), (21, Started), (21, Ready)];
    trace.processes.extend(life.map(|(t, event)| process(t * SECOND, event)));
    trace.faults.push(fault(20 * SECOND, FaultKind::Kill, Some(21 * SECOND)));
    build::end(&mut trace, 200 * SECOND);
    build::verdict("crash.takeover", &scenario, &trace, expected);
}

/// One request is open from 1.5 to 12 s, the database is locked meanwhile, and the next event comes at `came`.
#[test]
fn a_lane_whose_cap_in_flight_is_full_is_served_once_it_has_room() {
    for (cap, came, expected) in
        [(1, 13 * SECOND, Status::Pass), (1, 18 * SECOND, Status::Fail), (2, 13 * SECOND, Status::Fail)]
    {
        let limit = format!("rate = \"10/s\", burst = 5, in_flight = {cap}");
        let scenario = build::named(&format!("{}timeout = \"30s\"\n{LOCKED}", build::scenario(&limit).text));
        let mut trace = empty(&scenario);
        build::offer(&mut trace, 0, SECOND, &["a"]);
        build::offer(&mut trace, 1, 2 * SECOND, &["a"]);
        exchange(&mut trace, (0, 3 * SECOND / 2), 12 * SECOND, 204, None);
        exchange(&mut trace, (1, came), came, 204, None);
        trace.faults.push(fault(SECOND, FaultKind::LockDatabase, Some(2 * SECOND)));
        build::end(&mut trace, 60 * SECOND);
        build::verdict("fault.locked", &scenario, &trace, expected);
    }
}

#[test]
fn a_410_that_its_process_did_not_live_to_note_binds_nobody() {
    for (killed, expected) in
        [(None, Status::Warn), (Some(SECOND + 2 * MS), Status::Pass), (Some(2 * SECOND), Status::Warn)]
    {
        let gone = |trace: &mut Trace| {
            trace.answers[0].status = 410;
            trace.answers[2].status = 410;
            trace.processes.extend(killed.map(|t| process(t, ProcessEvent::Killed)));
        };
        check("retry.gone", "[[subscriber.behaviour]]\nanswer = 410", gone, expected);
    }
}

#[test]
fn a_pause_and_a_breaker_outlive_the_process_that_met_them() {
    across_a_kill("", 429, Some("40"), 41 * SECOND + MS, Status::Pass);
    across_a_kill("", 429, Some("40"), 60 * SECOND, Status::Fail);
    let breaker = "breaker = { failures = 1, cooldown = \"1min\" }";
    across_a_kill(breaker, 500, None, 61 * SECOND, Status::Inconclusive);
    across_a_kill("", 429, Some("2"), 61 * SECOND, Status::Fail);
}

#[test]
fn a_late_takeover_names_doubt_only_where_the_burst_may_be_in_doubt() {
    for (limit, came, named) in [
        ("burst = 5, in_flight = 5", 54, None),
        ("burst = 5, in_flight = 5", 60, Some(true)),
        ("burst = 5, in_flight = 2", 54, Some(false)),
        // Half of the burst is the default, and at least one.
        ("burst = 5", 54, Some(false)),
        ("burst = 1", 54, None),
        ("burst = 1", 60, Some(true)),
        ("burst = 5, windows = [\"3 per 1s\"]", 54, None),
    ] {
        let kill = "[sender]\ntakeover_within = \"5s\"\n[[fault]]\nat = \"20s\"\ndo = \"kill\"\n";
        let limited = build::scenario(&format!("rate = \"10/s\", doubt = \"30s\", {limit}"));
        let scenario = build::named(&format!("{}{kill}", limited.text));
        let mut trace = empty(&scenario);
        (0..2).for_each(|token| build::offer(&mut trace, token, 0, &["a"]));
        exchange(&mut trace, (0, 20 * SECOND - MS), 0, 0, None);
        trace.answers.clear();
        let (endpoint, n, how) = ("a".into(), Some(0), CutKind::PeerGone);
        trace.cuts.push(Cut { t: 20 * SECOND + MS, endpoint, n, how, began: None, token: None, why: None });
        exchange(&mut trace, (1, came * SECOND), came * SECOND, 204, None);
        use ProcessEvent::{Exited, Killed, Ready, Started};
        let life = [(0, Started), (1, Ready), (20, Killed), (20, Exited), (21, Started), (21, Ready)];
        trace.processes.extend(life.map(|(t, event)| process(t * SECOND, event)));
        trace.faults.push(fault(20 * SECOND, FaultKind::Kill, Some(21 * SECOND)));
        build::end(&mut trace, 200 * SECOND);
        let judgement = judge(&scenario, &trace, Strictness::Usual);
        let verdict = judgement.verdicts.iter().find(|one| one.id == "crash.takeover").expect("judged");
        let expected = if named.is_some() { Status::Fail } else { Status::Pass };
        assert_eq!(verdict.status, expected, "{limit} {came}: {}", verdict.sentence);
        let told = verdict.witness.first().map(|witness| witness.what.as_str()).unwrap_or_default();
        let part = "requests in flight at the kill: 1; they may count as in doubt for 30 s";
        assert_eq!(told.contains(part), named == Some(true), "{told}");
    }
}

const STALLS: &str = "[[subscriber.behaviour]]\nat = \"1s\"\nlasts = \"4s\"\nanswer = \"stall\"";

#[test]
fn a_request_that_a_stalled_endpoint_reads_late_was_sent_before() {
    let read_late = |trace: &mut Trace| {
        exchange(trace, (2, 5 * SECOND + MS), 5 * SECOND + MS, 204, None);
        build::without(trace, 2);
        build::end(trace, 60 * SECOND);
    };
    let brief = "retry = { ttl = \"2s\" }";
    check("queue.expires", &format!("{brief}\n{STALLS}"), read_late, Status::Pass);
    check("queue.expires", brief, read_late, Status::Fail);
}

/// A stalled endpoint read two attempts of one delivery at once; `cut` ends the first.
fn read_together(trace: &mut Trace, cut: Option<CutKind>) {
    let t = 5 * SECOND;
    exchange(trace, (7, t), t, 500, None);
    if let Some(how) = cut {
        let answer = trace.answers.pop().expect("answered");
        let (endpoint, n) = ("a".into(), Some(answer.n));
        trace.cuts.push(Cut { t, endpoint, n, how, began: None, token: None, why: None });
    }
    exchange(trace, (7, t + MS), t + 2 * MS, 204, None);
    build::offer(trace, 7, SECOND, &["a"]);
    build::end(trace, 60 * SECOND);
}

#[test]
fn attempts_that_lay_unread_together_were_not_made_together() {
    let retries = "timeout = \"2s\"\nretry = { backoff = \"equal-jitter\", base = \"1s\" }";
    let then = |what: &str| format!("[[subscriber.behaviour]]\nat = \"5s\"\nanswer = {what}");
    for (id, what, cut) in
        [("retry.backoff-bounds", "500", None), ("retry.hidden", "\"close\"", Some(CutKind::Close))]
    {
        let together = |trace: &mut Trace| read_together(trace, cut);
        let unread = if cut.is_some() { Status::Inconclusive } else { Status::Pass };
        check(id, &format!("{retries}\n{STALLS}\n{}", then(what)), together, unread);
        check(id, &format!("{retries}\n{}", then(what)), together, Status::Fail);
        let stalled = |trace: &mut Trace| {
            together(trace);
            stall(trace, SECOND, 5 * SECOND);
        };
        check(id, &format!("{retries}\n{}", then(what)), stalled, Status::Inconclusive);
    }
}

#[test]
fn a_success_near_the_deadline_may_come_again_after_a_reset_too() {
    let twice = |trace: &mut Trace| {
        trace.answers[2].t += 19 * SECOND / 10;
        trace.answers[2].end = trace.answers[2].t;
        build::deliver(trace, "a", 2, 6 * SECOND, 204);
        build::end(trace, 60 * SECOND);
    };
    let resets = "timeout = \"2s\"\n[[subscriber.behaviour]]\nlasts = \"1s\"\nanswer = \"reset-after-read\"";
    check("network.reset", resets, twice, Status::Pass);
    check("duplicate.bounded", resets, twice, Status::Pass);
}

#[test]
fn a_stall_of_the_harness_may_have_squeezed_what_broke_off_too() {
    let broken_off = |stalled: bool| {
        move |trace: &mut Trace| {
            let cut = |_| Cut {
                t: 5 * SECOND,
                endpoint: "a".into(),
                n: None,
                how: CutKind::PeerGone,
                began: Some(5 * SECOND),
                token: None,
                why: None,
            };
            trace.cuts.extend((0..8).map(cut));
            build::end(trace, 60 * SECOND);
            if stalled {
                stall(trace, 4 * SECOND, 5 * SECOND);
            }
        }
    };
    check("rate.envelope", "", broken_off(false), Status::Fail);
    check("rate.envelope", "", broken_off(true), Status::Inconclusive);
}

#[test]
fn an_arrival_stamped_late_in_a_stall_was_sent_in_time() {
    let gone = |stalled: bool| {
        move |trace: &mut Trace| {
            trace.answers[1].status = 410;
            if stalled {
                stall(trace, 2 * SECOND, 3 * SECOND);
            }
        }
    };
    let leaves = "[[subscriber.behaviour]]\nat = \"2s\"\nanswer = 410";
    check("retry.gone", leaves, gone(false), Status::Warn);
    check("retry.gone", leaves, gone(true), Status::Inconclusive);
    let old = |stalled: bool| {
        move |trace: &mut Trace| {
            exchange(trace, (2, 20 * SECOND), 20 * SECOND, 204, None);
            trace.arrivals[3].signed.timestamp = Some("10".into());
            build::end(trace, 60 * SECOND);
            if stalled {
                stall(trace, 10 * SECOND, 20 * SECOND);
            }
        }
    };
    check("format.timestamp", "", old(false), Status::Fail);
    check("format.timestamp", "", old(true), Status::Inconclusive);
    let again = |stalled: bool| {
        move |trace: &mut Trace| {
            exchange(trace, (2, 7 * SECOND), 7 * SECOND, 204, None);
            build::end(trace, 60 * SECOND);
            if stalled {
                stall(trace, 3 * SECOND, 7 * SECOND);
            }
        }
    };
    check("retry.status", "timeout = \"2s\"", again(false), Status::Fail);
    check("retry.status", "timeout = \"2s\"", again(true), Status::Inconclusive);
}

#[test]
fn a_lane_that_waits_on_purpose_is_not_judged_by_its_speed() {
    let slow = "[[subscriber]]\nname = \"b\"\n[[subscriber.behaviour]]\nat = \"10s\"\nanswer = \"blackhole\"";
    let late = |trace: &mut Trace| {
        exchange(trace, (2, 20 * SECOND), 20 * SECOND, 204, None);
        build::without(trace, 2);
        build::end(trace, 60 * SECOND);
    };
    let coalesces = "coalesce = [{ type = \"video.trending\", window = \"30s\" }]";
    check("isolation.gap", slow, late, Status::Fail);
    for more in [coalesces, "ordered = true"] {
        check("isolation.gap", &format!("{more}\n{slow}"), late, Status::NotApplicable);
    }
}

#[test]
fn an_event_coalesced_into_a_newer_one_is_not_late() {
    let replaced = |trace: &mut Trace| {
        build::without(trace, 0);
        build::end(trace, 600 * SECOND);
    };
    let latency = "[expect.latency]\na = { max = \"10s\" }";
    let coalesces = format!("coalesce = [{{ type = \"video.trending\", window = \"30s\" }}]\n{latency}");
    check("latency.first-attempt", latency, replaced, Status::Fail);
    check("latency.first-attempt", &coalesces, replaced, Status::Pass);
}

#[test]
fn a_breaker_that_opens_beside_a_pause_may_outlast_it() {
    let told = |failed: bool| {
        move |trace: &mut Trace| {
            for (token, told) in [(0, None), (1, Some("1"))] {
                let status = if told.is_some() {
                    429
                } else if failed {
                    500
                } else {
                    204
                };
                trace.answers[token].status = status;
                trace.answers[token].retry_after = told.map(Text::from);
            }
            build::without(trace, 2);
            exchange(trace, (1, 30 * SECOND), 30 * SECOND, 204, None);
            build::end(trace, 60 * SECOND);
        }
    };
    let more = "[[subscriber.behaviour]]\nlasts = \"3s\"\nanswer = 429\nretry_after = \"1s\"";
    check("retry.after-429", more, told(false), Status::Fail);
    check("retry.after-429", more, told(true), Status::Pass);
}

#[test]
fn a_request_is_open_until_the_last_byte_of_its_answer() {
    let dripping = |length: u64| {
        move |trace: &mut Trace| {
            for (at, t) in (0..3).zip([SECOND, SECOND + MS, SECOND + 2 * MS]) {
                (trace.arrivals[at].t, trace.arrivals[at].read) = (t, t);
                (trace.answers[at].t, trace.answers[at].end) = (t, t + length);
            }
        }
    };
    let text = build::scenario("rate = \"10/s\", burst = 5, in_flight = 2").text;
    let dripper = "[[subscriber.behaviour]]\nanswer = \"drip\"\n";
    let huge = "[[subscriber.behaviour]]\nanswer = \"huge-answer\"\n";
    for (behaviour, length, expected) in
        [(dripper, SECOND, Status::Fail), (dripper, MS / 2, Status::Pass), (huge, SECOND, Status::Pass)]
    {
        let scenario = build::named(&format!("{text}{behaviour}"));
        let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
        dripping(length)(&mut trace);
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}

fn retry_after_then_again(status: u16, told: &'static str, again: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.answers[0].status = status;
        trace.answers[0].retry_after = Some(told.into());
        exchange(trace, (0, again), again, 204, None);
        build::end(trace, 60 * SECOND);
    }
}

#[test]
fn only_a_429_and_a_503_tell_a_sender_when_to_come_back() {
    let dated = "Thu, 01 Jan 1970 00:00:30 GMT";
    let answers = |status: u16, retries: &str| {
        format!("{retries}\n[[subscriber.behaviour]]\nanswer = {status}\nretry_after_date = \"29s\"")
    };
    let soon = |status| retry_after_then_again(status, dated, 4 * SECOND);
    check("retry.after-date", &answers(503, ""), soon(503), Status::Fail);
    check("retry.after-date", &answers(500, ""), soon(500), Status::NotApplicable);
    let fixed = "retry = { backoff = \"equal-jitter\", base = \"10s\" }";
    check("retry.backoff-bounds", &answers(500, fixed), soon(500), Status::Fail);
    check("retry.backoff-bounds", &answers(500, fixed), |_| {}, Status::Inconclusive);
    check("retry.backoff-bounds", &answers(503, fixed), soon(503), Status::NotApplicable);
}

#[test]
fn a_retry_after_that_came_near_the_deadline_may_have_been_missed() {
    let near = |length: u64| {
        move |trace: &mut Trace| {
            retry_after_then_again(503, "20", 4 * SECOND)(trace);
            (trace.answers[0].t, trace.answers[0].end) = (SECOND + length, SECOND + length);
        }
    };
    let more = "timeout = \"2s\"\n[[subscriber.behaviour]]\nanswer = 503\nretry_after = \"20s\"";
    check("retry.after-503", more, near(SECOND), Status::Fail);
    check("retry.after-503", more, near(19 * SECOND / 10), Status::Inconclusive);
}

#[test]
fn a_rotation_disturbs_nothing_for_as_long_as_it_lasts() {
    let late = |trace: &mut Trace| {
        trace.faults.push(fault(0, FaultKind::Rotate, Some(100 * SECOND)));
        retry_after_then_again(429, "1", 30 * SECOND)(trace);
        (0..2).for_each(|_| build::without(trace, 1));
    };
    let rotates = "[[subscriber.behaviour]]\nanswer = 429\nretry_after = \"1s\"\n\
                   [[fault]]\nat = \"0s\"\nlasts = \"100s\"\ndo = \"rotate\"";
    check("retry.after-429", rotates, late, Status::Fail);
}

#[test]
fn attempts_that_nobody_accepts_are_attempts_too() {
    let unaccepted = "[[subscriber.behaviour]]\nlasts = \"3s\"\nanswer = \"no-accept\"";
    let given_up = |trace: &mut Trace| {
        build::without(trace, 2);
        let (subscriber, reason) = ("a".to_owned(), "a word of its own".to_owned());
        let (token, t) = (Some(2), 3 * SECOND);
        trace.dead.push(hookproof_judge::trace::Dead {
            t,
            subscriber,
            token,
            id: None,
            reason,
            attempts: None,
        });
    };
    check("loss.none", "", given_up, Status::Fail);
    check("loss.none", unaccepted, given_up, Status::Pass);
}

const BREAKER: &str =
    "breaker = { failures = 2, cooldown = \"30s\" }\n[[subscriber.behaviour]]\nanswer = 500";

#[test]
fn a_failure_beside_a_success_may_have_come_before_it() {
    // A success, a failure after `gap`, and another failure; the next request comes at once.
    let beside = |gap: u64| {
        move |trace: &mut Trace| {
            trace.answers[1].status = 500;
            trace.answers[2].status = 500;
            (trace.answers[0].t, trace.answers[0].end) = (2 * SECOND - gap, 2 * SECOND - gap);
            exchange(trace, (3, 4 * SECOND), 4 * SECOND + MS, 204, None);
            build::offer(trace, 3, 0, &["a"]);
            build::end(trace, 60 * SECOND);
        }
    };
    check("breaker.opens", BREAKER, beside(SECOND / 2), Status::Warn);
    check("breaker.opens", BREAKER, beside(MS / 10), Status::Inconclusive);
}

#[test]
fn a_probe_that_is_answered_in_the_moment_in_which_it_comes_is_over() {
    // Two failures, a probe half a minute later, and the next one at `next`; the cooldown is a minute by then.
    let probed = |next: u64, open: bool| {
        move |trace: &mut Trace| {
            trace.answers[1].status = 500;
            trace.answers[2].status = 500;
            let answered = if open { next + SECOND } else { 34 * SECOND };
            exchange(trace, (1, 34 * SECOND), answered, 500, None);
            exchange(trace, (2, next), next, 204, None);
            build::end(trace, 200 * SECOND);
        }
    };
    check("breaker.one-probe", BREAKER, probed(95 * SECOND, false), Status::Pass);
    check("breaker.one-probe", BREAKER, probed(95 * SECOND, true), Status::Warn);
    check("breaker.cooldown", BREAKER, probed(95 * SECOND, false), Status::Pass);
    check("breaker.cooldown", BREAKER, probed(50 * SECOND, false), Status::Warn);
}

/// At 1 s the endpoint asks for a pause of half a minute. The process is killed at `killed`, and the delivery comes
/// again at 9 s with another one. `locked` locks the database.
fn forgotten(killed: u64, locked: Option<(u64, u64)>) -> impl Fn(&mut Trace) {
    move |trace| {
        retry_after_then_again(429, "30", 9 * SECOND)(trace);
        (0..2).for_each(|_| build::without(trace, 1));
        exchange(trace, (1, 9 * SECOND + MS), 9 * SECOND + MS, 204, None);
        use ProcessEvent::{Exited, Killed, Ready, Started};
        let after = killed + SECOND / 2;
        let life =
            [(0, Started), (1, Ready), (killed, Killed), (killed, Exited), (after, Started), (after, Ready)];
        trace.processes.extend(life.map(|(t, event)| process(t, event)));
        trace.faults.push(fault(killed, FaultKind::Kill, Some(after)));
        trace.faults.extend(locked.map(|(from, until)| fault(from, FaultKind::LockDatabase, Some(until))));
        build::end(trace, 60 * SECOND);
    }
}

/// As `forgotten`, with a delay of `delay` each way to the store, from 0.5 s to `until`.
fn forgotten_behind_a_long_way(killed: u64, delay: u64, until: u64) -> impl Fn(&mut Trace) {
    move |trace| {
        forgotten(killed, None)(trace);
        trace
            .faults
            .push(Fault { delay: Some(delay), ..fault(SECOND / 2, FaultKind::Partition, Some(until)) });
    }
}

#[test]
fn a_pause_that_could_not_be_written_down_before_a_kill_is_known_to_nobody() {
    let more = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"30s\"";
    let locked = Some((SECOND / 2, 7 * SECOND));
    for (id, broken) in [("retry.after-429", Status::Fail), ("retry.after-endpoint", Status::Warn)] {
        check(id, more, forgotten(SECOND + MS, None), Status::Inconclusive);
        check(id, more, forgotten(5 * SECOND, None), broken);
        check(id, more, forgotten(5 * SECOND, locked), Status::Inconclusive);
        // The lock had ended, with time to record the pause.
        check(id, more, forgotten(8 * SECOND, Some((SECOND / 2, 2 * SECOND))), broken);
    }
}

#[test]
fn a_late_arrival_is_recorded_late_and_not_lost() {
    let more = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"30s\"";
    for (id, broken) in [("retry.after-429", Status::Fail), ("retry.after-endpoint", Status::Warn)] {
        let behind =
            |killed, delay, until| forgotten_behind_a_long_way(killed * SECOND, delay * MS, until * SECOND);
        // Answered at 1 s. 32 delays later the pause is recorded: 1.6 s for 50 ms, 6.4 s for 200 ms.
        check(id, more, behind(2, 50, 60), Status::Inconclusive);
        check(id, more, behind(5, 50, 60), broken);
        check(id, more, behind(5, 200, 60), Status::Inconclusive);
        check(id, more, behind(8, 200, 60), broken);
        // The delay ended, and held commits arrived at once.
        check(id, more, behind(5, 200, 3), broken);
        // A process that cannot renew its lease may lose its lanes.
        check(id, more, behind(5, 2_000, 3), Status::Inconclusive);
    }
}

#[test]
fn an_arrival_just_after_a_stop_was_sent_before_it() {
    let stopped = |before: u64, goes_on: Option<u64>| {
        move |trace: &mut Trace| {
            build::deliver(trace, "a", 0, 20 * SECOND, 204);
            let begins = SECOND - before;
            trace.processes.push(process(0, ProcessEvent::Started));
            trace.processes.push(process(begins, ProcessEvent::Stopped));
            trace.processes.extend(goes_on.map(|t| process(t, ProcessEvent::Continued)));
            trace.faults.push(fault(begins, FaultKind::Stop, Some(goes_on.unwrap_or(30 * SECOND))));
            build::end(trace, 60 * SECOND);
        }
    };
    for (id, broken) in [("retry.status", Status::Fail), ("duplicate.bounded", Status::Fail)] {
        check(id, "", stopped(40_000, None), Status::Pass);
        check(id, "", stopped(SECOND / 2, None), broken);
        check(id, "", stopped(40_000, Some(SECOND - 20_000)), broken);
    }
}

/// Killed at 6 s and 30 s during a stop from 5 to 45 s: a running process took the delivery at 20 s.
#[test]
fn a_stop_is_over_with_the_process_that_stood_still() {
    use ProcessEvent::{Continued, Exited, Killed, Ready, Started, Stopped};
    let lives = |stopped: &'static [(u64, ProcessEvent)]| {
        move |trace: &mut Trace| {
            let life = [&[(0, Started), (0, Ready)], stopped, &[(30, Killed), (30, Exited), (31, Started)]];
            trace.processes.extend(life.concat().into_iter().map(|(t, event)| process(t * SECOND, event)));
            trace.faults.push(fault(5 * SECOND, FaultKind::Stop, Some(45 * SECOND)));
            trace.faults.push(fault(30 * SECOND, FaultKind::Kill, Some(31 * SECOND)));
            build::offer(trace, 7, 10 * SECOND, &["a"]);
            build::deliver(trace, "a", 7, 20 * SECOND, 204);
            build::deliver(trace, "a", 7, 31 * SECOND, 204);
            build::end(trace, 60 * SECOND);
        }
    };
    let struck = lives(&[(5, Stopped), (6, Killed), (6, Exited), (7, Started), (7, Ready)]);
    check("duplicate.bounded", "", struck, Status::Fail);
    check("duplicate.bounded", "", lives(&[(5, Stopped), (19, Continued)]), Status::Fail);
    check("duplicate.bounded", "", lives(&[(5, Stopped)]), Status::Pass);
}
