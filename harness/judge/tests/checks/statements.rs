//! The sender's statements are crossed with each other and with what was seen.

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{ClockKind, Dead, Depth, Payload, Process, ProcessEvent, Refused, Trace};

use crate::build;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn dead(trace: &mut Trace, whom: &str, token: Option<u64>, reason: &str, attempts: Option<u32>) {
    let (subscriber, reason) = (whom.to_owned(), reason.to_owned());
    trace.dead.push(Dead {
        t: trace.trailer.as_ref().expect("whole").t,
        subscriber,
        token,
        id: None,
        reason,
        attempts,
    });
}

/// `count` events are offered at a second. The first `delivered` of them arrive over the next ten seconds.
fn flood(queue: &str, count: u64, delivered: u64) -> (Scenario, Trace) {
    let scenario =
        build::named(&format!("{}{queue}\n", build::scenario("rate = \"100/s\", burst = 50").text));
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..count {
        build::offer(&mut trace, token, SECOND + token, &["a"]);
    }
    for token in 0..delivered {
        build::deliver(&mut trace, "a", token, (token + 2) * 100 * MS + SECOND, 204);
    }
    build::end(&mut trace, 60 * SECOND);
    (scenario, trace)
}

const SHEDS: &str = "queue = { rows = 200, when_full = \"shed-oldest\" }";

#[test]
fn a_queue_sheds_only_as_much_as_it_had_too_much() {
    for (count, shed, expected) in [
        (178, 78, Status::Fail),
        (300, 100, Status::Pass),
        (300, 200, Status::Fail),
        (300, 101, Status::Fail),
    ] {
        let (scenario, mut trace) = flood(SHEDS, count, count - shed);
        (count - shed..count).for_each(|token| dead(&mut trace, "a", Some(token), "overflow", None));
        build::verdict("loss.none", &scenario, &trace, expected);
    }
}

/// Two floods of 150; the first is delivered before the second comes, so a queue of 200 is never full.
#[test]
fn a_queue_that_was_never_full_sheds_nothing() {
    for (gap, expected) in [(40, Status::Fail), (0, Status::Pass)] {
        let scenario =
            build::named(&format!("{}{SHEDS}\n", build::scenario("rate = \"100/s\", burst = 200").text));
        let mut trace = build::trace(&scenario, &[]);
        for token in 0..300 {
            let t = if token < 150 { SECOND + token } else { (gap + 1) * SECOND + token };
            build::offer(&mut trace, token, t, &["a"]);
            if !(150..200).contains(&token) {
                build::deliver(&mut trace, "a", token, t + SECOND + token * 10 * MS, 204);
            }
        }
        build::end(&mut trace, 120 * SECOND);
        (150..200).for_each(|token| dead(&mut trace, "a", Some(token), "overflow", None));
        build::verdict("loss.none", &scenario, &trace, expected);
    }
}

/// Three deliveries of `a` fail, and come again a second later; the list of dead letters is as `change` has it.
fn listed(change: impl Fn(&mut Trace), expected: Status) {
    let text = build::scenario("rate = \"10/s\", burst = 5").text;
    let behaviour = "retry = { attempts = 2 }\n[[subscriber.behaviour]]\nanswer = 500\n";
    let scenario =
        build::named(&format!("{text}{behaviour}[[subscriber]]\nname = \"b\"\nevents = [\"audio.*\"]\n"));
    let mut trace = build::trace(&scenario, &[]);
    for token in 0..4 {
        build::offer(&mut trace, token, (token + 1) * SECOND, &["a"]);
        build::deliver(&mut trace, "a", token, (token + 1) * SECOND, if token == 3 { 204 } else { 500 });
    }
    (0..3).for_each(|token| build::deliver(&mut trace, "a", token, (token + 2) * SECOND + 500 * MS, 500));
    build::end(&mut trace, 60 * SECOND);
    (0..3).for_each(|token| dead(&mut trace, "a", Some(token), "exhausted", Some(2)));
    trace.depths.push(Depth { dead: Some(3), ..build::depth(40 * SECOND, None, 0) });
    change(&mut trace);
    build::verdict("queue.truth", &scenario, &trace, expected);
}

