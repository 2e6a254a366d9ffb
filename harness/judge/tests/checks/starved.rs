//! A machine that stalls excuses lateness by the time that it took, and excuses nothing else.

use hookproof_judge::check::{Starvation, Status, Strictness, judge};
use hookproof_judge::trace::{
    Cut, CutKind, Dead, ENDPOINTS, Process, ProcessEvent, SLEEPER, Stall, Text, Trace,
};

use crate::build::{self, check};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// In milliseconds.
fn stalls(trace: &mut Trace, spans: &[(u64, u64)]) {
    let stall = |(from, until): &(u64, u64)| (SLEEPER.to_owned(), from * MS, until * MS);
    let stalls = spans.iter().map(stall).map(|(thread, from, until)| Stall { thread, from, until });
    trace.stalls.extend(stalls);
}

/// The endpoint answers 429 at 1 s and asks for two seconds; the retry comes at `came` ms.
fn told_to_wait(came: u64, machine: &'static [(u64, u64)]) -> impl Fn(&mut Trace) {
    move |trace| {
        build::without(trace, 2);
        build::without(trace, 1);
        trace.answers[0].status = 429;
        trace.answers[0].retry_after = Some(Text::from("2"));
        build::deliver(trace, "a", 0, came * MS, 204);
        build::end(trace, 60 * SECOND);
        stalls(trace, machine);
    }
}

#[test]
fn a_late_return_beside_stalls_says_nothing_as_far_as_they_reach() {
    /// Begin and end, in milliseconds.
    type Stalls = &'static [(u64, u64)];
    let told = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"2s\"";
    let rows: [(u64, Stalls, Status); 9] = [
        (3_350, &[], Status::Pass),
        // The bound is 350 ms: a quarter of a second, and a tenth for the rate.
        (4_000, &[], Status::Fail),
        // In the lateness, twice; around the answer, whose pause begins late then; before the return, not caught up.
        (4_000, &[(3_100, 3_450), (3_500, 3_850)], Status::Inconclusive),
        (4_000, &[(900, 1_660)], Status::Inconclusive),
        (4_000, &[(2_200, 3_000)], Status::Inconclusive),
        // Too little; while the timer runs; long before.
        (4_000, &[(3_100, 3_450)], Status::Fail),
        (4_000, &[(1_100, 1_300)], Status::Fail),
        (4_000, &[(0, 100)], Status::Fail),
        // Nothing excuses a return before its time.
        (2_900, &[(900, 1_660), (2_000, 2_890)], Status::Fail),
    ];
    for (came, machine, expected) in rows {
        check("retry.after-429", told, told_to_wait(came, machine), expected);
    }
}

#[test]
fn an_excused_check_says_how_long_the_machine_stalled() {
    let told = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"2s\"";
    let scenario = build::scenario_with(told);
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    told_to_wait(4_000, &[(3_100, 3_450), (3_500, 3_850)])(&mut trace);
    trace.header.clock = hookproof_judge::trace::ClockKind::Real;
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let sentence = |id: &str| {
        let verdict = judgement.verdicts.iter().find(|one| one.id == id).expect("judged");
        verdict.sentence.clone()
    };
    let late = sentence("retry.after-429");
    assert!(late.contains("the machine stalled for 700 ms meanwhile or shortly before"), "{late}");
    let own = sentence("harness.stall");
    assert!(own.contains(": 2, the longest 350 ms") && own.contains("retry.after-429"), "{own}");
}

/// The sender closes a request of 10 s after `open` ms of its deadline of two seconds, and tries again.
fn hung_up(open: u64, machine: &'static [(u64, u64)]) -> impl Fn(&mut Trace) {
    move |trace| {
        trace.answers.clear();
        trace.arrivals.truncate(1);
        (trace.arrivals[0].t, trace.arrivals[0].read) = (10 * SECOND, 10 * SECOND);
        let (t, endpoint, how) = (10 * SECOND + open * MS, "a".into(), CutKind::PeerGone);
        trace.cuts.push(Cut { t, endpoint, n: Some(0), how, began: None, token: None, why: None });
        build::deliver(trace, "a", 0, 20 * SECOND, 204);
        trace.answers[0].n = 1;
        build::end(trace, 60 * SECOND);
        stalls(trace, machine);
    }
}

