//! Times in requests and answers: `2026-05-17T20:47:03.120Z`, or seconds since 1970.

use serde_json::Value;

use crate::engine::StoreTime;
use crate::engine::calendar::Date;

pub(super) fn shown(at: StoreTime) -> Value {
    Value::String(crate::operate::shown::moment(at))
}

pub(super) const FORM: &str = "a moment such as 2026-05-17T20:47:03Z, or whole seconds since 1970";

pub(super) fn read(text: &str) -> Option<StoreTime> {
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

    use crate::event::timestamp::Timestamp;

    use super::*;

    #[test]
    fn moments_are_read_in_both_forms() {
        // Expected values from Python's datetime.
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
            assert_eq!(read(text), millis.map(|millis| StoreTime(millis * 1_000_000)), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_an_answer_says_is_read_as_the_same_moment(millis in 0..16_725_225_600_000_u64) {
            let at = StoreTime(millis * 1_000_000);
            prop_assert_eq!(read(&Timestamp(at).to_string()), Some(at));
        }

        #[test]
        fn no_text_is_too_strange(text: String) {
            let _ = read(&text);
        }
    }
}
