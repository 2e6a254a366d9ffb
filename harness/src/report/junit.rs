//! Reports as JUnit: one suite for each run, one test case for each check.

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::model::Report;
use crate::catalogue;
use crate::check::verdict::show;
use crate::check::{Status, Verdict};

/// Something that was to be judged, and could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjudged {
    /// What: a scenario's name, or a file.
    pub subject: String,
    /// Why not.
    pub why: String,
}

/// Reports as JUnit XML, one suite for each.
///
/// # Errors
/// When it can't be written as XML.
pub fn junit(reports: &[Report]) -> Result<String, quick_junit::SerializeError> {
    junit_with(reports, &[])
}

/// Reports as JUnit XML, and a suite with an error for each that there should have been beside them.
///
/// # Errors
/// When it can't be written as XML.
pub fn junit_with(reports: &[Report], unjudged: &[Unjudged]) -> Result<String, quick_junit::SerializeError> {
    let mut junit = Junit::new("hookproof");
    for report in reports {
        let mut suite = TestSuite::new(report.scenario.as_str());
        for verdict in &report.judgement.verdicts {
            let mut case = TestCase::new(verdict.id.as_str(), status(verdict));
            case.set_classname(report.scenario.as_str());
            suite.add_test_case(case);
        }
        junit.add_test_suite(suite);
    }
    for Unjudged { subject, why } in unjudged {
        let mut error = TestCaseStatus::non_success(NonSuccessKind::Error);
        error.set_message(why.as_str());
        let mut case = TestCase::new("run", error);
        case.set_classname(subject.as_str());
        let mut suite = TestSuite::new(subject.as_str());
        suite.add_test_case(case);
        junit.add_test_suite(suite);
    }
    junit.to_string()
}

fn status(verdict: &Verdict) -> TestCaseStatus {
    let mut status = match verdict.status {
        Status::Pass | Status::Warn => TestCaseStatus::success(),
        Status::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Status::HarnessError => TestCaseStatus::non_success(NonSuccessKind::Error),
        Status::Inconclusive | Status::NotApplicable => TestCaseStatus::skipped(),
    };
    if !matches!(verdict.status, Status::Pass | Status::Warn) {
        status.set_message(format!("{}: {}", verdict.status, verdict.sentence));
    }
    if verdict.status == Status::Fail {
        let seen = verdict.witness.iter().map(|one| {
            let whose = one.subscriber.as_deref().unwrap_or("sender");
            format!("at {}, {whose}: {} (arrivals {:?})\n", show(one.from), one.what, one.arrivals)
        });
        let remedy = catalogue::find(&verdict.id).map_or("", |entry| entry.remedy.as_str());
        status.set_description(format!("{}remedy: {remedy}", seen.collect::<String>()));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_judged_is_an_error_and_no_empty_suite() {
        let unjudged = Unjudged { subject: "quiet".to_owned(), why: "the sender is not there".to_owned() };
        let xml = junit_with(&[], &[unjudged]).unwrap();
        assert!(
            xml.contains("errors=\"1\"") && xml.contains("<error message=\"the sender is not there\""),
            "{xml}"
        );
    }
}
