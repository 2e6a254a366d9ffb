//! Laws: no input makes `verify` panic, and no change of a single byte is accepted.

use hookproof_verify::{Profile, UnixSeconds, verify};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fuzzing::{Random, Target};
use crate::signing::{Headers, SECRET, linear_body, sign};
use crate::{BODY, ID, NOW, keys, place_of_signature, signed, signed_by_headers, stamped_by_headers};

/// Judges a request: `verify`, or a faulty substitute.
type Judge = fn(Profile, &Headers, &[u8]) -> bool;

fn accepts(profile: Profile, headers: &Headers, body: &[u8]) -> bool {
    verify(UnixSeconds(NOW), headers.as_slice(), body, &keys(profile, &[SECRET])).is_ok()
}

/// Ignores the body's last byte, as a verifier of a parser's output may.
fn forgets_the_end_of_the_body(profile: Profile, headers: &Headers, body: &[u8]) -> bool {
    let original = format!("{}!", str::from_utf8(&body[..body.len() - 1]).unwrap_or_default());
    accepts(profile, headers, body) || accepts(profile, headers, original.as_bytes())
}

/// One bit of a byte; both positions are taken modulo the size.
#[derive(Clone, Copy, Debug)]
struct Flip {
    place: usize,
    bit: u8,
}

impl Flip {
    fn apply(self, bytes: &mut [u8]) {
        let place = self.place % bytes.len();
        bytes[place] ^= 1 << (self.bit % 8);
    }
}

/// The signed headers and those with the signature: a change in any must be refused.
fn guarded(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Adyen => &[],
        Profile::StandardWebhooks => &["webhook-id", "webhook-timestamp", "webhook-signature"],
        Profile::VvvTimestamped => &["x-vvv-timestamp", "x-vvv-signature"],
        Profile::VvvFrozen => &["x-vvv-signature"],
        Profile::Stripe => &["stripe-signature"],
        Profile::Github | Profile::Meta => &["x-hub-signature-256"],
        Profile::Discord => &["x-signature-timestamp", "x-signature-ed25519"],
        Profile::Hubspot => &["x-hubspot-signature-v3", "x-hubspot-request-timestamp"],
        Profile::Line => &["x-line-signature"],
        Profile::Linear => &["linear-signature"],
        Profile::Paddle => &["paddle-signature"],
        Profile::Paypal => &[
            "paypal-transmission-id",
            "paypal-transmission-time",
            "paypal-transmission-sig",
            "paypal-auth-algo",
        ],
        Profile::Plaid => &["plaid-verification"],
        Profile::Rfc9421 => &["webhook-id", "content-type", "content-digest", "signature-input", "signature"],
        Profile::Sendgrid => {
            &["x-twilio-email-event-webhook-timestamp", "x-twilio-email-event-webhook-signature"]
        }
        Profile::Shopify => &["x-shopify-hmac-sha256"],
        Profile::Slack => &["x-slack-request-timestamp", "x-slack-signature"],
        Profile::Square => &["x-square-hmacsha256-signature"],
        Profile::Twilio => &["x-twilio-signature"],
        Profile::Zoom => &["x-zm-request-timestamp", "x-zm-signature"],
    }
}

fn accepted_change(judge: Judge, profile: Profile, id: &str, body: &[u8], flip: Flip) -> Option<String> {
    let headers = sign(profile, SECRET, id, NOW, body);
    assert!(judge(profile, &headers, body), "{profile}: the request itself is refused");
    let mut changed = body.to_vec();
    flip.apply(&mut changed);
    if judge(profile, &headers, &changed) {
        return Some(format!("{profile}: body {changed:?}"));
    }
    guarded(profile).iter().find_map(|name| {
        let mut headers = headers.clone();
        let (_, value) = headers.iter_mut().find(|(known, _)| known == name)?;
        flip.apply(value);
        judge(profile, &headers, body).then(|| format!("{profile}: {headers:?}"))
    })
}

fn flips() -> impl Strategy<Value = Flip> {
    (any::<usize>(), any::<u8>()).prop_map(|(place, bit)| Flip { place, bit })
}

