//! All exit codes, on which scripts rely, and their order of importance.

use crate::catalogue::Verdict;

/// A check or a case failed, an objective does not hold, or an expected failure did not happen.
pub const FAILED: u8 = 1;
pub const INCONCLUSIVE: u8 = 2;
pub const REGRESSION: u8 = 3;
/// The program under test could not be started or reached, or died.
pub const UNREACHABLE: u8 = 4;
pub const USAGE: u8 = 64;
/// The harness itself failed, or can't do the requested work.
pub const HARNESS: u8 = 70;
/// A user ended the run; the report covers the time until then.
pub const INTERRUPTED: u8 = 130;

#[must_use]
pub const fn code(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Pass | Verdict::Warn | Verdict::NotApplicable => 0,
        Verdict::Fail => FAILED,
        Verdict::Inconclusive => INCONCLUSIVE,
        Verdict::HarnessError => HARNESS,
    }
}

/// The worse of two: a failure before every code that says less, and an interruption before all, since it
/// explains the rest.
#[must_use]
pub fn worse(one: u8, other: u8) -> u8 {
    const ORDER: [u8; 8] = [0, INCONCLUSIVE, REGRESSION, UNREACHABLE, FAILED, USAGE, HARNESS, INTERRUPTED];
    let place = |code: u8| ORDER.iter().position(|known| *known == code).unwrap_or(ORDER.len());
    if place(other) > place(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_failed_shows_in_the_exit_code_whatever_came_of_the_sender() {
        let rows = [
            (0, 4, 4),
            (1, 4, 1),
            (4, 1, 1),
            (2, 4, 4),
            (4, 64, 64),
            (70, 4, 70),
            (3, 2, 3),
            (1, 64, 64),
            (1, 130, 130),
        ];
        for (one, other, expected) in rows {
            assert_eq!(worse(one, other), expected, "{one} and {other}");
        }
    }
}
