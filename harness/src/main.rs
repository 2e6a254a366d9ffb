//! The `hookproof` command.

fn main() -> std::process::ExitCode {
    hookproof::cli::main()
}
