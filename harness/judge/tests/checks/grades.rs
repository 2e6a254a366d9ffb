//! A run meets a requirement of a standard only without its leniency, and by the standard's own headers.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::check::{Strictness, judge};
use hookproof_judge::report::Report;
use hookproof_judge::scenario::Scenario;
use hookproof_judge::standard;
use hookproof_judge::trace::{OURS, Signs, Trace};

use crate::build::{deliver, depth, end, named, offer, scenario_with, trace, verdict};

const SECOND: u64 = 1_000_000_000;

fn report(scenario: &Scenario, trace: &Trace) -> Report {
    Report::new(scenario, trace, judge(scenario, trace, Strictness::Usual), String::new())
}

fn seen(id: &str, scenario: &Scenario, trace: &Trace) -> (Verdict, String) {
    let report = [report(scenario, trace)];
    let seen = standard::seen(&report).into_iter().find(|one| one.id == id).expect("judged");
    (seen.verdict, seen.told)
}

/// Passes by the scenario, and counts by no standard.
#[track_caller]
fn is_lenient(id: &str, key: &str, scenario: &Scenario, trace: &Trace) {
    verdict(id, scenario, trace, Verdict::Pass);
    let (counts, told) = seen(id, scenario, trace);
    assert!(counts == Verdict::Inconclusive && told.contains(key), "{id}: {counts}: {told}");
}

fn steady() -> [u64; 3] {
    [1, 2, 3].map(|second| second * SECOND)
}

#[test]
fn a_lost_delivery_that_the_scenario_allows_meets_no_requirement() {
    let lossy = |lost: u32| scenario_with(&format!("[expect]\nlost = {lost}"));
    let mut lost = trace(&lossy(1), &steady());
    offer(&mut lost, 9, SECOND, &["a"]);
    end(&mut lost, 90 * SECOND);
    is_lenient("loss.none", "expect.lost", &lossy(1), &lost);
    let all = trace(&lossy(1), &steady());
    assert_eq!(seen("loss.none", &lossy(1), &all).0, Verdict::Pass, "the leniency was not used");
}

/// The endpoint asks for 30 s, and the sender returns after the 2 s that the scenario lets it wait at most.
#[test]
fn a_pause_that_the_scenario_caps_meets_no_requirement() {
    let capped = scenario_with(
        "retry = { retry_after_cap = \"2s\" }\n[[subscriber.behaviour]]\nanswer = 429\nretry_after = \"30s\"",
    );
    let mut early = trace(&capped, &[SECOND]);
    (early.answers[0].status, early.answers[0].retry_after) = (429, Some("30".into()));
    deliver(&mut early, "a", 0, 3 * SECOND, 204);
    end(&mut early, 4 * SECOND);
    is_lenient("retry.after-429", "retry.retry_after_cap", &capped, &early);
}

#[test]
fn requests_beyond_the_contract_that_the_scenario_forgives_meet_no_requirement() {
    let forgiving = |text: &str| named(&scenario_with("").text.replace("burst = 5", text));
    let burst = forgiving("burst = 2, burst_slack = 3");
    let crowd = trace(&burst, &[SECOND; 5]);
    is_lenient("rate.envelope", "limit.burst_slack", &burst, &crowd);
    let mut ours = trace(&burst, &[SECOND, SECOND, 2 * SECOND]);
    ours.header.driver = OURS.to_owned();
    assert_eq!(seen("rate.envelope", &burst, &ours).0, Verdict::Pass);
}

#[test]
fn a_sender_that_need_not_retry_meets_no_requirement() {
    let once =
        scenario_with("retry = { attempts = 1 }\n[[subscriber.behaviour]]\nanswer = 500\nlasts = \"2s\"");
    let mut given_up = trace(&once, &steady());
    given_up.answers[0].status = 500;
    given_up.dead.push(hookproof_judge::trace::Dead {
        t: SECOND,
        subscriber: "a".to_owned(),
        token: Some(0),
        id: None,
        reason: "exhausted".to_owned(),
        attempts: Some(1),
    });
    is_lenient("retry.attempts", "retry.attempts", &once, &given_up);
}

#[test]
fn a_status_that_the_driver_declares_final_does_not_show_that_failures_are_retried() {
    let failing = scenario_with("[[subscriber.behaviour]]\nanswer = 400\nlasts = \"2s\"");
    let mut given_up = trace(&failing, &steady());
    given_up.answers[0].status = 400;
    given_up.declared.final_statuses = vec![400];
    is_lenient("retry.status", "declares.final", &failing, &given_up);
}

#[test]
fn a_failure_that_need_not_be_retried_does_not_show_that_failures_are_retried() {
    for excuse in [
        "breaker = { failures = 5, cooldown = \"5s\" }",
        "retry = { ttl = \"1s\" }",
        "retry = { base = \"1h\" }",
    ] {
        let failing =
            scenario_with(&format!("{excuse}\n[[subscriber.behaviour]]\nanswer = 500\nlasts = \"2s\""));
        let mut excused = trace(&failing, &steady());
        excused.answers[0].status = 500;
        end(&mut excused, 60 * SECOND);
        is_lenient("retry.status", "500 was answered, and no retry after it was seen", &failing, &excused);
        deliver(&mut excused, "a", 0, 5 * SECOND, 204);
        assert_eq!(seen("retry.status", &failing, &excused).0, Verdict::Pass, "{excuse}");
    }
    let well = scenario_with("");
    is_lenient("retry.status", "no endpoint answered with a failure", &well, &trace(&well, &steady()));
}

