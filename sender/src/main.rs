//! The `hookproof-sender` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// What a delivery needs is made on one thread and dropped on another, for which the system's allocator takes locks.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hookproof_sender::cli::main(std::env::args_os())
}
