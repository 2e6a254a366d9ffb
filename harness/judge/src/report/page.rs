//! One self-contained HTML page, complete offline, on paper, in light and dark, and without its script, which only
//! searches long tables and zooms charts.

use maud::{Markup, PreEscaped, html};

use super::chart::{Chart, GUTTER};
use super::drawing::closeup;
use super::run::Report;
use super::table::visible;
use super::{Cell, Document, Headline, Part, Table};
use crate::catalogue::Verdict as Status;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const LIVE: &str = include_str!("live.js");

pub fn page(document: &Document) -> String {
    framed(document, None)
}

/// The page of an unfinished run, which the browser reloads; `kept` is the path of the final page.
pub(super) fn live(document: &Document, kept: &str) -> String {
    framed(document, Some(kept))
}

fn framed(document: &Document, kept: Option<&str>) -> String {
    let Document { title, parts, verdict, .. } = document;
    let told = verdict.status.map_or(String::new(), |status| format!(": {status}"));
    let markup = html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                link rel="icon" href="data:,";
                title { (title) (told) }
                @if kept.is_some() { noscript { meta http-equiv="refresh" content="2"; } }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (head(document, kept))
                    @for part in parts { (part_markup(part)) }
                }
                script { (PreEscaped(SCRIPT)) @if kept.is_some() { (PreEscaped(LIVE)) } }
            }
        }
    };
    visible(&markup.into_string())
}

pub(super) const NAMED_MAX: usize = 3;

fn head(document: &Document, kept: Option<&str>) -> Markup {
    let Document { title, about, facts, verdict, .. } = document;
    let more = verdict.failures.len().saturating_sub(NAMED_MAX);
    html! {
        header.head.(verdict.status.map_or("plain", class)) {
            @match verdict.status {
                Some(status) => p.word { (shape(status)) (status) },
                None => p.word { (verdict.sentence) },
            }
            h1 { (title) }
            @if !facts.is_empty() { p.facts { (facts.join(" · ")) } }
            @if !about.is_empty() { p.soft { (about) } }
            @if !verdict.failures.is_empty() {
                ul.named {
                    @for (name, what) in verdict.failures.iter().take(NAMED_MAX) {
                        li { a href={ "#" (name) } { (name) } ": " (what) }
                    }
                    @if more > 0 { li { "and " (more) " more" } }
                }
            }
            @if verdict.status.is_some() { p.counts { (verdict.sentence) } }
            @for more in &verdict.more { p.soft { (more) } }
            @if let Some(kept) = kept {
                p.soft #live data-kept=(kept) { "This page follows the run. Its final page: " code { (kept) } }
            }
        }
    }
}

/// A tick, a cross, a triangle or a bar, so that no verdict is told by its colour alone.
fn shape(status: Status) -> Markup {
    let path = match status {
        Status::Pass => "M2 9l4 4L14 3",
        Status::Fail => "M3 3l10 10M13 3L3 13",
        Status::Warn => "M8 3l6 10H2z",
        Status::Inconclusive | Status::NotApplicable | Status::HarnessError => "M3 6h10M3 11h10",
    };
    html! { svg.shape viewBox="0 0 16 16" aria-hidden="true" { path d=(path) {} } }
}

/// Replaces an older page, which must not stand for this run.
pub fn unjudged(title: &str, about: &str, why: &str, more: &[&str]) -> String {
    let verdict = Headline {
        status: Some(Status::Inconclusive),
        sentence: format!("not judged: {why}"),
        more: more.iter().map(|one| (*one).to_owned()).collect(),
        ..Headline::default()
    };
    page(&Document { title: title.to_owned(), about: about.to_owned(), verdict, ..Document::default() })
}

pub(super) fn class(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::Warn => "warn",
        Status::Inconclusive => "inconclusive",
        Status::NotApplicable => "not-applicable",
        Status::HarnessError => "harness-error",
    }
}

fn mark(status: Option<Status>) -> Markup {
    html! { @if let Some(status) = status { span.mark.(class(status)) { (status) } " " } }
}

