//! Exit codes of commands, and their error messages.

use std::process::ExitCode;

use super::out::say;
pub(super) use hookproof_judge::exit::*;
use hookproof_judge::trace::Ended;

/// Prints an error with its remedy to stderr.
pub(super) fn refuse(command: &str, what: impl std::fmt::Display, code: u8) -> ExitCode {
    say(format_args!("hookproof {command}: {what}"));
    ExitCode::from(code)
}

/// The exit code of a judged run. An interrupted run proves nothing, even with a pass; a sender that was gone
/// outweighs a pass. The verdict of a trace without an end accounts for that itself.
pub(super) fn of_run(verdict: u8, ended: Option<Ended>) -> u8 {
    match ended {
        Some(Ended::Interrupted) => worse(verdict, INCONCLUSIVE),
        Some(Ended::SenderGone) => worse(verdict, UNREACHABLE),
        Some(Ended::Done) | None => verdict,
    }
}
