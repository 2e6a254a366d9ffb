//! The order of the cases. The receiver decides how long `limit.slow` takes, so other cases run beside its connections.
//! A case that does not pass there is judged again without them, and only the second verdict counts.

use std::time::Duration;

use hookproof_judge::catalogue::{Entry, Severity, Verdict};

use super::Step;
use super::bench::Bench;
use super::cases::{Case, Finding, Slow};
use super::record::{Recorded, rounded};
use super::settings::Settings;
use super::story::Row;
use crate::wire::clock::{Watch, pass};

/// How long a receiver may take to serve again after a failed case.
const RECOVERY: Duration = Duration::from_secs(10);
const RECOVERY_PAUSE: Duration = Duration::from_millis(200);

/// The first case: without it no other one is judged.
const VALID: &str = "sig.valid";
const SLOW: &str = "limit.slow";
/// These take connections, measure times, or pass where the receiver keeps none open; or they may end the receiver,
/// which would close the slow connections. The last but one reads the answers to all others.
const ALONE: [&str; 15] = [
    "rotation.many",
    "header.32kb",
    "raw.unread",
    "replay.cached",
    "replay.at-once",
    "replay.after-restart",
    "replay.after-failure",
    "ack.fast",
    "ack.overload",
    "limit.endless",
    "limit.deep",
    "limit.gzip",
    "limit.inflate",
    "leak.error-body",
    "timing.remote",
];

pub(super) type Selected = (Case, &'static Entry);

pub(super) struct Schedule<'a, F> {
    bench: &'a Bench<'a>,
    /// Or the reason why nothing more can be judged.
    serves: Result<(), String>,
    /// Whether the receiver did not serve right after a failed case.
    fell: bool,
    step: F,
    rows: Vec<Row>,
}

impl<'a, F: FnMut(Step<'_>)> Schedule<'a, F> {
    pub(super) fn new(bench: &'a Bench<'a>, serves: Result<(), String>, step: F) -> Self {
        Self { bench, serves, fell: false, step, rows: Vec::new() }
    }

    pub(super) async fn run(mut self, selected: Vec<Selected>) -> Vec<Row> {
        let part = |cases: Vec<Selected>, ids: &[&str]| -> (Vec<_>, Vec<_>) {
            cases.into_iter().partition(|(case, _)| ids.contains(&case.id))
        };
        let (first, rest) = part(selected, &[VALID]);
        let (slow, rest) = part(rest, &[SLOW]);
        let (alone, beside) = part(rest, &ALONE);
        self.judge(first).await;
        match slow.first() {
            Some(slow) => {
                let again = self.judge_beside(*slow, beside).await;
                self.judge(again).await;
            }
            None => self.judge(beside).await,
        }
        self.judge(alone).await;
        self.rows
    }

    async fn judge(&mut self, cases: Vec<Selected>) {
        for selected in cases {
            let row = self.row(selected).await;
            self.take(row);
        }
    }

    async fn judge_beside(&mut self, slow: Selected, beside: Vec<Selected>) -> Vec<Selected> {
        (self.step)(Step::Sends(SLOW));
        let watch = Watch::start();
        let opened = match &self.serves {
            Ok(()) => Slow::open(self.bench).await,
            Err(why) => Err(Finding::unclear(why.clone())),
        };
        let mut exchanges = self.bench.take_recorded();
        let connections = match opened {
            Ok(connections) => connections,
            Err(finding) => {
                let row = self.weighed(slow, finding, watch, exchanges).await;
                self.take(row);
                self.judge(beside).await;
                return Vec::new();
            }
        };
        let mut again = Vec::new();
        self.fell = false;
        for selected in beside {
            let row = self.row(selected).await;
            if is_settled(&row) { self.take(row) } else { again.push(selected) }
        }
        (self.step)(Step::Sends(SLOW));
        let finding = connections.ended(self.bench).await;
        let finding = Case::confirmed(self.bench, finding).await;
        exchanges.extend(self.bench.take_recorded());
        if self.fell || (!again.is_empty() && finding.verdict == Verdict::Pass) {
            // The end of the receiver, or of one of its workers, closes connections too.
            again.push(slow);
        } else {
            let row = self.weighed(slow, finding, watch, exchanges).await;
            self.take(row);
        }
        again
    }

    fn take(&mut self, row: Row) {
        (self.step)(Step::Came(&row));
        self.rows.push(row);
    }

    async fn row(&mut self, (case, entry): Selected) -> Row {
        (self.step)(Step::Sends(case.id));
        let watch = Watch::start();
        let finding = match &self.serves {
            Err(why) if case.id != VALID => Finding::unclear(why.clone()),
            _ => case.run(self.bench).await,
        };
        self.weighed((case, entry), finding, watch, self.bench.take_recorded()).await
    }

    async fn weighed(
        &mut self,
        (case, entry): Selected,
        finding: Finding,
        watch: Watch,
        exchanges: Vec<Recorded>,
    ) -> Row {
        let is_broken = (finding.verdict == Verdict::Fail || finding.has_ended) && case.id != VALID;
        let row = weigh(self.bench.settings, entry, finding, rounded(watch.passed()), exchanges);
        if is_broken && self.serves.is_ok() && !self.recovers().await {
            self.serves = Err(format!("the receiver has not served since {}", case.id));
        }
        row
    }

    async fn recovers(&mut self) -> bool {
        let watch = Watch::start();
        let serves = loop {
            if self.bench.still_serves().await.is_ok() {
                break true;
            }
            self.fell = true;
            if watch.passed() >= RECOVERY {
                break false;
            }
            pass(RECOVERY_PAUSE).await;
        };
        self.bench.take_recorded();
        serves
    }
}

fn is_settled(row: &Row) -> bool {
    match row.verdict {
        Verdict::Pass | Verdict::NotApplicable => true,
        Verdict::Inconclusive => row.came.contains("needs --"),
        Verdict::Fail | Verdict::Warn | Verdict::HarnessError => false,
    }
}

fn weigh(
    settings: &Settings,
    entry: &Entry,
    finding: Finding,
    seconds: f64,
    exchanges: Vec<Recorded>,
) -> Row {
    let severity = if finding.is_loss { Severity::Must } else { entry.severity };
    let verdict = match (finding.verdict, severity) {
        (Verdict::Fail | Verdict::Warn, Severity::Info) => Verdict::Pass,
        (Verdict::Fail, Severity::Should | Severity::May) if !settings.strict => Verdict::Warn,
        (Verdict::Warn, _) if settings.strict => Verdict::Fail,
        (other, _) => other,
    };
    let known = settings.known.skip_reason(&entry.id).map(str::to_owned);
    Row {
        id: entry.id.clone(),
        section: entry.section().to_owned(),
        severity,
        verdict,
        expected: entry.requirement.clone(),
        came: settings.redact_text(&finding.came),
        is_accident: finding.is_accident,
        had_no_effect: finding.had_no_effect,
        remedy: finding.remedy.unwrap_or(&entry.remedy).to_owned(),
        wrong: finding.wrong.map(|wrong| settings.redact_text(&wrong)),
        cause: finding.cause.map(str::to_owned),
        known,
        seconds,
        exchanges,
    }
}
