//! Changes of a lane's share of its contract, for operators only.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::time::{Nanos, StoreTime};

/// The shortest time between two reports, except for the return to the whole contract.
const QUIET: Nanos = Nanos::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    pub at: StoreTime,
    /// In percent, rounded up.
    pub from: u32,
    /// In percent, rounded up.
    pub to: u32,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// The last answers took longer than the target.
    Latency {
        /// The average of the last answers, or the last answer if that was quicker.
        lately: Nanos,
        target: Nanos,
    },
    Failures {
        /// In percent.
        percent: u32,
    },
    Refused,
    Recovered,
    /// An operator asked for a retry.
    Asked,
}

/// A [`Shift`] for other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShiftRecord {
    /// Nanoseconds.
    ago: u64,
    from: u32,
    to: u32,
    why: Why,
}

impl ShiftRecord {
    pub(super) fn new(Shift { at, from, to, why }: Shift, now: StoreTime) -> Self {
        Self { ago: now.since(at).0, from, to, why }
    }

    /// The change that a record taken at `at` names.
    pub(super) fn shift(self, at: StoreTime) -> Shift {
        Shift { at: at.sooner(Nanos(self.ago)), from: self.from, to: self.to, why: self.why }
    }
}

impl Why {
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Latency { .. } => "latency",
            Self::Failures { .. } => "failures",
            Self::Refused => "refused",
            Self::Recovered => "recovered",
            Self::Asked => "asked",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency { lately, target } => {
                write!(f, "latency {} over the target {}", Rounded(*lately), Rounded(*target))
            }
            Self::Failures { percent } => write!(f, "{percent} % of the last attempts failed"),
            Self::Refused => f.write_str("the endpoint answered 429"),
            Self::Recovered => f.write_str("answers have recovered"),
            Self::Asked => f.write_str("an operator asked for a retry"),
        }
    }
}

/// A time in s, ms or µs, to about three digits.
struct Rounded(Nanos);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.0 / 1_000;
        match us {
            0..1_000 => write!(f, "{us} µs"),
            1_000..1_000_000 => write!(f, "{} ms", us / 1_000),
            _ => write!(f, "{}.{:02} s", us / 1_000_000, us % 1_000_000 / 10_000),
        }
    }
}

/// The changes to report. Empty, without memory, until the first change.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Option<Box<Notes>>);

#[derive(Clone, Debug)]
struct Notes {
    last: Shift,
    told: Shift,
    lowered: Why,
    news: Option<Shift>,
}

impl Journal {
    pub(super) fn last(&self) -> Option<Shift> {
        self.0.as_ref().map(|notes| notes.last)
    }

    /// Always reports the return to the whole contract. A report covers all changes since the one before.
    pub(super) fn report_change(&mut self, shift: Shift, is_whole: bool) {
        // A change below one percent is not reported, unless it restores the whole contract.
        let is_seen = shift.from != shift.to;
        if !is_seen && (self.0.is_none() || !is_whole) {
            return;
        }
        let Some(notes) = &mut self.0 else {
            self.0 =
                Some(Box::new(Notes { last: shift, told: shift, lowered: shift.why, news: Some(shift) }));
            return;
        };
        if is_seen {
            notes.last = shift;
        }
        if shift.to < shift.from {
            notes.lowered = shift.why;
        }
        if is_whole || shift.at.since(notes.told.at) >= QUIET {
            let from = notes.told.to;
            // The share may have gone down and a little up again since.
            let why = if shift.to < from { notes.lowered } else { Why::Recovered };
            let told = Shift { from, why, ..shift };
            if told.from != told.to {
                (notes.told, notes.news) = (told, Some(told));
            }
        }
    }

    pub(super) fn take_news(&mut self) -> Option<Shift> {
        self.0.as_mut().and_then(|notes| notes.news.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, from: u32, to: u32) -> Shift {
        let why = if to < from { Why::Refused } else { Why::Recovered };
        Shift { at: StoreTime(0) + Nanos::from_millis(ms), from, to, why }
    }

    #[test]
    fn reports_of_changes_are_few_and_end_with_the_latest_state() {
        let mut journal = Journal::default();
        let mut told = |shift: Shift| {
            journal.report_change(shift, shift.to == 100);
            let news = journal.take_news();
            assert!(news.is_none_or(|news| (news.to < news.from) == (news.why == Why::Refused)), "{news:?}");
            news.map(|news| (news.from, news.to))
        };
        assert_eq!(told(at(0, 100, 50)), Some((100, 50)));
        assert_eq!(told(at(1, 50, 25)), None);
        assert_eq!(told(at(9_999, 25, 13)), None);
        assert_eq!(told(at(10_000, 13, 25)), Some((50, 25)));
        assert_eq!(told(at(10_001, 25, 100)), Some((25, 100)));
        assert_eq!(told(at(10_002, 100, 50)), None);
        assert_eq!(told(at(10_003, 50, 100)), None, "it was never said to be less");
    }

    #[test]
    fn a_change_below_one_percent_is_reported_only_at_full_recovery() {
        let mut journal = Journal::default();
        let mut told = |shift: Shift, is_whole| {
            journal.report_change(shift, is_whole);
            (
                journal.take_news().map(|news| (news.from, news.to)),
                journal.last().map(|it| it.at.0 / 1_000_000),
            )
        };
        assert_eq!(told(at(0, 100, 100), false), (None, None));
        assert_eq!(told(at(1, 100, 100), true), (None, None));
        assert_eq!(told(at(2, 100, 99), false), (Some((100, 99)), Some(2)));
        assert_eq!(told(at(20_000, 99, 99), false), (None, Some(2)));
        assert_eq!(told(at(20_001, 99, 98), false), (Some((99, 98)), Some(20_001)));
        assert_eq!(told(at(20_002, 98, 100), false), (None, Some(20_002)), "too soon");
        assert_eq!(told(at(20_003, 100, 100), true), (Some((98, 100)), Some(20_002)));
    }

    #[test]
    fn reasons_have_their_figures() {
        let (lately, target) = (Nanos::from_millis(2_104), Nanos::from_millis(400));
        assert_eq!(Why::Latency { lately, target }.to_string(), "latency 2.10 s over the target 400 ms");
        assert_eq!(Why::Failures { percent: 61 }.to_string(), "61 % of the last attempts failed");
    }
}
