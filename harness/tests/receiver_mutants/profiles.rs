//! The bugs of a signature under each profile. `HOOKPROOF_BLESS=1 cargo test -p hookproof --test all receiver_mutants::profiles`
//! rewrites the matrix, `reports/kill-matrix-profiles.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hookproof::suite::{self, Bodies, Hooks, Known, Report, Selection, Settings};
use hookproof::wire::request::Target;
use hookproof_judge::catalogue::{self, Verdict};
use hookproof_judge::signature::{Profile, Secret};
use hookproof_receiver::verify;

use crate::receiver_mutants::server::Server;
use crate::receiver_mutants::shipped::{Facts, Shipped};
use crate::receiver_mutants::twist::Twist;
use crate::receiver_mutants::{RETIRED, SECRET, hold, ids};
use crate::suite::reference::{
    PRIVATE, PUBLIC, PUBLIC_ED25519_JWK, PUBLIC_JWK, PUBLIC_P256, PUBLIC_RSA, RSA, RSA_OTHER,
};

const AT_ONCE: usize = 4;

/// Of PKCS #8, up to the number of a private key of P-256.
const P256_FRONT: [u8; 35] = [
    0x30, 0x41, 2, 1, 0, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 3, 1, 7, 4, 0x27, 0x30, 0x25, 2, 1, 1, 4, 0x20,
];

#[derive(Clone)]
struct Keyed {
    name: String,
    profile: Profile,
    private: String,
    public: String,
    retired: String,
}

fn keyed() -> Vec<Keyed> {
    let row = |profile: Profile, kind: &str, private: &str, public: &str| {
        let retired = match () {
            () if private.starts_with("whsk_") => other_key(private),
            () if private == SECRET => RETIRED.to_owned(),
            () if private == RSA => RSA_OTHER.to_owned(),
            () => profile.secret_of(&RETIRED.as_bytes()[..32]),
        };
        let name = format!("{}{kind}", profile.name());
        Keyed { name, profile, private: private.to_owned(), public: public.to_owned(), retired }
    };
    let pkcs8 = |private: &str| {
        let number = STANDARD.decode(private.trim_start_matches("whsk_")).unwrap();
        format!("whsk_{}", STANDARD.encode([&P256_FRONT[..], &number].concat()))
    };
    let rows = Profile::ALL.into_iter().flat_map(|profile| match () {
        () if profile.is_message() => vec![
            row(profile, " (HMAC)", SECRET, SECRET),
            row(profile, " (Ed25519)", PRIVATE, PUBLIC_ED25519_JWK),
            row(profile, " (P-256)", &pkcs8(PRIVATE), PUBLIC_JWK),
        ],
        () if profile.is_token() => vec![row(profile, "", PRIVATE, PUBLIC_JWK)],
        () if profile.is_der() => vec![row(profile, "", PRIVATE, PUBLIC_P256)],
        () if profile.key_url().is_some() => vec![row(profile, "", RSA, PUBLIC_RSA)],
        () if profile.is_public() => vec![row(profile, "", PRIVATE, PUBLIC)],
        () if !profile.signs_body() => {
            let secret = profile.secret_of(&SECRET.as_bytes()[..32]);
            vec![row(profile, "", &secret, &secret)]
        }
        () => vec![row(profile, "", SECRET, SECRET)],
    });
    rows.collect()
}

