//! All checks on one trace: findings become verdicts by their weight and by the failures that are known, and verdicts
//! become one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::excuses;
use super::stall::Stalls;
use super::verdict::{Figure, Finding, Found, Severity, Status, Witness};
use super::{CHECKS, Check};
use crate::scenario::{Known, SECOND, Scenario};
use crate::select::Selection;
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

    /// What the selected checks alone come to. Whether the harness itself did its part counts unless it is skipped by name,
    /// and so do failures that are expected of no check.
    #[must_use]
    pub fn of(mut self, selection: &Selection, trace: &Trace) -> Self {
        let known: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
        let own = |id: &str| id.starts_with(OWN) && !selection.skips(id);
        if !known.iter().any(|id| selection.has(id)) {
            let sentence = "no check was selected".to_owned();
            return Self { status: Status::Inconclusive, sentence, verdicts: Vec::new() };
        }
        self.verdicts.retain(|one| {
            let id = one.id.as_str();
            selection.has(id) || own(id) || !known.contains(id)
        });
        (self.status, self.sentence) = conclude(&self.verdicts, trace);
        let saw = |one: &Verdict| !matches!(one.status, Status::Inconclusive | Status::NotApplicable);
        let asked = |one: &Verdict| selection.has(&one.id) || !one.id.starts_with(OWN);
        if !self.verdicts.iter().any(|one| saw(one) && asked(one)) {
            self.status = Status::Inconclusive;
            self.sentence = format!("nothing was seen of what was selected; {}", self.sentence);
        }
        self
    }
}

/// Judges a trace by a scenario. A trace that was cut short passes nothing: what it shows to be broken is broken all the
/// same, and about the rest it says nothing. One that lacks lines says nothing at all.
#[must_use]
pub fn judge(scenario: &Scenario, trace: &Trace, strictness: Strictness) -> Judgement {
    let scenario = &trace.declared.applied(scenario);
    let evidence = Evidence::new(scenario, trace);
    let mut stalls = Stalls::of(&evidence);
    let today = trace.header.began_unix_ns / DAY;
    let weigh = |check: &Check| {
        let finding = stalls.weigh(check, (check.find)(&evidence));
        let mut finding = with_holes(excuses::weigh(check, finding, &evidence), trace);
        if trace.trailer.is_none() && (finding.found == Found::Held || !check.stands_alone) {
            finding.found = match finding.found {
                Found::Unasked => Found::Unasked,
                _ => Found::Unseen,
            };
            finding.sentence = format!("the trace was cut short; up to there, {}", finding.sentence);
        }
        let known = scenario.expect.known.get(check.id);
        let known = known.filter(|known| known.until.is_none_or(|until| today < until.0));
        // Of what a trace doesn't reach, or lacks, nothing is known.
        let is_whole = trace.trailer.is_some() && trace.dropped() == 0;
        let known = known.filter(|_| is_whole || finding.found != Found::Unasked);
        weigh(check, finding, known, severity(check, scenario), strictness)
    };
    let mut verdicts: Vec<Verdict> = CHECKS.iter().map(weigh).collect();
    let ids: BTreeSet<&str> = CHECKS.iter().map(|check| check.id).collect();
    let stray = scenario.expect.known.keys().filter(|id| !ids.contains(id.as_str()));
    verdicts.extend(stray.map(|id| unknown(id)));
    let (status, sentence) = conclude(&verdicts, trace);
    Judgement { status, sentence, verdicts }
}

/// What a check found, if the trace lacks no lines. What is missing may be what breaks a check, or what would excuse it: a
/// request, its answer, what was done to the sender.
fn with_holes(finding: Finding, trace: &Trace) -> Finding {
    if trace.dropped() == 0 || !matches!(finding.found, Found::Held | Found::Broken) {
        return finding;
    }
    let sentence = format!("the trace lacks lines; as far as it goes, {}", finding.sentence);
    Finding { found: Found::Unseen, sentence, ..finding }
}

