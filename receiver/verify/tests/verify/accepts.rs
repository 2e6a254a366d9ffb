use ed25519_dalek::{Signer as _, SigningKey};
use hookproof_verify::{Keys, Profile, Secret, UnixSeconds, verify};

use crate::signing::{self, OTHER, SECRET, base64, linear_body, sign};
use crate::{BODY, ID, NOW, check, keys, signed, signed_by_headers, stamped_by_headers, value, with};

#[test]
fn the_signature_of_each_profile_is_accepted() {
    for profile in signed_by_headers() {
        check(&signed(profile), BODY, &keys(profile, &[SECRET]), Ok(ID));
    }
}

#[test]
fn any_of_the_keys_may_have_signed_and_the_answer_says_which() {
    for profile in signed_by_headers() {
        let (keys, headers) = (keys(profile, &[OTHER, SECRET]), signed(profile));
        let verified = verify(UnixSeconds(NOW), headers.as_slice(), BODY, &keys).unwrap();
        assert_eq!(verified.key, 1, "{profile}");
        assert_eq!(verified.signed_at.is_some(), profile.has_timestamp(), "{profile}");
    }
}

#[test]
fn one_good_signature_among_others_is_enough() {
    let (profile, headers) = (Profile::StandardWebhooks, signed(Profile::StandardWebhooks));
    let good = value(&headers, "webhook-signature").to_owned();
    let wrong = format!("v1,{}", base64(&[7; 32]));
    for list in [
        format!("{wrong} {good}"),
        format!("garbage {good}"),
        format!("v2,{} {good}", base64(b"from the future")),
        format!("v1a,{} {good}", base64(&[7; 64])),
        format!("{} {good}", [wrong.as_str(); 500].join(" ")),
    ] {
        check(&with(headers.clone(), "webhook-signature", list), BODY, &keys(profile, &[SECRET]), Ok(ID));
    }
    let (profile, headers) = (Profile::Stripe, signed(Profile::Stripe));
    let good = value(&headers, "stripe-signature").rsplit_once("v1=").unwrap().1;
    let list = format!("t={NOW},v1={},v1={good},v0={}", "0".repeat(64), "0".repeat(64));
    check(&with(headers.clone(), "stripe-signature", list), BODY, &keys(profile, &[SECRET]), Ok(ID));
}

#[test]
fn time_is_checked_to_the_second_on_both_sides() {
    for profile in stamped_by_headers() {
        let keys = keys(profile, &[SECRET]);
        let beyond = i64::from(profile.tolerance_seconds()) + 1;
        for (offset, refused) in [(-beyond, "timestamp-old"), (beyond, "timestamp-ahead")] {
            let inside = sign(profile, SECRET, ID, NOW + offset - offset.signum(), BODY);
            check(&inside, BODY, &keys, Ok(ID));
            let expected = if profile.has_timestamp() { Err(refused) } else { Ok(ID) };
            check(&sign(profile, SECRET, ID, NOW + offset, BODY), BODY, &keys, expected);
        }
        let strict = keys.with_tolerance(0);
        check(&signed(profile), BODY, &strict, Ok(ID));
    }
}

#[test]
fn a_time_in_the_body_is_read_once_its_signature_holds() {
    let keys = keys(Profile::Linear, &[SECRET]);
    let check_body = |body: &[u8], expected| {
        check(&sign(Profile::Linear, SECRET, ID, NOW, body), body, &keys, expected);
    };
    let rows = [
        (NOW - 60, Ok(ID)),
        (NOW - 61, Err("timestamp-old")),
        (NOW + 60, Ok(ID)),
        (NOW + 61, Err("timestamp-ahead")),
    ];
    for (at, expected) in rows {
        check_body(&linear_body(at, ""), expected);
    }
    for member in ["", r#""webhookTimestamp":"1700000000250""#, r#""webhookTimestamp":-1"#] {
        check_body(format!("{{{member}}}").as_bytes(), Err("timestamp-malformed"));
    }
    let forged = sign(Profile::Linear, OTHER, ID, NOW, b"{}");
    check(&forged, b"{}", &keys, Err("signature-wrong"));
}

#[test]
fn a_request_for_another_url_is_refused() {
    for profile in Profile::ALL.into_iter().filter(|profile| profile.signs_url()) {
        let keys = keys(profile, &[SECRET]);
        check(
            &signed(profile),
            BODY,
            &keys.clone().with_url("https://hooks.example/in"),
            Err("signature-wrong"),
        );
        check(&signed(profile), BODY, &keys.with_url(""), Err("signature-wrong"));
    }
}

#[test]
fn header_names_have_no_case() {
    let mut headers = signed(Profile::Github);
    headers[0].0 = "X-HUB-Signature-256";
    check(&headers, BODY, &keys(Profile::Github, &[SECRET]), Ok(ID));
}

#[test]
fn a_body_is_bytes() {
    for body in [&b""[..], b"\xff\x00\xfe", b"{", &[b'['; 200_000]] {
        for profile in stamped_by_headers() {
            let headers = sign(profile, SECRET, ID, NOW, body);
            verify(UnixSeconds(NOW), headers.as_slice(), body, &keys(profile, &[SECRET])).unwrap();
        }
    }
}

#[test]
fn the_public_key_of_a_sender_verifies_what_its_private_key_signed() {
    let private = SigningKey::from_bytes(&[9; 32]);
    let public = Secret::new(format!("whpk_{}", base64(private.verifying_key().as_bytes()))).unwrap();
    let keys = Keys::new(Profile::StandardWebhooks, [&public]).unwrap();
    let message = [format!("{ID}.{NOW}.").as_bytes(), BODY].concat();
    let signature = |message: &[u8]| format!("v1a,{}", base64(&private.sign(message).to_bytes()));
    let headers = |list: String| with(signed(Profile::StandardWebhooks), "webhook-signature", list);
    check(&headers(signature(&message)), BODY, &keys, Ok(ID));
    check(&headers(format!("v1a,junk {}", signature(&message))), BODY, &keys, Ok(ID));
    check(&headers(signature(b"something else")), BODY, &keys, Err("signature-wrong"));
    // An HMAC is no Ed25519 signature, and its key is missing here.
    check(&signed(Profile::StandardWebhooks), BODY, &keys, Err("signature-wrong"));
    // Both kinds of key, as during a migration.
    let shared = Secret::new(signing::SECRET).unwrap();
    let both = Keys::new(Profile::StandardWebhooks, [&public, &shared]).unwrap();
    for (list, place) in [
        (signature(&message), 0),
        (value(&signed(Profile::StandardWebhooks), "webhook-signature").to_owned(), 1),
    ] {
        let headers = headers(list);
        assert_eq!(verify(UnixSeconds(NOW), headers.as_slice(), BODY, &both).unwrap().key, place);
    }
}
