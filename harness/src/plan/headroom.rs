//! How many times this traffic still meets the objectives, by several seeds, and what breaks first.

use serde::Serialize;

use super::Asked;
use super::advice::{self, Advice};
use super::interval::Interval;
use super::judge::{Judge, in_parallel};
use super::scale::{AS_IT_STANDS, is_coarse, scaled};
use super::search::{DOUBLE, Edge, NEAR, edge};
use super::slo::{Breach, Measure, NEVER};
use crate::scenario::Scenario;
use crate::sim::SimError;
use crate::sim::figures::Figures;
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
    /// How long it takes at each load that was simulated with the scenario's own seed, in the order of loads; another seed
    /// may break a little sooner or later.
    pub curve: Vec<Point>,
    /// What breaks first, the worst before the others.
    pub breaks: Vec<Breach>,
    /// What the changes are to carry, in thousandths of this traffic.
    pub carry: u64,
    /// What would carry it.
    #[serde(flatten)]
    pub advice: Advice,
}

impl Headroom {
    /// The curve without what lies far beyond the edge: the search doubles, and that would flatten what comes before.
    pub(super) fn near(&self) -> impl Iterator<Item = &Point> {
        let far =
            self.carries.map_or(u64::MAX, |carries| carries.saturating_mul(2)).max(self.fails.unwrap_or(0));
        self.curve.iter().filter(move |point| point.load <= far)
    }
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

/// Looks for it; `present` is how it is with the traffic as it stands and the scenario's own seed.
pub(super) fn search(
    scenario: &Scenario,
    judge: &Judge<'_>,
    present: &Figures,
    asked: &Asked,
) -> Result<Headroom, SimError> {
    let own = judge.seed(scenario);
    let first = stretch(scenario, judge, present, own, None)?;
    // The edge of another seed is near that of this one, if it has one.
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
    // The middle one, or the lower of two, is what is told.
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
    // Where nothing broke and nothing is asked for, nobody needs advice.
    if fails.is_some() || asked.carry.is_some() {
        match advice::raise(scenario, judge, &seeds, headroom.carry) {
            Ok(advice) => headroom.advice = advice,
            // So much is not known to hold, and not known to be mended by anything.
            Err(SimError::Schedule(ScheduleError::TooMany)) => headroom.too_many = true,
            Err(error) => return Err(error),
        }
    }
    Ok(headroom)
}

fn judged(scenario: &Scenario, load: u64, figures: &Figures, judge: &Judge<'_>) -> (Vec<Breach>, Point) {
    let broken = judge.breaches(scenario, figures);
    let point = Point::of(load, figures, broken.is_empty());
    (broken, point)
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
                curve.push(point);
            }
        }
    }
    curve.sort_by_key(|point| point.load);
    Ok(curve)
}

/// How far a seed was followed.
#[derive(Default)]
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
    let (start, step) = near.map_or((AS_IT_STANDS, DOUBLE), |near| (near, NEAR));
    let mut seen = Stretch::default();
    let found = edge(start / unit, step, |units| seen.holds(scenario, judge, present, seed, units * unit));
    let mut tried = vec![found.map(drop)];
    // A search that begins beside the traffic as it stands may step over it, and whether that holds is what is asked first.
    if seen.edge.leaves_open(AS_IT_STANDS) {
        tried.push(seen.holds(scenario, judge, present, seed, AS_IT_STANDS).map(drop));
    }
    for outcome in tried {
        match outcome {
            Ok(()) => {}
            // Only more than this traffic can be too much, or as much of it by chance: it was simulated with the first seed.
            Err(SimError::Schedule(ScheduleError::TooMany)) => seen.too_many = true,
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

impl Stretch {
    /// Whether it holds at one load, which is noted.
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
    use crate::sim::Options;

    #[test]
    fn a_search_that_begins_beside_the_traffic_as_it_stands_says_whether_that_holds() {
        // Nobody is owed anything: the machine alone decides, which takes one event less than there are.
        let text = "name = \"beside\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1000/s\"\nlasts = \"3s\"\n\
                    [[subscriber]]\nname = \"a\"\nevents = [\"nothing.of.that\"]\n";
        let scenario = Scenario::from_text(text, "beside.toml").unwrap();
        let (machine, options) =
            (Machine { carries_per_second: Some(999), ..Machine::default() }, Options::default());
        let judge = Judge { slos: &[], machine: &machine, body_bytes: 0, options: &options };
        let present = judge.figures(&scenario, None).unwrap();
        assert_eq!(present.busiest_offered.count, 1_000);
        // From 980 it goes over 1,019 to 999, and that is near enough.
        let seen = stretch(&scenario, &judge, &present, scenario.seed + 1, Some(980)).unwrap();
        assert_eq!((seen.edge.holds, seen.edge.fails), (Some(999), Some(1_000)), "1,000 was stepped over");
        assert!(seen.curve.iter().all(|point| point.load != 1_000 || !point.holds));
    }
}
