//! A run's first failure as an SVG picture, for pages without HTML, such as a README.

use maud::{PreEscaped, html};

use super::chart::Chart;
use super::drawing::closeup;
use super::page::STYLE;
use super::run::Report;
use super::table::visible;

const WIDTH: usize = 760;
const LINE: usize = 18;
/// Letters in a line.
const LETTERS: usize = 92;

/// The first failure as a picture; none if no failure can be drawn.
#[must_use]
pub fn picture(report: &Report) -> Option<String> {
    let drawn = report.course.drawn.closeups.first()?;
    let verdict = report.judgement.verdicts.iter().find(|one| one.id == drawn.check)?;
    let witness = verdict.witness.get(drawn.witness)?;
    Some(framed(
        &format!("{}: {}", verdict.status, verdict.id),
        &witness.what,
        &closeup(report, drawn, witness),
    ))
}

fn framed(title: &str, what: &str, chart: &Chart) -> String {
    let (above, below) = (wrapped(what), chart.words());
    let below: Vec<(Option<&str>, String)> = below
        .iter()
        .flat_map(|(class, words)| {
            let lines = wrapped(words).into_iter().enumerate();
            lines.map(|(at, line)| ((at == 0).then_some(*class), line)).collect::<Vec<_>>()
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
            svg x="20" y=(top) width="720" height=(chart.tall()) { (chart.svg()) }
            @for (at, (class, line)) in (0..).zip(&below) {
                @let y = bottom + 14 + at * LINE;
                @if let Some(class) = class {
                    line.(class) x1="20" x2="34" y1=(y - 4) y2=(y - 4) stroke-width="3" {}
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
