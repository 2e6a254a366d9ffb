//! A lane's record on its way from one owner to the next.

use serde::{Deserialize, Serialize};

use super::moment::Moment;
use super::wall_time;
use crate::engine::contract::WINDOW_LIMIT_MAX;
use crate::engine::{LaneRecord, Nanos, Origin, StoreTime};
use crate::messages::reply::{Ended, Handover, Record};

/// What a record is kept in.
#[derive(Serialize, Deserialize)]
struct Envelope<L> {
    lane: L,
    /// The machine's moment when it was written, if the machine told one.
    at: Option<Moment>,
}

/// The record as the store keeps it, written at a moment of the machine, if that tells one.
///
/// # Errors
/// When it can't be written as JSON, which would be a defect.
pub fn seal(record: &LaneRecord, at: Option<Moment>) -> serde_json::Result<Box<[u8]>> {
    let envelope = Envelope { lane: record, at };
    serde_json::to_vec(&envelope).map(Vec::into_boxed_slice)
}

/// What a new owner knows of what was sent before. A record that can't be read counts as none: the worst is assumed.
///
/// `now` is the machine's moment, if it tells one.
#[must_use]
pub fn open(handover: Handover, now: Option<&Moment>) -> Origin {
    let seized = |record: &Record, at: StoreTime, ended: &[Ended]| {
        let (record, downtime) = read(record, now).unzip();
        let ended = match &record {
            Some(record) => ago(ended, at, wall_time(record.taken_at())),
            // How far back the rest would have to reach is not known: as much as any cap can count, just now.
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

/// Until when a lane's breaker keeps its endpoint alone, as far as its checkpoint tells: later than it is by the time that the
/// checkpoint took to be written, and not sooner. Nothing while it is closed, or where the checkpoint cannot be read.
#[must_use]
pub fn breaker_open_until(record: &Record) -> Option<StoreTime> {
    let (lane, _) = read(record, None)?;
    Some(StoreTime(record.at.0.saturating_add(lane.breaker_open_for()?.0)))
}

/// How long before `at` those ended of which a record that was taken then may not tell. A record from the future was taken
/// by a clock that was ahead: nobody knows what it tells of, so all of them count.
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
    fn what_ended_after_the_record_was_taken_is_told_by_how_long_ago() {
        check(951, &[(1, 4)]);
        check(950, &[(50, 3), (1, 4)]);
        check(0, &[(100, 2), (50, 3), (1, 4)]);
    }

    #[test]
    fn a_record_from_the_future_tells_of_nothing_for_sure() {
        check(5_000, &[(100, 2), (50, 3), (1, 4)]);
    }
}
