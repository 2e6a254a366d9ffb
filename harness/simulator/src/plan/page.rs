//! The plan as one HTML page: the answer, then the figures behind it.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Band, Cell, Chart, Document, Headline, Part, Shape, Table, places};

use super::headroom::{Headroom, Point};
use super::rows::{Row, rows};
use super::scale::times;
use super::slo::{Breach, Measure, Slo};
use super::table::{
    LIKE, advised, answer, cells, machine_rows, never_recover, raises, show_short, show_up, tried, within,
};
use super::{LanePlan, Plan};
use crate::sim::figures::Figures;

/// The most rows with charts.
const CHARTS_MAX: usize = 24;

/// The page.
#[must_use]
pub fn page(plan: &Plan) -> String {
    let errors = plan.model_errors.iter().map(|error| format!("Error in the model: {error}"));
    let conditions = plan.conditions.iter().map(|one| format!("With {}: {}.", one.asked, one.means));
    let down = plan.down.iter().map(|down| format!("{}.", never_recover(down)));
    let sampled = plan.sampled.iter().map(|sampled| format!("{}.", sampled.told()));
    let retries = plan.retries.iter().map(|retries| format!("{}.", retries.told()));
    let objectives: Vec<String> = plan.objectives.iter().map(ToString::to_string).collect();
    let rows = rows(plan);
    let [mut parts, charts] = charts(plan, &rows);
    parts.extend(changes(plan));
    parts.extend(curve(plan));
    parts.extend(subscribers(plan, &rows));
    parts.extend(charts);
    parts.extend([title("The machine"), Part::Table(Table::pairs(machine_rows(&plan.machine)))]);
    let lasts = plan.figures.as_ref().map(|figures| format!("{} of virtual time", show_short(figures.end)));
    hookproof_judge::report::page(&Document {
        title: plan.scenario.clone(),
        about: format!("Objectives: {}", objectives.join(", ")),
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
    let drawn = |what: &str, measure, of: fn(&Point) -> Option<u64>| {
        let mut chart = Chart::over(what, (0, most), show_short);
        chart.places = places(most, times);
        let points = points.iter().filter_map(|point| Some((point.load, of(point)?))).collect();
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds: false }];
        let missed = missed(plan, measure, None).filter(|slo| slo.measure == measure && slo.whom.is_none());
        (chart.bound, chart.violated) = (missed.map(|slo| (slo.most, slo.to_string())), true);
        chart.bands = broken(headroom, most);
        Part::Chart(Box::new(chart))
    };
    vec![
        title("Load against time"),
        Part::Text(
            "The slowest subscriber under an objective, with the scenario's own seed. Backlogs that never end are not drawn."
                .to_owned(),
        ),
        drawn("95th percentile of the time to delivery", Measure::Latency(950), |point| point.p95_ns),
        drawn("Time to drain the backlog, after the traffic", Measure::Drain, |point| point.drain_ns),
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

fn subscribers(plan: &Plan, rows: &[Row<'_>]) -> Vec<Part> {
    let cell = |(place, text)| if place == 0 { Cell::Text(text) } else { Cell::Number(text) };
    let (mut all, searched) = (cells(rows).into_iter(), rows.len() > CHARTS_MAX);
    let head = all.next().unwrap_or_default();
    let cells = all.map(|row| row.into_iter().enumerate().map(cell).collect()).collect();
    let mut table = Part::Table(Table { head, rows: cells, searched });
    if searched {
        let summary = format!("All {} rows", rows.len());
        table = Part::Fold { status: None, summary, open: false, parts: vec![table] };
    }
    let like = (rows.len() < plan.lanes.len()).then(|| Part::Text(LIKE.to_owned()));
    [title("Subscribers")].into_iter().chain(like).chain([table]).collect()
}

/// The subscriber that breaks first, against its objective, then the other rows.
fn charts(plan: &Plan, rows: &[Row<'_>]) -> [Vec<Part>; 2] {
    let Some(figures) = &plan.figures else { return [Vec::new(), Vec::new()] };
    let end = last_change(figures);
    let lane = |breach: &Breach| plan.lanes.iter().find(|lane| lane.name == breach.subscriber);
    let lowest = plan.headroom.as_ref().and_then(|headroom| headroom.breaks.first());
    let first = lowest.or(plan.breaches.first()).and_then(lane);
    let told = "The backlog, and the greatest time to delivery by the moment of delivery. The dashed line is an objective, or \
                the arithmetic upper bound; if it is far above, only its figure is given.";
    let is_first = |lane: &&LanePlan| first.is_some_and(|first| first.name == lane.name);
    let others: Vec<_> = rows.iter().filter(|row| !row.lanes.iter().any(is_first)).collect();
    let folds = others.iter().take(CHARTS_MAX).filter_map(|row| {
        let parts = against(plan, figures, end, row.lanes.last()?);
        Some(Part::Fold { status: None, summary: row.shown.name.clone(), open: false, parts })
    });
    let more = others.len().saturating_sub(CHARTS_MAX);
    let more = (more > 0).then(|| Part::Text(format!("More rows: {more}.")));
    let named = |name: &str, parts: Vec<Part>| {
        let title = (!parts.is_empty()).then(|| title(name));
        title.into_iter().chain(parts).collect()
    };
    let first = first.map_or(Vec::new(), |lane| against(plan, figures, end, lane));
    let mut both: [Vec<Part>; 2] =
        [named("What breaks first", first), named("Over time", folds.chain(more).collect())];
    if let Some(begins) = both.iter_mut().find(|parts| !parts.is_empty()) {
        begins.insert(1, Part::Text(told.to_owned()));
    }
    both
}

/// The worst missed objective of this kind, of this subscriber or of any.
fn missed<'p>(plan: &'p Plan, measure: Measure, whose: Option<&LanePlan>) -> Option<&'p Slo> {
    let own = |breach: &&Breach| whose.is_none_or(|lane| lane.name == breach.subscriber);
    plan.missed().iter().filter(own).find_map(|breach| {
        let slo = plan.objectives.iter().find(|slo| slo.to_string() == breach.objective)?;
        slo.measure.is_like(measure).then_some(slo)
    })
}

/// When the last figure of any subscriber changes, or the end of a run that leaves a backlog.
fn last_change(figures: &Figures) -> u64 {
    if figures.lanes.iter().any(|lane| lane.left > 0) {
        return figures.end;
    }
    let of = |line: &[(u64, u64)]| line.last().map_or(0, |(at, _)| *at);
    let lines = figures.lanes.iter().flat_map(|lane| [of(&lane.waiting), of(&lane.slowest)]);
    lines.fold(figures.traffic_end, u64::max).min(figures.end)
}

fn against(plan: &Plan, figures: &Figures, end: u64, lane: &LanePlan) -> Vec<Part> {
    let Some(of) = figures.lanes.iter().find(|of| of.name == lane.name) else { return Vec::new() };
    let bound = lane.bound.as_ref().ok();
    let drawn = |what: &str, measure, line: (&[(u64, u64)], bool), bound: Option<(u64, String)>, show| {
        let mut chart = Chart::over(format!("{what} of {}", lane.name), (0, end), show);
        let (points, holds) = (line.0.to_vec(), line.1);
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds }];
        let missed = missed(plan, measure, Some(lane));
        // The lines are those of the present traffic.
        chart.violated = missed.is_some() && !plan.breaches.is_empty();
        chart.bound = missed.map(|slo| (slo.most, slo.to_string())).or(bound);
        chart
    };
    let rows: fn(u64) -> String = |rows| format!("{rows} rows");
    let most = bound.map(|bound| (bound.backlog, format!("bound {}", rows(bound.backlog))));
    let mut backlog = drawn("Backlog", Measure::Backlog, (&of.waiting, true), most, rows);
    let late = missed(plan, Measure::Drain, Some(lane)).filter(|_| !plan.breaches.is_empty());
    backlog.bands.extend(late.map(|slo| Band {
        class: "witness",
        from: figures.traffic_end.saturating_add(slo.most).min(end),
        until: end,
        what: format!("too late for {slo}"),
    }));
    let most = bound.map(|bound| (bound.delay_ns, format!("bound {}", show_up(bound.delay_ns))));
    let latency = drawn("Latency", Measure::Latency(950), (&of.slowest, false), most, show_short);
    let mut both = [backlog, latency];
    both.sort_by_key(|chart| !chart.violated && chart.bands.is_empty());
    both.map(|chart| Part::Chart(Box::new(chart))).to_vec()
}
