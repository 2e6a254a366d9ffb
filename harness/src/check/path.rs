//! `path.own`: every request comes to its subscriber's own URL, path and query: whatever else it is sent to is not what the
//! subscriber asked for. Where an answer pointed elsewhere, `retry.status` says that a redirect was followed.

use super::evidence::Evidence;
use super::verdict::{Finding, Tally};

pub(super) fn own(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        let own = lane.subscriber.path();
        for n in &lane.arrivals {
            tally.see();
            let path = evidence.trace.arrivals[*n as usize].head.path.as_str();
            if path != own {
                tally.broke(|| {
                    evidence.witness(at, &[*n], format!("sent to {path}; the URL's path is {own}"))
                });
            }
        }
    }
    tally.finding("requests", "each came to its subscriber's URL", "sent elsewhere")
}
