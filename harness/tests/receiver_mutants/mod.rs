//! Each receiver with one realistic bug must fail the bug's case, and the correct one must pass every case. `profiles` has the bugs of
//! signatures.
//! `HOOKPROOF_BLESS=1 cargo test -p hookproof --test all receiver_mutants` rewrites the matrix,
//! `reports/kill-matrix-receivers.md`.

mod accused;
mod bugs;
mod cache;
mod flaw;
mod inflate;
mod profiles;
mod server;
mod shipped;
mod twist;
mod verify;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flaw::Flaw;
use server::Server;

use hookproof::suite::{self, Bodies, Hooks, Known, Report, Selection, Settings};
use hookproof::wire::request::Target;
use hookproof_judge::catalogue::Verdict;
use hookproof_judge::signature::{Profile, Secret};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const RETIRED: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

const PROFILE: &str = r#"
profile = "standard-webhooks"
[handshake]
body    = '{"event":"hello","challenge":"{challenge}"}'
answers = { "application/json" = '{"challenge":"{challenge}","hmac":"{hmac}"}' }
origin  = "events.example"
"#;

const AT_ONCE: usize = 8;

/// Strictly and with every probe.
fn judged(flaw: Option<Flaw>) -> Report {
    judged_by(flaw, Selection::default(), true)
}

fn judged_by(flaw: Option<Flaw>, selection: Selection, strict: bool) -> Report {
    judged_in(tempfile::tempdir().unwrap().path(), flaw, selection, strict, "broken")
}

