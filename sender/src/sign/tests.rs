use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

/// The bytes 0 to 31, and 32 to 63.
const SECRET_A: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const SECRET_B: &str = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
const PLAIN: &str = "the-shared-subscriber-secret";

const BODY: &str = concat!(
    r#"{"id":"evt_1","type":"video.trending","timestamp":"2023-11-14T22:13:20.000Z","#,
    r#""data":{"views":1200000}}"#
);

// Signatures over BODY at 1700000000, computed apart with Python's hmac module:
//   h = lambda key, text: hmac.new(key, text, hashlib.sha256)
//   STANDARD_*: base64.b64encode(h(base64.b64decode(secret[6:]), b"evt_1.1700000000." + body).digest())
//   STAMPED_*:  h(secret.encode(), b"1700000000." + body).hexdigest()
//   BARE_*:     h(secret.encode(), body).hexdigest()
const STANDARD_A: &str = "PVApEgUBkU7hboRGd1KTAARn5TYgSr81jKn23qgvL9E=";
const STANDARD_B: &str = "iwIOe23OkKThZmSVAIFzOfMF0Z9W/59y7v34WDmxkIU=";
const STAMPED_A: &str = "7869ad898d7093013ec2b36b5db2e6a51f0c3bc6097afb03d939f963acb95a9b";
const STAMPED_B: &str = "9c21b0a042eac5b7a838f79234da769e7954515efcd9d5bfab4eeb409a1042df";
const STAMPED_PLAIN: &str = "ce64000908240b9bad6ebbc36e830f65517b2811b723cbb7414eac1a807cb702";
const BARE_A: &str = "3c089c08c7d4b623dadab1c399a8fd960d1f5ebfd9e7e83239390524e4542449";
const BARE_B: &str = "5d7a33eb3c0758ae2a5eeaa3ca0f9c00cc3234f24375326e75fc4e9156776aab";
const BARE_PLAIN: &str = "2f8828ef9de18072be3a6c74d4073e2250b6de39882b5dab4fb994d5ffbf63d1";

const NOW: StoreTime = StoreTime(1_700_000_000_999_999_999);
const LATER: StoreTime = StoreTime(1_700_000_060_000_000_000);

fn secret(text: &str) -> Secret {
    Secret::parse(text).unwrap()
}

fn fitting(profile: Profile, text: &str) -> Secret {
    secret(&if profile.form().key.is_private() { text.replace("whsec_", "whsk_") } else { text.to_owned() })
}

fn rotated(profile: Profile) -> Keys {
    let mut keys = Keys::new(fitting(profile, SECRET_A));
    keys.rotate(NOW, fitting(profile, SECRET_B), LATER).unwrap();
    keys
}

fn signer(profile: Profile, keys: &Keys) -> Signer {
    Signer::new(profile, keys).unwrap()
}

struct Words {
    id: PublicId,
    event_type: EventType,
    subscriber: PublicId,
}

impl Words {
    fn new() -> Self {
        Self {
            id: "evt_1".parse().unwrap(),
            event_type: "video.trending".parse().unwrap(),
            subscriber: "sub_9".parse().unwrap(),
        }
    }

    fn attempt<'a>(&'a self, number: u32, body: &'a str) -> Attempt<'a> {
        Attempt {
            id: &self.id,
            event_type: &self.event_type,
            subscriber: &self.subscriber,
            number,
            frozen: None,
            body: body.as_bytes(),
        }
    }
}

fn signed(profile: Profile, keys: &Keys, at: StoreTime) -> Vec<(&'static str, String)> {
    let mut headers = Headers::new();
    signer(profile, keys).sign(at, &Words::new().attempt(1, BODY), &mut headers);
    headers.iter().map(|(name, value)| (name, value.to_owned())).collect()
}

#[track_caller]
fn check(profile: Profile, keys: &Keys, at: StoreTime, expected: &[(&str, &str)]) {
    let got = signed(profile, keys, at);
    let got: Vec<_> = got.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(got, expected, "{profile}");
}

