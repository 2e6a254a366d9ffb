use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::binary::FOREVER;
use crate::binary::http::{Answer, read, request};
use crate::input::bystander::Bystander;

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, max_shrink_iters: 100, failure_persistence: None, ..Config::default() })
}

/// A malformed head may get no answer.
fn send(address: &str, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    read(&stream).ok()
}

/// Only the HTTP library refuses without a body, before there is a request.
#[track_caller]
fn is_proper(answer: &Answer) {
    match answer.status {
        200..=299 => {}
        400 | 414 | 431 | 505 if answer.body.is_empty() => {}
        400..=499 | 503 => answer.is_a_refusal(),
        _ => panic!("{answer:?}"),
    }
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("1e999999".to_owned()),
        Just("-0.0000001e-400".to_owned()),
        any::<f64>().prop_map(|number| serde_json::to_string(&number).unwrap()),
        "[0-9]{1,400}",
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        r#""\\u[dD][89a-f][0-9a-f]{2}""#,
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let names = prop_oneof![
            Just("type".to_owned()),
            Just("data".to_owned()),
            Just("key".to_owned()),
            Just("id".to_owned()),
            Just("name".to_owned()),
            Just("url".to_owned()),
            Just("limit".to_owned()),
            ".{0,5}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((names, inner), 0..6).prop_map(|fields| {
                let field = |(name, value): (String, String)| {
                    format!("{}:{value}", serde_json::to_string(&name).unwrap())
                };
                format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

#[test]
fn any_bytes_on_a_socket_and_any_json_are_answered_properly() {
    let (_database, serving, bystander) = Bystander::beside();
    let bytes = proptest::collection::vec(any::<u8>(), 0..2_000);
    runner(150)
        .run(&bytes, |bytes| {
            if let Some(answer) = send(&serving.address, &bytes) {
                is_proper(&answer);
            }
            Ok(())
        })
        .unwrap();
    let paths = prop_oneof![
        Just("POST /v1/events"),
        Just("POST /v1/subscribers"),
        Just("PATCH /v1/subscribers/bystander"),
        Just("POST /v1/dead/redrive"),
        Just("POST /v1/dead/purge"),
        Just("POST /v1/subscribers/nobody/shed"),
        Just("POST /v1/subscribers/nobody/retry"),
        Just("POST /v1/subscribers/nobody/rotate"),
    ];
    runner(250)
        .run(&(paths, json()), |(path, json)| {
            // These settings must stay unchanged.
            prop_assume!(
                !path.starts_with("PATCH") || !json.contains("\"limit\"") && !json.contains("\"url\"")
            );
            let (method, path) = path.split_once(' ').unwrap();
            is_proper(&request(&serving.address, method, path, "application/json", json.as_bytes()));
            Ok(())
        })
        .unwrap();
    let parts = (
        prop_oneof![Just("POST".to_owned()), Just("GET".to_owned()), "[A-Z]{0,9}"],
        prop_oneof![Just("/v1/events".to_owned()), "/[ -~]{0,40}"],
        prop_oneof![Just("HTTP/1.1"), Just("HTTP/1.0"), Just("HTTP/9.9"), Just("")],
        proptest::collection::vec(("[a-zA-Z-]{1,20}", "[ -~]{0,40}"), 0..80),
        prop_oneof![Just("5".to_owned()), "-?[0-9]{1,30}", Just("5, 5".to_owned()), Just("0x5".to_owned())],
        proptest::collection::vec(any::<u8>(), 0..50),
    );
    runner(150)
        .run(&parts, |(method, path, version, headers, length, body)| {
            let mut bytes = format!("{method} {path} {version}\r\nhost: localhost\r\n").into_bytes();
            for (name, value) in headers {
                bytes.extend(format!("{name}: {value}\r\n").into_bytes());
            }
            bytes.extend(format!("content-length: {length}\r\n\r\n").into_bytes());
            bytes.extend(body);
            if let Some(answer) = send(&serving.address, &bytes) {
                is_proper(&answer);
            }
            Ok(())
        })
        .unwrap();
    bystander.did_not_notice(serving);
}

#[test]
fn lengths_that_lie_and_chunks_that_are_none_are_refused_by_hand() {
    let (_database, serving, bystander) = Bystander::beside();
    let head = "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let event = r#"{"type":"a","data":1}"#;
    let rows: [(&str, String, &[u16]); 12] = [
        ("huge", format!("content-length: 99999999999999\r\n\r\n{event}"), &[400, 413]),
        ("beyond 64 bits", format!("content-length: 99999999999999999999999\r\n\r\n{event}"), &[400]),
        ("negative", format!("content-length: -1\r\n\r\n{event}"), &[400]),
        ("twice, different", format!("content-length: 21\r\ncontent-length: 5\r\n\r\n{event}"), &[400]),
        ("too long", format!("content-length: 500\r\n\r\n{event}"), &[400]),
        ("too short", format!("content-length: 5\r\n\r\n{event}"), &[400]),
        ("no chunk size", "transfer-encoding: chunked\r\n\r\nzz\r\n\r\n".to_owned(), &[400]),
        ("a huge chunk", "transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx".to_owned(), &[400, 413]),
        ("beyond 64 bits", "transfer-encoding: chunked\r\n\r\nfffffffffffffffffffff\r\nx".to_owned(), &[400]),
        (
            "an endless extension",
            format!("transfer-encoding: chunked\r\n\r\n1;{}", "x".repeat(100_000)),
            &[400],
        ),
        (
            "many trailers",
            format!("transfer-encoding: chunked\r\n\r\n0\r\n{}", "a: b\r\n".repeat(9_000)),
            &[400],
        ),
        ("an unknown coding", format!("transfer-encoding: gzip\r\n\r\n{event}"), &[400]),
    ];
    for (what, rest, expected) in rows {
        // No answer means that there was no request.
        if let Some(answer) = send(&serving.address, format!("{head}{rest}").as_bytes()) {
            assert!(expected.contains(&answer.status), "{what}: {answer:?}");
            is_proper(&answer);
        }
    }
    bystander.did_not_notice(serving);
}

#[test]
fn json_that_is_deep_or_long_is_refused_with_its_field() {
    let (_database, serving, bystander) = Bystander::beside();
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let rows: [(String, u16, &str); 7] = [
        (format!(r#"{{"type":"a","data":{}}}"#, deep(60)), 202, ""),
        (format!(r#"{{"type":"a","data":{}}}"#, deep(65)), 422, "too_deep"),
        (format!(r#"{{"type":"a","data":{}}}"#, deep(400_000)), 422, "too_deep"),
        ("[".repeat(900_000), 422, ""),
        (format!(r#"{{"type":"a","data":{}}}"#, "9".repeat(500_000)), 202, ""),
        (format!(r#"{{"type":"a","data":"{}"}}"#, "x".repeat(1 << 20)), 413, ""),
        (format!(r#"{{"type":"{}","data":1}}"#, "x".repeat(500_000)), 422, ""),
    ];
    for (body, status, code) in rows {
        let answer = serving.post("/v1/events", &body);
        assert!(answer.status == status || status == 422 && answer.status == 400, "{answer:?}");
        if status != 202 {
            answer.is_a_refusal();
            assert!(answer.text().contains(code), "{answer:?}");
            assert!(answer.body.len() < 2_000, "a refusal does not repeat what was sent");
        }
    }
    bystander.did_not_notice(serving);
}

#[test]
fn a_crowd_of_slow_and_silent_connections_keeps_nobody_out() {
    let (_database, serving, bystander) = Bystander::beside();
    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(&serving.address).unwrap()).collect();
    let mut slow: Vec<_> = (0..200).map(|_| TcpStream::connect(&serving.address).unwrap()).collect();
    let request = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 21\r\n\r\n{}",
        r#"{"type":"a","data":1}"#
    );
    for (place, byte) in request.bytes().enumerate() {
        for stream in &mut slow {
            stream.write_all(&[byte]).unwrap();
        }
        if place % 10 == 0 {
            assert_eq!(serving.post("/v1/events", r#"{"type":"b","data":1}"#).status, 202);
        }
    }
    for stream in &slow {
        assert_eq!(read(stream).unwrap().status, 202);
    }
    drop(silent);
    bystander.did_not_notice(serving);
}

#[test]
fn a_flood_of_headers_ends_its_connection_and_no_other() {
    let (_database, serving, bystander) = Bystander::beside();
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    stream.set_read_timeout(Some(FOREVER)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let flood = "x-flood: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1_000);
    let mut sent = 0;
    while stream.write_all(flood.as_bytes()).is_ok() {
        sent += flood.len();
        assert!(sent < 64 << 20, "it reads on and on");
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&rest));
    bystander.did_not_notice(serving);
}
