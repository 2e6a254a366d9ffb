//! The result of a case, and one story for failures with one cause.

use hookproof_judge::catalogue::{self, Severity, Verdict};
use serde::Serialize;

use super::record::Recorded;

pub(super) const FAILURES: [Verdict; 2] = [Verdict::Fail, Verdict::HarnessError];

#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub id: String,
    pub section: String,
    pub severity: Severity,
    pub verdict: Verdict,
    pub expected: String,
    pub came: String,
    /// Whether a forgery was refused only as if the receiver had failed.
    pub is_accident: bool,
    /// Whether the list of effects shows that such a forgery had none.
    pub had_no_effect: bool,
    /// The way to mend a receiver that fails it.
    pub remedy: String,
    /// The finding in words that other failures share.
    pub wrong: Option<String>,
    /// The case whose remedy mends this failure too, where a control excluded other causes.
    pub cause: Option<String>,
    pub known: Option<String>,
    pub seconds: f64,
    pub exchanges: Vec<Recorded>,
}

impl Row {
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.known.is_some() && matches!(self.verdict, Verdict::Fail | Verdict::Warn | Verdict::Inconclusive)
    }

    /// The command that repeats its first exchange with another outcome than expected, or the reason why none does.
    pub(super) fn repeat(&self) -> Option<String> {
        let unmet = self.exchanges.iter().find(|exchange| !exchange.met);
        let own = || self.exchanges.iter().rev().find(|exchange| !exchange.label.starts_with("the control:"));
        unmet.or_else(own).map(Recorded::repeat)
    }

    pub(super) const fn is_failure(&self) -> bool {
        matches!(self.verdict, Verdict::Fail | Verdict::Warn | Verdict::HarnessError)
    }
}

pub(super) fn finding(row: &Row) -> String {
    let told = |one: &&Recorded| !one.met && row.came.contains(&format!("{}: {}", one.label, one.came));
    let mut unmet = row.exchanges.iter().filter(told);
    let Some(Recorded { label, wanted, came, .. }) = unmet.next() else {
        return format!("{}; expected: {}", row.came, row.expected);
    };
    let more = match unmet.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{label}: expected {wanted}, got {came}{more}")
}

/// Failures whose exchanges went wrong in the same way, and that have the same remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Story<'a> {
    /// Such as `cause-1`.
    pub name: String,
    pub wrong: &'a str,
    pub remedy: &'a str,
    pub remedy_of: &'a str,
    /// The cases, two or more.
    pub cases: Vec<&'a str>,
}

/// One failure, or those of a story.
pub(super) struct Group<'a> {
    pub(super) story: Option<Story<'a>>,
    pub(super) rows: Vec<&'a Row>,
}

impl Group<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        let mut verdicts = self.rows.iter().map(|row| row.verdict);
        verdicts.find(|one| FAILURES.contains(one)).unwrap_or(self.rows[0].verdict)
    }

    pub(super) fn name(&self) -> String {
        self.story.as_ref().map_or(&self.rows[0].id, |story| &story.name).clone()
    }

    pub(super) fn lead(&self) -> String {
        let Some(story) = &self.story else { return finding(self.rows[0]) };
        let warns = |row: &Row| if row.verdict == Verdict::Warn { " (a warning)" } else { "" };
        let cases: Vec<String> = self.rows.iter().map(|row| format!("{}{}", row.id, warns(row))).collect();
        format!("{}, in {} cases: {}", story.wrong, cases.len(), cases.join(", "))
    }
}

pub(super) fn stories(rows: &[Row]) -> Vec<Story<'_>> {
    let mut stories: Vec<Story<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.is_failure() && !row.is_excused()) {
        let Some(wrong) = row.wrong.as_deref() else { continue };
        let cause = row.cause.as_deref().and_then(catalogue::find);
        let (remedy_of, remedy) =
            cause.map_or((row.id.as_str(), row.remedy.as_str()), |entry| (&entry.id, &entry.remedy));
        match stories.iter_mut().find(|story| (story.wrong, story.remedy) == (wrong, remedy)) {
            Some(story) => story.cases.push(&row.id),
            None => {
                let (name, cases) = (String::new(), vec![row.id.as_str()]);
                stories.push(Story { name, wrong, remedy, remedy_of, cases });
            }
        }
    }
    stories.retain(|story| story.cases.len() > 1);
    stories.iter_mut().zip(1..).for_each(|(story, place)| story.name = format!("cause-{place}"));
    stories
}

pub(super) fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let stories = stories(rows);
    let mut all: Vec<Group<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.is_failure()) {
        let story = stories.iter().find(|story| story.cases.contains(&row.id.as_str()));
        match all.iter_mut().find(|group| story.is_some() && group.story.as_ref() == story) {
            Some(group) => group.rows.push(row),
            None => all.push(Group { story: story.cloned(), rows: vec![row] }),
        }
    }
    all
}
