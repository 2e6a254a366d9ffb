//! The plan of a launch: how much traffic it carries, what breaks first, and which changes carry more.
//!
//! ```text
//!  Scenario ──► simulated as it stands ──► per subscriber ── beside the bounds of network calculus
//!     └──────► simulated at 2×, 4×, 3× … ──► headroom ──► first breach ──► the same with one limit raised ──► changes
//! ```
//!
//! All but `live` are functions of the scenario and of the machine's figures.

pub mod advice;
pub mod bound;
pub mod forecast;
pub mod headroom;
pub mod interval;
pub mod judge;
pub mod launch;
mod live;
pub mod machine;
mod page;
mod patch;
pub mod retries;
mod rows;
pub mod sample;
pub mod scale;
pub mod search;
mod service;
mod sheet;
pub mod slo;
mod table;

use serde::Serialize;

use hookproof_judge::check::verdict::show;
use hookproof_judge::scenario::{SECOND, Scenario, Subscriber};
use hookproof_play::traffic::Schedule;
pub use live::{Live, LiveError, with_live, with_recorded};
pub use page::page;
pub use patch::with_patch;
pub use service::service;
pub use sheet::{is_sheet, sheets};
pub use table::{answer, table};

use crate::sim::figures::{Figures, LaneFigures};
use crate::sim::{Model, Options, SimError};
use bound::Bounds;
use forecast::{Forecast, all_bounds};
use headroom::Headroom;
use judge::Judge;
use launch::Condition;
use machine::{Load, Machine};
use retries::Retries;
use sample::{Sample, Sampled};
use slo::{Breach, Slo};

#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The objectives; the usual ones if there are none.
    pub slos: Vec<Slo>,
    /// In thousandths; by default the next whole multiple.
    pub carry: Option<u64>,
    pub headroom: bool,
    /// The scenario's own first; 0 counts as 1.
    pub seeds: u64,
    pub machine: Machine,
    pub conditions: Vec<Condition>,
    pub options: Options,
}

#[derive(Clone, Debug, Serialize)]
pub struct LanePlan {
    pub name: String,
    pub group: String,
    pub owed: u64,
    pub peak_rows: u64,
    pub peak_bytes: u64,
    pub peak_at_ns: u64,
    /// The time from the end of the traffic until its backlog is gone, in nanoseconds; none if some is left
    /// at the end of the run.
    pub drain_ns: Option<u64>,
    /// Deliveries left at the end of the run.
    pub left: u64,
    /// From an event's moment until its delivery is taken: p50, p95, p99; none where too many never are.
    pub latency_ns: [Option<u64>; 3],
    /// Deliveries shed from a full queue, or refused for it.
    pub shed: u64,
    pub expired: u64,
    pub dead: u64,
    pub never_recovers: bool,
    pub bound: Result<BoundPlan, &'static str>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct BoundPlan {
    pub service_millihertz: u64,
    /// The burst of its arrivals at that rate.
    pub burst: u64,
    pub backlog: u64,
    pub delay_ns: u64,
    pub drain_ns: u64,
}

/// Endpoints that fail every request from some moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Down {
    pub endpoints: u64,
    /// Some may end as such after the run.
    pub dead_letters: u64,
    /// The greatest age of a delivery, in nanoseconds; each is a dead letter by then.
    pub by_ns: u64,
}

