use super::evidence::Evidence;
use super::verdict::{Finding, Tally};
use crate::check::{Check, Simulated};
use crate::entry::Severity;

pub(super) const CHECK: Check = Check {
    id: "permission.asked",
    severity: Severity::Must,
    source: "CloudEvents HTTP WebHook 1.0.2, 4",
    requirement: "no request comes before its endpoint has permitted the sender's origin by OPTIONS, and each names that \
        origin",
    why: "a sender that does not ask floods any address that somebody gives it",
    remedy: "ask by OPTIONS with WebHook-Request-Origin, wait for WebHook-Allowed-Origin, and send the origin with each \
        request",
    stands_alone: true,
    simulated: Simulated::Beyond("a simulated endpoint is not asked by OPTIONS"),
    find: asked,
    ..Check::PLAIN
};

fn asked(evidence: &Evidence<'_>) -> Finding {
    if evidence.scenario.subscribers.iter().all(|subscriber| subscriber.permission.is_none()) {
        return Finding::unasked("no endpoint grants a permission");
    }
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let Some(permission) = &lane.subscriber.permission else { continue };
        let answers = evidence.trace.reached.permissions.iter();
        let mut own = answers.filter(|asked| asked.endpoint == lane.subscriber.name);
        let granted = own.find(|asked| asked.granted).map(|asked| asked.t);
        for n in &lane.arrivals {
            tally.see();
            let arrival = &evidence.trace.arrivals[*n as usize];
            let origin = arrival.head.origin.as_deref().unwrap_or_default();
            let what = match granted {
                Some(granted) if granted <= arrival.t && origin.eq_ignore_ascii_case(&permission.origin) => {
                    continue;
                }
                Some(granted) if granted <= arrival.t => {
                    format!("WebHook-Request-Origin is {origin:?}; expected {}", permission.origin)
                }
                _ => "sent before the endpoint permitted any".to_owned(),
            };
            tally.broke(|| evidence.witness(at, &[*n], what));
        }
    }
    tally.finding(
        "requests",
        "each was permitted, and names its origin",
        "not permitted, or without its origin",
    )
}
