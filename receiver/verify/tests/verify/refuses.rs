use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use hookproof_verify::{KeyError, Keys, Profile, Rejection, Secret, UnixSeconds, verify};
use p256::ecdsa;
use sha2::{Digest as _, Sha256};

use crate::signing::{self, KID, OTHER, SECRET, base64, base64url, claims, head, hex, jwk, sign, tag, token};
use crate::{
    BODY, ID, NOW, check, keys, place_of_signature, signed, signed_by_headers, stamped_by_headers, value,
    with,
};

#[test]
fn another_secret_is_refused() {
    for profile in signed_by_headers() {
        check(&signed(profile), BODY, &keys(profile, &[OTHER]), Err("signature-wrong"));
    }
}

#[test]
fn a_header_that_is_missing_empty_doubled_or_not_ascii_is_refused() {
    for profile in signed_by_headers() {
        let keys = keys(profile, &[SECRET]);
        // These headers may be missing, but none may come twice.
        let optional = ["x-github-event", "x-vvv-event", "x-vvv-attempt", "x-vvv-subscriber"];
        for (name, _) in signed(profile).iter().filter(|(name, _)| !optional.contains(name)) {
            let mut missing = signed(profile);
            missing.retain(|(known, _)| known != name);
            check(&missing, BODY, &keys, Err("header-missing"));
            check(&with(signed(profile), name, ""), BODY, &keys, Err("header-empty"));
            for value in [&b"\xff"[..], "é".as_bytes(), b"a\tb", b"a\x00"] {
                check(&with(signed(profile), name, value), BODY, &keys, Err("header-not-ascii"));
            }
            let mut twice = signed(profile);
            twice.extend(twice.clone().into_iter().filter(|(known, _)| known == name));
            check(&twice, BODY, &keys, Err("header-twice"));
        }
    }
}

#[test]
fn signatures_are_read_in_one_way_only() {
    for profile in signed_by_headers() {
        let (name, before) = place_of_signature(profile);
        let (keys, headers) = (keys(profile, &[SECRET]), signed(profile));
        let good = value(&headers, name).strip_prefix(&before).unwrap().to_owned();
        let (short, long) = (&good[..good.len() - 1], format!("{good}0"));
        for signature in [
            &good[..8],
            short,
            &long,
            "",
            &good.to_uppercase(),
            &format!("{good}="),
            &format!(" {good}"),
            &format!("{good}\n"),
        ] {
            let headers = with(headers.clone(), name, format!("{before}{signature}"));
            let found = verify(UnixSeconds(NOW), headers.as_slice(), BODY, &keys);
            assert!(found.is_err(), "{profile}: {signature:?} is accepted");
        }
    }
}

#[test]
fn base64_has_no_junk_and_its_own_alphabet() {
    let (profile, name) = (Profile::StandardWebhooks, "webhook-signature");
    let keys = keys(profile, &[SECRET]);
    // A signature with both characters in which the alphabets differ, and with two unused bits in its last character.
    let body = (0..10_000_u32).map(|n| n.to_string()).find(|body| {
        let headers = sign(profile, SECRET, ID, NOW, body.as_bytes());
        ['+', '/'].iter().all(|character| value(&headers, name).contains(*character))
    });
    let body = body.unwrap();
    let headers = sign(profile, SECRET, ID, NOW, body.as_bytes());
    let good = value(&headers, name).strip_prefix("v1,").unwrap().to_owned();
    check(&headers, body.as_bytes(), &keys, Ok(ID));
    let raw = tag(profile, SECRET, &[ID.as_bytes(), b".", NOW.to_string().as_bytes(), b".", body.as_bytes()]);
    for bad in [
        good.replace('+', "-").replace('/', "_"),
        good.trim_end_matches('=').to_owned(),
        format!("{}=", good.trim_end_matches('=').to_owned() + "="),
        format!("{}*{}", &good[..10], &good[10..]),
        format!("{}*{}", &good[..10], &good[11..]),
        format!("{}B=", &good[..42]),
        hex(&raw),
        base64(hex(&raw).as_bytes()),
    ] {
        check(
            &with(headers.clone(), name, format!("v1,{bad}")),
            body.as_bytes(),
            &keys,
            Err("signature-malformed"),
        );
    }
}

