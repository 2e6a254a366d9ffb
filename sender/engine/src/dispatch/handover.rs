//! Encodes and decodes a lane's record for its next owner.

use serde::{Deserialize, Serialize};

use super::event::Moment;
use crate::engine::contract::WINDOW_LIMIT_MAX;
use crate::engine::{Holds, LaneRecord, Nanos, Origin, StoreTime};
use crate::messages::reply::{Ended, Handover, Record};

#[derive(Serialize, Deserialize)]
struct Envelope<L> {
    lane: L,
    /// The machine's moment of writing, if the machine has one.
    at: Option<Moment>,
}

/// Fails if JSON encoding fails, which would be a defect.
pub fn seal(record: &LaneRecord, at: Option<Moment>) -> serde_json::Result<Box<[u8]>> {
    let envelope = Envelope { lane: record, at };
    serde_json::to_vec(&envelope).map(Vec::into_boxed_slice)
}

/// The known past of a lane for its new owner. An unreadable record counts as the worst case.
///
/// `now` is the machine's moment, if the machine has one.
#[must_use]
pub fn open(handover: Handover, now: Option<&Moment>) -> Origin {
    let seized = |record: &Record, at: StoreTime, ended: &[Ended]| {
        let (record, downtime) = read(record, now).unzip();
        let ended = match &record {
            Some(record) => ago(ended, at, record.taken_at()),
            // Unknown ends: assume as many as any cap can count, all just now.
            None => vec![(Nanos::ZERO, WINDOW_LIMIT_MAX)],
        };
        Origin::Seized { record, downtime: downtime.unwrap_or_default(), ended }
    };
    match handover {
        // An owner sends nothing before its first record is durable.
        Handover::Fresh | Handover::Seized { record: None, .. } => Origin::Fresh,
        Handover::Clean(record) => match read(&record, now) {
            Some((record, downtime)) => Origin::Resumed { record, downtime },
            None => seized(&record, record.at, &[]),
        },
        Handover::Seized { record: Some(record), at, ended, .. } => seized(&record, at, &ended),
    }
}

/// The holds on a lane according to its checkpoint. Their ends are late by the time from the record to its writing,
/// never early. Nothing if the checkpoint is unreadable.
#[must_use]
pub fn holds(record: &Record) -> Option<Holds> {
    read(record, None).map(|(lane, _)| lane.holds(record.at))
}

/// The ends that a record taken at `taken` may miss, as times before `at`. A record from the future comes from
/// a clock that was ahead, so all ends count.
fn ago(ended: &[Ended], at: StoreTime, taken: StoreTime) -> Vec<(Nanos, u32)> {
    let taken = if taken > at { StoreTime(0) } else { taken };
    let untold = ended.iter().filter(|run| run.at >= taken);
    untold.map(|run| (at.since(run.at), run.count)).collect()
}

fn read(record: &Record, now: Option<&Moment>) -> Option<(LaneRecord, Nanos)> {
    let Envelope::<LaneRecord> { lane, at } = serde_json::from_slice(&record.bytes).ok()?;
    let downtime = at.zip(now).map_or(Nanos::ZERO, |(then, now)| now.since(&then));
    Some((lane, downtime))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: StoreTime = StoreTime::from_secs(1_000);

    #[track_caller]
    fn check(taken_secs: u64, expected: &[(u64, u32)]) {
        let ended: Vec<_> = [(900, 2), (950, 3), (999, 4)]
            .map(|(at, count)| Ended { at: StoreTime::from_secs(at), count })
            .into();
        let expected: Vec<_> =
            expected.iter().map(|(secs, count)| (Nanos::from_secs(*secs), *count)).collect();
        assert_eq!(ago(&ended, AT, StoreTime::from_secs(taken_secs)), expected);
    }

    #[test]
    fn an_attempt_that_ended_after_the_record_is_given_by_its_age() {
        check(951, &[(1, 4)]);
        check(950, &[(50, 3), (1, 4)]);
        check(0, &[(100, 2), (50, 3), (1, 4)]);
    }

    #[test]
    fn a_record_from_the_future_tells_of_nothing_for_sure() {
        check(5_000, &[(100, 2), (50, 3), (1, 4)]);
    }
}
