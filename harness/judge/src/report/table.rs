//! Terminal output. A run's table lists failures first, and ends with the one line that matters.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::run::Report;
use super::witnessed;
use crate::check::judge::DRIVER;
use crate::check::verdict::show;
use crate::check::{Status, Verdict};
use crate::scenario::SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    Yes,
    /// Into a pipe, or with `NO_COLOR`.
    No,
}

impl Colours {
    #[must_use]
    pub fn of(is_terminal: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if is_terminal && !plain { Self::Yes } else { Self::No }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TimeUnit {
    pub name: &'static str,
    nanos: u64,
}

impl TimeUnit {
    #[must_use]
    pub fn of(most: u64) -> Self {
        let (name, nanos) = match most {
            0..SECOND => ("ms", SECOND / 1_000),
            SECOND..600_000_000_000 => ("s", SECOND),
            600_000_000_000..36_000_000_000_000 => ("min", 60 * SECOND),
            _ => ("h", 3_600 * SECOND),
        };
        Self { name, nanos }
    }

    #[must_use]
    pub fn figure(self, nanos: u64) -> String {
        self.shown(nanos.saturating_add(self.step() / 2))
    }

    #[must_use]
    pub fn bound(self, nanos: u64) -> String {
        self.shown(nanos.saturating_add(self.step() - 1))
    }

    fn step(self) -> u64 {
        if self.name == "ms" { self.nanos / 10 } else { self.nanos / 100 }
    }

    fn shown(self, nanos: u64) -> String {
        let (parts, places) = (self.nanos / self.step(), if self.name == "ms" { 1 } else { 2 });
        let steps = nanos / self.step();
        format!("{}.{:0places$}", steps / parts, steps % parts)
    }
}

#[must_use]
pub fn terminal(report: &Report, colours: Colours) -> String {
    let mut text = String::new();
    let widths = report.judgement.verdicts.iter().map(|verdict| in_one_line(&verdict.id).chars().count());
    let width = widths.max().unwrap_or(0);
    let order = [Status::Fail, Status::HarnessError, Status::Warn, Status::Inconclusive, Status::Pass];
    for status in order {
        for verdict in report.judgement.verdicts.iter().filter(|verdict| verdict.status == status) {
            row(&mut text, verdict, width, colours);
        }
    }
    not_applicable(&mut text, report);
    if !report.course.defaults.is_empty() {
        let all = in_one_line(&report.course.defaults.join("; "));
        let _ = writeln!(text, "{:>14}  judged by these default values: {all}", "defaults");
    }
    for one in report.subscribers.iter().take(12) {
        let [p50, p95, p99, _] = one.latency.map(show);
        let _ = writeln!(
            text,
            "{:>14}  arrivals {}, delivered {}, dead {}; first attempt p50 {p50}, p95 {p95}, p99 {p99} ({})",
            in_one_line(&one.name),
            one.arrivals,
            one.delivered,
            one.dead,
            in_one_line(&one.contract)
        );
    }
    if report.subscribers.len() > 12 {
        let _ = writeln!(text, "{:>14}  more subscribers: {}", "…", report.subscribers.len() - 12);
    }
    let _ = writeln!(text, "{:>14}  {}", "sender", in_one_line(&report.driver));
    let lag = &report.generator;
    let (p50, p99) = (show(lag.p50), show(lag.p99));
    let _ = writeln!(
        text,
        "{:>14}  events {}, lag p50 {p50}, p99 {p99}{}",
        "generator",
        lag.events,
        unoffered(report)
    );
    if let (Some(accepted), Some(offered)) =
        (report.speed.accepted_per_second, report.speed.offered_per_second)
    {
        let _ =
            writeln!(text, "{:>14}  the sender's API accepted {accepted}/s of {offered}/s offered", "sender");
    }
    // The verdict of a trace without an end already says that it was cut short.
    if let Some(why) = report.cut_short().filter(|_| report.ended.is_some()) {
        let _ = writeln!(text, "{:>14}  the run is incomplete: {why}", "-");
    }
    let judgement = &report.judgement;
    let word = paint(judgement.status, &judgement.status.to_string(), colours);
    let (scenario, sentence) = (in_one_line(&report.scenario), in_one_line(&judgement.sentence));
    let _ = writeln!(text, "\n{scenario}: {word}: {sentence}");
    let _ = writeln!(text, "repeat: {}", in_one_line(&report.repeat));
    text
}

fn not_applicable(text: &mut String, report: &Report) {
    let silent = report.judgement.verdicts.iter().filter(|one| one.status == Status::NotApplicable);
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for verdict in silent {
        let driver = Some(verdict.sentence.as_str()).filter(|sentence| sentence.starts_with(DRIVER));
        reasons.entry(driver.unwrap_or("not applicable to this scenario")).or_default().push(&verdict.id);
    }
    for (reason, ids) in reasons {
        let what = if reason.starts_with(DRIVER) { ids.join(", ") } else { format!("{} checks", ids.len()) };
        let _ = writeln!(text, "{:>14}  {}: {}", "-", in_one_line(&what), in_one_line(reason));
    }
}

fn unoffered(report: &Report) -> String {
    match report.generator.not_offered {
        0 => String::new(),
        count => format!(", not offered {count}"),
    }
}

#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let steers = (letter.is_control() && letter != '\n')
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}');
        if steers {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// The same in one line: CI runners take a line's beginning as a command.
pub fn in_one_line(text: &str) -> String {
    visible(&text.replace('\n', " "))
}

fn row(text: &mut String, verdict: &Verdict, width: usize, colours: Colours) {
    let word = paint(verdict.status, &format!("{:>14}", verdict.status), colours);
    let (id, sentence) = (in_one_line(&verdict.id), in_one_line(&verdict.sentence));
    let _ = writeln!(text, "{word}  {id:width$}  {sentence}");
    if !matches!(verdict.status, Status::Fail | Status::Warn) {
        return;
    }
    for witness in verdict.witness.iter().take(3) {
        let _ = writeln!(text, "{:>14}  {:width$}    {}", "", "", in_one_line(&witnessed(witness)));
    }
}

pub fn paint(status: Status, text: &str, colours: Colours) -> String {
    let code = match status {
        _ if colours == Colours::No => return text.to_owned(),
        Status::Pass => "32",
        Status::Fail | Status::HarnessError => "1;31",
        Status::Warn => "33",
        Status::Inconclusive => "35",
        Status::NotApplicable => "90",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

pub fn columns(rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(at, (cell, &width))| {
                    if at == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_one_another() {
        let rows = [["a", "1"], ["bcd", "23"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "a     1\nbcd  23\n");
    }

    #[test]
    fn a_column_of_durations_has_one_unit() {
        let figures = |most, nanos: [u64; 3]| {
            let unit = TimeUnit::of(most);
            (unit.name, nanos.map(|nanos| unit.figure(nanos)), unit.bound(nanos[2]))
        };
        let strings = |all: [&str; 3]| all.map(str::to_owned);
        let rows = [
            (999_999_999, [0, 50_000, 12_345_678], ("ms", ["0.0", "0.1", "12.3"], "12.4")),
            (SECOND, [4_999_999, 5_000_000, 301_000_000_001], ("s", ["0.00", "0.01", "301.00"], "301.01")),
            (600 * SECOND, [SECOND, 90 * SECOND, 600 * SECOND], ("min", ["0.02", "1.50", "10.00"], "10.00")),
            (u64::MAX, [0, 1_800 * SECOND, 36_000 * SECOND], ("h", ["0.00", "0.50", "10.00"], "10.00")),
        ];
        for (most, nanos, (name, shown, bound)) in rows {
            assert_eq!(figures(most, nanos), (name, strings(shown), bound.to_owned()));
        }
    }

    #[test]
    fn text_of_a_sender_does_not_control_the_terminal() {
        assert_eq!(visible("\u{1b}[2Jgone\r\u{9b}1m, naïve\n"), "\\u{1b}[2Jgone\\r\\u{9b}1m, naïve\n");
        assert_eq!(visible("a\u{202e}b\u{2069}\u{ffff}"), "a\\u{202e}b\\u{2069}\\u{ffff}");
    }
}
