//! Verification allocates nothing, for any size of the body. Alone in its file, because it counts the allocations of
//! the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod signing;

use std::alloc::System;

use hookproof_verify::{Keys, Profile, Secret, UnixSeconds, verify};
use signing::{OTHER, SECRET, URL, key, linear_body, sign, signs_any_body};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn verifying_allocates_nothing() {
    const NOW: i64 = 1_700_000_000;
    let body = linear_body(NOW, &"x".repeat(20_000));
    for profile in Profile::ALL.into_iter().filter(signs_any_body) {
        let secrets = [OTHER, SECRET].map(|text| Secret::new(key(profile, text)).unwrap());
        let keys = Keys::new(profile, &secrets).unwrap().with_url(URL);
        let headers = sign(profile, SECRET, "evt_1", NOW, &body);
        let wrong = sign(profile, SECRET, "evt_1", NOW, b"another body");
        // The test harness may allocate on another thread, but not every time.
        let fewest = (0..100).map(|_| {
            let region = Region::new(ALLOCATOR);
            assert!(verify(UnixSeconds(NOW), headers.as_slice(), &body, &keys).is_ok());
            assert!(verify(UnixSeconds(NOW), wrong.as_slice(), &body, &keys).is_err());
            region.change().allocations
        });
        // If the body has the id or the time, the search for it ends with an error, which is one small box.
        let named = [Profile::StandardWebhooks, Profile::VvvFrozen, Profile::Github, Profile::Shopify];
        let named = named.into_iter().chain([Profile::Rfc9421]);
        let messages = match profile {
            Profile::Discord | Profile::Sendgrid => 2,
            // Each time and for each key the text and the number.
            Profile::Paypal => 8,
            // Three lists of members, and the text that is signed.
            Profile::Rfc9421 => 8,
            _ => 0,
        };
        assert_eq!(
            fewest.min(),
            Some(messages + usize::from(!named.into_iter().any(|one| one == profile))),
            "{profile}"
        );
    }
}
