use hookproof_verify::{KeyError, Keys, Profile, Secret};

use crate::signing::{CERTIFICATE, OTHER, SECRET, WEBHOOK, key, paypal};
use crate::{BODY, ID, check, keys, signed, value, with};

const TIME: &str = "2023-11-14T22:13:20Z";

#[test]
fn the_key_is_at_a_host_of_paypal() {
    let check_url = |url: &str, is_right: bool| {
        let headers = with(signed(Profile::Paypal), "paypal-cert-url", url);
        let expected = if is_right { Ok(ID) } else { Err("key-url-foreign") };
        check(&headers, BODY, &keys(Profile::Paypal, &[SECRET]), expected);
    };
    for url in [
        CERTIFICATE,
        "https://paypal.com/c",
        "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-2?x",
    ] {
        check_url(url, true);
    }
    for url in [
        "http://api.paypal.com/c",
        "https://api.paypal.com",
        "https://api.paypal.com.example/c",
        "https://notpaypal.com/c",
        "https://example/api.paypal.com/c",
        "https://example?.paypal.com/c",
        "https://example#.paypal.com/c",
        "https://example\\\\.paypal.com/c",
        "https://user@api.paypal.com/c",
        "https://api.paypal.com:443/c",
        "https://api.paypal.com@example/c",
        "https:///c",
        "api.paypal.com/c",
    ] {
        check_url(url, false);
    }
}

#[test]
fn a_signature_is_for_one_webhook_by_one_algorithm() {
    let keys = keys(Profile::Paypal, &[OTHER, SECRET]);
    check(&paypal(SECRET, WEBHOOK, "id", TIME, BODY), BODY, &keys, Ok(ID));
    check(&paypal(SECRET, "another", "id", TIME, BODY), BODY, &keys, Err("signature-wrong"));
    for name in ["SHA1withRSA", "sha256withrsa", "none"] {
        check(&with(signed(Profile::Paypal), "paypal-auth-algo", name), BODY, &keys, Err("signature-none"));
    }
}

#[test]
fn no_signed_part_holds_the_text_between_them() {
    let keys = keys(Profile::Paypal, &[SECRET]);
    for (id, time) in [("a|b", TIME), ("a", "b|c"), ("a b", TIME)] {
        check(&paypal(SECRET, WEBHOOK, id, time, BODY), BODY, &keys, Err("id-malformed"));
    }
}

#[test]
fn a_signature_is_a_number_of_the_length_of_the_key() {
    let (headers, name) = (signed(Profile::Paypal), "paypal-transmission-sig");
    let good = value(&headers, name).to_owned();
    for (text, rule) in [
        (good.trim_end_matches('=').to_owned(), "signature-malformed"),
        (format!("{good}AAAA"), "signature-malformed"),
        (format!("{}=", "A".repeat(683)), "signature-wrong"),
        ("A".repeat(684), "signature-malformed"),
        ("A".repeat(688), "signature-malformed"),
        (format!("{}=", "/".repeat(683)), "signature-malformed"),
        (format!("{}w==", "/".repeat(341)), "signature-wrong"),
        ("AAAA".to_owned(), "signature-wrong"),
    ] {
        check(&with(headers.clone(), name, text), BODY, &keys(Profile::Paypal, &[SECRET]), Err(rule));
    }
}

#[test]
fn a_key_has_the_id_of_its_webhook_and_2048_bits() {
    let good = key(Profile::Paypal, SECRET);
    let (webhook, encoded) = good.split_once(':').unwrap();
    // openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 | openssl pkey -pubout
    let short = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC5vfQvn1WyLEq1vZYv0ONOhCT7aiuJEXDheWSeyBWk+/w7OF0iexPuP+m00bn8gl3D4pAsQ1iCJ/hjN9XCghX0JxLKL9XAhNDDdlTedKZmnqDG4V8Xe3tYDkf+zJAk/eMO8EzvoJDtDJ+9HqXch/+nakC4KA7rlqxsiih92t3xQQIDAQAB";
    for text in [
        encoded.to_owned(),
        format!(":{encoded}"),
        format!("a|b:{encoded}"),
        format!("{webhook}:{}", &encoded[4..]),
        format!("{webhook}:{short}"),
        format!("{webhook}:{}", key(Profile::Sendgrid, SECRET)),
        format!("{good}AAAA"),
    ] {
        let keys = Keys::new(Profile::Paypal, [&Secret::new(text.as_str()).unwrap()]);
        assert_eq!(keys.err(), Some(KeyError::Rsa), "{text}");
    }
}
