//! A sender in plain Python. Without `python3` a line is printed, unless `HOOKPROOF_DEMANDS` names it.

use std::process::Command;

use super::{hookproof, shipped};

const FOLDER: &str = "scenarios/drivers/python";

pub(crate) fn python(test: &str) -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
        assert!(!demands.split(',').any(|demand| demand == "python3"), "{test}: no python3 on the PATH");
        eprintln!("{test}: skipped: no python3 on the PATH");
    }
    found
}

fn run(arguments: &str) -> (Option<i32>, String) {
    let out = tempfile::tempdir().unwrap();
    let [scenario, driver] = ["scenario.toml", "driver.toml"].map(|name| shipped(FOLDER).join(name));
    let [scenario, driver, out] = [&scenario, &driver, out.path()].map(|path| path.to_str().unwrap());
    let more = format!("sender.arguments={arguments}");
    hookproof(&["run", scenario, "--driver", driver, "--out", out, "--set", &more], &[])
}

#[test]
fn its_driver_works() {
    if !python("its_driver_works") {
        return;
    }
    let driver = shipped(FOLDER).join("driver.toml");
    let (code, said) = hookproof(&["driver", "check", driver.to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{said}");
    for part in
        ["application/x-www-form-urlencoded", "valid signatures: 3", "subscriptions and setup are removed"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn it_is_certified_right() {
    if !python("it_is_certified_right") {
        return;
    }
    let (code, said) = run("[]");
    assert!(code == Some(0) && !said.contains("after the run:"), "{code:?}: {said}");
}

#[test]
fn a_signature_over_another_timestamp_is_caught() {
    if !python("a_signature_over_another_timestamp_is_caught") {
        return;
    }
    let (code, said) = run("[\"--bug\", \"signs-another-timestamp\"]");
    assert!(code == Some(1) && said.contains("format.signature"), "{code:?}: {said}");
}

#[test]
fn a_retry_before_the_time_asked_for_is_caught() {
    if !python("a_retry_before_the_time_asked_for_is_caught") {
        return;
    }
    let (code, said) = run("[\"--bug\", \"retries-too-early\"]");
    // While the machine stalls, an early retry is seen and not held against the sender.
    let is_seen = said.contains("retries with Retry-After: too early");
    assert!(matches!(code, Some(1 | 2)) && is_seen, "{code:?}: {said}");
}
