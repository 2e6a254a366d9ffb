//! The highest multiple of this traffic that meets the objectives, by several seeds.

use hookproof_judge::scenario::{Scenario, Subscriber};
use hookproof_play::traffic::ScheduleError;
use serde::Serialize;

use super::PlanRequest;
use super::advice::{self, Advice};
use super::interval::Interval;
use super::judge::{Judge, in_parallel};
use super::scale::{AS_IT_STANDS, is_coarse, scaled};
use super::search::{DOUBLE, Edge, NEAR, edge};
use super::slo::{Breach, Measure, NEVER, Slo};
use crate::sim::SimError;
use crate::sim::figures::Figures;

#[derive(Clone, Debug, Serialize)]
pub struct Headroom {
    /// In thousandths of this traffic; none if no tried load held.
    pub carries: Option<u64>,
    /// None if no tried load failed.
    pub fails: Option<u64>,
    /// Predicts another seed; none for one seed, or where a seed has no edge.
    pub interval: Option<Interval>,
    /// Highest loads, the scenario's own seed first; none if no tried load held.
    pub seeds: Vec<Option<u64>>,
    /// Seeds with which the present traffic fails.
    pub short: u64,
    /// Only whole multiples: a recording is played whole.
    pub coarse: bool,
    /// The search stopped at a load with too many events to simulate.
    pub too_many: bool,
    /// The times at each simulated load with the scenario's own seed, in the order of loads. Other seeds
    /// break slightly earlier or later.
    pub curve: Vec<Point>,
    /// Breaches at the lowest load that failed, the worst first.
    pub breaks: Vec<Breach>,
    /// In thousandths of this traffic.
    pub carry: u64,
    #[serde(flatten)]
    pub advice: Advice,
}

impl Headroom {
    /// The curve without loads far beyond the edge: the search doubles, and those points would flatten the
    /// others.
    pub(super) fn near(&self) -> impl Iterator<Item = &Point> {
        let far =
            self.carries.map_or(u64::MAX, |carries| carries.saturating_mul(2)).max(self.fails.unwrap_or(0));
        self.curve.iter().filter(move |point| point.load <= far)
    }
}

/// The times of the slowest subscriber under an objective for them, or under any, at one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// In thousandths of this traffic.
    pub load: u64,
    /// The 95th percentile of the time until a delivery is taken, in nanoseconds; none if too many never are.
    pub p95_ns: Option<u64>,
    /// The time from the end of the traffic until the backlog is gone, in nanoseconds; none if it is not gone
    /// in the simulated time.
    pub drain_ns: Option<u64>,
    pub holds: bool,
}

impl Point {
    fn of(load: u64, scenario: &Scenario, figures: &Figures, slos: &[Slo], holds: bool) -> Self {
        let slowest = |measure: Measure| {
            let own = |slo: &&Slo| slo.measure.is_like(measure);
            let is_any = !slos.iter().any(|slo| own(&slo));
            let concerned = |subscriber: &Subscriber| {
                slos.iter().filter(|slo| is_any || own(slo)).any(|slo| slo.concerns(subscriber))
            };
            let lanes = scenario.subscribers.iter().zip(&figures.lanes);
            let all = lanes.filter(|(one, _)| concerned(one)).map(|(_, lane)| measure.of(lane, figures));
            all.max().filter(|length| *length != NEVER)
        };
        let (p95_ns, drain_ns) = (slowest(Measure::Latency(950)), slowest(Measure::Drain));
        Self { load, p95_ns, drain_ns, holds }
    }
}