fn part_markup(part: &Part) -> Markup {
    match part {
        Part::Title(text) => html! { h2 { (text) } },
        Part::Text(text) => html! { p.soft { (text) } },
        Part::Lead(text) => html! { p.lead { (text) } },
        Part::Remedy(text) => html! { p { b { "Remedy: " } (text) } },
        Part::List(points) => html! { ul { @for point in points { li { (point) } } } },
        Part::Lines(several) => html! { div.pair { @for lines in several { pre { (lines) } } } },
        Part::Table(table) => shown_table(table),
        Part::Chart(chart) => chart.figure(),
        Part::Card { status, name, parts } => html! {
            section.card.(status.map_or("plain", class)) id=(name) {
                h3 { (mark(*status)) (name) }
                @for part in parts { (part_markup(part)) }
            }
        },
        Part::Fold { status, summary, open, parts } => html! {
            details open[*open] {
                summary { (mark(*status)) (summary) }
                @for part in parts { (part_markup(part)) }
            }
        },
    }
}

fn shown_table(table: &Table) -> Markup {
    html! {
        div.frame tabindex="0" {
            table.searched[table.searched].pairs[table.head.is_empty()] {
                @if !table.head.is_empty() {
                    @let first = table.rows.first().map_or(&[][..], Vec::as_slice);
                    @let is_figure = |at: usize| matches!(first.get(at), Some(Cell::Number(_)));
                    thead {
                        tr { @for (at, name) in table.head.iter().enumerate() {
                            th.n[is_figure(at)] scope="col" { (name) }
                        } }
                    }
                }
                tbody { @for row in &table.rows { tr { @for cell in row { (shown_cell(cell)) } } } }
            }
        }
    }
}

fn shown_cell(cell: &Cell) -> Markup {
    match cell {
        Cell::Text(text) => html! { td { (text) } },
        Cell::Code(text) => html! { td { code { (text) } } },
        Cell::Link(name) => html! { td { a href={ "#" (name) } { code { (name) } } } },
        Cell::Number(text) => html! { td.n { (text) } },
        Cell::Status(status) => html! { td.mark.(class(*status)) { (status) } },
    }
}

// A run's first failure as an SVG picture, for pages without HTML, such as a README.

const WIDTH: usize = 760;
const LINE: usize = 18;
const LETTERS: usize = 92;

#[must_use]
pub fn picture(report: &Report) -> Option<String> {
    let drawn = report.course.drawn.closeups.first()?;
    let verdict = report.judgement.verdicts.iter().find(|one| one.id == drawn.check)?;
    let witness = verdict.witness.get(drawn.witness)?;
    Some(captioned(
        &format!("{}: {}", verdict.status, verdict.id),
        &witness.what,
        &closeup(report, drawn, verdict.status, witness),
    ))
}

fn captioned(title: &str, what: &str, chart: &Chart) -> String {
    let (above, below) = (wrapped(what), chart.words());
    let below: Vec<_> = below
        .iter()
        .flat_map(|(class, form, words)| {
            let lines = wrapped(words).into_iter().enumerate();
            lines.map(|(at, line)| ((at == 0).then_some((*class, *form)), line)).collect::<Vec<_>>()
        })
        .collect();
    let top = 40 + above.len() * LINE;
    let bottom = top + chart.tall() + 8;
    let tall = bottom + below.len() * LINE + 12;
    let own = ".picture text{font:13px system-ui,sans-serif;fill:var(--soft)}.picture text.title{font-size:16px;\
               font-weight:700;fill:var(--fail)}.picture text.what{fill:var(--ink)}.picture .paper{fill:var(--paper)}";
    let markup = html! {
        svg.picture xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (tall) } width=(WIDTH) height=(tall) {
            style { (PreEscaped(STYLE)) (PreEscaped(own)) }
            rect.paper width=(WIDTH) height=(tall) {}
            text.title x="20" y="26" { (title) }
            @for (at, line) in (0..).zip(&above) { text.what x="20" y=(46 + at * LINE) { (line) } }
            svg x=(20 + GUTTER) y=(top) width=(WIDTH - 40 - GUTTER) height=(chart.tall()) { (chart.svg()) }
            @for (at, (sample, line)) in (0..).zip(&below) {
                @let y = bottom + 14 + at * LINE;
                @if let Some((class, form)) = sample {
                    @let (from, until) = if *form == "tick" { ((27, y - 10), (27, y)) } else { ((20, y - 4), (34, y - 4)) };
                    line.(class) x1=(from.0) y1=(from.1) x2=(until.0) y2=(until.1) stroke-width="3" {}
                }
                text x="42" y=(y) { (line) }
            }
        }
    };
    visible(&markup.into_string()) + "\n"
}

fn wrapped(words: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let long = lines.last().is_some_and(|line| !line.is_empty() && line.len() + word.len() >= LETTERS);
        if long {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(&format!("{space}{word}"));
        }
    }
    lines
}
