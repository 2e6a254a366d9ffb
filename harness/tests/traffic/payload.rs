use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as PADDED, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use hookproof_judge::scenario::Scenario;

use hookproof_judge::trace::Payload;
use hookproof_play::payload::{DECODED_BYTES_MAX, Offered, Places, decoded, tokens_in};
use hookproof_play::traffic::{Schedule, Tokens};
use serde_json::Value;

const TOKENS: Tokens = Tokens::new(7);

/// Three events of two types and many keys, large enough for all delicate members.
fn offered(places: Places) -> Offered {
    let text = "name = \"x\"\nseed = 4\n[[traffic]]\nshape = \"burst\"\nevents = 40\n[events]\ndata_bytes = 2000\nkeys = 10\n\
                types = { \"a.one\" = 1, \"a.two\" = 1 }\n[[subscriber]]\nname = \"a\"\n";
    let scenario = Scenario::from_text(text, "x.toml").unwrap();
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, 4, Path::new(".")).unwrap();
    Offered { schedule: Arc::new(schedule), tokens: TOKENS, places }
}

fn event(offered: &Offered, at: usize) -> (u64, String, String, String) {
    let due = &offered.schedule.due()[at];
    let schedule = &offered.schedule;
    (due.token, schedule.data(due, TOKENS), schedule.kind(due).to_owned(), schedule.key(due).to_owned())
}

fn other(offered: &Offered) -> (String, String) {
    let (_, _, kind, key) = event(offered, 0);
    let all = (1..offered.schedule.due().len()).map(|at| event(offered, at));
    let mut others = all.filter(|(.., own_kind, own_key)| *own_kind != kind && *own_key != key);
    others.next().map(|(.., kind, key)| (kind, key)).unwrap()
}

#[track_caller]
fn check(places: Places, body: impl Fn(&str, &str, &str) -> Vec<u8>, expected: Result<(), &str>) {
    let offered = offered(places);
    let (token, data, kind, key) = event(&offered, 0);
    let body = body(&data, &kind, &key);
    match (offered.compare(&body, &[token]), expected) {
        (Some(Payload::Intact), Ok(())) => {}
        (Some(Payload::Altered(why)), Err(part)) if why.contains(part) => {}
        (found, expected) => panic!("{found:?}, expected {expected:?}: {}", String::from_utf8_lossy(&body)),
    }
}

fn anywhere(body: impl Fn(&str, &str, &str) -> Vec<u8>, expected: Result<(), &str>) {
    check(Places::default(), body, expected);
}

fn wrapped(data: &str, kind: &str, key: &str) -> Vec<u8> {
    format!("{{\"type\":{kind:?},\"key\":{key:?},\"id\":\"e1\",\"data\":{data}}}").into_bytes()
}

fn rewritten(data: &str) -> Value {
    serde_json::from_str(data).unwrap()
}

fn changed(data: &str, change: impl Fn(&mut serde_json::Map<String, Value>)) -> String {
    let mut value = rewritten(data);
    change(value.as_object_mut().unwrap());
    value.to_string()
}

#[test]
fn the_delicate_members_are_there_and_survive_an_exact_reader() {
    let offered = offered(Places::default());
    let (_, data, ..) = event(&offered, 0);
    for name in ["unicode", "escapes", "i64", "f64", "empty", "nested", "separators"] {
        assert!(rewritten(&data).get(name).is_some(), "{name} is missing in {data}");
    }
    let written = rewritten(&data).to_string();
    let floats = rewritten(&written)["f64"].as_array().cloned().unwrap();
    let floats: Vec<f64> = floats.iter().filter_map(Value::as_f64).collect();
    assert_eq!(floats, [f64::MAX, f64::MIN_POSITIVE, 5e-324]);
    assert_eq!(rewritten(&data)["i64"], serde_json::json!([i64::MAX, i64::MIN, 9_007_199_254_740_993_i64]));
}

#[test]
fn data_arrives_however_a_right_sender_wraps_it() {
    anywhere(wrapped, Ok(()));
    anywhere(|data, _, _| data.as_bytes().to_vec(), Ok(()));
    anywhere(|data, _, _| rewritten(data).to_string().into_bytes(), Ok(()));
    anywhere(|data, kind, key| wrapped(&rewritten(data).to_string(), kind, key), Ok(()));
    anywhere(|data, _, _| format!("[{{\"event\":{{\"data\":{data}}}}}]").into_bytes(), Ok(()));
    anywhere(|data, _, _| format!("{{\"payload\":{}}}", Value::from(data)).into_bytes(), Ok(()));
    anywhere(|data, _, _| format!("{{\"sent\":\"now\",{}", &data[1..]).into_bytes(), Ok(()));
    anywhere(
        |data, _, _| changed(data, |own| drop(own.insert("added".into(), 1.into()))).into_bytes(),
        Ok(()),
    );
    let form = |data: &str| {
        url::form_urlencoded::Serializer::new(String::new()).append_pair("payload", data).finish()
    };
    anywhere(|data, _, _| form(data).into_bytes(), Ok(()));
}