#[test]
fn only_versions_that_the_keys_can_check_count() {
    let (profile, name) = (Profile::StandardWebhooks, "webhook-signature");
    let good = value(&signed(profile), name).strip_prefix("v1,").unwrap().to_owned();
    for list in [
        format!("v2,{good}"),
        format!("v1a,{good}"),
        format!("V1,{good}"),
        good.clone(),
        format!("v1{good}"),
        "garbage".to_owned(),
    ] {
        check(&with(signed(profile), name, list), BODY, &keys(profile, &[SECRET]), Err("signature-none"));
    }
    for (profile, name) in
        [(Profile::Github, "x-hub-signature-256"), (Profile::VvvTimestamped, "x-vvv-signature")]
    {
        let good = value(&signed(profile), name).strip_prefix("sha256=").unwrap().to_owned();
        for text in [format!("sha1={good}"), format!("SHA256={good}"), good.clone()] {
            check(&with(signed(profile), name, text), BODY, &keys(profile, &[SECRET]), Err("signature-none"));
        }
    }
}

#[test]
fn timestamps_are_read_in_one_way_only() {
    let extremes =
        [i64::MIN.to_string(), "-1".to_owned(), u64::MAX.to_string(), "9".repeat(400), "NaN".to_owned()];
    let variants = ["+", "0", " ", "\t"].iter().map(|before| format!("{before}{NOW}"));
    let variants =
        variants.chain([".0", "abc", " ", "e0", ",", "\u{660}"].iter().map(|after| format!("{NOW}{after}")));
    for text in extremes.into_iter().chain(variants) {
        for profile in [Profile::StandardWebhooks, Profile::VvvTimestamped] {
            let name = signed(profile)[if profile == Profile::StandardWebhooks { 1 } else { 0 }].0;
            let headers = with(signed(profile), name, text.as_str());
            let found = verify(UnixSeconds(NOW), headers.as_slice(), BODY, &keys(profile, &[SECRET]));
            let rule = found.unwrap_err().rule();
            assert!(["timestamp-malformed", "header-not-ascii"].contains(&rule), "{text:?}: {rule}");
        }
        let headers = vec![("stripe-signature", format!("t={text},v1={}", "0".repeat(64)).into_bytes())];
        assert!(
            verify(UnixSeconds(NOW), headers.as_slice(), BODY, &keys(Profile::Stripe, &[SECRET])).is_err()
        );
    }
    let far = i64::MAX / 10_000;
    for (at, rule) in [(0, "timestamp-old"), (far, "timestamp-ahead"), (NOW * 1_000, "timestamp-ahead")] {
        for profile in stamped_by_headers().filter(|profile| profile.has_timestamp()) {
            // Zero in milliseconds has leading zeros.
            if at == 0 && profile == Profile::Hubspot {
                continue;
            }
            check(&sign(profile, SECRET, ID, at, BODY), BODY, &keys(profile, &[SECRET]), Err(rule));
        }
    }
}

#[test]
fn no_clock_makes_it_overflow() {
    for now in [i64::MIN, -1, 0, i64::MAX] {
        for profile in signed_by_headers() {
            let _ = verify(UnixSeconds(now), signed(profile).as_slice(), BODY, &keys(profile, &[SECRET]));
        }
    }
}

#[test]
fn the_boundary_between_id_timestamp_and_body_cannot_move() {
    let profile = Profile::StandardWebhooks;
    let body = format!("{NOW}.{{}}");
    let headers = sign(profile, SECRET, "msg", NOW, body.as_bytes());
    check(&headers, body.as_bytes(), &keys(profile, &[SECRET]), Ok("msg"));
    // The signed bytes are equal: id `msg.<now>`, timestamp, and the rest of the body.
    let moved = with(headers, "webhook-id", format!("msg.{NOW}"));
    check(&moved, b"{}", &keys(profile, &[SECRET]), Err("id-malformed"));
}

