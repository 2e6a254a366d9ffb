//! A scenario as a standard judges its run. Of its keys these forgive more than usual: `lost`, `retry_after_late`,
//! `no_storm` and `rss_growth_max` of `expect`, `burst_slack` and `window_slack` of each limit, `retry_after_cap` and
//! `attempts = 1` of `retry`, and `within` of a changed limit. Other keys state the contract or only make checks
//! stricter, bear on checks that grade no requirement, or leave a check without a finding.

use std::collections::BTreeSet;

use super::contract::{Limit, Retry, Slack};
use super::expect::Expect;
use super::{FaultAction, Scenario};

impl Scenario {
    /// Without these keys, whose names come with it, and without a bound on the return after a pause: no standard sets
    /// one.
    pub(crate) fn by_standards(&self) -> (Self, BTreeSet<&'static str>) {
        let (mut strict, usual) = (Self { is_by_standard: true, ..self.clone() }, Expect::default());
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
}

fn without_slack(limit: &mut Limit) -> [(&'static str, bool); 2] {
    let Slack { burst, window } = std::mem::take(&mut limit.slack);
    [("limit.burst_slack", burst > 0), ("limit.window_slack", window > 0)]
}
