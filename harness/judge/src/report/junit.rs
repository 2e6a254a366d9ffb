//! JUnit XML for a run's checks and a receiver's cases, consistent with the exit code.
//!
//! Each run is a suite. Its first test case, `run`, has the run's time and passes only with exit code 0: it fails on
//! failures and regressions, and is an error if the run proves nothing, since consumers ignore errors of a suite
//! itself. Each check or case is a further one. An inconclusive one is an error if it decides, and otherwise skipped. A
//! warning passes, with its text in the output.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{
    NonSuccessKind, Property, Report as Junit, SerializeError, TestCase, TestCaseStatus, TestSuite,
};

use super::run::Report;
use super::{remedy, witnessed};
use crate::catalogue;
use crate::check::{Status, Verdict, decides};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    pub subject: String,
    pub why: String,
}

pub type Regressions = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    /// Nothing is proven, or the run did not end.
    Unproven(String),
}

#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub took: Duration,
    pub outcome: Outcome,
    pub properties: Vec<(&'static str, String)>,
    pub cases: Vec<Case>,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub class: String,
    pub name: String,
    pub took: Duration,
    pub status: catalogue::Verdict,
    pub decides: bool,
    pub seen: String,
    pub detail: String,
    pub excused: Option<String>,
}

/// Fails when XML can't represent a suite.
pub fn xml(suites: &[Suite]) -> Result<String, SerializeError> {
    let mut junit = Junit::new("hookproof");
    for one in suites {
        let mut suite = TestSuite::new(legal(&one.name));
        let mut run = TestCase::new("run", status(&one.outcome));
        run.set_classname(legal(&one.name)).set_time(one.took);
        suite.add_test_case(run);
        for (name, value) in &one.properties {
            suite.add_property(Property::new(*name, legal(value)));
        }
        suite.add_test_cases(one.cases.iter().map(case));
        let cases: Duration = one.cases.iter().map(|case| case.took).sum();
        suite.set_time(one.took + cases);
        junit.add_test_suite(suite);
    }
    junit.to_string()
}

