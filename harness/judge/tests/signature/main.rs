#![expect(clippy::unwrap_used, reason = "a test ends where what it stands on is missing")]

mod published;
mod vectors;

use proptest::prelude::*;

use hookproof_judge::signature::{
    CheckedSignature, IN_BODY, Key, KeyError, Profile, Received, Secret, Signing, Wrong, base64, folded, hex,
    sign, unbase64, unhex,
};

const BODY: &[u8] = br#"{"id":"evt_1","type":"video.trending"}"#;

/// A private key has 32 bytes.
fn longer(profile: Profile, text: &str) -> Secret {
    let private = format!("{}aGFsZiBvZiA=", text.replace("whsec_", "whsk_"));
    let text = match () {
        () if profile.key_url().is_some() => match text.contains("Mf") {
            true => include_str!("../../../../receiver/verify/tests/signing/rsa.key").to_owned(),
            false => include_str!("../../../../receiver/verify/tests/signing/rsa-other.key").to_owned(),
        },
        () if profile.is_public() => private,
        () if profile.signs_body() => text.to_owned(),
        () => profile.secret_of(&text.as_bytes()[..32]),
    };
    Secret::parse(profile, &text).unwrap()
}

fn body_of(profile: Profile) -> Vec<u8> {
    let own = profile.filled("evt_1", "video.trending", "2023-11-14T22:13:20Z", "{}");
    own.map_or_else(|| BODY.to_vec(), String::into_bytes)
}

fn secret(profile: Profile) -> Secret {
    longer(profile, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
}

fn other(profile: Profile) -> Secret {
    longer(profile, "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
}

fn signing(body: &[u8]) -> Signing<'_> {
    let (id, timestamp, date) = ("msg_1", "1614265330", "2021-02-25T15:02:10Z");
    Signing { id, timestamp, date, event_type: "video.trending", body, ..Signing::default() }
}

fn verify(profile: Profile, secrets: &[Secret], headers: &[(&str, &[u8])], body: &[u8]) -> CheckedSignature {
    let keys: Vec<Key> = secrets.iter().cloned().map(Key::from).collect();
    let kind: (&str, &[u8]) = ("content-type", b"application/json");
    let headers = &[headers, &[kind]].concat();
    profile.verify(&keys, &Received { headers, body, ..Received::default() })
}

fn verdict(
    profile: Profile,
    secrets: &[Secret],
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Vec<usize>, Wrong> {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.clone(), value.as_bytes().to_vec())).collect();
    let (headers, body) = folded(&headers, body).unwrap_or_else(|| (headers.clone(), body.to_vec()));
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    verify(profile, secrets, &headers, &body).verdict
}

