use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use hookproof_judge::signature::{Profile, Secret};

use crate::suite::reference::SECRET;
use crate::suite::{check, hookproof};
use hookproof::load::{Load, run};
use hookproof::wire::request::Target;

/// Answers every request with this status. Requests are small, so one read holds each.
fn answers(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 64 * 1024];
                while matches!(stream.read(&mut buffer), Ok(1..)) {
                    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_load_sends_what_its_schedule_has_and_keeps_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let url = answers(204);
    let arguments = [
        "load",
        &url,
        "--secret-env",
        "HOOK_SECRET",
        "--rate",
        "50/s",
        "--for",
        "1s",
        "--json",
        "--out",
        &out,
    ];
    let output = hookproof(&arguments);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["due"], 50);
    assert_eq!(told["statuses"]["204"], 50, "{told}");
    assert_eq!(told["missed"], 0);
    assert!(std::fs::read_to_string(folder.path().join("load.hdr")).unwrap().starts_with("#hookproof"));
    assert!(std::fs::read_to_string(folder.path().join("load.html")).unwrap().contains("<svg"));
}

#[test]
fn answers_other_than_2xx_fail_a_load_and_an_objective() {
    let url = answers(500);
    let load = |rest: &[&'static str]| {
        [&["load", &url, "--secret-env", "HOOK_SECRET", "--for", "1s"], rest].concat()
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let output = hookproof(&[&load(&["--rate", "20/s", "--out"])[..], &[&out]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("20 × 500"));
    let page = std::fs::read_to_string(folder.path().join("load.html")).unwrap();
    let told = page.contains("FAIL</p>") && page.contains("answered 2xx: 0; failed: 20; not sent in time: 0");
    assert!(output.status.code() == Some(1) && told, "{page}");
    check(&load(&["--find-max", "--slo", "p99<10s"]), 1, "no request was accepted at 50/s");
    check(&load(&["--find-max", "--slo", "fast"]), 64, "p99<250ms");
}

#[test]
fn a_load_that_sends_nothing_is_a_failure_of_the_generator() {
    let profile = Profile::GITHUB;
    let load = Load {
        target: Target::parse(&answers(204)).unwrap(),
        profile,
        secret: Secret::parse(profile, "a secret of the tests").unwrap(),
        count: 5,
        per: Duration::from_secs(1),
        lasts: Duration::from_secs(1),
        body_bytes: usize::MAX,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let trial = runtime.block_on(run(&load, std::future::pending())).unwrap();
    assert_eq!(trial.unanswered.get("the generator failed"), Some(&5));
    assert!(!"p99<10s".parse::<hookproof::load::Slo>().unwrap().holds(&trial));
}

#[test]
fn a_load_that_cannot_be_is_exit_64() {
    let load = |rest: &[&'static str]| {
        [&["load", "http://127.0.0.1:9/", "--secret-env", "HOOK_SECRET"], rest].concat()
    };
    check(&load(&["--rate", "5/s", "--body-bytes", "18446744073709551615"]), 64, "--body-bytes");
    check(&load(&["--find-max", "--slo", "p99<1s", "--for", "500ms"]), 64, "--for 1s");
    check(&load(&["--rate", "5/s", "--out", "/dev/null/there"]), 64, "/dev/null/there");
}

#[test]
fn a_search_that_is_interrupted_hands_over_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof"));
    command.args(["load", &answers(204), "--secret-env", "HOOK_SECRET", "--find-max", "--slo", "p99<10s"]);
    command.args(["--for", "1s", "--json", "--out"]).arg(folder.path()).env("HOOK_SECRET", SECRET);
    let mut search = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(search.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.contains("50/s  holds"), "{first}");
    let killed = Command::new("kill").args(["-INT", &search.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = search.wait_with_output().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert_eq!((&told["interrupted"], &told["confirmed"]), (&true.into(), &false.into()), "{told}");
    assert!(told["holds_per_second"].as_u64() >= Some(50), "{told}");
    assert!(folder.path().join("load.html").exists());
}

#[test]
fn a_receiver_that_ends_while_its_limit_is_searched_leaves_what_was_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // One more than the first connection, which only checks that the receiver listens.
        let mut answered = 0;
        while answered < 50 {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut buffer = [0; 64 * 1024];
            if matches!(stream.read(&mut buffer), Ok(1..)) {
                answered += 1;
                let answer = b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n";
                let _gone = stream.write_all(answer);
            }
        }
    });
    let search = ["--find-max", "--slo", "p99<10s", "--for", "1s"];
    let arguments = [&["load", &url, "--secret-env", "HOOK_SECRET"][..], &search].concat();
    check(&arguments, 2, "held, but not three times in a row, at 50/s; fails at 100/s");
}