#[test]
fn ids_are_short_and_without_blanks() {
    for profile in [Profile::StandardWebhooks, Profile::VvvFrozen, Profile::Github] {
        for id in ["a b", &"x".repeat(257)] {
            check(
                &sign(profile, SECRET, id, NOW, BODY),
                BODY,
                &keys(profile, &[SECRET]),
                Err("id-malformed"),
            );
        }
        let longest = "x".repeat(256);
        check(&sign(profile, SECRET, &longest, NOW, BODY), BODY, &keys(profile, &[SECRET]), Ok(&longest));
    }
}

#[test]
fn one_timestamp_and_no_more_in_a_stripe_header() {
    let keys = keys(Profile::Stripe, &[SECRET]);
    let good = value(&signed(Profile::Stripe), "stripe-signature").to_owned();
    for (header, rule) in [
        (format!("{good},t={NOW}"), "timestamp-malformed"),
        (good.replace(&format!("t={NOW},"), ""), "timestamp-malformed"),
        (format!("t={NOW}"), "signature-none"),
        (format!("t={NOW},v0={}", "0".repeat(64)), "signature-none"),
        (format!("t={NOW},v1=00"), "signature-malformed"),
        (good.replace(",v1", ", v1"), "signature-none"),
    ] {
        check(&with(signed(Profile::Stripe), "stripe-signature", header), BODY, &keys, Err(rule));
    }
}

#[test]
fn a_signature_over_the_body_alone_is_refused_where_more_is_signed() {
    for profile in stamped_by_headers().filter(|profile| profile.has_timestamp() || profile.signs_url()) {
        let (name, before) = place_of_signature(profile);
        let tag = tag(profile, SECRET, &[BODY]);
        let is_base64 = matches!(
            profile,
            Profile::StandardWebhooks
                | Profile::Hubspot
                | Profile::Sendgrid
                | Profile::Square
                | Profile::Twilio
        );
        let text = match profile {
            Profile::Plaid => base64url(&tag),
            Profile::Rfc9421 => format!("{}:", base64(&tag)),
            _ if is_base64 => base64(&tag),
            _ => hex(&tag),
        };
        let headers = with(signed(profile), name, format!("{before}{text}"));
        check(&headers, BODY, &keys(profile, &[SECRET]), Err("signature-wrong"));
    }
}

/// RFC 8032, 5.1.7.
#[test]
fn a_signature_with_a_number_beyond_the_order_is_refused() {
    const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
    let byte = |text: &str, at: usize| u16::from_str_radix(&text[2 * at..][..2], 16).unwrap();
    let headers = signed(Profile::Discord);
    let good = value(&headers, "x-signature-ed25519").to_owned();
    let (mut sum, mut carry) = (good[..64].to_owned(), 0);
    for at in 0..32 {
        let digit = byte(&good, 32 + at) + byte(ORDER, at) + carry;
        sum.push_str(&hex(&[(digit & 255) as u8]));
        carry = digit >> 8;
    }
    check_ed25519(&good, None);
    check_ed25519(&sum, Some(Rejection::Signature));
}

#[track_caller]
fn check_token(token: &str, expected: Result<&str, &str>) {
    let headers = vec![("plaid-verification", token.as_bytes().to_vec())];
    check(&headers, BODY, &keys(Profile::Plaid, &[SECRET]), expected);
}

