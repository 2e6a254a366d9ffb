//! How many times this traffic still meets the objectives, by several seeds, and what breaks first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::advice::{self, Change, Trial};
use super::interval::Interval;
use super::machine::{Load, Machine, Need};
use super::scale::{AS_IT_STANDS, is_coarse, scaled};
use super::search::{DOUBLE, Edge, NEAR, edge};
use super::slo::{Measure, NEVER, Slo};
use super::{Asked, simulated};
use crate::scenario::Scenario;
use crate::sim::figures::Figures;
use crate::sim::{Options, SimError};
use crate::traffic::ScheduleError;

/// How far it stretches.
#[derive(Clone, Debug, Serialize)]
pub struct Headroom {
    /// In thousandths of this traffic: the most that was seen to hold; none if no part of it did.
    pub carries: Option<u64>,
    /// The least that was seen to fail; none if nothing that was tried did.
    pub fails: Option<u64>,
    /// Where the headroom of other seeds lies; none where one seed was tried, or some seed has no edge.
    pub interval: Option<Interval>,
    /// What each seed carries, the scenario's own first; none if no part of the traffic.
    pub seeds: Vec<Option<u64>>,
    /// In how many seeds the traffic as it stands fails.
    pub short: u64,
    /// Whether it was looked for in whole multiples only, because a recording is played whole.
    pub coarse: bool,
    /// Whether more was not tried, or not changed for, as it has more events than can be simulated.
    pub too_many: bool,
    /// How long it takes at each load that was simulated with the scenario's own seed, in the order of loads.
    pub curve: Vec<Point>,
    /// What breaks first, the worst before the others.
    pub breaks: Vec<Breach>,
    /// What the changes are to carry, in thousandths of this traffic.
    pub carry: u64,
    /// What the machine would have to carry for that, if that is too much for it.
    pub need: Option<Need>,
    /// What is to be changed for that, each subscriber's ways together, the smallest first.
    pub changes: Vec<Change>,
    /// The first way of each subscriber, tried together; none where there is nothing to change.
    pub trial: Option<Trial>,
    /// Subscribers that no change of their limits lets carry that much.
    pub hopeless: Vec<String>,
    /// Subscribers that fail too, and for which no change was looked for.
    pub unexamined: Vec<String>,
}

/// One load, and how long it takes the slowest subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// In thousandths of this traffic.
    pub load: u64,
    /// The 95th percentile until a delivery is taken, in nanoseconds; none where so many never are.
    pub p95_ns: Option<u64>,
    /// How long after the traffic the backlog is gone; none if it is not in the time that is simulated.
    pub drain_ns: Option<u64>,
    /// Whether nothing breaks.
    pub holds: bool,
}

impl Point {
    fn of(load: u64, figures: &Figures, holds: bool) -> Self {
        let slowest = |measure: Measure| {
            let all = figures.lanes.iter().map(|lane| measure.of(lane, figures));
            all.max().filter(|length| *length != NEVER)
        };
        let (p95_ns, drain_ns) = (slowest(Measure::Latency(950)), slowest(Measure::Drain));
        Self { load, p95_ns, drain_ns, holds }
    }
}

/// An objective that a subscriber doesn't meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Whose.
    pub subscriber: String,
    /// The name that the file gives it: several may share one.
    pub group: String,
    /// Which.
    pub objective: String,
    /// What it comes to.
    pub figure: String,
    /// How far beyond: in thousandths of what is allowed.
    pub excess: u64,
}

/// The objectives that are not met, the worst first.
#[must_use]
pub fn breaches(scenario: &Scenario, slos: &[Slo], figures: &Figures) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (subscriber, lane) in scenario.subscribers.iter().zip(&figures.lanes) {
        for slo in slos.iter().filter(|slo| slo.concerns(&subscriber.name, &subscriber.group)) {
            let figure = slo.measure.of(lane, figures);
            if figure > slo.most {
                breaches.push(Breach {
                    subscriber: subscriber.name.clone(),
                    group: subscriber.group.clone(),
                    objective: slo.to_string(),
                    figure: slo.show(figure),
                    excess: figure.saturating_mul(AS_IT_STANDS) / slo.most.max(1),
                });
            }
        }
    }
    worst_first(&mut breaches);
    breaches
}

