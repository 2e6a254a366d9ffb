//! What a command has to say, on stdout.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

/// Writes a line. A reader that has seen enough, such as `head`, is no failure, and ends nothing: what a command found out
/// is in its exit code too. Whatever else keeps a line from being written is said.
pub(super) fn line(text: impl Display) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("hookproof: writing to stdout: {error}");
    }
}
