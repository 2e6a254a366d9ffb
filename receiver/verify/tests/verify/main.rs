//! The accepted and refused requests of `verify`: examples and laws.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../../sender/tests/fuzzing/mod.rs"]
mod fuzzing;
#[path = "../signing/mod.rs"]
mod signing;

mod accepts;
mod adyen;
mod laws;
mod paypal;
mod refuses;
mod vectors;

use hookproof_verify::{Keys, Profile, Secret, UnixSeconds};
use signing::{Headers, SECRET};

const NOW: i64 = 1_700_000_000;
const ID: &str = "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W";
/// Its body, which holds the id for profiles without a header for it.
const BODY: &[u8] =
    br#"{"id":"msg_2KWPBgLlAfxdpx2AI54pPJ85f4W","type":"video.trending","data":{"views":1200000},"webhookTimestamp":1700000000250}"#;

fn keys(profile: Profile, secrets: &[&str]) -> Keys {
    let secrets: Vec<_> =
        secrets.iter().map(|text| Secret::new(signing::key(profile, text)).unwrap()).collect();
    Keys::new(profile, &secrets).unwrap().with_url(signing::URL)
}

fn signed_by_headers() -> impl Iterator<Item = Profile> {
    Profile::ALL.into_iter().filter(signing::signs_any_body)
}

/// Linear's body has the time in it.
fn stamped_by_headers() -> impl Iterator<Item = Profile> {
    signed_by_headers().filter(|profile| *profile != Profile::Linear)
}

fn signed(profile: Profile) -> Headers {
    signing::sign(profile, SECRET, ID, NOW, BODY)
}

/// Expects the id of an accepted request, or the violated rule.
#[track_caller]
fn check(headers: &Headers, body: &[u8], keys: &Keys, expected: Result<&str, &str>) {
    let found = hookproof_verify::verify(UnixSeconds(NOW), headers.as_slice(), body, keys);
    let found = found.as_ref().map(|verified| &*verified.id).map_err(|rejection| rejection.rule());
    assert_eq!(found, expected, "{}", keys.profile());
}

fn with(mut headers: Headers, name: &str, value: impl Into<Vec<u8>>) -> Headers {
    let (_, place) = headers.iter_mut().find(|(known, _)| *known == name).unwrap();
    *place = value.into();
    headers
}

fn value<'h>(headers: &'h Headers, name: &str) -> &'h str {
    let (_, value) = headers.iter().find(|(known, _)| *known == name).unwrap();
    str::from_utf8(value).unwrap()
}

/// The header with a profile's signature, and the text before the signature.
fn place_of_signature(profile: Profile) -> (&'static str, String) {
    match profile {
        Profile::Adyen => unreachable!("its signature is in the body"),
        Profile::StandardWebhooks => ("webhook-signature", "v1,".to_owned()),
        Profile::VvvTimestamped => ("x-vvv-signature", "sha256=".to_owned()),
        Profile::VvvFrozen => ("x-vvv-signature", String::new()),
        Profile::Stripe => ("stripe-signature", format!("t={NOW},v1=")),
        Profile::Github | Profile::Meta => ("x-hub-signature-256", "sha256=".to_owned()),
        Profile::Discord => ("x-signature-ed25519", String::new()),
        Profile::Hubspot => ("x-hubspot-signature-v3", String::new()),
        Profile::Line => ("x-line-signature", String::new()),
        Profile::Linear => ("linear-signature", String::new()),
        Profile::Paddle => ("paddle-signature", format!("ts={NOW};h1=")),
        Profile::Paypal => ("paypal-transmission-sig", String::new()),
        Profile::Plaid => {
            let token = signed(profile);
            let (before, _) = value(&token, "plaid-verification").rsplit_once('.').unwrap();
            ("plaid-verification", format!("{before}."))
        }
        Profile::Rfc9421 => ("signature", "sig1=:".to_owned()),
        Profile::Sendgrid => ("x-twilio-email-event-webhook-signature", String::new()),
        Profile::Shopify => ("x-shopify-hmac-sha256", String::new()),
        Profile::Slack => ("x-slack-signature", "v0=".to_owned()),
        Profile::Square => ("x-square-hmacsha256-signature", String::new()),
        Profile::Twilio => ("x-twilio-signature", String::new()),
        Profile::Zoom => ("x-zm-signature", "v0=".to_owned()),
    }
}
