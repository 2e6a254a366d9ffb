//! The cases that certify a receiver. Each sends one or a few requests, and knows a correct receiver's answers.
//!
//! A case without evidence is `inconclusive`, never `pass`. A receiver that accepts nothing also rejects forgeries,
//! so everything depends on `sig.valid`, which is sent first and after every attack.
//! `cases` are requests with expectations, or scripts; `schedule` orders and judges them; `Report` is the result.

mod bench;
mod cases;
mod effects;
mod foreign_key;
mod hooks;
mod library;
mod record;
mod report;
mod schedule;
mod settings;
mod story;
mod want;

use std::time::Duration;

use bench::Bench;
use cases::Case;
use hookproof_judge::catalogue::{self, Entry};
use hookproof_judge::scenario::quantity::Day;
pub use hooks::Hooks;
pub use library::Library;
pub use record::Recorded;
pub(crate) use record::quoted;
pub use report::{Counts, LeftOut, Report, Stopped};
use schedule::Schedule;
pub use settings::{Bodies, Known, KnownError, Need, SERVER, Settings};
pub use story::{Row, Story};
use want::{Want, plain, words};

use crate::wire::clock::{Watch, pass, unix_seconds};
use crate::wire::exchange::Outcome;
pub use hookproof_judge::catalogue::{SelectError, Selection};

/// How long a receiver may take to start: scripts start it and continue at once.
const STARTING: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The receiver does not accept connections yet.
    Waits,
    /// The number of cases to send.
    Begins(usize),
    Sends(&'a str),
    Came(&'a Row),
}

/// `step` receives each result at once; dropping the future ends the run.
pub async fn run(settings: &Settings, mut step: impl FnMut(Step<'_>)) -> Result<Report, Stopped> {
    let url = || settings.target.url.clone();
    let resolved = settings.target.resolve().await;
    let addresses = resolved.map_err(|error| Stopped::Resolve { url: url(), why: error.to_string() })?;
    let bench = Bench::new(settings, addresses);
    let serves = first(&bench, &mut step).await?;
    bench.take_recorded();
    let selected: Vec<(Case, &Entry)> = cases::all()
        .into_iter()
        .filter_map(|case| Some((case, catalogue::find(case.id)?)))
        .filter(|(_, entry)| settings.selection.has(&entry.id))
        .collect();
    step(Step::Begins(selected.len()));
    let mut report = Report::new(settings);
    report.rows = Schedule::new(&bench, serves, step).run(selected).await;
    report.sort();
    report.find_stale(settings);
    Ok(report)
}

/// Shows whether the receiver is reachable, accepts anything, and lists effects.
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
                pass(PAUSE).await;
            }
            _ => break (delivery, exchange),
        }
    };
    if !Want::Accept.is_met(&exchange.outcome) {
        let came = words(&exchange.outcome);
        let stranger = match exchange.outcome {
            Outcome::Answer(answer) => answer.header("server").map(|name| format!("{:?}", plain(&name))),
            _ => None,
        };
        let url = &bench.settings.target.url;
        let stranger = stranger.map(|name| format!(", which calls itself {name}")).unwrap_or_default();
        return Ok(Err(format!(
            "a correct delivery gets {came}, so the other cases are inconclusive (sig.valid); is the program at {url}{stranger} \
             your receiver?"
        )));
    }
    bench.try_effects(&delivery.id).await;
    Ok(Ok(()))
}

/// Today, such as 2026-01-31.
#[must_use]
pub fn today() -> String {
    Day(u64::try_from(unix_seconds() / 86_400).unwrap_or_default()).to_string()
}
