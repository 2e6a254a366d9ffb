//! Valid vectors of `scenarios/vectors/`, from specifications and public libraries.

use hookproof_sender::engine::time::StoreTime;
use hookproof_sender::sign::{Attempt, Headers, Keys, Profile, Secret, Signer};
use serde_json::Value;

/// Published with a secret too short for our subscribers.
const SHORT_SECRETS: [&str; 1] = ["rfc-4231-case-2-as-frozen"];

/// ECDSA has many signatures of one text, of which ours is that of RFC 6979. A message may be signed over other components.
const OTHER_SIGNATURES: [&str; 3] = ["by-jose", "the-other-s", "other-components-and-parameters"];

struct Vector(Value);

impl Vector {
    fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let headers = self.0["headers"].as_array().unwrap();
        headers.iter().find(|pair| pair[0] == name).and_then(|pair| pair[1].as_str())
    }

    fn signed(&self) -> Headers {
        let profile: Profile = self.text("profile").parse().unwrap();
        let secrets = self.0.get("private_keys").unwrap_or(&self.0["secrets"]);
        let secret = Secret::parse(secrets[0].as_str().unwrap()).unwrap();
        let event = self.header("x-vvv-event").or(self.header("x-github-event")).unwrap_or("video.trending");
        let attempt = Attempt {
            id: &self.text("id").parse().unwrap(),
            event_type: &event.parse().unwrap(),
            subscriber: &self.header("x-vvv-subscriber").unwrap_or("sub_1").parse().unwrap(),
            number: 1,
            frozen: None,
            body: self.text("body").as_bytes(),
        };
        let seconds = self.0["signed_at"].as_u64().or(self.0["now"].as_u64()).unwrap();
        let in_ms = self.header("x-hubspot-request-timestamp").map(|text| text.parse::<u64>().unwrap());
        let at = StoreTime(in_ms.unwrap_or(seconds * 1_000) * 1_000_000);
        let mut headers = Headers::new();
        let signer = Signer::new(profile, &Keys::new(secret)).unwrap();
        let signer = signer.with_url(self.0["url"].as_str().unwrap_or_default());
        signer.sign(at, &attempt, &mut headers);
        headers
    }

    /// A list of signatures must contain ours.
    fn differences(&self) -> Vec<String> {
        let differs = |name: &str, ours: &str| {
            let theirs = self.header(name).unwrap_or_default();
            let ours_is_one = theirs.split(' ').any(|one| one == ours)
                || ours.split(',').all(|item| theirs.split(',').any(|one| one == item));
            !ours_is_one
        };
        let signed = self.signed();
        // Shopify's topics are no types of ours.
        let compared = signed.iter().filter(|(name, _)| *name != "x-shopify-topic");
        let different = compared.filter(|(name, ours)| differs(name, ours));
        different.map(|(name, ours)| format!("{}: {name}: {ours}", self.text("name"))).collect()
    }
}

fn vectors() -> Vec<Vector> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/vectors");
    let folders = [folder.to_owned(), format!("{folder}/providers")];
    let paths = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let vectors = files.flat_map(|path| {
        let mut file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let Value::Array(vectors) = file["vectors"].take() else { panic!("no vectors") };
        vectors.into_iter().map(Vector)
    });
    let valid = vectors.filter(|one| one.0["valid"] == true && one.0["body"].is_string());
    let valid = valid.filter(|one| !["adyen", "linear", "paypal"].contains(&one.text("profile")));
    let valid = valid.filter(|one| one.header("content-type") != Some("application/x-www-form-urlencoded"));
    let is_ours = |name: &str| !SHORT_SECRETS.contains(&name) && !OTHER_SIGNATURES.contains(&name);
    valid.filter(|one| is_ours(one.text("name"))).collect()
}

#[test]
fn the_signer_agrees_with_every_vector() {
    let vectors = vectors();
    // CloudEvents are signed as Standard Webhooks are.
    for profile in Profile::ALL.into_iter().filter(|profile| *profile != Profile::Cloudevents) {
        let count = vectors.iter().filter(|one| one.text("profile") == profile.name()).count();
        assert!(count >= 3, "only {count} vectors for {profile}");
    }
    let differences: Vec<_> = vectors.iter().flat_map(Vector::differences).collect();
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn a_vector_of_another_body_is_noticed() {
    for mut vector in vectors() {
        vector.0["body"] = "another body".into();
        assert!(!vector.differences().is_empty(), "{}", vector.text("name"));
    }
}
