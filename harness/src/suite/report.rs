//! The result of a run of the suite, as JUnit, a table and an HTML page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use hookproof_judge::catalogue::{self, Verdict};
use hookproof_judge::exit;
use hookproof_judge::report::junit::{Case, Outcome, Suite, xml};
use hookproof_judge::report::{
    Cell, Colours, Document, Headline, Part, Table, explained, page, paint, unjudged,
};
use serde::Serialize;

use super::record::Recorded;
use super::settings::{Bodies, Need, Settings};
use super::story::{FAILURES, Group, Row, Story, finding, groups, stories};

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub version: String,
    pub target: String,
    pub profile: String,
    /// Whether `should` counted as `must`.
    pub strict: bool,
    pub interrupted: bool,
    /// The day, such as 2026-01-31.
    pub date: String,
    pub seconds: f64,
    pub rows: Vec<Row>,
    /// Expected failures that did not occur.
    pub stale: Vec<String>,
    #[serde(flatten)]
    pub left_out: LeftOut,
    /// Whether a command took the place of a server.
    pub is_command: bool,
    /// The options that repeat a case, without its selection.
    pub again: String,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct LeftOut {
    pub skipped: Vec<String>,
    /// The cases that `--without` or `--exec` left out, by the missing option.
    pub without: BTreeMap<String, Vec<String>>,
    pub bodies: Bodies,
    /// The number of other cases that `--only` left out.
    pub unselected: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub pass: usize,
    pub fail: usize,
    /// Failed a `should`.
    pub warn: usize,
    pub inconclusive: usize,
    pub not_applicable: usize,
    pub harness_error: usize,
    /// Expected failures, which count in none of the others.
    pub known: usize,
}

impl Counts {
    fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            let place = match row.verdict {
                _ if row.is_excused() => &mut counts.known,
                Verdict::Pass => &mut counts.pass,
                Verdict::Fail => &mut counts.fail,
                Verdict::Warn => &mut counts.warn,
                Verdict::Inconclusive => &mut counts.inconclusive,
                Verdict::NotApplicable => &mut counts.not_applicable,
                Verdict::HarnessError => &mut counts.harness_error,
            };
            *place += 1;
        }
        counts
    }

    fn words(&self) -> String {
        let named = [
            (self.fail, "failed"),
            (self.warn, "warned"),
            (self.pass, "passed"),
            (self.known, "failed as expected"),
            (self.inconclusive, "inconclusive"),
            (self.harness_error, "could not be judged"),
            (self.not_applicable, "do not apply"),
        ];
        let some = named.iter().filter(|(count, _)| *count > 0);
        some.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(" · ")
    }
}

impl Report {
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let (mut skipped, mut unselected) = (Vec::new(), 0);
        let mut without: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in catalogue::receiver().iter().map(|entry| &entry.id) {
            match settings.selection.lacks(id) {
                Some(option) => without.entry(option.to_owned()).or_default().push(id.clone()),
                None if settings.selection.skips(id) => skipped.push(id.clone()),
                None => unselected += usize::from(!settings.selection.has(id)),
            }
        }
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: settings.target.url.clone(),
            profile: settings.profile.to_string(),
            strict: settings.strict,
            interrupted: false,
            date: super::today(),
            seconds: 0.0,
            rows: Vec::new(),
            stale: Vec::new(),
            left_out: LeftOut { skipped, without, bodies: settings.bodies, unselected },
            is_command: settings.target.command.is_some(),
            again: settings.redact_text(&settings.again),
        }
    }

    pub fn sort(&mut self) {
        let place = |row: &Row| catalogue::receiver().iter().position(|entry| entry.id == row.id);
        self.rows.sort_by_key(place);
    }

    /// The failures that share a cause.
    #[must_use]
    pub fn stories(&self) -> Vec<Story<'_>> {
        stories(&self.rows)
    }

    /// Finds the expected failures that did not occur: such an entry would hide the next failure.
    pub fn find_stale(&mut self, settings: &Settings) {
        let stale = self.rows.iter().filter(|row| {
            settings.known.skip_reason(&row.id).is_some()
                && matches!(row.verdict, Verdict::Pass | Verdict::NotApplicable)
        });
        self.stale = stale.map(|row| row.id.clone()).collect();
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(&self.rows)
    }

    /// The exit code: 130 interrupted, 70 harness error, 1 a failure or a stale expected failure, 2
    /// inconclusive or nothing judged, otherwise 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let counts = self.counts();
        match () {
            () if self.interrupted => exit::INTERRUPTED,
            () if counts.harness_error > 0 => exit::HARNESS,
            () if counts.fail > 0 || !self.stale.is_empty() => exit::FAILED,
            () if counts.inconclusive > 0 || counts.pass + counts.warn + counts.known == 0 => {
                exit::INCONCLUSIVE
            }
            () => 0,
        }
    }
}

