//! The `hookproof` command.

use std::path::PathBuf;
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
    /// Replay scenarios against a sender and judge it (not in this version yet)
    Run {
        /// Scenario files
        #[arg(required = true)]
        scenarios: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let Arguments { command: Command::Run { scenarios } } = Arguments::parse();
    let asked: Vec<_> = scenarios.iter().map(|path| path.display().to_string()).collect();
    eprintln!("hookproof run: can't judge {}: the harness is not in this version yet", asked.join(", "));
    eprintln!("hint: README.md, section \"State\", says what is; `cargo test --workspace` proves it");
    ExitCode::from(EXIT_HARNESS)
}