fn status(outcome: &Outcome) -> TestCaseStatus {
    let (kind, why) = match outcome {
        Outcome::Passed => return TestCaseStatus::success(),
        Outcome::Failed(why) => (NonSuccessKind::Failure, why),
        Outcome::Unproven(why) => (NonSuccessKind::Error, why),
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(legal(why));
    status
}

fn case(one: &Case) -> TestCase {
    use catalogue::Verdict::{Fail, HarnessError, Inconclusive, NotApplicable, Pass, Warn};
    let message = format!("{}: {}", one.status.lower(), one.seen);
    let (mut status, shown) = match (&one.excused, one.status) {
        (Some(why), _) => (TestCaseStatus::skipped(), format!("failed as expected ({why}): {}", one.seen)),
        (None, Pass | Warn) => (TestCaseStatus::success(), String::new()),
        (None, NotApplicable) => (TestCaseStatus::skipped(), message.clone()),
        (None, Fail) => (TestCaseStatus::non_success(NonSuccessKind::Failure), message.clone()),
        (None, Inconclusive) if !one.decides => (TestCaseStatus::skipped(), message.clone()),
        (None, Inconclusive | HarnessError) => {
            (TestCaseStatus::non_success(NonSuccessKind::Error), message.clone())
        }
    };
    if !shown.is_empty() {
        status.set_message(legal(&shown));
    }
    let decided = one.decides || one.status != Inconclusive;
    if one.excused.is_none() && decided && matches!(one.status, Fail | Inconclusive | HarnessError) {
        status.set_description(legal(&one.detail));
    }
    let mut case = TestCase::new(legal(&one.name), status);
    case.set_classname(legal(&one.class)).set_time(one.took);
    if one.excused.is_none() && one.status == Warn {
        case.set_system_out(legal(&message));
    }
    case
}

fn legal(text: &str) -> String {
    text.replace(['\u{fffe}', '\u{ffff}'], "")
}

pub fn junit(
    reports: &[Report],
    unjudged: &[Unjudged],
    regressions: &Regressions,
) -> Result<String, SerializeError> {
    let missing = unjudged.iter().map(|Unjudged { subject, why }| Suite {
        name: subject.clone(),
        took: Duration::ZERO,
        outcome: Outcome::Unproven(why.clone()),
        properties: Vec::new(),
        cases: Vec::new(),
    });
    let worse = |report: &Report| regressions.get(&report.scenario).map_or(&[][..], Vec::as_slice);
    let suites: Vec<Suite> =
        reports.iter().map(|report| suite(report, worse(report))).chain(missing).collect();
    xml(&suites)
}

fn suite(report: &Report, worse: &[String]) -> Suite {
    Suite {
        name: report.scenario.clone(),
        took: Duration::from_nanos(report.course.lasted),
        outcome: outcome(report, worse),
        properties: vec![("not offered", report.generator.not_offered.to_string())],
        cases: report.judgement.verdicts.iter().map(|verdict| judged(&report.scenario, verdict)).collect(),
    }
}

fn outcome(report: &Report, worse: &[String]) -> Outcome {
    let judgement = &report.judgement;
    match (report.cut_short(), judgement.status) {
        (Some(why), _) => Outcome::Unproven(why.to_owned()),
        (None, Status::Fail) => Outcome::Failed(judgement.sentence.clone()),
        (None, Status::Inconclusive | Status::HarnessError) => {
            Outcome::Unproven(format!("{}: {}", judgement.status.lower(), judgement.sentence))
        }
        (None, _) if !worse.is_empty() => Outcome::Failed(format!("worse than before: {}", worse.join("; "))),
        (None, Status::Pass | Status::Warn | Status::NotApplicable) => Outcome::Passed,
    }
}

fn judged(scenario: &str, verdict: &Verdict) -> Case {
    let seen =
        verdict.witness.iter().map(|one| format!("{} (arrivals {:?})\n", witnessed(one), one.arrivals));
    Case {
        class: scenario.to_owned(),
        name: verdict.id.clone(),
        took: Duration::ZERO,
        status: verdict.status,
        decides: decides(verdict),
        seen: verdict.sentence.clone(),
        detail: format!("{}remedy: {}", seen.collect::<String>(), remedy(&verdict.id)),
        excused: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: catalogue::Verdict) -> Suite {
        let case = Case {
            class: "viral".to_owned(),
            name: "rate.envelope".to_owned(),
            took: Duration::from_millis(250),
            status,
            decides: true,
            seen: "a\u{fffe}b\u{ffff}c\u{1b}[31md <\"&>é".to_owned(),
            detail: "remedy".to_owned(),
            excused: None,
        };
        Suite {
            name: "viral".to_owned(),
            took: Duration::from_millis(1_500),
            outcome: Outcome::Passed,
            properties: Vec::new(),
            cases: vec![case],
        }
    }

    #[test]
    fn an_unjudged_run_is_an_error_and_no_empty_suite() {
        let unjudged = Unjudged { subject: "quiet".to_owned(), why: "the sender is not there".to_owned() };
        let xml = junit(&[], &[unjudged], &Regressions::new()).unwrap();
        assert!(
            xml.contains("errors=\"1\"") && xml.contains("<error message=\"the sender is not there\""),
            "{xml}"
        );
    }

    #[test]
    fn each_verdict_has_its_form_and_only_what_does_not_concern_the_run_is_skipped() {
        use catalogue::Verdict::{Fail, HarnessError, Inconclusive, NotApplicable, Pass, Warn};
        let rows = [
            (Pass, "failures=\"0\" errors=\"0\" disabled=\"0\"", "time=\"0.250\""),
            (Warn, "failures=\"0\" errors=\"0\" disabled=\"0\"", "<system-out>warn: abcd"),
            (Fail, "failures=\"1\" errors=\"0\" disabled=\"0\"", "<failure message=\"fail: abcd"),
            (
                Inconclusive,
                "failures=\"0\" errors=\"1\" disabled=\"0\"",
                "<error message=\"inconclusive: abcd",
            ),
            (
                HarnessError,
                "failures=\"0\" errors=\"1\" disabled=\"0\"",
                "<error message=\"harness error: abcd",
            ),
            (
                NotApplicable,
                "failures=\"0\" errors=\"0\" disabled=\"1\"",
                "<skipped message=\"not applicable: abcd",
            ),
        ];
        for (status, counts, shown) in rows {
            let xml = xml(&[of(status)]).unwrap();
            let counted = counts.split(' ').all(|count| xml.contains(count));
            assert!(counted && xml.contains(shown), "{status}: {xml}");
        }
    }

    #[test]
    fn a_check_that_saw_too_little_and_decides_nothing_is_skipped() {
        let mut suite = of(catalogue::Verdict::Inconclusive);
        suite.cases[0].decides = false;
        let xml = xml(&[suite]).unwrap();
        let shown = ["errors=\"0\"", "<skipped message=\"inconclusive: abcd"];
        assert!(shown.iter().all(|part| xml.contains(part)), "{xml}");
    }

    #[test]
    fn a_run_that_was_cut_short_is_an_error_of_its_own_whatever_its_checks_say() {
        let outcome = Outcome::Unproven("interrupted".to_owned());
        let suite = Suite { outcome, ..of(catalogue::Verdict::Pass) };
        let xml = xml(&[suite]).unwrap();
        assert!(xml.contains("errors=\"1\"") && xml.contains("<error message=\"interrupted\""), "{xml}");
    }

    #[test]
    fn times_are_given_for_the_run_and_add_up_in_its_suite() {
        let xml = xml(&[of(catalogue::Verdict::Pass)]).unwrap();
        assert!(xml.contains("time=\"1.500\"") && xml.contains("time=\"1.750\""), "{xml}");
    }

    #[test]
    fn an_excused_failure_is_skipped_with_its_reason() {
        let mut suite = of(catalogue::Verdict::Fail);
        suite.cases[0].excused = Some("ticket 7".to_owned());
        let xml = xml(&[suite]).unwrap();
        assert!(xml.contains("failures=\"0\"") && xml.contains("failed as expected (ticket 7)"), "{xml}");
    }
}