#[test]
fn each_profile_signs_as_computed_apart() {
    let keys = Keys::new(secret(SECRET_A));
    check(
        Profile::StandardWebhooks,
        &keys,
        NOW,
        &[
            ("webhook-id", "evt_1"),
            ("webhook-timestamp", "1700000000"),
            ("webhook-signature", &format!("v1,{STANDARD_A}")),
        ],
    );
    check(
        Profile::Cloudevents,
        &keys,
        NOW,
        &[
            ("webhook-id", "evt_1"),
            ("webhook-timestamp", "1700000000"),
            ("webhook-signature", &format!("v1,{STANDARD_A}")),
            ("ce-specversion", "1.0"),
            ("ce-id", "evt_1"),
            ("ce-type", "video.trending"),
        ],
    );
    check(
        Profile::VvvTimestamped,
        &keys,
        NOW,
        &[("x-vvv-timestamp", "1700000000"), ("x-vvv-signature", &format!("sha256={STAMPED_A}"))],
    );
    check(
        Profile::VvvFrozen,
        &keys,
        NOW,
        &[
            ("x-vvv-signature", BARE_A),
            ("x-vvv-event", "video.trending"),
            ("x-vvv-attempt", "1"),
            ("x-vvv-delivery-id", "evt_1"),
            ("x-vvv-subscriber", "sub_9"),
        ],
    );
    check(Profile::Stripe, &keys, NOW, &[("stripe-signature", &format!("t=1700000000,v1={STAMPED_A}"))]);
    check(
        Profile::Github,
        &keys,
        NOW,
        &[
            ("x-hub-signature-256", &format!("sha256={BARE_A}")),
            ("x-github-event", "video.trending"),
            ("x-github-delivery", "evt_1"),
        ],
    );
}

#[test]
fn a_plain_text_secret_is_its_own_key() {
    let keys = Keys::new(secret(PLAIN));
    let value = |profile, place: usize| signed(profile, &keys, NOW)[place].1.clone();
    assert_eq!(value(Profile::VvvTimestamped, 1), format!("sha256={STAMPED_PLAIN}"));
    assert_eq!(value(Profile::VvvFrozen, 0), BARE_PLAIN);
    assert_eq!(value(Profile::Stripe, 0), format!("t=1700000000,v1={STAMPED_PLAIN}"));
    assert_eq!(value(Profile::Github, 0), format!("sha256={BARE_PLAIN}"));
    assert_eq!(Signer::new(Profile::StandardWebhooks, &keys).unwrap_err(), SecretError::PlainText);
}

