use hookproof_verify::{KeyError, Keys, Profile, Secret, UnixSeconds, verify};
use proptest::prelude::*;

use crate::signing::{OTHER, SECRET, base64, tag};
use crate::{NOW, keys};

const PSP: &str = "QFQTPCQ8HXSKGK82";
const ID: &str = "QFQTPCQ8HXSKGK82:AUTHORISATION:true";

/// A notification of Adyen, its signature in it.
fn adyen_body(secret: &str, psp: &str) -> Vec<u8> {
    let text = format!("{psp}::TestMerchant:order:7:1130:EUR:AUTHORISATION:true");
    let tag = base64(&tag(Profile::Adyen, secret, &[text.as_bytes()]));
    format!(
        "{{\"live\":\"false\",\"notificationItems\":[{{\"NotificationRequestItem\":{{\"additionalData\":{{\"hmacSignature\":\"{tag}\"}},\
         \"amount\":{{\"currency\":\"EUR\",\"value\":1130}},\"eventCode\":\"AUTHORISATION\",\"merchantAccountCode\":\"TestMerchant\",\
         \"merchantReference\":\"order:7\",\"pspReference\":\"{psp}\",\"success\":\"true\"}}}}]}}"
    )
    .into_bytes()
}

fn found(body: &[u8]) -> Result<String, &'static str> {
    let none: &[(&str, &[u8])] = &[];
    let found = verify(UnixSeconds(NOW), none, body, &keys(Profile::Adyen, &[OTHER, SECRET]));
    found.map(|verified| verified.id.into_owned()).map_err(|rejection| rejection.rule())
}

/// Each change is made once in the text of a body that is rightly signed.
#[track_caller]
fn check(from: &str, to: &str, expected: Result<&str, &str>) {
    let body = String::from_utf8(adyen_body(SECRET, PSP)).unwrap();
    assert!(body.contains(from), "{from}");
    let found = found(body.replacen(from, to, 1).as_bytes());
    assert_eq!(found.as_deref().map_err(|rule| *rule), expected, "{from} -> {to}");
}

#[test]
fn each_signed_member_counts_and_no_other_does() {
    check("", "", Ok(ID));
    for (from, to) in [
        (PSP, "QFQTPCQ8HXSKGK83"),
        ("TestMerchant", "OtherMerchant"),
        ("order:7", "order:8"),
        ("1130", "113"),
        ("EUR", "USD"),
        ("AUTHORISATION", "CAPTURE"),
        (r#""success":"true""#, r#""success":"false""#),
        (r#""success":"true""#, r#""success":"true","originalReference":"A""#),
        (r#","success":"true""#, ""),
    ] {
        check(from, to, Err("signature-wrong"));
    }
    for (from, to) in [
        (r#""live":"false""#, r#""live":"true""#),
        ("1130", r#""1130""#),
        (r#""success":"true""#, r#""success":true"#),
        (r#""success":"true""#, r#""success":"true","originalReference":null"#),
        ("EUR", "\\u0045UR"),
        (r#""amount":{"#, r#""amount":{"more":[{"value":2}],"#),
    ] {
        check(from, to, Ok(ID));
    }
}

#[test]
fn a_body_that_two_readers_read_differently_is_refused() {
    let item = r#"{"NotificationRequestItem":{"#;
    for (from, to) in [
        ("TestMerchant\"", "TestMerchant:order\""),
        (r#""success":"true""#, r#""success":"true","success":"true""#),
        (r#""success":"true""#, r#""success":"true","\u0073uccess":"false""#),
        (r#""amount":"#, r#""amount":{},"amount":"#),
        (r#""additionalData":"#, r#""additionalData":{},"additionalData":"#),
        (item, &format!("{item}}}}},{item}")),
        (r#"[{"Not"#, r#"[[],{"Not"#),
        ("1130", "1130.0"),
        ("1130", "[1130]"),
        (r#"{"live"#, r#"[{"live"#),
        ("}}]}", "}}]}x"),
        ("}}]}", "}}]"),
        (r#""notificationItems":["#, r#""notificationItems":[],"notificationItems":["#),
        (r#""notificationItems":["#, r#""NotificationItems":[],"notificationItems":["#),
        (r#""amount":"#, r#""Amount":{"value":9},"amount":"#),
        (r#""value":1130"#, r#""value":1130,"VALUE":9"#),
        (r#""success":"#, r#""\u017fuccess":"false","success":"#),
        (r#""pspReference":"#, "\"p\u{17f}pReference\":\"1\",\"pspReference\":"),
        (r#""notificationItems":["#, "\"notificationItem\u{17f}\":[],\"notificationItems\":["),
        ("hmacSignature", "hmacsignature"),
        (r#""notificationItems":["#, r#""other":["#),
    ] {
        let expected = if to.contains("other") { "signature-none" } else { "body-malformed" };
        check(from, to, Err(expected));
    }
    for body in ["", "null", "[]", "{", "\u{feff}{}", "{\"notificationItems\":[]}"] {
        assert_eq!(found(body.as_bytes()), Err("body-malformed"), "{body}");
    }
}

/// `TestMerchant:order` and `7` would be the same text.
#[test]
fn a_colon_moves_from_no_member_to_the_next() {
    let body = String::from_utf8(adyen_body(SECRET, PSP)).unwrap();
    let moved = body.replace("TestMerchant", "TestMerchant:order").replace("order:7", "7");
    assert_eq!(found(moved.as_bytes()), Err("body-malformed"));
}

#[test]
fn a_signature_is_there_once_and_canonical() {
    for (from, to, rule) in [
        (r#""hmacSignature":""#, r#""hmacSignature":"","x":""#, "signature-none"),
        (r#""hmacSignature":""#, r#""hmacSignature":" "#, "signature-malformed"),
        ("=\"", "\"", "signature-malformed"),
        ("=\"", "==\"", "signature-malformed"),
        (r#""hmacSignature":"#, r#""hmacSignature":"","hmacSignature":"#, "body-malformed"),
    ] {
        check(from, to, Err(rule));
    }
}

#[test]
fn a_key_is_64_digits_in_either_case() {
    let digits = "0123456789abcdefABCDEF00112233440123456789abcdefABCDEF0011223344";
    for (text, expected) in
        [(digits, None), (&digits[2..], Some(KeyError::Hex)), (SECRET, Some(KeyError::Hex))]
    {
        let keys = Keys::new(Profile::Adyen, [&Secret::new(text).unwrap()]);
        assert_eq!(keys.err(), expected, "{text}");
    }
}

fn members(body: &[u8]) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap();
    let item = &json["notificationItems"][0]["NotificationRequestItem"];
    let names = ["pspReference", "originalReference", "merchantAccountCode", "merchantReference"];
    let more = ["amount/value", "amount/currency", "eventCode", "success"];
    let text = |name: &str| match item.pointer(&format!("/{name}")) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    names.iter().chain(&more).map(|name| text(name)).collect()
}

proptest! {
    #[test]
    fn no_change_of_a_byte_that_is_accepted_is_one_of_a_signed_member(
        at in any::<proptest::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let body = adyen_body(SECRET, PSP);
        let mut changed = body.clone();
        changed[at.index(body.len())] ^= flip;
        if found(&changed).is_ok() {
            prop_assert_eq!(members(&changed), members(&body));
        }
    }
}
