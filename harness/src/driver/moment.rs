//! Times of senders: `2026-05-17T20:47:03.120Z` with any offset, or a number since 1970, down to nanoseconds; and the
//! offset of a sender's clock.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use hookproof_judge::check::exact::RequestedPause;
use hookproof_judge::scenario::SECOND;
use hookproof_judge::scenario::quantity::Day;
use hookproof_judge::trace::Offset;

/// The latest moment that a value can mean, in Unix nanoseconds: 20:47:03 may be 20:47:03.999999999.
pub(super) fn latest(told: &Value) -> Option<u64> {
    match told {
        Value::String(text) => of_number(text).or_else(|| of_date(text)),
        Value::Number(number) => of_number(&number.to_string()),
        _ => None,
    }
}

/// The unit puts it between the years 1973 and 5138.
fn of_number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty()
        || ![whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return None;
    }
    let number: u64 = whole.parse().ok()?;
    let unit = match number {
        0..100_000_000_000 => SECOND,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    number.checked_mul(unit)?.checked_add(latest_part(fraction, unit)?)
}

/// In nanoseconds.
fn latest_part(fraction: &str, unit: u64) -> Option<u64> {
    let digits: String = fraction.chars().chain("999999999".chars()).take(9).collect();
    let billionths: u64 = digits.parse().ok()?;
    u64::try_from(u128::from(billionths) * u128::from(unit) / u128::from(SECOND)).ok()
}

fn of_date(text: &str) -> Option<u64> {
    let (date, rest) = (text.get(..10)?, text.get(11..)?);
    let (clock, rest) = (rest.get(..8)?, rest.get(8..)?);
    let ends = rest.find(['Z', 'z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(ends);
    let fraction = if fraction.is_empty() { "" } else { fraction.strip_prefix('.')? };
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let three = |text: &str, mark: char| {
        let parts: Vec<u64> = text.split(mark).map(number).collect::<Option<_>>()?;
        <[u64; 3]>::try_from(parts).ok()
    };
    let ([year, month, day], [hour, minute, second]) = (three(date, '-')?, three(clock, ':')?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds = Day::of(year, month, day)?.0.checked_mul(86_400)?;
    let seconds =
        seconds.checked_add(hour * 3_600 + minute * 60 + second)?.checked_sub_signed(ahead(zone)?)?;
    seconds.checked_mul(SECOND)?.checked_add(latest_part(fraction, SECOND)?)
}

/// `Z`, `+02:00`, in seconds.
fn ahead(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// The sender wrote a `Date` of second `d` while its clock stood in `[d, d + 1 s)`, and between the beginning of the
/// call and its answer. So each answer bounds the offset on both sides, and the intersection of all bounds holds it. If
/// the clock was set meanwhile, the intersection is empty and there is no estimate.
#[derive(Debug, Default)]
pub(super) struct Offsets(Mutex<Option<Bounds>>);

#[derive(Clone, Copy, Debug)]
struct Bounds {
    least: i128,
    most: i128,
}

impl Offsets {
    /// `began` and `ended` of the call, in Unix nanoseconds.
    pub(super) fn record_date(&self, date: &str, began: u64, ended: u64) {
        let RequestedPause::Date(second) = RequestedPause::read(date) else { return };
        let date = i128::from(second) * i128::from(SECOND);
        let seen =
            Bounds { least: date - i128::from(ended), most: date + i128::from(SECOND) - i128::from(began) };
        let mut bounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *bounds = Some(bounds.map_or(seen, |known| Bounds {
            least: known.least.max(seen.least),
            most: known.most.min(seen.most),
        }));
    }

    /// The middle of the bounds; none without a `Date`, or if no offset fits all.
    pub(super) fn estimate(&self, t: u64) -> Option<Offset> {
        let bounds = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let width = bounds.most.checked_sub(bounds.least).filter(|width| *width >= 0)?;
        let middle = bounds.least + width / 2;
        Some(Offset { t, ns: i64::try_from(middle).ok()?, error: u64::try_from(width - width / 2).ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_in_each_form_as_late_as_it_can_mean() {
        // Computed with Python's datetime.
        for (told, expected) in [
            ("\"2026-05-17T20:47:03Z\"", Some(1_779_050_823_999_999_999)),
            ("\"2026-05-17T20:47:03.120Z\"", Some(1_779_050_823_120_999_999)),
            ("\"2026-05-17T22:47:03.120000000+02:00\"", Some(1_779_050_823_120_000_000)),
            ("\"2026-05-17 15:17:03-05:30\"", Some(1_779_050_823_999_999_999)),
            ("1779050823", Some(1_779_050_823_999_999_999)),
            ("\"1779050823\"", Some(1_779_050_823_999_999_999)),
            ("1779050823.5", Some(1_779_050_823_599_999_999)),
            ("1779050823120", Some(1_779_050_823_120_999_999)),
            ("1779050823120000", Some(1_779_050_823_120_000_999)),
            ("1779050823120000001", Some(1_779_050_823_120_000_001)),
            ("\"2024-02-29T00:00:00Z\"", Some(1_709_164_800_999_999_999)),
            ("\"2023-02-29T00:00:00Z\"", None),
            ("\"2026-05-17\"", None),
            ("\"yesterday\"", None),
            ("\"\"", None),
            ("-5", None),
            ("null", None),
        ] {
            assert_eq!(latest(&serde_json::from_str(told).unwrap()), expected, "{told}");
        }
    }

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const NEXT: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const UNIX_NS: u64 = 784_111_777 * SECOND;

    #[test]
    fn every_date_narrows_the_offset() {
        let offsets = Offsets::default();
        assert_eq!(offsets.estimate(9), None);
        // The sender shows a second that is already over here.
        offsets.record_date(DATE, UNIX_NS + 5 * SECOND, UNIX_NS + 5 * SECOND + 100);
        let one = offsets.estimate(9).unwrap();
        assert!(one.ns < 0 && one.error > SECOND / 2 - 1_000, "{one:?}");
        offsets.record_date(NEXT, UNIX_NS + 6 * SECOND, UNIX_NS + 6 * SECOND + 100);
        offsets.record_date(DATE, UNIX_NS + 6 * SECOND - 200, UNIX_NS + 6 * SECOND - 100);
        let close = offsets.estimate(9).unwrap();
        assert!(close.ns.abs_diff(-5_000_000_000) <= close.error && close.error < 1_000, "{close:?}");
    }

    #[test]
    fn a_clock_that_was_set_has_no_one_offset() {
        let offsets = Offsets::default();
        offsets.record_date(DATE, UNIX_NS, UNIX_NS + 100);
        offsets.record_date(DATE, UNIX_NS + 60 * SECOND, UNIX_NS + 60 * SECOND + 100);
        assert_eq!(offsets.estimate(9), None);
        offsets.record_date("tomorrow", 0, 1);
        assert_eq!(offsets.estimate(9), None);
    }
}
