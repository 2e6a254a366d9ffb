//! The same checks as for a real run, less what virtual time can't show, which is named instead of passed.

use crate::check::{Judgement, Status, Strictness, conclude, judge};
use crate::scenario::Scenario;
use crate::trace::Trace;

/// Checks of what a simulated sender hasn't got, and why.
const BEYOND: [(&str, &str); 6] = [
    ("format.post-json", "a simulated request has no method and no headers but those of its signature"),
    ("harness.schedule", "virtual time offers every event at its moment"),
    ("queue.memory", "a simulated process has no memory of its own to look at"),
    ("queue.retention", "a simulated process keeps what was delivered for as long as its model says"),
    ("network.huge-answer", "a simulated process has no memory of its own to look at"),
    ("efficiency", "virtual time says nothing of this machine's speed"),
];

/// Figures that what is done to a sender may honestly break, though the scenario as it is written keeps them: they say how
/// long something takes. Rules have no such excuse.
const FIGURES: [&str; 6] = [
    "rate.utilisation",
    "pressure.holds",
    "recovery.gap",
    "isolation.latency",
    "isolation.gap",
    "latency.first-attempt",
];

/// Judges a simulated run of a scenario that a sweep has disturbed: strictly, for what our own sender should do it must,
/// but for the figures of the undisturbed one, which are named instead.
#[must_use]
pub fn judged_disturbed(scenario: &Scenario, trace: &Trace) -> Judgement {
    let mut judgement = judged(scenario, trace, Strictness::Strict);
    for verdict in &mut judgement.verdicts {
        if FIGURES.contains(&verdict.id.as_str()) && verdict.status != Status::NotApplicable {
            verdict.status = Status::NotApplicable;
            verdict.sentence =
                format!("skipped: a figure that a disturbance may break: {}", verdict.sentence);
        }
    }
    (judgement.status, judgement.sentence) = conclude(&judgement.verdicts, trace);
    judgement
}

/// The checks that a sweep does not judge.
#[must_use]
pub const fn not_judged_disturbed() -> &'static [&'static str] {
    &FIGURES
}

/// Judges a simulated run. What virtual time can't express is not applicable, with the reason for its sentence; what it
/// can is judged as ever.
#[must_use]
pub fn judged(scenario: &Scenario, trace: &Trace, strictness: Strictness) -> Judgement {
    let mut judgement = judge(scenario, trace, strictness);
    for verdict in &mut judgement.verdicts {
        let beyond = BEYOND.iter().find(|(id, _)| *id == verdict.id);
        // What such a check passes on is what the simulator wrote down by itself.
        let says_nothing = matches!(verdict.status, Status::Inconclusive | Status::Pass);
        if let Some((_, why)) = beyond.filter(|_| says_nothing) {
            verdict.status = Status::NotApplicable;
            verdict.sentence = format!("skipped: {why}");
        }
    }
    (judgement.status, judgement.sentence) = conclude(&judgement.verdicts, trace);
    judgement
}

/// What was skipped, and why.
pub fn skipped(judgement: &Judgement) -> impl Iterator<Item = (&str, &str)> {
    let told = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::NotApplicable);
    told.filter_map(|verdict| Some((verdict.id.as_str(), verdict.sentence.strip_prefix("skipped: ")?)))
}
