use super::Part;
use super::chart::{BANDS_MAX, Band, Chart, Shape};
use super::drawn::{Drawn, LaneDrawn};
use super::run::{Report, SubscriberReport};
use crate::check::figures::thousandths;
use crate::check::verdict::{moment, show};
use crate::check::witness_context::{Came, Closeup};
use crate::check::{Status, Witness};
use crate::scenario::SECOND;

const TOGETHER: usize = 4;
/// A fault and an end of a process within this time are the same.
const SAME: u64 = SECOND / 10;

fn titled(title: &str, charts: Vec<Chart>) -> Vec<Part> {
    let title = Part::Title(title.to_owned());
    std::iter::once(title).chain(charts.into_iter().map(|chart| Part::Chart(Box::new(chart)))).collect()
}

/// Rounded up, so that no level beyond a limit looks like the limit.
fn decimal(thousandths: u64) -> String {
    let tenths = thousandths.div_ceil(100);
    if tenths.is_multiple_of(10) {
        (tenths / 10).to_string()
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// Formats thousandths per second with all digits: a long run's rate may be far below one.
fn per_second(rate: u64) -> String {
    format!("{}/s", thousandths(rate).trim_end_matches('0').trim_end_matches('.'))
}

fn line(class: &'static str, name: impl Into<String>, points: Vec<(u64, u64)>, holds: bool) -> Shape {
    Shape::Line { class, name: name.into(), points, holds }
}

/// Converts counts per step to thousandths per second, at the middle of each step. Steps shorter than a
/// second are summed over the second before, so that no count is extrapolated.
fn rates(drawn: &Drawn, counts: &[u64]) -> Vec<(u64, u64)> {
    let step = drawn.step.max(1);
    let together = usize::try_from(SECOND.div_ceil(step)).unwrap_or(1);
    let lasts = u128::from(step) * together as u128;
    let rate = |at: usize| {
        let since = (at + 1).saturating_sub(together);
        let count: u128 = counts[since..=at].iter().map(|count| u128::from(*count)).sum();
        u64::try_from(count * u128::from(SECOND) * 1_000 / lasts).unwrap_or(u64::MAX)
    };
    let middle = |at: usize| step.saturating_mul(at as u64).saturating_add(step / 2);
    (0..counts.len()).map(|at| (middle(at), rate(at))).collect()
}

pub(super) fn course(report: &Report) -> Vec<Part> {
    let (drawn, whole) = (&report.course.drawn, (0, report.course.lasted));
    if drawn.step == 0 {
        return Vec::new();
    }
    let bands = in_order(report, faults(report).into_iter().chain(endpoints(report)));
    let chart = |title: &str, show: fn(u64) -> String, shapes: Vec<Shape>| {
        let mut chart = Chart::over(title, whole, show);
        (chart.shapes, chart.bands) = (merged(shapes), bands.clone());
        chart
    };
    let [offered, accepted, arrived, _] = &drawn.flow;
    let flow = vec![
        line("waiting", "offered", rates(drawn, &offered.0), false),
        line("second", "accepted by the sender", rates(drawn, &accepted.0), false),
        line("third", "requests that arrived", rates(drawn, &arrived.0), false),
    ];
    let mut charts = vec![chart("Events and requests per second", per_second, flow)];
    if !drawn.latency[0].is_empty() {
        let [p50, p95, longest] = drawn.latency.clone();
        let lines = vec![
            line("waiting", "p50", p50, false),
            line("second", "p95", p95, false),
            line("third", "longest", longest, false),
        ];
        let mut latency =
            chart("Time from emit to first arrival, by time of emit (logarithmic)", show, lines);
        latency.doubling = true;
        charts.push(latency);
    }
    charts.push(chart("Deliveries waiting", |rows| rows.to_string(), backlog(report)));
    if !drawn.resident.is_empty() {
        let lines = vec![line("waiting", "", drawn.resident.clone(), true)];
        let mut memory = chart("The sender's memory", |bytes| format!("{} MiB", bytes >> 20), lines);
        memory.units = &[1 << 20, 1 << 30];
        charts.push(memory);
    }
    if !drawn.busy.is_empty() {
        let lines = vec![line("waiting", "", drawn.busy.clone(), true)];
        charts.push(chart("Processors used by the sender", decimal, lines));
    }
    charts.iter_mut().skip(1).for_each(|chart| chart.bands_told = false);
    charts.extend(attempts(drawn));
    titled("Course of the run", charts)
}

/// Lines that cover each other are one with both names.
fn merged(lines: Vec<Shape>) -> Vec<Shape> {
    let mut merged: Vec<Shape> = Vec::new();
    for line in lines {
        let same = merged.iter_mut().find_map(|one| match (one, &line) {
            (Shape::Line { name, points, .. }, Shape::Line { name: own, points: same, .. }) => {
                (points == same).then_some((name, own))
            }
            _ => None,
        });
        match same {
            Some((name, own)) => name.push_str(&format!(" = {own}")),
            None => merged.push(line),
        }
    }
    merged
}

fn backlog(report: &Report) -> Vec<Shape> {
    const CLASSES: [&str; TOGETHER] = ["second", "third", "fourth", "fifth"];
    let drawn = &report.course.drawn;
    let mut lines = vec![line("waiting", "in total, counted by the harness", drawn.waiting.clone(), true)];
    if !drawn.told.is_empty() {
        lines.push(line("told", "in total, reported by the sender", drawn.told.clone(), true));
    }
    if drawn.lanes.len() > 1 {
        let mut lanes: Vec<&LaneDrawn> = drawn.lanes.iter().collect();
        lanes.sort_by_key(|lane| std::cmp::Reverse(lane.waiting.iter().map(|(_, rows)| *rows).max()));
        let named =
            lanes.into_iter().filter_map(|lane| Some((lane, report.subscribers.get(lane.subscriber)?)));
        lines.extend(
            CLASSES
                .into_iter()
                .zip(named)
                .map(|(class, (lane, one))| line(class, &one.name, lane.waiting.clone(), true)),
        );
    }
    lines
}

fn attempts(drawn: &Drawn) -> Option<Chart> {
    let counts = &drawn.attempts.0;
    let other = counts.iter().enumerate().any(|(attempts, count)| attempts != 1 && *count > 0);
    other.then(|| {
        let mut chart = Chart::over(
            "Deliveries by number of attempts (logarithmic)",
            (0, 2 * counts.len() as u64),
            |count| count.to_string(),
        );
        let (class, name) = ("waiting", String::new());
        chart.shapes = vec![Shape::Bars { class, name, step: 2, counts: counts.clone() }];
        chart.places = (0..).zip(counts).map(|(at, count)| (2 * at + 1, format!("{at}: {count}"))).collect();
        chart.doubling = true;
        chart
    })
}

fn in_order(report: &Report, bands: impl Iterator<Item = Band>) -> Vec<Band> {
    let mut bands: Vec<Band> = bands.filter(|band| band.from <= report.course.lasted).collect();
    let drawn = bands.len().min(BANDS_MAX);
    bands[..drawn].sort_by_key(|band| band.from);
    bands
}

fn faults(report: &Report) -> Vec<Band> {
    let breaks = &report.course.drawn.breaks;
    let is_broken = |at: u64| breaks.iter().any(|one| one.from.abs_diff(at) < SAME);
    let told = report.course.faults.iter().filter(|fault| !is_broken(fault.at)).map(|fault| {
        let until = fault.until.unwrap_or(fault.at);
        Band {
            class: "fault",
            from: fault.at,
            until,
            what: format!("injected: {} at {}", fault.what, moment(fault.at)),
        }
    });
    let away = breaks.iter().map(|one| {
        let until = one.until.unwrap_or(report.course.lasted);
        let back = one
            .until
            .map_or("did not return".to_owned(), |until| format!("back after {}", show(until - one.from)));
        let is_injected = report.course.faults.iter().any(|fault| fault.at.abs_diff(one.from) < SAME);
        let whose = if is_injected { "injected: " } else { "" };
        let what = format!("{whose}{} at {}, {back}", one.what, moment(one.from));
        Band { class: "fault", from: one.from, until, what }
    });
    let mut bands: Vec<Band> = told.chain(away).collect();
    bands.sort_by_key(|band| band.from);
    bands
}

fn endpoints(report: &Report) -> Vec<Band> {
    let mut bands: Vec<(Vec<&str>, Band)> = Vec::new();
    for lane in &report.course.drawn.lanes {
        let Some(one) = report.subscribers.get(lane.subscriber) else { continue };
        for (from, until, what) in &lane.behaviours {
            let same = bands
                .iter_mut()
                .find(|(_, band)| (band.from, band.until, &band.what) == (*from, *until, what));
            match same {
                Some((names, _)) => names.push(&one.name),
                None => {
                    let band = Band { class: "endpoint", from: *from, until: *until, what: what.clone() };
                    bands.push((vec![&one.name], band));
                }
            }
        }
    }
    let named = bands.into_iter().map(|(names, band)| {
        let who = if names.len() > 3 {
            format!("{} and {} more", names[0], names.len() - 1)
        } else {
            names.join(", ")
        };
        Band { what: injected(&who, &band.what), ..band }
    });
    named.collect()
}

pub(super) fn lane(report: &Report, drawn: &LaneDrawn, one: &SubscriberReport) -> Vec<Part> {
    let whole = (0, report.course.lasted);
    let step = report.course.drawn.step;
    let mut chart =
        Chart::over(format!("Requests per {}, by answer", show(step)), whole, |count| count.to_string());
    let kinds = [("taken", "2xx"), ("held", "429"), ("failed", "other status, or no answer")];
    let series =
        kinds.into_iter().zip(&drawn.came).filter(|(_, series)| series.0.iter().any(|count| *count > 0));
    let bars = series.map(|((class, name), series)| {
        let (name, counts) = (name.to_owned(), series.0.clone());
        Shape::Bars { class, name, step, counts }
    });
    chart.shapes = bars.collect();
    let silences = report.course.drawn.silences.iter().filter(|silence| silence.subscriber == one.name);
    let silences = silences.map(|silence| Band {
        class: "silence",
        from: silence.from,
        until: silence.until,
        what: format!("no arrival for {}", show(silence.until - silence.from)),
    });
    let beside = behaviours(drawn, one).chain(silences).chain(accused(report, one));
    chart.bands = in_order(report, faults(report).into_iter().chain(beside));
    let mut waiting =
        Chart::over(format!("Deliveries waiting for {}", one.name), whole, |rows| rows.to_string());
    waiting.shapes = vec![line("waiting", "", drawn.waiting.clone(), true)];
    waiting.bound = one.bound.map(|bound| (bound, format!("bound {bound}")));
    [chart, waiting].map(|chart| Part::Chart(Box::new(chart))).to_vec()
}

fn behaviours<'r>(lane: &'r LaneDrawn, one: &'r SubscriberReport) -> impl Iterator<Item = Band> + 'r {
    lane.behaviours.iter().map(|(from, until, what)| Band {
        class: "endpoint",
        from: *from,
        until: *until,
        what: injected(&one.name, what),
    })
}

fn injected(who: &str, what: &str) -> String {
    format!("injected: the endpoint of {who} {what}")
}

fn accused<'r>(report: &'r Report, one: &'r SubscriberReport) -> impl Iterator<Item = Band> + 'r {
    let failed = report.judgement.verdicts.iter();
    let failed = failed.filter(|verdict| matches!(verdict.status, Status::Fail | Status::Warn));
    failed.flat_map(|verdict| {
        let own =
            verdict.witness.iter().filter(|witness| witness.subscriber.as_deref() == Some(one.name.as_str()));
        own.take(2).map(|witness| Band {
            class: witness_class(verdict.status),
            from: witness.from,
            until: witness.until,
            what: format!("{}: {}", verdict.id, witness.what),
        })
    })
}

pub(super) fn closeup(report: &Report, drawn: &Closeup, status: Status, witness: &Witness) -> Chart {
    let whose = witness.subscriber.as_deref().unwrap_or("all subscribers");
    let (shown, all) = (drawn.requests.len(), drawn.requests_in_all);
    let part = if all > shown { format!("; the first {shown} of {all} requests") } else { String::new() };
    let title = format!("{whose}: {}{part}", drawn.what);
    let mut chart = Chart::over(title, (drawn.from, drawn.until), decimal);
    if !drawn.level.is_empty() {
        chart.shapes.push(line("level", &drawn.what, drawn.level.clone(), false));
    }
    chart.bound = drawn.bound.map(|bound| (bound, format!("allowed: {}", bound / 1_000)));
    for (row, step) in (0..).zip(&drawn.course) {
        let class = step.came.map_or("pause", class);
        let (from, until, what) = (step.from, step.until, step.what.clone());
        chart.shapes.push(Shape::Span { class, from, until, row, what });
    }
    chart.violated = status == Status::Fail;
    let own = report.course.drawn.lanes.iter().filter_map(|lane| {
        let one = report.subscribers.get(lane.subscriber)?;
        (witness.subscriber.as_ref() == Some(&one.name)).then(|| behaviours(lane, one))
    });
    let own = own.flatten();
    let causes = faults(report).into_iter().chain(own);
    chart.bands = causes.filter(|band| band.until >= drawn.from && band.from <= drawn.until).collect();
    let Witness { from, until, ref what, .. } = *witness;
    chart.bands.push(Band { class: witness_class(status), from, until, what: what.clone() });
    let class = |came| match came {
        Came::Accused if status != Status::Fail => "warned",
        came => class(came),
    };
    chart.ticks = drawn.requests.iter().map(|(t, came)| (*t, class(*came))).collect();
    let seen = |came: Came| drawn.requests.iter().any(|(_, one)| *one == came);
    let kinds = [
        (Came::Accused, "requests of this finding"),
        (Came::Taken, "other requests, answered 2xx"),
        (Came::Held, "answered 429"),
        (Came::Failed, "other status, or no answer"),
    ];
    let kinds = kinds.into_iter().filter(|(came, _)| seen(*came));
    chart.ticks_key = kinds.map(|(came, name)| (class(came), name.to_owned())).collect();
    chart
}

/// Red is for violations alone.
fn witness_class(status: Status) -> &'static str {
    if status == Status::Fail { "witness" } else { "warned" }
}

const fn class(came: Came) -> &'static str {
    match came {
        Came::Accused => "accused",
        Came::Taken => "taken",
        Came::Held => "held",
        Came::Failed => "failed",
    }
}

