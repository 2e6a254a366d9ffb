//! Each profile by its provider's own library, by our receiver and by our sender, on the same vectors.
//! `HOOKPROOF_BLESS=1 cargo test -p hookproof --test all suite::libraries` writes the table anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookproof_judge::signature::Profile;
use hookproof_receiver::verify::{Keys, Secret, UnixSeconds, verify};
use hookproof_sender::engine::time::StoreTime;
use hookproof_sender::sign;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    source: String,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    profile: String,
    secrets: Vec<String>,
    private_keys: Option<Vec<String>>,
    now: i64,
    #[serde(default)]
    url: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
    valid: bool,
    signed_at: Option<i64>,
    library_accepts: Option<bool>,
}

impl Vector {
    fn body(&self) -> Vec<u8> {
        let encoded = || STANDARD.decode(self.body_base64.as_deref().unwrap()).unwrap();
        self.body.clone().map_or_else(encoded, String::into_bytes)
    }

    fn is_accepted_by_our_receiver(&self) -> bool {
        let secrets: Vec<_> = self.secrets.iter().map(|text| Secret::new(text).unwrap()).collect();
        let keys = Keys::new(self.profile.parse().unwrap(), &secrets).unwrap().with_url(&self.url);
        verify(UnixSeconds(self.now), self.headers.as_slice(), &self.body(), &keys).is_ok()
    }

    /// The error says why our sender does not write the same.
    fn is_signed_alike(&self) -> Result<(), String> {
        let profile: sign::Profile = self.profile.parse().map_err(|_| "our sender lacks it")?;
        if self.headers.iter().any(|(_, value)| value == "application/x-www-form-urlencoded") {
            return Err("our sender sends no forms".to_owned());
        }
        let secret = |text: &String| sign::Secret::parse(text).map_err(|error| error.to_string());
        let secrets = self.private_keys.as_ref().unwrap_or(&self.secrets);
        let mut secrets = secrets.iter().map(secret).collect::<Result<Vec<_>, _>>()?.into_iter();
        let current = secrets.next().unwrap();
        let retiring = secrets.map(|secret| sign::Retiring::new(secret, StoreTime(u64::MAX)));
        let keys = sign::Keys::from_parts(current, retiring.collect()).unwrap();
        let signer =
            sign::Signer::new(profile, &keys).map_err(|error| error.to_string())?.with_url(&self.url);
        let header = |name: &str| self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let judged: Profile = self.profile.parse().unwrap();
        let id = judged.id_header().and_then(header).map_or("evt_1", |(_, id)| id.as_str());
        let attempt = sign::Attempt {
            id: &id.parse().map_err(|_| format!("our sender has no id {id:?}"))?,
            event_type: &"video.trending".parse().unwrap(),
            subscriber: &"sub_1".parse().unwrap(),
            number: 1,
            frozen: None,
            body: &self.body(),
        };
        // The vectors in milliseconds have a quarter of a second.
        let at = self.signed_at.unwrap_or_default().unsigned_abs() * 1_000_000_000 + 250_000_000;
        let mut written = sign::Headers::new();
        signer.sign(StoreTime(at), &attempt, &mut written);
        let theirs = header(judged.signature_header()).map(|(_, value)| value.as_str());
        let ours = written.get(judged.signature_header());
        let parts = |text: Option<&str>| -> BTreeSet<String> {
            text.unwrap_or_default().split([' ', ',']).map(str::to_owned).collect()
        };
        let name = self.name.replace('-', " ");
        if ours == theirs {
            return Ok(());
        }
        let input = header("signature-input").map(|(_, value)| value.as_str());
        if judged.is_message() && written.get("signature-input") != input {
            return Err(format!("{name}: over other components"));
        }
        let signed = |text: Option<&str>| {
            text.and_then(|text| text.rsplit_once('.')).map(|(signed, _)| signed.to_owned())
        };
        if judged.is_token() && signed(ours) == signed(theirs) {
            return Err(format!("{name}: another signature of the same text"));
        }
        assert!(parts(ours).is_subset(&parts(theirs)), "{name}: ours is {ours:?}, the library's {theirs:?}");
        Err(format!("{name}: ours is one of several"))
    }
}

fn files() -> Vec<File> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/vectors");
    let paths = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut json: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
        json.sort();
        json
    };
    let paths = [paths(folder.clone()), paths(folder.join("providers"))].concat();
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.iter().map(read).collect()
}

fn named<'v>(vectors: impl Iterator<Item = &'v Vector>) -> String {
    let names: Vec<_> = vectors.map(|one| one.name.replace('-', " ")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn row(File { source, vectors }: &File) -> Option<String> {
    let broken: Vec<_> = vectors.iter().filter(|one| one.library_accepts.is_some()).collect();
    let valid: Vec<_> = vectors.iter().filter(|one| one.valid).collect();
    let Vector { profile, .. } = broken.first()?;
    let accepted = named(broken.iter().copied().filter(|one| one.library_accepts == Some(true)));
    let wrong = vectors.iter().filter(|one| one.is_accepted_by_our_receiver() != one.valid);
    let receiver = match named(wrong).as_str() {
        "none" => "agrees with all".to_owned(),
        names => format!("disagrees: {names}"),
    };
    let signed: Vec<_> = valid.iter().map(|one| one.is_signed_alike()).collect();
    let why: BTreeSet<String> = signed.iter().filter_map(|signed| signed.clone().err()).collect();
    let alike = signed.iter().filter(|signed| signed.is_ok()).count();
    let why = if why.is_empty() { String::new() } else { format!("; {}", Vec::from_iter(why).join("; ")) };
    let (valid, broken) = (valid.len(), broken.len());
    Some(format!(
        "| `{profile}` | {source} | {valid} | {broken} | {accepted} | {receiver} | {alike} of {valid}{why} |\n"
    ))
}

#[test]
fn the_table_of_libraries_says_what_each_accepts_and_what_we_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/peers/libraries.md");
    let mut table = String::from(
        "# Libraries and broken signatures\n\n\
         Each library judged [vectors](../../scenarios/vectors/README.md) of its profile, and accepted every valid one. The test \
         `libraries` of the harness writes this table.\n\n\
         | profile | signed by; judged by | valid | broken | broken and accepted | our receiver | signed alike by our sender |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let files = files();
    table.extend(files.iter().filter_map(row));
    let judged: BTreeSet<&str> = files
        .iter()
        .flat_map(|file| &file.vectors)
        .filter(|one| one.library_accepts.is_some())
        .map(|one| one.profile.as_str())
        .collect();
    let others: Vec<_> = Profile::NAMES
        .into_iter()
        .filter(|name| !judged.contains(name))
        .map(|name| format!("`{name}`"))
        .collect();
    writeln!(table, "\nNo library judges {}: they are Hookproof's own.", others.join(" and ")).unwrap();
    assert!(!table.contains("disagrees"), "{table}");
    if std::env::var_os("HOOKPROOF_BLESS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), table, "{}", path.display());
}
