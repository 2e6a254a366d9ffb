//! Each seed omits, moves and adds faults, changes latencies, and may let endpoints stop reading for a while. A failure
//! is repeated with ever less traffic. Each seed is judged strictly, with more `drain` for its faults. Figures of the
//! undisturbed scenario do not count ([`super::judged_disturbed`]).

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use hookproof_judge::check::{Status, Witness};
use hookproof_judge::scenario::{
    Answer, Behaviour, Duration, FaultAction, FaultPlan, FaultTarget, Millionths, Partition, QueueRows,
    SECOND, Scenario, Subscriber,
};
use hookproof_judge::trace::Trace;
use hookproof_play::traffic::Chance;

use super::judged::LIVENESS;
use super::{Keep, Options, SimError, judged_disturbed, simulate, with_silence};

const PURPOSE_SWARM: u64 = 0x5a;
const PURPOSE_STALLS: u64 = 0x5b;
/// In nanoseconds.
const MOVED_NS: u64 = 2 * SECOND;
/// The range of a delayed store message: up to more than half of a short lease.
const DELAYS_NS: (u64, u64) = (SECOND / 20, 2 * SECOND);
/// Bounds the search for the shortest failing prefix.
const CUTS_MAX: u32 = 8;

#[derive(Debug)]
pub struct Swept {
    pub played: u64,
    pub judged: u64,
    /// The lowest seed's.
    pub failure: Option<Failure>,
}

impl Swept {
    /// The least percentage of seeds that must come to a verdict. Seeds that omit faults often show too little
    /// for one.
    pub const JUDGED_MIN: u64 = 40;

    #[must_use]
    pub const fn is_thin(&self) -> bool {
        self.played == 0 || self.judged.saturating_mul(100) < self.played.saturating_mul(Self::JUDGED_MIN)
    }
}

#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub sentence: String,
    pub check: String,
    /// The first witness of that check.
    pub witness: String,
    /// In nanoseconds: the shortest failing prefix of the traffic. Nothing if only the whole traffic fails.
    pub until: Option<u64>,
    lasts: u64,
}

/// Plays `count` seeds on all cores, from the options' seed (or the scenario's) on, until one fails.
pub fn sweep(scenario: &Scenario, options: &Options, count: u64) -> Result<Swept, SimError> {
    let first = options.seed.unwrap_or(scenario.seed);
    let next = AtomicU64::new(0);
    let least = AtomicU64::new(u64::MAX);
    let found: Mutex<Vec<Result<Failure, SimError>>> = Mutex::default();
    let (played, held_in) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count || place > least.load(Ordering::Relaxed) {
                return;
            }
            let outcome = play(scenario, options, first.wrapping_add(place), None);
            if matches!(outcome, Err(SimError::Interrupted(_))) {
                return;
            }
            played.fetch_add(1, Ordering::Relaxed);
            let held = outcome.as_ref().is_ok_and(|outcome| outcome.held);
            held_in.fetch_add(u64::from(held), Ordering::Relaxed);
            if let Some(outcome) = outcome.map(|outcome| outcome.failure).transpose() {
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
    Ok(Swept { played: played.into_inner(), judged: held_in.into_inner(), failure })
}

pub fn attempt(
    scenario: &Scenario,
    options: &Options,
    seed: u64,
    until: Option<u64>,
) -> Result<Option<Failure>, SimError> {
    play(scenario, options, seed, until).map(|played| played.failure)
}

pub fn evidence(scenario: &Scenario, options: &Options, failure: &Failure) -> Result<Vec<u8>, SimError> {
    let troubled = disturbed(scenario, options, failure.seed, failure.until);
    Ok(simulate(&troubled, &playing(options, failure.seed, failure.until))?.trace)
}

fn playing(options: &Options, seed: u64, until: Option<u64>) -> Options {
    Options { seed: Some(seed), keep: Keep::Trace, until, ..options.clone() }
}

struct Played {
    failure: Option<Failure>,
    held: bool,
}

fn play(scenario: &Scenario, options: &Options, seed: u64, until: Option<u64>) -> Result<Played, SimError> {
    let troubled = disturbed(scenario, options, seed, until);
    let simulated = simulate(&troubled, &playing(options, seed, until))?;
    let trace =
        Trace::read(simulated.trace.as_slice()).map_err(|error| SimError::Defect(error.to_string()))?;
    let judgement = judged_disturbed(&troubled, &trace);
    let judgement = with_silence(judgement, simulated.silence.as_ref(), &trace);
    let mut failures = judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Fail);
    // A lane that stood still says more than the deliveries that it left behind.
    let stood_still = failures.clone().find(|verdict| verdict.id == LIVENESS && simulated.silence.is_some());
    let failed = stood_still.or_else(|| failures.next());
    let held = judgement.status != Status::Inconclusive;
    let lasts = simulated.figures.traffic_end;
    let failure = failed.map(|verdict| Failure {
        seed,
        sentence: format!("{}: {}", verdict.id, verdict.sentence),
        check: verdict.id.clone(),
        witness: verdict.witness.first().map_or_else(|| "no witness".to_owned(), witness_text),
        until,
        lasts,
    });
    Ok(Played { failure, held })
}

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

