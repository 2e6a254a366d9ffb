//! The plan as one HTML page: the answer, then the figures behind it.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Band, Cell, Chart, Document, Headline, Part, Shape, Table, places};

use super::headroom::{Headroom, Point};
use super::rows::rows;
use super::scale::times;
use super::slo::NEVER;
use super::table::{
    HEAD, LIKE, advised, answer, machine_rows, never_recover, raises, row, show_short, tried, within,
};
use super::{LanePlan, Plan};
use crate::sim::figures::LaneFigures;

/// The most subscribers with charts; those with the longest backlog come first.
const CHARTS_MAX: usize = 24;

/// The page.
#[must_use]
pub fn page(plan: &Plan) -> String {
    let errors = plan.model_errors.iter().map(|error| format!("Error in the model: {error}"));
    let conditions = plan.conditions.iter().map(|one| format!("With {}: {}.", one.asked, one.means));
    let down = plan.down.iter().map(|down| format!("{}.", never_recover(down)));
    let sampled = plan.sampled.iter().map(|sampled| format!("{}.", sampled.told()));
    let retries = plan.retries.iter().map(|retries| format!("{}.", retries.told()));
    let mut parts = changes(plan);
    parts.extend(curve(plan));
    parts.extend(subscribers(plan));
    parts.extend(charts(plan));
    parts.extend([title("The machine"), Part::Table(Table::pairs(machine_rows(&plan.machine)))]);
    let lasts = plan.figures.as_ref().map(|figures| format!("{} of virtual time", show_short(figures.end)));
    hookproof_judge::report::page(&Document {
        title: plan.scenario.clone(),
        about: format!("Objectives: {}", plan.objectives.join(", ")),
        facts: std::iter::once("plan".to_owned()).chain(lasts).collect(),
        verdict: Headline {
            status: Some(if plan.holds() { Verdict::Pass } else { Verdict::Fail }),
            sentence: answer(plan),
            failures: Vec::new(),
            more: errors.chain(sampled).chain(down).chain(retries).chain(conditions).collect(),
        },
        parts,
    })
}

fn title(text: impl Into<String>) -> Part {
    Part::Title(text.into())
}

const ROWS: &str = "Make one of these changes for each subscriber.";

fn changes(plan: &Plan) -> Vec<Part> {
    let Some(headroom) = &plan.headroom else { return Vec::new() };
    let mut parts = Vec::new();
    if !headroom.advice.changes.is_empty() {
        let row = |change: &super::advice::Change| {
            let words = [change.subscriber.clone(), raises(change), change.cost.clone()];
            words.map(Cell::Text).to_vec()
        };
        let head = ["subscriber", "raise", "cost"].map(str::to_owned).to_vec();
        let rows = headroom.advice.changes.iter().map(row).collect();
        parts.push(Part::Text(ROWS.to_owned()));
        parts.push(Part::Table(Table { head, rows, searched: false }));
    }
    if let Some(trial) = &headroom.advice.trial {
        parts.push(Part::Text(tried(trial)));
        parts.push(Part::Lines(vec![trial.patch.clone()]));
    }
    parts.extend(advised(headroom).into_iter().map(|line| Part::Text(format!("{line}."))));
    if !parts.is_empty() {
        parts.insert(0, title(format!("To carry {}", times(headroom.carry))));
    }
    parts
}

