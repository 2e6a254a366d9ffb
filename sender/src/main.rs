//! The `hookproof-sender` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Deliveries are freed on another thread than allocated, which the system's allocator does under locks.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hookproof_sender::cli::main(std::env::args_os())
}
