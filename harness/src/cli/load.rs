//! `hookproof load`: open-loop load on a receiver, and the search for the highest rate that meets an objective.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use hookproof_judge::catalogue::Verdict;
use hookproof_judge::scenario::quantity::Rate;

use super::interrupt::interrupt_requested;
use super::out::{HARNESS, INTERRUPTED, UNREACHABLE, USAGE, code, print_stderr};
use super::receiver::{ReceiverTarget, Unusable, length, secret};
use crate::load::{self, Found, Limits, Load, Search, Slo, Trial};
use crate::suite;

const CUT_SHORT: &str = "interrupted: these are the figures until then";

#[derive(Debug, Args)]
pub(super) struct LoadArgs {
    /// The URL that takes webhooks
    url: String,
    #[command(flatten)]
    whom: ReceiverTarget,
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
    #[arg(long, value_name = "BYTES", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(..=16 * 1024 * 1024))]
    body_bytes: u32,
    /// For machines
    #[arg(long)]
    json: bool,
    /// A directory for the HDR log (load.hdr) and the page with the chart (load.html)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn main(asked: &LoadArgs) -> ExitCode {
    let load = match settings(asked) {
        Ok(load) => load,
        Err(Unusable(why)) => return ended(USAGE, &why),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(HARNESS, &format!("cannot start: {error}")),
    };
    let done = match (&asked.slo, asked.find_max) {
        (Some(slo), true) => runtime.block_on(search(asked, &load, slo)),
        (slo, _) => runtime.block_on(once(asked, &load, slo.as_ref())),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Ended::Unreachable(error)) => {
            let why = format!("{} cannot be reached: {error}; is it running?", load.target.url);
            let kept = asked.out.as_deref().map(|dir| write_unjudged_page(dir, &load.target.url, &why));
            if let Some(Err(Ended::Ours(what))) = kept {
                print_stderr(format_args!("hookproof load: {what}"));
            }
            ended(UNREACHABLE, &why)
        }
        Err(Ended::Ours(why)) => ended(HARNESS, &why),
    }
}

enum Ended {
    Unreachable(std::io::Error),
    Ours(String),
}

fn ended(code: u8, why: &str) -> ExitCode {
    print_stderr(format_args!("hookproof load: {why}"));
    ExitCode::from(code)
}

fn settings(asked: &LoadArgs) -> Result<Load, Unusable> {
    let ReceiverTarget { profile, secret_env, .. } = &asked.whom;
    let rate = asked
        .rate
        .map_or((1, Duration::from_secs(1)), |rate| (rate.count, Duration::from_nanos(rate.per.nanos())));
    if rate.0 == 0 {
        return Err(Unusable("a rate of 0 sends nothing; expected at least 1/s".to_owned()));
    }
    let load = Load {
        target: asked.whom.target(&asked.url)?,
        profile: *profile,
        secret: secret(*profile, secret_env)?,
        count: rate.0,
        per: rate.1,
        lasts: asked.lasts,
        body_bytes: usize::try_from(asked.body_bytes)?,
    };
    if asked.find_max && asked.lasts < Duration::from_secs(1) {
        return Err(Unusable("a trial at 1/s needs a second; expected --for 1s at least".to_owned()));
    }
    let (requests, most) = (load.requests(), load::REQUESTS_MAX);
    if requests == 0 || requests > most {
        return Err(Unusable(format!("--rate and --for make {requests} requests; expected 1 to {most}")));
    }
    if let Some(dir) = &asked.out {
        // Checked before a load is sent in vain.
        std::fs::create_dir_all(dir)
            .map_err(|error| Unusable(format!("cannot make {}: {error}", dir.display())))?;
    }
    Ok(load)
}

async fn interrupted(flag: &AtomicBool) {
    interrupt_requested().await;
    flag.store(true, Ordering::Relaxed);
}

