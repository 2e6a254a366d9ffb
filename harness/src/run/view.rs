//! Progress: a bar and the rates on a terminal; lines in a pipe, if the run is followed.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

use hookproof_judge::check::verdict::moment;
use hookproof_judge::scenario::SECOND;
use hookproof_judge::trace::Lately;
use hookproof_judge::trace::Recorder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::live::Following;

const PAUSE_NS: u64 = SECOND / 5;
const LINE_NS: u64 = 5 * SECOND;
/// The columns of a chart; a longer run is folded into them.
const COLUMNS: usize = 40;

pub(super) struct View {
    bar: ProgressBar,
    lasts_ns: u64,
    updated: u64,
    offered: Course,
    arrived: Course,
    following: Option<Following>,
    line_at: Option<u64>,
}

impl View {
    pub(super) fn new(name: &str, lasts_ns: u64, wanted: bool, following: Option<Following>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let shown = wanted && is_terminal;
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(lasts_ns / 1_000_000), target);
        let style = ProgressStyle::with_template("{prefix:.bold} {bar:30} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name.to_owned());
        let line_at = (wanted && !is_terminal && following.is_some()).then_some(LINE_NS);
        let (offered, arrived) = (Course::default(), Course::default());
        Self { bar, lasts_ns, updated: 0, offered, arrived, following, line_at }
    }

    pub(super) fn update(&mut self, now: u64, recorder: &Recorder, waiting: Option<u64>) {
        if now.saturating_sub(self.updated) < PAUSE_NS {
            return;
        }
        self.updated = now;
        let tally = recorder.tally();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.offered.record_second(now / SECOND, count(&tally.offers));
        self.arrived.record_second(now / SECOND, recorder.arrivals());
        let waiting = waiting.map_or_else(|| "?".to_owned(), |waiting| waiting.to_string());
        let phase = if now < self.lasts_ns { "" } else { ", draining" };
        let at = format!("{} s of {} s{phase}", now / SECOND, self.lasts_ns.div_ceil(SECOND));
        let counts = format!(
            "accepted {}, refused {}, delivered {}, waiting {waiting}",
            count(&tally.accepted),
            count(&tally.refused),
            count(&tally.delivered)
        );
        let failed = self.following.as_ref().map(Following::failed).unwrap_or_default();
        let noted = notable_facts(&recorder.lately(), &failed);
        if self.line_at.is_some_and(|line_at| now >= line_at) {
            self.line_at = Some(now.saturating_add(LINE_NS));
            let (offered, arrived) = (self.offered.lately(), self.arrived.lately());
            print_message(&format!(
                "{at}: offered {offered}/s, arrived {arrived}/s, {}",
                joined(&counts, &noted)
            ));
        }
        self.bar.set_position(now / 1_000_000);
        let (offered, arrived) = (&self.offered, &self.arrived);
        let noted: String = noted.iter().map(|one| format!("\n  {one}")).collect();
        let lines = format!("{at}\n  offered {offered}\n  arrived {arrived}\n  {counts}{noted}");
        self.bar.set_message(hookproof_judge::report::visible(&lines));
    }

    /// Above the display, if there is one.
    pub(super) fn print(&self, text: &str) {
        self.bar.suspend(|| print_message(text));
    }
}

fn notable_facts(lately: &Lately, failed: &[String]) -> Vec<String> {
    let worst = lately.worst.as_ref().filter(|(.., waiting)| *waiting > 0);
    let worst = worst.map(|(_, name, waiting)| format!("longest queue: {name} with {waiting}"));
    let fault = lately.fault.as_ref().map(|fault| {
        let whom = fault.detail.as_ref().map_or(String::new(), |whom| format!(" ({whom})"));
        format!("last fault: {}{whom} at {}", fault.kind, moment(fault.t))
    });
    let failed = (!failed.is_empty()).then(|| format!("failed so far: {}", failed.join(", ")));
    worst.into_iter().chain(fault).chain(failed).collect()
}

fn joined(counts: &str, noted: &[String]) -> String {
    std::iter::once(counts).chain(noted.iter().map(String::as_str)).collect::<Vec<_>>().join("; ")
}

pub(super) fn print_message(text: &str) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr().lock(), "{}", hookproof_judge::report::visible(text));
}

impl Drop for View {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[derive(Debug, Default)]
struct Course {
    seconds: Vec<u64>,
    count: u64,
}

impl Course {
    fn record_second(&mut self, second: u64, count: u64) {
        let second = usize::try_from(second).unwrap_or(usize::MAX).min(SECONDS_MAX - 1);
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += count.saturating_sub(self.count);
        self.count = count;
    }

    fn lately(&self) -> u64 {
        self.seconds.len().checked_sub(2).map_or(0, |at| self.seconds[at])
    }
}

const SECONDS_MAX: usize = 86_400;

impl std::fmt::Display for Course {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let most = self.seconds.iter().copied().max().unwrap_or(0);
        write!(f, "{}", hookproof_judge::report::bars(&self.seconds, COLUMNS))?;
        write!(f, " {}/s, {} in total, {most}/s peak", self.lately(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_shows_the_fullest_second_and_the_rate_of_the_last_whole_one() {
        let mut course = Course::default();
        for (second, count) in [(0, 2), (0, 10), (1, 80), (2, 100), (3, 101)] {
            course.record_second(second, count);
        }
        assert_eq!(course.to_string(), "▂█▃▁ 20/s, 101 in total, 70/s peak");
    }

    #[test]
    fn the_notable_facts_are_the_worst_lane_the_last_fault_and_the_failures() {
        let (recorder, _messages) = Recorder::new(16);
        assert_eq!(notable_facts(&recorder.lately(), &[]), Vec::<String>::new());
        let depth = |t, name: &str, waiting| {
            let json = format!(r#"{{"k":"depth","t":{t},"subscriber":"{name}","waiting":{waiting}}}"#);
            recorder.record(serde_json::from_str(&json).unwrap());
        };
        for (t, name, waiting) in [(1, "a", 9), (1, "b", 70), (2, "a", 3), (2, "c", 8), (2, "b", 5)] {
            depth(t, name, waiting);
        }
        recorder.record(
            serde_json::from_str(r#"{"k":"fault","t":2000000000,"do":"kill","detail":"worker 0"}"#).unwrap(),
        );
        let told = notable_facts(&recorder.lately(), &["rate.envelope".to_owned()]);
        let expected =
            ["longest queue: c with 8", "last fault: kill (worker 0) at 2 s", "failed so far: rate.envelope"];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_long_course_is_folded_and_keeps_its_spike() {
        let mut course = Course::default();
        (0..200).for_each(|second| course.record_second(second, second));
        course.record_second(200, 1_000);
        let shown = course.to_string();
        assert!(shown.chars().take_while(|letter| *letter != ' ').count() <= COLUMNS, "{shown}");
        assert!(shown.contains("█ "), "{shown}");
    }
}
