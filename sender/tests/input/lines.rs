use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::binary::http::request;
use crate::input::bystander::Bystander;

const GOOD: &str = r#"{"type":"a","data":{"n":1}}"#;

fn line() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let bad = |bytes: &[u8]| Just((bytes.to_vec(), false));
    prop_oneof![
        4 => Just((GOOD.as_bytes().to_vec(), true)),
        1 => bad(b"{"),
        1 => bad(b"null"),
        1 => bad(b"\xff\xfe\x00"),
        1 => bad(br#"{"type":"a","data":1}{"type":"a","data":1}"#),
        1 => bad(br#"{"type":"","data":1}"#),
        1 => bad(br#"{"type":"a","data":1,"type":"b"}"#),
        1 => bad(br#"{"type":"a"}"#),
        1 => Just((vec![b'['; 5_000], false)),
        1 => Just((format!(r#"{{"type":"a","data":"{}"}}"#, "x".repeat(1 << 20)).into_bytes(), false)),
        2 => proptest::collection::vec(1_u8.., 1..50).prop_map(|mut bytes| {
            bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
            // Never blank: blank lines are skipped.
            bytes.insert(0, b'!');
            (bytes, false)
        }),
    ]
}

#[test]
fn each_line_is_answered_for_itself_whatever_stands_around_it() {
    let (_database, serving, bystander) = Bystander::beside();
    let config = Config { cases: 60, max_shrink_iters: 50, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&proptest::collection::vec(line(), 1..12), |lines| {
            let bodies: Vec<&[u8]> = lines.iter().map(|(bytes, _)| &bytes[..]).collect();
            let body = bodies.join(&b'\n');
            let answer = request(&serving.address, "POST", "/v1/events", "application/x-ndjson", &body);
            let all = lines.iter().all(|(_, good)| *good);
            prop_assert_eq!(answer.status, if all { 202 } else { 207 });
            let text = answer.text();
            let answers: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(answers.len(), lines.len());
            for (number, (answer, (_, good))) in answers.iter().zip(&lines).enumerate() {
                prop_assert_eq!(&answer["line"], number + 1);
                prop_assert_eq!(answer["id"].is_string(), *good, "{}", answer);
                let error = &answer["error"];
                prop_assert!(
                    *good || error["code"].is_string() && error["message"].is_string(),
                    "{}",
                    answer
                );
            }
            Ok(())
        })
        .unwrap();
    bystander.did_not_notice(serving);
}