pub(super) fn lag(report: &Report) -> Vec<Part> {
    let lag = &report.generator.by_second.0;
    // A virtual clock has no lag.
    if lag.iter().all(|lag| *lag == 0) {
        return Vec::new();
    }
    let each = report.course.seconds_each.saturating_mul(SECOND);
    let mut chart = Chart::over(
        "Delay of each second's latest event behind its schedule",
        (0, each.saturating_mul(lag.len() as u64)),
        |micros| show(micros.saturating_mul(1_000)),
    );
    let (class, name) = ("waiting", String::new());
    chart.shapes = vec![Shape::Bars { class, name, step: each, counts: lag.clone() }];
    titled("The generator's lag", vec![chart])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_same_points_are_one_line_with_their_names() {
        let lines = [("p50", 1), ("p95", 1), ("longest", 2)];
        let lines = lines.map(|(name, height)| line("waiting", name, vec![(0, height)], false));
        let names = merged(lines.to_vec()).into_iter().map(|shape| match shape {
            Shape::Line { name, .. } => name,
            other => panic!("{other:?}"),
        });
        assert_eq!(names.collect::<Vec<_>>(), ["p50 = p95", "longest"]);
    }

    #[test]
    fn a_rate_is_exact_in_long_steps_and_no_more_than_was_seen_in_short_ones() {
        let drawn = |step| Drawn { step, ..Drawn::default() };
        let long = rates(&drawn(500 * SECOND), &[50, 0]);
        assert_eq!(long, [(250 * SECOND, 100), (750 * SECOND, 0)], "0.1 a second");
        let mut counts = vec![0; 100];
        (counts[10], counts[20]) = (1, 2);
        let short = rates(&drawn(SECOND / 50), &counts);
        let height = |at: usize| short[at].1;
        assert_eq!([9, 10, 20, 59, 60, 69, 70].map(height), [0, 1_000, 3_000, 3_000, 2_000, 2_000, 0]);
        assert_eq!(rates(&drawn(u64::MAX / 2), &[0, 0, 0]).len(), 3, "the end of time is no end");
    }
}