impl Down {
    fn of(scenario: &Scenario, lanes: &[LanePlan]) -> Option<Self> {
        let both = scenario.subscribers.iter().zip(lanes).filter(|(_, lane)| lane.never_recovers);
        let mut all = Self { endpoints: 0, dead_letters: 0, by_ns: 0 };
        for (subscriber, lane) in both {
            all.endpoints += 1;
            all.dead_letters += lane.dead + lane.left;
            all.by_ns = all.by_ns.max(subscriber.retry.ttl.0);
        }
        (all.endpoints > 0).then_some(all)
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct MachinePlan {
    #[serde(flatten)]
    pub load: Load,
    pub limits: Machine,
}

#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub scenario: String,
    pub conditions: Vec<Condition>,
    pub objectives: Vec<Slo>,
    /// The present traffic's, the worst first.
    pub breaches: Vec<Breach>,
    /// Because of a full queue or no running process.
    pub refused: u64,
    pub lanes: Vec<LanePlan>,
    /// Kinds of subscribers of which some stand for all.
    pub sampled: Vec<Sampled>,
    pub down: Option<Down>,
    /// None without any.
    pub retries: Option<Retries>,
    pub machine: MachinePlan,
    /// The modelled range, at every load.
    pub commit_ns: (u64, u64),
    pub headroom: Option<Headroom>,
    /// Simulated figures beyond their bounds: the model is wrong.
    pub model_errors: Vec<String>,
    #[serde(skip)]
    pub figures: Option<Figures>,
}

impl Plan {
    /// Whether this traffic meets its objectives with every seed, and the model is right.
    #[must_use]
    pub fn holds(&self) -> bool {
        let short = self.headroom.as_ref().map_or(0, |headroom| headroom.short);
        self.model_errors.is_empty() && self.breaches.is_empty() && short == 0
    }

    /// Breaches of the present traffic, or of the lowest load that fails.
    fn missed(&self) -> &[Breach] {
        let beyond = || self.headroom.as_ref().map_or(&[][..], |headroom| &headroom.breaks);
        if self.breaches.is_empty() { beyond() } else { &self.breaches }
    }
}

///
/// # Errors When the traffic can't be scheduled.
pub fn forecast(scenario: &Scenario, options: &Options) -> Result<Forecast, SimError> {
    let seed = options.seed.unwrap_or(scenario.seed);
    let mut schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &options.folder)?;
    if let Some(until) = options.until {
        schedule = schedule.before(until);
    }
    let model = options.model.unwrap_or_else(|| model(scenario, &schedule));
    let sample = Sample::of(scenario, options.sample);
    let of = |scenario: &Scenario| Forecast::of(scenario, &schedule, model.commit_ns.1);
    let all = of(scenario);
    let steps = if sample.sampled.is_empty() { all.steps } else { of(sample.scenario()).steps };
    Ok(Forecast { steps, ..all })
}

/// # Errors When the scenario can't be simulated.
pub fn plan(scenario: &Scenario, asked: &PlanRequest) -> Result<Plan, SimError> {
    plan_telling(scenario, asked, |_| {})
}

/// `first` gets the plan for the present traffic before the search for the headroom, which takes much longer.
///
/// # Errors When the scenario can't be simulated.
pub fn plan_telling(
    scenario: &Scenario,
    asked: &PlanRequest,
    first: impl FnOnce(&Plan),
) -> Result<Plan, SimError> {
    let slos = if asked.slos.is_empty() { usual(scenario) } else { asked.slos.clone() };
    let scenario = &long_enough(scenario, &slos);
    let seed = asked.options.seed.unwrap_or(scenario.seed);
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &asked.options.folder)?;
    let model = asked.options.model.unwrap_or_else(|| model(scenario, &schedule));
    let asked =
        &PlanRequest { options: Options { model: Some(model), ..asked.options.clone() }, ..asked.clone() };
    let figures = simulated(scenario, &asked.options)?;
    let all = all_bounds(scenario, &schedule, model.commit_ns.1);
    let (mut lanes, mut model_errors) = (Vec::new(), Vec::new());
    for ((subscriber, lane), (service, found)) in scenario.subscribers.iter().zip(&figures.lanes).zip(all) {
        if let Some(bounds) = &found {
            model_errors.extend(beyond(lane, bounds, &figures));
        }
        let bound = found.ok_or_else(|| service::why_unbounded(scenario, subscriber));
        lanes.push(lane_plan(
            subscriber,
            lane,
            &figures,
            bound.map(|bounds| bound_plan(&bounds, service.millihertz, &figures)),
        ));
    }
    let body_bytes = schedule.due().iter().map(|due| u64::from(due.bytes)).max().unwrap_or(0);
    let judge = Judge { slos: &slos, machine: &asked.machine, body_bytes, options: &asked.options };
    let mut plan = Plan {
        scenario: scenario.name.clone(),
        conditions: asked.conditions.clone(),
        objectives: slos.clone(),
        breaches: judge.breaches(scenario, &figures),
        refused: figures.refused,
        down: Down::of(scenario, &lanes),
        retries: Retries::of(scenario, &figures, &asked.options)?,
        lanes,
        sampled: Sample::of(scenario, asked.options.sample).sampled,
        machine: MachinePlan {
            load: Load::of(scenario, &figures, body_bytes),
            limits: asked.machine.clone(),
        },
        commit_ns: model.commit_ns,
        headroom: None,
        model_errors,
        figures: Some(figures),
    };
    if let Some(figures) = plan.figures.as_ref().filter(|_| asked.headroom) {
        first(&plan);
        plan.headroom = Some(headroom::search(scenario, &judge, figures, asked)?);
    }
    Ok(plan)
}