#[test]
fn a_request_that_was_stamped_late_was_not_given_up_early() {
    let timeout = "timeout = \"2s\"";
    check("network.timeout", timeout, hung_up(1_000, &[]), Status::Fail);
    check("network.timeout", timeout, hung_up(1_000, &[(9_000, 10_000)]), Status::Inconclusive);
    check("network.timeout", timeout, hung_up(1_000, &[(9_900, 10_000)]), Status::Fail);
    // One that was closed too late.
    check("network.timeout", timeout, hung_up(3_500, &[]), Status::Fail);
    check("network.timeout", timeout, hung_up(3_500, &[(12_300, 13_000)]), Status::Inconclusive);
    check("network.timeout", timeout, hung_up(3_500, &[(12_300, 12_500)]), Status::Fail);
}

/// Four requests with a deadline of two seconds and a cap of two in flight are read at 25 s and answered half a second
/// later.
#[test]
fn a_request_past_its_deadline_when_a_stalled_endpoint_reads_it_is_not_in_flight() {
    let text = build::scenario("rate = \"100/s\", burst = 50, in_flight = 2").text;
    let scenario = build::named(&format!("{text}timeout = \"2s\"\n"));
    for (machine, expected) in [
        (&[][..], Status::Fail),
        (&[(5_000, 25_000)], Status::Inconclusive),
        // No deadline passed in it, or it was caught up.
        (&[(24_000, 25_000)], Status::Fail),
        (&[(5_000, 7_000)], Status::Fail),
    ] {
        let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND]);
        for token in 0..4 {
            build::deliver(&mut trace, "a", token, 25 * SECOND + token, 500);
            let answer = trace.answers.last_mut().expect("answered");
            (answer.t, answer.end) = (answer.t + SECOND / 2, answer.t + SECOND / 2);
        }
        build::end(&mut trace, 40 * SECOND);
        stalls(&mut trace, machine);
        trace.stalls.iter_mut().for_each(|stall| stall.thread = ENDPOINTS.to_owned());
        build::verdict("rate.in-flight", &scenario, &trace, expected);
    }
}

/// The only attempt fails at 10 s, and the run ends 20 s later.
#[test]
fn a_stall_takes_from_the_time_in_which_a_retry_must_come() {
    for (machine, expected) in [
        (&[][..], Status::Fail),
        (&[(11_000, 25_000)], Status::Inconclusive),
        (&[(11_000, 13_000)], Status::Fail),
    ] {
        let failed = |trace: &mut Trace| {
            build::without(trace, 2);
            build::without(trace, 1);
            trace.answers[0].status = 500;
            (trace.arrivals[0].t, trace.arrivals[0].read) = (10 * SECOND, 10 * SECOND);
            (trace.answers[0].t, trace.answers[0].end) = (10 * SECOND, 10 * SECOND);
            build::end(trace, 30 * SECOND);
            stalls(trace, machine);
        };
        check("retry.status", "", failed, expected);
    }
}

/// A delivery is answered at 10 s, its process is killed at 10.72 s, and the delivery comes again.
#[test]
fn an_outcome_that_a_stall_kept_from_the_store_may_be_forgotten() {
    let delivered = ("duplicate.bounded", "", 204);
    let failed = ("retry.attempts", "retry = { attempts = 1 }\n[[subscriber.behaviour]]\nanswer = 500", 500);
    for (id, more, status) in [delivered, failed] {
        for (machine, expected) in [
            (&[][..], Status::Fail),
            (&[(10_010, 10_710)], Status::Inconclusive),
            // The sender had its time after the stall, or before it.
            (&[(10_010, 10_100)], Status::Fail),
            (&[(10_500, 10_710)], Status::Fail),
        ] {
            let again = |trace: &mut Trace| {
                build::without(trace, 2);
                build::without(trace, 1);
                build::without(trace, 0);
                build::deliver(trace, "a", 0, 10 * SECOND, status);
                build::deliver(trace, "a", 0, 12 * SECOND, status);
                for (t, event) in [(10_720, ProcessEvent::Killed), (11_000, ProcessEvent::Started)] {
                    trace.processes.push(Process { t: t * MS, worker: 0, event, status: None });
                }
                build::end(trace, 60 * SECOND);
                stalls(trace, machine);
            };
            check(id, more, again, expected);
        }
    }
}

/// Two deliveries that fill the queue are answered at 10 s; the queue sheds two more that are offered at 11 s.
#[test]
fn a_queue_whose_outcomes_a_stall_kept_from_the_store_is_full() {
    for (machine, expected) in [
        (&[][..], Status::Fail),
        (&[(10_000, 11_000)], Status::Inconclusive),
        (&[(5_000, 6_000)], Status::Fail),
    ] {
        let shed = |trace: &mut Trace| {
            build::without(trace, 2);
            for (at, answer) in (0..).zip(&mut trace.answers) {
                (trace.arrivals[at].t, answer.t, answer.end) = (10 * SECOND, 10 * SECOND, 10 * SECOND);
            }
            trace.offers.truncate(2);
            trace.accepted.truncate(2);
            for token in [2, 3] {
                build::offer(trace, token, 11 * SECOND, &["a"]);
                let (id, subscriber, reason) = (None, "a".to_owned(), "overflow".to_owned());
                let token = Some(token);
                trace.dead.push(Dead { t: 12 * SECOND, subscriber, token, id, reason, attempts: None });
            }
            build::end(trace, 60 * SECOND);
            stalls(trace, machine);
        };
        check("loss.none", "queue = { rows = 2 }", shed, expected);
    }
}

