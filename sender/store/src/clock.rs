//! The store's time: from which moment a process on a file counts.
//!
//! All processes of one boot share a time scale. The file keeps an [`Anchor`], and each process adds the machine's
//! uptime since then. So wall clocks that step or are wrong change nothing.
//! The first process of each boot reads the wall clock, and so does a process that finds the file's time ahead. A
//! process that is alone on the file then sets the time back to the wall clock, by [`BACK_MAX`] at most.
//! Clocks and file are arguments here.

use crate::engine::{Nanos, StoreTime};

/// A smaller difference of clocks is no fault.
pub const TOLERANCE: Nanos = Nanos::MINUTE;

/// The most by which the file's time is set back without an operator. A wall clock that is further behind is more
/// likely wrong itself: machines without a battery start in 1970, or at their system's build time.
pub const BACK_MAX: Nanos = Nanos::DAY.times(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineMoment {
    pub boot: Box<str>,
    /// The uptime since then, including sleep.
    pub uptime: Nanos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    pub at: StoreTime,
    pub moment: MachineMoment,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileClock {
    pub latest: StoreTime,
    /// The base of all processes' time. `None` in a file that no process has used.
    pub anchor: Option<Anchor>,
    /// Whether rows may still have times of a clock that was ahead.
    pub is_correcting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub now: StoreTime,
    pub fault: Option<Fault>,
}

/// The file's time is ahead of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// By this much. Counting continues from the wall clock.
    Corrected(Nanos),
    /// By this much. Counting continues from the file's time, because other processes use it or the difference
    /// exceeds the limit.
    Kept(Nanos),
}

#[derive(Clone, Copy, Debug)]
pub struct Beginning<'m> {
    pub wall: StoreTime,
    pub machine: Option<&'m MachineMoment>,
    pub alone: bool,
    /// The limit for setting the time back: [`BACK_MAX`], or an operator's choice.
    pub back_max: Nanos,
}

impl FileClock {
    #[must_use]
    pub fn start(&self, beginning: Beginning<'_>) -> Start {
        let Beginning { wall, machine, alone, back_max } = beginning;
        let counted = self.counted(machine);
        let expected = counted.unwrap_or(self.latest);
        let ahead = expected.since(wall);
        if ahead > TOLERANCE {
            return if alone && ahead <= back_max {
                Start { now: wall, fault: Some(Fault::Corrected(ahead)) }
            } else {
                Start { now: expected, fault: Some(Fault::Kept(ahead)) }
            };
        }
        let now = counted.unwrap_or(wall.max(self.latest));
        // A process that did not use the common scale has written.
        let left_ahead = Some(self.latest.since(now)).filter(|ahead| *ahead > TOLERANCE);
        Start { now, fault: left_ahead.map(Fault::Corrected) }
    }

    /// Whether the anchor belongs to this boot.
    #[must_use]
    pub fn is_anchored(&self, machine: Option<&MachineMoment>) -> bool {
        self.counted(machine).is_some()
    }

    /// The time by the anchor, within the same boot.
    fn counted(&self, machine: Option<&MachineMoment>) -> Option<StoreTime> {
        let (anchor, machine) = (self.anchor.as_ref()?, machine?);
        let same = anchor.moment.boot == machine.boot && anchor.moment.uptime <= machine.uptime;
        same.then(|| StoreTime(anchor.at.0.saturating_add(machine.uptime.0 - anchor.moment.uptime.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: StoreTime = StoreTime::from_secs(1_800_000_000);

    fn moment(boot: &str, secs: u64) -> MachineMoment {
        MachineMoment { boot: boot.into(), uptime: Nanos::from_secs(secs) }
    }

    fn beginning(wall: StoreTime, machine: Option<&MachineMoment>, alone: bool) -> Beginning<'_> {
        Beginning { wall, machine, alone, back_max: BACK_MAX }
    }

    fn ahead(by: Nanos) -> StoreTime {
        StoreTime(WALL.0 + by.0)
    }

    fn file(latest: StoreTime, anchor: Option<(StoreTime, MachineMoment)>) -> FileClock {
        let anchor = anchor.map(|(at, moment)| Anchor { at, moment });
        FileClock { latest, anchor, is_correcting: false }
    }

    #[test]
    fn in_one_run_of_the_machine_a_wall_clock_that_is_wrong_changes_nothing() {
        let file = file(WALL, Some((WALL, moment("a", 100))));
        let expected = Start { now: ahead(Nanos::from_secs(5)), fault: None };
        for wall in [WALL, ahead(Nanos::HOUR), ahead(Nanos::HOUR.times(25))] {
            assert_eq!(file.start(beginning(wall, Some(&moment("a", 105)), false)), expected);
            assert_eq!(file.start(beginning(wall, Some(&moment("a", 105)), true)), expected);
        }
    }

    #[test]
    fn processes_with_a_right_clock_correct_a_store_that_a_fast_one_left_ahead() {
        let file = file(ahead(Nanos::HOUR), Some((WALL, moment("a", 100))));
        for alone in [true, false] {
            let start = file.start(beginning(WALL, Some(&moment("a", 100)), alone));
            assert_eq!(start, Start { now: WALL, fault: Some(Fault::Corrected(Nanos::HOUR)) });
        }
    }

    #[test]
    fn a_scale_that_is_ahead_is_brought_back_by_whoever_is_alone_on_it() {
        let machine = moment("a", 100);
        let hour = Nanos::HOUR;
        for file in [
            file(ahead(hour), Some((ahead(hour), machine.clone()))),
            file(ahead(hour), None),
            file(ahead(hour), Some((WALL, moment("b", 1)))),
        ] {
            let start = |alone| file.start(beginning(WALL, Some(&machine), alone));
            assert_eq!(start(true), Start { now: WALL, fault: Some(Fault::Corrected(hour)) });
            assert_eq!(start(false), Start { now: ahead(hour), fault: Some(Fault::Kept(hour)) });
        }
    }

    #[test]
    fn a_wall_clock_that_is_absurdly_far_behind_is_not_followed_without_an_operators_word() {
        let by = BACK_MAX + Nanos::SECOND;
        let file = file(ahead(by), None);
        let kept = Start { now: ahead(by), fault: Some(Fault::Kept(by)) };
        assert_eq!(file.start(beginning(WALL, Some(&moment("a", 1)), true)), kept);
        let told = file
            .start(Beginning { back_max: Nanos(u64::MAX), ..beginning(WALL, Some(&moment("a", 1)), true) });
        assert_eq!(told, Start { now: WALL, fault: Some(Fault::Corrected(by)) });
    }

    #[test]
    fn the_first_of_a_run_counts_from_the_wall_clock_and_nobody_from_before_the_file() {
        let file = file(WALL, Some((WALL, moment("a", 100))));
        let later = ahead(Nanos::HOUR);
        assert_eq!(
            file.start(beginning(later, Some(&moment("b", 1)), true)),
            Start { now: later, fault: None }
        );
        assert_eq!(file.start(beginning(later, None, true)), Start { now: later, fault: None });
        let a_little_behind = StoreTime(WALL.0 - Nanos::SECOND.0);
        assert_eq!(file.start(beginning(a_little_behind, None, true)), Start { now: WALL, fault: None });
    }
}
