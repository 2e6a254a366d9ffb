//! The gate in a user's CI, with the real program.

mod action;
mod api;
mod archive;
mod init;
mod pages;
mod units;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn path() -> OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_hookproof")).parent().unwrap().to_owned();
    let known = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(program).chain(std::env::split_paths(&known))).unwrap()
}

fn there_is(program: &str, test: &str) -> bool {
    let found = std::env::split_paths(&path()).any(|folder| folder.join(program).is_file());
    if !found {
        let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
        assert!(!demands.split(',').any(|demand| demand == program), "{test}: no {program} on the PATH");
        eprintln!("{test}: skipped: no {program} on the PATH");
    }
    found
}

fn verdicts(report: &Path) -> BTreeMap<String, String> {
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let verdicts = report["judgement"]["verdicts"].as_array().unwrap();
    let text = |verdict: &serde_json::Value, key: &str| verdict[key].as_str().unwrap().to_owned();
    verdicts.iter().map(|verdict| (text(verdict, "id"), text(verdict, "status"))).collect()
}

/// On a busy machine a run may be inconclusive, and then it must report that the harness was late.
#[track_caller]
fn accuses_nobody(output: &Output, report: &Path) {
    let (code, said, verdicts) = (output.status.code(), combined_output(output), verdicts(report));
    assert!(!verdicts.values().any(|status| status == "fail"), "{said}");
    for id in ["loss.none", "identity.body"] {
        assert_eq!(verdicts[id], "pass", "{id}: {said}");
    }
    assert!(code == Some(0) || matches!(code, Some(2 | 3)) && was_late(&verdicts), "{code:?}: {said}");
}

fn was_late(verdicts: &BTreeMap<String, String>) -> bool {
    verdicts.iter().any(|(id, status)| id.starts_with("harness.") && status == "inconclusive")
}

fn combined_output(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", combined_output(&output));
    combined_output(&output)
}
