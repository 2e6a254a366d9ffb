//! The Gregorian calendar in days since 1970-01-01.

/// Days before each month of a common year.
const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// A date from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// From 1970 on.
    pub year: u64,
    /// 1 to 12.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
}

impl Date {
    /// The date that is `days` days after 1970-01-01.
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
