//! The sender's figures in the words that people and machines read.

use crate::engine::{Nanos, WallTime};
use crate::event::timestamp::Timestamp;
use crate::store::command::Reason;
use crate::store::lane::LaneState;
use crate::store::read::Place;

/// A state.
pub(super) const fn state(state: LaneState) -> &'static str {
    match state {
        LaneState::Active => "active",
        LaneState::Paused => "paused",
        LaneState::Disabled => "disabled",
        LaneState::Removed => "removed",
    }
}

/// Why a delivery was given up.
pub(super) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Exhausted => "exhausted",
        Reason::Expired => "expired",
        Reason::Overflow => "overflow",
        Reason::Gone => "gone",
    }
}

/// Where a delivery is.
pub(super) const fn place(place: Place) -> &'static str {
    match place {
        Place::Waiting => "waiting",
        Place::Delivered => "delivered",
        Place::Dead => "dead",
        Place::Coalesced => "coalesced",
    }
}

/// A moment, as every body has it too.
pub(super) fn moment(at: WallTime) -> String {
    Timestamp(at).to_string()
}

/// A length of time as a person would say it: to the second below two minutes, to the minute below two hours, …
pub(super) fn rough(length: Nanos) -> Nanos {
    const STEPS: [(Nanos, Nanos); 5] = [
        (Nanos::from_millis(1), Nanos::from_micros(1)),
        (Nanos::from_secs(2), Nanos::from_millis(1)),
        (Nanos::from_secs(120), Nanos::SECOND),
        (Nanos::HOUR.times(2), Nanos::MINUTE),
        (Nanos::DAY.times(2), Nanos::HOUR),
    ];
    let step = STEPS.iter().find(|(below, _)| length < *below).map_or(Nanos::DAY, |(_, step)| *step);
    Nanos(length.0 - length.0 % step.0)
}

/// How long ago.
pub(super) fn ago(at: WallTime, now: WallTime) -> String {
    format!("{} ago", rough(now.since(at)))
}

/// When, as seen from now.
pub(super) fn when(at: WallTime, now: WallTime) -> String {
    if at > now { format!("in {}", rough(at.since(now))) } else { ago(at, now) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_exact_as_anybody_wants_them() {
        let rows = [
            (Nanos(1_234), "1us"),
            (Nanos::from_micros(1_234_567), "1234ms"),
            (Nanos::from_millis(61_900), "61s"),
            (Nanos::from_secs(3_700), "61min"),
            (Nanos::from_secs(90_000), "25h"),
            (Nanos::from_secs(200_000), "2d"),
            (Nanos::ZERO, "0ns"),
        ];
        for (length, expected) in rows {
            assert_eq!(rough(length).to_string(), expected);
        }
    }
}
