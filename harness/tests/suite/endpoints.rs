//! The suite against endpoints that are no receivers.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use hookproof_judge::catalogue;
use hookproof_judge::signature::{Profile, Secret};

use crate::suite::check;
use crate::suite::reference::{SECRET, free_port};
use hookproof::suite::{self, Bodies, Hooks, Known, Selection, Settings, Step};
use hookproof::wire::clock::unix_seconds;
use hookproof::wire::request::Target;

pub(crate) fn endpoint(answer: fn(&mut TcpStream)) -> String {
    format!("http://{}/", serve_at(0, answer))
}

/// On this port; 0 for any.
pub(crate) fn serve_at(port: u16, answer: fn(&mut TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 64 * 1024];
                if matches!(stream.read(&mut buffer), Ok(1..)) {
                    answer(&mut stream);
                }
            });
        }
    });
    address
}

/// A script starts its receiver right before the suite.
#[test]
fn a_receiver_that_starts_a_moment_later_is_waited_for() {
    let port = free_port();
    let profile = Profile::GITHUB;
    let settings = Settings {
        target: Target::parse(&format!("http://127.0.0.1:{port}/")).unwrap(),
        profile,
        secret: Secret::parse(profile, "a secret of the tests").unwrap(),
        retired: None,
        verify_token: None,
        tolerance_seconds: Settings::TOLERANCE_SECONDS,
        bodies: Bodies::All,
        timeout: Settings::TIMEOUT,
        slow_limit: Settings::SLOW_LIMIT,
        hooks: Hooks::default(),
        selection: Selection::new(catalogue::receiver(), &["sig.valid".to_owned()], &[]).unwrap(),
        known: Known::default(),
        strict: false,
        again: "--secret-env HOOK_SECRET".to_owned(),
    };
    let started = Cell::new(false);
    let start = |step: Step<'_>| {
        if matches!(step, Step::Waits) && !started.replace(true) {
            serve_at(port, |stream| drop(stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(suite::run(&settings, start)).unwrap();
    assert!(started.get(), "it was there from the beginning");
    assert_eq!(report.exit_code(), 0, "{}", report.table(hookproof_judge::report::Colours::No));
}

/// Writes `again` until the peer closes.
fn flood(stream: &mut TcpStream, head: &[u8], again: &[u8]) {
    let block = again.repeat(64 * 1024 / again.len());
    let mut open = stream.write_all(head).is_ok();
    while open {
        open = stream.write_all(&block).is_ok();
    }
}

/// A correct delivery must fail, and nothing else can be judged.
#[track_caller]
fn check_failing(answer: fn(&mut TcpStream), said: &str) {
    let url = endpoint(answer);
    check(&["receiver", &url, "--secret-env", "HOOK_SECRET", "--timeout", "5s"], 1, said);
}

#[test]
fn an_endpoint_that_closes_at_once_fails_the_correct_delivery() {
    check_failing(|_| {}, ": closed without an answer");
}

#[test]
fn a_failure_that_prevents_all_other_cases_is_reported_once() {
    check_failing(|_| {}, "; a correct delivery gets closed without an answer");
}

/// A stranger may hold the port.
#[test]
fn a_program_that_accepts_nothing_is_named_and_so_are_the_cases_that_were_left_out() {
    let url = endpoint(|stream| {
        let answer = b"HTTP/1.1 404 Not Found\r\nServer: SimpleHTTP/0.6\r\nContent-Length: 0\r\n\r\n";
        drop(stream.write_all(answer));
    });
    let secret = ["--secret-env", "HOOK_SECRET", "--timeout", "2s"];
    let arguments = [&["receiver", &url][..], &secret, &["--skip", "timing,limit.slow"]].concat();
    let named = format!("is the program at {url}, which calls itself \"SimpleHTTP/0.6\" your receiver?");
    for said in
        [named.as_str(), "\nFAIL: 1 failed · ", "\ncases left out by --skip: limit.slow, timing.remote\n"]
    {
        check(&arguments, 1, said);
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let only = ["--only", "sig.valid", "--out", &out, "--restart-command", "sh 'a b'"];
    let left_out = format!("\ncases left out by --only: {}\n", catalogue::receiver().len() - 1);
    check(&[&["receiver", &url][..], &secret, &only].concat(), 1, &left_out);
    let page = std::fs::read_to_string(folder.path().join("receiver.html")).unwrap();
    let again = "--profile standard-webhooks --secret-env HOOK_SECRET --restart-command $&#39;sh \\&#39;a b\\&#39;&#39; \
                 --timeout 2000ms --only sig.valid";
    assert!(
        page.contains(again) || page.replace("&#39;", "'").contains(&again.replace("&#39;", "'")),
        "{page}"
    );
}

/// It accepts everything, each request on a connection of its own.
#[test]
fn a_failure_is_shown_with_the_line_that_repeats_it_and_junit_counts_plainly() {
    let url = format!("http://{}/", serve_each(|_| Some(())));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("known.toml"), "['sig.valid']\nwhy = 'ticket 1'\n").unwrap();
    let reports = ["--junit", &file("junit.xml"), "--known", &file("known.toml")];
    let only = ["--secret-env", "HOOK_SECRET", "--only", "sig.valid,sig.missing,sig.empty"];
    let arguments = [&["receiver", &url][..], &only, &reports].concat();
    check(&arguments, 1, &format!("repeat:   curl -sS -i -X POST '{url}' -H 'Host: "));
    let junit = std::fs::read_to_string(file("junit.xml")).unwrap();
    let told = "failed cases: 2; cases that passed, though --known expects them to fail: 1";
    assert!(junit.contains(told), "{junit}");
}

#[test]
fn a_receiver_that_accepts_each_forgery_alike_does_not_verify_first() {
    let url = format!("http://{}/", serve_each(|_| Some(())));
    let only = ["--strict", "--only", "sig.valid,raw.verify-first"];
    check(
        &[&["receiver", &url, "--secret-env", "HOOK_SECRET"][..], &only].concat(),
        1,
        "FAIL           raw.verify-first",
    );
}

/// Checks only the age, as Stripe's own libraries do.
#[test]
fn stripes_own_way_to_look_at_the_age_is_a_warning() {
    let address = serve_each(|request| {
        let text = String::from_utf8_lossy(request);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let header = head.lines().find_map(|line| line.strip_prefix("stripe-signature: t="))?;
        let (timestamp, signature) = header.split_once(",v1=")?;
        let secret = Secret::parse(Profile::STRIPE, SECRET).ok()?;
        let expected = secret.tag(format!("{timestamp}.{body}").as_bytes());
        let expected: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
        let age = i128::from(unix_seconds()) - timestamp.parse::<i128>().ok()?;
        (expected == signature && age <= 300).then_some(())
    });
    let url = format!("http://{address}/");
    let only = ["--profile", "stripe", "--only", "time.future,time.extreme,sig.wrong-secret"];
    let arguments = [&["receiver", &url, "--secret-env", "HOOK_SECRET"][..], &only].concat();
    check(&arguments, 0, "\nWARN: 2 warned · 1 passed");
    check(
        &[&arguments[..], &["--strict"]].concat(),
        1,
        "the greatest 64-bit number: 204; a thousand times too large: 204",
    );
}

/// Answers 204 if `judge` finds something, else 401. Requests are small, so one read holds each.
fn serve_each(judge: fn(&[u8]) -> Option<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 64 * 1024];
        for mut stream in listener.incoming().flatten() {
            let Ok(count) = stream.read(&mut buffer) else { continue };
            let status = if judge(&buffer[..count]).is_some() { 204 } else { 401 };
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn an_endpoint_that_hangs_fails_the_correct_delivery() {
    check_failing(
        |stream| {
            let _until_it_ends = stream.read_to_end(&mut Vec::new());
        },
        ": no answer in time",
    );
}

#[test]
fn an_endpoint_that_drips_its_answer_is_not_waited_for() {
    check_failing(
        |stream| {
            for byte in b"HTTP/1.1 204 No Content\r\nA-Long-Header: a".iter().chain(std::iter::repeat(&b'a'))
            {
                std::thread::park_timeout(std::time::Duration::from_millis(50));
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
            }
        },
        ": no answer in time",
    );
}

#[test]
fn garbage_is_no_answer() {
    check_failing(|stream| drop(stream.write_all(b"220 mail.example ESMTP\r\n")), ": not HTTP");
    check_failing(|stream| flood(stream, b"HTTP/1.1 200 OK\r\nA: ", b"a"), ": not HTTP");
}

#[test]
fn interim_answers_without_end_are_no_answer() {
    check_failing(|stream| flood(stream, b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "interim answers");
}

#[test]
fn a_redirect_is_not_followed() {
    check_failing(
        |stream| {
            drop(stream.write_all(
                b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
            ));
        },
        ": 302",
    );
}

/// The status decides, so the suite finds that it accepts.
#[test]
fn an_answer_without_end_is_cut_off() {
    let url = endpoint(|stream| flood(stream, b"HTTP/1.1 200 OK\r\n\r\n", b"x"));
    check(&["receiver", &url, "--secret-env", "HOOK_SECRET", "--only", "sig.valid,sig.missing"], 1, ": 200");
}