/// `breaking`: the file that breaks it.
fn judged_in(
    folder: &Path,
    flaw: Option<Flaw>,
    selection: Selection,
    strict: bool,
    breaking: &str,
) -> Report {
    let address = Server::start(flaw, folder.to_owned());
    let profile = Profile::parse("standard-webhooks with a handshake", PROFILE).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    let settings = Settings {
        target: Target::parse(&format!("http://{address}/hooks")).unwrap(),
        profile,
        secret: Secret::parse(profile, SECRET).unwrap(),
        retired: Some(Secret::parse(profile, RETIRED).unwrap()),
        verify_token: None,
        tolerance_seconds: Settings::TOLERANCE_SECONDS,
        bodies: Bodies::All,
        timeout: Duration::from_secs(10),
        slow_limit: Duration::from_secs(8),
        hooks: Hooks {
            effects: Some(Target::parse(&format!("http://{address}/effects")).unwrap()),
            restart: Some(format!("touch {}", file("restart"))),
            break_it: Some(format!("touch {}", file(breaking))),
            mend: Some(format!("rm {}", file(breaking))),
        },
        selection,
        known: Known::default(),
        strict,
        again: "--secret-env HOOK_SECRET".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(suite::run(&settings, |_| {})).unwrap()
}

fn ids(report: &Report, verdict: Verdict) -> Vec<&str> {
    report.rows.iter().filter(|row| row.verdict == verdict).map(|row| row.id.as_str()).collect()
}

#[test]
fn the_correct_receiver_passes_every_case_strictly() {
    let report = judged(None);
    let rest: Vec<_> = report.rows.iter().filter(|row| row.verdict != Verdict::Pass).collect();
    assert!(rest.is_empty(), "{}", report.table(hookproof_judge::report::Colours::No));
    assert_eq!(report.exit_code(), 0);
    assert_eq!(report.rows.len(), hookproof_judge::catalogue::receiver().len());
}

/// A later `catch` may turn the exception into an acceptance.
#[test]
fn a_forgery_answered_with_500_is_told_apart_from_one_that_is_accepted() {
    let case_of = |id: &str, flaw, strict| {
        let only = [id.to_owned()];
        let selection = Selection::new(hookproof_judge::catalogue::receiver(), &only, &[]).unwrap();
        let report = judged_by(Some(flaw), selection, strict);
        assert_eq!(report.rows[0].had_no_effect, flaw == Flaw::ThrowsOnEmpty);
        (report.rows[0].verdict, report.rows[0].came.clone(), report.exit_code())
    };
    let case = |flaw, strict| case_of("sig.empty", flaw, strict);
    let accident = "rejected by accident: an empty header: 500".to_owned();
    assert_eq!(case(Flaw::ThrowsOnEmpty, false), (Verdict::Warn, accident.clone(), 0));
    assert_eq!(case(Flaw::ThrowsOnEmpty, true), (Verdict::Fail, accident, 1));
    let (verdict, came, code) = case(Flaw::EmptyIsFine, false);
    assert!(verdict == Verdict::Fail && code == 1 && !came.contains("accident"), "{verdict}: {came}");
    let processed = "no webhook-signature header: 500, and processed all the same".to_owned();
    assert_eq!(case_of("sig.missing", Flaw::FailsAfterwards, false), (Verdict::Fail, processed, 1));
}

#[test]
fn every_flaw_is_caught_by_the_case_that_names_it() {
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<(usize, String, Vec<String>)>> = Mutex::default();
    let alone = std::env::var("HOOKPROOF_STRANGER").ok();
    let named = |flaw: &&Flaw| {
        alone.as_ref().is_none_or(|alone| alone.split(',').any(|name| name == format!("{flaw:?}")))
    };
    let flaws: Vec<Flaw> = Flaw::ALL.iter().filter(named).copied().collect();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(flaw) = flaws.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let report = judged(Some(*flaw));
                    let caught = ids(&report, Verdict::Fail);
                    let unclear = ids(&report, Verdict::Inconclusive);
                    let mut problems = Vec::new();
                    if !caught.contains(&flaw.case()) {
                        problems.push(format!("{flaw:?}: {} missed it; caught by {caught:?}", flaw.case()));
                    }
                    // Where each repeat fails, nothing is known of special ones.
                    if !unclear.is_empty() && *flaw != Flaw::DuplicatesBreak {
                        problems.push(format!("{flaw:?}: inconclusive: {unclear:?}"));
                    }
                    let place = Flaw::ALL.iter().position(|known| known == flaw).unwrap();
                    rows.lock().unwrap().push((place, row(*flaw, &caught), problems));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort();
    let matrix = matrix(&rows.iter().map(|(_, row, _)| row.as_str()).collect::<String>());
    println!("{matrix}");
    let problems: Vec<_> = rows.iter().flat_map(|(.., problems)| problems).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    if alone.is_some() {
        return;
    }
    hold(&matrix, &matrix_path());
}

/// The machine decides whether these also detect other flaws.
const BY_TIME: [&str; 3] = ["ack.fast", "ack.overload", "limit.inflate"];

fn row(flaw: Flaw, caught: &[&str]) -> String {
    // The second in which a request falls, its signature, or what came between, decides whether other cases find these.
    let is_by_chance =
        matches!(flaw, Flaw::CachesByTimestamp | Flaw::XorsDifferences | Flaw::RemembersSixteen);
    let others = caught.iter().filter(|id| **id != flaw.case() && !BY_TIME.contains(*id) && !is_by_chance);
    let others: Vec<_> = others.map(|id| format!("`{id}`")).collect();
    format!("| {} | `{}` | {} |\n", flaw.what(), flaw.case(), others.join(" "))
}

fn matrix(rows: &str) -> String {
    let mut text = String::from("# Receivers with one bug each, and the cases that catch them\n\n");
    let count = Flaw::ALL.len();
    let _infallible = writeln!(
        text,
        "Each row is the same small receiver (`harness/tests/receiver_mutants/`) with one bug; all {count} are caught by the\n\
         case that names the bug, strictly judged, and the receiver without a bug passes every case. `cargo test -p hookproof\n\
         --test all receiver_mutants` holds this file to the truth. [Under each profile](kill-matrix-profiles.md) there are more.\n\n\
         One bug is invisible to a black box and not here: a comparison that stops at the first difference. `timing.remote` reports a\n\
         statistic and cannot fail.\n\n| a receiver that … | is caught by | and by |\n|---|---|---|"
    );
    text + rows
}

fn matrix_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/kill-matrix-receivers.md")
}

fn hold(text: &str, path: &Path) {
    if std::env::var_os("HOOKPROOF_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(kept, text, "{} is stale; HOOKPROOF_BLESS=1 writes it anew", path.display());
}
