//! One scenario, many seeds. Every seed plays the scenario with troubles of its own: some of its faults are left out, those
//! that stay come sooner or later, others are added, and endpoints take longer or less long. What fails is played again,
//! shorter and shorter, until nothing can be cut off its end.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Keep, Options, SimError, judged, simulate};
use crate::check::{Status, Strictness, Witness};
use crate::scenario::{Duration, FaultAction, FaultPlan, SECOND, Scenario, Shape};
use crate::trace::Trace;
use crate::traffic::Chance;

const PURPOSE_SWARM: u64 = 0x5a;
/// How far a fault is moved at most.
const MOVED_NS: u64 = 2 * SECOND;
/// How often the end is cut off in search of the smallest failing prefix.
const CUTS_MAX: u32 = 8;

/// What a sweep found.
#[derive(Debug)]
pub struct Swept {
    /// Seeds played.
    pub played: u64,
    /// The first failure by seed.
    pub failure: Option<Failure>,
}

/// A seed that fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which.
    pub seed: u64,
    /// Why.
    pub sentence: String,
    /// The first check that fails.
    pub check: String,
    /// What shows it.
    pub witness: String,
    /// The shortest beginning found that still fails, in nanoseconds; none if nothing can be cut off.
    pub until: Option<u64>,
    /// How long the traffic was.
    lasts: u64,
}

