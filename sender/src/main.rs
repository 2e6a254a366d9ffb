//! The `hookproof-sender` command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Deliveries are allocated on one thread and freed on another, which the system's allocator does under
/// locks.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hookproof_sender::cli::main(std::env::args_os())
}
