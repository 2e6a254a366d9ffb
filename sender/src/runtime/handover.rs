//! A lane's record on its way from one owner to the next.

use serde::{Deserialize, Serialize};

use super::clock::Moment;
use crate::engine::{LaneRecord, Nanos, Origin};
use crate::store::reply::{Handover, Record};

#[derive(Serialize, Deserialize)]
struct Envelope {
    lane: LaneRecord,
    at: Option<Moment>,
}

/// The record as the store keeps it, written at a moment of the machine, if that tells one.
///
/// # Errors
/// When it can't be written as JSON, which would be a defect.
pub fn seal(record: LaneRecord, at: Option<Moment>) -> serde_json::Result<Box<[u8]>> {
    let envelope = Envelope { lane: record, at };
    serde_json::to_vec(&envelope).map(Vec::into_boxed_slice)
}

/// What a new owner knows of what was sent before. A record that can't be read counts as none: the worst is assumed.
///
/// `quarantine` is for how long a request of a dead owner may still arrive; `deadline`, how much longer if the owner may
/// be alive; `now`, the machine's moment, if it tells one.
#[must_use]
pub fn open(handover: Handover, quarantine: Nanos, deadline: Nanos, now: Option<&Moment>) -> Origin {
    let hold = |surely_dead| if surely_dead { quarantine } else { deadline + quarantine };
    match handover {
        Handover::Fresh => Origin::Fresh,
        Handover::Clean(record) => match read(&record, now) {
            Some((record, downtime)) => Origin::Resumed { record, downtime },
            None => Origin::Seized { record: None, downtime: Nanos::ZERO, hold: hold(false) },
        },
        Handover::Seized { record, surely_dead, .. } => {
            let (record, downtime) = record.as_ref().and_then(|record| read(record, now)).unzip();
            Origin::Seized { record, downtime: downtime.unwrap_or_default(), hold: hold(surely_dead) }
        }
    }
}

fn read(record: &Record, now: Option<&Moment>) -> Option<(LaneRecord, Nanos)> {
    let Envelope { lane, at } = serde_json::from_slice(&record.bytes).ok()?;
    let downtime = at.zip(now).map_or(Nanos::ZERO, |(then, now)| now.since(&then));
    Some((lane, downtime))
}