#[test]
fn the_public_example_of_standard_webhooks_comes_out() {
    let keys = Keys::new(secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    let words = Words { id: "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap(), ..Words::new() };
    let mut headers = Headers::new();
    let attempt = words.attempt(1, r#"{"test": 2432232314}"#);
    signer(Profile::StandardWebhooks, &keys).sign(
        StoreTime::from_secs(1_614_265_330),
        &attempt,
        &mut headers,
    );
    assert_eq!(headers.get("webhook-signature"), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
}

#[test]
fn the_public_example_of_github_comes_out() {
    let keys = Keys::new(secret("It's a Secret to Everybody"));
    let mut headers = Headers::new();
    signer(Profile::Github, &keys).sign(NOW, &Words::new().attempt(1, "Hello, World!"), &mut headers);
    assert_eq!(
        headers.get("x-hub-signature-256"),
        Some("sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
    );
}

/// The key pair of test 1 of RFC 8032, section 7.1; the signature was made by Node's crypto.
#[test]
fn a_private_key_is_read_and_tells_its_public_one() {
    const KEY: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    let signature = "721cc689d6e28a0ab086319096b32d55420b02f2013fdc8aea4f61b09099b860\
         fb83554c2c23d7187d6e2f9da8b090c7ae2ab1ea5cf57c30b9e00aa928402a0f";
    let expected = [("x-signature-timestamp", "1700000000"), ("x-signature-ed25519", signature)];
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    check(Profile::Discord, &Keys::new(secret(KEY)), NOW, &expected);
    assert_eq!(secret(KEY).public_key(Profile::Discord).as_deref(), Some(public));
    assert_eq!(secret(KEY).public_key(Profile::Slack), None);
    // The public key follows the private one.
    let pair =
        "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==";
    check(Profile::Discord, &Keys::new(secret(pair)), NOW, &expected);
    assert_eq!(secret(pair).public_key(Profile::Discord).as_deref(), Some(public));
    let foreign = &pair.replace("DXWpgB", "DXWpgC");
    // A public key as secret would let everybody sign.
    let short = "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for text in [PLAIN, public, &KEY.replace("whsk_", "whsec_"), short, foreign] {
        let error = Signer::new(Profile::Discord, &Keys::new(secret(text))).unwrap_err();
        assert_eq!(
            (error, secret(text).public_key(Profile::Discord)),
            (SecretError::Private, None),
            "{text}"
        );
    }
}

/// The public key of 1 is the generator of the group.
#[test]
fn a_private_key_of_p256_is_a_number_below_the_order() {
    let key = |bytes: [u8; 32]| secret(&format!("whsk_{}", encode(&bytes)));
    let mut one = [0; 32];
    one[31] = 1;
    let generator = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==";
    assert_eq!(key(one).public_key(Profile::Sendgrid).as_deref(), Some(generator));
    for bytes in [[0; 32], [0xff; 32]] {
        let error = Signer::new(Profile::Sendgrid, &Keys::new(key(bytes))).unwrap_err();
        assert_eq!((error, key(bytes).public_key(Profile::Sendgrid)), (SecretError::PrivateP256, None));
    }
    for profile in [Profile::Sendgrid, Profile::Plaid] {
        assert!(Secret::generate(profile, &[0xff; 32]).public_key(profile).is_some());
    }
}

/// `jose` computed the thumbprint of this key, the generator of the group.
#[test]
fn a_token_names_its_key_by_the_thumbprint_of_the_jwk_that_is_shown() {
    let mut one = [0; 32];
    one[31] = 1;
    let one = secret(&format!("whsk_{}", encode(&one)));
    let kid = "xx0BcA-wMohw8atYDJOe6peGModklG2wRHBlXHMvl0M";
    let jwk = format!(
        r#"{{"crv":"P-256","kty":"EC","x":"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY","y":"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU","alg":"ES256","kid":"{kid}","use":"sig"}}"#
    );
    assert_eq!(one.public_key(Profile::Plaid), Some(jwk));
    let token = signed(Profile::Plaid, &Keys::new(one), NOW)[0].1.clone();
    let parts: Vec<_> = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
    let text = |at: usize| String::from_utf8(parts[at].clone()).unwrap();
    assert_eq!(text(0), format!(r#"{{"alg":"ES256","kid":"{kid}","typ":"JWT"}}"#));
    let digest = "aefed6d9be15b1ac34bd5cd74ad4e2461011a3e6e9d937a4d730aa34e34a506c";
    assert_eq!(text(1), format!(r#"{{"iat":1700000000,"request_body_sha256":"{digest}"}}"#));
    assert_eq!((parts.len(), parts[2].len()), (3, 64));
}

/// `jose` computed the thumbprints, of the generator of the group, and of the key of RFC 8037, appendix A.3.
#[test]
fn a_message_names_its_key_and_its_algorithm_by_the_form_of_the_secret() {
    let mut one = [0; 32];
    one[31] = 1;
    let pkcs8 = "MEECAQAwEwYHKoZIzj0CAQYIKoZIzj0DAQcEJzAlAgEBBCA";
    let pkcs8 = [
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD_NO_PAD, pkcs8).unwrap(),
        one.into(),
    ]
    .concat();
    let ed25519 = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
    let keys = [
        (SECRET_A.to_owned(), "hmac-sha256", "WqjPPRvAP8oYbAqCwMErhzTg-Quaz-vLx_cef07yhOs"),
        (ed25519.to_owned(), "ed25519", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"),
        (
            format!("whsk_{}", encode(&pkcs8)),
            "ecdsa-p256-sha256",
            "xx0BcA-wMohw8atYDJOe6peGModklG2wRHBlXHMvl0M",
        ),
    ];
    for (text, alg, kid) in keys {
        let input = signed(Profile::Rfc9421, &Keys::new(secret(&text)), NOW)[2].1.clone();
        assert!(input.ends_with(&format!(";created=1700000000;keyid=\"{kid}\";alg=\"{alg}\"")), "{input}");
        let shown = secret(&text).public_key(Profile::Rfc9421);
        assert_eq!(
            shown.as_ref().map(|jwk| jwk.contains(kid)),
            (alg != "hmac-sha256").then_some(true),
            "{shown:?}"
        );
    }
    for text in [PLAIN, "whsk_AAECAwQFBgcICQoLDA0ODw=="] {
        assert_eq!(
            Signer::new(Profile::Rfc9421, &Keys::new(secret(text))).unwrap_err(),
            SecretError::Message
        );
    }
}

#[test]
fn while_a_key_retires_both_sign_where_there_is_room_for_both() {
    let value = |profile, at, place: usize| signed(profile, &rotated(profile), at)[place].1.clone();
    assert_eq!(value(Profile::StandardWebhooks, NOW, 2), format!("v1,{STANDARD_B} v1,{STANDARD_A}"));
    assert_eq!(value(Profile::Stripe, NOW, 0), format!("t=1700000000,v1={STAMPED_B},v1={STAMPED_A}"));
}

#[test]
fn a_header_with_one_signature_uses_the_old_key_until_it_retires() {
    let value = |profile, at, place: usize| signed(profile, &rotated(profile), at)[place].1.clone();
    assert_eq!(value(Profile::VvvTimestamped, NOW, 1), format!("sha256={STAMPED_A}"));
    assert_eq!(value(Profile::VvvFrozen, NOW, 0), BARE_A);
    assert_eq!(value(Profile::Github, NOW, 0), format!("sha256={BARE_A}"));
    let last = StoreTime(LATER.0 - 1);
    assert_eq!(value(Profile::Github, last, 0), format!("sha256={BARE_A}"));
    assert_eq!(value(Profile::Github, LATER, 0), format!("sha256={BARE_B}"));
    assert_eq!(value(Profile::StandardWebhooks, LATER, 2).matches("v1,").count(), 1);
}

#[test]
fn after_two_rotations_the_oldest_key_that_has_not_retired_signs_alone() {
    let mut keys = Keys::new(secret(PLAIN));
    keys.rotate(NOW, secret(SECRET_A), LATER).unwrap();
    keys.rotate(NOW, secret(SECRET_B), StoreTime(LATER.0 + 1)).unwrap();
    let value = |at| signed(Profile::Github, &keys, at)[0].1.clone();
    assert_eq!(value(NOW), format!("sha256={BARE_PLAIN}"));
    assert_eq!(value(LATER), format!("sha256={BARE_A}"));
    assert_eq!(value(StoreTime(LATER.0 + 1)), format!("sha256={BARE_B}"));
}

#[test]
fn a_frozen_signature_survives_a_rotation() {
    let before = signer(Profile::VvvFrozen, &Keys::new(secret(SECRET_A)));
    let frozen = before.freeze(NOW, BODY.as_bytes());
    assert!(frozen.is_some());
    let mut keys = Keys::new(secret(SECRET_A));
    keys.rotate(NOW, secret(SECRET_B), NOW).unwrap();
    let after = signer(Profile::VvvFrozen, &keys);
    let words = Words::new();
    let mut headers = Headers::new();
    after.sign(LATER, &Attempt { frozen, ..words.attempt(7, BODY) }, &mut headers);
    assert_eq!(headers.get("x-vvv-signature"), Some(BARE_A));
    assert_eq!(headers.get("x-vvv-attempt"), Some("7"));
    after.sign(LATER, &words.attempt(7, BODY), &mut headers);
    assert_eq!(headers.get("x-vvv-signature"), Some(BARE_B));
}

#[test]
fn only_the_frozen_profile_has_something_to_freeze() {
    for profile in Profile::ALL {
        let keys = Keys::new(fitting(profile, SECRET_A));
        let frozen = signer(profile, &keys).freeze(NOW, BODY.as_bytes());
        assert_eq!(frozen.is_some(), profile == Profile::VvvFrozen, "{profile}");
    }
}

#[test]
fn a_profile_signs_the_body_once_and_no_timestamp_that_it_has_not_written() {
    for profile in Profile::ALL {
        let Form { key, signed, beside, .. } = profile.form();
        assert!(signed.len() <= PARTS_MAX, "{profile}");
        let of_body = signed
            .iter()
            .filter(|part| matches!(part, Part::Body | Part::Query | Part::Header("content-digest")));
        assert_eq!(of_body.count(), 1, "{profile}");
        let place = |wanted| profile.headers().iter().position(|(_, content)| *content == wanted);
        let is_written = beside.is_some()
            || matches!(key, KeyForm::PrivateEs256 | KeyForm::Message)
            || place(Content::Timestamp).is_some_and(|stamp| Some(stamp) < place(Content::Signature));
        assert_eq!(signs_timestamp(profile), is_written, "{profile}");
    }
}

fn signs_timestamp(profile: Profile) -> bool {
    let signed = profile.form().signed;
    signed.contains(&Part::Timestamp) || signed.contains(&Part::Header("signature-input"))
}

#[test]
fn each_profile_writes_the_headers_that_it_declares_and_repeats_them_as_far_as_time_and_key_allow() {
    let words = Words::new();
    for profile in Profile::ALL {
        let [first, retry, by_another_key] = [(NOW, 1, SECRET_A), (LATER, 2, SECRET_A), (LATER, 2, SECRET_B)]
            .map(|(at, number, key)| {
                let frozen =
                    signer(profile, &Keys::new(fitting(profile, SECRET_A))).freeze(NOW, BODY.as_bytes());
                let mut headers = Headers::new();
                let attempt = Attempt { frozen, ..words.attempt(number, BODY) };
                signer(profile, &Keys::new(fitting(profile, key))).sign(at, &attempt, &mut headers);
                headers
            });
        let names: Vec<_> = first.iter().map(|(name, _)| name).collect();
        let declared: Vec<_> = profile.headers().iter().map(|(name, _)| *name).collect();
        assert_eq!(names, declared, "{profile}");
        for (name, content) in profile.headers() {
            let (is_fresh, is_of_key) = match content {
                Content::Text(_)
                | Content::Id
                | Content::EventType
                | Content::Subscriber
                | Content::Digest => (false, false),
                Content::Attempt | Content::Timestamp => (true, false),
                Content::Input | Content::Signature => (signs_timestamp(profile), !profile.form().is_frozen),
            };
            assert_eq!(first.get(name) == retry.get(name), !is_fresh, "{profile}: {name}");
            assert_eq!(retry.get(name) == by_another_key.get(name), !is_of_key, "{profile}: {name}");
        }
    }
}

#[test]
fn as_many_signatures_as_declared_fit() {
    let full = |profile| {
        let mut keys = Keys::new(fitting(profile, SECRET_A));
        for _ in 1..Keys::COUNT_MAX {
            keys.rotate(NOW, fitting(profile, SECRET_B), LATER).unwrap();
        }
        keys
    };
    for profile in Profile::ALL {
        let keys = full(profile);
        let headers = signed(profile, &keys, NOW);
        let (_, value) = headers
            .iter()
            .rfind(|(name, _)| ["signature", "hmac", "verification"].iter().any(|word| name.contains(word)))
            .unwrap();
        let signatures = value.split([' ', ',', '=']).filter(|part| part.len() >= 27).count();
        let expected = if profile.form().separator.is_some() { Keys::COUNT_MAX } else { 1 };
        assert_eq!(signatures, expected, "{profile}: {value}");
    }
    let mut keys = full(Profile::Stripe);
    assert_eq!(
        keys.rotate(NOW, secret(PLAIN), LATER).unwrap_err(),
        KeysError::TooMany { count: Keys::COUNT_MAX + 1 }
    );
    assert_eq!(keys.current().reveal(), SECRET_B, "a refused rotation changes nothing");
    keys.rotate(LATER, secret(PLAIN), StoreTime(u64::MAX)).unwrap();
    assert_eq!((keys.current().reveal(), keys.retiring().len()), (PLAIN, 1), "the retired are forgotten");
}

#[test]
fn stored_keys_come_back_as_they_were() {
    let keys = rotated(Profile::Stripe);
    let retiring =
        keys.retiring().iter().map(|key| Retiring::new(key.secret().clone(), key.until())).collect();
    let again = Keys::from_parts(keys.current().clone(), retiring).unwrap();
    assert_eq!(signed(Profile::Stripe, &again, NOW), signed(Profile::Stripe, &keys, NOW));
    let many = vec![Retiring::new(secret(SECRET_A), LATER); Keys::COUNT_MAX];
    assert!(Keys::from_parts(secret(SECRET_A), many).is_err());
}

#[test]
fn profiles_go_by_their_names() {
    for profile in Profile::ALL {
        assert_eq!(profile.to_string().parse(), Ok(profile));
    }
    assert_eq!(Profile::default(), Profile::ALL[0]);
    assert_eq!(
        "svix".parse::<Profile>().unwrap_err().to_string(),
        "\"svix\" is not a signing profile; expected one of \
         standard-webhooks, vvv-timestamped, vvv-frozen, stripe, github, cloudevents, discord, hubspot, line, meta, paddle, \
         plaid, rfc9421, sendgrid, shopify, slack, square, twilio, zoom"
    );
}

#[test]
fn a_new_secret_has_the_standard_form() {
    let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let new = Secret::generate(Profile::default(), &bytes);
    assert_eq!(new.reveal(), SECRET_A);
    assert!(Secret::parse(new.reveal()).is_ok());
    let private = Secret::generate(Profile::Discord, &bytes);
    assert_eq!(private.reveal(), SECRET_A.replace("whsec_", "whsk_"));
    assert!(private.public_key(Profile::Discord).is_some());
}

#[test]
fn an_invalid_secret_is_refused_with_its_reason() {
    let long = "x".repeat(257);
    let rows = [
        ("", SecretError::TextLength { bytes: 0 }),
        ("fifteen letters", SecretError::TextLength { bytes: 15 }),
        (long.as_str(), SecretError::TextLength { bytes: 257 }),
        ("sixteen\tletters!", SecretError::TextCharacter { at: 7 }),
        ("sixteen lettersé", SecretError::TextCharacter { at: 15 }),
        ("whsec_", SecretError::Length { bytes: 0 }),
        ("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", SecretError::Length { bytes: 23 }),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", SecretError::Encoding),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", SecretError::Encoding),
        ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", SecretError::Encoding),
        ("whsec_-_ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", SecretError::Encoding),
    ];
    for (text, expected) in rows {
        assert_eq!(Secret::parse(text).unwrap_err(), expected, "{text:?}");
    }
    let of_length = |bytes: usize| Secret::parse(&format!("{PREFIX}{}", encode(&vec![7; bytes])));
    assert_eq!(of_length(65).unwrap_err(), SecretError::Length { bytes: 65 });
    assert!(of_length(64).is_ok() && of_length(24).is_ok());
}

const PREFIX: &str = "whsec_";

fn encode(bytes: &[u8]) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
}

#[test]
fn nothing_that_holds_a_secret_shows_it() {
    let keys = rotated(Profile::Stripe);
    let shown = format!("{:?} {keys:?} {:?}", keys.current(), signer(Profile::Stripe, &keys));
    for part in [&SECRET_A[6..16], &SECRET_B[6..16], "whsec"] {
        assert!(!shown.contains(part), "{shown}");
    }
    assert!(shown.starts_with("Secret(…) Keys { current: Secret(…)"), "{shown}");
    for text in ["hunter2", "hunter2\thunter2hunter2", "whsec_hunter2!", "whsec_aHVudGVyMg=="] {
        let error = Secret::parse(text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("aHVud"), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_panics_and_a_secret_is_kept_as_it_came(text in "\\PC*|whsec_[A-Za-z0-9+/=]{0,90}") {
        if let Ok(secret) = Secret::parse(&text) {
            prop_assert_eq!(secret.reveal(), text);
        }
    }

    #[test]
    fn a_buffer_used_again_holds_nothing_of_before(
        bodies in prop::collection::vec(".{0,200}", 1..4), places in prop::collection::vec(0..Profile::ALL.len(), 4)
    ) {
        let words = Words::new();
        let mut reused = Headers::new();
        for (body, place) in bodies.iter().zip(places) {
            let signer = signer(Profile::ALL[place], &rotated(Profile::ALL[place]));
            signer.sign(NOW, &words.attempt(3, body), &mut reused);
            let mut fresh = Headers::new();
            signer.sign(NOW, &words.attempt(3, body), &mut fresh);
            prop_assert!(reused.iter().eq(fresh.iter()));
            prop_assert!(fresh.iter().all(|(_, value)| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())));
        }
    }
}
