//! `path.own`: a request with an event of the run that names no endpoint breaks it too. If an answer redirected the
//! sender, `retry.status` names the redirect.

use super::evidence::Evidence;
use super::strays;
use super::verdict::{Finding, Tally};
use crate::check::Check;
use crate::entry::Severity;
use crate::trace::{Signs, StrayKind};

pub(super) const CHECK: Check = Check {
    id: "path.own",
    severity: Severity::Must,
    source: "derived: a subscriber is its URL",
    requirement: "every request arrives at its subscriber's own URL, path and query included",
    why: "a request to another path reaches another program, or none",
    remedy: "send the URL's request target unchanged, and follow no redirect",
    find: own,
    ..Check::PLAIN
};

pub(super) fn own(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let own = evidence.trace.reached.path_of(&lane.subscriber.name);
        let own = own.unwrap_or_else(|| lane.subscriber.path());
        for n in &lane.arrivals {
            tally.see();
            let arrival = &evidence.trace.arrivals[*n as usize];
            let is_form =
                arrival.head.content_type.as_deref().is_some_and(|kind| kind.contains("form-urlencoded"));
            let own = match evidence.trace.declared.signs {
                Some(Signs::Own { .. }) => own.as_str().into(),
                _ => lane.subscriber.sign.addressed_by(&own, || arrival.sha256.to_string(), is_form),
            };
            let path = arrival.head.path.as_str();
            if path != own {
                tally.broke(|| evidence.witness(at, &[*n], format!("sent to {path}; expected {own}")));
            }
        }
    }
    let strays = evidence.trace.reached.strays.iter();
    for stray in strays.filter(|stray| stray.kind == StrayKind::Request && stray.token.is_some()) {
        tally.see();
        tally.broke(|| strays::witness(stray, format!("sent to no subscriber's URL: {}", stray.said)));
    }
    tally.finding("requests", "each arrived at its subscriber's URL", "sent elsewhere")
}
