//! Markdown for a job's summary or a comment.
//!
//! The sender under test, branches and files write part of the text: none of it may become a mention, a link, an image,
//! a table or HTML.

use std::fmt::Write;

use super::drawn::Series;
use super::junit::{Regressions, Unjudged};
use super::run::{Report, SubscriberReport};
use super::table::visible;
use super::{remedy, witnessed};
use crate::check::verdict::show;
use crate::check::{Status, Verdict};

const SUBSCRIBERS_MAX: usize = 20;
const TOLD: [Status; 4] = [Status::Fail, Status::HarnessError, Status::Warn, Status::Inconclusive];

#[must_use]
pub fn markdown(reports: &[Report], unjudged: &[Unjudged], regressions: &Regressions) -> String {
    let worse = |report: &Report| regressions.get(&report.scenario).map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    for Unjudged { subject, why } in unjudged {
        let _ = writeln!(text, "## {}: not judged\n\n{}\n", plain(subject), plain(why));
    }
    let mut ordered: Vec<&Report> = reports.iter().collect();
    ordered.sort_by_key(|report| {
        let place = TOLD.iter().position(|status| *status == report.judgement.status);
        (place.unwrap_or(TOLD.len()), worse(report).is_empty())
    });
    let sections: Vec<String> = ordered.into_iter().map(|report| section(report, worse(report))).collect();
    text + &sections.join("\n")
}

fn section(report: &Report, worse: &[String]) -> String {
    let judgement = &report.judgement;
    let mut text =
        format!("## {}: {}\n\n{}\n\n", plain(&report.scenario), judgement.status, plain(&judgement.sentence));
    verdicts(&mut text, report);
    if !worse.is_empty() {
        text.push_str("Worse than before:\n\n");
        worse.iter().for_each(|one| text.push_str(&format!("- {}\n", plain(one))));
        text.push('\n');
    }
    let (passed, silent) = (judgement.count(Status::Pass), judgement.count(Status::NotApplicable));
    let _ = writeln!(text, "Checks passed: {passed}; not applicable to this scenario: {silent}.\n");
    if !report.course.defaults.is_empty() {
        let all = plain(&report.course.defaults.join("; "));
        let _ = writeln!(text, "Judged by these default values: {all}.\n");
    }
    if let Some(picture) = worst(report) {
        let _ = writeln!(text, "{}\n", block(&picture));
    }
    subscribers(&mut text, report);
    let _ = writeln!(text, "\nRepeat it: {}", code(&report.repeat));
    text
}

fn verdicts(text: &mut String, report: &Report) {
    let of = |status: &Status| -> Vec<&Verdict> {
        report.judgement.verdicts.iter().filter(|verdict| verdict.status == *status).collect()
    };
    let told: Vec<&Verdict> = TOLD.iter().flat_map(of).collect();
    if told.is_empty() {
        return;
    }
    text.push_str("| verdict | check | finding | remedy |\n|---|---|---|---|\n");
    for verdict in told {
        let first = verdict.witness.first().map(|one| format!("; {}", witnessed(one)));
        let seen = plain(&format!("{}{}", verdict.sentence, first.unwrap_or_default()));
        let _ = writeln!(
            text,
            "| {} | {} | {seen} | {} |",
            verdict.status,
            code_in_cell(&verdict.id),
            plain(remedy(&verdict.id))
        );
    }
    text.push('\n');
}

fn subscribers(text: &mut String, report: &Report) {
    text.push_str(
        "| subscriber | arrivals | delivered | dead | p50 | p95 | p99 |\n|---|---|---|---|---|---|---|\n",
    );
    for one in report.subscribers.iter().take(SUBSCRIBERS_MAX) {
        let [p50, p95, p99, _] = one.latency.map(show);
        let name = plain(&one.name);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {p50} | {p95} | {p99} |",
            one.arrivals, one.delivered, one.dead
        );
    }
    if report.subscribers.len() > SUBSCRIBERS_MAX {
        let _ = writeln!(text, "\nMore subscribers: {}.", report.subscribers.len() - SUBSCRIBERS_MAX);
    }
}

/// Hexadecimal.
const COMMIT_DIGITS: usize = 40;

const LINKS: [&str; 3] = ["://", "www.", "gh-"];

