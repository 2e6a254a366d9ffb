//! A text picture of the worst lane: a row of bars for each series.

use std::fmt::Write;

use super::drawn::Series;
use super::run::{Report, SubscriberReport};
use crate::check::Status;

/// The most bars of a row; in a longer run each stands for several seconds.
const BARS_MAX: usize = 60;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The worst lane by second: the one that a failure accuses, or else the slowest with a series. None where
/// nothing arrived.
pub(super) fn worst(report: &Report) -> Option<String> {
    let lane = accused(report).or_else(|| {
        let seen = report.subscribers.iter().filter(|one| one.arrivals > 0 && has_series(one));
        seen.max_by_key(|one| one.latency[2])
    })?;
    let mut text = format!("{} ({}), by second\n", lane.name, lane.contract).replace(['\r', '`'], " ");
    let allowed = lane.allowed.map_or(String::new(), |most| format!(", {most} allowed"));
    row(&mut text, "arrivals", &lane.arriving, &allowed);
    if lane.taken != lane.arriving {
        row(&mut text, "taken", &lane.taken, "");
    }
    row(&mut text, "429", &lane.held, "");
    row(&mut text, "failed", &lane.failed, "");
    row(&mut text, "waiting", &report.course.waiting, ", of all subscribers");
    let places = lane.arriving.0.len().div_ceil(BARS_MAX).max(1) as u64;
    let seconds = places.saturating_mul(report.course.seconds_each);
    if seconds > 1 {
        let _ = writeln!(text, "each bar: the fullest of {seconds} s");
    }
    Some(text)
}

fn has_series(one: &SubscriberReport) -> bool {
    !one.arriving.0.is_empty()
}

/// The first subscriber with a series that a failure's witness names.
fn accused(report: &Report) -> Option<&SubscriberReport> {
    let failed = report.judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Fail);
    let mut names = failed.flat_map(|verdict| &verdict.witness).filter_map(|one| one.subscriber.as_deref());
    names.find_map(|name| report.subscribers.iter().find(|one| one.name == name && has_series(one)))
}

/// Adds nothing for an empty series.
fn row(text: &mut String, name: &str, series: &Series, more: &str) {
    let most = series.0.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let _ = writeln!(text, "{name:>8} {} {most} at most{more}", bars(&series.0, BARS_MAX));
}

/// Figures as a row of bars; a bar of several figures shows the highest, so that no peak is averaged away.
pub fn bars(figures: &[u64], bars_max: usize) -> String {
    let highest = |some: &[u64]| some.iter().copied().max().unwrap_or(0);
    let some = figures.chunks(figures.len().div_ceil(bars_max).max(1));
    some.map(|some| bar(highest(some), highest(figures))).collect()
}

/// A bar of proportional height: empty only for zero, full only for the most.
fn bar(value: u64, most: u64) -> char {
    let eighths = (u128::from(value) * 8).div_ceil(u128::from(most.max(1))).min(8);
    BARS[usize::try_from(eighths).unwrap_or(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_for_nothing_alone() {
        let rows = [(0, ' '), (1, '▁'), (50, '▄'), (51, '▅'), (99, '█'), (100, '█')];
        for (value, expected) in rows {
            assert_eq!(bar(value, 100), expected, "{value}");
        }
    }

    #[test]
    fn a_long_run_keeps_its_peaks() {
        let mut seconds = vec![1; 3_600];
        seconds[1_234] = 800;
        let mut text = String::new();
        row(&mut text, "arrivals", &Series(seconds), "");
        assert_eq!(text.matches('▁').count(), 59, "{text}");
        assert!(text.contains('█') && text.contains("800 at most"), "{text}");
    }

    #[test]
    fn a_series_with_nothing_in_it_has_no_row() {
        let mut text = String::new();
        row(&mut text, "429", &Series(vec![0, 0]), "");
        assert_eq!(text, "");
    }
}
