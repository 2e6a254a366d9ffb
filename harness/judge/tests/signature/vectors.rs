//! The harness's verifier agrees with every vector of specifications and public libraries.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use hookproof_judge::signature::{Profile, Received, unbase64};

const TOLERANCE_SECONDS: i64 = 300;
/// The profiles that specifications and other libraries sign.
const ELSEWHERE: usize = 5;

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    profile: String,
    secrets: Vec<String>,
    now: i64,
    #[serde(default)]
    method: String,
    #[serde(default)]
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
    valid: bool,
    signed_at: Option<i64>,
    rule: Option<String>,
    #[serde(default)]
    judge_accepts: bool,
}

#[test]
fn the_judge_agrees_with_every_vector() {
    let mut count = (0, 0);
    for path in files() {
        for vector in read(&path).vectors {
            let found = accepts(&vector);
            assert_eq!(
                found.is_ok(),
                vector.valid || vector.judge_accepts,
                "{}: {}: {found:?}",
                path.display(),
                vector.name
            );
            // Then the signature itself holds.
            let is_uncovered = vector.rule.as_deref() == Some("signature-uncovered");
            let told = found.err().is_some_and(|why| why.starts_with("the signature does not cover "));
            assert!(told || !is_uncovered, "{}: {}", path.display(), vector.name);
            if vector.valid {
                count.0 += 1;
            } else {
                count.1 += 1;
            }
        }
    }
    assert!(
        count.0 >= 20 && count.1 >= 20,
        "{count:?} valid and invalid vectors are too few to say anything"
    );
}

/// The verifier leaves freshness and ids to the checks; here they are combined.
fn accepts(vector: &Vector) -> Result<(), String> {
    let profile: Profile = vector.profile.parse().map_err(|error| format!("{error}"))?;
    // Of PayPal, behind the webhook's id.
    let pem = |der: &str| format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n");
    let text = |text: &String| match text.split_once(':').filter(|_| profile.key_url().is_some()) {
        Some((_, der)) => pem(der),
        None => text.clone(),
    };
    let secrets = vector.secrets.iter().map(text);
    let secrets = secrets.map(|text| profile.key(&text).map_err(|error| error.to_string()));
    let secrets = secrets.collect::<Result<Vec<_>, _>>()?;
    let headers: Vec<(&str, &[u8])> =
        vector.headers.iter().map(|(name, value)| (&**name, value.as_bytes())).collect();
    let encoded = || vector.body_base64.as_deref().and_then(unbase64);
    let body = vector.body.clone().map(String::into_bytes).or_else(encoded).ok_or("no body")?;
    let seen = profile.verify(
        &secrets,
        &Received {
            method: &vector.method,
            url: &vector.url,
            headers: &headers,
            body: &body,
            ..Received::default()
        },
    );
    seen.verdict.map_err(|error| error.to_string())?;
    if profile.signs_timestamp() {
        let timestamp: i64 = seen.timestamp.and_then(|text| text.parse().ok()).ok_or("no timestamp")?;
        if (vector.now - timestamp).abs() > profile.tolerance_seconds().unwrap_or(TOLERANCE_SECONDS) {
            return Err("too old, or ahead".to_owned());
        }
        assert!(!vector.valid || vector.signed_at == Some(timestamp), "{}", vector.name);
    }
    match seen.id {
        Some(id) if id.len() > 256 || id.contains(' ') => Err("the id is no id".to_owned()),
        Some(id) if profile.signs_id() && id.contains('.') => Err("the id has a point in it".to_owned()),
        _ => Ok(()),
    }
}

#[test]
fn each_providers_profile_has_vectors_that_its_library_judged() {
    let files = in_folder("providers");
    let names: Vec<_> = files.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
    let mut expected = Profile::NAMES[ELSEWHERE..].to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

/// The headers and the body of each.
pub(crate) fn valid(provider: &str) -> Vec<(Vec<(String, String)>, String)> {
    let name = format!("{provider}.json");
    let path = in_folder("providers").into_iter().find(|path| path.ends_with(&name)).unwrap();
    let valid = read(&path).vectors.into_iter().filter(|one| one.valid);
    valid.map(|one| (one.headers, one.body.unwrap())).collect()
}

fn read(path: &Path) -> File {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files() -> Vec<PathBuf> {
    ["", "providers"].into_iter().flat_map(in_folder).collect()
}

fn in_folder(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/vectors").join(name);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut json: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert!(json.len() >= 3, "{} has too few vectors", folder.display());
    json.sort();
    json
}
