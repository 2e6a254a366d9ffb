use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::binary::Database;
use crate::binary::endpoint::{Arrival, Endpoint};

fn hex_hmac(secret: &str, parts: &[&[u8]]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attempts(profile: &str) -> (Vec<Arrival>, String) {
    let failing = Endpoint::answering(|number| {
        if number < 4 { "503 Not Now\r\n".to_owned() } else { "204 No Content\r\n".to_owned() }
    });
    let database = Database::new();
    let sign = format!("sign={profile}");
    let settings = [&*sign, "retry.base=10ms", "retry.cap=20ms", "limit.quarantine=10ms"];
    let added = database.subscribe("sink", &failing.url, &settings);
    let mut serving = database.serve();
    serving.emit("v1");
    failing.wait_for(2);
    serving.kill();
    serving = database.serve();
    let arrivals = failing.wait_for(5);
    serving.stop_in_order();
    assert!(arrivals.windows(2).all(|pair| pair[0].body == pair[1].body), "the same bytes each time");
    (arrivals, added["secret"].as_str().unwrap().to_owned())
}

#[test]
fn a_frozen_signature_is_the_same_over_retries_and_a_kill() {
    let (arrivals, secret) = attempts("vvv-frozen");
    for arrival in &arrivals {
        assert_eq!(arrival.header("x-vvv-signature"), hex_hmac(&secret, &[&arrival.body]));
        assert_eq!(arrival.header("x-vvv-event"), "video.trending");
        for same in ["x-vvv-delivery-id", "x-vvv-subscriber"] {
            assert_eq!(arrival.header(same), arrivals[0].header(same));
        }
    }
    let numbers: Vec<u32> =
        arrivals.iter().map(|arrival| arrival.header("x-vvv-attempt").parse().unwrap()).collect();
    assert_eq!(numbers[..2], [1, 2]);
    assert!(numbers.is_sorted(), "{numbers:?}");
}

#[test]
fn a_timestamped_signature_is_made_at_each_attempt_over_the_timestamp_and_the_body() {
    let (arrivals, secret) = attempts("vvv-timestamped");
    for arrival in &arrivals {
        let timestamp = arrival.header("x-vvv-timestamp");
        let expected = hex_hmac(&secret, &[timestamp.as_bytes(), b".", &arrival.body]);
        assert_eq!(arrival.header("x-vvv-signature"), format!("sha256={expected}"));
    }
}