/// Plays `count` seeds, from the scenario's (or the options') on, on all cores, until one fails.
///
/// # Errors
/// When one can't be simulated.
pub fn sweep(scenario: &Scenario, options: &Options, count: u64) -> Result<Swept, SimError> {
    let first = options.seed.unwrap_or(scenario.seed);
    let next = AtomicU64::new(0);
    let least = AtomicU64::new(u64::MAX);
    let found: Mutex<Vec<Result<Failure, SimError>>> = Mutex::default();
    let played = AtomicU64::new(0);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count || place > least.load(Ordering::Relaxed) {
                return;
            }
            let outcome = attempt(scenario, options, first.wrapping_add(place), None);
            played.fetch_add(1, Ordering::Relaxed);
            if let Some(outcome) = outcome.transpose() {
                least.fetch_min(place, Ordering::Relaxed);
                found.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    std::thread::scope(|scope| {
        (0..cores).for_each(|_| drop(scope.spawn(work)));
    });
    let mut failures = found
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    failures.sort_by_key(|failure| failure.seed.wrapping_sub(first));
    let failure =
        failures.into_iter().next().map(|failure| shorten(scenario, options, failure)).transpose()?;
    Ok(Swept { played: played.into_inner(), failure })
}

/// Plays one seed with its troubles, cut off at `until`; a failure, if a check fails.
///
/// # Errors
/// When it can't be simulated.
pub fn attempt(
    scenario: &Scenario,
    options: &Options,
    seed: u64,
    until: Option<u64>,
) -> Result<Option<Failure>, SimError> {
    let troubled = trouble(scenario, seed, until);
    let options = Options { seed: Some(seed), keep: Keep::Trace, ..options.clone() };
    let simulated = simulate(&troubled, &options)?;
    let trace =
        Trace::read(simulated.trace.as_slice()).map_err(|error| SimError::Defect(error.to_string()))?;
    // What our own sender should do, it must.
    let judgement = judged(&troubled, &trace, Strictness::Strict);
    let failed = judgement.verdicts.iter().find(|verdict| verdict.status == Status::Fail);
    let lasts = simulated.figures.traffic_end;
    Ok(failed.map(|verdict| Failure {
        seed,
        sentence: format!("{}: {}", verdict.id, verdict.sentence),
        check: verdict.id.clone(),
        witness: verdict.witness.first().map_or_else(|| "no witness".to_owned(), witness_text),
        until,
        lasts,
    }))
}

/// A witness in one line.
#[must_use]
pub fn witness_text(witness: &Witness) -> String {
    let seconds = |t: u64| format!("{}.{:03}s", t / SECOND, t % SECOND / 1_000_000);
    let whom = witness.subscriber.as_deref().unwrap_or("the sender");
    format!(
        "{whom}, {} to {}: {} (arrivals {:?})",
        seconds(witness.from),
        seconds(witness.until),
        witness.what,
        witness.arrivals
    )
}

/// Looks for the shortest beginning of the traffic that still fails.
fn shorten(scenario: &Scenario, options: &Options, failure: Failure) -> Result<Failure, SimError> {
    let (mut holds, mut shortest) = (0, failure);
    for _ in 0..CUTS_MAX {
        let fails = shortest.until.unwrap_or(shortest.lasts);
        let middle = holds + fails.saturating_sub(holds) / 2;
        // A beginning of no length says nothing.
        if fails < holds + SECOND / 4 {
            break;
        }
        match attempt(scenario, options, shortest.seed, Some(middle))? {
            Some(failure) => shortest = failure,
            None => holds = middle,
        }
    }
    Ok(shortest)
}

/// The scenario as a seed has it: some faults left out, others moved or added, latencies stretched; and of its traffic only
/// what comes before `until`.
#[must_use]
pub fn trouble(scenario: &Scenario, seed: u64, until: Option<u64>) -> Scenario {
    let mut chance = Chance::new(seed, PURPOSE_SWARM);
    let mut troubled = scenario.clone();
    let lasts: u64 = scenario.traffic.iter().filter_map(|phase| phase.lasts).map(|lasts| lasts.0).sum();
    troubled.faults.retain(|_| chance.below(4) > 0);
    for fault in &mut troubled.faults {
        let moved = chance.below(2 * MOVED_NS);
        fault.at.0 = (fault.at.0 + moved).saturating_sub(MOVED_NS);
    }
    for _ in 0..chance.below(3) {
        let at = Duration(chance.below(lasts.max(1)));
        let length = Duration(chance.between(SECOND / 10, 3 * SECOND));
        let worker = (scenario.sender.workers > 1)
            .then(|| u32::try_from(chance.below(scenario.sender.workers.into())).unwrap_or_default());
        let action = match chance.below(4) {
            0 | 1 => FaultAction::Kill,
            2 => FaultAction::Stop,
            _ => FaultAction::LockDatabase,
        };
        let worker = worker.filter(|_| action != FaultAction::LockDatabase);
        let long = action == FaultAction::Stop && chance.below(2) == 0;
        let length = if long { Duration(chance.between(5 * SECOND, 40 * SECOND)) } else { length };
        troubled.faults.push(FaultPlan { at, lasts: length, worker, action });
    }
    for subscriber in &mut troubled.subscribers {
        // From half to one and a half times as long.
        let share = chance.between(500, 1_500);
        let most = &mut subscriber.answers.most.0;
        *most = (*most / 1_000).saturating_mul(share).max(subscriber.answers.least.0);
    }
    if let Some(until) = until {
        cut(&mut troubled, until);
    }
    troubled.faults.sort_by_key(|fault| fault.at);
    troubled
}

/// Cuts the traffic and the faults off at a moment.
fn cut(scenario: &mut Scenario, until: u64) {
    let mut begin = 0;
    let mut kept = Vec::new();
    for phase in &scenario.traffic {
        let lasts = phase.lasts.map_or(until.saturating_sub(begin), |lasts| lasts.0);
        let left = until.saturating_sub(begin);
        if left == 0 {
            break;
        }
        begin = begin.saturating_add(lasts);
        let mut phase = phase.clone();
        if lasts > left {
            // A phase that is cut keeps its pace: what it would have gone on to is cut with it.
            if let Shape::Spike { rate, to } = phase.shape
                && left <= lasts / 2
            {
                phase.shape = Shape::Ramp { rate, to };
            }
            phase.lasts = Some(Duration(left));
        }
        kept.push(phase);
    }
    scenario.traffic = kept;
    scenario.faults.retain(|fault| fault.at.0 < until);
}
