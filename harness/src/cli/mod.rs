//! The command line: every command in a file of its own, and the exit codes that scripts rely on.

mod run;
mod sim;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The harness itself failed, or can't do what was asked of it.
const EXIT_HARNESS: u8 = 70;

/// Proves that webhooks survive going viral.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay scenarios against a sender and judge it
    Run(run::Run),
    /// Play scenarios in virtual time, by one seed or many
    Sim(sim::Sim),
    /// Become another program that dies with the one that asked (what `run` starts senders through)
    #[command(hide = true)]
    Hold {
        /// The process to die with
        parent: u32,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// The sender's own command line: `hookproof sender --help`
    #[command(disable_help_flag = true)]
    Sender {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
}

/// Does what the command line asks, and says how it went.
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(run) => run.run(),
        Command::Sim(sim) => sim.run(),
        Command::Hold { parent, command } => {
            eprintln!("hookproof hold: {}", crate::driver::hold(parent, &command));
            ExitCode::from(EXIT_HARNESS)
        }
        Command::Sender { arguments } => {
            hookproof_sender::cli::main(std::iter::once("hookproof sender".into()).chain(arguments))
        }
    }
}
