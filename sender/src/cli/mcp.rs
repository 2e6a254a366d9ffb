use std::io::{self, BufRead, Read as _};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::Printer;
use super::session::{user, with_session};
use crate::api::{Config, Mcp, Scope, Tokens};
use crate::runtime::clock::random;

/// The longest message; longer ones are refused.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  claude mcp add hookproof -- hookproof sender mcp --db sender.db
  hookproof sender mcp --db postgres://user@host/database --act

Speaks the Model Context Protocol on stdin and stdout until stdin ends. The tools are routes of the HTTP API. A model sees payloads
and endpoints' answers, but no secret. Acts are logged on stderr.")]
pub(super) struct Serve {
    /// Let the model act too: everything but to add, change, remove or rotate a subscriber, or to emit
    #[arg(long)]
    act: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Serve {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let options = operating(common.existing_database()?, &self.reach, None)?;
        let config = Config {
            guard: options.guard.clone(),
            regions: options.regions.clone(),
            tokens: Tokens::default(),
            is_reachable: false,
            request_time_max: Config::REQUEST_TIME_MAX,
        };
        let by = format!("mcp of {}", user());
        let scope = if self.act { Scope::Operate } else { Scope::Read };
        let token = format!("{:032x}", u128::from_le_bytes(random()));
        with_session(options, |session| {
            let mcp =
                Mcp::new(session.sender().clone(), config, (scope, &by), &token).map_err(Failure::ours)?;
            let mut input = io::stdin().lock();
            while let Some(line) = next_line(&mut input)? {
                let answer = match line {
                    Line::Whole(line) if line.trim_ascii().is_empty() => None,
                    Line::Whole(line) => session.wait(mcp.answer(&line)),
                    Line::TooLong => Some(Mcp::too_long(LINE_BYTES_MAX)),
                };
                answer.iter().try_for_each(|answer: &Value| printer.object(answer))?;
                if printer.is_closed() {
                    break;
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line, of which at most `LINE_BYTES_MAX` are held; none at the end.
fn next_line(input: &mut impl BufRead) -> Result<Option<Line>, Failure> {
    let unreadable = |error| Failure::ours(format_args!("cannot read stdin: {error}"));
    let mut line = Vec::new();
    if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || u64::try_from(line.len()).is_ok_and(|length| length < LINE_BYTES_MAX) {
        return Ok(Some(Line::Whole(line)));
    }
    while !line.ends_with(b"\n") {
        line.clear();
        if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
    }
    Ok(Some(Line::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_skipped_to_its_end() {
        let most = usize::try_from(LINE_BYTES_MAX).unwrap();
        let long = "x".repeat(most);
        let fits = format!("{}\n", "x".repeat(most - 1));
        let input = format!("a\n{long}\n{long}{long}y\n{fits}last");
        let mut input = input.as_bytes();
        let whole = |line: &str| Some(Line::Whole(line.as_bytes().to_vec()));
        for expected in
            [whole("a\n"), Some(Line::TooLong), Some(Line::TooLong), whole(&fits), whole("last"), None]
        {
            assert_eq!(next_line(&mut input).unwrap(), expected);
        }
    }
}