/// As PostgreSQL's `jsonb` and Java's `BigDecimal` write numbers.
#[test]
fn numbers_may_be_spelled_out() {
    let long = |data: &str| {
        let digits = |text: &str, zeros: usize| format!("{text}{}", "0".repeat(zeros));
        let small = format!("0.{}5", "0".repeat(323));
        data.replace("1.7976931348623157e308", &digits("17976931348623157", 292)).replace("5e-324", &small)
    };
    let is_spelled_out = |data: &str| long(data).len() > data.len() + 600;
    anywhere(
        |data, kind, key| {
            assert!(is_spelled_out(data), "{data}");
            wrapped(&long(data), kind, key)
        },
        Ok(()),
    );
}

#[test]
fn a_driver_may_point_into_the_data() {
    let places = || Places { key: Some("/data/key".into()), ..Places::default() };
    check(places(), |data, kind, _| format!("{{\"type\":{kind:?},\"data\":{data}}}").into_bytes(), Ok(()));
}

#[test]
fn a_line_for_each_event_is_a_batch() {
    let lines = |data: &str| format!("{{\"data\":{}}}\n{{\"data\":{{}}}}\n", rewritten(data));
    anywhere(|data, _, _| lines(data).into_bytes(), Ok(()));
}

#[test]
fn data_in_base64_is_found_in_either_alphabet() {
    anywhere(|data, _, _| PADDED.encode(data).into_bytes(), Ok(()));
    anywhere(|data, _, _| format!("{{\"data\":\"{}\"}}", PADDED.encode(data)).into_bytes(), Ok(()));
    anywhere(|data, _, _| format!("{{\"data\":\"{}\"}}", URL_SAFE_NO_PAD.encode(data)).into_bytes(), Ok(()));
    let cut = |data: &str| changed(data, |own| drop(own.remove("i64")));
    anywhere(
        |data, _, _| format!("{{\"data\":\"{}\"}}", PADDED.encode(cut(data))).into_bytes(),
        Err("the data's \"i64\" is missing"),
    );
}

#[test]
fn changed_data_is_named_by_its_first_difference() {
    let rounded = |data: &str| data.replace("9223372036854775807", "9223372036854775808");
    anywhere(|data, kind, key| wrapped(&rounded(data), kind, key), Err("the data's \"i64\" is"));
    let float = |data: &str| data.replace("9007199254740993", "9007199254740992.0");
    anywhere(|data, kind, key| wrapped(&float(data), kind, key), Err("the data's \"i64\" is"));
    let lost = |data: &str| changed(data, |own| own.retain(|name, _| name == "token"));
    anywhere(|data, kind, key| wrapped(&lost(data), kind, key), Err("is missing; offered was"));
    let more = |data: &str| changed(data, |own| drop(own.insert("added".into(), 1.into())));
    anywhere(|data, kind, key| wrapped(&more(data), kind, key), Ok(()));
    anywhere(|data, _, _| data.as_bytes()[..260].to_vec(), Err("is not JSON"));
    anywhere(
        |data, _, _| format!("{{\"id\":{:?}}}", &data[10..45]).into_bytes(),
        Err("the data is not in the body"),
    );
}

#[test]
fn an_envelope_names_its_own_type_and_key() {
    let offered = offered(Places::default());
    let (kind, key) = other(&offered);
    anywhere(|data, _, own| wrapped(data, &kind, own), Err("the event's type is"));
    anywhere(|data, own, _| wrapped(data, own, &key), Err("the event's key is"));
    anywhere(|data, _, own| wrapped(&rewritten(data).to_string(), &kind, own), Err("the event's type is"));
    let beside = |data: &str| changed(data, |own| drop(own.insert("type".into(), kind.clone().into())));
    anywhere(|data, _, _| beside(data).into_bytes(), Err("the event's type is"));
    let named = || Places { kind: Some("/kind".into()), ..Places::default() };
    check(named(), wrapped, Err("the event's type is missing"));
    check(named(), |data, kind, _| format!("{{\"kind\":{kind:?},\"data\":{data}}}").into_bytes(), Ok(()));
}

#[test]
fn an_envelope_inside_of_a_string_is_read_too() {
    let offered = offered(Places::default());
    let (kind, key) = other(&offered);
    let inside = |text: Vec<u8>| {
        let text = String::from_utf8(text).unwrap();
        format!("{{\"message\":{}}}", Value::from(text)).into_bytes()
    };
    let wrong = |data: &str, own: &str| wrapped(data, &kind, own);
    anywhere(|data, kind, key| inside(wrapped(data, kind, key)), Ok(()));
    anywhere(|data, _, own| inside(wrong(data, own)), Err("the event's type is"));
    anywhere(|data, own, _| inside(wrapped(data, own, &key)), Err("the event's key is"));
    anywhere(|data, _, own| inside(inside(wrong(data, own))), Err("the event's type is"));
    let wrong_base64 =
        |data: &str, own: &str| format!("{{\"data\":\"{}\"}}", PADDED.encode(wrong(data, own)));
    anywhere(|data, _, own| wrong_base64(data, own).into_bytes(), Err("the event's type is"));
}