/// A check's severity: a must where the scenario writes its figure.
fn severity(check: &Check, scenario: &Scenario) -> Severity {
    let is_written = check.figure.is_some_and(|key| scenario.expect.written.contains(key));
    if is_written { Severity::Must } else { check.severity }
}

fn weigh(
    check: &Check,
    finding: Finding,
    known: Option<&Known>,
    severity: Severity,
    strictness: Strictness,
) -> Verdict {
    let Finding { found, sentence, figures, witness } = finding;
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

/// A generator that fell behind measured itself: nothing else that the run shows can be trusted to be the sender's. A stall
/// of the harness takes only what it touches.
const SCHEDULE: &str = "harness.schedule";

/// Checks of the harness itself.
const OWN: &str = "harness.";

/// The most checks whose thin evidence the headline quotes.
const QUOTED_MAX: usize = 3;

/// What decides: a failure before anything else, then what makes the run say nothing. A check that *should* hold and saw
/// too little decides nothing, and is counted in the headline all the same.
pub fn conclude(verdicts: &[Verdict], trace: &Trace) -> (Status, String) {
    let any = |status: Status| verdicts.iter().any(|verdict| verdict.status == status);
    let counted = headline(verdicts);
    if any(Status::Fail) {
        return (Status::Fail, counted);
    }
    if trace.trailer.is_none() {
        return (Status::Inconclusive, format!("the trace was cut short; {counted}"));
    }
    let dropped = trace.dropped();
    if dropped > 0 {
        return (Status::Inconclusive, format!("{dropped} records could not be kept; {counted}"));
    }
    let too_thin = verdicts.iter().any(|one| one.status == Status::Inconclusive && decides(one));
    match (too_thin, any(Status::Pass) || any(Status::Warn)) {
        (true, _) => (Status::Inconclusive, counted),
        (false, false) => (Status::Inconclusive, "nothing was seen".to_owned()),
        (false, true) => (Status::Pass, counted),
    }
}

/// Whether a run says nothing where this check saw too little.
pub fn decides(one: &Verdict) -> bool {
    one.severity == Severity::Must || one.id == SCHEDULE
}

/// How many checks came to what, all of those that concern the run: `1 failed: rate.envelope; 36 passed, 1 inconclusive:
/// retry.backoff-jitter (2 retries)`.
fn headline(verdicts: &[Verdict]) -> String {
    let with = |status: Status| verdicts.iter().filter(move |one| one.status == status).collect::<Vec<_>>();
    let named = |some: &[&Verdict], word: &str| {
        let ids = some.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(", ");
        (!some.is_empty()).then(|| format!("{} {word}: {ids}", some.len()))
    };
    let (excused, passed): (Vec<_>, Vec<_>) =
        with(Status::Pass).into_iter().partition(|one| one.known.is_some());
    let mut unseen = with(Status::Inconclusive);
    unseen.sort_by_key(|one| !decides(one));
    let quoted = unseen.iter().take(QUOTED_MAX).map(|one| format!("{} ({})", one.id, one.sentence));
    let mut quoted = quoted.collect::<Vec<_>>().join(", ");
    if unseen.len() > QUOTED_MAX {
        quoted.push_str(&format!(", and {} more", unseen.len() - QUOTED_MAX));
    }
    let unseen = (!unseen.is_empty()).then(|| format!("{} inconclusive: {quoted}", unseen.len()));
    let passed = (!passed.is_empty()).then(|| format!("{} passed", passed.len()));
    let rest = [
        passed,
        named(&excused, "failed as expected"),
        named(&with(Status::Warn), "warned"),
        named(&with(Status::HarnessError), "could not be judged"),
        unseen,
    ];
    let rest = rest.into_iter().flatten().collect::<Vec<_>>().join(", ");
    match named(&with(Status::Fail), "failed") {
        Some(failed) if rest.is_empty() => failed,
        Some(failed) => format!("{failed}; {rest}"),
        None => rest,
    }
}
