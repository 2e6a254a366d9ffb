//! The report as a table: by section, failures with their remedies, then the summary.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::report::{Report, Row};
use hookproof_judge::catalogue::{self, Verdict};
use hookproof_judge::report::{Colours, paint};

/// The longest id, with a gap after it.
const ID_WIDTH: usize = 26;

impl Report {
    /// The table.
    #[must_use]
    pub fn table(&self, colours: Colours) -> String {
        let mut text =
            format!("{} · {}{}\n", self.target, self.profile, if self.strict { " · strict" } else { "" });
        let mut section = "";
        let unjudged = self.unjudged();
        for row in &self.rows[..self.rows.len() - unjudged] {
            if row.section != section {
                section = &row.section;
                let _infallible = writeln!(text, "\n{section}");
            }
            text.push_str(&lines(row, colours));
        }
        if let Some(row) = self.rows.last().filter(|_| unjudged > 0) {
            text.push_str(&format!("\n{unjudged} cases were not judged: {}\n", row.came));
        }
        text.push('\n');
        for line in std::iter::once(self.summary()).chain(self.remarks()) {
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    /// The number of final cases that are inconclusive for the same reason, which is shown once.
    fn unjudged(&self) -> usize {
        let same = |row: &&Row| {
            row.verdict == Verdict::Inconclusive
                && !row.is_excused()
                && self.rows.last().is_some_and(|last| last.came == row.came)
        };
        let count = self.rows.iter().rev().take_while(same).count();
        if count > 1 { count } else { 0 }
    }

    pub(super) fn summary(&self) -> String {
        let counts = self.counts();
        let named = [
            (counts.pass, "pass"),
            (counts.fail, "fail"),
            (counts.warn, "warn"),
            (counts.known, "failed as expected"),
            (counts.inconclusive, "inconclusive"),
            (counts.not_applicable, "not applicable"),
            (counts.harness_error, "harness error"),
        ];
        let parts: Vec<String> = named
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        match parts.is_empty() {
            true => "no case was selected, so nothing was judged".to_owned(),
            false => parts.join(" · "),
        }
    }

    /// Further notes, with remedies for inconclusive cases.
    pub(super) fn remarks(&self) -> Vec<String> {
        let stale = self
            .stale
            .iter()
            .map(|id| format!("{id} was expected to fail and did not: take it out of the expected failures"));
        let wanting = self.wanting().into_iter().map(|(needs, ids)| {
            format!("inconclusive without {needs}: give it, or leave these out with --skip {}", ids.join(","))
        });
        let interrupted = "interrupted: the cases that are not shown were not sent".to_owned();
        stale.chain(wanting).chain(self.interrupted.then_some(interrupted)).collect()
    }

    /// The inconclusive cases by the option that they need.
    fn wanting(&self) -> BTreeMap<String, Vec<&str>> {
        let mut wanting: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let unclear =
            self.rows.iter().filter(|row| row.verdict == Verdict::Inconclusive && !row.is_excused());
        for row in unclear {
            if let Some((_, needs)) = row.came.split_once("needs --") {
                wanting.entry(format!("--{needs}")).or_default().push(&row.id);
            }
        }
        wanting
    }
}

fn lines(row: &Row, colours: Colours) -> String {
    let verdict = paint(row.verdict, &format!("{:<14}", row.verdict), colours);
    let (id, width) = (&row.id, ID_WIDTH);
    let indent = " ".repeat(2 + 14 + 1 + width);
    match row.verdict {
        Verdict::Pass | Verdict::NotApplicable => {
            format!("  {verdict} {id:<width$}{} → {}\n", row.expected, row.came)
        }
        _ => {
            let mut text = format!("  {verdict} {id:<width$}expected: {}\n", row.expected);
            text.push_str(&format!("{indent}came:     {}\n", row.came));
            if let Some(why) = &row.known {
                text.push_str(&format!("{indent}expected to fail: {why}\n"));
            } else if matches!(row.verdict, Verdict::Fail | Verdict::Warn) {
                let remedy = catalogue::find(id).map(|entry| entry.remedy.as_str()).unwrap_or_default();
                text.push_str(&format!("{indent}remedy:   {remedy} (hookproof explain {id})\n"));
            }
            text
        }
    }
}
