//! Renders a report as one self-contained HTML page: no font, image or other resource. It is complete
//! offline, on paper, in light and dark, and without its script, which only searches long tables and zooms
//! charts.

use maud::{Markup, PreEscaped, html};

use super::model::{Cell, Document, Headline, Part, Table};
use super::table::visible;
use crate::catalogue::Verdict as Status;

pub(super) const STYLE: &str = include_str!("page.css");
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
    let Document { title, about, verdict, parts } = document;
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
                    h1 { (title) }
                    p.soft { (about) }
                    @if let Some(kept) = kept {
                        p.soft #live data-kept=(kept) { "This page follows the run. When that is over: " (kept) }
                    }
                    div.verdict.(verdict.status.map_or("plain", class)) {
                        p { @if let Some(status) = verdict.status { strong { (status) } ": " } (verdict.sentence) }
                        @for more in &verdict.more { p.soft { (more) } }
                    }
                    @for part in parts { (shown(part)) }
                }
                script { (PreEscaped(SCRIPT)) @if kept.is_some() { (PreEscaped(LIVE)) } }
            }
        }
    };
    visible(&markup.into_string())
}

/// The page of a run that could not be judged. It replaces an older page, which must not stand for this run.
pub fn unjudged(title: &str, about: &str, why: &str, more: &[&str]) -> String {
    let verdict = Headline {
        status: Some(Status::Inconclusive),
        sentence: format!("not judged: {why}"),
        more: more.iter().map(|one| (*one).to_owned()).collect(),
    };
    page(&Document { title: title.to_owned(), about: about.to_owned(), verdict, parts: Vec::new() })
}

/// The style class of a verdict, which has a colour of its own.
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

fn shown(part: &Part) -> Markup {
    match part {
        Part::Title(text) => html! { h2 { (text) } },
        Part::Text(text) => html! { p.soft { (text) } },
        Part::List(points) => html! { ul { @for point in points { li { (point) } } } },
        Part::Lines(several) => html! { div.pair { @for lines in several { pre { (lines) } } } },
        Part::Table(table) => shown_table(table),
        Part::Chart(chart) => chart.figure(),
        Part::Card { status, name, parts } => html! {
            section.card.(status.map_or("plain", class)) id=(name) {
                h3 { (mark(*status)) (name) }
                @for part in parts { (shown(part)) }
            }
        },
        Part::Fold { status, summary, open, parts } => html! {
            details open[*open] {
                summary { (mark(*status)) (summary) }
                @for part in parts { (shown(part)) }
            }
        },
    }
}

fn shown_table(table: &Table) -> Markup {
    html! {
        // On a narrow screen the table scrolls inside its frame.
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
