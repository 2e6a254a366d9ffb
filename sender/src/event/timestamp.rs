//! The moment of an event as its body says it: `2026-05-17T20:47:03.120Z` (RFC 3339, UTC, milliseconds).

use std::fmt;

use crate::engine::time::WallTime;

/// Prints a moment in exactly 24 characters, so that it also sorts as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub WallTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.0 / 1_000_000;
        let (days, millis) = (millis / 86_400_000, millis % 86_400_000);
        let (year, month, day) = date(days);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1_000 % 60, millis % 1_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

/// The Gregorian date of a number of days since 1970-01-01.
fn date(days: u64) -> (u64, usize, u64) {
    /// Days before each month of a year that is no leap year.
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    // 400 years have 146,097 days. The guess is never too small, and at most one too large.
    let guess = 1970 + (days * 400 + 591) / 146_097;
    let year = if before_year(guess) > days { guess - 1 } else { guess };
    let in_year = days - before_year(year);
    let leap = u64::from(before_year(year + 1) - before_year(year) == 366);
    let before = |month: usize| BEFORE[month] + if month >= 2 { leap } else { 0 };
    let month = (0..12).rev().find(|month| before(*month) <= in_year).unwrap_or(0);
    (year, month + 1, in_year - before(month) + 1)
}

/// Days from 1970-01-01 to the first of January of a year.
fn before_year(year: u64) -> u64 {
    let leaps_until = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps_until(year - 1) - leaps_until(1969)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_print_as_known_dates() {
        // Computed apart, with Python's datetime.
        let rows = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_674_087_231_007, "2023-01-19T00:13:51.007Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (1_735_689_600_000, "2025-01-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (u64::MAX / 1_000_000, "2554-07-21T23:34:33.709Z"),
        ];
        for (millis, expected) in rows {
            assert_eq!(Timestamp(WallTime(millis * 1_000_000)).to_string(), expected);
        }
    }

    #[test]
    fn every_day_until_the_end_of_time_follows_the_day_before() {
        let last = u64::MAX / 1_000_000_000 / 86_400;
        let mut expected = (1970, 1, 1);
        for day in 0..=last {
            assert_eq!(date(day), expected, "day {day}");
            let (year, month, of_month) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                4 | 6 | 9 | 11 => 30,
                2 => 28 + u64::from(leap),
                _ => 31,
            };
            expected = match (month, of_month == length) {
                (_, false) => (year, month, of_month + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
        }
    }
}
