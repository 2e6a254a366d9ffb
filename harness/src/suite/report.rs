//! The result of a run of the suite, and its JUnit form.

use std::time::Duration;

use serde::Serialize;

use super::record::Recorded;
use super::settings::Settings;
use hookproof_judge::catalogue::{Severity, Verdict};
use hookproof_judge::exit;
use hookproof_judge::report::junit::{Case, Outcome, Suite, xml};

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Hookproof's version.
    pub version: String,
    /// The receiver.
    pub target: String,
    /// The signing profile.
    pub profile: String,
    /// Whether `should` counted as `must`.
    pub strict: bool,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// One row for each case.
    pub rows: Vec<Row>,
    /// Expected failures that did not occur.
    pub stale: Vec<String>,
}

/// The result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub id: String,
    /// Its section.
    pub section: String,
    /// Its severity.
    pub severity: Severity,
    /// Its verdict.
    pub verdict: Verdict,
    /// The expectation.
    pub expected: String,
    /// The finding.
    pub came: String,
    /// The reason of an expected failure.
    pub known: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// The exchanges.
    pub exchanges: Vec<Recorded>,
}

/// The number of cases of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passed.
    pub pass: usize,
    /// Failed.
    pub fail: usize,
    /// Failed a `should`.
    pub warn: usize,
    /// Without enough evidence.
    pub inconclusive: usize,
    /// Not applicable.
    pub not_applicable: usize,
    /// Errors of the harness.
    pub harness_error: usize,
    /// Expected failures, which count in none of the others.
    pub known: usize,
}

impl Row {
    /// Whether it failed as expected.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.known.is_some() && matches!(self.verdict, Verdict::Fail | Verdict::Warn | Verdict::Inconclusive)
    }
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: settings.target.url.clone(),
            profile: settings.profile.to_string(),
            strict: settings.strict,
            interrupted: false,
            rows: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// Finds the expected failures that did not occur: such an entry would hide the next failure.
    pub fn find_stale(&mut self, settings: &Settings) {
        let stale = self.rows.iter().filter(|row| {
            settings.known.why(&row.id).is_some()
                && matches!(row.verdict, Verdict::Pass | Verdict::NotApplicable)
        });
        self.stale = stale.map(|row| row.id.clone()).collect();
    }

    /// The number of cases of each verdict.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for row in &self.rows {
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
    /// The report as JUnit XML.
    ///
    /// # Errors When XML can't represent it.
    pub fn junit(&self) -> Result<String, String> {
        let cases = self.rows.iter().map(case).chain(self.stale.iter().map(|id| stale(id))).collect();
        let name = format!("hookproof receiver {}", self.target);
        let outcome = self.outcome();
        written(Suite { name, took: Duration::ZERO, outcome, properties: Vec::new(), cases })
    }

    /// The exit code's meaning in words.
    fn outcome(&self) -> Outcome {
        let counts = self.counts();
        match self.exit_code() {
            0 => Outcome::Passed,
            exit::INTERRUPTED => {
                Outcome::Unproven("interrupted: the cases that are not here were not sent".to_owned())
            }
            exit::FAILED => Outcome::Failed(format!(
                "{} failed, {} expected to fail and did not",
                counts.fail,
                self.stale.len()
            )),
            exit::HARNESS => Outcome::Unproven(format!("the harness failed in {}", counts.harness_error)),
            _ if counts.inconclusive > 0 => {
                Outcome::Unproven(format!("{} inconclusive", counts.inconclusive))
            }
            _ => Outcome::Unproven("nothing was judged".to_owned()),
        }
    }
}

/// The reason why nothing could be judged.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Stopped {
    /// The target has no address.
    #[error("{url} can't be resolved: {why}; is the name right?")]
    Resolve {
        /// The target.
        url: String,
        /// The resolver's error.
        why: String,
    },
    /// The target refuses connections.
    #[error("{url} can't be reached: {why}; is the receiver running?")]
    Unreachable {
        /// The target.
        url: String,
        /// The connection's error.
        why: String,
    },
}

impl Stopped {
    /// The JUnit file of a run without a verdict; without it, CI would show the last run's.
    ///
    /// # Errors When XML can't represent it.
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
        seen: "expected to fail, and did not".to_owned(),
        detail: "take it out of the expected failures".to_owned(),
        excused: None,
    }
}
