//! The `hookproof` command.

use mimalloc::MiMalloc;

#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    hookproof::cli::main()
}
