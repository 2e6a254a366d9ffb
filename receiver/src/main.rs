//! The `hookproof-receiver` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    hookproof_receiver::cli::main(std::env::args_os())
}
