//! A run as a standard judges it: without the scenario's keys that forgive. Other keys state the contract, make checks
//! stricter, or bear on checks that grade no requirement.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::judge::{Judgement, Strictness, Verdict, judge};
use super::verdict::Status;
use crate::scenario::contract::{Limit, Retry, Slack};
use crate::scenario::expect::Expect;
use crate::scenario::{FaultAction, Scenario};
use crate::trace::Trace;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByStandards {
    pub status: Status,
    pub sentence: String,
}

/// A pass by the scenario's leniency alone shows nothing.
pub(crate) fn by_standards(
    scenario: &Scenario,
    trace: &Trace,
    judgement: &mut Judgement,
) -> BTreeMap<String, ByStandards> {
    let (strict, keys) = without_leniency(scenario);
    let strict = (!keys.is_empty()).then(|| judge(&strict, trace, Strictness::Usual).verdicts);
    let mut others = BTreeMap::new();
    for lenient in judgement.verdicts.iter().filter(|one| one.known.is_none()) {
        let mut strict = strict.iter().flatten();
        let strict = strict.find(|one| one.id == lenient.id).unwrap_or(lenient);
        let (mut status, sentence) = counted(strict);
        let mut sentence = sentence.to_owned();
        // A contract may be laxer than a standard; that is no fault.
        if lenient.status == Status::Pass && strict.status != Status::Pass && status != Status::Pass {
            let keys = keys.iter().copied().collect::<Vec<_>>().join(", ");
            sentence = format!("passes, but not without all of {keys}: {sentence}");
            status = Status::Inconclusive;
        }
        let counts = ByStandards { status, sentence };
        if counts.status != lenient.status {
            others.insert(lenient.id.clone(), counts);
        }
    }
    judgement.verdicts.iter_mut().for_each(|one| one.by_standard = None);
    others
}

fn counted(verdict: &Verdict) -> (Status, &str) {
    let Verdict { status, sentence, by_standard, .. } = verdict;
    by_standard.as_ref().map_or((*status, sentence), |(status, sentence)| (*status, sentence))
}

fn without_leniency(scenario: &Scenario) -> (Scenario, BTreeSet<&'static str>) {
    let (mut strict, usual) = (scenario.clone(), Expect::default());
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
