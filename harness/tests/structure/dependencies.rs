use crate::source;

#[test]
fn every_dependency_is_explained() {
    let manifest = source::read(&source::root().join("Cargo.toml"));
    let unexplained = unexplained(&manifest);
    assert!(
        unexplained.is_empty(),
        "Cargo.toml does not say why the workspace depends on {}; put a comment with the reason on the line above \
         each, or do without it",
        unexplained.join(", ")
    );
}

fn unexplained(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]");
    let lines: Vec<&str> = lines.skip(1).take_while(|line| !line.starts_with('[')).collect();
    let above = std::iter::once("").chain(lines.iter().copied());
    let entries = lines.iter().zip(above).filter_map(|(line, above)| Some((line.split_once('=')?, above)));
    let foreign = entries.filter(|((name, value), _)| !name.starts_with('#') && !value.contains("path ="));
    let foreign: Vec<(&str, &str)> = foreign.map(|((name, _), above)| (name.trim(), above)).collect();
    assert!(!foreign.is_empty(), "Cargo.toml has no dependencies under [workspace.dependencies]");
    let reason = |above: &str| above.strip_prefix('#').is_some_and(|reason| !reason.trim().is_empty());
    foreign.into_iter().filter(|(_, above)| !reason(above)).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entries: &str, expected: &[&str]) {
        let manifest = format!(
            "[workspace.package]\nedition = \"2024\"\n\n# Once.\n[workspace.dependencies]\n{entries}\n\n[profile.dev]\ndebug = 1\n"
        );
        assert_eq!(unexplained(&manifest), expected, "with {manifest}");
    }

    #[test]
    fn a_dependency_without_a_reason_is_caught() {
        check("hmac = \"0.12\"\n# Verifies.\nring = { version = \"0.17\" }", &["hmac"]);
        check("# Signs.\nhmac = \"0.12\"\nring = { version = \"0.17\" }", &["ring"]);
        check("# Signs.\nhmac = \"0.12\"\n# Verifies.\nring = { version = \"0.17\" }", &[]);
    }

    #[test]
    fn a_reason_has_words_and_stands_right_above() {
        check("#\nhmac = \"0.12\"", &["hmac"]);
        check("# Signs.\n\nhmac = \"0.12\"", &["hmac"]);
    }

    #[test]
    fn a_comment_is_no_dependency_and_our_own_crates_need_no_reason() {
        check("sender = { path = \"sender\" }\n# a = b\nhmac = \"0.12\"", &[]);
    }

    #[test]
    #[should_panic(expected = "no dependencies")]
    fn a_manifest_without_the_section_explains_nothing() {
        unexplained("[workspace]\n");
    }
}
