//! `payload.intact`: the body of each request holds the offered data, by value, and no other event's type or key.
//!
//! The harness compares each body as it arrives, and the trace holds its result. `[payload]` of a driver file may
//! name the places, and demand the data's bytes.

use super::evidence::Evidence;
use super::verdict::{Finding, Tally};
use crate::check::Check;
use crate::entry::Severity;
use crate::trace::Payload;

pub(super) const CHECK: Check = Check {
    id: "payload.intact",
    severity: Severity::Must,
    source: "derived: a delivery is the event that was offered",
    requirement: "every request carries the data of its event as it was offered, and not another event's type \
        or key",
    why: "a receiver acts on the data, and a valid signature makes changed or cut data look genuine",
    remedy: "store the data's bytes when the event is emitted, and send those; numbers lose digits and text loses \
        characters when data is parsed and written anew",
    stands_alone: true,
    find: intact,
    ..Check::PLAIN
};

fn intact(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (at, lane) in (0..).zip(&evidence.lanes) {
        for n in &lane.arrivals {
            match &evidence.trace.arrivals[*n as usize].payload {
                None => {}
                Some(Payload::Intact) => tally.see(),
                Some(Payload::Altered(why)) => {
                    tally.see();
                    tally.broke(|| evidence.witness(at, &[*n], why.to_string()));
                }
            }
        }
    }
    tally.finding(
        "payloads that were compared",
        "each carries its event as it was offered",
        "changed on the way",
    )
}
