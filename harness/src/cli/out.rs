//! The output of commands: answers on stdout, messages on stderr, and exit codes.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

pub(super) use hookproof_judge::exit::*;
use hookproof_judge::report::{in_one_line, visible};
use hookproof_judge::trace::Ended;

/// Ignores errors: the result is also in the exit code and the files, and must not be lost over a closed stderr.
pub(super) fn print_stderr(text: impl Display) {
    let _unread = writeln!(io::stderr().lock(), "{}", unobeyed(&visible(&text.to_string())));
}

/// A CI runner would obey a line that begins with `::`, and others write part of the text.
fn unobeyed(text: &str) -> String {
    let marked = |line: &str| {
        let mark = if line.trim_start().starts_with("::") { "| " } else { "" };
        format!("{mark}{line}")
    };
    text.split('\n').map(marked).collect::<Vec<_>>().join("\n")
}

/// Ignores a closed pipe (`head`).
pub(super) fn written(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// A closed pipe (`head`) is no failure and ends nothing, since the exit code has the result too.
pub(super) fn line(text: impl Display) {
    if let Err(error) = written(writeln!(io::stdout().lock(), "{text}")) {
        print_stderr(format_args!("hookproof: writing to stdout: {error}"));
    }
}

/// Prints text from outside as one line, without control characters or CI commands.
pub(super) fn one_line(text: impl Display) {
    line(unobeyed(&in_one_line(&text.to_string())));
}

pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

pub(super) fn refuse(command: &str, what: impl std::fmt::Display, code: u8) -> ExitCode {
    print_stderr(format_args!("hookproof {command}: {what}"));
    ExitCode::from(code)
}

/// An interrupted run proves nothing, even with a pass; a sender that was gone outweighs a pass. The verdict of a
/// trace without an end accounts for that itself.
pub(super) fn of_run(verdict: u8, ended: Option<Ended>) -> u8 {
    match ended {
        Some(Ended::Interrupted) => worse(verdict, INCONCLUSIVE),
        Some(Ended::SenderGone) => worse(verdict, UNREACHABLE),
        Some(Ended::Done) | None => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_a_full_disk_is_one() {
        assert!(written(Err(ErrorKind::BrokenPipe.into())).is_ok());
        assert!(written(Err(ErrorKind::StorageFull.into())).is_err());
        assert!(written(Ok(())).is_ok());
    }

    #[test]
    fn no_line_is_a_command_to_a_runner() {
        let rows = [
            ("hookproof: a::b\n", "hookproof: a::b\n"),
            ("::error ::a\n  ::warning ::b\nc", "| ::error ::a\n|   ::warning ::b\nc"),
        ];
        for (text, expected) in rows {
            assert_eq!(unobeyed(text), expected);
        }
    }

    #[test]
    fn the_command_that_repeats_a_run_is_read_back_by_a_shell_as_it_was_meant() {
        for word in ["scenarios/viral-spike.toml", "sp ace/it's.toml", "a=\"b $(c)\"", "", "*"] {
            let echo = std::process::Command::new("/bin/sh")
                .arg("-c")
                .arg(format!("printf %s {}", quoted(word)))
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(echo.stdout).unwrap(), word);
        }
        assert_eq!(
            quoted("scenarios/viral-spike.toml"),
            "scenarios/viral-spike.toml",
            "no quotes without need"
        );
    }
}
