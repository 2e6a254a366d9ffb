//! What a run of the suite came to.

use serde::Serialize;

use super::record::Recorded;
use super::settings::Settings;
use crate::catalogue::{Severity, Verdict};

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Of Hookproof.
    pub version: String,
    /// The receiver.
    pub target: String,
    /// The signing profile.
    pub profile: String,
    /// Whether what should hold had to hold.
    pub strict: bool,
    /// Whether somebody interrupted it.
    pub interrupted: bool,
    /// One row for each case.
    pub rows: Vec<Row>,
    /// Expected failures that did not happen.
    pub stale: Vec<String>,
}

/// What one case came to.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub id: String,
    /// Its section.
    pub section: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it came to.
    pub verdict: Verdict,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub came: String,
    /// Why it was expected not to hold.
    pub known: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What was sent and what came back.
    pub exchanges: Vec<Recorded>,
}

/// How many cases came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Seen to hold.
    pub pass: usize,
    /// Seen not to hold.
    pub fail: usize,
    /// Seen not to hold, and should.
    pub warn: usize,
    /// Too little was seen.
    pub inconclusive: usize,
    /// Nothing it could concern.
    pub not_applicable: usize,
    /// The harness failed.
    pub harness_error: usize,
    /// Failed as expected; these are in none of the others.
    pub known: usize,
}

impl Row {
    /// Whether it came to nothing good, for a reason that was known.
    #[must_use]
    pub fn is_excused(&self) -> bool {
        self.known.is_some() && matches!(self.verdict, Verdict::Fail | Verdict::Warn | Verdict::Inconclusive)
    }
}

impl Report {
    /// An empty one.
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

    /// Notes the expected failures that did not happen: what is expected and no longer true hides the next failure.
    pub fn find_stale(&mut self, settings: &Settings) {
        let stale = self.rows.iter().filter(|row| {
            settings.known.why(&row.id).is_some()
                && matches!(row.verdict, Verdict::Pass | Verdict::NotApplicable)
        });
        self.stale = stale.map(|row| row.id.clone()).collect();
    }

    /// How many cases came to what.
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

    /// The exit code: 130 interrupted, 70 the harness failed, 1 a case failed or an expected failure did not happen,
    /// 2 inconclusive or nothing to judge, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let counts = self.counts();
        match () {
            () if self.interrupted => 130,
            () if counts.harness_error > 0 => 70,
            () if counts.fail > 0 || !self.stale.is_empty() => 1,
            () if counts.inconclusive > 0 || counts.pass + counts.warn + counts.known == 0 => 2,
            () => 0,
        }
    }
}