async fn once(asked: &LoadArgs, load: &Load, slo: Option<&Slo>) -> Result<u8, Ended> {
    if std::io::stderr().is_terminal() {
        print_stderr(format_args!("sending {} requests within {:?}", load.requests(), load.lasts));
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
    let is_cut_short = stopped.load(Ordering::Relaxed);
    let (status, sentence) = trial.verdict(slo);
    let code = if is_cut_short { INTERRUPTED } else { code(status) };
    if let Some(dir) = &asked.out {
        let told =
            if is_cut_short { (Verdict::Inconclusive, CUT_SHORT.to_owned()) } else { (status, sentence) };
        save_report(dir, &trial, &load.target.url, None, told)?;
    }
    if is_cut_short {
        print_stderr(CUT_SHORT);
    }
    Ok(code)
}

async fn search(asked: &LoadArgs, load: &Load, slo: &Slo) -> Result<u8, Ended> {
    let mut search = Search::new(*slo);
    let told = |trial: &Trial, holds: bool| {
        search.add(trial);
        let word = if holds { "holds" } else { "broken" };
        let limited = match () {
            () if trial.is_generator_limited() => ", generator-limited",
            () if trial.is_open_limited() => ", open-limited",
            () => "",
        };
        let p99 = load::millis(trial.latency.value_at_quantile(0.99));
        let (rate, failed, missed) = (trial.per_second, trial.failed(), trial.missed);
        print_stderr(format_args!(
            "{rate:>8.0}/s  {word:<7} p99 {p99}, {failed} failed, {missed} missed{limited}"
        ));
    };
    let (mut found, stopped) = (Found::default(), AtomicBool::new(false));
    let ended = tokio::select! {
        biased;
        () = interrupted(&stopped) => Ok(()),
        ended = load::find_max(load, slo, Limits { first: 50 }, &mut found, told) => ended,
    };
    let lost = match ended {
        Err(error) if found.trials == 0 => return Err(Ended::Unreachable(error)),
        Err(error) => Some(error.to_string()),
        Ok(()) => None,
    };
    let interrupted = stopped.load(Ordering::Relaxed);
    let (mut status, sentence) = found.verdict(slo);
    let Found { bracket, best, .. } = &found;
    print(&if asked.json {
        let trial = best.as_ref().map(Trial::json);
        let json = serde_json::json!({ "slo": slo.to_string(), "holds_per_second": bracket.holds,
            "breaks_per_second": bracket.breaks, "generator_limited": bracket.generator_limited,
            "confirmed": bracket.confirmed, "interrupted": interrupted, "lost": lost, "trial": trial });
        format!("{json}\n")
    } else {
        let rejected = best.as_ref().filter(|trial| trial.accepted() == 0);
        format!("{sentence}\n{}", rejected.map_or(String::new(), Trial::text))
    });
    if let Some(why) = &lost {
        print_stderr(format_args!("{} could no longer be reached: {why}", load.target.url));
    }
    if interrupted {
        print_stderr(CUT_SHORT);
    }
    if interrupted || lost.is_some() {
        status = Verdict::Inconclusive;
    }
    if let Some(dir) = &asked.out {
        match best {
            Some(trial) => save_report(dir, trial, &load.target.url, Some(&search), (status, sentence))?,
            None => write_unjudged_page(dir, &load.target.url, &sentence)?,
        }
    }
    Ok(if interrupted { INTERRUPTED } else { code(status) })
}

fn save_report(
    dir: &Path,
    trial: &Trial,
    target: &str,
    search: Option<&Search>,
    told: (Verdict, String),
) -> Result<(), Ended> {
    let page = trial.page(target, &suite::today(), search, told);
    let failed = |error: std::io::Error| Ended::Ours(format!("cannot write to {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed)?;
    std::fs::write(dir.join("load.hdr"), trial.hdr_log().map_err(failed)?).map_err(failed)?;
    std::fs::write(dir.join("load.html"), page).map_err(failed)?;
    print_stderr(format_args!("report: {}", dir.join("load.html").display()));
    Ok(())
}

/// The page says why there are no figures. Removes an older load's log.
fn write_unjudged_page(dir: &Path, target: &str, why: &str) -> Result<(), Ended> {
    let failed = |error: std::io::Error| Ended::Ours(format!("cannot write to {}: {error}", dir.display()));
    std::fs::write(dir.join("load.html"), load::page_unjudged(target, why)).map_err(failed)?;
    match std::fs::remove_file(dir.join("load.hdr")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(error)),
        _ => Ok(()),
    }
}

fn print(text: &str) {
    let _closed = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hdrhistogram::Histogram;

    use super::*;
    use crate::cli::out::{FAILED, INCONCLUSIVE};

    /// A receiver that answers every request after half a second.
    fn trial(status: u16, answered: u64, missed: u64) -> Trial {
        let mut latency = Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        latency.record_n(500_000, answered).unwrap();
        Trial {
            per_second: 4000.0,
            due: answered + missed,
            missed,
            statuses: BTreeMap::from([(status, answered)]),
            unanswered: BTreeMap::new(),
            latency,
            lag: Histogram::new_with_bounds(1, 60_000_000, 3).unwrap(),
            took: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_failure_at_the_generators_connection_cap_is_inconclusive() {
        let (slow, fast): (Slo, Slo) = ("p99<2s".parse().unwrap(), "p99<100ms".parse().unwrap());
        let rows = [
            ("all is well", trial(204, 100, 0), Some(&slow), 0),
            ("as many were open as this sends", trial(204, 100, 5), None, INCONCLUSIVE),
            ("and what was answered was in time", trial(204, 100, 5), Some(&slow), INCONCLUSIVE),
            ("it was too slow all the same", trial(204, 100, 5), Some(&fast), FAILED),
            ("it failed all the same", trial(500, 100, 5), Some(&slow), FAILED),
            ("nothing was sent", trial(204, 0, 0), None, INCONCLUSIVE),
        ];
        for (what, trial, slo, code) in rows {
            let (status, sentence) = trial.verdict(slo);
            assert_eq!(super::code(status), code, "{what}: {sentence}");
        }
        assert!(trial(204, 100, 5).text().contains("1000 requests were open at once"));
    }
}
