//! Moments of a recording: seconds since any beginning, times since 1970 in several units, ISO 8601, and the time of an
//! access log. Pure.

use hookproof_judge::scenario::SECOND;
use hookproof_judge::scenario::quantity::{Day, MONTHS};

/// The units of a number, by its least whole part: the numbers of all moments from 1973 to 5138 are apart.
const UNITS: [(u64, u64); 3] =
    [(100_000_000_000_000_000, 1), (100_000_000_000_000, 1_000), (100_000_000_000, 1_000_000)];

/// Nanoseconds, since 1970 or since the beginning that the numbers count from.
pub(super) fn moment(text: &str) -> Result<u64, String> {
    number(text).or_else(|| iso(text)).or_else(|| access(text)).ok_or_else(|| {
        format!(
            "time is {text:?}; expected ISO 8601 such as 2026-11-27T20:00:00.5Z, or seconds, milliseconds, \
             microseconds or nanoseconds"
        )
    })
}

/// Seconds below 10^11; milliseconds, microseconds or nanoseconds above. All with up to nine decimals.
fn number(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let whole = digits(whole, 20)?;
    let unit = UNITS.iter().find(|(least, _)| whole >= *least).map_or(SECOND, |(_, unit)| *unit);
    whole.checked_mul(unit)?.checked_add(fraction(decimals, unit)?)
}

/// `2026-11-27T20:00:00.5+01:00`; a space may stand for `T`, and a moment without a zone is in UTC.
fn iso(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-').map(|part| digits(part, 4));
    let day = Day::of(parts.next()??, parts.next()??, parts.next()??)?;
    let time = time.trim_end();
    let (time, zone) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => (time, "Z"),
    };
    at(day, time.trim_end(), zone)
}

/// `27/Nov/2026:20:00:00 +0000`.
fn access(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(':')?;
    let mut parts = date.splitn(3, '/');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().zip(1..).find(|(name, _)| **name == month)?.1;
    let (time, zone) = time.split_once(' ')?;
    at(Day::of(digits(year, 4)?, month, digits(day, 2)?)?, time, zone)
}

/// The moment of a day at `20:00:00.5` in a zone: `Z`, `+01:00`, `-0700` or `+01`.
fn at(day: Day, time: &str, zone: &str) -> Option<u64> {
    let mut parts = time.splitn(3, ':');
    let (hours, minutes) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let seconds = parts.next().unwrap_or("0");
    let (seconds, decimals) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
    let seconds = digits(seconds, 2)?;
    if hours > 23 || minutes > 59 || seconds > 60 {
        return None;
    }
    let local = day.0.checked_mul(86_400)?.checked_add(hours * 3_600 + minutes * 60 + seconds)?;
    let seconds = if zone.eq_ignore_ascii_case("z") {
        local
    } else {
        let (sign, ahead) = zone.split_at_checked(1)?;
        let (hours, minutes) = ahead.split_at_checked(2)?;
        let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
        let (hours, minutes) = (digits(hours, 2)?, if minutes.is_empty() { 0 } else { digits(minutes, 2)? });
        if hours > 23 || minutes > 59 {
            return None;
        }
        let ahead = hours * 3_600 + minutes * 60;
        match sign {
            "+" => local.checked_sub(ahead)?,
            "-" => local.checked_add(ahead)?,
            _ => return None,
        }
    };
    seconds.checked_mul(SECOND)?.checked_add(fraction(decimals, SECOND)?)
}

/// Decimals of a unit, in whole nanoseconds.
fn fraction(decimals: &str, unit: u64) -> Option<u64> {
    if decimals.is_empty() {
        return Some(0);
    }
    if !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A nanosecond is the shortest time.
    let decimals = &decimals[..decimals.len().min(9)];
    let parts = digits(decimals, 9)?;
    let scale = 10_u64.pow(u32::try_from(decimals.len()).ok()?);
    u64::try_from(u128::from(parts) * u128::from(unit) / u128::from(scale)).ok()
}

/// `parse` would accept a sign.
fn digits(text: &str, most: usize) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_reads_alike_in_every_form() {
        // 2023-11-14 22:13:20 UTC.
        let nanos = 1_700_000_000_500_000_000;
        for text in [
            "1700000000.5",
            "1700000000500",
            "1700000000500.0",
            "1700000000500000",
            "1700000000500000000",
            "2023-11-14T22:13:20.5Z",
            "2023-11-14 22:13:20.500000",
            "2023-11-14T23:13:20.5+01:00",
            "2023-11-14T15:13:20,5-0700",
            "2023-11-14T23:13:20.5+01",
        ] {
            assert_eq!(moment(text), Ok(nanos), "{text}");
        }
        assert_eq!(moment("14/Nov/2023:22:13:20 +0000"), Ok(nanos - SECOND / 2));
    }

    #[test]
    fn seconds_may_count_from_any_beginning() {
        assert_eq!(moment("12.5"), Ok(12 * SECOND + SECOND / 2));
        assert_eq!(moment("0"), Ok(0));
        assert_eq!(moment("0.123456789"), Ok(123_456_789));
        assert_eq!(moment("0.12345678999"), Ok(123_456_789));
    }

    #[test]
    fn leap_days_and_ends_of_years_are_days() {
        let rows = [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2024-03-01T00:00:00Z", 1_709_251_200),
            ("2026-12-31T23:59:59Z", 1_798_761_599),
        ];
        for (text, seconds) in rows {
            assert_eq!(moment(text), Ok(seconds * SECOND), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_moment_is_refused_with_the_right_ones() {
        for text in [
            "",
            "x",
            "-1",
            "+1",
            "1.12x4567890",
            "2023-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2023-11-14T00:00:00+1:23",
            "2023-11-14T00:00:00+24:00",
            "2023-11-14",
            "99999999999999999999",
        ] {
            let told = moment(text).unwrap_err();
            assert!(told.contains("expected ISO 8601") && told.contains(&format!("{text:?}")), "{told}");
        }
    }
}
