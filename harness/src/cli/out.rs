//! What a command has to say: its answer on stdout, and whatever else on stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use hookproof_judge::report::{in_one_line, visible};

/// Says something on stderr. Where nobody reads it any more, nobody is told so: what a command found out is in its exit code
/// and in its files, and neither may be lost over it.
pub(super) fn say(text: impl Display) {
    let _unread = writeln!(io::stderr().lock(), "{}", unobeyed(&visible(&text.to_string())));
}

/// A text with a mark before each line that a CI runner would obey as a command, since it begins with `::`: part of what is
/// told was written by others.
fn unobeyed(text: &str) -> String {
    let marked = |line: &str| {
        let mark = if line.trim_start().starts_with("::") { "| " } else { "" };
        format!("{mark}{line}")
    };
    text.split('\n').map(marked).collect::<Vec<_>>().join("\n")
}

/// What came of writing to stdout. A reader that has seen enough, such as `head`, is no failure.
pub(super) fn written(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Writes a line. A reader that has seen enough, such as `head`, is no failure, and ends nothing: what a command found out
/// is in its exit code too. Whatever else keeps a line from being written is said.
pub(super) fn line(text: impl Display) {
    if let Err(error) = written(writeln!(io::stdout().lock(), "{text}")) {
        say(format_args!("hookproof: writing to stdout: {error}"));
    }
}

/// Writes a text that others wrote in part: as one line, in which nothing steers the terminal, and which no CI runner obeys.
pub(super) fn one_line(text: impl Display) {
    line(unobeyed(&in_one_line(&text.to_string())));
}

/// A word as a shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:@%+,".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
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
