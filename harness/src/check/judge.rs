//! All checks on one trace: findings become verdicts by their weight and by the failures that are known, and verdicts
//! become one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::verdict::{Figure, Finding, Found, Severity, Status, Witness};
use super::{CHECKS, Check};
use crate::catalogue;
use crate::scenario::{Known, SECOND, Scenario};
use crate::trace::Trace;

const DAY: u64 = 86_400 * SECOND;

/// What became of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which check.
    pub id: String,
    /// How much it weighs.
    pub severity: Severity,
    /// What became of it.
    pub status: Status,
    /// In one sentence.
    pub sentence: String,
    /// Why a failure of it is expected, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// The figures behind it.
    pub figures: Vec<Figure>,
    /// What shows it.
    pub witness: Vec<Witness>,
}

/// Whether what should hold must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// What should hold warns.
    #[default]
    Usual,
    /// What should hold must.
    Strict,
}

/// What became of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// All of them together.
    pub status: Status,
    /// Why, in one sentence.
    pub sentence: String,
    /// Each of them, in the catalogue's order.
    pub verdicts: Vec<Verdict>,
}

impl Judgement {
    /// How many checks have that status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.status == status).count()
    }
}

/// Judges a trace by a scenario. A trace that was cut short passes nothing: what it shows to be broken is broken all the
/// same, and about the rest it says nothing.
#[must_use]
pub fn judge(scenario: &Scenario, trace: &Trace, strictness: Strictness) -> Judgement {
    let evidence = Evidence::new(scenario, trace);
    let today = trace.header.began_unix_ns / DAY;
    let weigh = |check: &Check| {
        let mut finding = (check.find)(&evidence);
        if trace.trailer.is_none() && (finding.found == Found::Held || !stands_alone(check.id)) {
            finding.found = match finding.found {
                Found::Unasked => Found::Unasked,
                _ => Found::Unseen,
            };
            finding.sentence = format!("the trace was cut short; up to there, {}", finding.sentence);
        }
        let known = scenario.expect.known.get(check.id);
        let known = known.filter(|known| known.until.is_none_or(|until| today < until.0));
        // Of what a trace doesn't reach, nothing is known.
        let known = known.filter(|_| trace.trailer.is_some() || finding.found != Found::Unasked);
        weigh(check, finding, known, strictness)
    };
    let mut verdicts: Vec<Verdict> = CHECKS.iter().map(weigh).collect();
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let stray = scenario.expect.known.keys().filter(|id| !ids.contains(id.as_str()));
    verdicts.extend(stray.map(|id| unknown(id)));
    let (status, sentence) = conclude(&verdicts, trace);
    Judgement { status, sentence, verdicts }
}

/// Whether what breaks a check is all in what was seen, so that nothing that came later could mend it.
fn stands_alone(id: &str) -> bool {
    let sections = ["format.", "identity.", "rate."];
    sections.iter().any(|section| id.starts_with(section)) && id != "rate.utilisation"
}

fn weigh(check: &Check, finding: Finding, known: Option<&Known>, strictness: Strictness) -> Verdict {
    let Finding { found, sentence, figures, witness } = finding;
    let severity = catalogue::find(check.id).map_or(Severity::Must, |entry| entry.severity);
    let broken = match severity {
        Severity::Must => Status::Fail,
        Severity::Should if strictness == Strictness::Strict => Status::Fail,
        Severity::Should | Severity::May | Severity::Info => Status::Warn,
    };
    let (status, sentence) = match (found, known) {
        (Found::Broken, Some(known)) => {
            (Status::Pass, format!("fails as expected ({}): {sentence}", known.why))
        }
        (Found::Held | Found::Unasked, Some(known)) => (
            Status::Fail,
            format!("the expected failure did not happen ({}); delete it: {sentence}", known.why),
        ),
        (Found::Broken, None) => (broken, sentence),
        (Found::Held, None) => (Status::Pass, sentence),
        (Found::Unseen, _) => (Status::Inconclusive, sentence),
        (Found::Unasked, None) => (Status::NotApplicable, sentence),
    };
    let (id, known) = (check.id.to_owned(), known.map(|known| known.why.clone()));
    Verdict { id, severity, status, sentence, known, figures, witness }
}

fn unknown(id: &str) -> Verdict {
    let known = crate::scenario::problem::nearest(id, CHECKS.iter().map(|check| check.id));
    let hint = known.map_or(String::new(), |id| format!("; did you mean {id:?}?"));
    Verdict {
        id: id.to_owned(),
        severity: Severity::Must,
        status: Status::Fail,
        sentence: format!("expect.known names a check that there is not{hint}"),
        known: None,
        figures: Vec::new(),
        witness: Vec::new(),
    }
}

/// What decides: a failure before anything else, then what makes the run say nothing. A check that *should* hold and saw
/// too little decides nothing.
/// A generator that fell behind measured itself: nothing else that the run shows can be trusted to be the sender's.
const SCHEDULE: &str = "harness.schedule";

pub(crate) fn conclude(verdicts: &[Verdict], trace: &Trace) -> (Status, String) {
    let with = |status: Status| verdicts.iter().filter(move |verdict| verdict.status == status);
    let names = |some: Vec<&Verdict>| some.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(", ");
    let failed: Vec<&Verdict> = with(Status::Fail).collect();
    if !failed.is_empty() {
        return (
            Status::Fail,
            format!("{} of {} checks failed: {}", failed.len(), verdicts.len(), names(failed)),
        );
    }
    if trace.trailer.is_none() {
        return (Status::Inconclusive, "the trace was cut short".to_owned());
    }
    let unseen: Vec<&Verdict> = with(Status::Inconclusive)
        .filter(|one| one.severity == Severity::Must || one.id == SCHEDULE)
        .collect();
    if !unseen.is_empty() {
        return (Status::Inconclusive, format!("too little was seen for {}", names(unseen)));
    }
    let (passed, warned) = (with(Status::Pass).count(), with(Status::Warn).count());
    match (passed, warned) {
        (0, 0) => (Status::Inconclusive, "nothing was seen".to_owned()),
        (_, 0) => (Status::Pass, format!("{passed} checks passed")),
        _ => (
            Status::Pass,
            format!("{passed} checks passed, {warned} warned: {}", names(with(Status::Warn).collect())),
        ),
    }
}