#[test]
fn the_example_of_the_standard_webhooks_specification_comes_out() {
    let signing = Signing {
        id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp: "1614265330",
        body: br#"{"test": 2432232314}"#,
        ..Signing::default()
    };
    let signature = signing.signature(Profile::STANDARD_WEBHOOKS, &secret(Profile::STANDARD_WEBHOOKS));
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn the_example_of_github_comes_out() {
    let secret = Secret::parse(Profile::GITHUB, "It's a Secret to Everybody").unwrap();
    let signature = signing(b"Hello, World!").signature(Profile::GITHUB, &secret);
    assert_eq!(signature, "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
}

#[test]
fn a_signature_verifies_with_the_keys_that_made_it() {
    for profile in Profile::ALL {
        let (first, second, body) = (secret(profile), other(profile), body_of(profile));
        let headers = sign(profile, &[&first, &second], &signing(&body));
        let both = if profile.has_several_signatures() { vec![0, 1] } else { vec![1] };
        assert_eq!(
            verdict(profile, &[second.clone(), first.clone()], &headers, &body),
            Ok(both),
            "{profile}"
        );
        let headers = sign(profile, &[&second], &signing(&body));
        assert_eq!(verdict(profile, &[first, second], &headers, &body), Ok(vec![1]), "{profile}");
    }
}

/// The suite writes these headers itself.
#[test]
fn a_profile_may_sign_the_headers_of_id_type_and_attempt() {
    let text = "algorithm = \"hmac-sha256\"\nheader = \"S\"\nid = \"X-Id\"\ntype = \"X-Type\"\nattempt = \"X-Attempt\"\n\
         signed = [\"{header.X-Id}.{header.x-type}.{header.X-Attempt}.{body}\"]";
    let profile = Profile::parse("own", text).unwrap();
    let mut headers = sign(profile, &[&secret(profile)], &signing(BODY));
    assert_eq!(verdict(profile, &[secret(profile)], &headers, BODY), Ok(vec![0]));
    headers.iter_mut().find(|(name, _)| name == "X-Attempt").unwrap().1 = "2".to_owned();
    assert_eq!(verdict(profile, &[secret(profile)], &headers, BODY), Err(Wrong::NoKey));
    let own = text.replace("header.X-Id", "header.S");
    assert!(Profile::parse("own", &own).unwrap_err().to_string().contains("a signature cannot cover itself"));
}

fn own(key: &str) -> Profile {
    let sign = "header = \"x-signature-ed25519\"\nsigned = [\"{timestamp}{body}\"]\ntimestamp = \"x-signature-timestamp\"";
    Profile::parse("own", &format!("algorithm = \"ed25519\"\n{key}{sign}")).unwrap()
}

#[test]
fn a_private_key_signs_in_each_of_its_forms_as_the_providers_library_wants_it() {
    let seed = b"a-seed-of-an-ed25519-private-key";
    let pkcs8 = [b"\x30\x2e\x02\x01\0\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20", &seed[..]].concat();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", base64(&pkcs8));
    let whsk = format!("whsk_{}", base64(seed));
    let public = unhex("2615936c343f1dbda94fbf24c9a99c723152c105c69ae4fc9fbd805cb5f5ffc2").unwrap();
    let svix = |public: &[u8]| format!("whsk_{}", base64(&[seed, public].concat()));
    let discord: Profile = "discord".parse().unwrap();
    let rows = [
        (discord, whsk.clone()),
        (discord, svix(&public)),
        (own("key = \"base64\"\n"), whsk.clone()),
        (own(""), pem.clone()),
        (own(""), pem.replace('\n', "\\n")),
        (own(""), whsk),
    ];
    signs_as_its_vectors("discord", &rows);
    // Without its prefix it would be a public key.
    let base64 = own("key = \"base64\"\n");
    for (profile, text) in [(discord, hex(seed)), (base64, self::base64(seed)), (own(""), hex(seed))] {
        assert_eq!(Secret::parse(profile, &text).unwrap_err(), KeyError::Private, "{text}");
    }
    for text in ["whsk_AAAA", &svix(&[9; 32])] {
        assert_eq!(Secret::parse(discord, text).unwrap_err(), KeyError::Private);
    }
}

/// By each of these profiles and keys.
fn signs_as_its_vectors(name: &str, rows: &[(Profile, String)]) {
    for (mut expected, body) in vectors::valid(name) {
        expected.sort();
        for (profile, text) in rows {
            let secret = Secret::parse(*profile, text).unwrap();
            let signing = Signing { timestamp: "1700000000", body: body.as_bytes(), ..Signing::default() };
            let mut headers = sign(*profile, &[&secret], &signing);
            headers.sort();
            assert_eq!(headers, expected, "{profile}: {body}");
            assert_eq!(verdict(*profile, &[secret], &headers, body.as_bytes()), Ok(vec![0]));
        }
    }
}

/// Node's crypto wrote the key; `@noble/curves` made the signatures.
#[test]
fn a_private_key_of_p256_signs_in_each_of_its_forms_as_another_library_does() {
    let pkcs8 = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYS1zZWVkLW9mLWFuLWVkMjU1MTktcHJpdmF0ZS1rZXmhRANCAASYODCe6ilsYQDSvU5tNkMJfbGSFw4xN/D8Ygm/NqHLkgic0JTa36hTpf294kwBW+V62P4x9kpUiJ0tYGhVHQHW";
    let number = format!("whsk_{}", base64(b"a-seed-of-an-ed25519-private-key"));
    let sendgrid: Profile = "sendgrid".parse().unwrap();
    let name = "x-twilio-email-event-webhook";
    let pem = Profile::parse(
        "own",
        &format!(
            "algorithm = \"ecdsa-p256\"\nencoding = \"base64\"\nheader = \"{name}-signature\"\nsigned = [\"{{timestamp}}{{body}}\"]\ntimestamp = \"{name}-timestamp\""
        ),
    );
    let pem = pem.unwrap();
    let rows = [
        (sendgrid, number.clone()),
        (sendgrid, format!("whsk_{pkcs8}")),
        (pem, format!("-----BEGIN PRIVATE KEY-----\n{pkcs8}\n-----END PRIVATE KEY-----\n")),
        (pem, number),
    ];
    signs_as_its_vectors("sendgrid", &rows);
    let zero = format!("whsk_{}", base64(&[0; 32]));
    for text in [pkcs8, "whsk_AAAA", &zero] {
        assert_eq!(Secret::parse(sendgrid, text).unwrap_err(), KeyError::PrivateP256, "{text}");
    }
}

#[test]
fn a_prefix_tells_a_public_key_from_a_private_one_and_a_shared_secret_is_refused() {
    let public = unhex("2615936c343f1dbda94fbf24c9a99c723152c105c69ae4fc9fbd805cb5f5ffc2").unwrap();
    let discord: Profile = "discord".parse().unwrap();
    let whpk = format!("whpk_{}", base64(&public));
    let rows = [
        (discord, hex(&public)),
        (discord, whpk.clone()),
        (own("key = \"base64\"\n"), base64(&public)),
        (own(""), whpk),
    ];
    for (headers, body) in vectors::valid("discord") {
        for (profile, text) in &rows {
            let key = profile.key(text).unwrap();
            assert_eq!(key.mark(), None, "a public key is no secret: {text}");
            let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
            let request = Received { headers: &headers, body: body.as_bytes(), ..Received::default() };
            assert_eq!(profile.verify(&[key], &request).verdict, Ok(vec![0]), "{profile}: {text}");
        }
    }
    let private = format!("whsk_{}", base64(b"a-seed-of-an-ed25519-private-key"));
    assert!(discord.key(&private).unwrap().mark().is_some());
    let shared = format!("whsec_{}", base64(&public));
    for profile in [discord, own("key = \"base64\"\n"), own("")] {
        let told = profile.key(&shared).unwrap_err().to_string();
        assert!(told.contains("with whsec_,") && told.contains("whpk_ (public)"), "{profile}: {told}");
        assert_eq!(Secret::parse(profile, &shared).unwrap_err(), KeyError::Private, "{profile}");
    }
    for text in ["whpk_AAAA", &hex(&public)[2..]] {
        assert_eq!(discord.key(text).unwrap_err(), KeyError::Public, "{text}");
    }
    let small = ["0".repeat(64), format!("ec{}ff", "f".repeat(60))];
    for text in &small {
        assert_eq!(discord.key(text).unwrap_err(), KeyError::Small, "{text}");
    }
}

#[test]
fn signatures_of_no_known_key_are_counted() {
    for profile in Profile::ALL.into_iter().filter(|profile| profile.has_several_signatures()) {
        let headers = sign(profile, &[&secret(profile), &other(profile), &other(profile)], &signing(BODY));
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
        let seen = |keys: &[Secret]| verify(profile, keys, &headers, BODY);
        assert_eq!(seen(&[secret(profile)]).surplus, 2, "{profile}");
        assert_eq!(seen(&[secret(profile), other(profile)]).surplus, 0, "{profile}");
    }
}

#[test]
fn a_key_is_found_in_each_of_its_spellings() {
    let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let key = Key::from(Secret::parse(Profile::STANDARD_WEBHOOKS, text).unwrap());
    let bytes = unbase64(&text[6..]).unwrap();
    for spelled in [
        text.as_bytes().to_vec(),
        text.as_bytes()[6..].to_vec(),
        hex(&bytes).into_bytes(),
        hex(&bytes).to_uppercase().into_bytes(),
        bytes,
    ] {
        let inside = [b"{\"a\":\"".as_slice(), &spelled, b"\"}"].concat();
        assert!(key.is_in(&inside), "{inside:?}");
        assert!(!key.is_in(&inside[..inside.len() - 3]) && !key.is_in(b""), "{inside:?}");
    }
    let short = Key::from(Secret::parse(Profile::GITHUB, "password").unwrap());
    assert!(!short.is_in(b"password"), "a short text occurs by chance");
}

fn for_another_body(profile: Profile) -> Wrong {
    match (profile.is_token(), profile.is_message()) {
        (true, _) => Wrong::Claim("request_body_sha256".to_owned()),
        (_, true) => Wrong::ContentDigest,
        _ => Wrong::NoKey,
    }
}

#[test]
fn another_key_another_body_and_no_key_at_all_are_wrong() {
    for profile in Profile::ALL {
        let body = body_of(profile);
        let headers = sign(profile, &[&secret(profile)], &signing(&body));
        assert_eq!(verdict(profile, &[other(profile)], &headers, &body), Err(Wrong::NoKey), "{profile}");
        let others = profile.with_other_members(&body).into_iter().map(|(_, other)| other);
        for other in others.chain(profile.signs_body().then(|| b"{}".to_vec())) {
            let judged = verdict(profile, &[secret(profile)], &headers, &other);
            assert_eq!(judged, Err(for_another_body(profile)), "{profile}");
        }
        assert_eq!(verdict(profile, &[], &headers, &body), Err(Wrong::NoKey), "{profile}");
    }
}

#[test]
fn signature_headers_are_reported_verbatim() {
    let seen = |profile| {
        let headers = sign(profile, &[&secret(profile)], &signing(BODY));
        let headers: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
        let seen = verify(profile, &[], &headers, BODY);
        (seen.id, seen.timestamp, seen.attempt)
    };
    let (id, timestamp, attempt) =
        (Some("msg_1".to_owned()), Some("1614265330".to_owned()), Some("1".to_owned()));
    assert_eq!(seen(Profile::STANDARD_WEBHOOKS), (id.clone(), timestamp.clone(), None));
    assert_eq!(seen(Profile::VVV_TIMESTAMPED), (None, timestamp.clone(), None));
    assert_eq!(seen(Profile::VVV_FROZEN), (id.clone(), None, attempt));
    assert_eq!(seen(Profile::STRIPE), (None, timestamp.clone(), None));
    assert_eq!(seen(Profile::GITHUB), (id.clone(), None, None));
    // In milliseconds.
    assert_eq!(seen("hubspot".parse().unwrap()), (None, Some("1614265".to_owned()), None));
    assert_eq!(seen("paddle".parse().unwrap()), (None, timestamp, None));
}

#[test]
fn headers_that_are_missing_doubled_or_no_text_are_wrong() {
    let profile = Profile::STANDARD_WEBHOOKS;
    let good = sign(profile, &[&secret(profile)], &signing(BODY));
    let judged = |headers: &[(String, String)]| verdict(profile, &[secret(profile)], headers, BODY);
    for (at, name) in ["webhook-id", "webhook-timestamp", "webhook-signature"].into_iter().enumerate() {
        let mut headers = good.clone();
        let removed = headers.remove(at);
        assert_eq!(judged(&headers), Err(Wrong::Missing(name.into())));
        headers.extend([removed.clone(), removed]);
        assert_eq!(judged(&headers), Err(Wrong::Several(name.into())));
        for text in ["", "é", "a\u{7f}"] {
            let mut headers = good.clone();
            text.clone_into(&mut headers[at].1);
            assert_eq!(judged(&headers), Err(Wrong::Text(name.into())), "{text:?}");
        }
    }
}

#[test]
fn a_timestamp_has_one_spelling() {
    let in_a_header = |profile: &Profile| {
        profile.signs_timestamp() && !profile.has_json_timestamp() && !profile.is_message()
    };
    for profile in Profile::ALL.into_iter().filter(in_a_header) {
        for text in ["+1", "01", "1.0", "-1", " 1", "99999999999999999999", "1e3"] {
            let headers = sign(profile, &[&secret(profile)], &Signing { timestamp: text, ..signing(BODY) });
            let judged = verdict(profile, &[secret(profile)], &headers, BODY);
            assert_eq!(judged, Err(Wrong::Timestamp(text.to_owned())), "{profile}");
        }
    }
}

#[test]
fn the_time_of_a_token_is_a_whole_number_and_its_claims_are_there_once() {
    let plaid: Profile = "plaid".parse().unwrap();
    for text in ["1.0", "-1", "1e3", "01", "99999999999999999999", "NaN", "\"1\"", "null", "1,\"iat\":1", ""]
    {
        let headers = sign(plaid, &[&secret(plaid)], &Signing { timestamp: text, ..signing(BODY) });
        let judged = verdict(plaid, &[secret(plaid)], &headers, BODY);
        assert!(matches!(judged, Err(Wrong::Timestamp(_) | Wrong::Token(_))), "{text}: {judged:?}");
    }
}

#[test]
fn a_forged_token_is_wrong() {
    let plaid: Profile = "plaid".parse().unwrap();
    let (own, stranger) = (secret(plaid), other(plaid));
    let wrong = |token: String| {
        verdict(plaid, std::slice::from_ref(&own), &signing(BODY).headers(plaid, &[token]), BODY)
    };
    let forged = signing(BODY).forged_tokens(plaid, &own, &stranger);
    assert!(forged.len() >= 15, "{forged:?}");
    for (what, token) in forged {
        assert!(wrong(token).is_err(), "{what}");
    }
    assert_eq!(wrong(signing(BODY).forged(plaid, &own, &stranger)), Err(Wrong::NoKey));
    let short = signing(BODY).other_signatures(plaid, &own);
    let short: Vec<_> = short.into_iter().map(|(template, token)| (template, wrong(token))).collect();
    let expected = [
        ("{timestamp}".to_owned(), Err(Wrong::Claim("request_body_sha256".to_owned()))),
        ("{body}".to_owned(), Err(Wrong::Timestamp(String::new()))),
    ];
    assert_eq!(short, expected);
    assert!(
        signing(BODY)
            .forged_tokens(Profile::GITHUB, &secret(Profile::GITHUB), &other(Profile::GITHUB))
            .is_empty()
    );
}

#[test]
fn a_forged_message_is_wrong_and_one_over_less_than_is_needed() {
    let rfc9421: Profile = "rfc9421".parse().unwrap();
    let pkcs8 = "whsk_MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgYS1zZWVkLW9mLWFuLWVkMjU1MTktcHJpdmF0ZS1rZXmhRANCAASYODCe6ilsYQDSvU5tNkMJfbGSFw4xN/D8Ygm/NqHLkgic0JTa36hTpf294kwBW+V62P4x9kpUiJ0tYGhVHQHW";
    let seed = format!("whsk_{}", base64(b"a-seed-of-an-ed25519-private-key"));
    let url = "https://example.org/hooks?tenant=7";
    let signing = Signing { method: "POST", url, ..signing(BODY) };
    for text in ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &seed, pkcs8] {
        let own = Secret::parse(rfc9421, text).unwrap();
        let keys = [Key::from(own.clone())];
        let judged = |signature: String| {
            let mut headers = signing.headers(rfc9421, &[signature]);
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
            let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
            let request =
                Received { method: "POST", url, headers: &headers, body: BODY, ..Received::default() };
            rfc9421.verify(&keys, &request).verdict
        };
        assert_eq!(judged(signing.signature(rfc9421, &own)), Ok(vec![0]));
        let forged = signing.forged_tokens(rfc9421, &own, &other(rfc9421));
        let less = signing.other_signatures(rfc9421, &own);
        assert!(forged.len() >= 6 && less.len() >= 15, "{forged:?} {less:?}");
        for (what, signature) in forged {
            assert_eq!(judged(signature), Err(Wrong::NoKey), "{what}");
        }
        for (what, signature) in less {
            let found = judged(signature);
            assert!(matches!(found, Err(Wrong::Uncovered(_))), "{what}: {found:?}");
        }
    }
}

#[test]
fn a_message_has_labels_of_the_right_form_and_covers_its_query() {
    let text =
        "algorithm = \"rfc9421\"\nsigned = [\"@method\", \"@authority\", \"@path\", \"content-digest\"]";
    let profile = Profile::parse("own", text).unwrap();
    let own = secret(profile);
    let judged = |url: &str, label: &str| {
        let headers = sign(profile, &[&own], &Signing { method: "POST", url, ..signing(BODY) });
        let labelled =
            headers.iter().map(|(name, value)| (name, value.replacen("sig1=", &format!("{label}="), 1)));
        let headers: Vec<_> = labelled.collect();
        let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_str(), v.as_bytes())).collect();
        let request = Received { method: "POST", url, headers: &headers, body: BODY, ..Received::default() };
        profile.verify(&[Key::from(own.clone())], &request).verdict
    };
    for label in ["sig1", "a", "*", "a_-.*9"] {
        assert_eq!(judged("https://example.org/hooks", label), Ok(vec![0]), "{label}");
    }
    for label in ["Sig1", "1a", "", "a b", "-a", "a:"] {
        assert_eq!(judged("https://example.org/hooks", label), Err(Wrong::Input), "{label}");
    }
    let uncovered = Wrong::Uncovered("@target-uri".to_owned());
    assert_eq!(judged("https://example.org/hooks?tenant=7", "sig1"), Err(uncovered));
}

