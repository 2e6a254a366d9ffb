//! A sender for tests: signs each profile, written from the profiles' descriptions alone.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ed25519_dalek::{Signer as _, SigningKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hookproof_verify::Profile;
use p256::ecdsa;
use p256::pkcs8::EncodePublicKey as _;
use ring::rand::SystemRandom;
use ring::signature::{KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The secret of all tests, valid in every profile.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
pub(crate) const OTHER: &str = "whsec_b3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgb3RoZXIgMzI=";

pub(crate) type Headers = Vec<(&'static str, Vec<u8>)>;

fn bytes_of(secret: &str) -> Vec<u8> {
    STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap()
}

fn private(secret: &str) -> SigningKey {
    SigningKey::from_bytes(&bytes_of(secret)[..32].try_into().unwrap())
}

fn private_p256(secret: &str) -> ecdsa::SigningKey {
    ecdsa::SigningKey::from_slice(&bytes_of(secret)[..32]).unwrap()
}

/// PayPal's name of the receiver.
pub(crate) const WEBHOOK: &str = "8PT597110X687430LKGECATA";
pub(crate) const CERTIFICATE: &str = "https://api.paypal.com/v1/notifications/certs/CERT-1";

/// A key in PEM for each of the two secrets.
fn private_rsa(secret: &str) -> RsaKeyPair {
    let pem = if secret == SECRET { include_str!("rsa.key") } else { include_str!("rsa-other.key") };
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(lines).unwrap()).unwrap()
}

fn public_rsa(secret: &str) -> Vec<u8> {
    let of_der = |tag: u8, content: &[u8]| {
        let [.., high, low] = content.len().to_be_bytes();
        [&[tag, 0x82, high, low], content].concat()
    };
    let algorithm = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];
    let bits = of_der(3, &[&[0], private_rsa(secret).public_key().as_ref()].concat());
    of_der(0x30, &[&algorithm[..], &bits].concat())
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |rest: u32, _: u32| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
    !bytes.iter().fold(u32::MAX, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), step))
}

/// For the webhook of this name.
pub(crate) fn paypal(secret: &str, webhook: &str, id: &str, time: &str, body: &[u8]) -> Headers {
    let text = format!("{id}|{time}|{webhook}|{}", crc32(body));
    let headers = [
        ("paypal-transmission-id", id.to_owned()),
        ("paypal-transmission-time", time.to_owned()),
        ("paypal-transmission-sig", base64(&tag(Profile::Paypal, secret, &[text.as_bytes()]))),
        ("paypal-cert-url", CERTIFICATE.to_owned()),
        ("paypal-auth-algo", "SHA256withRSA".to_owned()),
    ];
    headers.map(|(name, value)| (name, value.into_bytes())).into()
}

