//! No headers and no body make `verify` panic, and none that a fuzzer finds is accepted: it does not know the secret.
//!
//!     cargo +nightly fuzz run verify        (in receiver/; `cargo install cargo-fuzz` first)
//!
//! The input is the profile, then the five headers and the body, parted by zeros.
#![no_main]

use std::sync::LazyLock;

use hookproof_receiver::verify::{Keys, Profile, Secret, UnixSeconds, verify};
use libfuzzer_sys::fuzz_target;

static KEYS: LazyLock<Vec<Keys>> = LazyLock::new(|| {
    let secret = Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").expect("a secret");
    Profile::ALL.map(|profile| Keys::new(profile, [&secret]).expect("one key")).into()
});

const fn names(profile: Profile) -> [&'static str; 5] {
    match profile {
        Profile::StandardWebhooks => ["webhook-id", "webhook-timestamp", "webhook-signature", "webhook-id", "x"],
        Profile::VvvTimestamped => ["x-vvv-timestamp", "x-vvv-signature", "x-vvv-signature", "x", "x"],
        Profile::VvvFrozen => {
            ["x-vvv-signature", "x-vvv-delivery-id", "x-vvv-event", "x-vvv-attempt", "x-vvv-subscriber"]
        }
        Profile::Stripe => ["stripe-signature", "stripe-signature", "x", "x", "x"],
        Profile::Github => ["x-hub-signature-256", "x-github-delivery", "x-github-event", "x", "x"],
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else { return };
    let keys = &KEYS[usize::from(*first) % KEYS.len()];
    let mut parts = rest.splitn(6, |byte| *byte == 0);
    // A part that is empty is a header that is not there.
    let headers: Vec<(&str, &[u8])> = names(keys.profile())
        .into_iter()
        .zip(parts.by_ref())
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let body = parts.next().unwrap_or_default();
    let found = verify(UnixSeconds(1_700_000_000), headers.as_slice(), body, keys);
    assert!(found.is_err(), "accepted without the secret: {found:?}");
});
