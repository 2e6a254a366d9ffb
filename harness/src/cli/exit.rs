//! How a command ends: with a code that scripts rely on, and with a word where it refuses.

use std::process::ExitCode;

use super::out::say;
pub(super) use hookproof_judge::exit::*;
use hookproof_judge::trace::Ended;

/// Says what went wrong, and how to go on, on stderr.
pub(super) fn refuse(command: &str, what: impl std::fmt::Display, code: u8) -> ExitCode {
    say(format_args!("hookproof {command}: {what}"));
    ExitCode::from(code)
}

/// The exit code of a run that was judged, by its verdict's code and by how the run ended: an interrupted one proves nothing,
/// whatever its checks saw, and a sender that was gone says more than a pass. The verdict of a trace without an end says so
/// itself.
pub(super) fn of_run(verdict: u8, ended: Option<Ended>) -> u8 {
    match ended {
        Some(Ended::Interrupted) => worse(verdict, INCONCLUSIVE),
        Some(Ended::SenderGone) => worse(verdict, UNREACHABLE),
        Some(Ended::Done) | None => verdict,
    }
}