#[test]
fn a_driver_that_names_one_place_is_believed_for_that_one() {
    let offered = offered(Places::default());
    let (kind, key) = other(&offered);
    let named = || Places { kind: Some("/about/kind".into()), ..Places::default() };
    // The envelope has another subject, whose name is a type too.
    let body = |data: &str, own: &str, key: &str| {
        let about = format!("{{\"kind\":{own:?}}}");
        format!("{{\"about\":{about},\"topic\":{kind:?},\"key\":{key:?},\"data\":{data}}}").into_bytes()
    };
    check(named(), body, Ok(()));
    check(named(), |data, own, _| body(data, own, &key), Err("the event's key is"));
    check(named(), |data, _, own| body(data, &kind, own), Err("the event's type is"));
}

#[test]
fn a_body_that_names_a_member_twice_may_be_read_either_way() {
    let twice = |data: &str, first: &str, second: &str| {
        let body = format!("{{\"data\":{first},\"data\":{second}}}");
        assert!(body.contains(data));
        body.into_bytes()
    };
    anywhere(|data, _, _| twice(data, "{}", data), Err("names \"data\" twice"));
    anywhere(|data, _, _| twice(data, data, "{}"), Err("names \"data\" twice"));
    anywhere(|data, _, _| format!("{{\"i64\":[],{}", &data[1..]).into_bytes(), Err("names \"i64\" twice"));
    let inside = |data: &str| Value::from(String::from_utf8(twice(data, "{}", data)).unwrap());
    anywhere(|data, _, _| format!("{{\"message\":{}}}", inside(data)).into_bytes(), Err("not in the body"));
}

#[test]
fn a_body_of_several_events_must_hold_each() {
    let offered = offered(Places::default());
    let (all, tokens): (Vec<String>, Vec<u64>) = (0..3)
        .map(|at| event(&offered, at))
        .map(|(token, data, kind, key)| (String::from_utf8(wrapped(&data, &kind, &key)).unwrap(), token))
        .unzip();
    let body = format!("{{\"events\":[{}]}}", all.join(","));
    assert_eq!(offered.compare(body.as_bytes(), &tokens), Some(Payload::Intact));
    let broken = body.replacen("0123456789abcdef", "0123456789abcdeg", 1);
    assert!(matches!(offered.compare(broken.as_bytes(), &tokens), Some(Payload::Altered(_))));
    assert_eq!(offered.compare(body.as_bytes(), &[1_000]), None, "the run offered no such event");
}

#[test]
fn a_driver_may_name_the_place_and_demand_the_bytes() {
    let at = |data: &str| Places { data: Some(data.into()), ..Places::default() };
    check(at("/data"), wrapped, Ok(()));
    check(at("/other"), wrapped, Err("nothing at /other"));
    check(
        at("/data"),
        |data, _, _| format!("{{\"copy\":{data},\"data\":{{}}}}").into_bytes(),
        Err("not in the body"),
    );
    let exact = || Places { exact: true, ..Places::default() };
    check(exact(), wrapped, Ok(()));
    check(exact(), |data, _, _| rewritten(data).to_string().into_bytes(), Err("the data's bytes"));
}

fn zipped(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn tokens_are_found_in_compressed_and_encoded_bodies() {
    let text = format!("{{\"data\":{{\"token\":\"{}\"}}}}", TOKENS.text(9));
    let mut deflated = ZlibEncoder::new(Vec::new(), Compression::fast());
    deflated.write_all(text.as_bytes()).unwrap();
    let base64 = format!("{{\"data\":\"{}\"}}", PADDED.encode(&text));
    let rows = [
        (text.clone().into_bytes(), None),
        (zipped(text.as_bytes()), Some("gzip")),
        (zipped(text.as_bytes()), Some(" GZIP")),
        (deflated.finish().unwrap(), Some("deflate")),
        (base64.clone().into_bytes(), None),
        (zipped(base64.as_bytes()), Some("gzip")),
    ];
    for (body, coding) in rows {
        assert_eq!(tokens_in(TOKENS, &decoded(&body, coding).unwrap()), [9], "{coding:?}");
    }
    assert!(tokens_in(TOKENS, &decoded(&zipped(text.as_bytes()), None).unwrap()).is_empty());
}

#[test]
fn a_body_that_cannot_be_unpacked_says_why() {
    let largest = vec![b' '; usize::try_from(DECODED_BYTES_MAX).unwrap()];
    assert_eq!(decoded(&zipped(&largest), Some("gzip")).unwrap(), largest);
    let bomb = zipped(&[largest.as_slice(), b" "].concat());
    assert_eq!(
        decoded(&bomb, Some("gzip")).unwrap_err(),
        "its body has more than 8 MiB without its content-encoding"
    );
    assert_eq!(decoded(b"plain", Some("gzip")).unwrap_err(), "its body is not in its content-encoding");
    assert_eq!(decoded(b"plain", Some("br")).unwrap_err(), "the harness does not read its content-encoding");
    assert_eq!(decoded(b"plain", Some("identity")).unwrap(), b"plain".as_slice());
}
