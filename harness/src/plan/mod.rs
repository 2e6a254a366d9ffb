//! The launch question: how far does it stretch, what breaks first, and what would carry it?
//!
//! ```text
//!  Scenario ──► simulated as it stands ──► per subscriber ── beside the bounds of network calculus
//!     └──────► simulated at 2×, 4×, 3× … ──► headroom ──► what broke ──► the same with one limit raised ──► changes
//! ```
//!
//! - `slo`: objectives. - `search`: where something stops to hold. - `scale`: the scenario otherwise.
//! - `bound`, `service`: what can't be exceeded, by arithmetic. - `live`: subscribers from a sender's database.
//! - `launch`: what if, before it is planned. - `machine`: what it carries, as a limit beside the objectives.
//! - `judge`: all of that held against a load. - `headroom`: how far. - `interval`: and with other seeds. - `advice`, `patch`: what would carry more, as settings.
//! - `table`, `page`: what people read. - `sheet`: what a partner reads.
//!
//! All but `live` is a function of the scenario. What the machine can do comes in as figures.

pub mod advice;
pub mod bound;
pub mod headroom;
pub mod interval;
pub mod judge;
pub mod launch;
mod live;
pub mod machine;
mod page;
mod patch;
pub mod scale;
pub mod search;
mod service;
mod sheet;
pub mod slo;
mod table;

use serde::Serialize;

pub use live::{Live, LiveError, with_live, with_recorded};
pub use page::page;
pub use patch::with_patch;
pub use service::service;
pub use sheet::{is_sheet, sheets};
pub use table::{answer, table};

use crate::check::verdict::show;
use crate::scenario::{SECOND, Scenario};
use crate::sim::figures::{Figures, LaneFigures};
use crate::sim::{Keep, Model, Options, SimError, Simulated, simulate};
use crate::traffic::Schedule;
use bound::{Bounds, bounds};
use headroom::Headroom;
use judge::Judge;
use launch::Condition;
use machine::{Load, Machine};
use slo::{Breach, Slo};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What has to hold; the usual objectives where there are none.
    pub slos: Vec<Slo>,
    /// In thousandths, what the changes are to carry; the next whole multiple where nothing is said.
    pub carry: Option<u64>,
    /// Whether the headroom is looked for.
    pub headroom: bool,
    /// With how many seeds it is looked for, the scenario's own first; 0 counts as 1.
    pub seeds: u64,
    /// What the machine can do.
    pub machine: Machine,
    /// What the scenario that is planned has otherwise than its file says.
    pub conditions: Vec<Condition>,
    /// How it is simulated.
    pub options: Options,
}

/// One subscriber's side of the plan.
#[derive(Clone, Debug, Serialize)]
pub struct LanePlan {
    /// Its name.
    pub name: String,
    /// What is owed to it.
    pub owed: u64,
    /// The most that waited: rows, bytes, and when.
    pub peak_rows: u64,
    /// Bytes of bodies at the most.
    pub peak_bytes: u64,
    /// When the rows were the most, in nanoseconds.
    pub peak_at_ns: u64,
    /// How long after the traffic its backlog was gone; none if some of it still waited at the end of the run.
    pub drain_ns: Option<u64>,
    /// What still waited at the end of the run.
    pub left: u64,
    /// From an event's moment until its delivery was taken: p50, p95, p99; none where so many never were.
    pub latency_ns: [Option<u64>; 3],
    /// Deliveries shed as the queue was full, and those whose event was refused for it.
    pub shed: u64,
    /// Deliveries that grew too old.
    pub expired: u64,
    /// What can't be exceeded; or why nothing is sure.
    pub bound: Result<BoundPlan, &'static str>,
}

/// The bounds of one subscriber.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BoundPlan {
    /// Deliveries a thousand seconds that are surely served.
    pub service_millihertz: u64,
    /// The burst of its arrivals over that rate.
    pub burst: u64,
    /// Deliveries that wait, at most.
    pub backlog: u64,
    /// How long one waits, at most.
    pub delay_ns: u64,
    /// How long after the traffic its backlog is gone at the latest.
    pub drain_ns: u64,
}

