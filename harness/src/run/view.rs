//! What a run shows while it goes on: on a terminal one line that moves, else nothing.

use std::io::IsTerminal;
use std::sync::atomic::Ordering;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Recorder;
use crate::scenario::SECOND;

/// The line.
pub(super) struct View {
    bar: ProgressBar,
    /// When the last figures were taken, and how many arrivals there were.
    last: (u64, u64),
}

impl View {
    /// Shows a run whose traffic lasts so long.
    pub(super) fn new(name: &str, lasts_ns: u64, wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(lasts_ns / 1_000_000), target);
        let style = ProgressStyle::with_template("{prefix:.bold} {bar:24} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        Self { bar, last: (0, 0) }
    }

    /// Shows where the run is.
    pub(super) fn update(&mut self, now: u64, recorder: &Recorder, waiting: Option<u64>) {
        const PAUSE_NS: u64 = SECOND / 5;
        let (then, before) = self.last;
        if now.saturating_sub(then) < PAUSE_NS {
            return;
        }
        let (arrivals, tally) = (recorder.arrivals(), recorder.tally());
        let per_second = (arrivals - before).saturating_mul(SECOND) / (now - then).max(1);
        self.last = (now, arrivals);
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let waiting = waiting.map_or_else(|| "?".to_owned(), |waiting| waiting.to_string());
        self.bar.set_position(now / 1_000_000);
        self.bar.set_message(format!(
            "{:>3} s  offered {}  accepted {}  refused {}  arrived {arrivals} ({per_second}/s)  delivered {}  waiting {waiting}",
            now / SECOND,
            count(&tally.offers),
            count(&tally.accepted),
            count(&tally.refused),
            count(&tally.delivered),
        ));
    }

    /// Says something beside the line, also where there is none.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