#[test]
fn a_check_that_passes_where_any_sender_would_shows_nothing() {
    let queue = scenario_with("queue = { rows = 5 }");
    let waiting = |rows| {
        let mut sampled = trace(&queue, &steady());
        sampled.depths.push(depth(SECOND, None, rows));
        sampled
    };
    is_lenient("queue.bounded", "no queue with a bound was full", &queue, &waiting(4));
    assert_eq!(seen("queue.bounded", &queue, &waiting(5)).0, Verdict::Pass);
    let steady_rate = scenario_with("");
    let scarce = "no endpoint was owed more";
    is_lenient("rate.envelope", scarce, &steady_rate, &trace(&steady_rate, &steady()));
    let capped = named(&steady_rate.text.replace("burst = 5", "burst = 5, in_flight = 2"));
    let open = |until| {
        let mut open = trace(&capped, &steady());
        (open.answers[0].t, open.answers[0].end) = (until, until);
        open.answers[1].end += 1;
        open
    };
    let far = "no endpoint had as many open requests";
    is_lenient("rate.in-flight", far, &capped, &open(SECOND + 1));
    assert_eq!(seen("rate.in-flight", &capped, &open(3 * SECOND / 2 + SECOND)).0, Verdict::Pass);
}

#[test]
fn a_pause_that_a_sender_without_retry_after_would_keep_shows_nothing() {
    let pausing = |retry: &str| {
        let behaviour = "[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"2s\"";
        let pausing = scenario_with(&format!("retry = {{ {retry} }}\n{behaviour}"));
        let mut returned = trace(&pausing, &[SECOND]);
        (returned.answers[0].status, returned.answers[0].retry_after) = (429, Some("2".into()));
        deliver(&mut returned, "a", 0, 3 * SECOND, 204);
        (pausing, returned)
    };
    let (scenario, mut returned) = pausing("base = \"10s\"");
    end(&mut returned, 60 * SECOND);
    is_lenient("retry.after-429", "longer than the backoff", &scenario, &returned);
    is_lenient("retry.after-endpoint", "no other delivery waited", &scenario, &returned);
    let (scenario, mut returned) = pausing("base = \"1s\"");
    offer(&mut returned, 9, 2 * SECOND, &["a"]);
    deliver(&mut returned, "a", 9, 4 * SECOND, 204);
    end(&mut returned, 60 * SECOND);
    for id in ["retry.after-429", "retry.after-endpoint"] {
        assert_eq!(seen(id, &scenario, &returned).0, Verdict::Pass, "{id}");
    }
}

#[test]
fn an_endpoint_that_nobody_calls_any_more_does_not_show_that_410_disables_it() {
    let gone = scenario_with("[[subscriber.behaviour]]\nanswer = 410\nlasts = \"2s\"");
    let mut left = trace(&gone, &[SECOND]);
    left.answers[0].status = 410;
    end(&mut left, 60 * SECOND);
    is_lenient("retry.gone", "no other delivery was owed", &gone, &left);
    offer(&mut left, 9, 2 * SECOND, &["a"]);
    assert_eq!(seen("retry.gone", &gone, &left).0, Verdict::Pass);
}

/// A standard forbids to come too early, and no more.
#[test]
fn a_return_that_is_late_breaks_no_requirement_and_one_that_is_early_does() {
    let pausing =
        scenario_with("[[subscriber.behaviour]]\nlasts = \"2s\"\nanswer = 429\nretry_after = \"2s\"");
    let returned = |t: u64| {
        let mut returned = trace(&pausing, &[SECOND]);
        (returned.answers[0].status, returned.answers[0].retry_after) = (429, Some("2".into()));
        deliver(&mut returned, "a", 0, t, 204);
        end(&mut returned, 60 * SECOND);
        returned
    };
    for (t, scenarios, standards) in [
        (3, Verdict::Pass, Verdict::Pass),
        (9, Verdict::Fail, Verdict::Pass),
        (2, Verdict::Fail, Verdict::Fail),
    ] {
        let returned = returned(t * SECOND);
        verdict("retry.after-429", &pausing, &returned, scenarios);
        assert_eq!(seen("retry.after-429", &pausing, &returned).0, standards, "after {t} s");
    }
}

#[test]
fn header_names_of_the_senders_own_are_not_those_of_the_standard() {
    let plain = scenario_with("");
    let mut prefixed = trace(&plain, &steady());
    let by = |trace: &Trace| {
        let report = [report(&plain, trace)];
        let grades = "standard-webhooks@1.0".parse::<&standard::Standard>().expect("known").grade(
            standard::Side::Sender,
            &standard::seen(&report),
            Vec::new(),
        );
        grades.requirements.into_iter().find(|one| one.id == "S4").expect("there").told
    };
    prefixed.declared.signs = Some(Signs::Profile("standard-webhooks".to_owned()));
    assert_eq!(by(&prefixed), "format.signature passed");
    let (profile, header_prefix) = ("standard-webhooks".to_owned(), "svix-".to_owned());
    prefixed.declared.signs = Some(Signs::Prefixed { profile, header_prefix });
    let told = by(&prefixed);
    assert!(
        told.ends_with("it signs by standard-webhooks with svix- headers, not standard-webhooks"),
        "{told}"
    );
}
