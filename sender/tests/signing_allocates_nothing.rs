//! Alone in its file, because it counts the allocations of the whole process.

use std::alloc::System;

use hookproof_sender::engine::time::StoreTime;
use hookproof_sender::sign::{Attempt, Headers, Keys, Profile, Secret, Signer};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[test]
fn signing_into_a_used_buffer_allocates_nothing() {
    let at = StoreTime::from_secs(1_700_000_000);
    let [id, subscriber] =
        ["evt_01hf7yat000000000000000000", "sub_01hf7yat000000000000000000"].map(str::parse);
    let (id, subscriber) = (id.unwrap(), subscriber.unwrap());
    let event_type = "video.trending".parse().unwrap();
    let body = [b'x'; 300];
    let mut headers = Headers::new();
    for profile in Profile::ALL {
        let mut keys = Keys::new(Secret::generate(profile, &[1; 32]));
        keys.rotate(at, Secret::generate(profile, &[2; 32]), StoreTime(u64::MAX)).unwrap();
        let signer = Signer::new(profile, &keys).unwrap();
        let attempt = Attempt {
            id: &id,
            event_type: &event_type,
            subscriber: &subscriber,
            number: 1,
            frozen: None,
            body: &body,
        };
        signer.sign(at, &attempt, &mut headers);
        // The test harness may allocate on another thread, but not every time.
        let fewest = (0..100)
            .map(|_| {
                let region = Region::new(ALLOCATOR);
                signer.sign(at, &attempt, &mut headers);
                region.change().allocations
            })
            .min();
        assert_eq!(fewest, Some(0), "{profile}");
    }
}
