//! The `hookproof` command.

use mimalloc::MiMalloc;

/// The sender's allocator, since the sender is one of the commands.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    hookproof::cli::main()
}