/// What the machine has to do, beside what it can do.
#[derive(Clone, Debug, Serialize)]
pub struct MachinePlan {
    /// What this traffic asks of it.
    #[serde(flatten)]
    pub load: Load,
    /// What it can do.
    pub limits: Machine,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Of which scenario.
    pub scenario: String,
    /// What is otherwise than the scenario says.
    pub conditions: Vec<Condition>,
    /// The objectives.
    pub objectives: Vec<String>,
    /// Those that the traffic as it stands does not meet, the worst first.
    pub breaches: Vec<Breach>,
    /// Events that the sender did not take: a queue was full that refuses, or no process was there.
    pub refused: u64,
    /// Each subscriber.
    pub lanes: Vec<LanePlan>,
    /// The machine.
    pub machine: MachinePlan,
    /// A commit is modelled to take from so long to so long, at every load.
    pub commit_ns: (u64, u64),
    /// How far it stretches, if that was asked.
    pub headroom: Option<Headroom>,
    /// Simulated figures beyond their bounds: the model is wrong there.
    pub model_errors: Vec<String>,
    /// What the charts need.
    #[serde(skip)]
    pub figures: Option<Figures>,
}

impl Plan {
    /// Whether this traffic meets its objectives, in every seed that was tried, and the model is right.
    #[must_use]
    pub fn holds(&self) -> bool {
        let short = self.headroom.as_ref().map_or(0, |headroom| headroom.short);
        self.model_errors.is_empty() && self.breaches.is_empty() && short == 0
    }
}

/// Plans.
///
/// # Errors
/// When the scenario can't be simulated.
pub fn plan(scenario: &Scenario, asked: &Asked) -> Result<Plan, SimError> {
    let slos = if asked.slos.is_empty() { usual(scenario) } else { asked.slos.clone() };
    let scenario = &long_enough(scenario, &slos);
    let seed = asked.options.seed.unwrap_or(scenario.seed);
    let schedule = Schedule::compute(&scenario.traffic, &scenario.events, seed, &asked.options.folder)?;
    let model = asked.options.model.unwrap_or_else(|| model(scenario, &schedule));
    let asked = &Asked { options: Options { model: Some(model), ..asked.options.clone() }, ..asked.clone() };
    let figures = simulated(scenario, &asked.options)?.figures;
    let kinds: Vec<&str> = schedule.types().collect();
    let (mut lanes, mut model_errors) = (Vec::new(), Vec::new());
    for (subscriber, lane) in scenario.subscribers.iter().zip(&figures.lanes) {
        let owed: Vec<bool> = kinds.iter().map(|kind| subscriber.is_owed(kind)).collect();
        let due = schedule.due().iter().filter(|due| owed.get(due.kind as usize).copied().unwrap_or(false));
        let moments: Vec<u64> = due.map(|due| due.at).collect();
        let service = service(scenario, subscriber, model.commit_ns.1);
        let found = bounds(&moments, &service);
        if let Some(bounds) = &found {
            model_errors.extend(beyond(lane, bounds, &figures));
        }
        let bound = found.ok_or_else(|| service::why_unbounded(scenario, subscriber));
        lanes.push(lane_plan(
            lane,
            &figures,
            bound.map(|bounds| told(&bounds, service.millihertz, &figures)),
        ));
    }
    let body_bytes = schedule.due().iter().map(|due| u64::from(due.bytes)).max().unwrap_or(0);
    let judge = Judge { slos: &slos, machine: &asked.machine, body_bytes, options: &asked.options };
    let headroom = asked.headroom.then(|| headroom::search(scenario, &judge, &figures, asked));
    Ok(Plan {
        scenario: scenario.name.clone(),
        conditions: asked.conditions.clone(),
        objectives: slos.iter().map(ToString::to_string).collect(),
        breaches: judge.breaches(scenario, &figures),
        refused: figures.refused,
        lanes,
        machine: MachinePlan {
            load: Load::of(scenario, &figures, body_bytes),
            limits: asked.machine.clone(),
        },
        commit_ns: model.commit_ns,
        headroom: headroom.transpose()?,
        model_errors,
        figures: Some(figures),
    })
}

/// Runs of so long have close commits, however many events there are.
const CLOSE_NS: u64 = 600 * SECOND;