fn curve(plan: &Plan) -> Vec<Part> {
    let Some(headroom) = plan.headroom.as_ref().filter(|headroom| headroom.curve.len() > 1) else {
        return Vec::new();
    };
    let points: Vec<&Point> = headroom.near().collect();
    // Shows the interval beyond the edge, but not far beyond it.
    let edge = headroom.fails.max(headroom.carries).unwrap_or(1);
    let spread = headroom.interval.map_or(0, |one| one.high.min(edge.saturating_mul(2)));
    let beyond = edge.max(spread);
    let most = points.last().map_or(1, |point| point.load).max(beyond.saturating_add(beyond / 10));
    let drawn = |what: &str, of: fn(&Point) -> Option<u64>| {
        let mut chart = Chart::over(what, (0, most), show_short);
        chart.places = places(most, times);
        let points = points.iter().filter_map(|point| Some((point.load, of(point)?))).collect();
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds: false }];
        chart.bands = broken(headroom, most);
        Part::Chart(Box::new(chart))
    };
    vec![
        title("Load against time"),
        Part::Text(
            "The slowest subscriber, with the scenario's own seed. Backlogs that never end are not drawn."
                .to_owned(),
        ),
        drawn("95th percentile of the time to delivery", |point| point.p95_ns),
        drawn("Time to drain the backlog, after the traffic", |point| point.drain_ns),
    ]
}

fn broken(headroom: &Headroom, most: u64) -> Vec<Band> {
    let spread = headroom.interval.map(|one| Band {
        class: "endpoint",
        from: one.low,
        until: one.high.min(most),
        what: format!("first breach, 95 % interval: {}", within(&one)),
    });
    let from = headroom.fails.map(|fails| Band {
        class: "witness",
        from: fails,
        until: most,
        what: format!("breaks from {} on", times(fails)),
    });
    from.into_iter().chain(spread).filter(|band| band.from < most).collect()
}

fn subscribers(plan: &Plan) -> Vec<Part> {
    let cell = |(place, text)| if place == 0 { Cell::Text(text) } else { Cell::Number(text) };
    let cells = |lane: &LanePlan| row(lane).into_iter().enumerate().map(cell).collect();
    let lanes = rows(&plan.lanes);
    let rows: Vec<Vec<Cell>> = lanes.iter().map(cells).collect();
    let searched = rows.len() > CHARTS_MAX;
    let table = Table { head: HEAD.map(str::to_owned).to_vec(), rows, searched };
    let like = (lanes.len() < plan.lanes.len()).then(|| Part::Text(LIKE.to_owned()));
    [title("Subscribers")].into_iter().chain(like).chain([Part::Table(table)]).collect()
}

fn charts(plan: &Plan) -> Vec<Part> {
    let Some(figures) = &plan.figures else { return Vec::new() };
    let told = "The backlog, and the greatest time to delivery by the moment of delivery. The dashed line is the arithmetic upper bound; if it is far above, only its figure is given.";
    let mut parts = vec![title("Over time"), Part::Text(told.to_owned())];
    let mut lanes: Vec<(&LanePlan, &LaneFigures)> = plan.lanes.iter().zip(&figures.lanes).collect();
    lanes.sort_by_key(|(lane, _)| std::cmp::Reverse((lane.drain_ns.unwrap_or(NEVER), lane.peak_rows)));
    for (lane, of) in lanes.iter().take(CHARTS_MAX) {
        let bound = lane.bound.ok();
        let (rows, delay) = (bound.map(|bound| bound.backlog), bound.map(|bound| bound.delay_ns));
        let backlog = (&of.waiting, true, rows, (|rows| format!("{rows} rows")) as fn(u64) -> String);
        let latency = (&of.slowest, false, delay, show_short as fn(u64) -> String);
        let both =
            [("Backlog", backlog), ("Latency", latency)].map(|(what, (points, holds, bound, show))| {
                let mut chart = Chart::over(format!("{what} of {}", lane.name), (0, figures.end), show);
                let (class, points) = ("waiting", points.clone());
                chart.shapes = vec![Shape::Line { class, name: String::new(), points, holds }];
                chart.bound = bound.map(|bound| (bound, format!("bound {}", show(bound))));
                Part::Chart(Box::new(chart))
            });
        parts.push(Part::Card { status: None, name: lane.name.clone(), parts: both.to_vec() });
    }
    if lanes.len() > CHARTS_MAX {
        parts.push(Part::Text(format!("More subscribers: {}.", lanes.len() - CHARTS_MAX)));
    }
    parts
}
