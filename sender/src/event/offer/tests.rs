use proptest::prelude::*;

use super::*;
use crate::engine::time::StoreTime;
use crate::event::{Body, Depth};
use crate::fuzzing::{Random, Target};

const LIMITS: Limits =
    Limits { event_bytes_max: 400, batch_bytes_max: 1_000, batch_events_max: 3, depth_max: Depth::DEFAULT };

fn parse(text: &str) -> Result<Offer<'_>, Refusal> {
    Offer::parse(text.as_bytes(), &LIMITS)
}

#[track_caller]
fn check_refused(text: &str, code: &str, field: Option<&str>) -> String {
    let refusal = parse(text).unwrap_err();
    assert_eq!((refusal.code(), refusal.field()), (code, field), "{text}");
    refusal.to_string()
}

#[test]
fn an_event_has_a_type_and_data_and_perhaps_an_id_and_a_key() {
    let full =
        parse(r#" {"data": {"views": 1.0}, "key":"v\u0031", "type":"video.trending","id":"e-1"} "#).unwrap();
    assert_eq!(full.id.as_ref().map(PublicId::as_str), Some("e-1"));
    assert_eq!(full.event_type.as_str(), "video.trending");
    assert_eq!(full.key.as_ref().map(EventKey::as_str), Some("v1"));
    assert_eq!(full.data.text(), r#"{"views": 1.0}"#);
    let least = parse(r#"{"\u0074ype":"a","data":null,"key":null}"#).unwrap();
    assert_eq!((least.id, least.key, least.data), (None, None, Json::NULL));
}

#[test]
fn each_refusal_has_its_code_and_its_field() {
    let deep = format!(r#"{{"type":"a","data":{}}}"#, "[".repeat(100));
    let long = |bytes| "x".repeat(bytes);
    check_refused(&long(401), "event_too_large", None);
    check_refused("", "not_json", None);
    check_refused("{", "not_json", None);
    check_refused(&deep, "too_deep", None);
    check_refused("[]", "not_an_object", None);
    check_refused(r#""text""#, "not_an_object", None);
    check_refused(r#"{"type":"a","data":1,"Key":"k"}"#, "unknown_field", Some("Key"));
    check_refused(r#"{"type":"a","data":1,"\ud800":"k"}"#, "unknown_field", Some(r#""\ud800""#));
    check_refused(r#"{"type":"a","data":1,"type":"a"}"#, "doubled_field", Some("type"));
    check_refused(r#"{"type":"a","data":1,"\u0064ata":1}"#, "doubled_field", Some("data"));
    check_refused(r#"{"data":1}"#, "missing_field", Some("type"));
    check_refused(r#"{"type":"a"}"#, "missing_field", Some("data"));
    check_refused(r#"{"type":7,"data":1}"#, "not_text", Some("type"));
    check_refused(r#"{"type":null,"data":1}"#, "not_text", Some("type"));
    check_refused(r#"{"type":"a","data":1,"key":7}"#, "not_text", Some("key"));
    check_refused(r#"{"type":"a","data":1,"id":{}}"#, "not_text", Some("id"));
    check_refused(r#"{"type":"a","data":1,"id":null}"#, "not_text", Some("id"));
    check_refused(r#"{"type":"a","data":["\udfff"]}"#, "lone_surrogate", Some("data"));
    check_refused(r#"{"type":"a","data":1,"key":"\u202e"}"#, "key_character", Some("key"));
    check_refused(r#"{"type":"","data":1}"#, "type_empty", Some("type"));
    check_refused(r#"{"type":"a b","data":1}"#, "type_character", Some("type"));
    check_refused(r#"{"type":"a\r\nb","data":1}"#, "type_character", Some("type"));
    check_refused(r#"{"type":"hookproof.a","data":1}"#, "type_reserved", Some("type"));
    check_refused(&format!(r#"{{"type":"{}","data":1}}"#, long(129)), "type_too_long", Some("type"));
    check_refused(r#"{"type":"a","data":1,"key":""}"#, "key_empty", Some("key"));
    check_refused(&format!(r#"{{"type":"a","data":1,"key":"{}"}}"#, long(257)), "key_too_long", Some("key"));
    check_refused(r#"{"type":"a","data":1,"id":""}"#, "id_empty", Some("id"));
    check_refused(r#"{"type":"a","data":1,"id":"a.b"}"#, "id_character", Some("id"));
    check_refused(&format!(r#"{{"type":"a","data":1,"id":"{}"}}"#, long(65)), "id_too_long", Some("id"));
    let refusal = Offer::parse(b"{\"type\":\"\xff\"}", &LIMITS).unwrap_err();
    assert_eq!(refusal.code(), "not_utf8");
}

#[test]
fn a_refusal_is_a_sentence_that_says_what_to_do() {
    let says = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(
        says(r#"{"type":"a","data":1,"payload":2}"#),
        "the event has a field \"payload\"; expected id, type, key, data and atomic only, and anything else inside data"
    );
    assert_eq!(says("[]"), "the event is an array; expected an object with type and data");
    assert_eq!(
        says(r#"{"type":"a","data":}"#),
        "the event cannot be read: it is not JSON: expected value at line 1 column 20"
    );
    assert_eq!(
        says(&format!(r#"{{"type":"a","data":{}}}"#, "[".repeat(100))),
        "the event cannot be read: it is nested more than 64 levels deep at byte 82"
    );
}

#[test]
fn the_longest_words_are_accepted_and_the_event_is_bounded_as_a_whole() {
    let long = |bytes| "x".repeat(bytes);
    let text = format!(r#"{{"type":"{}","data":1,"id":"{}"}}"#, long(128), long(64));
    assert!(parse(&text).is_ok());
    let text = format!(r#"{{"type":"a","data":1,"key":"{}"}}"#, long(256));
    assert!(parse(&text).is_ok());
    let fitting = format!(r#"{{"type":"a","data":"{}"}}"#, long(400 - 22));
    assert_eq!((fitting.len(), parse(&fitting).is_ok()), (400, true));
}

#[test]
fn an_event_from_its_parts_is_the_same_event() {
    let whole = parse(r#"{"id":"e","type":"a","key":"k","data":[1]}"#).unwrap();
    assert_eq!(Offer::from_parts(Some("e"), "a", Some("k"), b" [1] ", &LIMITS), Ok(whole));
    let forged = Offer::from_parts(None, "hookproof.a", None, b"1", &LIMITS);
    assert_eq!(forged.map_err(|refusal| refusal.code()), Err("type_reserved"));
    let code = |data: &[u8]| Offer::from_parts(None, "a", None, data, &LIMITS).unwrap_err().code();
    assert_eq!(code(b"[1"), "not_json");
    assert_eq!(code(&[b' '; 401]), "event_too_large");
}

#[test]
fn one_bad_line_of_a_batch_spoils_no_other() {
    let text =
        "\n{\"type\":\"a\",\"data\":1}\r\n  \n{\"type\":\"a b\",\"data\":1}\n{\"type\":\"b\",\"data\":2}";
    let batch = Batch::new(text.as_bytes(), &LIMITS).unwrap();
    let seen: Vec<_> = batch
        .offers()
        .map(|(line, offer)| (line, offer.map(|offer| offer.data.text()).map_err(|refusal| refusal.code())))
        .collect();
    assert_eq!(seen, [(2, Ok("1")), (4, Err("type_character")), (5, Ok("2"))]);
}

#[test]
fn a_batch_has_its_own_limits() {
    let code = |text: &str| Batch::new(text.as_bytes(), &LIMITS).unwrap_err().code();
    assert_eq!(code(""), "batch_empty");
    assert_eq!(code("\n \r\n"), "batch_empty");
    assert_eq!(code("1\n2\n3\n4"), "batch_too_many");
    assert_eq!(code(&"x".repeat(1_001)), "batch_too_large");
    assert!(Batch::new(b"1\n2\n\n3\n", &LIMITS).is_ok());
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            "(\\{|\\[|\"(id|type|key|data|a)\"|:|,|\\}|\\]|null|1| ){0,20}".prop_map(String::into_bytes),
        ]
    ) {
        let _ = Offer::parse(&bytes, &Limits::default()).map_err(|refusal| (refusal.to_string(), refusal.code()));
        if let Ok(batch) = Batch::new(&bytes, &Limits::default()) {
            prop_assert!(batch.offers().count() > 0);
        }
    }

    #[test]
    fn data_is_carried_byte_for_byte(
        digits in "[1-9][0-9]{0,60}(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,5})?",
        escaped in "(\\\\u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|[dD]83[dD]\\\\u[dD][eE]00)|\\\\[\"\\\\/bfnrt]|[^\"\\\\\\x00-\\x1f]){0,12}",
        blanks in "[ \\t]{0,3}",
    ) {
        let data = format!("{{{blanks}\"{escaped}\":{digits}{blanks},\"a\"{blanks}:[],\"a\":\"{escaped}\"}}");
        let event = format!("{{\"data\":{blanks}{data}{blanks},\"type\":\"a\"}}");
        let offer = Offer::parse(event.as_bytes(), &Limits::default()).unwrap();
        prop_assert_eq!(offer.data.text(), &data);
        let body = Body::build(&"e".parse().unwrap(), &offer.event_type, StoreTime(0), offer.data);
        let expected =
            format!("{{\"id\":\"e\",\"type\":\"a\",\"timestamp\":\"1970-01-01T00:00:00.000Z\",\"data\":{data}}}");
        prop_assert_eq!(String::from_utf8(body.into_bytes()).unwrap(), expected);
    }
}

/// Another JSON parser must agree.
fn outcome(input: &[u8], _: &mut Random) -> String {
    let batch = Batch::new(input, &LIMITS);
    let lines: Vec<_> = batch.map(|batch| batch.offers().collect()).unwrap_or_default();
    assert!(lines.len() <= LIMITS.batch_events_max);
    for (number, offer) in lines {
        let line = input.split(|byte| *byte == b'\n').nth(number - 1).expect("a line of the batch");
        assert_eq!(offer.is_ok(), Offer::parse(line.trim_ascii(), &LIMITS).is_ok());
    }
    match Offer::parse(input, &LIMITS) {
        Ok(offer) => {
            match serde_json::from_slice::<serde_json::Value>(input) {
                Ok(other) => {
                    let data: serde_json::Value = serde_json::from_str(offer.data.text()).expect("JSON");
                    assert_eq!(other["type"].as_str(), Some(offer.event_type.as_str()));
                    assert_eq!(data, other["data"]);
                    assert_eq!(other["id"].as_str(), offer.id.as_ref().map(PublicId::as_str));
                    assert_eq!(other["key"].as_str(), offer.key.as_ref().map(EventKey::as_str));
                }
                // The other parser cannot hold lone surrogates and numbers of any size.
                Err(error) => {
                    let known = ["hex escape", "surrogate", "out of range"];
                    assert!(known.iter().any(|part| error.to_string().contains(part)), "{error}");
                }
            }
            "taken".to_owned()
        }
        Err(refusal) => {
            assert!(refusal.to_string().len() <= 600, "{refusal}");
            refusal.code().to_owned()
        }
    }
}

fn target() -> Target<'static> {
    let corpus = [
        r#"{"type":"video.trending","data":{"views":[1.0,-2e5,"\u00e9\ud83d\ude00"]},"id":"e-1","key":"k"}"#,
        r#" {"\u0074ype":"a","data":null,"atomic":true,"id":null} "#,
        "{\"type\":\"a\",\"data\":1}\n\r\n {\"type\":\"b\",\"data\":[]}\r\n[",
    ];
    let words = &[
        "\"type\":",
        "\"data\":",
        ",\"atomic\":false",
        "\\u0000",
        "\\ud800",
        "[[[[",
        "}",
        "{}",
        "\n",
        "\u{feff}",
        "é",
    ];
    Target { quick: 20_000, corpus: corpus.map(Vec::from).into(), words, check: &outcome }
}

#[test]
fn any_input_is_taken_as_json_says_or_refused_in_few_words() {
    target().try_some();
}

#[test]
#[ignore = "takes HOOKPROOF_SECONDS"]
fn any_input_is_taken_as_json_says_or_refused_in_few_words_at_length() {
    target().try_at_length();
}
