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
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test all suite::libraries
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test all receiver_mutants
    HOOKPROOF_BLESS=1 cargo test -p hookproof --test all sender_mutants
    HOOKPROOF_GOLDEN=write cargo test -p hookproof --test all page::golden

# Print every message of the programs with its place.
messages:
    HOOKPROOF_MESSAGES=print cargo test -p hookproof --test structure messages_are_plain -- --nocapture

# Run the benches and write BENCHMARKS.md; some ten minutes on a quiet machine.
bench-report:
    cargo run -p hookproof-benches --bin bench-report

bench:
    cargo bench -p hookproof-benches --bench end_to_end

# Have schemathesis, from PyPI, attack the HTTP API. No schema states every rule, so a valid request may be refused.
schemathesis:
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release
    folder=$(mktemp -d)
    TOKEN=$(head -c 24 /dev/urandom | base64) && export TOKEN
    target/release/hookproof sender serve --db "$folder/sender.db" --listen 127.0.0.1:8181 --token-env TOKEN --log off &
    trap 'kill $!; rm -r "$folder"' EXIT
    curl --silent --retry 9 --retry-connrefused -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8181/v1/openapi.json -o "$folder/openapi.json"
    schemathesis run "$folder/openapi.json" --url http://127.0.0.1:8181 -H "Authorization: Bearer $TOKEN" --exclude-checks positive_data_acceptance

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