/// Up to this length, runs use close commits regardless of their events.
const CLOSE_NS: u64 = 600 * SECOND;

/// The model's times, equal for every load: otherwise the search would find a change of the model instead of
/// a breach.
fn model(scenario: &Scenario, schedule: &Schedule) -> Model {
    let lasts_ns = schedule.lasts().saturating_add(scenario.drain.0);
    let fitting = Model::fitting(lasts_ns, schedule.due().len());
    if lasts_ns <= CLOSE_NS { Model { commit_ns: Model::CLOSE.commit_ns, ..fitting } } else { fitting }
}

/// By default: nothing is shed or expires, and the backlog drains within the scenario's `drain`.
fn usual(scenario: &Scenario) -> Vec<Slo> {
    let drain = format!("drain<={}", scenario.drain);
    ["shed=0", "expired=0", &drain].iter().filter_map(|text| text.parse().ok()).collect()
}

/// Extends the drain beyond the longest objective, so that later deliveries count as late rather than cut
/// off.
fn long_enough(scenario: &Scenario, slos: &[Slo]) -> Scenario {
    let times = slos.iter().filter(|slo| slo.measure.is_time());
    let longest = times.map(|slo| slo.most.saturating_add(slo.most / 4)).max().unwrap_or(0);
    let mut longer = scenario.clone();
    longer.drain.0 = longer.drain.0.max(longest.saturating_add(SECOND));
    longer
}

pub(super) fn simulated(scenario: &Scenario, options: &Options) -> Result<Figures, SimError> {
    Sample::of(scenario, options.sample).simulate(scenario, options)
}

fn lane_plan(
    subscriber: &Subscriber,
    lane: &LaneFigures,
    figures: &Figures,
    bound: Result<BoundPlan, &'static str>,
) -> LanePlan {
    LanePlan {
        name: lane.name.clone(),
        group: subscriber.group.clone(),
        owed: lane.owed,
        peak_rows: lane.peak.rows,
        peak_bytes: lane.peak.bytes,
        peak_at_ns: lane.peak.at,
        drain_ns: came(slo::Measure::Drain.of(lane, figures)),
        left: lane.left,
        latency_ns: [500, 950, 990]
            .map(|thousandths| came(slo::Measure::Latency(thousandths).of(lane, figures))),
        shed: slo::Measure::Shed.of(lane, figures),
        expired: lane.dead[1],
        dead: lane.given_up(),
        never_recovers: service::never_recovers(subscriber),
        bound,
    }
}

fn came(nanos: u64) -> Option<u64> {
    (nanos != slo::NEVER).then_some(nanos)
}

fn bound_plan(bounds: &Bounds, millihertz: u64, figures: &Figures) -> BoundPlan {
    BoundPlan {
        service_millihertz: millihertz,
        burst: bounds.burst,
        backlog: bounds.backlog,
        delay_ns: bounds.delay_ns,
        drain_ns: bounds.empty_at.saturating_sub(figures.traffic_end),
    }
}

