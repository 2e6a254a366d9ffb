//! Each check has one meaning: one run breaks only this check, and the same run without the break passes. Checks that
//! cannot break alone are in [`implied`]. A check is broken if it fails or warns in the strict reading; a `harness.*`
//! check, if it is inconclusive. `HOOKPROOF_BLESS=1 cargo test -p hookproof-judge --test checks alone` rewrites
//! `reports/kill-matrix-checks.md`.

mod crash;
mod figures;
mod implied;
mod loss;
mod network;
mod queue;
mod rate;
mod recovery;
mod requests;
mod retry;
mod run;
mod table;

use std::collections::BTreeMap;

use hookproof_judge::catalogue;
use hookproof_judge::check::{Judgement, Status, Verdict};
use hookproof_judge::trace::{SLEEPER, Stall};

use implied::IMPLIED;
use run::Run;

pub(super) struct Row {
    check: &'static str,
    broken: &'static str,
    good: fn() -> Run,
    breaks: fn(&mut Run),
}

fn alone() -> impl Iterator<Item = &'static Row> {
    let families: [&[Row]; 9] = [
        &requests::ROWS,
        &rate::ROWS,
        &retry::ROWS,
        &recovery::ROWS,
        &network::ROWS,
        &queue::ROWS,
        &loss::ROWS,
        &crash::ROWS,
        &figures::ROWS,
    ];
    families.into_iter().flatten()
}

fn broken(judgement: &Judgement) -> Vec<(&str, &str)> {
    let is_broken = |id: &str, status: Status| match status {
        Status::Fail | Status::Warn => true,
        Status::Inconclusive => id.starts_with("harness."),
        _ => false,
    };
    let verdicts = judgement.verdicts.iter().filter(|one| is_broken(&one.id, one.status));
    verdicts.map(|one| (one.id.as_str(), one.sentence.as_str())).collect()
}

fn complaint(row: &Row, expected: &[&str]) -> Option<String> {
    let mut run = (row.good)();
    let good = run.judged();
    let passes = |one: &&Verdict| expected.contains(&one.id.as_str()) && one.status == Status::Pass;
    if good.verdicts.iter().filter(passes).count() != expected.len() || !broken(&good).is_empty() {
        let own = good.verdicts.iter().filter(|one| expected.contains(&one.id.as_str()));
        let own: Vec<String> =
            own.map(|one| format!("{} {}: {}", one.id, one.status, one.sentence)).collect();
        return Some(format!("the good run says {own:?}, and breaks {:?}", broken(&good)));
    }
    (row.breaks)(&mut run);
    let changed = run.judged();
    let found: Vec<&str> = broken(&changed).into_iter().map(|(id, _)| id).collect();
    let is_as_expected = found.len() == expected.len() && expected.iter().all(|id| found.contains(id));
    (!is_as_expected).then(|| format!("{expected:?} should break; {:?} did", broken(&changed)))
}

#[test]
fn each_of_these_checks_has_a_break_that_only_it_catches() {
    let complaints: Vec<String> = alone().filter_map(|row| complaint(row, &[row.check])).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_break_of_each_of_these_checks_is_one_of_another_and_of_no_third() {
    let complaints: Vec<String> =
        IMPLIED.iter().filter_map(|one| complaint(&one.row, &[one.row.check, one.other])).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_check_of_the_catalogue_is_in_one_of_both_lists_and_nothing_else_is() {
    let mut times: BTreeMap<&str, u32> =
        catalogue::sender().iter().map(|entry| (entry.id.as_str(), 0)).collect();
    for row in alone().chain(IMPLIED.iter().map(|one| &one.row)) {
        let known = times.get_mut(row.check);
        *known.unwrap_or_else(|| panic!("the catalogue has no {}", row.check)) += 1;
    }
    times.retain(|_, times| *times != 1);
    assert!(times.is_empty(), "not in exactly one list: {times:?}");
}

/// The checks whose break is lateness: of a request, of its stamp, or of an outcome that the sender may have seen after
/// its deadline.
const BY_LATENESS: [&str; 35] = [
    "identity.secret",
    "rate.utilisation",
    "pressure.holds",
    "retry.after-429",
    "retry.after-503",
    "retry.after-endpoint",
    "retry.after-hostile",
    "retry.after-zero",
    "retry.backoff-bounds",
    "retry.status",
    "retry.gone",
    "retry.hidden",
    "recovery.drains",
    "recovery.gap",
    "breaker.opens",
    "liveness.served",
    "network.timeout",
    "network.deadline",
    "isolation.latency",
    "isolation.gap",
    "queue.expires",
    "queue.retention",
    "duplicate.bounded",
    "duplicate.dedupe",
    "crash.stop",
    "crash.takeover",
    "fault.disk-full",
    "fault.locked",
    "fault.database-restart",
    "fault.partition",
    "fault.clock-step",
    "fault.clock-skew",
    "latency.first-attempt",
    "efficiency",
    "retry.after-date",
];

/// The checks whose break vanishes where the machine stalls from the beginning for this long.
fn excused_by(length: u64) -> Vec<&'static str> {
    let excused = |row: &&Row| {
        let mut run = (row.good)();
        (row.breaks)(&mut run);
        run.trace.stalls.push(Stall { thread: SLEEPER.to_owned(), from: 0, until: length });
        let judged = run.judged();
        judged.verdicts.iter().any(|one| one.id == row.check && one.status == Status::Inconclusive)
    };
    let rows = alone().chain(IMPLIED.iter().map(|one| &one.row));
    rows.filter(|row| !row.check.starts_with("harness.")).filter(excused).map(|row| row.check).collect()
}

#[test]
fn a_machine_that_stalls_throughout_excuses_lateness_and_nothing_else() {
    assert_eq!(excused_by(60_000_000_000), BY_LATENESS);
    assert!(excused_by(1_000_000).is_empty(), "{:?}", excused_by(1_000_000));
}
