//! The plan as one HTML page: the answer, then the figures behind it.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Band, Cell, Chart, Document, Headline, Part, Shape, Table, places};
use hookproof_judge::scenario::SECOND;

use super::headroom::{Headroom, Point};
use super::rows::{Row, rows};
use super::scale::times;
use super::slo::{Breach, Measure, Slo};
use super::table::{
    LIKE, UNSEARCHED, advised, answer, bounded, carries, cells, machine_rows, never_recover, raises, remedy,
    show_short, show_up, tried, within,
};
use super::{LanePlan, Plan};
use crate::sim::figures::Figures;

/// The most rows with charts.
const CHARTS_MAX: usize = 24;
const CARDS_MAX: usize = 3;
const TIMES: [u64; 2] = [60 * SECOND, 3_600 * SECOND];

#[must_use]
pub fn page(plan: &Plan) -> String {
    let errors = plan.model_errors.iter().map(|error| format!("Error in the model: {error}"));
    let conditions = plan.conditions.iter().map(|one| format!("With {}: {}.", one.asked, one.means));
    let down = plan.down.iter().map(|down| format!("{}.", never_recover(down)));
    let sampled = plan.sampled.iter().map(|sampled| format!("{}.", sampled.told()));
    let retries = plan.retries.iter().map(|retries| format!("{}.", retries.told()));
    let objectives: Vec<String> = plan.objectives.iter().map(ToString::to_string).collect();
    let rows = rows(plan);
    let failed = failed(plan);
    let mut told = sentences(plan);
    let mut parts = failures(plan, &failed);
    let mut load = [changes(plan), curve(plan)];
    if failed.is_empty() {
        load.reverse();
    }
    parts.extend(load.into_iter().flatten());
    parts.extend(subscribers(plan, &rows));
    parts.extend(over_time(plan, &rows, &failed));
    parts.extend([title("The machine"), Part::Table(Table::pairs(machine_rows(&plan.machine)))]);
    let lasts = plan.figures.as_ref().map(|figures| format!("{} simulated", show_short(figures.end)));
    hookproof_judge::report::page(&Document {
        title: plan.scenario.clone(),
        about: format!("Objectives: {}", objectives.join(", ")),
        facts: std::iter::once("plan".to_owned()).chain(lasts).collect(),
        verdict: Headline {
            status: Some(if plan.holds() { Verdict::Pass } else { Verdict::Fail }),
            sentence: told.remove(0),
            failures: failed.iter().map(|of| (of[0].subscriber.clone(), misses(of))).collect(),
            more: told
                .into_iter()
                .chain(errors)
                .chain(sampled)
                .chain(down)
                .chain(retries)
                .chain(conditions)
                .collect(),
        },
        parts,
    })
}

/// The answer, one fact a sentence.
fn sentences(plan: &Plan) -> Vec<String> {
    let Some(headroom) = &plan.headroom else { return vec![sentence(&answer(plan))] };
    let first = headroom.breaks.first().map(|breach| {
        let (word, more) = bounded(plan, breach);
        let at = headroom.fails.map_or(String::new(), |load| format!(" at {} today's traffic", times(load)));
        let Breach { subscriber, objective, figure, .. } = breach;
        format!("{subscriber} {word} first{at}: {objective} is asked, and it is {figure}{more}.")
    });
    let remedy = remedy(headroom).map(|remedy| sentence(&remedy));
    std::iter::once(sentence(&carries(headroom))).chain(first).chain(remedy).collect()
}

fn sentence(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map_or(String::new(), |first| first.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str())
}

fn title(text: impl Into<String>) -> Part {
    Part::Title(text.into())
}

const ROWS: &str = "Make one of these changes for each subscriber.";

fn changes(plan: &Plan) -> Vec<Part> {
    let Some(headroom) = &plan.headroom else {
        let unsearched = (!plan.breaches.is_empty()).then(|| Part::Text(UNSEARCHED.to_owned()));
        return unsearched.into_iter().collect();
    };
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
        chart.units = &TIMES;
        let points = points.iter().filter_map(|point| Some((point.load, of(point)?))).collect();
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds: false }];
        let missed = missed(plan, measure, None).filter(|slo| slo.measure == measure && slo.whom.is_none());
        (chart.bound, chart.violated) = (missed.map(limit), true);
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

fn failed(plan: &Plan) -> Vec<Vec<&Breach>> {
    let mut groups: Vec<Vec<&Breach>> = Vec::new();
    for breach in &plan.breaches {
        match groups.iter_mut().find(|group| group[0].group == breach.group) {
            Some(group) if group[0].subscriber == breach.subscriber => group.push(breach),
            Some(_) => {}
            None => groups.push(vec![breach]),
        }
    }
    groups
}

