use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Deliveries are freed on another thread than allocated, which is slow in the system's allocator.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hookproof_sender::cli::main(std::env::args_os())
}
