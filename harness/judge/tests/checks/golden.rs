use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::report::{self, Colours, Report};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::standard::{Grade, Seen, Side, Standard};
use hookproof_judge::trace::Trace;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/traces")
}

fn judged(file: &str) -> (String, Vec<String>) {
    let Ok(trace) = Trace::open(&folder().join(file)) else { return ("refused".to_owned(), Vec::new()) };
    let scenario = Scenario::from_text(&trace.header.scenario_toml, file).expect("valid");
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let failed = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Fail);
    (judgement.status.lower().to_owned(), failed.map(|verdict| verdict.id.clone()).collect())
}

fn expected() -> BTreeMap<String, (String, Vec<String>)> {
    let text = fs::read_to_string(folder().join("verdicts.toml")).expect("verdicts");
    let table: toml::Table = text.parse().expect("TOML");
    let row = |(file, row): (String, toml::Value)| {
        let status = row["status"].as_str().expect("text").to_owned();
        let fails =
            row["fails"].as_array().expect("a list").iter().map(|id| id.as_str().expect("text").to_owned());
        (file, (status, fails.collect()))
    };
    table.into_iter().map(row).collect()
}

#[test]
fn every_golden_trace_gets_its_verdict() {
    let expected = expected();
    let judged: BTreeMap<_, _> = expected.keys().map(|file| (file.clone(), judged(file))).collect();
    assert_eq!(judged, expected);
}

#[test]
fn a_wrong_sender_fails_the_requirement_of_each_standard() {
    let failed = |file: &str, standard: &str| -> Vec<String> {
        let trace = Trace::open(&folder().join(file)).expect("a trace");
        let scenario = Scenario::from_text(&trace.header.scenario_toml, file).expect("valid");
        let judgement = judge(&scenario, &trace, Strictness::Usual);
        let seen: Vec<Seen<'_>> = judgement
            .verdicts
            .iter()
            .map(|one| Seen {
                id: &one.id,
                verdict: one.status,
                told: one.sentence.clone(),
                passes_despite: None,
                profiles: vec![],
            })
            .collect();
        let grades = standard.parse::<&Standard>().expect("known").grade(Side::Sender, &seen, Vec::new());
        let failed = grades.requirements.iter().filter(|one| one.grade == Grade::Failed);
        failed.map(|one| format!("{} ({})", one.id, one.section)).collect()
    };
    let rows: [(&str, &str, &[&str]); 12] = [
        ("good.jsonl", "standard-webhooks@1.0", &[]),
        ("get.jsonl", "standard-webhooks@1.0", &["S1 (Webhook headers)"]),
        ("get.jsonl", "cloudevents-webhook@1.0.2", &["S2 (2.1)", "S3 (2.1)"]),
        ("early-retry.jsonl", "cloudevents-webhook@1.0.2", &["S6 (2.2)", "S8 (2.2)"]),
        ("early-retry.jsonl", "five-failures@1", &["S2 (blind retry)"]),
        ("good.jsonl", "adcp-webhook-emission@3.1", &[]),
        ("lost.jsonl", "adcp-webhook-emission@3.1", &["S7 (idempotency_key_stability)"]),
        ("rebuilt-body.jsonl", "adcp-webhook-emission@3.1", &["S8 (idempotency_key_stability)"]),
        ("good.jsonl", "a2a-push-notifications@1.0.1", &[]),
        ("get.jsonl", "a2a-push-notifications@1.0.1", &["S1 (4.3.3)"]),
        ("wrong-signature.jsonl", "a2a-push-notifications@1.0.1", &["S6 (A2A Server Security)"]),
        ("stale-timestamp.jsonl", "a2a-push-notifications@1.0.1", &["S7 (Client Webhook Receiver Security)"]),
    ];
    for (file, standard, expected) in rows {
        assert_eq!(failed(file, standard), expected, "{file} by {standard}");
    }
}

#[test]
fn every_golden_trace_has_a_verdict_to_get() {
    let expected = expected();
    let files = fs::read_dir(folder()).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    for file in files.map(|file| file.to_string_lossy().into_owned()).filter(|file| file.ends_with(".jsonl"))
    {
        assert!(expected.contains_key(&file), "{file} is not in verdicts.toml");
    }
}

#[test]
fn every_report_format_shows_a_failure() {
    let trace = Trace::open(&folder().join("over-rate.jsonl")).expect("a trace");
    let scenario = Scenario::from_text(&trace.header.scenario_toml, "golden").expect("valid");
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let report = Report::new(&scenario, &trace, judgement, "hookproof check over-rate.jsonl".to_owned());
    let forms = [
        report::terminal(&report, Colours::No),
        report::markdown(std::slice::from_ref(&report), &[], &report::Regressions::new()),
        report::junit(std::slice::from_ref(&report), &[], &report::Regressions::new()).expect("XML"),
        report::html(&report, &[]),
        serde_json::to_string(&report).expect("JSON"),
    ];
    for form in &forms {
        assert!(form.contains("rate.envelope") && form.contains("they need a burst of 9"), "{form}");
    }
    assert!(forms[3].contains("class=\"band witness\""), "the witness is marked in the chart");
    assert!(!forms[3].contains(" src=") && !forms[3].contains("://"), "the page needs no network");
    let again: Report = serde_json::from_str(&forms[4]).expect("its own JSON");
    assert_eq!(again, report);
}
