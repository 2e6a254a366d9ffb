//! The meaning of outcomes and `Retry-After` for each part of a lane.

use super::breaker::{Cause, Health};
use super::limiter::End;
use super::message::{Answer, Outcome};
use super::pressure::Strain;
use super::retry::Meaning;
use super::time::Date;
use super::time::{Nanos, StoreTime};

pub(super) struct Reading {
    pub(super) meaning: Meaning,
    pub(super) health: Health,
    pub(super) strain: Strain,
    pub(super) pause: Option<Nanos>,
}

impl Reading {
    pub(super) fn of(outcome: &Outcome, retry_after_cap: Nanos) -> Self {
        let answer = match outcome {
            Outcome::Answered(answer) => answer,
            Outcome::Unsent | Outcome::ProxyFailed | Outcome::Withheld | Outcome::Unpermitted(_) => {
                return Self::unanswered(Cause::Unsent);
            }
            Outcome::Silent | Outcome::CutOff => return Self::unanswered(Cause::Silent),
        };
        let meaning = Meaning::of(answer.status);
        let pause = requested_pause(answer, retry_after_cap);
        let health = match meaning {
            Meaning::Success => Health::Well,
            Meaning::Failure if pause.is_some() => Health::Busy,
            Meaning::Gone | Meaning::Failure => Health::Ill(Cause::Answered(answer.status)),
        };
        let strain = match meaning {
            Meaning::Success => Strain::None,
            Meaning::Failure if answer.status == 429 => Strain::Refused,
            Meaning::Gone | Meaning::Failure => Strain::Failed,
        };
        Self { meaning, health, strain, pause }
    }

    fn unanswered(cause: Cause) -> Self {
        Self { meaning: Meaning::Failure, health: Health::Ill(cause), strain: Strain::Failed, pause: None }
    }
}

impl Outcome {
    /// True if a failure's `Retry-After` takes the place of the backoff.
    pub(crate) fn asks_to_wait(&self) -> bool {
        matches!(self, Self::Answered(answer) if requested_pause(answer, Nanos::DAY).is_some())
    }
}

impl From<&Outcome> for End {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Answered(_) => Self::Answered,
            Outcome::Unsent | Outcome::ProxyFailed | Outcome::Withheld => Self::Unsent,
            Outcome::Unpermitted(_) => Self::Unpermitted,
            Outcome::Silent => Self::Silent,
            Outcome::CutOff => Self::CutOff,
        }
    }
}

/// Only `Retry-After` on 429 and 503 counts. A value of 0 leaves the delay to the backoff.
fn requested_pause(answer: &Answer, cap: Nanos) -> Option<Nanos> {
    if !matches!(answer.status, 429 | 503) {
        return None;
    }
    let value = answer.retry_after.as_deref()?;
    retry_after(value, answer.date.as_deref(), answer.at, cap).filter(|&pause| pause > Nanos::ZERO)
}

/// The requested pause after `now`, at most `cap`. Nothing if the value is neither a number of seconds nor a
/// date.
///
/// A date is read by the endpoint's clock if the answer carries a `Date`. That clock counts in whole seconds and is
/// taken at its earliest: the pause is up to a second late, never early.
fn retry_after(value: &[u8], date: Option<&[u8]>, now: StoreTime, cap: Nanos) -> Option<Nanos> {
    let value = value.trim_ascii();
    let asked = match seconds(value) {
        Some(length) => length,
        None => {
            let then = http_date(value, now)?;
            let now = date.and_then(|date| http_date(date.trim_ascii(), now)).unwrap_or(now);
            then.since(now)
        }
    };
    Some(asked.min(cap))
}

