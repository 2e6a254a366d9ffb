//! Compares the figures of runs, with their noise.

use std::collections::BTreeMap;

use super::difference::{Allowed, Difference};
use super::run::Report;
use crate::check::verdict::show;

/// The fewest older runs from which noise is measured.
const RUNS_MIN: usize = 3;
/// With fewer runs, the assumed noise in hundredths: ratios and counts by a tenth, times twofold.
const SLACK: [(Unit, u64); 3] = [(Unit::Thousandths, 10), (Unit::Count, 10), (Unit::Nanos, 100)];
/// Times that differ by less are equal.
const NANOS_SAME: u64 = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Nanos,
    Thousandths,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

struct Figure {
    name: String,
    value: u64,
    unit: Unit,
    better: Better,
}

/// The figures of a run that are comparable with another's.
fn figures_of(report: &Report) -> Vec<Figure> {
    let figure = |name: String, value: u64, unit: Unit, better: Better| Figure { name, value, unit, better };
    let mut figures = Vec::new();
    let efficiency = report.speed.efficiency.as_ref().and_then(|number| thousandths(&number.to_string()));
    figures.extend(
        efficiency.map(|value| figure("efficiency".to_owned(), value, Unit::Thousandths, Better::Higher)),
    );
    for one in &report.subscribers {
        for (what, value) in ["p50", "p95", "p99", "max"].into_iter().zip(one.latency) {
            figures.push(figure(format!("{} latency {what}", one.name), value, Unit::Nanos, Better::Lower));
        }
        figures.push(figure(format!("{} delivered", one.name), one.delivered, Unit::Count, Better::Higher));
        figures.push(figure(format!("{} dead", one.name), one.dead, Unit::Count, Better::Lower));
    }
    figures
}

/// Parses a decimal into thousandths, rounded down: `0.4816` is 481.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part.parse().ok()?)
}

/// The ratio of the newer to the older figure; empty where the older one is 0.
fn times(was: u64, is: u64) -> String {
    match (u128::from(is) * 100).checked_div(u128::from(was)) {
        Some(hundredths) => format!(" ({}.{:02} times)", hundredths / 100, hundredths % 100),
        None => String::new(),
    }
}

pub(super) struct Compared {
    pub(super) name: String,
    pub(super) was: String,
    pub(super) is: String,
    pub(super) least: String,
    pub(super) most: String,
    /// Whether it improved; none within its noise.
    pub(super) better: Option<bool>,
    times: String,
}

pub(super) fn compared(base: &[&Report], new: &[&Report]) -> Vec<Compared> {
    let [before, now] = [base, new].map(|side| side.iter().map(|run| figures_of(run)).collect::<Vec<_>>());
    let (old, recent) = (by_name(&before), by_name(&now));
    let row = |figure: &Figure| {
        let Figure { name, unit, better, .. } = figure;
        let (old, recent) = (old.get(name.as_str())?, recent.get(name.as_str())?);
        let (was, is) = median(old, *better).zip(median(recent, *better))?;
        let (least, most) = band(old, *unit);
        let better = match (is < least, is > most) {
            (false, false) => None,
            (lower, _) => Some(lower == (*better == Better::Lower)),
        };
        let times = times(was, is);
        let [was, is, least, most] = [was, is, least, most].map(|value| shown(value, *unit));
        Some(Compared { name: name.clone(), was, is, least, most, better, times })
    };
    before.first().into_iter().flatten().filter_map(row).collect()
}

/// The values of each figure in all runs of a side, sorted.
fn by_name(runs: &[Vec<Figure>]) -> BTreeMap<&str, Vec<u64>> {
    let mut values: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for figure in runs.iter().flatten() {
        values.entry(&figure.name).or_default().push(figure.value);
    }
    values.values_mut().for_each(|values| values.sort_unstable());
    values
}

pub(super) fn figures(base: &[&Report], new: &[&Report], allowed: &[Allowed], difference: &mut Difference) {
    for Compared { name, was, is, least, most, better, times } in compared(base, new) {
        let what = format!("{name}: was {was}, is {is}{times}; between {least} and {most} is noise");
        match better {
            None => {}
            Some(true) => difference.improvements.push(what),
            Some(false) => difference.note(Allowed::Figure, allowed, what),
        }
    }
}

/// The median; of two middle values the worse one, so that a good run hides no bad one. For the older side it
/// is only shown: the decision compares with the band.
fn median(sorted: &[u64], better: Better) -> Option<u64> {
    let middle = match better {
        Better::Lower => sorted.len() / 2,
        Better::Higher => sorted.len().saturating_sub(1) / 2,
    };
    sorted.get(middle).copied()
}

fn band(sorted: &[u64], unit: Unit) -> (u64, u64) {
    let (Some(least), Some(most)) = (sorted.first().copied(), sorted.last().copied()) else {
        return (0, u64::MAX);
    };
    let (least, most) = if sorted.len() >= RUNS_MIN {
        let room = (most - least).saturating_mul(2);
        (least.saturating_sub(room), most.saturating_add(room))
    } else {
        let slack = SLACK.iter().find(|(of, _)| *of == unit).map_or(0, |(_, hundredths)| *hundredths);
        let scaled = |value: u64, by: u64, of: u64| {
            u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
        };
        (scaled(least, 100, 100 + slack), scaled(most, 100 + slack, 100))
    };
    if unit != Unit::Nanos {
        return (least, most);
    }
    let (shortest, longest) = (sorted[0], sorted[sorted.len() - 1]);
    (least.min(shortest.saturating_sub(NANOS_SAME)), most.max(longest.saturating_add(NANOS_SAME)))
}

fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanos => show(value),
        Unit::Thousandths => format!("{}.{:03}", value / 1_000, value % 1_000),
        Unit::Count => value.to_string(),
    }
}
