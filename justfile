# `just` lists the recipes.
default:
    @just --list

# The main job: replay a viral spike and judge the sender.
run:
    cargo run --release -- run scenarios/viral-spike.toml

# Everything that a commit must pass.
ci:
    .ci/run

test:
    cargo test --workspace

lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Write generated documents, schemas, kill matrices and pages anew; read the difference before you commit.
bless:
    HOOKPROOF_BLESS=1 cargo test -p hookproof-sender --lib the_
    HOOKPROOF_BLESS=1 cargo test -p hookproof-judge --lib scenario::tests::reference
    HOOKPROOF_BLESS=1 cargo test -p hookproof-judge --test checks alone
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test suite libraries
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test receiver_mutants
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test sender_mutants
    HOOKPROOF_GOLDEN=write cargo test -p hookproof --test page golden

# Print every message of the programs with its place.
messages:
    HOOKPROOF_MESSAGES=print cargo test -p hookproof --test structure messages_are_plain -- --nocapture

# Run the benches and write BENCHMARKS.md; some ten minutes on a quiet machine.
bench-report:
    cargo run -p hookproof-benches --bin bench-report

bench:
    cargo bench -p hookproof-benches --bench end_to_end

# Lines of code in sender, receiver and harness: neither blank, nor comment, nor test; then files, then lines of tests.
size:
    #!/usr/bin/env bash
    set -euo pipefail
    code() { git ls-files 'sender/*.rs' 'receiver/*.rs' 'harness/*.rs' | grep -vE '(^|/)(tests|fuzz)/|/tests\.rs$'; }
    tests() { git ls-files '*.rs' | grep -E '(^|/)(tests|fuzz)/|/tests\.rs$'; }
    # A `#[cfg(test)] mod … {` ends a file.
    count() { awk 'FNR == 1 { inside = 0 } /^#\[cfg\(test\)\]$/ { held = 1; next } held && /^mod .*\{$/ { inside = 1 } { held = 0 } !inside && !/^[ \t]*(\/\/|$)/ { n++ } END { print n }' $(code); }
    echo "code lines: $(count)"
    echo "files:      $(code | wc -l)"
    echo "test lines: $(tests | xargs cat | grep -cvE '^[[:space:]]*(//|$)')"
