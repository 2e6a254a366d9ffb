//! The checks of a real run. Checks that virtual time cannot show are skipped, with the reason.

use super::liveness::Silence;
use hookproof_judge::check::{
    CHECKS, Judgement, Simulated, Status, Strictness, Verdict, Witness, conclude, judge,
};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::Trace;

pub(super) const LIVENESS: &str = "liveness.served";

fn simulated(verdict: &Verdict) -> Simulated {
    CHECKS.iter().find(|check| check.id == verdict.id).map_or(Simulated::Judged, |check| check.simulated)
}

/// Judges strictly. Checks of figures are skipped because a disturbance may break them.
#[must_use]
pub fn judged_disturbed(scenario: &Scenario, trace: &Trace) -> Judgement {
    let mut judgement = judged(scenario, trace, Strictness::Strict);
    for verdict in &mut judgement.verdicts {
        if simulated(verdict) == Simulated::Figure && verdict.status != Status::NotApplicable {
            verdict.status = Status::NotApplicable;
            verdict.sentence =
                format!("not judged with --seeds, since a fault may break the figure: {}", verdict.sentence);
        }
    }
    (judgement.status, judgement.sentence) = conclude(&judgement.verdicts, trace);
    judgement
}

#[must_use]
pub fn not_judged_disturbed() -> Vec<&'static str> {
    CHECKS.iter().filter(|check| check.simulated == Simulated::Figure).map(|check| check.id).collect()
}

/// A check beyond virtual time is not applicable unless it fails.
#[must_use]
pub fn judged(scenario: &Scenario, trace: &Trace, strictness: Strictness) -> Judgement {
    let mut judgement = judge(scenario, trace, strictness);
    for verdict in &mut judgement.verdicts {
        // Such a check would pass or be inconclusive on records that the simulator made up.
        let says_nothing = matches!(verdict.status, Status::Inconclusive | Status::Pass);
        if let Simulated::Beyond(why) = simulated(verdict)
            && says_nothing
        {
            verdict.status = Status::NotApplicable;
            verdict.sentence = format!("skipped: {why}");
        }
    }
    (judgement.status, judgement.sentence) = conclude(&judgement.verdicts, trace);
    judgement
}

/// Fails the check for a lane that the world saw stand still (`sim::liveness`).
#[must_use]
pub fn with_silence(mut judgement: Judgement, silence: Option<&Silence>, trace: &Trace) -> Judgement {
    let Some(silence) = silence else { return judgement };
    for verdict in judgement.verdicts.iter_mut().filter(|verdict| verdict.id == LIVENESS) {
        let Silence { subscriber, from, until, sentence } = silence.clone();
        let what = sentence.clone();
        let witness = Witness { subscriber: Some(subscriber), from, until, what, arrivals: Vec::new() };
        (verdict.status, verdict.sentence, verdict.witness) = (Status::Fail, sentence, vec![witness]);
    }
    (judgement.status, judgement.sentence) = conclude(&judgement.verdicts, trace);
    judgement
}

pub fn skipped(judgement: &Judgement) -> impl Iterator<Item = (&str, &str)> {
    let told = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::NotApplicable);
    told.filter_map(|verdict| Some((verdict.id.as_str(), verdict.sentence.strip_prefix("skipped: ")?)))
}
