//! A small receiver in Python, whose one bug fails many cases: they are told once.

use crate::suite::hookproof;
use crate::suite::reference::{Daemon, SECRET, free_port};

/// Any exception becomes 500; `rewrites` verifies the JSON that it writes again.
const RECEIVER: &str = r#"
import base64, hashlib, hmac, json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

key = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"))

class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        try:
            status = self.judged()
        except Exception:
            status = 500
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def judged(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if sys.argv[2] == "rewrites":
            body = json.dumps(json.loads(body), separators=(",", ":")).encode()
        stamp = self.headers["webhook-timestamp"]
        if abs(time.time() - int(stamp)) > 300:
            return 401
        signed = f"{self.headers['webhook-id']}.{stamp}.".encode() + body
        tag = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        if not hmac.compare_digest("v1," + tag, self.headers["webhook-signature"]):
            return 401
        json.loads(body)
        return 204

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
"#;

fn judged(kind: &str, only: &str) -> Option<String> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: Python is not on this machine");
        return None;
    }
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    std::fs::write(folder.path().join("receiver.py"), RECEIVER).unwrap();
    let daemon =
        Daemon::start(folder, port, &format!("HOOK_SECRET={SECRET} python3 receiver.py {port} {kind}"));
    let output = hookproof(&["receiver", &daemon.url(), "--secret-env", "HOOK_SECRET", "--only", only]);
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn story<'t>(told: &'t str, head: &str) -> Vec<&'t str> {
    told.lines().skip_while(|line| !line.contains(head)).take(5).collect()
}

#[test]
fn a_receiver_that_answers_each_exception_with_500_is_told_so_once() {
    let cases = "sig,time,header.not-ascii,raw.empty,raw.not-json,raw.not-utf8,limit.deep,limit.inflate";
    let Some(told) = judged("raises", cases) else { return };
    let lines = story(&told, "cause-1: 500 where 4xx is due, in ");
    for case in
        ["sig.missing", "time.missing", "time.extreme", "header.not-ascii", "raw.not-json", "limit.deep"]
    {
        assert!(lines[1].starts_with("  cases:    ") && lines[1].contains(case), "{case}: {told}");
    }
    assert_eq!(
        lines[2],
        "  remedy:   catch each error of parsing or verifying a request, and answer 400 (hookproof explain raw.not-json)"
    );
    assert!(lines[3].starts_with("  repeat:   curl -sS -i -X POST 'http://127.0.0.1:"), "{told}");
    assert!(lines[4].starts_with("  all:      hookproof receiver http://127.0.0.1:"), "{told}");
    assert!(lines[4].contains(" --only sig.missing,"), "{told}");
    let row = told.lines().find(|line| line.contains(" header.not-ascii "));
    assert!(row.is_some_and(|line| line.starts_with("  FAIL ") && line.ends_with(" (cause-1)")), "{told}");
    assert!(told.contains("INCONCLUSIVE   limit.inflate"), "{told}");
}

#[test]
fn a_receiver_that_writes_json_again_is_told_so_once() {
    let Some(told) = judged("rewrites", "sig.valid,raw") else { return };
    let lines = story(&told, ": 401 where 2xx is due, in 5 cases");
    let cases = "raw.whitespace, raw.duplicate-keys, raw.escapes, raw.numbers, raw.newline";
    assert_eq!(lines[1], format!("  cases:    {cases}"));
    let remedy = "verify over the raw bytes, before any framework parses them";
    assert_eq!(told.matches(remedy).count(), 1, "{told}");
    // It parses first, so that an answer of 400 in place of 500 would not mend it.
    assert!(told.contains("remedy:   verify before anything parses the body"), "{told}");
}
