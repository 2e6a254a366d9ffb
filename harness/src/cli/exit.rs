//! How a command ends: with a code that scripts rely on, and with a word where it refuses.

use std::process::ExitCode;

use super::out::say;
pub(super) use crate::exit::*;

/// Says what went wrong, and how to go on, on stderr.
pub(super) fn refuse(command: &str, what: impl std::fmt::Display, code: u8) -> ExitCode {
    say(format_args!("hookproof {command}: {what}"));
    ExitCode::from(code)
}
