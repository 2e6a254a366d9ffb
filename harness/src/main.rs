//! The `hookproof` command.

fn main() {}
