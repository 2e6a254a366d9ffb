//! `hookproof load`: open-loop load on a receiver, and the highest rate at which an objective holds.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;

use super::receiver::{Unusable, Whom, length, secret};
use super::{EXIT_HARNESS, EXIT_UNREACHABLE, EXIT_USAGE};
use crate::load::{self, Bracket, Limits, Load, Slo, Trial};
use crate::scenario::quantity::Rate;

/// Something failed, or the objective never held.
const EXIT_FAILED: u8 = 1;
/// The generator could not keep its schedule.
const EXIT_INCONCLUSIVE: u8 = 2;

/// Somebody interrupted it.
const EXIT_INTERRUPTED: u8 = 130;

/// What `hookproof load` is asked.
#[derive(Debug, Args)]
pub(super) struct Asked {
    #[command(flatten)]
    whom: Whom,
    /// How many requests, such as 500/s
    #[arg(long, value_name = "RATE", required_unless_present = "find_max", conflicts_with = "find_max")]
    rate: Option<Rate>,
    /// For how long; with --find-max, for each trial
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = length)]
    lasts: Duration,
    /// Find the highest rate at which the objective holds
    #[arg(long, requires = "slo")]
    find_max: bool,
    /// The objective, such as p99<250ms
    #[arg(long, value_name = "SLO")]
    slo: Option<Slo>,
    /// How large bodies are, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 500)]
    body_bytes: usize,
    /// For machines
    #[arg(long)]
    json: bool,
    /// A directory for the HDR log (load.hdr) and the page with the chart (load.html)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Does it.
pub(super) fn main(asked: &Asked) -> ExitCode {
    let load = match settings(asked) {
        Ok(load) => load,
        Err(Unusable(why)) => return ended(EXIT_USAGE, &why),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(EXIT_HARNESS, &format!("can't start: {error}")),
    };
    let done = match (&asked.slo, asked.find_max) {
        (Some(slo), true) => runtime.block_on(search(asked, &load, slo)),
        (slo, _) => runtime.block_on(once(asked, &load, slo.as_ref())),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Ended::Unreachable(error)) => {
            ended(EXIT_UNREACHABLE, &format!("{} can't be reached: {error}; is it running?", load.target.url))
        }
        Err(Ended::Ours(why)) => ended(EXIT_HARNESS, &why),
    }
}

/// Why it ended early.
enum Ended {
    Unreachable(std::io::Error),
    Ours(String),
}

fn ended(code: u8, why: &str) -> ExitCode {
    eprintln!("hookproof load: {why}");
    ExitCode::from(code)
}

fn settings(asked: &Asked) -> Result<Load, Unusable> {
    let Whom { profile, secret_env, .. } = &asked.whom;
    let rate = asked
        .rate
        .map_or((1, Duration::from_secs(1)), |rate| (rate.count, Duration::from_nanos(rate.per.nanos())));
    if rate.0 == 0 {
        return Err(Unusable("a rate of 0 sends nothing; expected at least 1/s".to_owned()));
    }
    let load = Load {
        target: asked.whom.target()?,
        profile: *profile,
        secret: secret(*profile, secret_env)?,
        count: rate.0,
        per: rate.1,
        lasts: asked.lasts,
        body_bytes: asked.body_bytes,
    };
    let (requests, most) = (load.requests(), load::REQUESTS_MAX);
    if requests == 0 || requests > most {
        return Err(Unusable(format!(
            "that rate for that time is {requests} requests; expected 1 to {most}"
        )));
    }
    Ok(load)
}

/// Done when somebody interrupts us, and after that remembers it.
async fn interrupted(flag: &AtomicBool) {
    if tokio::signal::ctrl_c().await.is_ok() {
        flag.store(true, Ordering::Relaxed);
    } else {
        // Without a handler the signal ends the process by itself.
        std::future::pending::<()>().await;
    }
}

