//! The report as an HTML page: the summary, the failures with every exchange, all cases.

use super::record::Recorded;
use super::report::{Report, Row, Stopped};
use hookproof_judge::catalogue::{self, Verdict};
use hookproof_judge::exit;
use hookproof_judge::report::{Cell, Document, Headline, Part, Table, explained, page, unjudged};

impl Report {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        page(&self.document())
    }

    fn document(&self) -> Document {
        let failed: Vec<&Row> = self.rows.iter().filter(|row| is_failure(row)).collect();
        let mut parts = Vec::new();
        if !failed.is_empty() {
            parts.push(Part::Title("What failed, and how to mend it".to_owned()));
            parts.extend(failed.into_iter().map(|row| self.card(row)));
        }
        parts.push(Part::Title("All cases".to_owned()));
        parts.extend(self.sections());
        let strict = if self.strict { " · strict" } else { "" };
        Document {
            title: self.target.clone(),
            about: format!("hookproof receiver {} · {}{strict}", self.version, self.profile),
            verdict: Headline { status: Some(self.status()), sentence: self.summary(), more: self.remarks() },
            parts,
        }
    }

    fn status(&self) -> Verdict {
        match self.exit_code() {
            0 => Verdict::Pass,
            exit::FAILED => Verdict::Fail,
            exit::HARNESS => Verdict::HarnessError,
            _ => Verdict::Inconclusive,
        }
    }

    fn card(&self, row: &Row) -> Part {
        let again = format!(
            "hookproof receiver {} --profile {} --secret-env NAME --only {}",
            self.target, self.profile, row.id
        );
        let seen = [("expected", row.expected.clone()), ("came", row.came.clone()), ("again", again)];
        let mut parts = vec![Part::Table(Table::pairs(seen))];
        parts.extend(explained(&row.id));
        let examples = catalogue::find(&row.id).and_then(catalogue::example).into_iter().flatten();
        parts.extend(examples.map(|(name, lines)| {
            fold(name.clone(), false, vec![Part::Lines(vec![lines.trim_end().to_owned()])])
        }));
        parts.extend(row.exchanges.iter().map(exchange));
        Part::Card { status: Some(row.verdict), name: row.id.clone(), parts }
    }

    fn sections(&self) -> Vec<Part> {
        let sections = self.rows.chunk_by(|one, next| one.section == next.section);
        let table = |rows: &[Row]| {
            let head = ["verdict", "case", "expected", "came"].map(str::to_owned).to_vec();
            Part::Table(Table { head, rows: rows.iter().map(cells).collect(), searched: false })
        };
        sections.flat_map(|rows| [Part::Text(rows[0].section.clone()), table(rows)]).collect()
    }
}

impl Stopped {
    /// The page of a run without a verdict, so that an older run's does not stand for it.
    #[must_use]
    pub fn page(&self, target: &str) -> String {
        let more = [
            "No case was sent. Nothing is proven of this receiver, neither that it passes nor that it fails.",
        ];
        unjudged(target, "hookproof receiver", &self.to_string(), &more)
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let id = row.id.clone();
    let known = row.known.as_ref().filter(|_| row.is_excused());
    let known = known.map(|why| format!(" (expected: {why})")).unwrap_or_default();
    vec![
        Cell::Status(row.verdict),
        if is_failure(row) { Cell::Link(id) } else { Cell::Code(id) },
        Cell::Text(row.expected.clone()),
        Cell::Text(format!("{}{known}", row.came)),
    ]
}

fn is_failure(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Fail | Verdict::Warn | Verdict::HarnessError)
}

fn fold(summary: String, open: bool, parts: Vec<Part>) -> Part {
    Part::Fold { status: None, summary, open, parts }
}

fn exchange(one: &Recorded) -> Part {
    let answer = if one.answer.is_empty() { "no answer".to_owned() } else { one.answer.clone() };
    let mut parts = vec![Part::Lines(vec![one.request.clone(), answer])];
    if let Some(line) = &one.curl {
        parts.push(Part::Text("Once more, while its timestamp is fresh:".to_owned()));
        parts.push(Part::Lines(vec![line.clone()]));
    }
    let (mark, millis) = (if one.met { "✓" } else { "✗" }, one.seconds * 1000.0);
    let summary =
        format!("{mark} {}: wanted {}, came {} after {millis:.1} ms", one.label, one.wanted, one.came);
    fold(summary, !one.met, parts)
}
