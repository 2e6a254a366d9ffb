//! The pages in docs/ for those who use the programs: their commands, run as they stand, in a folder with nothing in it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::{archive, path, root, said, succeeds, there_is};

/// The blocks of a page in that language, one after another.
fn blocks(page: &str, language: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let mut found = String::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside && fence == language;
        } else if inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    assert!(!found.is_empty(), "docs/{page} has no block of {language}");
    found
}

/// Runs commands as a person would who reads the page; each must succeed.
#[track_caller]
fn run(commands: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euc", commands]).current_dir(folder).env("PATH", path()).envs(variables.iter().copied());
    succeeds(&mut shell)
}

/// A port that nobody listens on.
fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn the_page_on_ci_works_in_any_shell() {
    let folder = tempfile::tempdir().unwrap();
    run(&blocks("ci.md", "sh"), folder.path(), &[]);
    let summary = fs::read_to_string(folder.path().join("summary.md")).unwrap();
    assert!(summary.starts_with("## first: pass"), "{summary}");
}

#[test]
fn the_page_on_ci_works_in_gitlab() {
    if !there_is("curl", "the recipe for GitLab") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let releases = folder.path().join("releases/latest/download");
    archive::releases(&releases);
    fs::copy(root().join("packaging/install"), releases.join("install")).unwrap();
    let work = folder.path().join("work");
    succeeds(Command::new(env!("CARGO_BIN_EXE_hookproof")).arg("init").arg(&work));

    let job = blocks("ci.md", "yaml");
    let script =
        job.split_once("  script:\n").unwrap().1.lines().map_while(|line| line.strip_prefix("    - "));
    let script: Vec<&str> = script.collect();
    assert!(script.len() >= 3, "{job}");
    let releases = format!("file://{}", folder.path().join("releases").display());
    run(&script.join("\n"), &work, &[("RELEASES", &releases)]);
    let junit = fs::read_to_string(work.join("junit.xml")).unwrap();
    assert!(junit.contains("failures=\"0\""), "{junit}");
}

#[test]
fn the_page_for_partners_judges_a_receiver() {
    let folder = tempfile::tempdir().unwrap();
    let commands = blocks("partner.md", "sh").replace("127.0.0.1:9000", &format!("127.0.0.1:{}", port()));
    let commands = commands.replace("127.0.0.1:9001", &format!("127.0.0.1:{}", port()));
    // Also where a command fails: nothing may be left behind.
    let ended = format!("trap '[ ! -e pid ] || kill -9 \"$(cat pid)\" 2>/dev/null || true' EXIT\n{commands}");
    run(&ended, folder.path(), &[]);
    assert!(folder.path().join("report/receiver.html").exists());
}

#[test]
fn the_page_for_planners_plans_a_launch() {
    let folder = tempfile::tempdir().unwrap();
    let said = run(&blocks("planner.md", "sh"), folder.path(), &[]);
    assert!(said.contains("× this traffic"), "{said}");
}

#[test]
fn a_command_of_a_page_that_fails_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-euc", "hookproof run no-such.toml\ntrue"]).current_dir(folder.path()).env("PATH", path());
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
}
