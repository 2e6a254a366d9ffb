//! The plan as one page that holds everything: the answer first, then what it rests on. No script, nothing from
//! anywhere else: it reads the same offline, on paper, in light and in dark.

use std::fmt::Write;

use super::chart::{Chart, chart};
use super::slo::NEVER;
use super::table::{answer, show_or_never, show_short, times, unexamined};
use super::{LanePlan, Plan};
use crate::report::{STYLE, escape};
use crate::sim::figures::LaneFigures;

/// Charts of more subscribers than this make the page too long to read; those with the longest backlog come first.
const CHARTS_MAX: usize = 24;
const LINES: &str = ".line{fill:none;stroke:var(--bar);stroke-width:1.5}";

/// The page.
#[must_use]
pub fn page(plan: &Plan) -> String {
    let name = escape(&plan.scenario);
    let class = if plan.model_errors.is_empty() { verdict(plan) } else { "fail" };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <title>{name}: plan</title><style>{STYLE}{LINES}</style></head><body><main><h1>{name}</h1>\
         <p class=\"soft\">Objectives: {}</p><div class=\"verdict {class}\">{}</div>\n",
        escape(&plan.objectives.join(", ")),
        escape(&answer(plan))
    );
    for error in &plan.model_errors {
        let _ = write!(page, "<p class=\"fail\">Error in the model: {}</p>", escape(error));
    }
    changes(&mut page, plan);
    subscribers(&mut page, plan);
    charts(&mut page, plan);
    machine(&mut page, plan);
    page.push_str("</main></body></html>\n");
    page
}

fn verdict(plan: &Plan) -> &'static str {
    if plan.breaches.is_empty() { "pass" } else { "fail" }
}

fn changes(page: &mut String, plan: &Plan) {
    let Some(headroom) = plan.headroom.as_ref().filter(|headroom| !headroom.changes.is_empty()) else {
        return;
    };
    let _ = write!(
        page,
        "<h2>To carry {}</h2><p class=\"soft\">Of each subscriber's rows one is enough.</p>\
         <table><tr><th>subscriber</th><th>raise</th><th>from</th><th>to</th><th class=\"n\">by</th></tr>",
        times(headroom.carry)
    );
    for change in &headroom.changes {
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            escape(&change.subscriber),
            change.knob,
            escape(&change.from),
            escape(&change.to),
            times(change.factor)
        );
    }
    let _ = writeln!(page, "</table><p>{}</p>", escape(unexamined(headroom).trim_end()));
}

fn subscribers(page: &mut String, plan: &Plan) {
    page.push_str(
        "<h2>Subscribers</h2><table><tr><th>subscriber</th><th class=\"n\">owed</th><th class=\"n\">peak backlog</th>\
         <th class=\"n\">bound</th><th class=\"n\">drained after</th><th class=\"n\">bound</th><th class=\"n\">p50</th>\
         <th class=\"n\">p95</th><th class=\"n\">p99</th><th class=\"n\">shed</th><th class=\"n\">expired</th></tr>\n",
    );
    for lane in &plan.lanes {
        let (backlog, drain) = match &lane.bound {
            Ok(bound) => (bound.backlog.to_string(), show_short(bound.drain_ns)),
            Err(why) => (format!("none: {why}"), String::new()),
        };
        let cells = [
            lane.owed.to_string(),
            format!("{} rows, {} KiB", lane.peak_rows, lane.peak_bytes >> 10),
            backlog,
            lane.drain_ns.map_or_else(|| format!("no: {} left", lane.left), show_short),
            drain,
            show_or_never(lane.latency_ns[0]),
            show_or_never(lane.latency_ns[1]),
            show_or_never(lane.latency_ns[2]),
            lane.shed.to_string(),
            lane.expired.to_string(),
        ];
        let cells: String =
            cells.iter().map(|cell| format!("<td class=\"n\">{}</td>", escape(cell))).collect();
        let _ = write!(page, "<tr><td>{}</td>{cells}</tr>", escape(&lane.name));
    }
    page.push_str("</table>\n");
}

fn charts(page: &mut String, plan: &Plan) {
    let Some(figures) = &plan.figures else { return };
    page.push_str(
        "<h2>Over time</h2><p class=\"soft\">What waits, and the slowest delivery by when it was taken. The dashed line can't \
         be passed, by arithmetic; where it is far above, only its figure is told.</p>\n",
    );
    let mut lanes: Vec<(&LanePlan, &LaneFigures)> = plan.lanes.iter().zip(&figures.lanes).collect();
    lanes.sort_by_key(|(lane, _)| std::cmp::Reverse((lane.drain_ns.unwrap_or(NEVER), lane.peak_rows)));
    for (lane, figures_of) in lanes.iter().take(CHARTS_MAX) {
        let bound = lane.bound.ok();
        let backlog = chart(&Chart {
            title: format!("deliveries waiting for {}", lane.name),
            points: &figures_of.waiting,
            holds: true,
            bound: bound.map(|bound| bound.backlog),
            lasts: figures.end,
            show: |rows| format!("{rows} rows"),
        });
        let latency = chart(&Chart {
            title: format!("the slowest delivery to {}", lane.name),
            points: &figures_of.slowest,
            holds: false,
            bound: bound.map(|bound| bound.delay_ns),
            lasts: figures.end,
            show: show_short,
        });
        let _ = writeln!(
            page,
            "<section><h3>{}</h3><p class=\"soft\">Backlog</p>{backlog}<p class=\"soft\">Latency</p>{latency}</section>",
            escape(&lane.name)
        );
    }
    if lanes.len() > CHARTS_MAX {
        let _ = write!(
            page,
            "<p class=\"soft\">{} subscribers more are in the table.</p>",
            lanes.len() - CHARTS_MAX
        );
    }
}

fn machine(page: &mut String, plan: &Plan) {
    let machine = &plan.machine;
    let ceiling =
        machine.ceiling_per_second.map_or("not measured".to_owned(), |ceiling| format!("{ceiling}/s"));
    let _ = writeln!(
        page,
        "<h2>The machine</h2><table><tr><th>requests in the busiest second</th><td class=\"n\">{}</td></tr>\
         <tr><th>a bare client's ceiling here</th><td class=\"n\">{ceiling}</td></tr>\
         <tr><th>database, at its largest</th><td class=\"n\">{} MiB</td></tr>\
         <tr><th>deliveries in memory, by the sender's bounds</th><td class=\"n\">{} MiB</td></tr></table>",
        machine.peak_per_second,
        machine.database_bytes >> 20,
        machine.memory_bytes >> 20
    );
}