fn shorten(scenario: &Scenario, options: &Options, failure: Failure) -> Result<Failure, SimError> {
    let (mut holds, mut shortest) = (0, failure);
    for _ in 0..CUTS_MAX {
        let fails = shortest.until.unwrap_or(shortest.lasts);
        let middle = holds + fails.saturating_sub(holds) / 2;
        // A shorter prefix shows nothing.
        if fails < holds + SECOND / 4 {
            break;
        }
        match attempt(scenario, options, shortest.seed, Some(middle)) {
            Ok(Some(failure)) => shortest = failure,
            Ok(None) => holds = middle,
            // An interruption keeps the best result so far.
            Err(SimError::Interrupted(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(shortest)
}

/// Without the change that raises a limit again, the backlog could not drain.
const fn is_owed(fault: &FaultPlan) -> bool {
    matches!(fault.action, FaultAction::Limit { .. })
}

/// With [`trouble`], and stalls of at most [`Options::stalls`].
#[must_use]
pub fn disturbed(scenario: &Scenario, options: &Options, seed: u64, until: Option<u64>) -> Scenario {
    let mut disturbed = trouble(scenario, seed, until);
    stall(&mut disturbed, seed, options.stalls);
    disturbed
}

/// About every second endpoint stops reading once, for at most `longest`, and then reads everything. The draws
/// use their own stream, so a seed has the same faults with and without stalls.
fn stall(troubled: &mut Scenario, seed: u64, longest: Duration) {
    if longest.0 == 0 {
        return;
    }
    let mut chance = Chance::new(seed, PURPOSE_STALLS);
    let traffic: u64 = troubled
        .traffic
        .iter()
        .filter_map(|phase| phase.lasts)
        .map(|lasts| lasts.0)
        .fold(0, u64::saturating_add);
    for subscriber in &mut troubled.subscribers {
        let (stalls, at) = (chance.below(2) == 0, chance.below(traffic.max(1)));
        let lasts = chance.between(0, longest.0);
        if stalls {
            let (at, lasts) = (Duration(at), Some(Duration(lasts)));
            let (share, attempts, latency, serves) = (Millionths::ONE, None, None, None);
            let stall = Behaviour { at, lasts, answer: Answer::Stall, share, attempts, latency, serves };
            // A shut port comes before every other behaviour.
            let is_first = |one: &Behaviour| one.shuts_the_port() && one.overlaps(&stall);
            let (mut all, rest): (Vec<_>, Vec<_>) = subscriber.behaviours.drain(..).partition(is_first);
            all.push(stall);
            all.extend(rest);
            subscriber.behaviours = all;
        }
    }
    // A request into a silent endpoint may be in doubt for a minute after it was given up.
    troubled.drain.0 =
        troubled.drain.0.saturating_add(longest.0.saturating_mul(2)).saturating_add(60 * SECOND);
}

/// No faults from `until` on. [`Options::until`] cuts the traffic after it is scheduled, because a shorter phase would
/// be compressed.
#[must_use]
pub fn trouble(scenario: &Scenario, seed: u64, until: Option<u64>) -> Scenario {
    let mut chance = Chance::new(seed, PURPOSE_SWARM);
    let mut troubled = scenario.clone();
    let lasts: u64 = scenario
        .traffic
        .iter()
        .filter_map(|phase| phase.lasts)
        .map(|lasts| lasts.0)
        .fold(0, u64::saturating_add);
    troubled.faults.retain(|fault| chance.below(4) > 0 || is_owed(fault));
    for fault in &mut troubled.faults {
        let moved = chance.below(2 * MOVED_NS);
        fault.at.0 = fault.at.0.saturating_add(moved).saturating_sub(MOVED_NS);
    }
    for _ in 0..chance.below(3) {
        let at = Duration(chance.below(lasts.max(1)));
        let length = Duration(chance.between(SECOND / 10, 3 * SECOND));
        let worker = (scenario.sender.workers > 1)
            .then(|| u32::try_from(chance.below(scenario.sender.workers.into())).unwrap_or_default());
        // One of several processes may lose its store while the others go on.
        let kinds = if worker.is_some() { 6 } else { 4 };
        let action = match chance.below(kinds) {
            0 | 1 => FaultAction::Kill,
            2 => FaultAction::Stop,
            3 => FaultAction::LockDatabase,
            4 => FaultAction::Partition(Partition::Silence),
            _ => {
                let by = chance.between(DELAYS_NS.0, DELAYS_NS.1);
                FaultAction::Partition(Partition::Delay(Duration(by)))
            }
        };
        let worker = worker.filter(|_| action != FaultAction::LockDatabase).map(FaultTarget::Worker);
        let may_be_long = matches!(action, FaultAction::Stop | FaultAction::Partition(_));
        let long = may_be_long && chance.below(2) == 0;
        let length = if long { Duration(chance.between(5 * SECOND, 40 * SECOND)) } else { length };
        troubled.faults.push(FaultPlan { at, lasts: length, worker, action });
    }
    let longer = troubled.faults.iter().map(|fault| fault.lasts.0).fold(0, u64::saturating_add);
    // A lane whose whole burst may be in doubt waits until it can no longer arrive.
    let in_doubt = |one: &Subscriber| one.timeout.0.saturating_add(one.limit.doubt.0);
    let in_doubt = scenario.subscribers.iter().map(in_doubt).max().unwrap_or_default();
    let longer = longer.saturating_add(scenario.sender.takeover_within.0).saturating_add(in_doubt);
    troubled.drain.0 = troubled.drain.0.saturating_add(longer);
    // The backlog bounds of [`QueueRows`] are figures of the undisturbed scenario.
    troubled.expect.queue_rows = QueueRows::default();
    for subscriber in &mut troubled.subscribers {
        // From half to one and a half times as long.
        let share = chance.between(500, 1_500);
        let most = &mut subscriber.answers.most.0;
        *most = (*most / 1_000).saturating_mul(share).max(subscriber.answers.least.0);
    }
    if let Some(until) = until {
        troubled.faults.retain(|fault| fault.at.0 < until || is_owed(fault));
    }
    troubled.faults.sort_by_key(|fault| fault.at);
    troubled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_that_judged_too_little_is_thin() {
        for (played, judged, thin) in
            [(0, 0, true), (10, 0, true), (10, 3, true), (10, 4, false), (10, 10, false)]
        {
            assert_eq!(Swept { played, judged, failure: None }.is_thin(), thin, "{judged} of {played}");
        }
    }

    #[test]
    fn a_port_that_is_shut_is_shut_before_a_stall() {
        let text = "name = \"x\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"1min\"\n\
                    [[subscriber]]\nname = \"a\"\n[[subscriber.behaviour]]\nat = \"20s\"\nlasts = \"20s\"\nanswer = \"refuse\"\n";
        let scenario = Scenario::from_text(text, "x.toml").unwrap();
        let options = Options { stalls: Duration::from_secs(30), ..Options::default() };
        let mut met = 0;
        for seed in 0..100 {
            let behaviours = &disturbed(&scenario, &options, seed, None).subscribers[0].behaviours;
            let [first, second] = behaviours.as_slice() else { continue };
            met += u32::from(first.overlaps(second));
            assert!(!second.shuts_the_port() || !first.overlaps(second), "{seed}: {behaviours:?}");
        }
        assert!(met > 10, "{met} of them met");
    }

    #[test]
    fn lengths_without_end_are_no_overflow() {
        let text = "name = \"x\"\n[[traffic]]\nshape = \"pause\"\nlasts = \"1s\"\n[[subscriber]]\nname = \"a\"\n\
                    [[fault]]\nat = \"1s\"\ndo = \"kill\"\n";
        let mut scenario = Scenario::from_text(text, "x.toml").unwrap();
        scenario.traffic.iter_mut().for_each(|phase| phase.lasts = Some(Duration(u64::MAX)));
        scenario.traffic.extend(scenario.traffic.clone());
        scenario.faults[0].at = Duration(u64::MAX);
        for seed in 0..20 {
            assert!(trouble(&scenario, seed, None).drain.0 > 0);
        }
    }
}
