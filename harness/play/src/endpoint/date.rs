use std::cell::RefCell;

thread_local! {
    /// The latest date, which the next answer usually repeats.
    static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// Formats seconds since 1970 as an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn http_date(unix_seconds: u64) -> String {
    LAST.with_borrow_mut(|last| {
        if last.0 != unix_seconds {
            *last = (unix_seconds, written(unix_seconds));
        }
        last.1.clone()
    })
}

fn written(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    let weekday = usize::try_from(days % 7).unwrap_or_default();
    let month = usize::try_from(month - 1).unwrap_or_default();
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{}, {day:02} {} {year:04} {hour:02}:{minute:02}:{second:02} GMT", DAYS[weekday], MONTHS[month])
}

/// Year, month and day of a day since 1970. Counts from 1 March of the year 0, so that leap days come last.
pub const fn civil(days: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_standard_writes_them() {
        for (seconds, expected) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(seconds), expected);
        }
    }
}