#[test]
fn a_list_of_dead_letters_is_read_as_a_whole() {
    listed(|_| {}, Status::Pass);
    listed(|trace| trace.dead[1].attempts = Some(7), Status::Fail);
    listed(|trace| trace.dead[1].attempts = Some(1), Status::Fail);
    listed(|trace| trace.dead[1].token = Some(0), Status::Fail);
    listed(|trace| dead(trace, "a", Some(99), "exhausted", None), Status::Fail);
    listed(|trace| dead(trace, "b", Some(0), "exhausted", None), Status::Fail);
    listed(|trace| dead(trace, "nobody", Some(0), "exhausted", None), Status::Fail);
    listed(|trace| dead(trace, "a", Some(3), "overflow", None), Status::Fail);
}

fn found(scenario: &Scenario, trace: &Trace) -> (Status, String, Vec<(String, String)>) {
    let judgement = judge(scenario, trace, Strictness::Usual);
    let one = judgement.verdicts.into_iter().find(|one| one.id == "queue.truth").expect("judged");
    (one.status, one.sentence, one.figures.into_iter().map(|one| (one.name, one.value)).collect())
}

#[test]
fn samples_that_say_nothing_of_the_queue_are_not_counted() {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    build::end(&mut trace, 60 * SECOND);
    for t in 0..30 {
        trace.depths.push(Depth { t: t * SECOND, resident_bytes: Some(1 << 20), ..Depth::default() });
    }
    let (status, sentence, _) = found(&scenario, &trace);
    assert_eq!(status, Status::NotApplicable, "{sentence}");
    trace.depths.push(Depth { delivered: Some(3), ..build::depth(30 * SECOND, None, 0) });
    let (status, sentence, _) = found(&scenario, &trace);
    assert!(
        status == Status::Pass && sentence.starts_with("queue figures of the sender: 2;"),
        "{status} {sentence}"
    );
}

#[test]
fn bytes_are_said_to_wait_where_deliveries_do() {
    for (bytes, expected) in [(0, Status::Fail), (500, Status::Pass)] {
        let (scenario, mut trace) = flood("", 20, 0);
        trace.processes.push(Process { t: 0, worker: 0, event: ProcessEvent::Started, status: None });
        for t in [5, 20] {
            trace.depths.push(Depth { bytes: Some(bytes), ..build::depth(t * SECOND, None, 20) });
        }
        build::verdict("queue.truth", &scenario, &trace, expected);
    }
}

/// A process is killed at 10 s and is back at 12 s; samples come each second, but not from 8 s to `silent_until`.
#[test]
fn a_fault_excuses_a_gap_in_the_samples_for_its_own_length() {
    for (silent_until, expected) in [(14, Status::Pass), (32, Status::Inconclusive)] {
        let scenario = build::scenario_with("[[fault]]\nat = \"10s\"\ndo = \"kill\"\nlasts = \"2s\"");
        let times: Vec<u64> = (1..40).map(|n| n * SECOND).collect();
        let mut trace = build::trace(&scenario, &times);
        trace.header.clock = ClockKind::Real;
        for (offer, accepted) in trace.offers.iter_mut().zip(&mut trace.accepted) {
            let t = (offer.token + 1) * SECOND - MS;
            (offer.t, offer.intended, accepted.t) = (t, t, t);
        }
        use ProcessEvent::{Exited, Killed, Ready, Started};
        let life = [(0, Started), (0, Ready), (10, Killed), (10, Exited), (11, Started), (12, Ready)];
        trace.processes.extend(life.map(|(t, event)| Process {
            t: t * SECOND,
            worker: 0,
            event,
            status: None,
        }));
        let samples = (0..40).filter(|t| *t <= 8 || *t >= silent_until);
        trace.depths.extend(samples.map(|t| build::depth(t * SECOND + SECOND / 2, None, 0)));
        build::end(&mut trace, 41 * SECOND);
        build::verdict("queue.truth", &scenario, &trace, expected);
    }
}

