//! Integer time in nanoseconds, which the driver passes in; and dates of the Gregorian calendar.

use std::fmt;
use std::ops::Add;

/// A length of time in nanoseconds. Arithmetic saturates at about 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    pub const ZERO: Self = Self(0);
    pub const SECOND: Self = Self(1_000_000_000);
    pub const MINUTE: Self = Self::from_secs(60);
    pub const HOUR: Self = Self::from_secs(3_600);
    pub const DAY: Self = Self::from_secs(86_400);

    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    #[must_use]
    pub const fn times(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }

    /// At least zero.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Nanos {
    /// In the largest unit without a fraction: `90s`, `250ms`, `17ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Nanos::DAY.0, "d"),
            (Nanos::HOUR.0, "h"),
            (Nanos::MINUTE.0, "min"),
            (Nanos::SECOND.0, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ];
        let whole = UNITS.iter().find(|(size, _)| self.0 != 0 && self.0.is_multiple_of(*size));
        let (size, name) = whole.unwrap_or(&(1, "ns"));
        write!(f, "{}{name}", self.0 / size)
    }
}

/// Nanoseconds since 1970, on the steady clock of the store unless its holder says otherwise. The steady clock never
/// runs backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// The origin of the scale.
    pub const START: Self = Self(0);
    /// Later than every moment: "never".
    pub const NEVER: Self = Self(u64::MAX);

    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(Nanos::SECOND.0))
    }

    /// Zero if this is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// At least the origin.
    #[must_use]
    pub const fn sooner(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Add<Nanos> for StoreTime {
    type Output = Self;
    fn add(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

/// Exactly 24 characters, so that it sorts as text.
impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0 / 1_000_000;
        let (days, millis) = (millis / 86_400_000, millis % 86_400_000);
        let Date { year, month, day } = Date::of_day(days);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1_000 % 60, millis % 1_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "@{}", Nanos(self.0)) }
    }
}

/// Days before each month of a common year.
const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// From 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
}

impl Date {
    /// `days` count from 1970-01-01.
    #[must_use]
    pub fn of_day(days: u64) -> Self {
        // 400 years have 146,097 days. The guess is exact or one year too high.
        let guess = 1970 + (days * 400 + 591) / 146_097;
        let year = if before_year(guess) > days { guess - 1 } else { guess };
        let in_year = days - before_year(year);
        let month = (1..=12).rev().find(|month| before_month(year, *month) <= in_year).unwrap_or(1);
        Self { year, month, day: in_year - before_month(year, month) + 1 }
    }

    /// Days since 1970-01-01. Nothing for a date that does not exist, or a year outside 1970 to 9999.
    #[must_use]
    pub fn days(self) -> Option<u64> {
        let Self { year, month, day } = self;
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        let length = match month {
            12 => 31,
            _ => before_month(year, month + 1) - before_month(year, month),
        };
        let before = before_year(year) + before_month(year, month);
        (1..=length).contains(&day).then(|| before + day - 1)
    }
}

/// Days from 1970-01-01 to January 1 of `year`.
const fn before_year(year: u64) -> u64 {
    const fn leaps_until(year: u64) -> u64 {
        year / 4 - year / 100 + year / 400
    }
    (year - 1970) * 365 + leaps_until(year - 1) - leaps_until(1969)
}

/// Days of `year` before `month`, 1 to 12.
fn before_month(year: u64, month: u64) -> u64 {
    let leap = u64::from(month > 2 && before_year(year + 1) - before_year(year) == 366);
    usize::try_from(month - 1).ok().and_then(|place| BEFORE.get(place)).copied().unwrap_or(0) + leap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_in_their_largest_whole_unit() {
        let shown = |nanos: Nanos| nanos.to_string();
        assert_eq!(shown(Nanos::ZERO), "0ns");
        assert_eq!(shown(Nanos::from_secs(90)), "90s");
        assert_eq!(shown(Nanos::HOUR), "1h");
        assert_eq!(shown(Nanos::from_millis(250)), "250ms");
        assert_eq!(shown(Nanos(1_001)), "1001ns");
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(StoreTime(5).since(StoreTime(9)), Nanos::ZERO);
        assert_eq!(StoreTime::NEVER + Nanos::DAY, StoreTime::NEVER);
        assert_eq!(StoreTime(5).sooner(Nanos(9)), StoreTime::START);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos(u64::MAX));
    }

    #[test]
    fn every_day_until_the_end_of_time_follows_the_day_before_and_is_read_back() {
        let last = u64::MAX / 1_000_000_000 / 86_400;
        let mut expected = Date { year: 1970, month: 1, day: 1 };
        for days in 0..=last {
            assert_eq!((Date::of_day(days), expected.days()), (expected, Some(days)));
            let Date { year, month, day } = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                4 | 6 | 9 | 11 => 30,
                2 => 28 + u64::from(leap),
                _ => 31,
            };
            expected = match (month, day == length) {
                (_, false) => Date { day: day + 1, ..expected },
                (12, true) => Date { year: year + 1, month: 1, day: 1 },
                (_, true) => Date { year, month: month + 1, day: 1 },
            };
        }
    }

    #[test]
    fn dates_that_are_in_no_calendar_are_none() {
        for (year, month, day) in [
            (2001, 2, 29),
            (2100, 2, 29),
            (2000, 2, 30),
            (2000, 0, 1),
            (2000, 13, 1),
            (2000, 4, 31),
            (2000, 1, 0),
            (2000, 12, 32),
            (1969, 12, 31),
            (0, 1, 1),
            (u64::MAX, 1, 1),
        ] {
            assert_eq!(Date { year, month, day }.days(), None, "{year}-{month}-{day}");
        }
    }
}
