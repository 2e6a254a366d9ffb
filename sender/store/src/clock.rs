//! The time of a store: which moment it is when a process begins to count on a file.
//!
//! All processes of one run of the machine count on one scale: the file keeps an [`Anchor`], the store's time at a moment of
//! the machine, and everyone adds the time that the machine has run since. A wall clock that steps changes nothing, and
//! neither does a process whose wall clock is wrong. The wall clock is asked by the first process of each run of the
//! machine, and again by whoever finds the file's time ahead of it: that time is brought back to the wall clock by a process
//! that is alone on the file, if it is not off by more than [`BACK_MAX`].
//!
//! Nothing is read here: clocks and file are arguments.

use crate::engine::{Nanos, StoreTime};

/// A difference up to this is no fault of anybody's clock.
pub const TOLERANCE: Nanos = Nanos::MINUTE;

/// The file's time is brought back by no more than this without an operator's word. A wall clock that is further behind is
/// more likely to be wrong itself: machines without a battery begin in 1970, or when their system was built.
pub const BACK_MAX: Nanos = Nanos::DAY.times(30);

/// A moment of the machine, which no wall clock has a say in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineMoment {
    /// Which run of the machine.
    pub boot: Box<str>,
    /// How long that had run, with the time in which it slept.
    pub uptime: Nanos,
}

/// The store's time at a moment of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The store's time.
    pub at: StoreTime,
    /// The machine's moment.
    pub moment: MachineMoment,
}

/// What a file says of the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileClock {
    /// The latest time that any commit had.
    pub latest: StoreTime,
    /// What processes count from; nothing in a file that no process has begun to count on.
    pub anchor: Option<Anchor>,
    /// Rows may have times of a clock that was ahead, and are still to be looked at.
    pub is_correcting: bool,
}

/// From which time a process counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The store's time now.
    pub now: StoreTime,
    /// What was, or is, wrong with the file's time.
    pub fault: Option<Fault>,
}

/// The file's time is ahead of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// By so much, and counting goes on from the wall clock.
    Corrected(Nanos),
    /// By so much, and counting goes on from there: other processes do so too, or it is more than [`BACK_MAX`].
    Kept(Nanos),
}

/// How a process begins to count on a file.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'m> {
    /// The wall clock.
    pub wall: StoreTime,
    /// The machine's moment, where it tells one.
    pub machine: Option<&'m MachineMoment>,
    /// No other process counts on the file.
    pub alone: bool,
    /// The file's time is brought back by no more than this: [`BACK_MAX`], or what an operator says.
    pub back_max: Nanos,
}

impl FileClock {
    /// From which time a process counts that begins now.
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
        // Somebody wrote who did not count as all others do.
        let left_ahead = Some(self.latest.since(now)).filter(|ahead| *ahead > TOLERANCE);
        Start { now, fault: left_ahead.map(Fault::Corrected) }
    }

    /// Whether processes count on the file in this run of the machine.
    #[must_use]
    pub fn is_anchored(&self, machine: Option<&MachineMoment>) -> bool {
        self.counted(machine).is_some()
    }

    /// The time by the anchor, in the same run of the machine.
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
    fn what_a_clock_left_ahead_is_brought_back_by_all_who_count_right() {
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