/// A simulated figure beyond its bound means that one of the two is wrong.
fn beyond(lane: &LaneFigures, bounds: &Bounds, figures: &Figures) -> Vec<String> {
    let mut errors = Vec::new();
    let mut compare = |what: &str, seen: u64, most: u64, told: [String; 2]| {
        if seen > most {
            let [seen, most] = told;
            errors.push(format!(
                "{}: {what} of {seen} exceeds its bound of {most}: the model is wrong",
                lane.name
            ));
        }
    };
    let count = |figures: [u64; 2]| figures.map(|figure| figure.to_string());
    compare("a backlog", lane.peak.rows, bounds.backlog, count([lane.peak.rows, bounds.backlog]));
    let slowest = lane.slowest.iter().map(|(_, slowest)| *slowest).max().unwrap_or(0);
    compare("a delay", slowest, bounds.delay_ns, [slowest, bounds.delay_ns].map(show));
    let busy = lane.busy_until.min(figures.end);
    compare("a backlog until", busy, bounds.empty_at, [busy, bounds.empty_at].map(show));
    errors
}

#[cfg(test)]
mod tests {
    use super::bound::bounds;
    use super::*;
    use crate::sim::{Keep, simulate};

    const SMALL: &str = r#"
        name = "small"
        about = "A burst that waits."
        seed = 1
        drain = "60s"

        [[traffic]]
        shape = "steady"
        rate = "20/s"
        lasts = "5s"

        [[subscriber]]
        name = "partner"
        events = ["*"]
        limit = { rate = "10/s", burst = 5, in_flight = 4 }
        answers = "10ms..20ms"
    "#;

    #[test]
    fn events_that_nobody_receives_are_counted_and_not_played() {
        let many = SMALL.replace("\"20/s\"", "\"4000/s\"").replace("\"*\"", "\"a\"");
        let scenario =
            Scenario::from_text(&format!("{many}[events]\ntypes = {{ a = 1, b = 399 }}\n"), "many.toml")
                .unwrap();
        let [played, counted] = [Keep::Trace, Keep::Figures]
            .map(|keep| simulate(&scenario, &Options { keep, ..Options::default() }).unwrap().figures);
        assert_eq!((counted.offered, counted.lanes[0].owed), (20_000, played.lanes[0].owed));
        assert_eq!(counted.lanes[0].delivered, counted.lanes[0].owed);
        assert!(counted.commits < played.commits, "{} and {}", counted.commits, played.commits);
        let bytes = [played.database_bytes, counted.database_bytes];
        assert!(bytes[0].abs_diff(bytes[1]) < bytes[0] / 4, "{bytes:?}");
    }

    #[test]
    fn a_figure_beyond_its_bound_is_said_to_be_an_error_of_the_model() {
        let scenario = Scenario::from_text(SMALL, "small.toml").unwrap();
        let figures = simulated(&scenario, &Options::default()).unwrap();
        let seed = scenario.seed;
        let schedule =
            Schedule::compute(&scenario.traffic, &scenario.events, seed, std::path::Path::new(".")).unwrap();
        let moments: Vec<u64> = schedule.due().iter().map(|due| due.at).collect();
        let bounds =
            bounds(&moments, &service(&scenario, &scenario.subscribers[0], Model::CLOSE.commit_ns.1, false))
                .unwrap();
        let lane = &figures.lanes[0];
        assert!(lane.peak.rows > 0, "something waited");
        assert_eq!(beyond(lane, &bounds, &figures), [""; 0]);
        // Each figure beyond its bound is reported with both numbers.
        let tight = Bounds { backlog: lane.peak.rows - 1, delay_ns: 1, empty_at: 1, ..bounds };
        let said = beyond(lane, &tight, &figures);
        assert_eq!(said.len(), 3, "{said:?}");
        let backlog =
            format!("partner: a backlog of {} exceeds its bound of {}", lane.peak.rows, tight.backlog);
        assert!(said[0].starts_with(&backlog), "{said:?}");
        // A figure at its bound is valid.
        let exact = Bounds { backlog: lane.peak.rows, ..bounds };
        assert_eq!(beyond(lane, &exact, &figures), [""; 0]);
    }
}
