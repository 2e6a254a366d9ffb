//! A report against an older one: what got worse, and what became better.
//!
//! Verdicts are compared by id: from pass to anything but `not applicable` is a regression, and so is a check that is not
//! there any more. Of the figures only efficiency is compared, a quotient of two measurements on the same machine; it may
//! fall by a tenth, which noise can explain.

use super::model::Report;
use crate::check::{Status, Verdict};

/// How much lower efficiency may be: a tenth.
const EFFICIENCY_KEPT: f64 = 0.9;

/// What differs between two reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What got worse.
    pub regressions: Vec<String>,
    /// What became better.
    pub improvements: Vec<String>,
}

/// What differs between an older report and a newer one.
#[must_use]
pub fn compare(base: &Report, new: &Report) -> Difference {
    let mut difference = Difference::default();
    for old in &base.judgement.verdicts {
        let found = new.judgement.verdicts.iter().find(|verdict| verdict.id == old.id);
        let Some(now) = found else {
            difference
                .regressions
                .push(format!("{}: was {}, and is not judged any more", old.id, old.status));
            continue;
        };
        if rank(now) > rank(old) {
            difference
                .regressions
                .push(format!("{}: was {}, is {}: {}", old.id, old.status, now.status, now.sentence));
        } else if rank(now) < rank(old) {
            difference.improvements.push(format!("{}: was {}, is {}", old.id, old.status, now.status));
        }
    }
    let efficiency = |report: &Report| report.speed.efficiency.as_ref().and_then(serde_json::Number::as_f64);
    if let (Some(before), Some(now)) = (efficiency(base), efficiency(new)) {
        if now < before * EFFICIENCY_KEPT {
            difference.regressions.push(format!("efficiency: was {before}, is {now}"));
        } else if now * EFFICIENCY_KEPT > before {
            difference.improvements.push(format!("efficiency: was {before}, is {now}"));
        }
    }
    difference
}

/// How bad a verdict is.
fn rank(verdict: &Verdict) -> u8 {
    match verdict.status {
        Status::Pass | Status::NotApplicable => 0,
        Status::Warn => 1,
        Status::Inconclusive => 2,
        Status::Fail => 3,
        Status::HarnessError => 4,
    }
}