proptest! {
    #[test]
    fn no_change_of_a_bit_is_accepted(
        profile in select(stamped_by_headers().collect::<Vec<_>>()),
        id in "[a-zA-Z0-9_-]{1,40}",
        body in vec(any::<u8>(), 1..300),
        flip in flips(),
    ) {
        prop_assert_eq!(accepted_change(accepts, profile, &id, &body, flip), None);
    }

    /// Nearly valid text reaches further than random bytes.
    #[test]
    fn no_text_that_is_nearly_right_makes_it_panic_or_is_accepted(
        profile in select(signed_by_headers().collect::<Vec<_>>()),
        text in "(v1|v1a|v2|t|sha256|sha1)?[,= ]{0,2}[a-zA-Z0-9+/=]{0,90}",
        time in "[-+0-9.]{0,25}",
    ) {
        let (signature, _) = place_of_signature(profile);
        let headers: Headers = sign(profile, SECRET, "a", NOW, b"{}").into_iter().map(|(name, value)| {
            let value = if name == signature { text.clone().into_bytes() } else { value };
            (name, if name.ends_with("timestamp") { time.clone().into_bytes() } else { value })
        }).collect();
        prop_assert!(!accepts(profile, &headers, b"{}"), "{:?}", headers);
    }
}

#[test]
fn no_bit_anywhere_in_a_request_can_be_changed() {
    let body = &linear_body(NOW, "");
    for profile in signed_by_headers() {
        for place in 0..120 {
            for bit in 0..8 {
                assert_eq!(accepted_change(accepts, profile, "evt_1", body, Flip { place, bit }), None);
            }
        }
    }
}

#[test]
fn a_judge_with_a_flaw_is_found_out() {
    let body = b"some text that ends in a mark!";
    let last = body.len() - 1;
    for profile in stamped_by_headers() {
        let flip = Flip { place: last, bit: 0 };
        assert!(
            accepted_change(forgets_the_end_of_the_body, profile, "a", body, flip).is_some(),
            "{profile}"
        );
    }
}

/// A request as an input: profile, header values and body, separated by zeros.
fn written(profile: Profile) -> Vec<u8> {
    let place = signed_by_headers().position(|one| one == profile).unwrap();
    let mut parts = vec![vec![u8::try_from(place).unwrap()]];
    parts.extend(signed(profile).into_iter().map(|(_, value)| value));
    parts.push(BODY.to_vec());
    parts.join(&0)
}

/// No input makes `verify` panic, at any time. An accepted one holds every signed part unchanged.
fn outcome(input: &[u8], random: &mut Random) -> String {
    let mut parts = input.split(|byte| *byte == 0);
    let place = parts.next().and_then(|first| first.first()).map_or(0, |place| usize::from(*place));
    let all: Vec<_> = signed_by_headers().collect();
    let profile = all[place % all.len()];
    let names = signed(profile).into_iter().map(|(name, _)| name);
    let mut headers: Headers = names.zip(parts.by_ref().map(<[u8]>::to_vec)).collect();
    // An empty part stands for a missing header.
    headers.retain(|(_, value)| !value.is_empty());
    let body = parts.collect::<Vec<_>>().join(&0);
    let keys = keys(profile, &[SECRET]);
    let far = [i64::MIN, i64::MAX, 0, -1][random.below(4)];
    assert!(!profile.has_timestamp() || verify(UnixSeconds(far), headers.as_slice(), &body, &keys).is_err());
    match verify(UnixSeconds(NOW), headers.as_slice(), &body, &keys) {
        Ok(verified) => {
            assert_eq!(body, BODY, "{profile}");
            assert!(!profile.id_is_signed() || verified.id == ID, "{profile}: {}", verified.id);
            assert_eq!(verified.signed_at, profile.has_timestamp().then_some(UnixSeconds(NOW)), "{profile}");
            format!("{profile}: accepted")
        }
        Err(rejection) => format!("{profile}: {}", rejection.rule()),
    }
}

fn target() -> Target<'static> {
    let words = &["v1,", "v1=", "t=", "sha256=", "whsec_", "\0", " ", ",", "1700000000", "\"id\":\"x\","];
    Target { quick: 20_000, corpus: signed_by_headers().map(written).collect(), words, check: &outcome }
}

#[test]
fn no_mutation_is_accepted_that_was_not_signed() {
    target().try_some();
}

#[test]
#[ignore = "takes HOOKPROOF_SECONDS"]
fn no_mutation_is_accepted_that_was_not_signed_at_length() {
    target().try_at_length();
}
