//! The `hookproof-sender` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    hookproof_sender::cli::main(std::env::args_os())
}