/// Event 1 is refused with `status`, and arrives all the same.
fn refused_and_delivered(status: Option<u16>, declared: bool, expected: Status) {
    let scenario = build::scenario("rate = \"10/s\", burst = 5");
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    trace.accepted.remove(1);
    let (retry_after, why) = (None, String::new());
    let unknown = status.is_none();
    trace.refused.push(Refused { t: 0, token: 1, status, retry_after, unknown, cut_off: false, why });
    trace.declared.partial_acceptance = declared;
    build::end(&mut trace, 60 * SECOND);
    build::verdict("loss.unexpected", &scenario, &trace, expected);
}

#[test]
fn a_refused_event_does_not_arrive_unless_the_driver_declares_partial_acceptance() {
    refused_and_delivered(Some(429), false, Status::Fail);
    refused_and_delivered(Some(422), false, Status::Fail);
    refused_and_delivered(Some(429), true, Status::Pass);
    refused_and_delivered(Some(503), false, Status::Pass);
    refused_and_delivered(None, false, Status::Pass);
}

fn acknowledged_after(more: &str, ms: u64, expected: Status) {
    build::check(
        "emit.accepted",
        more,
        |trace| {
            trace.accepted[1].t = ms * MS;
            build::end(trace, 60 * SECOND);
        },
        expected,
    );
}

#[test]
fn an_acknowledgement_comes_within_ack_max() {
    acknowledged_after("", 9_900, Status::Pass);
    acknowledged_after("", 10_100, Status::Fail);
    acknowledged_after("[expect]\nack_max = \"1s\"", 1_100, Status::Fail);
    acknowledged_after("[expect]\nack_max = \"30s\"", 20_000, Status::Pass);
}

/// The harness gives up waiting for the answer to an offer of 1 s at `until` seconds, as the run is over.
fn cut_off(until: u64, cut_off: bool, expected: Status) {
    build::check(
        "emit.accepted",
        "",
        |trace| {
            build::offer(trace, 3, SECOND, &["a"]);
            trace.accepted.pop();
            let (t, why) = (until * SECOND, "no answer until the run was over".to_owned());
            let (status, retry_after, unknown) = (None, None, true);
            trace.refused.push(Refused { t, token: 3, status, retry_after, unknown, cut_off, why });
            build::end(trace, 60 * SECOND);
        },
        expected,
    );
}

#[test]
fn a_call_that_the_harness_cut_off_says_nothing_before_ack_max() {
    cut_off(2, true, Status::Inconclusive);
    cut_off(2, false, Status::Fail);
    cut_off(12, true, Status::Fail);
}

#[test]
fn figures_may_be_as_old_as_the_driver_declares() {
    for (stale, expected) in [(0, Status::Fail), (2, Status::Pass)] {
        for id in ["queue.truth", "queue.bounded"] {
            let scenario = build::scenario("rate = \"10/s\", burst = 5");
            let times: Vec<u64> = (1..30).map(|n| n * SECOND).collect();
            let mut trace = build::trace(&scenario, &times);
            for (offer, accepted) in trace.offers.iter_mut().zip(&mut trace.accepted) {
                let t = (offer.token + 1) * SECOND - MS;
                (offer.t, offer.intended, accepted.t) = (t, t, t);
            }
            trace.processes.push(Process { t: 0, worker: 0, event: ProcessEvent::Started, status: None });
            trace.declared.stale = stale * SECOND;
            // At 500 ms after each second a sender tells the counts of two seconds before.
            trace.depths.extend((3..30).map(|n| {
                let delivered = Some(n - 2);
                let sample = build::depth(n * SECOND + SECOND / 2, None, 0);
                Depth { delivered, dead: Some(0), coalesced: Some(0), ..sample }
            }));
            trace.depths.push(Depth {
                delivered: Some(29),
                dead: Some(0),
                coalesced: Some(0),
                ..build::depth(40 * SECOND, None, 0)
            });
            build::end(&mut trace, 41 * SECOND);
            // The counts of `queue.truth` have 5 s in any case.
            let expected = if id == "queue.truth" { Status::Pass } else { expected };
            build::verdict(id, &scenario, &trace, expected);
        }
    }
}