impl Report {
    /// Fails when XML can't represent the report.
    pub fn junit(&self) -> Result<String, String> {
        let cases = self.rows.iter().map(case).chain(self.stale.iter().map(|id| stale(id))).collect();
        let name = format!("hookproof receiver {}", self.target);
        let outcome = self.outcome();
        written(Suite { name, took: Duration::ZERO, outcome, properties: Vec::new(), cases })
    }

    fn outcome(&self) -> Outcome {
        let counts = self.counts();
        match self.exit_code() {
            0 => Outcome::Passed,
            exit::INTERRUPTED => Outcome::Unproven(self.summary()),
            exit::FAILED => Outcome::Failed(failures(counts.fail, self.stale.len())),
            exit::HARNESS => Outcome::Unproven(format!("the harness failed in {}", counts.harness_error)),
            _ if counts.inconclusive > 0 => {
                Outcome::Unproven(format!("{} inconclusive", counts.inconclusive))
            }
            _ => Outcome::Unproven("no case was judged".to_owned()),
        }
    }
}

/// Why a run failed: by failures, by expected failures that did not occur, or by both.
fn failures(failed: usize, stale: usize) -> String {
    let failed = Some(format!("failed cases: {failed}")).filter(|_| failed > 0);
    let stale = Some(format!("cases that passed, though --known expects them to fail: {stale}"))
        .filter(|_| stale > 0);
    failed.into_iter().chain(stale).collect::<Vec<_>>().join("; ")
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Stopped {
    #[error("{url} cannot be resolved: {why}; is the name right?")]
    Resolve { url: String, why: String },
    #[error("{url} cannot be reached: {why}; is the receiver running?")]
    Unreachable { url: String, why: String },
}

impl Stopped {
    /// A run without a verdict gets a file too: else CI would show the last run's. Fails when XML can't represent it.
    pub fn junit(&self) -> Result<String, String> {
        let (name, outcome) = ("hookproof receiver".to_owned(), Outcome::Unproven(self.to_string()));
        written(Suite { name, took: Duration::ZERO, outcome, properties: Vec::new(), cases: Vec::new() })
    }
}

fn written(suite: Suite) -> Result<String, String> {
    xml(&[suite]).map_err(|error| error.to_string())
}

fn case(row: &Row) -> Case {
    Case {
        class: format!("receiver.{}", row.section),
        name: row.id.clone(),
        took: Duration::try_from_secs_f64(row.seconds).unwrap_or_default(),
        status: row.verdict,
        decides: true,
        seen: row.came.clone(),
        detail: format!("expected: {}", row.expected),
        excused: row.known.clone().filter(|_| row.is_excused()),
    }
}

fn stale(id: &str) -> Case {
    Case {
        class: "receiver.known".to_owned(),
        name: id.to_owned(),
        took: Duration::ZERO,
        status: Verdict::Fail,
        decides: true,
        seen: "passed, though --known expects it to fail".to_owned(),
        detail: "remove it from the file of --known".to_owned(),
        excused: None,
    }
}

impl Report {
    #[must_use]
    pub fn page(&self) -> String {
        page(&self.document())
    }

    fn document(&self) -> Document {
        let all = groups(&self.rows);
        let cards = |name: &str, status: &[Verdict]| {
            let some = all.iter().filter(|group| status.contains(&group.verdict()));
            let cards: Vec<Part> = some.map(|group| self.group_card(group)).collect();
            let title = (!cards.is_empty()).then(|| Part::Title(name.to_owned()));
            title.into_iter().chain(cards).collect::<Vec<_>>()
        };
        let mut parts = cards("Failures", &FAILURES);
        parts.extend(cards("Warnings", &[Verdict::Warn]));
        parts.push(Part::Title("All cases".to_owned()));
        parts.extend(self.sections());
        let named = |status: &[Verdict]| -> Vec<(String, String)> {
            let of_it = |group: &&Group<'_>| status.contains(&group.verdict()) && !group.rows[0].is_excused();
            all.iter().filter(of_it).map(|group| (group.name(), group.lead())).collect()
        };
        let names = named(&FAILURES).into_iter().chain(named(&[Verdict::Warn])).collect();
        let strict = self.strict.then(|| "strict".to_owned());
        let facts = [format!("receiver, profile {}", self.profile), self.date.clone()];
        let facts = facts.into_iter().chain([format!("{:.1} s", self.seconds)]).chain(strict);
        Document {
            title: self.target.clone(),
            about: String::new(),
            facts: facts.chain([format!("hookproof {}", self.version)]).collect(),
            verdict: Headline {
                status: Some(self.status()),
                sentence: self.summary(),
                failures: names,
                more: self.remarks(),
            },
            parts,
        }
    }

    fn status(&self) -> Verdict {
        match self.exit_code() {
            0 if self.counts().warn > 0 => Verdict::Warn,
            0 => Verdict::Pass,
            exit::FAILED => Verdict::Fail,
            exit::HARNESS => Verdict::HarnessError,
            _ => Verdict::Inconclusive,
        }
    }

    fn group_card(&self, group: &Group<'_>) -> Part {
        let Some(story) = &group.story else { return self.card(group.rows[0], false) };
        let again = Table::pairs([("again", self.again(&story.cases))]);
        let cards = group.rows.iter().map(|row| self.card(row, true));
        let details = std::iter::once(Part::Table(again)).chain(cards).collect();
        let parts = vec![
            Part::Lead(group.lead()),
            Part::Remedy(story.remedy.to_owned()),
            fold(format!("{} in detail", group.name()), false, details),
        ];
        Part::Card { status: Some(group.verdict()), name: group.name(), parts }
    }

    fn again(&self, cases: &[&str]) -> String {
        format!("hookproof receiver {} {} --only {}", self.target, self.again, cases.join(","))
    }

    /// A card of a story, which tells the remedy, folds its own.
    fn card(&self, row: &Row, is_in_story: bool) -> Part {
        let (mut parts, remedy) = (vec![Part::Lead(finding(row))], Part::Remedy(row.remedy.clone()));
        let again = [("again", self.again(&[&row.id]))].into_iter();
        let repeat = row.repeat().map(|repeat| ("repeat", repeat));
        let mut details = vec![Part::Table(Table::pairs(again.chain(repeat)))];
        let place = if is_in_story { &mut details } else { &mut parts };
        place.push(remedy);
        details.extend(explained(&row.id));
        if let Some(example) = catalogue::find(&row.id).and_then(catalogue::example) {
            details.push(Part::Text(format!("For example: {}", example.shows)));
            details.extend(example.lines.iter().map(|(name, lines)| {
                fold(name.clone(), false, vec![Part::Lines(vec![lines.trim_end().to_owned()])])
            }));
        }
        details.extend(row.exchanges.iter().map(exchange));
        parts.push(fold(format!("{} in detail", row.id), false, details));
        Part::Card { status: Some(row.verdict), name: row.id.clone(), parts }
    }

    fn sections(&self) -> Vec<Part> {
        let sections = self.rows.chunk_by(|one, next| one.section == next.section);
        let head = ["verdict", "case", "requirement", "result"];
        sections
            .map(|rows| {
                let table = Table {
                    head: head.map(str::to_owned).to_vec(),
                    rows: rows.iter().map(cells).collect(),
                    searched: false,
                };
                fold(
                    format!("{}: {}", rows[0].section, Counts::of(rows).words()),
                    false,
                    vec![Part::Table(table)],
                )
            })
            .collect()
    }
}

impl Stopped {
    /// A run without a verdict gets a page too, in place of an older run's.
    #[must_use]
    pub fn page(&self, target: &str) -> String {
        let more = ["No case was sent, so there is no verdict on this receiver."];
        unjudged(target, "hookproof receiver", &self.to_string(), &more)
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    let id = row.id.clone();
    let known = row.known.as_ref().filter(|_| row.is_excused());
    let known = known.map(|why| format!(" (expected: {why})")).unwrap_or_default();
    vec![
        Cell::Status(row.verdict),
        if row.is_failure() { Cell::Link(id) } else { Cell::Code(id) },
        Cell::Text(row.expected.clone()),
        Cell::Text(format!("{}{known}", row.came)),
    ]
}

fn fold(summary: String, open: bool, parts: Vec<Part>) -> Part {
    Part::Fold { status: None, summary, open, parts }
}

fn exchange(one: &Recorded) -> Part {
    let answer = if one.answer.is_empty() { "no answer".to_owned() } else { one.answer.clone() };
    let mut parts = vec![Part::Lines(vec![one.request.clone(), answer])];
    if let Some(line) = &one.curl {
        parts.push(Part::Text("To repeat it while its timestamp is fresh:".to_owned()));
        parts.push(Part::Lines(vec![line.clone()]));
    } else {
        parts.push(Part::Text(one.repeat()));
    }
    let (mark, millis) = (if one.met { "✓" } else { "✗" }, one.seconds * 1000.0);
    let summary =
        format!("{mark} {}: expected {}, got {} after {millis:.1} ms", one.label, one.wanted, one.came);
    fold(summary, !one.met, parts)
}

const ID_WIDTH: usize = 26;

impl Report {
    #[must_use]
    pub fn table(&self, colours: Colours) -> String {
        let mut text =
            format!("{} · {}{}\n", self.target, self.profile, if self.strict { " · strict" } else { "" });
        let (mut section, stories) = ("", self.stories());
        let unjudged = self.unjudged();
        for row in &self.rows[..self.rows.len() - unjudged] {
            if row.section != section {
                section = &row.section;
                let _infallible = writeln!(text, "\n{section}");
            }
            let story = stories.iter().find(|story| story.cases.contains(&row.id.as_str()));
            text.push_str(
                &story.map_or_else(|| lines(row, colours), |story| line(row, &story.name, colours)),
            );
        }
        stories.iter().for_each(|story| text.push_str(&self.story_text(story)));
        if let Some(row) = self.rows.last().filter(|_| unjudged > 0) {
            text.push_str(&format!("\ncases not judged: {unjudged}; {}\n", row.came));
        }
        text.push('\n');
        let summary = format!("{}: {}", self.status(), self.summary());
        for line in std::iter::once(summary).chain(self.remarks()) {
            text.push_str(&format!("{line}\n"));
        }
        text
    }

    /// The cause and the remedy once, with the request of its first case.
    fn story_text(&self, story: &Story<'_>) -> String {
        let Story { name, wrong, remedy, remedy_of, cases } = story;
        let mut text = format!("\n{name}: {wrong}, in {} cases\n", cases.len());
        let first = self.rows.iter().find(|row| row.id == cases[0]).and_then(Row::repeat);
        let rows = [
            ("cases", Some(cases.join(", "))),
            ("remedy", Some(format!("{remedy} (hookproof explain {remedy_of})"))),
            ("repeat", first),
            ("all", Some(self.again(cases))),
        ];
        for (name, value) in rows {
            text.extend(value.map(|value| format!("  {:<9} {value}\n", format!("{name}:"))));
        }
        text
    }

    /// Counts the final cases that are inconclusive for the same reason, which is shown once.
    fn unjudged(&self) -> usize {
        let same = |row: &&Row| {
            row.verdict == Verdict::Inconclusive
                && !row.is_excused()
                && self.rows.last().is_some_and(|last| last.came == row.came)
        };
        let count = self.rows.iter().rev().take_while(same).count();
        if count > 1 { count } else { 0 }
    }

    pub(crate) fn summary(&self) -> String {
        let counted = self.counts().words();
        let judged = self.rows.len();
        let without: usize = self.left_out.without.values().map(Vec::len).sum();
        let left_out = self.left_out.skipped.len() + without + self.left_out.unselected;
        let selected = catalogue::receiver().len().saturating_sub(left_out);
        match (self.interrupted, judged) {
            (true, 0) => format!("interrupted before the first of {selected} cases was judged"),
            (true, _) => format!("interrupted after {judged} of {selected} cases: {counted}"),
            (false, 0) => "no case was selected, so no case was judged".to_owned(),
            (false, _) => counted,
        }
    }

    pub(crate) fn remarks(&self) -> Vec<String> {
        let stale = self
            .stale
            .iter()
            .map(|id| format!("{id} passed, though --known expects it to fail: remove it from that file"));
        let LeftOut { skipped, without, bodies, unselected } = &self.left_out;
        let skipped =
            (!skipped.is_empty()).then(|| format!("cases left out by --skip: {}", skipped.join(", ")));
        let is_without = !without.is_empty();
        let without = by_option(without.iter().map(|(option, ids)| (option, ids.join(", "))));
        let without = Some(format!("cases left out: {without}")).filter(|_| is_without);
        let unselected = (*unselected > 0).then(|| format!("cases left out by --only: {unselected}"));
        let codes = "the exit code 0 is shown as 204, 1 as 401, and a failure as 500".to_owned();
        let codes = Some(codes).filter(|_| self.is_command);
        let bodies = bodies.left_out().map(str::to_owned);
        let left_out = skipped.into_iter().chain(without).chain(bodies).chain(unselected).chain(codes);
        stale.chain(self.not_judged()).chain(left_out).collect()
    }

    /// In one line: the cases that could not be judged, the options that they need, and the way to leave them out.
    fn not_judged(&self) -> Option<String> {
        let wanting = self.wanting();
        let words = Need::ALL.into_iter().filter(|need| wanting.contains_key(need.option())).map(Need::word);
        let words = words.collect::<Vec<_>>().join(",");
        let cases = by_option(wanting.iter().map(|(option, ids)| (option, ids.join(", "))));
        let line =
            format!("not judged: {cases}; add these options, or leave the cases out with --without {words}");
        Some(line).filter(|_| !wanting.is_empty())
    }

    fn wanting(&self) -> BTreeMap<String, Vec<&str>> {
        let mut wanting: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let unjudged = [Verdict::Inconclusive, Verdict::NotApplicable];
        let unclear = self.rows.iter().filter(|row| unjudged.contains(&row.verdict) && !row.is_excused());
        for row in unclear {
            if let Some((_, needs)) = row.came.split_once("needs --") {
                wanting.entry(format!("--{needs}")).or_default().push(&row.id);
            }
        }
        wanting
    }
}

fn by_option<'a>(cases: impl Iterator<Item = (&'a String, String)>) -> String {
    cases.map(|(option, ids)| format!("{ids} (without {option})")).collect::<Vec<_>>().join("; ")
}