/// Rightly signed, each by the profile's key.
#[test]
fn a_token_is_of_its_key_and_algorithm_and_has_its_claims_once() {
    let now = NOW.to_string();
    let (good, digest) = (claims(&now, BODY), hex(&Sha256::digest(BODY)));
    for written in [head(KID), format!(r#"{{"kid":"{KID}","alg":"\u0045S256"}}"#)] {
        check_token(&token(SECRET, &written, &good), Ok(ID));
    }
    for (written, rule) in [
        (head("another"), "signature-none"),
        (head(KID).replace("ES256", "none"), "signature-none"),
        (head(KID).replace("ES256", "HS256"), "signature-none"),
        (head(KID).replace("ES256", "es256"), "signature-none"),
        (head(KID).replace('{', r#"{"crit":["b64"],"b64":false,"#), "signature-none"),
        (head(KID).replace('{', r#"{"crit":null,"#), "signature-none"),
        (head(KID).replace("kid", "name"), "signature-malformed"),
        (head(KID).replace('{', r#"{"alg":"ES256","#), "signature-malformed"),
        (format!(r#"["ES256","{KID}"]"#), "signature-malformed"),
        ("{".to_owned(), "signature-malformed"),
    ] {
        check_token(&token(SECRET, &written, &good), Err(rule));
    }
    check_token(&token(SECRET, &head(KID), &good.replace('{', r#"{"sub":"x","#)), Ok(ID));
    for (written, rule) in [
        (claims(&now, b"another"), "signature-wrong"),
        (claims(&format!("{now}.0"), BODY), "signature-malformed"),
        (claims(&format!("\"{now}\""), BODY), "signature-malformed"),
        (claims("null", BODY), "signature-malformed"),
        (claims("-1", BODY), "timestamp-old"),
        (good.replace("iat", "nbf"), "signature-malformed"),
        (good.replace("request_body_sha256", "sha256"), "signature-malformed"),
        (good.replace('{', &format!("{{\"iat\":{now},")), "signature-malformed"),
        (good.replace('{', &format!("{{\"request_body_sha256\":\"{digest}\",")), "signature-malformed"),
        (good.replace(&digest, &digest.to_uppercase()), "signature-malformed"),
        (good.replace(&digest, &digest[2..]), "signature-malformed"),
        (format!("{good}{good}"), "signature-malformed"),
        (format!(r#"[{now},"{digest}"]"#), "signature-malformed"),
    ] {
        check_token(&token(SECRET, &head(KID), &written), Err(rule));
    }
    let filled = |bytes| good.replace('{', &format!("{{\"sub\":\"{}\",", "x".repeat(bytes)));
    check_token(&token(SECRET, &head(KID), &filled(2_700)), Ok(ID));
    check_token(&token(SECRET, &head(KID), &filled(3_000)), Err("signature-malformed"));
}

/// Nothing in an unsigned token shows: a wrong signature is told before an old time, a missing claim or another body.
#[test]
fn the_claims_of_a_token_are_read_once_its_signature_holds() {
    for written in ["{".to_owned(), claims("1", b"another"), claims(&NOW.to_string(), BODY)] {
        check_token(&token(OTHER, &head(KID), &written), Err("signature-wrong"));
    }
}

/// ES256 has no rule against the number in the upper half (RFC 7518, section 3.4).
#[test]
fn a_signature_of_es256_is_two_numbers_of_32_bytes() {
    let good = token(SECRET, &head(KID), &claims(&NOW.to_string(), BODY));
    let (signed, written) = good.rsplit_once('.').unwrap();
    let signature = ecdsa::Signature::from_slice(&tag(Profile::Plaid, SECRET, &[signed.as_bytes()])).unwrap();
    let of = |bytes: &[u8]| format!("{signed}.{}", base64url(bytes));
    assert_eq!(of(&signature.to_bytes()), good);
    let (r, s) = signature.split_scalars();
    let negated = ecdsa::Signature::from_scalars(r, -s).unwrap();
    check_token(&of(&negated.to_bytes()), Ok(ID));
    for text in [
        of(signature.to_der().as_bytes()),
        of(&[0; 64]),
        of(&[&signature.to_bytes()[..], &[0]].concat()),
        of(&signature.to_bytes()[..63]),
        format!("{good}=="),
        format!("{good}."),
        format!(".{good}"),
        written.to_owned(),
        format!("{signed}."),
        signed.to_owned(),
    ] {
        check_token(&text, Err("signature-malformed"));
    }
    // Four bits of the last character are unused.
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let place = ALPHABET.iter().position(|byte| Some(byte) == good.as_bytes().last()).unwrap();
    let other = char::from(ALPHABET[place ^ 1]);
    check_token(&format!("{}{other}", &good[..good.len() - 1]), Err("signature-malformed"));
}

const COVERED: &str = r#""@method" "@target-uri" "content-digest""#;

fn input(covered: &str, parameters: &str) -> String {
    format!("({covered});created={NOW};keyid=\"{KID}\"{parameters}")
}

#[track_caller]
fn check_message(headers: &signing::Headers, expected: Result<&str, &str>) {
    check(headers, BODY, &keys(Profile::Rfc9421, &[SECRET]), expected);
}

/// Each is rightly signed.
#[test]
fn a_message_signature_covers_enough_and_restricts_itself_by_known_means() {
    let named = format!("{COVERED} \"webhook-id\"");
    for (covered, parameters, expected) in [
        (COVERED, "", Ok(ID)),
        (r#""content-digest" "@query" "@path" "@authority" "@method""#, "", Ok(ID)),
        (r#""@method" "@authority" "@request-target" "@scheme" "content-digest""#, "", Ok(ID)),
        (COVERED, ";nonce=\"a, b\";tag=\"(\";alg=\"hmac-sha256\"", Ok(ID)),
        (COVERED, ";expires=1700000000", Ok(ID)),
        (COVERED, ";expires=1699999999", Err("timestamp-old")),
        (COVERED, ";expires=-1", Err("signature-malformed")),
        (COVERED, ";expires=\"1800000000\"", Err("signature-malformed")),
        (COVERED, ";expires=1700000000000000", Err("signature-malformed")),
        (COVERED, ";alg=\"ed25519\"", Err("signature-none")),
        (COVERED, ";alg=hmac-sha256", Err("signature-malformed")),
        (COVERED, ";once", Err("signature-none")),
        (COVERED, ";tag=\"\\\"\"", Err("signature-malformed")),
        (COVERED, "; tag=\"a\"", Err("signature-malformed")),
        (COVERED, &format!(";keyid=\"{KID}\""), Err("signature-malformed")),
        (r#""@method" "@target-uri""#, "", Err("signature-uncovered")),
        (r#""@target-uri" "content-digest""#, "", Err("signature-uncovered")),
        (r#""@method" "@path" "@query" "content-digest""#, "", Err("signature-uncovered")),
        (r#""@method" "@authority" "@path" "content-digest""#, "", Err("signature-uncovered")),
        (r#""@method" "@target-uri" "content-digest";sf"#, "", Err("signature-none")),
        (r#""@method";req "@target-uri" "content-digest""#, "", Err("signature-none")),
        (r#""@method" "@target-uri" "content-digest" "@status""#, "", Err("signature-none")),
        (r#""@method" "@target-uri" "content-digest" "Date""#, "", Err("signature-none")),
        (r#""@method" "@target-uri" "content-digest" "date""#, "", Err("header-missing")),
        (r#""@method" "@target-uri"  "content-digest""#, "", Err("signature-malformed")),
        (&format!("{COVERED} "), "", Err("signature-malformed")),
        (&format!("{COVERED} \"@method\""), "", Err("signature-malformed")),
        (&format!("{named}{}", " \"a\"".repeat(30)), "", Err("signature-malformed")),
    ] {
        check_message(&signing::message(SECRET, &input(covered, parameters), ID, BODY), expected);
    }
    check_message(&signing::message(SECRET, &input(&named, ""), "msg_1", BODY), Ok("msg_1"));
    // Nothing covers the header of the id, so the body names the delivery.
    check_message(&signing::message(SECRET, &input(COVERED, ""), "msg_1", BODY), Ok(ID));
    let rows = [
        (format!("({COVERED});created={NOW}"), "signature-none"),
        (format!("({COVERED});keyid=\"{KID}\""), "timestamp-malformed"),
        (format!("({COVERED});created=0{NOW};keyid=\"{KID}\""), "timestamp-malformed"),
        (format!("({COVERED});created={NOW};keyid=\"another\""), "signature-none"),
    ];
    for (input, rule) in rows {
        check_message(&signing::message(SECRET, &input, ID, BODY), Err(rule));
    }
}

#[test]
fn one_of_eight_message_signatures_is_enough_and_each_has_one_label() {
    let good = signing::message(SECRET, &input(COVERED, ""), ID, BODY);
    let (own, tag) = (value(&good, "signature-input"), value(&good, "signature"));
    let labelled = |inputs: &str, signatures: &str| {
        let headers = with(good.clone(), "signature-input", inputs);
        with(headers, "signature", signatures)
    };
    let wrong = |label: &str| {
        let zeros = format!("{label}=:{}:", base64(&[0; 32]));
        (own.replace("sig1", label), zeros)
    };
    let several = |count: usize| {
        let (inputs, signatures): (Vec<_>, Vec<_>) = (1..count).map(|at| wrong(&format!("x{at}"))).unzip();
        let (inputs, signatures) = (inputs.join(", "), signatures.join(","));
        labelled(&format!("{inputs}, {own}"), &format!("{tag},{signatures}"))
    };
    check_message(&several(8), Ok(ID));
    check_message(&several(9), Err("signature-malformed"));
    let (other, zeros) = wrong("a");
    check_message(&labelled(&other, &zeros), Err("signature-wrong"));
    for (inputs, signatures) in [
        (format!("{own}, {own}"), format!("{tag}, {tag}")),
        (format!("{own}, {other}"), tag.to_owned()),
        (own.to_owned(), format!("{tag}, {zeros}")),
        (other, tag.to_owned()),
        (format!("{own},"), tag.to_owned()),
        (own.to_owned(), format!("{tag};a")),
        (own.to_owned(), tag.replace(':', "\"")),
    ] {
        check_message(&labelled(&inputs, &signatures), Err("signature-malformed"));
    }
}

#[test]
fn a_signature_of_a_url_concerns_a_post_to_it() {
    for profile in signed_by_headers() {
        let keys = keys(profile, &[SECRET]);
        assert!(keys.concerns(&http::Method::POST, "/in?tenant=7"), "{profile}");
        let is_other = |method: http::Method, target| !keys.concerns(&method, target);
        assert_eq!(is_other(http::Method::PUT, "/in?tenant=7"), profile.signs_url(), "{profile}");
        assert_eq!(is_other(http::Method::POST, "/in?tenant=8"), profile.signs_url(), "{profile}");
    }
}

#[test]
fn a_foreign_signature_that_cannot_be_read_spoils_no_good_one() {
    let good = signing::message(SECRET, &input(COVERED, ""), ID, BODY);
    let (own, tag) = (value(&good, "signature-input"), value(&good, "signature"));
    for foreign in [
        "(\"@method\");created=\"1700000000\";keyid=\"k\"",
        "(\"@method\");created=1700000000000000;keyid=\"k\"",
        "(\"@method\");created=1;created=2;keyid=\"k\"",
        "(\"@method\");keyid=k",
        "(\"@method\" \"@method\");keyid=\"k\"",
        "(\"@method\");keyid=\"a\\\"b\"",
    ] {
        let tag = format!("a=:AAAA:, {tag}, b=:AAAA:");
        let headers = with(good.clone(), "signature-input", format!("a={foreign}, {own}, b={foreign}"));
        check_message(&with(headers, "signature", tag), Ok(ID));
    }
}

#[test]
fn a_url_is_the_same_in_other_letters_and_with_the_usual_port() {
    let names = [r#""@method" "@authority" "@path" "@query" "content-digest""#, COVERED];
    for covered in names {
        let headers = signing::message(SECRET, &input(covered, ""), ID, BODY);
        for url in ["HTTPS://Hooks.Example/in?tenant=7", "https://hooks.example:443/in?tenant=7"] {
            check(&headers, BODY, &keys(Profile::Rfc9421, &[SECRET]).with_url(url), Ok(ID));
        }
        for url in ["https://hooks.example:444/in?tenant=7", "https://hooks.example/IN?tenant=7"] {
            let keys = keys(Profile::Rfc9421, &[SECRET]).with_url(url);
            check(&headers, BODY, &keys, Err("signature-wrong"));
        }
    }
}

#[test]
fn the_digest_of_a_message_is_its_own_and_by_sha_256() {
    let base = signing::message(SECRET, &input(COVERED, ""), ID, BODY);
    let digest = value(&base, "content-digest").to_owned();
    for (text, expected) in [
        (format!("sha-512=:AAAA:, {digest}"), Ok(ID)),
        (format!("{digest}, {digest}"), Err("signature-malformed")),
        ("sha-512=:AAAA:".to_owned(), Err("signature-malformed")),
        (digest.replace("=:", ":"), Err("signature-malformed")),
        (format!("sha-256=:{}:", base64(&Sha256::digest(b"another"))), Err("signature-wrong")),
    ] {
        let covered = input(COVERED, "");
        let text_base = format!(
            "\"@method\": POST\n\"@target-uri\": {}\n\"content-digest\": {text}\n\"@signature-params\": {covered}",
            signing::URL
        );
        let tag = base64(&tag(Profile::Rfc9421, SECRET, &[text_base.as_bytes()]));
        let headers = with(base.clone(), "content-digest", text);
        check_message(&with(headers, "signature", format!("sig1=:{tag}:")), expected);
    }
    check(&base, b"another", &keys(Profile::Rfc9421, &[SECRET]), Err("signature-wrong"));
}

#[track_caller]
fn check_ed25519(signature: &str, expected: Option<Rejection>) {
    let headers = with(signed(Profile::Discord), "x-signature-ed25519", signature);
    let found = verify(UnixSeconds(NOW), headers.as_slice(), BODY, &keys(Profile::Discord, &[SECRET]));
    assert_eq!(found.err(), expected, "{signature}");
}

/// 1, little-endian: the neutral element, or a number.
const ONE: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[0] = 1;
    bytes
};

/// R is neutral, so S is the hash times the private number.
#[test]
fn a_signature_that_only_the_strict_rules_refuse_is_refused() {
    let number = "05f5a16cd83ca9da0d1ef416b95a343c67bccd3db0617af782525a03eb04f80e";
    let forged = hex(&ONE) + number;
    let message = [NOW.to_string().as_bytes(), BODY].concat();
    assert!(is_accepted_by_the_lax(&signing::key(Profile::Discord, SECRET), &forged, &message));
    check_ed25519(&forged, Some(Rejection::Signature));
}

/// For the neutral key, R = B and S = 1 sign every message.
#[test]
fn a_key_for_which_anybody_can_sign_is_refused() {
    let forged = format!("58{}{}", "66".repeat(31), hex(&ONE));
    for message in [BODY, b"another"] {
        assert!(is_accepted_by_the_lax(&hex(&ONE), &forged, message));
    }
    let whpk = format!("whpk_{}", base64(&ONE));
    for (profile, text) in [
        (Profile::Discord, hex(&ONE)),
        (Profile::Discord, "0".repeat(64)),
        (Profile::Discord, whpk.clone()),
        (Profile::StandardWebhooks, whpk),
    ] {
        let secret = Secret::new(&*text).unwrap();
        assert_eq!(Keys::new(profile, [&secret]).unwrap_err(), KeyError::Public, "{profile}: {text}");
    }
}

fn is_accepted_by_the_lax(key: &str, signature: &str, message: &[u8]) -> bool {
    let bytes = |text: &str| -> Vec<u8> {
        (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..][..2], 16).unwrap()).collect()
    };
    let key = VerifyingKey::from_bytes(&bytes(key).try_into().unwrap()).unwrap();
    key.verify(message, &Signature::from_slice(&bytes(signature)).unwrap()).is_ok()
}

#[test]
fn texts_that_are_no_keys_are_refused() {
    #[track_caller]
    fn check(profile: Profile, text: &str, expected: KeyError) {
        let error = Secret::new(text).and_then(|secret| Keys::new(profile, [&secret])).unwrap_err();
        assert_eq!(error, expected);
        assert!(text.len() < 7 || !error.to_string().contains(&text[6..]), "{error} tells the secret");
    }
    let standard = Profile::StandardWebhooks;
    check(standard, "", KeyError::Empty);
    check(standard, &"x".repeat(1_025), KeyError::Long { bytes: 1_025 });
    check(standard, "a plain text that is long enough", KeyError::Prefix);
    check(standard, "whsec_****", KeyError::Encoding);
    check(standard, &SECRET.replace('=', ""), KeyError::Encoding);
    check(standard, "whsec_c2hvcnQ=", KeyError::Length { bytes: 5 });
    check(standard, "whpk_c2hvcnQ=", KeyError::Public);
    check(Profile::Discord, SECRET, KeyError::Public);
    check(Profile::Discord, &SECRET.replace("whsec_", "whsk_"), KeyError::Public);
    check(Profile::Discord, &signing::key(Profile::Discord, SECRET).to_uppercase(), KeyError::Public);
    let point = signing::key(Profile::Sendgrid, SECRET);
    let elsewhere = point.replace(&point[60..62], if &point[60..62] == "AA" { "BB" } else { "AA" });
    for text in [SECRET, &point[1..], &point[..60], &elsewhere, &signing::key(Profile::Discord, SECRET)] {
        check(Profile::Sendgrid, text, KeyError::Point);
    }
    let jwk = jwk(SECRET, KID);
    let other = |from: &str, to: &str| {
        let text = jwk.replace(from, to);
        assert_ne!(text, jwk, "{from}");
        text
    };
    for text in [
        SECRET.to_owned(),
        other("ES256", "ES384"),
        other("P-256", "P-384"),
        other("\"EC\"", "\"RSA\""),
        other("null", "1700000000"),
        other(KID, ""),
        other("\"kid\"", "\"name\""),
        other("\"x\":\"", "\"x\":\"A"),
        other("\"x\"", "\"x\":\"\",\"x\""),
        other("\"use\"", "\"d\":\"AA\",\"use\""),
        other("\"y\":", "\"y\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"z\":"),
    ] {
        check(Profile::Plaid, &text, KeyError::Jwk);
    }
    let (secret, of_p256) =
        (signing::key(Profile::Rfc9421, SECRET), signing::jwk(SECRET, KID).replace("null", "1"));
    let hex = format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{}"}}"#, base64url(&ONE));
    for text in
        [&secret.replace("oct", "EC"), &secret.replace("\"k\":\"", "\"k\":\"="), &of_p256, &hex, "whsk_AAAA"]
    {
        check(Profile::Rfc9421, text, KeyError::Message);
    }
    check(Profile::Rfc9421, "whsec_c2hvcnQ=", KeyError::Length { bytes: 5 });
    assert_eq!(Keys::new(standard, []).unwrap_err(), KeyError::None);
    let secret = Secret::new(SECRET).unwrap();
    assert_eq!(Keys::new(standard, [&secret; 9]).unwrap_err(), KeyError::TooMany);
}

#[test]
fn nothing_that_is_printed_shows_a_secret_or_what_was_expected() {
    for profile in signed_by_headers() {
        let secret = Secret::new(signing::key(profile, SECRET)).unwrap();
        let keys = Keys::new(profile, [&secret]).unwrap();
        let (name, before) = place_of_signature(profile);
        let good = value(&signed(profile), name).to_owned();
        let wrong = with(signed(profile), name, good.replace(['a', 'b', 'c'], "d"));
        let rejection = verify(UnixSeconds(NOW), wrong.as_slice(), BODY, &keys).unwrap_err();
        let shown = format!("{secret:?} {keys:?} {rejection:?} {rejection}");
        assert!(!shown.contains(&SECRET[6..]), "{shown}");
        assert!(!shown.contains(&good[before.len()..before.len() + 8]), "{shown}");
    }
}