/// Digits only. An overflow counts as the longest time.
fn seconds(value: &[u8]) -> Option<Nanos> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let secs = value
        .iter()
        .fold(0_u64, |secs, digit| secs.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(Nanos::from_secs(secs))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const DATE_LENGTH_MAX: usize = 40;

/// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`. The
/// century of the second form makes the year at most 50 years after `now`.
fn http_date(text: &[u8], now: StoreTime) -> Option<StoreTime> {
    if text.len() > DATE_LENGTH_MAX {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (year, month, day, time) = match words[..] {
        [weekday, day, month, year, time, "GMT"] => {
            is_weekday(weekday.strip_suffix(',')?, 3).then_some(())?;
            (number(year, 4)?, month, number(day, 2)?, time)
        }
        [weekday, date, time, "GMT"] => {
            is_weekday(weekday.strip_suffix(',')?, usize::MAX).then_some(())?;
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            parts.next().is_none().then_some(())?;
            (century(number(year, 2)?, now), month, number(day, 2)?, time)
        }
        [weekday, month, day, time, year] => {
            is_weekday(weekday, 3).then_some(())?;
            (number(year, 4)?, month, number(day, day.len().min(2))?, time)
        }
        _ => return None,
    };
    let month = 1 + u64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()?;
    let days = Date { year, month, day }.days()?;
    Some(StoreTime::from_secs(days * 86_400 + seconds_of_day(time)?))
}

fn is_weekday(word: &str, length: usize) -> bool {
    DAYS.iter().any(|day| day[..length.min(day.len())] == *word)
}

fn number(text: &str, length: usize) -> Option<u64> {
    let digits = text.len() == length && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn century(year: u64, now: StoreTime) -> u64 {
    let this_year = Date::of_day(now.0 / Nanos::DAY.0).year;
    let year = this_year / 100 * 100 + year;
    if year > this_year + 50 { year - 100 } else { year }
}

fn seconds_of_day(time: &str) -> Option<u64> {
    let mut parts = time.split(':');
    let (hour, minute, second) =
        (number(parts.next()?, 2)?, number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    // Second 60 is a leap second.
    let fits = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    fits.then_some(hour * 3_600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: Nanos = Nanos::DAY;
    /// 1994-11-06 08:49:30.5
    const NOW: StoreTime = StoreTime(784_111_770_500_000_000);

    fn pause(value: &str) -> Option<Nanos> {
        retry_after(value.as_bytes(), None, NOW, CAP)
    }

    #[test]
    fn seconds_and_all_three_dates_are_understood() {
        let rows = [
            ("0", Nanos::ZERO),
            ("120", Nanos::from_secs(120)),
            (" 7 ", Nanos::from_secs(7)),
            ("007", Nanos::from_secs(7)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Nanos::from_millis(6_500)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Nanos::from_millis(6_500)),
            ("Sun Nov  6 08:49:37 1994", Nanos::from_millis(6_500)),
            ("Sun Nov 16 08:49:37 1994", CAP),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Nanos::ZERO),
        ];
        for (value, expected) in rows {
            assert_eq!(pause(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn hostile_values_are_capped_or_ignored() {
        let digits = "9".repeat(10_000);
        for huge in ["100000000000000000000", "18446744073709551616", &digits] {
            assert_eq!(pause(huge), Some(CAP), "{}", &huge[..20]);
        }
        let rows = [
            "",
            " ",
            "inf",
            "nan",
            "NaN",
            "-5",
            "+5",
            "1e300",
            "5.5",
            "0x10",
            "5s",
            "٣",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Foo, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sunday, 06-Nov-94-1 08:49:37 GMT",
            "Sun Nov 006 08:49:37 1994",
        ];
        for value in rows {
            assert_eq!(pause(value), None, "{value}");
        }
    }

    #[test]
    fn a_date_is_read_by_the_clock_of_the_endpoint() {
        let then = b"Sun, 06 Nov 1994 10:00:05 GMT";
        let theirs: &[u8] = b"Sun, 06 Nov 1994 10:00:00 GMT";
        assert_eq!(retry_after(then, Some(theirs), NOW, CAP), Some(Nanos::from_secs(5)));
        let broken: &[u8] = b"yesterday";
        let by_ours = retry_after(then, None, NOW, CAP);
        assert_eq!(retry_after(then, Some(broken), NOW, CAP), by_ours);
        assert!(by_ours > Some(Nanos::from_secs(4_000)));
    }

    #[test]
    fn two_digits_of_a_year_mean_the_nearest_that_is_not_fifty_years_away() {
        let year = |text: &str| http_date(text.as_bytes(), StoreTime::from_secs(1_800_000_000));
        assert_eq!(year("Friday, 15-Jan-27 08:00:00 GMT"), Some(StoreTime::from_secs(1_800_000_000)));
        assert!(year("Friday, 15-Jan-76 08:00:00 GMT") > year("Friday, 15-Jan-27 08:00:00 GMT"));
        assert!(year("Friday, 15-Jan-94 08:00:00 GMT") < year("Friday, 15-Jan-27 08:00:00 GMT"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_or_pass_the_cap(value: Vec<u8>, date: Option<Vec<u8>>, now: u64, cap: u64) {
            let asked = retry_after(&value, date.as_deref(), StoreTime(now), Nanos(cap));
            prop_assert!(asked.is_none_or(|asked| asked.0 <= cap));
        }

        #[test]
        fn no_text_like_a_date_panics(text in "(Sun|Sunday),? ?[0-9]{1,2}[- ](Nov|Feb)[- ][0-9]{2,4} [0-9:]{5,8}( GMT)?") {
            let _ = http_date(text.as_bytes(), NOW);
        }
    }
}