fn line(row: &Row, story: &str, colours: Colours) -> String {
    format!("{}{} → {} ({story})\n", head(row, colours), row.expected, row.came)
}

fn head(row: &Row, colours: Colours) -> String {
    let verdict = paint(row.verdict, &format!("{:<14}", row.verdict), colours);
    format!("  {verdict} {:<ID_WIDTH$}", row.id)
}

fn lines(row: &Row, colours: Colours) -> String {
    let (id, head) = (&row.id, head(row, colours));
    let indent = " ".repeat(2 + 14 + 1 + ID_WIDTH);
    match row.verdict {
        Verdict::Pass | Verdict::NotApplicable => format!("{head}{} → {}\n", row.expected, row.came),
        _ => {
            let mut text = format!("{head}expected: {}\n", row.expected);
            text.push_str(&format!("{indent}came:     {}\n", row.came));
            if let Some(why) = &row.known {
                text.push_str(&format!("{indent}expected to fail: {why}\n"));
            } else if matches!(row.verdict, Verdict::Fail | Verdict::Warn) {
                text.push_str(&format!("{indent}remedy:   {} (hookproof explain {id})\n", row.remedy));
                let repeat = row.repeat().map(|repeat| format!("{indent}repeat:   {repeat}\n"));
                text.push_str(&repeat.unwrap_or_default());
            }
            text
        }
    }
}