/// `present` are the figures of the present traffic with the scenario's own seed.
pub(super) fn search(
    scenario: &Scenario,
    judge: &Judge<'_>,
    present: &Figures,
    asked: &PlanRequest,
) -> Result<Headroom, SimError> {
    let own = judge.seed(scenario);
    let first = stretch(scenario, judge, present, own, None)?;
    // The edges of other seeds are near this one.
    let near = first.edge.fails.and(first.edge.holds);
    let seeds: Vec<u64> = (0..asked.seeds.max(1)).map(|more| own.wrapping_add(more)).collect();
    let others = in_parallel(seeds[1..].to_vec(), |seed| stretch(scenario, judge, present, seed, near));
    let curve = filled(first.curve.clone(), scenario, judge)?;
    let mut all = vec![first];
    all.extend(others.into_iter().collect::<Result<Vec<_>, _>>()?);
    let edges: Option<Vec<(u64, u64)>> = all.iter().map(|one| one.edge.holds.zip(one.edge.fails)).collect();
    let is_short = |one: &&Stretch| one.edge.fails.is_some_and(|fails| fails <= AS_IT_STANDS);
    let short = all.iter().filter(is_short).count() as u64;
    let carried = all.iter().map(|one| one.edge.holds).collect();
    let too_many = all.iter().any(|one| one.too_many);
    // The median, or the lower of two.
    all.sort_by_key(|one| (one.edge.holds, one.edge.fails));
    let middle = all.swap_remove((all.len() - 1) / 2);
    let (carries, fails) = (middle.edge.holds, middle.edge.fails);
    let next = carries.map_or(AS_IT_STANDS, |held| (held / AS_IT_STANDS + 1).saturating_mul(AS_IT_STANDS));
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
        advice: Advice::default(),
    };
    // Without a breach and without a requested load there is nothing to advise.
    if fails.is_some() || asked.carry.is_some() {
        match advice::raise(scenario, judge, &seeds, headroom.carry) {
            Ok(advice) => headroom.advice = advice,
            // So large a load cannot be simulated, so no change can be shown to carry it.
            Err(SimError::Schedule(ScheduleError::TooMany)) => headroom.too_many = true,
            Err(error) => return Err(error),
        }
    }
    Ok(headroom)
}

fn judged(scenario: &Scenario, load: u64, figures: &Figures, judge: &Judge<'_>) -> (Vec<Breach>, Point) {
    let broken = judge.breaches(scenario, figures);
    let point = Point::of(load, scenario, figures, judge.slos, broken.is_empty());
    (broken, point)
}

/// In the order of loads, with more points in the gaps of the search.
fn filled(mut curve: Vec<Point>, scenario: &Scenario, judge: &Judge<'_>) -> Result<Vec<Point>, SimError> {
    /// Fractions of the highest load that held.
    const PARTS: u64 = 4;
    let most = curve.iter().filter(|point| point.holds).map(|point| point.load).max().unwrap_or(0);
    if !is_coarse(scenario) {
        for load in (1..PARTS).map(|part| most * part / PARTS).filter(|load| *load > 0) {
            if curve.iter().all(|point| point.load.abs_diff(load) * 10 > load) {
                let scaled = scaled(scenario, load);
                let (_, point) = judged(&scaled, load, &judge.figures(&scaled, None)?, judge);
                curve.push(point);
            }
        }
    }
    curve.sort_by_key(|point| point.load);
    Ok(curve)
}

#[derive(Default)]
struct Stretch {
    edge: Edge,
    breaks: Vec<Breach>,
    curve: Vec<Point>,
    too_many: bool,
}

