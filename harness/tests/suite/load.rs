//! `hookproof load`, against the smallest thing that answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::{check, hookproof};

/// Answers every request on every connection with this status; requests come whole, as they are small.
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
    let output = hookproof(&load(&["--rate", "20/s"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("20 × 500"));
    check(&load(&["--find-max", "--slo", "p99<10s"]), 1, "nothing was accepted at 50/s");
    check(&load(&["--find-max", "--slo", "fast"]), 64, "p99<250ms");
}
