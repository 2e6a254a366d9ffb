//! Limits the log: the same failure of the store is logged once a minute.

use crate::StoreError;
use crate::engine::{Nanos, StoreTime};

/// A failure is not logged again for this long.
const SILENCE: Nanos = Nanos(60 * Nanos::SECOND.0);
/// With more kinds of failure at once, the one logged longest ago is forgotten.
const KINDS_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: Vec<Said>,
}

#[derive(Debug)]
struct Said {
    error: StoreError,
    at: StoreTime,
    unsaid: u64,
}

impl Complaints {
    /// Whether to log the failure. If so, returns how often it occurred since it was last logged.
    pub(super) fn hear(&mut self, now: StoreTime, error: &StoreError) -> Option<u64> {
        if let Some(known) = self.said.iter_mut().find(|said| said.error == *error) {
            // A clock that was set back must end the silence, not prolong it.
            if known.at <= now && now.0 - known.at.0 < SILENCE.0 {
                known.unsaid += 1;
                return None;
            }
            known.at = now;
            return Some(std::mem::take(&mut known.unsaid));
        }
        if self.said.len() == KINDS_MAX
            && let Some((oldest, _)) = self.said.iter().enumerate().min_by_key(|(_, said)| said.at)
        {
            self.said.swap_remove(oldest);
        }
        self.said.push(Said { error: error.clone(), at: now, unsaid: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(detail: &str) -> StoreError {
        StoreError::Broken { doing: "read", detail: detail.into() }
    }

    #[track_caller]
    fn check(complaints: &mut Complaints, second: u64, what: &str, expected: Option<u64>) {
        let now = StoreTime(second * Nanos::SECOND.0);
        assert_eq!(complaints.hear(now, &error(what)), expected, "{what} at {second} s");
    }

    #[test]
    fn a_failure_is_said_once_a_minute_with_how_often_it_came() {
        let mut complaints = Complaints::default();
        check(&mut complaints, 100, "page 1", Some(0));
        check(&mut complaints, 101, "page 1", None);
        check(&mut complaints, 159, "page 1", None);
        check(&mut complaints, 160, "page 1", Some(2));
        check(&mut complaints, 161, "page 1", None);
    }

    #[test]
    fn failures_of_several_kinds_by_turns_are_said_once_each() {
        let mut complaints = Complaints::default();
        let said = (0..100).flat_map(|_| ["page 1", "page 2", "page 3"]).filter(|what| {
            let now = StoreTime(100 * Nanos::SECOND.0);
            complaints.hear(now, &error(what)).is_some()
        });
        assert_eq!(said.count(), 3);
    }

    #[test]
    fn a_clock_that_was_set_back_silences_nothing() {
        let mut complaints = Complaints::default();
        check(&mut complaints, 7_200, "page 1", Some(0));
        check(&mut complaints, 3_600, "page 1", Some(0));
        check(&mut complaints, 3_601, "page 1", None);
    }

    #[test]
    fn no_more_kinds_are_remembered_than_stated() {
        let mut complaints = Complaints::default();
        for (second, kind) in (100..).zip(0..1_000) {
            check(&mut complaints, second, &kind.to_string(), Some(0));
            assert!(complaints.said.len() <= KINDS_MAX);
        }
        check(&mut complaints, 1_100, "999", None);
        check(&mut complaints, 1_100, "0", Some(0));
    }
}