fn worst_first(breaches: &mut [Breach]) {
    breaches.sort_by(|one, other| other.excess.cmp(&one.excess).then(one.subscriber.cmp(&other.subscriber)));
}

/// What a load is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge<'a> {
    /// The objectives.
    pub(super) slos: &'a [Slo],
    /// The machine.
    pub(super) machine: &'a Machine,
    /// The largest body.
    pub(super) body_bytes: u64,
    /// How it is simulated.
    pub(super) options: &'a Options,
}

impl Judge<'_> {
    /// What breaks, of the subscribers' objectives and of the machine's limits, the worst first.
    pub(super) fn breaches(&self, scenario: &Scenario, figures: &Figures) -> Vec<Breach> {
        let mut all = breaches(scenario, self.slos, figures);
        all.extend(self.machine.breaches(&Load::of(scenario, figures, self.body_bytes)));
        worst_first(&mut all);
        all
    }

    /// How a scenario is with a seed, or its own.
    pub(super) fn figures(&self, scenario: &Scenario, seed: Option<u64>) -> Result<Figures, SimError> {
        let options = Options { seed: seed.or(self.options.seed), ..self.options.clone() };
        simulated(scenario, &options).map(|simulated| simulated.figures)
    }

    /// Whether a subscriber by itself meets its objectives; the machine is not asked.
    pub(super) fn lane_holds(&self, lane: &Scenario) -> Result<bool, SimError> {
        Ok(breaches(lane, self.slos, &self.figures(lane, None)?).is_empty())
    }

    /// What breaks without a doubt, and need not be simulated: so many more events than the machine takes.
    fn surely_breaks(&self, present: &Figures, thousandths: u64) -> Option<Breach> {
        let events = in_proportion(present.busiest_offered.count, thousandths);
        let clear = self.machine.capacity()?.saturating_mul(5) / 4;
        let load = Load { peak_events: events, ..Load::default() };
        (events > clear).then(|| self.machine.breaches(&load)).and_then(|all| all.into_iter().next())
    }
}

fn in_proportion(per_second: u64, thousandths: u64) -> u64 {
    per_second.saturating_mul(thousandths) / AS_IT_STANDS
}

/// Looks for it; `present` is how it is with the traffic as it stands and the scenario's own seed.
pub(super) fn search(
    scenario: &Scenario,
    judge: &Judge<'_>,
    present: &Figures,
    asked: &Asked,
) -> Result<Headroom, SimError> {
    let own = asked.options.seed.unwrap_or(scenario.seed);
    let first = stretch(scenario, judge, present, own, None)?;
    let near = first.edge.holds.or(first.edge.fails).unwrap_or(AS_IT_STANDS);
    let seeds: Vec<u64> = (0..asked.seeds.max(1)).map(|more| own.wrapping_add(more)).collect();
    let others = in_parallel(seeds[1..].to_vec(), |seed| stretch(scenario, judge, present, seed, Some(near)));
    let curve = filled(first.curve.clone(), scenario, judge)?;
    let mut all = vec![first];
    all.extend(others.into_iter().collect::<Result<Vec<_>, _>>()?);
    let edges: Option<Vec<(u64, u64)>> = all.iter().map(|one| one.edge.holds.zip(one.edge.fails)).collect();
    let is_short = |one: &&Stretch| one.edge.fails.is_some_and(|fails| fails <= AS_IT_STANDS);
    let short = all.iter().filter(is_short).count() as u64;
    let carried = all.iter().map(|one| one.edge.holds).collect();
    let too_many = all.iter().any(|one| one.too_many);
    // The middle one, or the lower of two, is what is told.
    all.sort_by_key(|one| (one.edge.holds, one.edge.fails));
    let middle = all.swap_remove((all.len() - 1) / 2);
    let (carries, fails) = (middle.edge.holds, middle.edge.fails);
    let next = carries.map_or(AS_IT_STANDS, |held| (held / AS_IT_STANDS + 1) * AS_IT_STANDS);
    let mut headroom = Headroom {
        carries,
        fails,
        interval: edges.as_deref().and_then(Interval::of),
        seeds: carried,
        short,
        coarse: is_coarse(scenario),
        too_many,
        curve,
        breaks: middle.breaks,
        carry: asked.carry.unwrap_or(next),
        need: None,
        changes: Vec::new(),
        trial: None,
        hopeless: Vec::new(),
        unexamined: Vec::new(),
    };
    if fails.is_some_and(|fails| fails <= headroom.carry) {
        match advice::raise(scenario, judge, &seeds, &mut headroom) {
            // So much is not known to hold, and not known to be mended by anything.
            Err(SimError::Schedule(ScheduleError::TooMany)) => headroom.too_many = true,
            other => other?,
        }
    }
    Ok(headroom)
}

