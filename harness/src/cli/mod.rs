//! The command line, and the exit codes that scripts rely on.

mod check;
mod driver;
mod forms;
mod init;
mod interrupt;
mod list;
mod load;
mod out;
mod plan;
mod progress;
mod query;
mod receiver;
mod run;
mod sim;
mod standard;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    Run(Box<run::Run>),
    /// Play scenarios in virtual time, by one seed or many
    Sim(sim::Sim),
    /// Compute how much a launch stretches, its first breach, and the changes that carry more
    Plan(plan::Asks),
    /// Become another program that dies with its parent (`run` starts senders through it)
    #[command(hide = true)]
    Hold {
        /// The process to die with
        parent: u32,
        /// The program and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Judge recorded runs again, offline
    Check(check::Arguments),
    /// Show a recorded run: its report as a page
    Open(check::Open),
    /// Query a trace in SQL
    Query(query::Arguments),
    /// Compare a report with an older one; exits with 3 after a regression
    Compare(check::Compare),
    /// Try a driver file before a run trusts it: `hookproof driver check FILE`
    #[command(subcommand)]
    Driver(driver::DriverCommand),
    /// Write a first scenario, the beginning of a driver, and the file for CI; or a launch to plan
    Init(init::Arguments),
    /// Write the completions and manual pages that an archive of a release has
    #[command(hide = true)]
    Packaging(init::Packaging),
    /// The JSON Schema of the scenario file and of the report
    Schema(list::Schema),
    /// Send a receiver every awkward request, and judge its answers
    Receiver(Box<receiver::ReceiverArgs>),
    /// Check that a certificate is as `--certificate` wrote it
    VerifyCertificate(standard::Verify),
    /// Send a receiver signed events at a steady rate, or find the highest rate that it carries
    Load(Box<load::LoadArgs>),
    /// Every check and case, with its requirement
    List(list::ListArgs),
    /// The requirement, reason and remedy of a check or case
    Explain(list::Explain),
    /// The sender's own command line: `hookproof sender --help`
    #[command(disable_help_flag = true)]
    Sender {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// The receiver's own command line: `hookproof receiver-server --help`
    #[command(disable_help_flag = true)]
    ReceiverServer {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
}

/// Runs the command line, and returns its exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => {
            // Help and version are answers; if they can't be printed, no channel is left.
            let _closed = problem.print();
            return if problem.use_stderr() { ExitCode::from(out::USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match arguments.command {
        Command::Run(asked) => asked.run(),
        Command::Sim(asked) => asked.run(),
        Command::Plan(asked) => asked.run(),
        Command::Hold { parent, command } => {
            out::refuse("hold", crate::driver::hold(parent, &command), out::HARNESS)
        }
        Command::Check(arguments) => check::main(&arguments),
        Command::Open(arguments) => check::open(&arguments),
        Command::Query(arguments) => query::main(&arguments),
        Command::Compare(arguments) => check::compare(&arguments),
        Command::Driver(asked) => driver::main(&asked),
        Command::Init(arguments) => init::main(&arguments),
        Command::Packaging(arguments) => init::package(&arguments),
        Command::Schema(arguments) => list::schema(&arguments),
        Command::Receiver(asked) => receiver::main(&asked),
        Command::VerifyCertificate(asked) => standard::verify(&asked),
        Command::Load(asked) => load::main(&asked),
        Command::List(asked) => list::main(&asked),
        Command::Explain(asked) => list::explain(&asked),
        Command::Sender { arguments } => {
            hookproof_sender::cli::main(std::iter::once("hookproof sender".into()).chain(arguments))
        }
        Command::ReceiverServer { arguments } => hookproof_receiver::cli::main(
            std::iter::once("hookproof receiver-server".into()).chain(arguments),
        ),
    }
}
