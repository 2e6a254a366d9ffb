//! The report for a job's summary.

use std::fmt::Write;

use super::model::Report;
use crate::catalogue;
use crate::check::verdict::show;
use crate::check::{Status, Verdict};

/// The report as Markdown.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let judgement = &report.judgement;
    let mut text =
        format!("## {}: {}\n\n{}\n\n", cell(&report.scenario), judgement.status, cell(&judgement.sentence));
    let told = [Status::Fail, Status::HarnessError, Status::Warn, Status::Inconclusive];
    let told: Vec<&Verdict> =
        judgement.verdicts.iter().filter(|verdict| told.contains(&verdict.status)).collect();
    if !told.is_empty() {
        text.push_str("| verdict | check | what was seen | what to do |\n|---|---|---|---|\n");
    }
    for verdict in told {
        let remedy = catalogue::find(&verdict.id).map_or("", |entry| entry.remedy.as_str());
        let first = verdict.witness.first().map(|one| format!("; at {}: {}", show(one.from), one.what));
        let seen = cell(&format!("{}{}", verdict.sentence, first.unwrap_or_default()));
        let _ = writeln!(text, "| {} | `{}` | {seen} | {} |", verdict.status, verdict.id, cell(remedy));
    }
    let (passed, silent) = (judgement.count(Status::Pass), judgement.count(Status::NotApplicable));
    let _ = writeln!(text, "\n{passed} checks passed; {silent} had nothing to judge in this scenario.\n");
    text.push_str(
        "| subscriber | arrivals | delivered | dead | p50 | p95 | p99 |\n|---|---|---|---|---|---|---|\n",
    );
    for one in report.subscribers.iter().take(20) {
        let [p50, p95, p99, _] = one.latency.map(show);
        let name = cell(&one.name);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {p50} | {p95} | {p99} |",
            one.arrivals, one.delivered, one.dead
        );
    }
    let _ = writeln!(text, "\nRepeat it: `{}`", report.repeat);
    text
}

/// Text that can't break out of a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}
