//! The exit codes that scripts rely on.

use std::process::ExitCode;

use super::out::say;
use crate::check::Status;

/// A regression against a baseline.
pub(super) const REGRESSION: u8 = 3;
/// The sender could not be started or reached, or died.
pub(super) const UNREACHABLE: u8 = 4;
/// A bad command line, scenario or trace.
pub(super) const USAGE: u8 = 64;
/// The harness itself failed.
pub(super) const HARNESS: u8 = 70;

/// What a verdict says to a script.
pub(super) const fn code(status: Status) -> u8 {
    match status {
        Status::Pass | Status::Warn | Status::NotApplicable => 0,
        Status::Fail => 1,
        Status::Inconclusive => 2,
        Status::HarnessError => HARNESS,
    }
}

/// The worse of two: a failure before anything that says less.
pub(super) fn worse(one: u8, other: u8) -> u8 {
    const ORDER: [u8; 7] = [0, 2, REGRESSION, UNREACHABLE, 1, USAGE, HARNESS];
    let place = |code: u8| ORDER.iter().position(|known| *known == code).unwrap_or(ORDER.len());
    if place(other) > place(one) { other } else { one }
}

/// Says what went wrong, and how to go on, on stderr.
pub(super) fn refuse(command: &str, what: impl std::fmt::Display, code: u8) -> ExitCode {
    say(format_args!("hookproof {command}: {what}"));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_failed_shows_in_the_exit_code_whatever_came_of_the_sender() {
        let rows =
            [(0, 4, 4), (1, 4, 1), (4, 1, 1), (2, 4, 4), (4, 64, 64), (70, 4, 70), (3, 2, 3), (1, 64, 64)];
        for (one, other, expected) in rows {
            assert_eq!(worse(one, other), expected, "{one} and {other}");
        }
    }
}
