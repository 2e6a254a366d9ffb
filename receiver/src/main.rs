//! The `hookproof-receiver` command.

fn main() {}