/// From the present traffic, or from near another seed's edge.
fn stretch(
    scenario: &Scenario,
    judge: &Judge<'_>,
    present: &Figures,
    seed: u64,
    near: Option<u64>,
) -> Result<Stretch, SimError> {
    // A recording is played in whole multiples only.
    let unit = if is_coarse(scenario) { AS_IT_STANDS } else { 1 };
    let (start, step) = near.map_or((AS_IT_STANDS, DOUBLE), |near| (near, NEAR));
    let mut seen = Stretch::default();
    let found = edge(start / unit, step, |units| seen.holds(scenario, judge, present, seed, units * unit));
    let mut tried = vec![found.map(drop)];
    // A search from elsewhere may step over the present traffic, whose verdict is always wanted.
    if seen.edge.leaves_open(AS_IT_STANDS) {
        tried.push(seen.holds(scenario, judge, present, seed, AS_IT_STANDS).map(drop));
    }
    for outcome in tried {
        match outcome {
            Ok(()) => {}
            // Only a larger load, or by chance another seed, can have too many events.
            Err(SimError::Schedule(ScheduleError::TooMany)) => seen.too_many = true,
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

impl Stretch {
    /// Records the result.
    fn holds(
        &mut self,
        scenario: &Scenario,
        judge: &Judge<'_>,
        present: &Figures,
        seed: u64,
        thousandths: u64,
    ) -> Result<bool, SimError> {
        let broken = if let Some(breach) = judge.surely_breaks(present, thousandths) {
            vec![breach]
        } else {
            let is_present = seed == judge.seed(scenario) && thousandths == AS_IT_STANDS;
            let scaled = scaled(scenario, thousandths);
            let figures = if is_present { None } else { Some(judge.figures(&scaled, Some(seed))?) };
            let (broken, point) = judged(&scaled, thousandths, figures.as_ref().unwrap_or(present), judge);
            self.curve.push(point);
            broken
        };
        let holds = broken.is_empty();
        if holds {
            self.edge.holds = self.edge.holds.max(Some(thousandths));
        } else if self.edge.fails.is_none_or(|fails| thousandths < fails) {
            (self.edge.fails, self.breaks) = (Some(thousandths), broken);
        }
        Ok(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::machine::Machine;
    use crate::plan::simulated;
    use crate::sim::Options;

    #[test]
    fn a_search_that_begins_beside_the_traffic_as_it_stands_says_whether_that_holds() {
        // No event is owed, so the machine alone decides; it carries one event less than the load.
        let text = "name = \"beside\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1000/s\"\nlasts = \"3s\"\n\
                    [[subscriber]]\nname = \"a\"\nevents = [\"nothing.of.that\"]\n";
        let scenario = Scenario::from_text(text, "beside.toml").unwrap();
        let (machine, options) =
            (Machine { carries_per_second: Some(999), ..Machine::default() }, Options::default());
        let judge = Judge { slos: &[], machine: &machine, body_bytes: 0, options: &options };
        let present = judge.figures(&scenario, None).unwrap();
        assert_eq!(present.busiest_offered.count, 1_000);
        // The search goes 980, 1,019, 999, which is close enough.
        let seen = stretch(&scenario, &judge, &present, scenario.seed + 1, Some(980)).unwrap();
        assert_eq!((seen.edge.holds, seen.edge.fails), (Some(999), Some(1_000)), "1,000 was stepped over");
        assert!(seen.curve.iter().all(|point| point.load != 1_000 || !point.holds));
    }

    #[test]
    fn the_slowest_is_one_under_an_objective() {
        let text = "name = \"two\"\n[[traffic]]\nshape = \"burst\"\nevents = 9\n[[subscriber]]\nname = \"a\"\n\
                    [[subscriber]]\nname = \"b\"\nlimit = { rate = \"1/s\", burst = 1 }\n";
        let scenario = Scenario::from_text(text, "two.toml").unwrap();
        let figures = simulated(&scenario, &Options::default()).unwrap();
        let p95 = |slos: &[&str]| {
            let slos: Vec<Slo> = slos.iter().map(|slo| slo.parse().unwrap()).collect();
            Point::of(1_000, &scenario, &figures, &slos, true).p95_ns.unwrap() / 1_000_000_000
        };
        let (all, one) = (p95(&["p95<1min"]), p95(&["a.p95<1min", "b.shed=0"]));
        assert!(all >= 7 && one == 0, "{all} s and {one} s");
        assert_eq!(p95(&["shed=0"]), all, "without an objective for times");
    }
}