fn judged(
    scenario: &Scenario,
    load: u64,
    figures: &Figures,
    judge: &Judge<'_>,
) -> (Vec<Breach>, Option<Point>) {
    let broken = judge.breaches(scenario, figures);
    let point = Point::of(load, figures, broken.is_empty());
    (broken, Some(point))
}

/// The curve in the order of loads, with a few loads more where the search went over them, so that it can be seen how it
/// goes up.
fn filled(mut curve: Vec<Point>, scenario: &Scenario, judge: &Judge<'_>) -> Result<Vec<Point>, SimError> {
    /// Parts of the most that held.
    const PARTS: u64 = 4;
    let most = curve.iter().filter(|point| point.holds).map(|point| point.load).max().unwrap_or(0);
    if !is_coarse(scenario) {
        for load in (1..PARTS).map(|part| most * part / PARTS).filter(|load| *load > 0) {
            if curve.iter().all(|point| point.load.abs_diff(load) * 10 > load) {
                let scaled = scaled(scenario, load);
                let (_, point) = judged(&scaled, load, &judge.figures(&scaled, None)?, judge);
                curve.extend(point);
            }
        }
    }
    curve.sort_by_key(|point| point.load);
    Ok(curve)
}

/// What comes of each, on as many threads as there are cores, in their order.
pub(super) fn in_parallel<T: Copy + Sync, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let worker = || {
        while let Some((place, item)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, *item))
        } {
            let result = work(item);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    std::thread::scope(|scope| (0..cores.min(items.len())).for_each(|_| drop(scope.spawn(worker))));
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// How far it was followed.
struct Stretch {
    edge: Edge,
    /// What was not met at the least load that failed.
    breaks: Vec<Breach>,
    /// The loads that were simulated.
    curve: Vec<Point>,
    /// The search ended at a load that can't be simulated.
    too_many: bool,
}

/// Follows one seed: from the traffic as it stands, or from near where the edge of another seed was.
fn stretch(
    scenario: &Scenario,
    judge: &Judge<'_>,
    present: &Figures,
    seed: u64,
    near: Option<u64>,
) -> Result<Stretch, SimError> {
    // Less than a recording, or a part of one more, can't be played.
    let unit = if is_coarse(scenario) { AS_IT_STANDS } else { 1 };
    let mut seen = Edge { holds: None, fails: None };
    let (mut breaks, mut curve) = (Vec::new(), Vec::new());
    let (start, step) = near.map_or((AS_IT_STANDS, DOUBLE), |near| (near, NEAR));
    let found = edge(start / unit, step, |units| {
        let thousandths = units * unit;
        let (broken, point) = if let Some(breach) = judge.surely_breaks(present, thousandths) {
            (vec![breach], None)
        } else if near.is_none() && thousandths == AS_IT_STANDS {
            judged(scenario, thousandths, present, judge)
        } else {
            let scaled = scaled(scenario, thousandths);
            judged(&scaled, thousandths, &judge.figures(&scaled, Some(seed))?, judge)
        };
        curve.extend(point);
        let holds = broken.is_empty();
        if holds {
            seen.holds = seen.holds.max(Some(thousandths));
        } else if seen.fails.is_none_or(|fails| thousandths < fails) {
            (seen.fails, breaks) = (Some(thousandths), broken);
        }
        Ok::<bool, SimError>(holds)
    });
    match found {
        Ok(_) => Ok(Stretch { edge: seen, breaks, curve, too_many: false }),
        // Only more than this traffic can be too much: that much was simulated before.
        Err(SimError::Schedule(ScheduleError::TooMany)) => {
            Ok(Stretch { edge: seen, breaks, curve, too_many: true })
        }
        Err(error) => Err(error),
    }
}
