//! Runs the cases, and applies their severities.

use std::time::Duration;

use super::bench::Bench;
use super::cases;
use super::course::{Case, Finding};
use super::record::rounded;
use super::report::{Report, Row, Stopped};
use super::settings::Settings;
use super::want::{Want, words};
use crate::wire::clock::{Watch, pass};
use crate::wire::exchange::Outcome;
use hookproof_judge::catalogue::{self, Entry, Severity, Verdict};

/// How long a receiver may take to serve again after a failed case.
const RECOVERY: Duration = Duration::from_secs(10);
/// How long a receiver may take to start: scripts start it and continue at once.
const STARTING: Duration = Duration::from_secs(3);
/// The polling interval.
const RECOVERY_PAUSE: Duration = Duration::from_millis(200);

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The receiver does not accept connections yet.
    Waits,
    /// The number of cases to send.
    Begins(usize),
    /// A case begins.
    Sends(&'a str),
    /// A case's result.
    Came(&'a Row),
}

/// Runs the selected cases. Dropping the future ends the run; `step` has received the results so far.
pub async fn run(settings: &Settings, mut step: impl FnMut(Step<'_>)) -> Result<Report, Stopped> {
    let url = || settings.target.url.clone();
    let resolved = settings.target.resolve().await;
    let addresses = resolved.map_err(|error| Stopped::Resolve { url: url(), why: error.to_string() })?;
    let bench = Bench::new(settings, addresses);
    let mut serves = first(&bench, &mut step).await?;
    bench.take_recorded();
    let selected: Vec<(Case, &Entry)> = cases::all()
        .into_iter()
        .filter_map(|case| Some((case, catalogue::find(case.id)?)))
        .filter(|(_, entry)| settings.selection.has(&entry.id))
        .collect();
    step(Step::Begins(selected.len()));
    let mut report = Report::new(settings);
    for (case, entry) in selected {
        step(Step::Sends(case.id));
        let watch = Watch::start();
        let finding = match &serves {
            Err(why) if case.id != "sig.valid" => Finding::unclear(why.clone()),
            _ => case.run(&bench).await,
        };
        let broken = finding.verdict == Verdict::Fail && case.id != "sig.valid";
        let row = weigh(settings, entry, finding, rounded(watch.passed()), bench.take_recorded());
        step(Step::Came(&row));
        report.rows.push(row);
        if broken && serves.is_ok() && !recovers(&bench).await {
            serves = Err(format!("the receiver no longer serves since {}", case.id));
        }
    }
    report.find_stale(settings);
    Ok(report)
}

/// The first correct delivery: it shows whether the receiver is reachable, accepts anything, and lists
/// effects.
async fn first(bench: &Bench<'_>, step: &mut impl FnMut(Step<'_>)) -> Result<Result<(), String>, Stopped> {
    let watch = Watch::start();
    let (delivery, exchange) = loop {
        let delivery = bench.delivery();
        let exchange = bench.send("a correct delivery", &bench.signed(&delivery), Want::Accept).await;
        match exchange.outcome {
            Outcome::Unreachable(why) if watch.passed() >= STARTING.min(bench.settings.timeout) => {
                return Err(Stopped::Unreachable { url: bench.settings.target.url.clone(), why });
            }
            Outcome::Unreachable(_) => {
                step(Step::Waits);
                pass(RECOVERY_PAUSE).await;
            }
            _ => break (delivery, exchange),
        }
    };
    if !Want::Accept.is_met(&exchange.outcome) {
        let came = words(&exchange.outcome);
        return Ok(Err(format!("a correct delivery gets {came}, so nothing else says anything (sig.valid)")));
    }
    bench.try_effects(&delivery.id).await;
    Ok(Ok(()))
}

/// Whether a receiver that failed a case serves again in time.
async fn recovers(bench: &Bench<'_>) -> bool {
    let watch = Watch::start();
    let serves = loop {
        if bench.still_serves().await.is_ok() {
            break true;
        }
        if watch.passed() >= RECOVERY {
            break false;
        }
        pass(RECOVERY_PAUSE).await;
    };
    bench.take_recorded();
    serves
}

fn weigh(
    settings: &Settings,
    entry: &Entry,
    finding: Finding,
    seconds: f64,
    exchanges: Vec<super::record::Recorded>,
) -> Row {
    let severity = if finding.is_loss { Severity::Must } else { entry.severity };
    let verdict = match (finding.verdict, severity) {
        (Verdict::Fail | Verdict::Warn, Severity::Info) => Verdict::Pass,
        (Verdict::Fail, Severity::Should | Severity::May) if !settings.strict => Verdict::Warn,
        (Verdict::Warn, _) if settings.strict => Verdict::Fail,
        (other, _) => other,
    };
    let known = settings.known.why(&entry.id).map(str::to_owned);
    Row {
        id: entry.id.clone(),
        section: entry.section().to_owned(),
        severity,
        verdict,
        expected: entry.requirement.clone(),
        came: settings.redact_text(&finding.came),
        known,
        seconds,
        exchanges,
    }
}
