//! Text with units, read into integers.
//!
//! The harness has its own parser, as it shares no code with the sender. Nothing is rounded: fractions are millionths,
//! durations nanoseconds, rates a count per duration.

use std::fmt;
use std::str::FromStr;

pub const SECOND: u64 = 1_000_000_000;

const LENGTHS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("min", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// In nanoseconds: `250ms`, `5s`, `24h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

impl Duration {
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * SECOND)
    }

    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        measure(text, &LENGTHS).map(Self)
    }
}

impl fmt::Display for Duration {
    /// In the largest unit without a fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, &LENGTHS, "s")
    }
}

/// A count per duration: `20/s`, `14000/min`, `100/10s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub count: u64,
    /// Never 0.
    pub per: Duration,
}

impl Rate {
    #[must_use]
    pub(super) fn is_faster(self, other: Self) -> bool {
        u128::from(self.count) * u128::from(other.per.0) > u128::from(other.count) * u128::from(self.per.0)
    }
}

/// In nanoseconds.
const PER_MAX: u64 = 86_400 * SECOND;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, per) = text.split_once('/').ok_or_else(|| no_unit(text, "\"20/s\""))?;
        if let Some((number, tenths)) = count.split_once('.')
            && let (Ok(number), Ok(tenth @ 0..=9)) = (whole(number), whole(tenths))
            && tenths.len() == 1
            && scale(per, &LENGTHS).is_ok_and(|unit| unit <= PER_MAX / 10)
        {
            let count = number.saturating_mul(10).saturating_add(tenth);
            return Err(format!("expected a whole count, found {number}.{tenth}; write {count}/10{per}"));
        }
        let count = whole(count)?;
        let per = if per.starts_with(|first: char| first.is_ascii_digit()) {
            measure(per, &LENGTHS)?
        } else {
            scale(per, &LENGTHS)?
        };
        if per == 0 {
            return Err("a rate needs a time above 0".to_owned());
        }
        Ok(Self { count, per: Duration(per) })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match LENGTHS.iter().find(|(_, length)| *length == self.per.0) {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{}/{}", self.count, self.per),
        }
    }
}

/// `60 per 1s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Never 0.
    pub count: u64,
    /// Never 0.
    pub length: Duration,
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, length) = text.split_once(" per ").ok_or_else(|| no_unit(text, "\"60 per 1s\""))?;
        let (count, length) = (whole(count)?, measure(length, &LENGTHS)?);
        if count == 0 || length == 0 {
            return Err("cap and window must be above 0".to_owned());
        }
        Ok(Self { count, length: Duration(length) })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {}", self.count, self.length)
    }
}

/// In bytes: `2KB` is 2,000, `64MiB` is 67,108,864.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        measure(text, &SIZES).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, &SIZES, "B")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range<T> {
    pub least: T,
    /// Never below `least`.
    pub most: T,
}

impl<T: Copy> Range<T> {
    #[must_use]
    pub const fn just(value: T) -> Self {
        Self { least: value, most: value }
    }
}

impl<T: FromStr<Err = String> + Ord + Copy> FromStr for Range<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((least, most)) = text.split_once("..") else { return text.parse().map(Self::just) };
        let (least, most) = (least.parse()?, most.parse()?);
        if most < least { Err("the end is below the beginning".to_owned()) } else { Ok(Self { least, most }) }
    }
}

impl<T: fmt::Display + PartialEq> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.least)
        } else {
            write!(f, "{}..{}", self.least, self.most)
        }
    }
}

/// A whole number, for ranges without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole(pub u64);

impl FromStr for Whole {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        whole(text).map(Self)
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A number with up to six decimals, in millionths, so that 0.98 is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millionths(pub u64);

impl Millionths {
    pub const ONE: Self = Self(1_000_000);

    /// For inexact arithmetic, such as a distribution's exponent.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "six decimals of a number that a person wrote fit into an f64"
    )]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl FromStr for Millionths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, decimals) = text.split_once('.').unwrap_or((text, ""));
        if decimals.len() > 6 {
            return Err("at most six decimals are allowed".to_owned());
        }
        let number = whole(number)?.checked_mul(1_000_000);
        let decimals = if decimals.is_empty() { 0 } else { whole(&format!("{decimals:0<6}"))? };
        let sum = number.and_then(|number| number.checked_add(decimals));
        sum.map(Self).ok_or_else(|| "too large".to_owned())
    }
}

impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % 1_000_000);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / 1_000_000),
            decimals => write!(f, "{}.{decimals}", self.0 / 1_000_000),
        }
    }
}

/// Days since 1970-01-01: `2027-01-01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u64);

pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Day {
    /// None outside of the calendar, and of the years 1970 to 9999.
    #[must_use]
    pub fn of(year: u64, month: u64, day: u64) -> Option<Self> {
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        // Years begin in March, so that the leap day comes last.
        let (since, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = since * 365 + since / 4 - since / 100 + since / 400 + (153 * shifted + 2) / 5 + day - 1;
        let found = Self(days - 719_468);
        // The day after the last one of a month is one of the next.
        (found.civil() == (year, month, day)).then_some(found)
    }

    /// Year, month, day.
    #[must_use]
    pub const fn civil(self) -> (u64, u64, u64) {
        const ERA_DAYS: u64 = 146_097;
        let days = self.0 + 719_468;
        let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
        (year, month, day)
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<u64>, _> = text.split('-').map(whole).collect();
        let dashes = text.match_indices('-').map(|(at, _)| at);
        let found = match parts.as_deref() {
            Ok([year, month, day]) if dashes.eq([4, 7]) && text.len() == 10 => Self::of(*year, *month, *day),
            _ => None,
        };
        found.ok_or_else(|| "expected a day such as \"2027-01-01\"".to_owned())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// `2026-01-31T12:00:00Z`.
#[must_use]
pub fn rfc3339(unix_seconds: u64) -> String {
    let (day, second) = (Day(unix_seconds / 86_400), unix_seconds % 86_400);
    format!("{day}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

fn measure(text: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if unit.starts_with('.') {
        return Err("only whole numbers are allowed; use a smaller unit".to_owned());
    }
    let number = whole(number)?;
    number.checked_mul(scale(unit, units)?).ok_or_else(|| "too large".to_owned())
}

fn scale(unit: &str, units: &[(&str, u64)]) -> Result<u64, String> {
    let known = || units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => Ok(*scale),
        None if unit.is_empty() => Err(format!("no unit; expected one of {}", known())),
        None => Err(format!("unknown unit {unit:?}; expected one of {}", known())),
    }
}

fn whole(text: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{text:?} is not a whole number"));
    }
    text.parse().map_err(|_| "too large".to_owned())
}

fn no_unit(text: &str, example: &str) -> String {
    format!("{text:?} has no unit; expected a form such as {example}")
}

fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], zero: &str) -> fmt::Result {
    let fits = units.iter().filter(|(_, scale)| value != 0 && value.is_multiple_of(*scale));
    match fits.max_by_key(|(_, scale)| *scale) {
        Some((unit, scale)) => write!(f, "{}{unit}", value / scale),
        None => write!(f, "0{zero}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: FromStr<Err = String> + fmt::Display + PartialEq + fmt::Debug>(
        text: &str,
        expected: Option<T>,
    ) {
        let read = text.parse::<T>();
        assert_eq!(read.as_ref().ok(), expected.as_ref(), "{text:?}: {read:?}");
        if let Some(value) = expected {
            assert_eq!(value.to_string().parse::<T>(), Ok(value), "what is printed reads back");
        }
    }

    #[test]
    fn lengths_of_time_need_their_unit() {
        check("250ms", Some(Duration::from_millis(250)));
        check("24h", Some(Duration::from_secs(86_400)));
        check("0s", Some(Duration(0)));
        for wrong in ["", "5", "5 s", "-5s", "1.5s", "5S", "s", "99999999999999h"] {
            check::<Duration>(wrong, None);
        }
    }

    #[test]
    fn rates_windows_and_sizes_are_read_as_written() {
        check("20/s", Some(Rate { count: 20, per: Duration(SECOND) }));
        check("100/10s", Some(Rate { count: 100, per: Duration(10 * SECOND) }));
        check("60 per 1s", Some(Window { count: 60, length: Duration(SECOND) }));
        check("64MiB", Some(Size(64 << 20)));
        for wrong in ["20", "20/", "/s", "20/0s", "20 /s"] {
            check::<Rate>(wrong, None);
        }
        check::<Window>("0 per 1s", None);
        let refused = |text: &str| text.parse::<Rate>().unwrap_err();
        assert_eq!(refused("5.2/s"), "expected a whole count, found 5.2; write 52/10s");
        assert!(!refused("5.2/d").contains("10d"), "a period has at most a day");
        assert_eq!(refused("5.02/s"), "\"5.02\" is not a whole number");
        check::<Size>("64", None);
    }

    #[test]
    fn ranges_hold_both_ends() {
        check(
            "20ms..80ms",
            Some(Range { least: Duration::from_millis(20), most: Duration::from_millis(80) }),
        );
        check("20ms", Some(Range::just(Duration::from_millis(20))));
        check("200..2000", Some(Range { least: Whole(200), most: Whole(2000) }));
        check::<Range<Duration>>("80ms..20ms", None);
    }

    #[test]
    fn decimals_are_exact_and_days_are_days() {
        check("0.98", Some(Millionths(980_000)));
        check("1", Some(Millionths::ONE));
        check::<Millionths>("0.1234567", None);
        check::<Millionths>("-1", None);
        for (text, day) in
            [("1970-01-01", 0), ("2000-02-29", 11_016), ("2000-03-01", 11_017), ("2027-01-01", 20_819)]
        {
            check(text, Some(Day(day)));
        }
        for wrong in [
            "2027-02-29",
            "2100-02-29",
            "2027-04-31",
            "2027-00-01",
            "2027-01-00",
            "2027-1-01",
            "02027-1-01",
            "2027-1",
            "1969-12-31",
        ] {
            check::<Day>(wrong, None);
        }
        assert_eq!(rfc3339(1_674_087_231), "2023-01-19T00:13:51Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
