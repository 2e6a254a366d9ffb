//! Every dependency has a line in ARCHITECTURE.md on why.

use crate::source;

#[test]
fn every_dependency_is_explained() {
    let [manifest, architecture] =
        ["Cargo.toml", "ARCHITECTURE.md"].map(|file| source::read(&source::root().join(file)));
    let unexplained = unexplained(&manifest, &architecture);
    assert!(
        unexplained.is_empty(),
        "ARCHITECTURE.md does not say why the workspace depends on {}; add a line for each, with its name in \
         backticks, or do without it",
        unexplained.join(", ")
    );
}

/// The dependencies that the text does not name. A name counts in backticks only: some are words of English.
fn unexplained<'a>(manifest: &'a str, architecture: &str) -> Vec<&'a str> {
    let dependencies = dependencies(manifest);
    assert!(!dependencies.is_empty(), "Cargo.toml has no dependencies under [workspace.dependencies]");
    dependencies.into_iter().filter(|name| !architecture.contains(&format!("`{name}`"))).collect()
}

/// The names under `[workspace.dependencies]`, one to a line, without the workspace's own crates.
fn dependencies(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let foreign =
        entries.filter_map(|line| line.split_once('=')).filter(|(_, value)| !value.contains("path ="));
    foreign.map(|(name, _)| name.trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[workspace.package]
edition = "2024"

[workspace.dependencies]
hookproof-sender = { path = "sender" }

# Signing.
hmac = "0.12"
ring = { version = "0.17", features = ["std"] }

[workspace.lints.rust]
unsafe_code = "forbid"
"#;

    #[track_caller]
    fn check(architecture: &str, expected: &[&str]) {
        assert_eq!(unexplained(MANIFEST, architecture), expected, "with {architecture}");
    }

    #[test]
    fn a_dependency_without_a_line_is_caught() {
        check("", &["hmac", "ring"]);
        check("| `hmac` | signs |", &["ring"]);
        check("| `hmac` | signs |\n| `ring` | verifies |", &[]);
    }

    #[test]
    fn a_word_that_happens_to_be_a_name_explains_nothing() {
        check("`hmac` signs in ring 0, and `ring-buffer` is another crate", &["ring"]);
    }

    #[test]
    #[should_panic(expected = "no dependencies")]
    fn a_manifest_without_the_section_explains_nothing() {
        unexplained("[workspace]\n", "");
    }
}
