//! What a run shows while it goes on: on a terminal a bar, and what was offered and what arrived second by second, as
//! they grow; else nothing.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Recorder;
use crate::scenario::SECOND;

/// How often the figures change.
const PAUSE_NS: u64 = SECOND / 5;
/// Columns of a course. A longer run is folded, so that all of it stays in sight.
const COLUMNS: usize = 40;

/// The lines.
pub(super) struct View {
    bar: ProgressBar,
    lasts_ns: u64,
    updated: u64,
    offered: Course,
    arrived: Course,
}

impl View {
    /// Shows a run whose traffic lasts so long.
    pub(super) fn new(name: &str, lasts_ns: u64, wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(lasts_ns / 1_000_000), target);
        let style = ProgressStyle::with_template("{prefix:.bold} {bar:30} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        Self { bar, lasts_ns, updated: 0, offered: Course::default(), arrived: Course::default() }
    }

    /// Shows where the run is.
    pub(super) fn update(&mut self, now: u64, recorder: &Recorder, waiting: Option<u64>) {
        if now.saturating_sub(self.updated) < PAUSE_NS {
            return;
        }
        self.updated = now;
        let tally = recorder.tally();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.offered.note(now / SECOND, count(&tally.offers));
        self.arrived.note(now / SECOND, recorder.arrivals());
        let waiting = waiting.map_or_else(|| "?".to_owned(), |waiting| waiting.to_string());
        let phase = if now < self.lasts_ns { "" } else { ", draining" };
        self.bar.set_position(now / 1_000_000);
        self.bar.set_message(format!(
            "{} s of {} s{phase}\n  offered {}\n  arrived {}\n  accepted {}, refused {}, delivered {}, waiting {waiting}",
            now / SECOND,
            self.lasts_ns.div_ceil(SECOND),
            self.offered,
            self.arrived,
            count(&tally.accepted),
            count(&tally.refused),
            count(&tally.delivered),
        ));
    }

    /// Says something beside the lines, also where there are none.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| tell(text));
    }
}

/// Says something while no lines are shown.
pub(super) fn tell(text: &str) {
    use std::io::Write as _;

    // Where nobody reads it any more, the run goes on all the same.
    let _ = writeln!(std::io::stderr().lock(), "{}", crate::report::visible(text));
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How a count grew, second by second.
#[derive(Debug, Default)]
struct Course {
    /// What came in each second.
    seconds: Vec<u64>,
    count: u64,
}

impl Course {
    fn note(&mut self, second: u64, count: u64) {
        let second = usize::try_from(second).unwrap_or(usize::MAX).min(SECONDS_MAX - 1);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += count.saturating_sub(self.count);
        self.count = count;
    }
}

/// A run of a day, by second.
const SECONDS_MAX: usize = 86_400;

impl std::fmt::Display for Course {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let fold = self.seconds.len().div_ceil(COLUMNS).max(1);
        // Of several seconds in one column the fullest is shown: a spike must not be averaged away.
        let columns: Vec<u64> =
            self.seconds.chunks(fold).map(|some| some.iter().copied().max().unwrap_or(0)).collect();
        let most = columns.iter().copied().max().unwrap_or(0).max(1);
        for count in &columns {
            let step = usize::try_from(count * (STEPS.len() as u64 - 1) / most).unwrap_or(0);
            write!(f, "{}", STEPS[step])?;
        }
        // The second that has just begun says little: the whole one before it is the rate.
        let lately = self.seconds.len().checked_sub(2).map_or(0, |at| self.seconds[at]);
        write!(f, " {lately}/s, {} in all, {most}/s at most", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_shows_the_fullest_second_and_the_rate_of_the_last_whole_one() {
        let mut course = Course::default();
        for (second, count) in [(0, 2), (0, 10), (1, 80), (2, 100), (3, 101)] {
            course.note(second, count);
        }
        assert_eq!(course.to_string(), "▂█▃▁ 20/s, 101 in all, 70/s at most");
    }

    #[test]
    fn a_long_course_is_folded_and_keeps_its_spike() {
        let mut course = Course::default();
        (0..200).for_each(|second| course.note(second, second));
        course.note(200, 1_000);
        let shown = course.to_string();
        assert!(shown.chars().take_while(|letter| *letter != ' ').count() <= COLUMNS, "{shown}");
        assert!(shown.contains("█ "), "{shown}");
    }
}
