//! A run as a standard judges it: without the keys of its scenario that forgive. Other keys state the contract, make
//! checks stricter, or bear on checks that grade no requirement.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::judge::{Judgement, Strictness, Verdict, judge};
use super::verdict::Status;
use crate::scenario::contract::{Limit, Retry, Slack};
use crate::scenario::expect::Expect;
use crate::scenario::{FaultAction, Scenario};
use crate::trace::{Answer, Trace};

/// The verdict on a check that counts by a standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByStandards {
    pub status: Status,
    pub sentence: String,
}

/// The checks that a standard judges otherwise than the scenario: a pass by leniency alone shows nothing.
pub(crate) fn by_standards(
    scenario: &Scenario,
    trace: &Trace,
    judgement: &Judgement,
) -> BTreeMap<String, ByStandards> {
    let (strict, keys) = without_leniency(scenario);
    let of = |id: &str| judgement.verdicts.iter().find(|one| one.id == id && one.known.is_none());
    let mut others = BTreeMap::new();
    let not_shown = |sentence| ByStandards { status: Status::Inconclusive, sentence };
    let is_late = |one: &Verdict| one.status == Status::Fail && one.id.starts_with("retry.after-");
    if !keys.is_empty() || judgement.verdicts.iter().any(is_late) {
        for Verdict { id, status, sentence, .. } in judge(&strict, trace, Strictness::Usual).verdicts {
            let Some(lenient) = of(&id).filter(|lenient| lenient.status != status) else { continue };
            let counts = if lenient.status == Status::Pass {
                not_shown(format!(
                    "passes, but not without all of {}: {sentence}",
                    keys.iter().copied().collect::<Vec<_>>().join(", ")
                ))
            } else {
                ByStandards { status, sentence }
            };
            others.insert(id, counts);
        }
    }
    let finals = &trace.declared.final_statuses;
    let given_up = trace.answers.iter().find(|answer| finals.contains(&answer.status));
    let retries = of("retry.status").filter(|one| one.status == Status::Pass).zip(given_up);
    others.extend(retries.map(|(one, Answer { status, .. })| {
        let sentence = format!("passes only by declares.final, which has {status}: {}", one.sentence);
        (one.id.clone(), not_shown(sentence))
    }));
    others
}

/// Without these keys, whose names come with it, and without a bound on the return after a pause: no standard sets
/// one.
fn without_leniency(scenario: &Scenario) -> (Scenario, BTreeSet<&'static str>) {
    let (mut strict, usual) = (Scenario { is_by_standard: true, ..scenario.clone() }, Expect::default());
    let expect = &mut strict.expect;
    let mut rows = vec![
        ("expect.lost", expect.lost > 0),
        ("expect.retry_after_late", expect.retry_after_late > usual.retry_after_late),
        ("expect.no_storm", expect.no_storm < usual.no_storm),
        ("expect.rss_growth_max", expect.holds.rss_growth_max.is_some()),
    ];
    expect.lost = 0;
    expect.retry_after_late = expect.retry_after_late.min(usual.retry_after_late);
    expect.no_storm = expect.no_storm.max(usual.no_storm);
    expect.holds.rss_growth_max = None;
    for subscriber in &mut strict.subscribers {
        let (retry, usual) = (&mut subscriber.retry, Retry::default());
        rows.push(("retry.retry_after_cap", retry.retry_after_cap < usual.retry_after_cap));
        rows.push(("retry.attempts", retry.attempts == 1));
        retry.retry_after_cap = retry.retry_after_cap.max(usual.retry_after_cap);
        retry.attempts = retry.attempts.max(2);
        rows.extend(without_slack(&mut subscriber.limit));
    }
    for fault in &mut strict.faults {
        if let FaultAction::Limit { limit, within, .. } = &mut fault.action {
            rows.push(("fault.within", *within > FaultAction::WITHIN));
            *within = (*within).min(FaultAction::WITHIN);
            rows.extend(without_slack(limit));
        }
    }
    (strict, rows.into_iter().filter_map(|(key, forgives)| forgives.then_some(key)).collect())
}

fn without_slack(limit: &mut Limit) -> [(&'static str, bool); 2] {
    let Slack { burst, window } = std::mem::take(&mut limit.slack);
    [("limit.burst_slack", burst > 0), ("limit.window_slack", window > 0)]
}
