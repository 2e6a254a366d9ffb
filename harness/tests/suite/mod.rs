//! `hookproof receiver` for its user: against the reference receiver, and without a receiver.

mod certificates;
mod endpoints;
mod examples;
mod handshakes;
mod libraries;
mod load;
mod profiles;
pub(crate) mod reference;
mod round_trip;
mod stories;

use std::process::{Command, Output, Stdio};

pub(crate) const VERIFY_TOKEN: &str = "let me in";

/// With a secret in the environment.
pub(crate) fn hookproof(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(arguments).env("HOOK_SECRET", reference::SECRET).env("OLD_SECRET", reference::RETIRED);
    command
        .env("HEX_SECRET", reference::HEX)
        .env("RSA_KEY", reference::RSA)
        .env("PRIVATE_KEY", reference::PRIVATE)
        .env("VERIFY_TOKEN", VERIFY_TOKEN);
    command.output().unwrap()
}

#[track_caller]
pub(crate) fn check(arguments: &[&str], code: i32, said: &str) {
    let output = hookproof(arguments);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(said), "{arguments:?}: expected {said:?} in: {text}");
    assert!(!text.contains(reference::SECRET), "the secret was printed");
}

#[test]
fn nobody_there_is_exit_4() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/");
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("junit.xml").display().to_string();
    let out = folder.path().display().to_string();
    // From an earlier run that passed.
    for older in ["receiver.html", "load.html", "load.hdr"] {
        std::fs::write(folder.path().join(older), "pass").unwrap();
    }
    let secret = ["--secret-env", "HOOK_SECRET", "--out", &out];
    let receiver = ["receiver", &url, "--timeout", "100ms", "--junit", &junit];
    check(&[&receiver[..], &secret].concat(), 4, "is the receiver running?");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("<error message=\"http://127.0.0.1:"));
    check(&[&["load", &url, "--rate", "5/s"][..], &secret].concat(), 4, "is it running?");
    for page in ["receiver.html", "load.html"] {
        let page = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(page.contains("not judged: ") && page.contains("cannot be reached"), "{page}");
    }
    assert!(!folder.path().join("load.hdr").exists(), "the log of an older load is left");
}

#[test]
fn a_secret_that_is_no_text_is_said_to_be_none() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(["receiver", "http://127.0.0.1:9/", "--secret-env", "HOOK_SECRET"]);
    let output = command.env("HOOK_SECRET", std::ffi::OsStr::from_bytes(b"\xff\xfe")).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("HOOK_SECRET is not UTF-8"));
}

#[test]
fn a_run_that_is_terminated_hands_over_what_it_saw() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("junit.xml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(["receiver", &url, "--secret-env", "HOOK_SECRET", "--junit"]).arg(&junit);
    let run = command.env("HOOK_SECRET", reference::SECRET).stdout(Stdio::piped()).spawn().unwrap();
    let _unanswered = listener.accept().unwrap();
    let killed = Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let (table, junit) = (String::from_utf8_lossy(&output.stdout), std::fs::read_to_string(&junit).unwrap());
    let cases = hookproof_judge::catalogue::receiver().len();
    let headline = format!("interrupted before the first of {cases} cases was judged");
    assert!(table.contains(&format!("\nINCONCLUSIVE: {headline}\n")), "{table}");
    assert!(junit.contains("<testsuite ") && junit.contains(&headline), "{junit}");
}

#[test]
fn the_table_is_shown_though_the_page_cannot_be_written() {
    let url = endpoints::endpoint(|_| {});
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("receiver.html")).unwrap();
    let (out, junit) = (folder.path().display().to_string(), folder.path().join("junit.xml"));
    let secret = ["--secret-env", "HOOK_SECRET", "--timeout", "200ms"];
    let reports = ["--out", &out, "--junit", &junit.display().to_string()];
    check(&[&["receiver", &url][..], &secret, &reports].concat(), 70, "inconclusive");
    assert!(std::fs::read_to_string(&junit).unwrap().contains("name=\"sig.valid\""));
}

#[test]
fn a_bad_command_line_is_exit_64_and_says_what_to_do() {
    let url = "http://127.0.0.1:9/";
    let receiver = |rest: &[&'static str]| [&["receiver", url], rest].concat();
    check(&receiver(&[]), 64, "--secret-env");
    check(&receiver(&["--secret-env", "HOOKPROOF_NOT_SET"]), 64, "HOOKPROOF_NOT_SET is not set");
    let secret = ["--secret-env", "HOOK_SECRET"];
    check(&receiver(&[&secret[..], &["--only", "sig.vald"]].concat()), 64, "the nearest id is sig.valid");
    check(&receiver(&[&secret[..], &["--tolerance", "300"]].concat()), 64, "300");
    // The URL is the receiver's, not a file.
    check(
        &["receiver", "--secret-env", "HOOKPROOF_NOT_SET", "--json", url],
        64,
        "HOOKPROOF_NOT_SET is not set",
    );
    check(&receiver(&[&secret[..], &["--profile", "svix"]].concat()), 64, "standard-webhooks");
    let graded = |rest: &[&'static str]| receiver(&[&secret[..], rest].concat());
    let foreign = graded(&["--profile", "github", "--standard", "standard-webhooks@1.0"]);
    check(&foreign, 64, "demands --profile standard-webhooks; found github");
    check(&graded(&["--standard", "five-failures@1"]), 64, "demands nothing of a receiver");
    check(&["receiver", "https://example.com/", "--secret-env", "HOOK_SECRET"], 64, "--i-own-this-endpoint");
    check(&["receiver", "ftp://127.0.0.1/", "--secret-env", "HOOK_SECRET"], 64, "http://");
}

#[test]
fn list_and_explain_know_every_id() {
    let listed = hookproof(&["list", "--json"]);
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let count = hookproof_judge::catalogue::sender().len() + hookproof_judge::catalogue::receiver().len();
    assert_eq!(entries.len(), count);
    check(&["list"], 0, "sig.valid");
    check(&["explain", "sig.truncated"], 0, "crypto.timingSafeEqual");
    check(
        &["explain", "header.expect"],
        0,
        "example     let the server read the whole body, in any framing, before the answer",
    );
    check(&["explain", "rate.envelope"], 0, "token bucket");
    check(&["explain", "sig.nothing"], 64, "hookproof list");
}