/// The times of the world, which are the same for every load: were commits longer at a larger one, the search would find
/// where the model changes, and not where the objectives break.
fn model(scenario: &Scenario, schedule: &Schedule) -> Model {
    let lasts_ns = schedule.lasts().saturating_add(scenario.drain.0);
    let fitting = Model::fitting(lasts_ns, schedule.due().len());
    if lasts_ns <= CLOSE_NS { Model { commit_ns: Model::CLOSE.commit_ns, ..fitting } } else { fitting }
}

/// Nothing is shed or expires, and the backlog has drained when the scenario says.
fn usual(scenario: &Scenario) -> Vec<Slo> {
    let drain = format!("drain<={}", scenario.drain);
    ["shed=0", "expired=0", &drain].iter().filter_map(|text| text.parse().ok()).collect()
}

/// The scenario with as much time after its traffic as the longest objective allows, and some more: what is not over then
/// is beyond it, and not just cut off.
fn long_enough(scenario: &Scenario, slos: &[Slo]) -> Scenario {
    let times = slos.iter().filter(|slo| slo.measure.is_time());
    let longest = times.map(|slo| slo.most.saturating_add(slo.most / 4)).max().unwrap_or(0);
    let mut longer = scenario.clone();
    longer.drain.0 = longer.drain.0.max(longest.saturating_add(SECOND));
    longer
}

pub(super) fn simulated(scenario: &Scenario, options: &Options) -> Result<Simulated, SimError> {
    simulate(scenario, &Options { keep: Keep::Figures, ..options.clone() })
}

fn lane_plan(lane: &LaneFigures, figures: &Figures, bound: Result<BoundPlan, &'static str>) -> LanePlan {
    LanePlan {
        name: lane.name.clone(),
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
        bound,
    }
}

fn came(nanos: u64) -> Option<u64> {
    (nanos != slo::NEVER).then_some(nanos)
}

fn told(bounds: &Bounds, millihertz: u64, figures: &Figures) -> BoundPlan {
    BoundPlan {
        service_millihertz: millihertz,
        burst: bounds.burst,
        backlog: bounds.backlog,
        delay_ns: bounds.delay_ns,
        drain_ns: bounds.empty_at.saturating_sub(figures.traffic_end),
    }
}

/// Where the simulation is beyond what arithmetic allows, one of the two is wrong.
fn beyond(lane: &LaneFigures, bounds: &Bounds, figures: &Figures) -> Vec<String> {
    let mut errors = Vec::new();
    let mut compare = |what: &str, seen: u64, most: u64, told: [String; 2]| {
        if seen > most {
            let [seen, most] = told;
            errors.push(format!(
                "{}: {what} of {seen} is beyond its bound of {most}: the model is wrong",
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
    use super::*;

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
    fn a_figure_beyond_its_bound_is_said_to_be_an_error_of_the_model() {
        let scenario = Scenario::from_text(SMALL, "small.toml").unwrap();
        let figures = simulated(&scenario, &Options::default()).unwrap().figures;
        let seed = scenario.seed;
        let schedule =
            Schedule::compute(&scenario.traffic, &scenario.events, seed, std::path::Path::new(".")).unwrap();
        let moments: Vec<u64> = schedule.due().iter().map(|due| due.at).collect();
        let bounds =
            bounds(&moments, &service(&scenario, &scenario.subscribers[0], Model::CLOSE.commit_ns.1))
                .unwrap();
        let lane = &figures.lanes[0];
        assert!(lane.peak.rows > 0, "something waited");
        assert_eq!(beyond(lane, &bounds, &figures), [""; 0]);
        // Where arithmetic allows less than what was seen, each figure is said with both numbers.
        let tight = Bounds { backlog: lane.peak.rows - 1, delay_ns: 1, empty_at: 1, ..bounds };
        let said = beyond(lane, &tight, &figures);
        assert_eq!(said.len(), 3, "{said:?}");
        let backlog =
            format!("partner: a backlog of {} is beyond its bound of {}", lane.peak.rows, tight.backlog);
        assert!(said[0].starts_with(&backlog), "{said:?}");
        // And at its bound exactly, it is inside.
        let exact = Bounds { backlog: lane.peak.rows, ..bounds };
        assert_eq!(beyond(lane, &exact, &figures), [""; 0]);
    }
}