fn misses(of: &[&Breach]) -> String {
    let each = of.iter().map(|breach| format!("{} is asked, and it is {}", breach.objective, breach.figure));
    format!("at today's traffic {}", each.collect::<Vec<_>>().join("; "))
}

fn failures(plan: &Plan, failed: &[Vec<&Breach>]) -> Vec<Part> {
    let cards = failed.iter().take(CARDS_MAX).map(|of| {
        let breach = of[0];
        let lane = plan.lanes.iter().find(|lane| lane.name == breach.subscriber);
        let mut parts = vec![Part::Lead(misses(of))];
        parts.extend(lane.into_iter().flat_map(|lane| against(plan, lane)));
        let advice = plan.headroom.as_ref().map(|headroom| &headroom.advice);
        let change = advice.and_then(|of| of.changes.iter().find(|one| one.subscriber == breach.group));
        parts.extend(change.map(|change| Part::Remedy(change.cost.clone())));
        Part::Card { status: Some(Verdict::Fail), name: breach.subscriber.clone(), parts }
    });
    let cards: Vec<Part> = cards.collect();
    let title = (!cards.is_empty()).then(|| title("Failures"));
    title.into_iter().chain(cards).collect()
}

fn over_time(plan: &Plan, rows: &[Row<'_>], failed: &[Vec<&Breach>]) -> Vec<Part> {
    let cards: Vec<&str> = failed.iter().take(CARDS_MAX).map(|of| of[0].subscriber.as_str()).collect();
    let beyond = plan.headroom.as_ref().and_then(|headroom| headroom.breaks.first());
    let mut others: Vec<_> = rows
        .iter()
        .filter(|row| !row.lanes.iter().any(|lane| cards.contains(&lane.name.as_str())))
        .filter_map(|row| Some((row.shown.name.as_str(), *row.lanes.last()?)))
        .collect();
    let is_first = |lane: &LanePlan| beyond.is_some_and(|breach| breach.subscriber == lane.name);
    others.sort_by_key(|(_, lane)| !is_first(lane));
    let folds = others.iter().take(CHARTS_MAX).filter_map(|(name, lane)| {
        let parts = against(plan, lane);
        let (summary, open) = ((*name).to_owned(), is_first(lane));
        (!parts.is_empty()).then_some(Part::Fold { status: None, summary, open, parts })
    });
    let folds: Vec<Part> = folds.collect();
    if folds.is_empty() {
        return Vec::new();
    }
    let told = "The backlog, and the greatest time to delivery by the moment of delivery. The dashed line is an objective, or \
                the arithmetic upper bound; if it is far above, only its figure is given.";
    let more = others.len().saturating_sub(CHARTS_MAX);
    let more = (more > 0).then(|| Part::Text(format!("More rows: {more}.")));
    let head = [title("This traffic over time"), Part::Text(told.to_owned())];
    head.into_iter().chain(folds).chain(more).collect()
}

/// Below 5 s, the most is a nanosecond less.
fn limit(slo: &Slo) -> (u64, String) {
    (slo.most.saturating_add(u64::from(slo.measure.is_time())), slo.to_string())
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

fn against(plan: &Plan, lane: &LanePlan) -> Vec<Part> {
    let Some(figures) = &plan.figures else { return Vec::new() };
    let end = last_change(figures);
    let Some(of) = figures.lanes.iter().find(|of| of.name == lane.name) else { return Vec::new() };
    let bound = lane.bound.as_ref().ok();
    let drawn = |what: &str, measure, line: (&[(u64, u64)], bool), bound: Option<(u64, String)>, show| {
        let mut chart = Chart::over(format!("{what} of {}", lane.name), (0, end), show);
        let (points, holds) = (line.0.to_vec(), line.1);
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds }];
        let missed = missed(plan, measure, Some(lane));
        // The lines are those of the present traffic.
        chart.violated = missed.is_some() && !plan.breaches.is_empty();
        chart.bound = missed.map(limit).or(bound);
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
    let mut latency = drawn("Latency", Measure::Latency(950), (&of.slowest, false), most, show_short);
    latency.units = &TIMES;
    let mut both = [backlog, latency];
    both.sort_by_key(|chart| !chart.violated && chart.bands.is_empty());
    both.map(|chart| Part::Chart(Box::new(chart))).to_vec()
}