/// The text that the receiver is given.
pub(crate) fn key(profile: Profile, secret: &str) -> String {
    match profile {
        Profile::Discord => hex(private(secret).verifying_key().as_bytes()),
        Profile::Sendgrid => {
            base64(private_p256(secret).verifying_key().to_public_key_der().unwrap().as_bytes())
        }
        Profile::Plaid => jwk(secret, KID),
        Profile::Adyen => hex(&bytes_of(secret)),
        Profile::Paypal => format!("{WEBHOOK}:{}", base64(&public_rsa(secret))),
        Profile::Rfc9421 => {
            format!(r#"{{"k":"{}","kid":"{KID}","kty":"oct"}}"#, base64url(&bytes_of(secret)))
        }
        _ => secret.to_owned(),
    }
}

/// The name of each key.
pub(crate) const KID: &str = "bfbd5111-8e33-4643-8ced-b2e642a72f3c";

pub(crate) fn jwk(secret: &str, kid: &str) -> String {
    let point = private_p256(secret).verifying_key().to_sec1_point(false);
    let (x, y) = (base64url(&point.as_bytes()[1..33]), base64url(&point.as_bytes()[33..]));
    format!(
        r#"{{"alg":"ES256","crv":"P-256","expired_at":null,"kid":"{kid}","kty":"EC","use":"sig","x":"{x}","y":"{y}"}}"#
    )
}

pub(crate) fn head(kid: &str) -> String {
    format!(r#"{{"alg":"ES256","kid":"{kid}","typ":"JWT"}}"#)
}

pub(crate) fn claims(at: &str, body: &[u8]) -> String {
    format!(r#"{{"iat":{at},"request_body_sha256":"{}"}}"#, hex(&Sha256::digest(body)))
}

pub(crate) fn token(secret: &str, head: &str, claims: &str) -> String {
    let signed = format!("{}.{}", base64url(head.as_bytes()), base64url(claims.as_bytes()));
    format!("{signed}.{}", base64url(&tag(Profile::Plaid, secret, &[signed.as_bytes()])))
}

/// Decodes the secret as the profile does.
pub(crate) fn tag(profile: Profile, secret: &str, parts: &[&[u8]]) -> Vec<u8> {
    let key = match profile {
        Profile::Discord => return private(secret).sign(&parts.concat()).to_bytes().to_vec(),
        Profile::Sendgrid => {
            let signature: ecdsa::DerSignature = private_p256(secret).sign(&parts.concat());
            return signature.as_bytes().to_vec();
        }
        Profile::Paypal => {
            let pair = private_rsa(secret);
            let mut tag = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &parts.concat(), &mut tag).unwrap();
            return tag;
        }
        Profile::Plaid => {
            let signature: ecdsa::Signature = private_p256(secret).sign(&parts.concat());
            return signature.to_bytes().to_vec();
        }
        Profile::StandardWebhooks | Profile::Rfc9421 | Profile::Adyen => bytes_of(secret),
        Profile::Twilio => {
            let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).unwrap();
            parts.iter().for_each(|part| mac.update(part));
            return mac.finalize().into_bytes().to_vec();
        }
        _ => secret.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The URL in each signature that covers one.
pub(crate) const URL: &str = "https://hooks.example/in?tenant=7";

/// By the components and parameters of a `Signature-Input`.
pub(crate) fn message(secret: &str, input: &str, id: &str, body: &[u8]) -> Headers {
    let digest = format!("sha-256=:{}:", base64(&Sha256::digest(body)));
    let (covered, _) = input.split_once(')').unwrap();
    let lines = covered.trim_start_matches('(').split(' ').map(|name| {
        let value = match name.trim_matches('"') {
            "@method" => "POST",
            "@target-uri" => URL,
            "@authority" => "hooks.example",
            "@scheme" => "https",
            "@request-target" => "/in?tenant=7",
            "@path" => "/in",
            "@query" => "?tenant=7",
            "content-type" => "application/json",
            "content-digest" => &digest,
            _ => id,
        };
        format!("{name}: {value}\n")
    });
    let base = format!("{}\"@signature-params\": {input}", lines.collect::<String>());
    let tag = base64(&tag(Profile::Rfc9421, secret, &[base.as_bytes()]));
    let headers = [
        ("webhook-id", id.to_owned()),
        ("content-type", "application/json".to_owned()),
        ("content-digest", digest),
        ("signature-input", format!("sig1={input}")),
        ("signature", format!("sig1=:{tag}:")),
    ];
    headers.map(|(name, value)| (name, value.into_bytes())).into()
}

fn usual_message(secret: &str, id: &str, at: &str, body: &[u8]) -> Headers {
    let covered = r#"("@method" "@target-uri" "@authority" "content-type" "content-digest" "webhook-id")"#;
    let parameters = format!(r#";created={at};keyid="{KID}";alg="hmac-sha256""#);
    message(secret, &format!("{covered}{parameters}"), id, body)
}

/// Whether the signature is in a header, so that any body can be signed.
pub(crate) fn signs_any_body(profile: &Profile) -> bool {
    *profile != Profile::Adyen
}

/// A body with the time that Linear reads.
pub(crate) fn linear_body(at: i64, data: &str) -> Vec<u8> {
    format!("{{\"id\":\"evt_1\",\"webhookTimestamp\":{at}250,\"data\":\"{data}\"}}").into_bytes()
}

fn frozen(tag: String, id: &str) -> Vec<(&'static str, String)> {
    vec![
        ("x-vvv-signature", tag),
        ("x-vvv-event", "video.trending".to_owned()),
        ("x-vvv-attempt", "1".to_owned()),
        ("x-vvv-delivery-id", id.to_owned()),
        ("x-vvv-subscriber", "sub_1".to_owned()),
    ]
}

pub(crate) fn sign(profile: Profile, secret: &str, id: &str, at: i64, body: &[u8]) -> Headers {
    let (at, ms) = (at.to_string(), format!("{at}250"));
    let versioned = || format!("v0={}", hex(&tag(profile, secret, &[b"v0:", at.as_bytes(), b":", body])));
    let dated = || tag(profile, secret, &[at.as_bytes(), b".", body]);
    let of_body = || tag(profile, secret, &[body]);
    let plain = || hex(&of_body());
    let headers = match profile {
        Profile::StandardWebhooks => {
            let tag = tag(profile, secret, &[id.as_bytes(), b".", at.as_bytes(), b".", body]);
            vec![
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", at.clone()),
                ("webhook-signature", format!("v1,{}", base64(&tag))),
            ]
        }
        Profile::VvvTimestamped => {
            vec![("x-vvv-timestamp", at.clone()), ("x-vvv-signature", format!("sha256={}", hex(&dated())))]
        }
        Profile::VvvFrozen => frozen(plain(), id),
        Profile::Stripe => vec![("stripe-signature", format!("t={at},v1={}", hex(&dated())))],
        Profile::Github => vec![
            ("x-hub-signature-256", format!("sha256={}", plain())),
            ("x-github-event", "video.trending".to_owned()),
            ("x-github-delivery", id.to_owned()),
        ],
        Profile::Adyen => Vec::new(),
        Profile::Discord => {
            let tag = hex(&tag(profile, secret, &[at.as_bytes(), body]));
            vec![("x-signature-timestamp", at), ("x-signature-ed25519", tag)]
        }
        Profile::Hubspot => {
            let tag = tag(profile, secret, &[b"POST", URL.as_bytes(), body, ms.as_bytes()]);
            vec![("x-hubspot-signature-v3", base64(&tag)), ("x-hubspot-request-timestamp", ms)]
        }
        Profile::Line => vec![("x-line-signature", base64(&of_body()))],
        Profile::Linear => vec![("linear-signature", plain()), ("linear-delivery", id.to_owned())],
        Profile::Meta => vec![("x-hub-signature-256", format!("sha256={}", plain()))],
        Profile::Paddle => {
            let tag = tag(profile, secret, &[at.as_bytes(), b":", body]);
            vec![("paddle-signature", format!("ts={at};h1={}", hex(&tag)))]
        }
        Profile::Paypal => return paypal(secret, WEBHOOK, id, &format!("time-{at}"), body),
        Profile::Plaid => vec![("plaid-verification", token(secret, &head(KID), &claims(&at, body)))],
        Profile::Rfc9421 => return usual_message(secret, id, &at, body),
        Profile::Sendgrid => vec![
            ("x-twilio-email-event-webhook-timestamp", at.clone()),
            ("x-twilio-email-event-webhook-signature", base64(&tag(profile, secret, &[at.as_bytes(), body]))),
        ],
        Profile::Shopify => {
            vec![("x-shopify-hmac-sha256", base64(&of_body())), ("x-shopify-webhook-id", id.to_owned())]
        }
        Profile::Slack => {
            vec![("x-slack-request-timestamp", at.clone()), ("x-slack-signature", versioned())]
        }
        Profile::Square => {
            vec![("x-square-hmacsha256-signature", base64(&tag(profile, secret, &[URL.as_bytes(), body])))]
        }
        Profile::Twilio => {
            let url = format!("{URL}&bodySHA256={}", hex(&Sha256::digest(body)));
            vec![("x-twilio-signature", base64(&tag(profile, secret, &[url.as_bytes()])))]
        }
        Profile::Zoom => vec![("x-zm-request-timestamp", at.clone()), ("x-zm-signature", versioned())],
    };
    headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect()
}