fn other_key(private: &str) -> String {
    let mut bytes = STANDARD.decode(private.trim_start_matches("whsk_")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    format!("whsk_{}", STANDARD.encode(bytes))
}

impl Keyed {
    fn secret(&self) -> Secret {
        Secret::parse(self.profile, &self.private).unwrap()
    }

    fn facts(&self) -> Facts {
        Facts::of(self.profile, &self.secret(), &self.public)
    }

    fn served(&self, twist: Option<Twist>, folder: &Path) -> String {
        let address = Server::start_with(None, folder.to_owned(), |address| {
            let text = verify::Secret::new(&self.public).unwrap();
            let keys = verify::Keys::new(self.profile.name().parse().unwrap(), [&text]).unwrap();
            let shipped = Shipped {
                twist,
                profile: self.profile,
                facts: self.facts(),
                secret: self.secret(),
                retired: Secret::parse(self.profile, &self.retired).unwrap(),
                public: self.public.clone(),
                keys: keys.with_url(&format!("http://{address}/hooks")),
                seen: Mutex::default(),
                times: Mutex::default(),
            };
            Some(Box::new(move |request| shipped.status(request)))
        });
        format!("http://{address}/hooks")
    }

    fn judged(&self, twist: Option<Twist>, cases: &[String]) -> Report {
        self.judged_by(twist, cases, |_| {})
    }

    fn judged_by(
        &self,
        twist: Option<Twist>,
        cases: &[String],
        change: impl FnOnce(&mut Settings),
    ) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            target: Target::parse(&self.served(twist, folder.path())).unwrap(),
            profile: self.profile,
            secret: self.secret(),
            retired: Some(Secret::parse(self.profile, &self.retired).unwrap()),
            verify_token: None,
            tolerance_seconds: self.profile.tolerance_seconds().unwrap_or(Settings::TOLERANCE_SECONDS),
            bodies: Bodies::All,
            timeout: Duration::from_secs(10),
            slow_limit: Duration::from_secs(8),
            hooks: Hooks { effects: None, restart: None, break_it: None, mend: None },
            selection: Selection::new(catalogue::receiver(), cases, &[]).unwrap(),
            known: Known::default(),
            strict: true,
            again: String::new(),
        };
        change(&mut settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(suite::run(&settings, |_| {})).unwrap()
    }

    fn caught(&self, twist: Twist) -> Vec<String> {
        let fails = |cases: &[String]| {
            let report = self.judged(Some(twist), cases);
            let all = [ids(&report, Verdict::Fail), ids(&report, Verdict::Warn)].concat();
            all.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let caught = fails(&[twist.case().to_owned(), "sig.valid".to_owned()]);
        if caught.is_empty() { fails(&cases()) } else { caught }
    }
}

fn cases() -> Vec<String> {
    let cases: BTreeSet<_> = Twist::ALL.iter().map(|twist| twist.case().to_owned()).collect();
    std::iter::once("sig.valid".to_owned()).chain(cases).collect()
}

fn each<T: Sync, R: Send>(jobs: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<(usize, R)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(place) else { return };
                    let result = work(job);
                    done.lock().unwrap().push((place, result));
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn the_correct_receiver_of_each_profile_passes_these_cases_strictly() {
    let profiles = keyed();
    for (place, report) in each(&profiles, |keyed| keyed.judged(None, &cases())) {
        let wrong =
            report.rows.iter().filter(|row| !matches!(row.verdict, Verdict::Pass | Verdict::NotApplicable));
        assert_eq!(
            wrong.count(),
            0,
            "{}: {}",
            profiles[place].name,
            report.table(hookproof_judge::report::Colours::No)
        );
    }
}

#[test]
fn every_bug_of_a_signature_is_caught_under_each_profile_that_can_have_it() {
    let profiles = keyed();
    let alone = std::env::var("HOOKPROOF_STRANGER").ok();
    let is_wanted = |twist: &Twist| {
        alone.as_ref().is_none_or(|alone| alone.split(',').any(|name| name == format!("{twist:?}")))
    };
    let twists: Vec<Twist> = Twist::ALL.iter().copied().filter(is_wanted).collect();
    let jobs: Vec<(Twist, &Keyed)> =
        twists.iter().flat_map(|twist| profiles.iter().map(move |keyed| (*twist, keyed))).collect();
    let results = each(&jobs, |(twist, keyed)| match twist.applies(&keyed.facts()) {
        Ok(()) => Ok(keyed.caught(*twist)),
        Err(why) => Err(why),
    });
    let mut matrix: BTreeMap<Twist, BTreeMap<Cell, BTreeSet<usize>>> = BTreeMap::new();
    let mut missed = Vec::new();
    for (place, result) in results {
        let (twist, keyed) = jobs[place];
        let cell = match result {
            Ok(caught) if caught.iter().any(|case| case == twist.case()) => Cell::Caught,
            Ok(caught) => {
                missed.push(format!(
                    "{twist:?} under {}: {} missed it; caught by {caught:?}",
                    keyed.name,
                    twist.case()
                ));
                continue;
            }
            Err(why) => Cell::Inapplicable(why),
        };
        matrix.entry(twist).or_default().entry(cell).or_default().insert(place % profiles.len());
    }
    missed.sort();
    assert!(missed.is_empty(), "{missed:#?}");
    let unused = matrix.iter().find(|(_, cells)| !cells.contains_key(&Cell::Caught));
    assert!(unused.is_none(), "{unused:?} applies to no profile");
    if alone.is_none() {
        let names: Vec<_> = profiles.iter().map(|keyed| keyed.name.as_str()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/kill-matrix-profiles.md");
        hold(&written(&matrix, &names), &path);
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Caught,
    Inapplicable(&'static str),
}

fn written(matrix: &BTreeMap<Twist, BTreeMap<Cell, BTreeSet<usize>>>, names: &[&str]) -> String {
    let mut text = format!(
        "# Receivers with one bug of a signature, under each profile\n\n\
         The shipped verification with one bug around it, under {} profiles and kinds of keys. A line names the case that catches it, or \
         why no receiver of these profiles can have it. The test `receiver_mutants::profiles` writes this page.\n\n```text\n",
        names.len()
    );
    for (twist, cells) in matrix {
        writeln!(text, "{}", twist.what()).unwrap();
        for (cell, places) in cells {
            let whom: Vec<_> = places.iter().map(|place| names[*place]).collect();
            let whom = if whom.len() == names.len() { "each profile".to_owned() } else { whom.join(", ") };
            match cell {
                Cell::Caught => writeln!(text, "    {:<24} {whom}", twist.case()).unwrap(),
                Cell::Inapplicable(why) => writeln!(text, "    no: {why}: {whom}").unwrap(),
            }
        }
    }
    text + "```\n"
}

#[test]
fn a_librarys_own_faults_warn_and_the_receivers_fail() {
    let svix = keyed().into_iter().find(|keyed| keyed.name == "standard-webhooks").unwrap();
    let library = suite::Library::find("svix@1.99.1", svix.profile).unwrap();
    let verdict = |twist: Twist, library, strict| {
        let only = [twist.case().to_owned(), "sig.valid".to_owned()];
        let report = svix.judged_by(Some(twist), &only, |settings| {
            (settings.known.library, settings.strict) = (library, strict);
        });
        let row = report.rows.iter().find(|row| row.id == twist.case()).unwrap();
        (row.verdict, report.exit_code())
    };
    let rewrites = Twist::RewritesTimestamp;
    assert_eq!(verdict(rewrites, None, false), (Verdict::Fail, 1));
    assert_eq!(verdict(rewrites, Some(library), false), (Verdict::Warn, 0));
    assert_eq!(verdict(rewrites, Some(library), true), (Verdict::Fail, 1));
    // Its own fault in the same case, beside those of the library.
    assert_eq!(verdict(Twist::GuessesTimestamp, Some(library), false), (Verdict::Fail, 1));
    assert_eq!(verdict(Twist::ComparesHalf, Some(library), false), (Verdict::Fail, 1));
}
