//! Times in bodies: `2026-05-17T20:47:03.120Z` (RFC 3339, UTC, milliseconds). Input may also be seconds since 1970.

use std::fmt;

use crate::engine::time::Date;
use crate::engine::time::StoreTime;

/// Exactly 24 characters, so that it sorts as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub StoreTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(crate) const TIME_FORM: &str = "a moment such as 2026-05-17T20:47:03Z, or whole seconds since 1970";

pub(crate) fn parse_time(text: &str) -> Option<StoreTime> {
    /// The year 2554, the range of [`StoreTime`].
    const SECS_MAX: u64 = 18_446_744_073;
    let secs = text.parse().ok().filter(|_| !text.starts_with('+')).filter(|secs| *secs <= SECS_MAX);
    secs.map(StoreTime::from_secs).or_else(|| read_date(text))
}

fn read_date(text: &str) -> Option<StoreTime> {
    let text = text.strip_suffix('Z')?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() != 19 || fraction.len() > 9 || !text.is_ascii() {
        return None;
    }
    let number = |from: usize, until: usize| {
        let digits = &whole[from..until];
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| whole.as_bytes()[*at] != *mark) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 || !(1970..=2500).contains(&year) {
        return None;
    }
    let days = Date { year, month, day }.days()?;
    let nanos = if fraction.is_empty() { Some(0) } else { format!("{fraction:0<9}").parse().ok() };
    let nanos: u64 = nanos.filter(|_| fraction.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(StoreTime(StoreTime::from_secs(days * 86_400 + hour * 3_600 + minute * 60 + second).0 + nanos))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moments_print_as_known_dates() {
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
            assert_eq!(Timestamp(StoreTime(millis * 1_000_000)).to_string(), expected);
        }
    }

    #[test]
    fn moments_are_read_in_both_forms() {
        let rows = [
            ("0", Some(0)),
            ("1674087231", Some(1_674_087_231_000)),
            ("2023-01-19T00:13:51Z", Some(1_674_087_231_000)),
            ("2000-02-29T00:00:00.5Z", Some(951_782_400_500)),
            ("2001-02-29T00:00:00Z", None),
            ("2023-01-19T24:00:00Z", None),
            ("2023-01-19 00:13:51Z", None),
            ("2023-01-19T00:13:51", None),
            ("2023-01-19T00:13:51.Z", Some(1_674_087_231_000)),
            ("2023-13-19T00:13:51Z", None),
            ("99999999999999999999", None),
            ("+5", None),
            ("-5", None),
            ("", None),
            ("1234-+1-19T00:13:51Z", None),
            ("öööööööööZ", None),
        ];
        for (text, millis) in rows {
            assert_eq!(parse_time(text), millis.map(|millis| StoreTime(millis * 1_000_000)), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_moment_of_an_answer_reads_back_as_the_same(millis in 0..16_725_225_600_000_u64) {
            let at = StoreTime(millis * 1_000_000);
            prop_assert_eq!(parse_time(&Timestamp(at).to_string()), Some(at));
        }

        #[test]
        fn no_text_is_too_strange(text: String) {
            let _ = parse_time(&text);
        }
    }
}
