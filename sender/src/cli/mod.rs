//! The command line: `hookproof-sender …`, also `hookproof sender …`. `serve` and `drain` deliver; other commands
//! change the database, and running processes apply that. Logs and errors go to stderr.

mod attempts;
mod audit;
mod changes;
mod dead;
mod delivery;
mod doctor;
mod drain;
mod emit;
mod encrypt;
mod failure;
mod forget;
mod in_flight;
mod jobs;
mod mcp;
mod nodes;
mod options;
mod outbox;
mod print;
mod probe;
mod reference;
mod restore;
mod retry;
mod serve;
mod session;
mod settings;
mod show;
mod signals;
mod status;
mod subscriber;
mod token;
mod transfer;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;
use options::Common;
use print::Printer;

const AFTER: &str = "\
A first delivery:
  hookproof sender serve --db sender.db &
  hookproof sender subscriber add --db sender.db shop https://shop.example/hooks --events 'order.*'
  hookproof sender emit --db sender.db --type order.paid --data '{\"order\":4711}'

Durations, rates and sizes need a unit: 250ms, 8s, 24h, 20/s, 64MiB.
Exit codes: 0 done, 1 not done (refused, unknown, not delivered, cut off), 64 bad command line, 70 failure of this
program, 130 ended by a second signal.";

/// A durable webhook sender on SQLite or PostgreSQL that never exceeds what a subscriber may be sent
#[derive(Parser, Debug)]
#[command(name = "hookproof-sender", version, after_help = AFTER, disable_help_subcommand = true)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Deliver, until told to stop
    Serve(serve::Serve),
    /// Deliver due events for a while, then end: for cron
    Drain(drain::Drain),
    /// Record events, to be delivered by `serve` or `drain`
    Emit(emit::Emit),
    /// Add, show and change subscribers
    #[command(subcommand)]
    Subscriber(subscriber::Subscriber),
    /// Print all settings of a subscriber: form, default, range, meaning
    Settings(reference::Settings),
    /// Show deliveries, and the attempts of one
    #[command(subcommand)]
    Delivery(delivery::Delivery),
    /// Show attempts as they end
    Attempts(attempts::Attempts),
    /// Find deliveries by the event's key, or by a value in the body
    Find(forget::Find),
    /// Forget a data subject: erase the events that `find` shows
    Forget(forget::Forget),
    /// Show dead letters, redrive them, or forget them
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Show jobs, pause, resume or cancel them
    #[command(subcommand)]
    Job(jobs::Job),
    /// Make, show and revoke tokens for the HTTP API
    #[command(subcommand)]
    Token(token::Token),
    /// Show who changed what
    Changes(changes::Changes),
    /// Compare the attempts of each second with the contract
    Audit(audit::Audit),
    /// Show the state of deliveries and subscribers
    Status(status::Status),
    /// Show the processes that deliver, and how they share the subscribers
    Nodes(nodes::Nodes),
    /// Have a process hand its subscribers to the others, or take them again
    #[command(subcommand)]
    Node(nodes::Node),
    /// Show rejected rows of the outbox
    Outbox(outbox::Outbox),
    /// Let a model look at the sender, by the Model Context Protocol on stdin and stdout
    Mcp(mcp::Serve),
    /// Move a whole database from a file to a server, or back, while no process works on it
    Move(transfer::Move),
    /// Copy a file while processes work on it
    Backup(transfer::Backup),
    /// Put a copy of a file into its place, with its subscribers paused
    Restore(restore::Restore),
    /// Encrypt all that a database holds with the first key, and so change the key
    Encrypt(encrypt::Encrypt),
    /// Find faults of a database, and repair those that are safe to repair
    Doctor(doctor::Doctor),
    /// Give the free space in a file back to the disk, while no process uses it
    Vacuum(transfer::Vacuum),
}

/// The command line as data, for completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The first argument is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_else(|| "hookproof-sender".into());
    let name = std::path::Path::new(&program).file_name().unwrap_or(&program).to_string_lossy().into_owned();
    match Arguments::try_parse_from([program].into_iter().chain(arguments)) {
        Ok(arguments) => run(arguments).unwrap_or_else(|failure| report(&name, &failure)),
        Err(error) if error.use_stderr() => report(&name, &Failure::Usage(in_one_line(&error))),
        Err(help) => {
            let _ = write!(std::io::stdout(), "{}", help.render());
            ExitCode::SUCCESS
        }
    }
}

fn run(Arguments { common, command }: Arguments) -> Result<ExitCode, Failure> {
    let usual = if matches!(command, Command::Serve(_) | Command::Drain(_) | Command::Mcp(_)) {
        "info"
    } else {
        "warn"
    };
    serve::start(common.log.as_deref().unwrap_or(usual), common.log_json)?;
    let mut printer = Printer::stdout(common.json);
    // The others close the database themselves, or have none.
    let closes = matches!(
        command,
        Command::Serve(_)
            | Command::Drain(_)
            | Command::Emit(_)
            | Command::Settings(_)
            | Command::Move(_)
            | Command::Restore(_)
    );
    let done = carry_out(command, &common, &mut printer);
    if !closes {
        common.leave_whole();
    }
    done
}

fn carry_out(command: Command, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(serve) => serve.run(common),
        Command::Drain(drain) => drain.run(common, printer),
        Command::Emit(emit) => emit.run(common, printer),
        Command::Subscriber(command) => command.run(common, printer),
        Command::Settings(settings) => settings.run(printer),
        Command::Delivery(command) => {
            command.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Attempts(attempts) => {
            attempts.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Find(find) => {
            find.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Forget(forget) => {
            forget.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Dead(command) => command.run(common, printer),
        Command::Job(command) => {
            command.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Token(command) => {
            command.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Changes(changes) => {
            changes.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Audit(audit) => audit.run(common, printer),
        Command::Status(status) => status.run(common, printer),
        Command::Nodes(nodes) => nodes.run(common, printer),
        Command::Node(node) => node.run(common, printer),
        Command::Outbox(outbox) => outbox.run(common, printer),
        Command::Mcp(mcp) => mcp.run(common, printer),
        Command::Move(transfer) => transfer.run(common, printer),
        Command::Backup(backup) => backup.run(common, printer),
        Command::Restore(restore) => restore.run(common, printer),
        Command::Encrypt(encrypt) => {
            encrypt.run(common, printer)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor(doctor) => doctor.run(common, printer),
        Command::Vacuum(vacuum) => vacuum.run(common, printer),
    }
}

fn report(name: &str, failure: &Failure) -> ExitCode {
    eprintln!("{name}: {failure}");
    failure.exit_code()
}

fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let told = text
        .split("\nUsage:")
        .next()
        .unwrap_or(&text)
        .split("\nFor more information")
        .next()
        .unwrap_or(&text);
    let words: Vec<_> = told.trim_start_matches("error: ").split_whitespace().collect();
    let line =
        words.join(" ").replace(" tip: ", "; tip: ").replace(" [possible values: ", "; expected one of [");
    format!("{line}; --help lists commands and options")
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
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(command.has_subcommands() || help.contains("hookproof sender"), "{path} has no example");
            command.get_subcommands().for_each(|command| check(command, &path));
        }
        check(&Arguments::command(), "");
    }
}
