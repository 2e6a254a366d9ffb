use std::fmt::Write as _;
use std::path::Path;

use hookproof_judge::catalogue;

use super::alone;
use super::implied::IMPLIED;

fn markdown() -> String {
    let mut text = String::from(
        "# Checks that are each needed\n\n\
         Each check of a sender has a run in memory (`harness/judge/tests/checks/alone/`) with one break that only it catches; without\n\
         that break the run passes. A check of which every break is one of another check too has the reason beside it, and its\n\
         run breaks these two alone. Two breaks lose a delivery in a scenario that lets one be lost, which excuses no\n\
         loss by a closed port or a kill; where none may be lost `loss.none` breaks too.\n\
         Kept true by `cargo test -p hookproof-judge --test checks alone`.\n\n\
         | check | the break | other checks that break, and why |\n|---|---|---|\n",
    );
    for entry in catalogue::sender() {
        if let Some(row) = alone().find(|row| row.check == entry.id) {
            let _ = writeln!(text, "| `{}` | {} | nothing |", row.check, row.broken);
        }
        if let Some(one) = IMPLIED.iter().find(|one| one.row.check == entry.id) {
            let (check, broken) = (one.row.check, one.row.broken);
            let _ = writeln!(text, "| `{check}` | {broken} | `{}`: {} |", one.other, one.because);
        }
    }
    let (alone, implied) = (alone().count(), IMPLIED.len());
    let _ = writeln!(text, "\n{alone} checks break alone, {implied} with one other.");
    text
}

#[test]
fn the_kept_table_is_that_of_these_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/kill-matrix-checks.md");
    if std::env::var_os("HOOKPROOF_BLESS").is_some() {
        std::fs::write(&path, markdown()).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == markdown(), "reports/kill-matrix-checks.md is stale");
}