#[test]
fn a_profile_of_ones_own_names_the_components_of_a_message() {
    let text = "algorithm = \"rfc9421\"\nheaders = { X-Tenant = \"7\" }\n\
         signed = [\"@method\", \"@authority\", \"@path\", \"content-digest\", \"X-Tenant\"]";
    let profile = Profile::parse("own", text).unwrap();
    let headers = sign(profile, &[&secret(profile)], &signing(BODY));
    assert_eq!(verdict(profile, &[secret(profile)], &headers, BODY), Ok(vec![0]));
    let (_, input) = headers.iter().find(|(name, _)| name == "signature-input").unwrap();
    assert!(
        input.starts_with(
            r#"sig1=("@method" "@authority" "@path" "content-digest" "x-tenant");created=1614265330;"#
        ),
        "{input}"
    );
    let unwritten = text.replace("X-Tenant =", "X-Other =");
    assert!(
        Profile::parse("own", &unwritten)
            .unwrap_err()
            .to_string()
            .contains("expected x-tenant in `headers` as well")
    );
}

#[test]
fn a_profile_of_ones_own_may_have_tokens() {
    let text =
        "algorithm = \"jwt-es256\"\nheader = \"T\"\ntimestamp_field = \"at\"\nbody_digest = \"hash\"\n";
    let profile = Profile::parse("own", text).unwrap();
    let headers = sign(profile, &[&secret(profile)], &signing(BODY));
    assert_eq!(verdict(profile, &[secret(profile)], &headers, BODY), Ok(vec![0]));
    for (line, expected) in [
        ("signed = [\"{body}\"]", "signed: expected it only without jwt-es256"),
        ("key = \"pem\"", "key: expected \"jwk\" with jwt-es256"),
    ] {
        let error = Profile::parse("own", &format!("{text}{line}")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = Profile::parse("own", &text.replace("body_digest", "id")).unwrap_err().to_string();
    assert!(error.contains("body_digest: it is missing"), "{error}");
}

#[test]
fn an_unsigned_item_is_beside_the_signed_one_if_that_is_in_a_list() {
    let places = |pointer: &str, body: &str| {
        let text = format!(
            "algorithm = \"hmac-sha256\"\nheader = \"x-sig\"\nsigned = [\"{{body{pointer}}}\"]\n\
             body = '{{\"a\":{body},\"data\":{{data}}}}'\n"
        );
        let profile = Profile::parse("own", &text).unwrap();
        let body = profile.filled("i", "t", "s", "{}").unwrap();
        profile
            .with_another_item(body.as_bytes())
            .into_iter()
            .map(|(_, body)| String::from_utf8(body).unwrap())
            .collect::<Vec<_>>()
    };
    let listed = places("/a/0/id", r#"[{"id":"{id}"}]"#);
    assert_eq!(
        listed,
        [r#"{"a":[{"id":"i"},{"id":"i1"}],"data":{}}"#, r#"{"a":[{"id":"i1"},{"id":"i"}],"data":{}}"#]
    );
    assert_eq!(places("/a/0/id", r#"{"0":{"id":"{id}"}}"#), Vec::<String>::new());
}

#[test]
fn a_profile_of_ones_own_signs_members_of_the_body() {
    let text = "algorithm = \"hmac-sha256\"\nsignature_field = \"/sig\"\nprefix = \"v1=\"\n\
         signed = [\"{body/id}|{body/a/0}|{body/flag}\"]\n\
         body = '{\"sig\":\"{signature}\",\"id\":\"{id}\",\"a\":[{data}],\"flag\":true}'\n";
    let profile = Profile::parse("own", text).unwrap();
    let signing = Signing {
        id: "i",
        body: br#"{"sig":"{signature}","id":"i","a":[7],"flag":true}"#,
        ..Signing::default()
    };
    let headers = sign(profile, &[&secret(profile)], &signing);
    assert_eq!(headers[0].0, IN_BODY);
    let judged = |body: &[u8]| verdict(profile, &[secret(profile)], &headers, body);
    assert_eq!(judged(signing.body), Ok(vec![0]));
    assert_eq!(judged(br#"{"x":1,"flag":true,"a":["7"],"id":"i","sig":"{signature}"}"#), Ok(vec![0]));
    assert_eq!(judged(br#"{"sig":"{signature}","id":"i","a":[7],"flag":false}"#), Err(Wrong::NoKey));
    for absent in [&b"{}"[..], b"{", br#"{"sig":null}"#, br#"{"sig":""}"#] {
        let judged = verdict(profile, &[secret(profile)], &[], absent);
        assert!(matches!(judged, Err(Wrong::Member(_) | Wrong::NoSignature(_))), "{judged:?}");
    }
    for (from, to, expected) in [
        ("|{body/a/0}", "{body}", "a signature in the body cannot cover itself"),
        ("{body/id}|{body/a/0}|{body/flag}", "{url}", "signed: it lacks {body}"),
        ("{body/id}", "{body/}", "signed: \"/\" is not a JSON pointer"),
        ("\"/sig\"", "\"sig\"", "signature_field: \"sig\" is not a JSON pointer"),
        ("\"/sig\"", "\"/other\"", "body: expected \"{signature}\" at /other"),
        ("prefix", "separator", "signature_field: expected it only without `header`"),
        ("signature_field = \"/sig\"", "header = \"S\"", "body: it has {signature}"),
        ("{id}", "id", "body: it lacks {id}"),
        ("[{data}]", "[7]", "body: it lacks {data}"),
        ("{body/a/0}", "{body/b/0}", "signed: a member has no place in `body`"),
        ("{data}", "\"{data}\"", "body: it is no JSON"),
        ("\"/sig\"", "\"/a/1\"", "signature_field: /a is a list"),
        ("{body/id}", "{body/sig}", "signed: the signature is in /sig"),
        ("{body/id}", "{body/idd}", "signed: no signed member has the {id}"),
        ("true}", "true", "body: it is no JSON"),
        ("body =", "# body =", "body: it is missing"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Profile::parse("own", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_public_jwk_has_each_member_once_and_no_private_number() {
    let plaid: Profile = "plaid".parse().unwrap();
    let jwk = r#"{"crv":"P-256","kid":"k","kty":"EC","x":"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY","y":"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}"#;
    assert_eq!(plaid.key(jwk).unwrap().mark(), None);
    for (from, to) in [
        ("P-256", "P-384"),
        ("EC", "RSA"),
        ("\"x\"", "\"x\":\"\",\"x\""),
        ("\"x\":\"", "\"x\":\"A"),
        ("\"y\"", "\"d\":\"AA\",\"y\""),
        ("{", "["),
    ] {
        assert_eq!(plaid.key(&jwk.replacen(from, to, 1)).unwrap_err(), KeyError::Jwk, "{from} {to}");
    }
}

#[test]
fn a_signature_has_one_spelling() {
    for profile in Profile::ALL {
        let body = body_of(profile);
        let good = signing(&body).signature(profile, &secret(profile));
        for bad in [good[..good.len() - 1].to_owned(), format!("{good}0"), format!("{good}\n")] {
            let headers = signing(&body).headers(profile, &[bad]);
            assert!(verdict(profile, &[secret(profile)], &headers, &body).is_err(), "{profile}");
        }
    }
}

#[test]
fn signatures_of_other_versions_are_left_alone() {
    let profile = Profile::STANDARD_WEBHOOKS;
    let good = signing(BODY).signature(profile, &secret(profile));
    let judged = |signatures: &[&str]| {
        let signatures: Vec<_> = signatures.iter().map(|text| (*text).to_owned()).collect();
        verdict(profile, &[secret(profile)], &signing(BODY).headers(profile, &signatures), BODY)
    };
    assert_eq!(judged(&["v1a,AAAA", &good]), Ok(vec![0]));
    assert_eq!(judged(&["v2,AAAA"]), Err(Wrong::NoSignature("webhook-signature".into())));
    assert_eq!(judged(&[&good, "v1,AAAA"]), Err(Wrong::Encoding(2)));
}

#[test]
fn a_secret_is_never_shown() {
    let secret = secret(Profile::STANDARD_WEBHOOKS);
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    let text = "a whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw b MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw c";
    assert_eq!(secret.redact(text), "a (secret) b (secret) c");
    assert!(secret.is_in(text.as_bytes()) && !secret.is_in(b"whsec_"));
    let key = "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0";
    assert_eq!(secret.redact(&format!("key {key}, {}.", key.to_uppercase())), "key (secret), (secret).");
    assert!(secret.is_in(key.as_bytes()) && !secret.is_in(&key.as_bytes()[1..]));
    let error = Secret::parse(Profile::STANDARD_WEBHOOKS, "whsec_hunter2!").unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    for profile in Profile::ALL {
        let error = Secret::parse(profile, "whsec_").unwrap_err();
        assert_eq!(error, KeyError::Empty, "{profile}");
    }
}

#[test]
fn a_profile_is_read_by_its_name() {
    for profile in Profile::ALL {
        assert_eq!(profile.to_string().parse(), Ok(profile));
        assert_eq!(
            profile.name(),
            Profile::NAMES[Profile::ALL.iter().position(|one| *one == profile).unwrap()]
        );
    }
    let error = "Stripe".parse::<Profile>().unwrap_err().to_string();
    assert!(
        error.starts_with("\"Stripe\" is not a signing profile; expected one of standard-webhooks,"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_change_of_one_byte_verifies(
        profile in proptest::sample::select(&Profile::ALL[..]).prop_filter("signs members", |one| one.signs_body()),
        body in proptest::collection::vec(any::<u8>(), 1..200),
        at in any::<proptest::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let headers = sign(profile, &[&secret(profile)], &signing(&body));
        prop_assert_eq!(verdict(profile, &[secret(profile)], &headers, &body), Ok(vec![0]));
        let mut changed = body.clone();
        changed[at.index(body.len())] ^= flip;
        prop_assert_eq!(verdict(profile, &[secret(profile)], &headers, &changed), Err(for_another_body(profile)));
    }

    #[test]
    fn nothing_panics(
        profile in proptest::sample::select(&Profile::ALL[..]),
        values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 3),
    ) {
        let names = [profile.id_header(), profile.timestamp_header(), Some(profile.signature_header())];
        let headers: Vec<(&str, &[u8])> =
            names.iter().zip(&values).filter_map(|(name, value)| Some(((*name)?, &**value))).collect();
        prop_assert!(verify(profile, &[secret(profile)], &headers, BODY).verdict.is_err());
    }
}

#[test]
fn base64_is_what_the_specification_means_by_it() {
    assert_eq!(unbase64("+/+/").unwrap(), [0xfb, 0xff, 0xbf]);
}

#[test]
fn a_digest_that_is_signed_in_the_url_has_to_arrive_there() {
    let twilio: Profile = "twilio".parse().unwrap();
    let (url, secret) = ("https://example.org/hooks?tenant=7", secret(twilio));
    let headers = sign(twilio, &[&secret], &Signing { url, ..signing(BODY) });
    let headers: Vec<(&str, &[u8])> =
        headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
    let keys = [Key::from(secret)];
    let verdict = |target: &str| {
        let target = Some(target);
        twilio
            .verify(&keys, &Received { url, target, headers: &headers, body: BODY, ..Received::default() })
            .verdict
    };
    let path = "/hooks?tenant=7";
    assert_eq!(verdict(&twilio.addressed(path, BODY, false)), Ok(vec![0]));
    for target in [path.into(), twilio.addressed(path, b"{}", false), twilio.addressed("/hooks", BODY, false)]
    {
        assert!(matches!(verdict(&target), Err(Wrong::Digest(_))), "{target}");
    }
}