async fn once(asked: &Asked, load: &Load, slo: Option<&Slo>) -> Result<u8, Ended> {
    if std::io::stderr().is_terminal() {
        eprintln!("sending {} requests in {:?}", load.requests(), load.lasts);
    }
    let stopped = AtomicBool::new(false);
    let trial = load::run(load, interrupted(&stopped)).await.map_err(Ended::Unreachable)?;
    let holds = slo.map(|slo| slo.holds(&trial));
    let text = if asked.json {
        format!("{}\n", trial.json())
    } else {
        let said =
            slo.zip(holds).map(|(slo, holds)| format!("{slo}: {}\n", if holds { "holds" } else { "broken" }));
        trial.text() + &said.unwrap_or_default()
    };
    print(&text);
    if let Some(dir) = &asked.out {
        keep(dir, &trial, &load.target.url)?;
    }
    if stopped.load(Ordering::Relaxed) {
        eprintln!("interrupted: this is what was seen until then");
    }
    Ok(match () {
        () if stopped.load(Ordering::Relaxed) => EXIT_INTERRUPTED,
        () if trial.is_generator_limited() => EXIT_INCONCLUSIVE,
        () if trial.due == 0 => EXIT_INCONCLUSIVE,
        () if holds == Some(false) || trial.failed() + trial.missed > 0 => EXIT_FAILED,
        () => 0,
    })
}

async fn search(asked: &Asked, load: &Load, slo: &Slo) -> Result<u8, Ended> {
    let told = |trial: &Trial, holds: bool| {
        let word = if holds { "holds" } else { "broken" };
        let limited = if trial.is_generator_limited() { ", generator-limited" } else { "" };
        let p99 = trial.latency.value_at_quantile(0.99);
        eprintln!(
            "{:>8.0}/s  {word:<7} p99 {p99} µs, {} failed, {} missed{limited}",
            trial.per_second,
            trial.failed(),
            trial.missed
        );
    };
    let stopped = AtomicBool::new(false);
    let found = tokio::select! {
        found = load::find_max(load, slo, Limits { first: 50 }, told) => found,
        () = interrupted(&stopped) => return Ok(EXIT_INTERRUPTED),
    };
    let (bracket, best) = found.map_err(Ended::Unreachable)?;
    let Bracket { holds, breaks, generator_limited, confirmed } = bracket;
    let text = if asked.json {
        let trial = best.as_ref().map(Trial::json);
        let slo = slo.to_string();
        let json = serde_json::json!({ "slo": slo, "holds_per_second": holds, "breaks_per_second": breaks,
            "generator_limited": generator_limited, "confirmed": confirmed, "trial": trial });
        format!("{json}\n")
    } else {
        let upper = breaks.map_or_else(|| "and beyond".to_owned(), |breaks| format!("and not at {breaks}/s"));
        let limited = if generator_limited { "\ngenerator-limited: the receiver may carry more" } else { "" };
        let sure = if confirmed { "three times in a row" } else { "but not three times in a row" };
        match (&best, holds) {
            (Some(trial), 0) => {
                format!("{slo}: nothing was accepted at {:.0}/s\n{}", trial.per_second, trial.text())
            }
            (None, 0) => format!("{slo}: does not hold, {upper}{limited}\n"),
            _ => format!("{slo}: holds at {holds}/s, {sure}, {upper}{limited}\n"),
        }
    };
    print(&text);
    if let (Some(dir), Some(trial)) = (&asked.out, &best) {
        keep(dir, trial, &load.target.url)?;
    }
    Ok(match () {
        () if holds == 0 => EXIT_FAILED,
        () if generator_limited || !confirmed => EXIT_INCONCLUSIVE,
        () => 0,
    })
}

/// Writes the log and the page.
fn keep(dir: &Path, trial: &Trial, target: &str) -> Result<(), Ended> {
    let failed = |error: std::io::Error| Ended::Ours(format!("can't write to {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    std::fs::write(dir.join("load.hdr"), trial.hdr_log().map_err(failed)?).map_err(failed)?;
    std::fs::write(dir.join("load.html"), trial.page(target)).map_err(failed)?;
    eprintln!("report: {}", dir.join("load.html").display());
    Ok(())
}

fn print(text: &str) {
    // A reader that has seen enough, such as `head`, is no failure.
    let _closed = std::io::stdout().lock().write_all(text.as_bytes());
}
