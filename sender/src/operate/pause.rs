//! An operator's pause: its reason and its end.

use super::json_forms::moment;
use crate::engine::{Nanos, StoreTime};
use crate::excerpt::{Excerpt, is_hidden};
use crate::store::lane::Pause;

const REASON_BYTES_MAX: usize = 200;
const LENGTH_MIN: Nanos = Nanos::SECOND;
pub(crate) const LENGTH_MAX: Nanos = Nanos::DAY.times(365);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    ByOperator,
    After(Nanos),
    At(StoreTime),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    pub(crate) field: &'static str,
    /// Begins with the field.
    pub(crate) problem: String,
}

/// `wall`: the present time by the wall clock.
pub(crate) fn pause(reason: Option<&str>, end: End, wall: StoreTime) -> Result<Pause, Unfit> {
    let is_fit = |reason: &str| {
        (1..=REASON_BYTES_MAX).contains(&reason.len())
            && reason.trim() == reason
            && !reason.contains(is_hidden)
    };
    if let Some(reason) = reason.filter(|reason| !is_fit(reason)) {
        let shown = Excerpt::of(reason);
        let problem = format!(
            "reason is {shown}; expected 1 to {REASON_BYTES_MAX} bytes of visible text without spaces around it"
        );
        return Err(Unfit { field: "reason", problem });
    }
    let (field, length) = match end {
        End::ByOperator => ("for", None),
        End::After(length) => ("for", Some(length)),
        End::At(until) => ("until", Some(until.since(wall))),
    };
    if length.is_some_and(|length| !(LENGTH_MIN..=LENGTH_MAX).contains(&length)) {
        let problem = match end {
            End::At(until) => {
                format!("until is {}; expected {LENGTH_MIN} to {LENGTH_MAX} from now", moment(until))
            }
            _ => format!("for is {}; expected {LENGTH_MIN} to {LENGTH_MAX}", length.unwrap_or_default()),
        };
        return Err(Unfit { field, problem });
    }
    Ok(Pause { reason: reason.map(Into::into), until: length.map(|length| wall + length) })
}

/// ` (its reason) until its end`, as far as they are known.
pub(crate) fn in_words(pause: &Pause) -> String {
    let reason = pause.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let until = pause.until.map_or_else(String::new, |until| format!(" until {}", moment(until)));
    reason + &until
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);

    #[track_caller]
    fn check(reason: &str, end: End, expected: Result<&str, &str>) {
        let found = pause(Some(reason), end, NOW).map(|pause| in_words(&pause));
        let found = found.map_err(|unfit| unfit.field);
        assert_eq!(found, expected.map(ToOwned::to_owned), "{reason:?} {end:?}");
    }

    #[test]
    fn a_reason_is_one_visible_line_and_an_end_is_within_a_year() {
        let longest = "x".repeat(REASON_BYTES_MAX);
        check(&longest, End::ByOperator, Ok(&format!(" ({longest})")));
        for reason in ["", " a", "a ", "a\nb", "a\u{202e}b", &(longest + "x")] {
            check(reason, End::ByOperator, Err("reason"));
        }
        let hour_later = " (move) until 2027-01-15T09:00:00.000Z";
        check("move", End::After(Nanos::HOUR), Ok(hour_later));
        check("move", End::At(NOW + Nanos::HOUR), Ok(hour_later));
        for length in [Nanos::ZERO, Nanos(LENGTH_MIN.0 - 1), Nanos(LENGTH_MAX.0 + 1)] {
            check("move", End::After(length), Err("for"));
            check("move", End::At(NOW + length), Err("until"));
        }
        check("move", End::At(StoreTime(0)), Err("until"));
    }
}
