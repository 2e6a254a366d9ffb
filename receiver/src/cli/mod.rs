//! The command line: `hookproof-receiver …`, also `hookproof receiver-server …`.

mod effects;
mod failure;
mod options;
mod quantity;
mod relay;
mod routes;
mod serve;
mod signals;
mod watch;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use failure::Failure;

const AFTER: &str = "\
A receiver in a minute:
  HOOK_SECRET=whsec_… hookproof receiver-server serve --profile standard-webhooks --secret-env HOOK_SECRET --db inbox.db

Exit codes: 0 done, 64 bad command line, 70 our own failure; serve and relay also 1 if requests had to be cut off.";

/// Verifies webhooks strictly, and loses none that it has acknowledged
#[derive(Parser, Debug)]
#[command(name = "hookproof-receiver", version, after_help = AFTER, disable_help_subcommand = true)]
struct Arguments {
    /// The log level on stderr: error, warn, info, debug, trace or off
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        env = "HOOKPROOF_LOG",
        default_value = "info",
        hide_env_values = true
    )]
    log: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Take deliveries into a durable inbox, until told to stop
    Serve(serve::Serve),
    /// Verify deliveries and forward them, until told to stop
    Relay(relay::Relay),
    /// List the ids that an inbox has processed
    Effects(effects::Effects),
}

/// The command line as data, for completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The first argument is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => run(arguments).unwrap_or_else(|failure| {
            eprintln!("hookproof-receiver: {failure}");
            failure.exit_code()
        }),
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            eprint!("hookproof-receiver: {}", text.trim_start_matches("error: "));
            Failure::Usage(String::new()).exit_code()
        }
        Err(help) => {
            let _ = write!(std::io::stdout(), "{}", help.render());
            ExitCode::SUCCESS
        }
    }
}

fn run(Arguments { log, command }: Arguments) -> Result<ExitCode, Failure> {
    start_logs(&log)?;
    match command {
        Command::Serve(serve) => serve.run(),
        Command::Relay(relay) => relay.run(),
        Command::Effects(effects) => effects.run(),
    }
}

fn start_logs(directives: &str) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        Failure::Usage(format!(
            "cannot read the log level {directives:?}: {error}; expected error, warn, info, debug, trace, or off, such as --log info"
        ))
    })?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that cannot be written must not end the thread that logs.
    let logs = logs.log_internal_errors(false);
    let _ = logs.with_ansi(colour).with_target(false).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_gives_an_example() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("hookproof receiver-server"), "{} has no example", command.get_name());
        }
    }
}