/// No markup, mention, link, or reference to an issue or commit.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut digits = 0;
    let text = visible(text);
    let lower = text.to_ascii_lowercase();
    for (at, letter) in text.char_indices() {
        digits = if letter.is_ascii_hexdigit() { digits + 1 } else { 0 };
        let ends_a_link = LINKS.iter().any(|link| lower[..at + letter.len_utf8()].ends_with(link));
        if ends_a_link || digits == COMMIT_DIGITS {
            shown.push('\u{200b}');
            digits = 0;
        }
        match letter {
            '\n' => shown.push(' '),
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            // Entities are decoded before mentions are found, so only a character in between prevents a
            // mention.
            '@' | '#' => shown.extend([letter, '\u{200b}']),
            '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '|' | '!' => shown.extend(['\\', letter]),
            other => shown.push(other),
        }
    }
    shown
}

fn code(text: &str) -> String {
    let text = visible(text).replace('\n', " ");
    let fence = fence(&text, 1);
    let space = if text.contains('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn code_in_cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

fn block(lines: &str) -> String {
    let fence = fence(lines, 3);
    format!("{fence}text\n{}\n{fence}", visible(lines).trim_end())
}

fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(least.max(longest + 1))
}

// A text picture of the worst lane: a row of bars for each series.

/// In a longer run a bar stands for several seconds.
const BARS_MAX: usize = 60;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The lane that a failure accuses, or else the slowest with a series. None where nothing arrived.
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
        let _ = writeln!(text, "each bar: the highest of {seconds} s");
    }
    Some(text)
}

fn has_series(one: &SubscriberReport) -> bool {
    !one.arriving.0.is_empty()
}

fn accused(report: &Report) -> Option<&SubscriberReport> {
    let failed = report.judgement.verdicts.iter().filter(|verdict| verdict.status == Status::Fail);
    let mut names = failed.flat_map(|verdict| &verdict.witness).filter_map(|one| one.subscriber.as_deref());
    names.find_map(|name| report.subscribers.iter().find(|one| one.name == name && has_series(one)))
}

fn row(text: &mut String, name: &str, series: &Series, more: &str) {
    let most = series.0.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let _ = writeln!(text, "{name:>8} {} max {most}{more}", bars(&series.0, BARS_MAX));
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
    fn text_of_a_sender_stays_text() {
        let rows = [
            ("a|b\nc", "a\\|b c"),
            ("@everyone in #1", "@\u{200b}everyone in #\u{200b}1"),
            ("![x](http://h/) <img src=x>", "\\!\\[x\\](http:/\u{200b}/h/) &lt;img src=x&gt;"),
            ("Www.evil.example, GH-12, 1.5 s", "Www\u{200b}.evil.example, GH\u{200b}-12, 1.5 s"),
            (&"a".repeat(40), &format!("{}\u{200b}a", "a".repeat(39))),
            ("`rm` *b* ~~s~~ a_b &amp;", "\\`rm\\` \\*b\\* \\~\\~s\\~\\~ a\\_b &amp;amp;"),
            ("\u{1b}[2J", "\\\\u{1b}\\[2J"),
        ];
        for (text, expected) in rows {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn code_ends_where_it_should_whatever_it_holds() {
        let rows =
            [("run a", "`run a`"), ("a `b` c", "`` a `b` c ``"), ("``", "``` `` ```"), ("a\nb", "`a b`")];
        for (text, expected) in rows {
            assert_eq!(code(text), expected);
        }
        assert_eq!(block("a\n```\n@x"), "````text\na\n```\n@x\n````");
        assert_eq!(code_in_cell("a|b` @x"), "`` a\\|b` @x ``");
    }

    #[test]
    fn an_unjudged_run_is_reported_with_its_reason() {
        let unjudged = Unjudged { subject: "quiet".to_owned(), why: "the sender is not there".to_owned() };
        let text = markdown(&[], &[unjudged], &Regressions::new());
        assert_eq!(text, "## quiet: not judged\n\nthe sender is not there\n\n");
    }

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
        assert!(text.contains('█') && text.contains("max 800"), "{text}");
    }

    #[test]
    fn a_series_with_nothing_in_it_has_no_row() {
        let mut text = String::new();
        row(&mut text, "429", &Series(vec![0, 0]), "");
        assert_eq!(text, "");
    }
}
