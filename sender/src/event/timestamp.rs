//! Times in bodies: `2026-05-17T20:47:03.120Z` (RFC 3339, UTC, milliseconds).

use std::fmt;

use crate::engine::time::Date;
use crate::engine::time::StoreTime;

/// Exactly 24 characters, so that it sorts as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub StoreTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.0 / 1_000_000;
        let (days, millis) = (millis / 86_400_000, millis % 86_400_000);
        let Date { year, month, day } = Date::of_day(days);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1_000 % 60, millis % 1_000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

#[cfg(test)]
mod tests {
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
}
