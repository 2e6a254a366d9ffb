//! The plan as one page: the answer first, then what it rests on.

use super::slo::NEVER;
use super::table::{HEAD, answer, row, show_short, times, unexamined};
use super::{LanePlan, Plan};
use crate::catalogue::Verdict;
use crate::report::{Cell, Chart, Document, Headline, Part, Shape, Table};
use crate::sim::figures::LaneFigures;

/// Charts of more subscribers than this make the page too long to read; those with the longest backlog come first.
const CHARTS_MAX: usize = 24;

/// The page.
#[must_use]
pub fn page(plan: &Plan) -> String {
    let holds = plan.model_errors.is_empty() && plan.breaches.is_empty();
    let errors = plan.model_errors.iter().map(|error| format!("Error in the model: {error}"));
    let mut parts = changes(plan);
    parts.extend(subscribers(plan));
    parts.extend(charts(plan));
    parts.extend(machine(plan));
    crate::report::page(&Document {
        title: plan.scenario.clone(),
        about: format!("Plan. Objectives: {}", plan.objectives.join(", ")),
        verdict: Headline {
            status: Some(if holds { Verdict::Pass } else { Verdict::Fail }),
            sentence: answer(plan),
            more: errors.collect(),
        },
        parts,
    })
}

fn title(text: impl Into<String>) -> Part {
    Part::Title(text.into())
}

fn changes(plan: &Plan) -> Vec<Part> {
    let headroom = plan.headroom.as_ref().filter(|headroom| !headroom.changes.is_empty());
    let Some(headroom) = headroom else { return Vec::new() };
    let row = |change: &super::headroom::Change| {
        let words = [&change.subscriber, &change.knob.to_owned(), &change.from, &change.to];
        let factor = Cell::Number(times(change.factor));
        words.map(|word| Cell::Text(word.clone())).into_iter().chain([factor]).collect()
    };
    let table = Table {
        head: ["subscriber", "raise", "from", "to", "by"].map(str::to_owned).to_vec(),
        rows: headroom.changes.iter().map(row).collect(),
        searched: false,
    };
    vec![
        title(format!("To carry {}", times(headroom.carry))),
        Part::Text("Of each subscriber's rows one is enough.".to_owned()),
        Part::Table(table),
        Part::Text(unexamined(headroom).trim_end().to_owned()),
    ]
}

fn subscribers(plan: &Plan) -> [Part; 2] {
    let cells = |lane: &LanePlan| row(lane).into_iter().map(Cell::Number).collect();
    let rows: Vec<Vec<Cell>> = plan.lanes.iter().map(cells).collect();
    let searched = rows.len() > CHARTS_MAX;
    let table = Table { head: HEAD.map(str::to_owned).to_vec(), rows, searched };
    [title("Subscribers"), Part::Table(table)]
}

fn charts(plan: &Plan) -> Vec<Part> {
    let Some(figures) = &plan.figures else { return Vec::new() };
    let told = "What waits, and the slowest delivery by when it was taken. The dashed line can't be passed, by arithmetic; where \
                it is far above, only its figure is told.";
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
        parts.push(Part::Text(format!("{} subscribers more are in the table.", lanes.len() - CHARTS_MAX)));
    }
    parts
}

fn machine(plan: &Plan) -> [Part; 2] {
    let machine = &plan.machine;
    let ceiling = machine.ceiling_per_second;
    let rows = [
        ("requests in the busiest second", machine.peak_per_second.to_string()),
        (
            "a bare client's ceiling here",
            ceiling.map_or("not measured".to_owned(), |ceiling| format!("{ceiling}/s")),
        ),
        ("database, at its largest", format!("{} MiB", machine.database_bytes >> 20)),
        ("deliveries in memory, by the sender's bounds", format!("{} MiB", machine.memory_bytes >> 20)),
    ];
    [title("The machine"), Part::Table(Table::pairs(rows))]
}
