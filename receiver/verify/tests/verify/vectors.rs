//! The verifier agrees with the vectors of specifications and public libraries.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookproof_verify::{Keys, Profile, Secret, UnixSeconds, verify};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    format: u32,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    profile: String,
    secrets: Vec<String>,
    now: i64,
    #[serde(default)]
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
    valid: bool,
    id: Option<String>,
    signed_at: Option<i64>,
    rule: Option<String>,
}

impl Vector {
    fn body(&self) -> Vec<u8> {
        match (&self.body, &self.body_base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(encoded)) => STANDARD.decode(encoded).unwrap(),
            _ => panic!("{}: expected one of body and body_base64", self.name),
        }
    }

    fn disagreement(&self) -> Option<String> {
        let profile: Profile = self.profile.parse().unwrap();
        let secrets: Vec<_> = self.secrets.iter().map(|text| Secret::new(text).unwrap()).collect();
        let (keys, body) = (Keys::new(profile, &secrets).unwrap().with_url(&self.url), self.body());
        let found = verify(UnixSeconds(self.now), self.headers.as_slice(), &body, &keys);
        let agrees = match &found {
            Ok(verified) => {
                let signed_at = verified.signed_at.map(|UnixSeconds(at)| at);
                self.valid && Some(&*verified.id) == self.id.as_deref() && signed_at == self.signed_at
            }
            Err(rejection) => !self.valid && Some(rejection.rule()) == self.rule.as_deref(),
        };
        (!agrees).then(|| format!("{}: {found:?}", self.name))
    }
}

fn all() -> Vec<(String, Vec<Vector>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/vectors");
    let folders = [folder.to_owned(), format!("{folder}/providers")];
    let paths = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    files
        .map(|path| {
            let file: File = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            assert_eq!(file.format, 1, "{}", path.display());
            (path.file_name().unwrap().to_string_lossy().into_owned(), file.vectors)
        })
        .collect()
}

#[test]
fn the_verifier_agrees_with_every_vector() {
    let files = all();
    let disagreements = files.iter().flat_map(|(file, vectors)| {
        vectors.iter().filter_map(move |vector| Some(format!("{file}: {}", vector.disagreement()?)))
    });
    assert_eq!(disagreements.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn every_profile_has_valid_and_invalid_ones() {
    let files = all();
    assert!(files.len() >= 6, "only {} files of vectors", files.len());
    for profile in Profile::ALL {
        for valid in [true, false] {
            let vectors = files.iter().flat_map(|(_, vectors)| vectors);
            let count = vectors.filter(|one| one.profile == profile.name() && one.valid == valid).count();
            assert!(count >= 3, "{profile}: only {count} vectors that are valid = {valid}");
        }
    }
}

#[test]
fn a_vector_that_says_otherwise_is_noticed() {
    for (file, vectors) in all() {
        for mut vector in vectors {
            vector.valid = !vector.valid;
            assert!(vector.disagreement().is_some(), "{file}: {}", vector.name);
        }
    }
}