/// An answer 0.7 s after a request asks for five seconds, and the retry comes two seconds later.
#[test]
fn an_answer_that_a_stall_kept_from_the_sender_was_not_heard() {
    let told =
        "timeout = \"1s\"\n[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"5s\"";
    for (machine, expected) in [
        (&[][..], Status::Fail),
        (&[(1_701, 2_500)], Status::Inconclusive),
        (&[(1_900, 2_500)], Status::Fail),
    ] {
        let missed = |trace: &mut Trace| {
            build::without(trace, 2);
            build::without(trace, 1);
            trace.answers[0].status = 429;
            trace.answers[0].retry_after = Some(Text::from("5"));
            (trace.answers[0].t, trace.answers[0].end) = (1_700 * MS, 1_700 * MS);
            build::deliver(trace, "a", 0, 3_700 * MS, 204);
            build::end(trace, 60 * SECOND);
            stalls(trace, machine);
        };
        check("retry.after-429", told, missed, expected);
    }
}

/// Each of five attempts asks for no pause.
#[test]
fn attempts_that_a_stall_kept_unread_are_no_hot_loop() {
    let told =
        "timeout = \"1s\"\n[[subscriber.behaviour]]\nlasts = \"20s\"\nanswer = 429\nretry_after = \"0s\"";
    for (machine, expected) in [
        (&[][..], Status::Fail),
        (&[(1_000, 11_000)], Status::Inconclusive),
        // Over long before.
        (&[(1_000, 2_000)], Status::Fail),
    ] {
        let read_together = |trace: &mut Trace| {
            (0..3).for_each(|_| build::without(trace, 0));
            for n in 0..5 {
                build::deliver(trace, "a", 0, 11_000 * MS + n, 429);
                trace.answers.last_mut().expect("answered").retry_after = Some(Text::from("0"));
            }
            build::end(trace, 60 * SECOND);
            stalls(trace, machine);
        };
        check("retry.after-zero", told, read_together, expected);
    }
}

#[test]
fn a_stall_holds_back_for_its_length_and_while_its_work_is_caught_up() {
    let stall = |from, until| Stall { thread: "any".to_owned(), from, until };
    let starvation = Starvation::of(&[stall(150, 200), stall(100, 160), stall(300, 320)]);
    for (due, came, delay) in [
        (0, 90, 0),
        (0, 130, 30),
        (0, 1_000, 120),
        (130, 130, 30),
        (130, 250, 100),
        (200, 250, 100),
        (240, 250, 90),
        // 75 are left at 300.
        (310, 310, 85),
        (319, 400, 95),
        (320, 400, 95),
        (700, 900, 0),
    ] {
        assert_eq!(starvation.delay(due, came), delay, "{due} {came}");
    }
    assert_eq!(Starvation::default().delay(0, 1_000), 0);
}

/// 45 events are due at 5 s, at 10/s; five come at once, the others at 5/s.
#[test]
fn a_rate_that_is_not_used_says_nothing_if_stalls_took_a_tenth_of_the_time() {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    for (machine, expected) in [
        (&[][..], Status::Warn),
        (&[(6_000, 6_700)], Status::Warn),
        (&[(6_000, 6_500), (8_000, 8_400)], Status::Inconclusive),
        // Outside.
        (&[(2_000, 3_000)], Status::Warn),
    ] {
        let mut trace = build::trace(&scenario, &[]);
        for token in 0..45 {
            build::offer(&mut trace, token, 5 * SECOND, &["a"]);
            let came = 5_010 + token.saturating_sub(4) * 200;
            build::deliver(&mut trace, "a", token, came * MS, 204);
        }
        build::end(&mut trace, 60 * SECOND);
        stalls(&mut trace, machine);
        let judgement = judge(&scenario, &trace, Strictness::Usual);
        let verdict = judgement.verdicts.iter().find(|one| one.id == "rate.utilisation").expect("judged");
        assert_eq!(verdict.status, expected, "{machine:?}: {}", verdict.sentence);
    }
}
