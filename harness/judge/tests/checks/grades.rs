//! A run meets a requirement of a standard only without its leniency, and by the standard's own headers.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::check::{Strictness, judge};
use hookproof_judge::report::Report;
use hookproof_judge::scenario::Scenario;
use hookproof_judge::standard;
use hookproof_judge::trace::{OURS, Signs, Trace};

use crate::build::{deliver, end, named, offer, scenario_with, trace, verdict};

const SECOND: u64 = 1_000_000_000;

fn report(scenario: &Scenario, trace: &Trace) -> Report {
    Report::new(scenario, trace, judge(scenario, trace, Strictness::Usual), String::new())
}

/// The verdict that counts by a standard, and its finding.
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
    let mut ours = trace(&burst, &[SECOND; 2]);
    ours.header.driver = OURS.to_owned();
    assert_eq!(seen("rate.envelope", &burst, &ours).0, Verdict::Pass);
}

/// One attempt in all: no failure is ever retried.
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