#[test]
fn a_backlog_that_was_told_late_is_true_within_its_age() {
    for (stale, expected) in [(0, Status::Fail), (2, Status::Pass)] {
        let (scenario, mut trace) = flood("", 40, 0);
        trace.declared.stale = stale * SECOND;
        for (t, waiting) in [(500, 0), (1_500, 0), (2_500, 0), (3_500, 40)] {
            trace.depths.push(build::depth(t * MS, None, waiting));
        }
        build::verdict("queue.truth", &scenario, &trace, expected);
    }
}

/// 422 is answered to event 1, which the sender gives up, or tries again.
fn unprocessable(id: &str, declared: bool, again: bool, expected: Status) {
    build::check(
        id,
        "[[subscriber.behaviour]]\nanswer = 422\nattempts = \"1\"",
        |trace| {
            trace.answers[1].status = 422;
            if again {
                build::deliver(trace, "a", 1, 4 * SECOND, 204);
            } else {
                build::end(trace, 60 * SECOND);
                dead(trace, "a", Some(1), "rejected", None);
            }
            trace.declared.final_statuses = if declared { vec![422] } else { Vec::new() };
            build::end(trace, 60 * SECOND);
        },
        expected,
    );
}

#[test]
fn a_driver_declares_which_statuses_are_final() {
    for id in ["loss.none", "retry.status"] {
        unprocessable(id, true, false, Status::Pass);
        unprocessable(id, false, false, Status::Fail);
        unprocessable(id, false, true, Status::Pass);
    }
    unprocessable("retry.status", true, true, Status::Fail);
}

#[test]
fn a_delivery_that_ended_finally_needs_no_further_attempts() {
    for (finals, expected) in [(vec![422], Status::Pass), (Vec::new(), Status::Fail)] {
        let given_up = |trace: &mut Trace| {
            trace.answers[1].status = 422;
            build::end(trace, 60 * SECOND);
            dead(trace, "a", Some(1), "exhausted", None);
            trace.declared.final_statuses.clone_from(&finals);
        };
        let behaviour = "[[subscriber.behaviour]]\nanswer = 422\nattempts = \"1\"";
        build::check("retry.attempts", behaviour, given_up, expected);
    }
}

#[test]
fn a_loss_by_a_status_is_named_for_what_it_is() {
    let scenario = build::scenario_with("[[subscriber.behaviour]]\nanswer = 422\nattempts = \"1\"");
    let mut trace = build::trace(&scenario, &[SECOND, 2 * SECOND, 3 * SECOND]);
    trace.answers[1].status = 422;
    dead(&mut trace, "a", Some(1), "rejected", None);
    build::end(&mut trace, 60 * SECOND);
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let one = judgement.verdicts.iter().find(|one| one.id == "loss.none").expect("judged");
    let what = &one.witness[0].what;
    assert!(what.contains("422") && what.contains("final"), "{what}");
}

#[test]
fn a_body_that_could_not_be_read_is_counted() {
    let unread = |alter: bool| {
        move |trace: &mut Trace| {
            trace.arrivals[0].payload = Some(Payload::Unread("its body is in an unknown coding".into()));
            if alter {
                trace.arrivals[1].payload = Some(Payload::Altered("the data's \"a\" is 1".into()));
            }
        }
    };
    build::check("payload.intact", "", unread(false), Status::Inconclusive);
    build::check("payload.intact", "", unread(true), Status::Fail);
}
