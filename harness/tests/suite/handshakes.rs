use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use ring::hmac;

use crate::suite::reference::{SECRET, reference};
use crate::suite::{check, hookproof};

const HANDSHAKE: &str = "handshake.answered, handshake.forged, handshake.event";
const ALL: &str = "handshake.answered, handshake.forged, handshake.event, handshake.permission";

/// No status: it leaves the connection open.
const SILENT: u16 = 0;

struct Request {
    /// Method, path and query.
    line: String,
    signature: String,
    body: String,
}

/// One request on each connection.
fn receiver(kind: &'static str, answer: impl Fn(&Request) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let line = lines.next().unwrap_or_default();
            let headers: Vec<String> = lines.collect();
            let header = |name: &str| headers.iter().find_map(|line| line.strip_prefix(name));
            let length =
                header("Content-Length: ").and_then(|length| length.parse().ok()).unwrap_or_default();
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            let body = String::from_utf8_lossy(&body).into_owned();
            let signature = header("S: ").unwrap_or_default().to_owned();
            let (status, text) = answer(&Request { line, signature, body });
            if status == SILENT {
                silent.push(stream);
                continue;
            }
            let head = format!(
                "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            let _gone = stream.write_all((head + &text).as_bytes());
        }
    });
    url
}

#[track_caller]
fn judged(url: &str, more: &[&str]) -> (Option<i32>, String) {
    let all = ["receiver", url, "--secret-env", "HOOK_SECRET", "--only", "handshake"];
    let output = hookproof(&[&all, more].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[track_caller]
fn fails(url: &str, more: &[&str], case: &str, came: &str) {
    let (code, told) = judged(url, more);
    let count = told.matches("  FAIL  ").count();
    assert!((code, count) == (Some(1), 1) && told.contains(&format!("FAIL           {case}")), "{told}");
    assert!(told.contains(came), "{told}");
    assert!(!told.contains("let me i") && !told.contains("let%20me%20i"), "{told}");
}

/// The token stands in a query, so a report must not show it.
#[test]
fn a_receiver_that_quotes_a_challenge_or_takes_any_token_is_found() {
    let meta = |flaw: &'static str| {
        receiver("text/html", move |Request { line, .. }| {
            let Some((_, query)) = line.split_once("?hub.mode=subscribe&hub.challenge=") else {
                return (204, String::new());
            };
            let bare = query.split(' ').next().unwrap_or_default();
            let (challenge, rest) = query.split_once('&').unwrap_or((bare, ""));
            let token = "hub.verify_token=let%20me%20in";
            let is_right = match flaw {
                "prefix" => rest.starts_with(token),
                "absent" => rest.is_empty() || rest.starts_with(&format!("{token} ")),
                _ => rest.starts_with(&format!("{token} ")),
            };
            match flaw {
                "silent" if !is_right => (SILENT, String::new()),
                "polite" if !is_right => (200, "Error, wrong validation token".to_owned()),
                "echoes" if !is_right => (403, challenge.to_owned()),
                _ if !is_right && flaw != "token" => (403, String::new()),
                "quoted" => (200, format!("\"{challenge}\"")),
                "created" => (201, challenge.to_owned()),
                _ => (200, challenge.to_owned()),
            }
        })
    };
    let token = ["--profile", "meta", "--verify-token-env", "VERIFY_TOKEN"];
    let (code, told) = judged(&meta("none"), &token);
    assert_eq!(code, Some(0), "{told}");
    fails(&meta("quoted"), &token, "handshake.answered", "a handshake: 200 with '\"1");
    fails(&meta("created"), &token, "handshake.answered", "a handshake: 201");
    let with = "200 with the answer to a handshake";
    let both = format!("a handshake with another token: {with}; a handshake with an empty token: {with}");
    fails(&meta("token"), &token, "handshake.forged", &both);
    fails(&meta("prefix"), &token, "handshake.forged", &format!("a handshake with a longer token: {with}"));
    fails(&meta("absent"), &token, "handshake.forged", &format!("a handshake without a token: {with}"));
    fails(&meta("echoes"), &token, "handshake.forged", "another token: 403 with the answer to a handshake");
    // As in Meta's samples: its documents ask for nothing but the challenge, and for that only by the right token.
    for flaw in ["silent", "polite"] {
        let (code, told) = judged(&meta(flaw), &[&token[..], &["--timeout", "500ms"]].concat());
        assert_eq!(code, Some(0), "{flaw}: {told}");
    }
}

const PROFILE: &str = r#"
algorithm = "hmac-sha256"
header    = "S"
signed    = ["{body}"]
[handshake]
body    = '{"hello":"{challenge}"}'
refusal = 401
[handshake.answers]
"application/json" = '{"hello":"{challenge}","proof":"{hmac}"}'
"#;

#[test]
fn a_profile_of_its_own_has_a_handshake_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.toml").display().to_string();
    std::fs::write(&path, PROFILE).unwrap();
    let own = |flaw: &'static str| {
        let kind = if flaw == "typed" { "text/html" } else { "application/json; charset=utf-8" };
        receiver(kind, move |Request { signature, body, .. }| {
            let tag = |text: &str| {
                let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
                hookproof_judge::signature::hex(hmac::sign(&key, text.as_bytes()).as_ref())
            };
            if *signature != tag(body) && flaw == "oracle" {
                let text = body.trim_matches(|c: char| !c.is_ascii_digit());
                return (401, format!(r#"{{"expected":"{}"}}"#, tag(text)));
            }
            if *signature != tag(body) {
                return (if flaw == "status" { 403 } else { 401 }, String::new());
            }
            let event: serde_json::Value = serde_json::from_str(body).unwrap();
            let found = if flaw == "deep" { event["data"].get("hello") } else { None };
            match event.get("hello").or(found).and_then(serde_json::Value::as_str) {
                Some(_) if flaw == "stored" => (204, String::new()),
                Some(challenge) => {
                    (200, format!(r#"{{"proof": "{}", "hello": "{challenge}", "more": []}}"#, tag(challenge)))
                }
                None => (204, String::new()),
            }
        })
    };
    let (code, told) = judged(&own("none"), &["--profile", &path]);
    assert_eq!(code, Some(0), "{told}");
    let hint = "if the receiver is not meant to answer a handshake, add --without handshake";
    fails(&own("stored"), &["--profile", &path], "handshake.answered", hint);
    let kind = "a handshake: 200 with Content-Type 'text/html' where 'application/json' is due";
    fails(&own("typed"), &["--profile", &path], "handshake.answered", kind);
    let status = "a handshake signed with another secret: 403";
    fails(&own("status"), &["--profile", &path], "handshake.forged", status);
    let oracle = "signed with another secret: 401 with the answer to a handshake";
    fails(&own("oracle"), &["--profile", &path], "handshake.forged", oracle);
    let deep = "an event that mentions a handshake: 200 with the answer to a handshake";
    fails(&own("deep"), &["--profile", &path], "handshake.event", deep);
}

#[test]
fn a_certificate_names_the_profile_of_its_own_by_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let path = file("own.toml");
    std::fs::write(&path, PROFILE).unwrap();
    let url = receiver("text/plain", |_| (204, String::new()));
    judged(&url, &["--profile", &path, "--certificate", &file("handed")]);
    let written = std::fs::read_dir(file("handed")).unwrap().map(|entry| entry.unwrap().path());
    let json = written.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let json = json.map(|path| path.display().to_string()).next().unwrap();
    check(&["verify-certificate", &json, "--profile", &path], 0, "(receiver) by ");
    std::fs::write(&path, PROFILE.replace("401", "# 401")).unwrap();
    check(&["verify-certificate", &json, "--profile", &path], 1, "it is by another profile");
    check(&["verify-certificate", &json], 0, "(receiver) by ");
}

#[test]
fn a_sender_of_cloudevents_asks_for_permission() {
    let (daemon, _) = reference("cloudevents");
    let asks = ["--profile", "cloudevents"];
    let standard = ["--standard", "cloudevents-webhook@1.0.2"];
    let (_, told) = judged(&daemon.url(), &[asks, standard].concat());
    assert!(
        told.contains("  PASS           handshake.permission") && told.contains("1 of 1 should met"),
        "{told}"
    );
    let answers = |kind: &'static str, status: u16| {
        receiver(kind, move |request| {
            let is_asked = request.line.starts_with("OPTIONS");
            (if is_asked { status } else { 204 }, String::new())
        })
    };
    let both = "text/plain\r\nWebHook-Allowed-Origin: *\r\nWebHook-Allowed-Rate: *";
    let (_, told) = judged(&answers(both, 405), &asks);
    assert!(told.contains("  PASS           handshake.permission"), "{told}");
    let none = "200 with no webhook-allowed-origin where 'hookproof.example' or '*' is due";
    fails(&answers("text/plain", 200), &asks, "handshake.permission", none);
    let zero = "text/plain\r\nWebHook-Allowed-Origin: *\r\nWebHook-Allowed-Rate: 0";
    let due = "webhook-allowed-rate '0' where a number above 0 or '*' is due";
    fails(&answers(zero, 200), &asks, "handshake.permission", due);
}

#[test]
fn a_handshake_that_is_left_out_or_not_judged_is_named() {
    let (meta, _) = reference("meta");
    let url = meta.url();
    let whom = ["receiver", &url, "--secret-env", "HOOK_SECRET", "--only", "sig.valid,handshake"];
    let with = |more: &[&'static str]| [&whom[..], more].concat();
    let hint = "add these options, or leave the cases out with --without handshake";
    let unjudged = format!("not judged: {HANDSHAKE} (without --verify-token-env); {hint}");
    check(&with(&["--profile", "meta"]), 2, &unjudged);
    let left_out = format!("cases left out: {ALL} (without a handshake)");
    check(&with(&["--profile", "meta", "--without", "handshake"]), 0, &left_out);
    let token = ["--verify-token-env", "VERIFY_TOKEN"];
    check(
        &with(&[&["--profile", "meta", "--without", "handshake"], &token[..]].concat()),
        64,
        "--without handshake leaves out the cases of --verify-token-env; found both",
    );
    check(&with(&[&["--profile", "slack"], &token[..]].concat()), 64, "no token proves a handshake of slack");
    check(
        &with(&["--profile", "meta", "--verify-token-env", "NO_TOKEN"]),
        64,
        "expected the receiver's verify token",
    );
    check(&with(&["--profile", "github"]), 0, "github has no handshake");
    check(&["explain", "handshake.forged"], 0, "needs       a server, a handshake");
}
