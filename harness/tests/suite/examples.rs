//! Certifies the small receivers and functions in other languages, where their runtime exists; otherwise a line is
//! printed (`--nocapture`). The receiver in PHP needs a web server, and is not certified here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::suite::hookproof;
use crate::suite::reference::{Daemon, SECRET, free_port};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../receiver/examples").join(name)
}

/// `known`: the expected failures, with their reasons.
fn certify(folder: tempfile::TempDir, port: u16, command: &str, known: &str) {
    let expected = folder.path().join("known.toml").display().to_string();
    std::fs::write(&expected, known).unwrap();
    let daemon = Daemon::start(folder, port, command);
    let url = format!("http://127.0.0.1:{port}/hook");
    let effects = format!("http://127.0.0.1:{port}/effects");
    let restart = daemon.restart();
    // It can't write to its inbox.
    let (break_it, mend) = (daemon.file_limit("0:unlimited"), daemon.file_limit("unlimited"));
    let secrets = ["--secret-env", "HOOK_SECRET", "--retired-secret-env", "OLD_SECRET"];
    let probes = ["--effects-url", &effects, "--restart-command", &restart];
    let breaking = ["--break-command", &break_it, "--mend-command", &mend];
    let arguments =
        [&["receiver", &url, "--strict", "--known", &expected][..], &secrets, &probes, &breaking].concat();
    let output = hookproof(&arguments);
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{table}{}{}",
        daemon.log(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A command in place of a server.
fn certify_command(command: &str) {
    let output = hookproof(&["receiver", "--exec", command, "--secret-env", "HOOK_SECRET", "--strict"]);
    let table = String::from_utf8_lossy(&output.stdout);
    let told = format!("{table}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}");
    let left_out = "\ncases left out: raw.chunked, raw.chunk-extensions, raw.unread, ";
    assert!(table.contains(left_out) && table.contains("(without a server)\n"), "{told}");
    for case in ["sig.valid", "sig.tag-bit", "raw.not-utf8", "time.old", "header.twice", "limit.1mb"] {
        assert!(table.contains(&format!("PASS           {case}")), "{case}: {told}");
    }
}

#[test]
fn the_function_in_python_is_certified() {
    if is_there(Command::new("python3").arg("--version"), "Python") {
        certify_command(&format!("python3 {}", example("verify.py").display()));
    }
}

#[test]
fn the_function_in_node_is_certified() {
    if is_there(Command::new("node").arg("--version"), "Node") {
        certify_command(&format!("node {}", example("verify.mjs").display()));
    }
}

#[test]
fn the_function_in_php_is_certified() {
    if is_there(Command::new("php").arg("--version"), "PHP") {
        certify_command(&format!("php {}", example("verify.php").display()));
    }
}

#[test]
fn commands_with_a_flaw_fail_by_their_exit_code() {
    let judged = |command: &str, only: &str| {
        let arguments = ["receiver", "--exec", command, "--secret-env", "HOOK_SECRET", "--only", only];
        let output = hookproof(&arguments);
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    let (code, told) = judged("cat >/dev/null", "sig.valid,sig.missing");
    assert!(code == Some(1) && told.contains("FAIL           sig.missing"), "{told}");
    assert!(told.contains("repeat:   printf %s $'POST /hook HTTP/1.1"), "{told}");
    let raises =
        "grep -q '^webhook-signature: v1' || { echo 'Traceback (most recent call last):' >&2; exit 1; }";
    let (code, told) = judged(raises, "sig.valid,sig.missing");
    assert!(
        code == Some(0) && told.contains("rejected by accident: no webhook-signature header: 500"),
        "{told}"
    );
    let graded = ["--only", "sig.valid,sig.missing", "--standard", "standard-webhooks@1.0"];
    let arguments = [&["receiver", "--exec", "cat >/dev/null", "--secret-env", "HOOK_SECRET"][..], &graded];
    let a2a = ["--standard", "a2a-push-notifications@1.0.1"];
    let output = hookproof(&[arguments.concat(), a2a.to_vec()].concat());
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(1) && table.contains("standard-webhooks@1.0: FAIL"), "{table}");
    assert!(
        table.contains("failed         R1   must    a notification is accepted only if its credentials"),
        "{table}"
    );
    assert!(table.contains("failed         R1   must    a webhook is accepted only with"), "{table}");
    let arguments = [&["receiver", "--exec", raises, "--secret-env", "HOOK_SECRET"][..], &graded].concat();
    let table = hookproof(&arguments).stdout;
    let table = String::from_utf8_lossy(&table);
    assert!(table.contains("not exercised  R1") && !table.contains("failed  "), "{table}");
    // A command shows no effects, so that a 500 does not show that the forgery had none.
    let graded = ["--only", "sig.valid,sig.unknown-version", "--standard", "standard-webhooks@1.0"];
    let arguments = [&["receiver", "--exec", raises, "--secret-env", "HOOK_SECRET"][..], &graded].concat();
    let table = hookproof(&arguments).stdout;
    let table = String::from_utf8_lossy(&table);
    assert!(table.contains("not exercised  R5"), "{table}");
    let (code, told) = judged("exit 1", "sig.valid,sig.missing");
    assert!(code == Some(1) && told.contains("a correct delivery gets 401"), "{told}");
}

/// Whether a runtime with the example's requirements exists; prints a line if not.
fn is_there(probe: &mut Command, what: &str) -> bool {
    let there = probe.output().is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: {what} is not on this machine");
    }
    there
}

#[test]
fn the_flask_example_is_certified() {
    if !is_there(Command::new("python3").args(["-c", "import flask"]), "Python with Flask") {
        return;
    }
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let script = example("flask_receiver.py");
    let command = format!("HOOK_SECRET={SECRET} python3 {} {port} inbox.db", script.display());
    let known =
        "['raw.chunk-extensions']\nwhy = 'the development server of Flask knows only bare sizes of chunks'\n";
    certify(folder, port, &command, known);
}

/// A folder for scripts, beside which Node looks for modules: `HOOKPROOF_NODE_MODULES` names a `node_modules` with this one.
pub(crate) fn folder_with(module: &str) -> Option<tempfile::TempDir> {
    let modules = std::env::var_os("HOOKPROOF_NODE_MODULES").map(PathBuf::from).unwrap_or_default();
    if !modules.join(module).is_dir() || !is_there(Command::new("node").arg("--version"), "Node") {
        eprintln!("skipped: Node with {module}; HOOKPROOF_NODE_MODULES names no node_modules that has it");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).unwrap();
    Some(folder)
}

/// The lines of `hookproof explain handshake.answered`.
#[test]
fn the_token_of_the_express_example_must_be_set_and_its_challenge_is_plain_text() {
    let Some(folder) = folder_with("express") else { return };
    let entry = hookproof_judge::catalogue::find("handshake.answered").unwrap();
    let lines = &hookproof_judge::catalogue::example(entry).unwrap().lines["express"];
    let (_, check) = lines.split_once("// by a token").unwrap();
    let (_, check) = check.split_once(['\n', ':']).unwrap();
    let asked = |token: &str, query: &str| {
        let script = format!(
            "import express from 'express';\nconst app = express(), token = {token};\n\
             app.get('/', (req, res) => {{ {check}\n}});\nconst server = app.listen(0, '127.0.0.1', async () => {{\n\
             const answer = await fetch(`http://127.0.0.1:${{server.address().port}}/?hub.challenge=<b>1&{query}`);\n\
             console.log(answer.status, answer.headers.get('content-type')); process.exit(); }});"
        );
        let path = folder.path().join("token.mjs");
        std::fs::write(&path, script).unwrap();
        let output = Command::new("node").arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    };
    assert_eq!(asked("'right'", "hub.verify_token=right"), "200 text/plain; charset=utf-8\n");
    assert!(asked("'right'", "hub.verify_token=wrong").starts_with("403 "));
    assert!(asked("process.env.UNSET_TOKEN", "hub.mode=subscribe").starts_with("403 "));
}

#[test]
fn the_express_example_is_certified() {
    let Some(folder) = folder_with("express") else { return };
    let port = free_port();
    std::fs::copy(example("express_receiver.mjs"), folder.path().join("receiver.mjs")).unwrap();
    certify(folder, port, &format!("HOOK_SECRET={SECRET} node receiver.mjs {port} inbox.log"), "");
}
