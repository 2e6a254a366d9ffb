use std::collections::BTreeSet;

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Band, Cell, Chart, Document, Headline, Part, Shape, Table, page};

pub(crate) fn gallery() -> String {
    page(&document())
}

const STATUSES: [Verdict; 6] = [
    Verdict::Fail,
    Verdict::HarnessError,
    Verdict::Warn,
    Verdict::Inconclusive,
    Verdict::Pass,
    Verdict::NotApplicable,
];
const BANDS: [&str; 8] = ["fault", "endpoint", "silence", "witness", "warned", "pause", "held", "open"];
const LINES: [&str; 8] = ["level", "waiting", "second", "third", "fourth", "fifth", "told", "taken"];

fn document() -> Document {
    let text = |text: &str| text.to_owned();
    let cards = STATUSES.map(|status| Part::Card {
        status: Some(status),
        name: format!("card-{status:?}"),
        parts: vec![
            Part::Lead(text("One sentence: 9 arrivals in 64 ms; 5 are allowed.")),
            Part::Remedy(text("charge the limiter when an attempt ends")),
        ],
    });
    let fold = Part::Fold {
        status: Some(Verdict::Pass),
        summary: text("A fold"),
        open: true,
        parts: vec![Part::Lines(vec![text("POST / HTTP/1.1"), text("HTTP/1.1 204 No Content")])],
    };
    let charts = [lines(), bars(), spans()].map(|chart| Part::Chart(Box::new(chart)));
    let parts = [Part::Title(text("Cards")), Part::Text(text("A note."))].into_iter().chain(cards);
    let rest = [Part::List(vec![text("a point"), text("another")]), Part::Table(table()), fold];
    Document {
        title: text("Gallery"),
        about: text("Every component that a page may have."),
        facts: vec![text("sender hookproof"), text("2026-01-31"), text("34.3 s")],
        verdict: Headline {
            status: Some(Verdict::Warn),
            sentence: text("4 warned · 12 passed"),
            failures: STATUSES.iter().map(|one| (format!("card-{one:?}"), text("one sentence"))).collect(),
            more: vec![text("Further facts.")],
        },
        parts: parts.chain(rest).chain(charts).collect(),
    }
}

fn table() -> Table {
    let row = |status| {
        vec![
            Cell::Status(status),
            Cell::Link(format!("card-{status:?}")),
            Cell::Code("sig.missing".to_owned()),
            Cell::Text("a delivery without a signature is rejected".to_owned()),
            Cell::Number("12.50".to_owned()),
        ]
    };
    let head = ["verdict", "card", "case", "requirement", "p99 (ms)"].map(str::to_owned).to_vec();
    Table { head, rows: STATUSES.map(row).to_vec(), searched: true }
}

fn lines() -> Chart {
    let mut chart = Chart::over("Lines, bands and ticks", (0, 8_000), |value| format!("{value} ms"));
    let line = |(at, class): (u64, &'static str)| Shape::Line {
        class,
        name: class.to_owned(),
        points: vec![(0, 90 - 10 * at), (4_000, 95 - 10 * at), (8_000, 90 - 10 * at)],
        holds: at % 2 == 0,
    };
    chart.shapes = (0..).zip(LINES).map(line).collect();
    (chart.bound, chart.violated) = (Some((92, "allowed: 92 ms".to_owned())), true);
    let band = |(at, class): (u64, &'static str)| Band {
        class,
        from: at * 1_000,
        until: at * 1_000 + 700,
        what: class.to_owned(),
    };
    chart.bands = (0..).zip(BANDS).map(band).collect();
    chart.ticks = (0..)
        .zip(["accused", "warned", "taken", "held", "failed"])
        .map(|(at, class)| (at * 900, class))
        .collect();
    chart.ticks_key = chart.ticks.iter().map(|(_, class)| (*class, format!("request: {class}"))).collect();
    chart
}

fn bars() -> Chart {
    let mut chart = Chart::over("Bars (logarithmic)", (0, 4), |value| value.to_string());
    let bars = |class, counts| Shape::Bars { class, name: class.to_owned(), step: 1, counts };
    chart.shapes = vec![bars("taken", vec![900, 80, 7, 1]), bars("held", vec![100, 20, 3, 0])];
    (chart.doubling, chart.places) = (true, (0..4).map(|at| (at, format!("{at}: x"))).collect());
    chart
}

fn spans() -> Chart {
    let mut chart = Chart::over("Spans", (0, 80), |value| value.to_string());
    let span = |(row, class): (u64, &'static str)| Shape::Span {
        class,
        from: row * 10,
        until: row * 10 + 10,
        row,
        what: class.to_owned(),
    };
    chart.shapes = (0..).zip(BANDS).map(span).collect();
    chart
}

fn kinds(part: &Part, found: &mut BTreeSet<&'static str>) {
    let kind = match part {
        Part::Title(_) => "title",
        Part::Text(_) => "text",
        Part::Lead(_) => "lead",
        Part::Remedy(_) => "remedy",
        Part::List(_) => "list",
        Part::Lines(_) => "lines",
        Part::Table(table) => {
            found.extend(table.rows.iter().flatten().map(|cell| match cell {
                Cell::Text(_) => "cell: text",
                Cell::Code(_) => "cell: code",
                Cell::Link(_) => "cell: link",
                Cell::Number(_) => "cell: number",
                Cell::Status(_) => "cell: status",
            }));
            "table"
        }
        Part::Chart(chart) => {
            found.extend(chart.shapes.iter().map(|shape| match shape {
                Shape::Line { .. } => "shape: line",
                Shape::Bars { .. } => "shape: bars",
                Shape::Span { .. } => "shape: span",
            }));
            "chart"
        }
        Part::Card { parts, .. } => {
            parts.iter().for_each(|part| kinds(part, found));
            "card"
        }
        Part::Fold { parts, .. } => {
            parts.iter().for_each(|part| kinds(part, found));
            "fold"
        }
    };
    found.insert(kind);
}

const KINDS: usize = 18;

#[test]
fn the_gallery_shows_every_component() {
    let mut found = BTreeSet::new();
    document().parts.iter().for_each(|part| kinds(part, &mut found));
    assert_eq!(found.len(), KINDS, "{found:?}");
}

/// The name of each colour in the console, and in the pages.
const COLOURS: [(&str, &str); 9] = [
    ("ground", "paper"),
    ("raised", "card"),
    ("ink", "ink"),
    ("quiet", "soft"),
    ("line", "line"),
    ("good", "pass"),
    ("bad", "fail"),
    ("warn", "warn"),
    ("accent", "bar"),
];

#[test]
fn the_console_has_the_colours_of_the_pages() {
    let (console, page) = (include_str!("../../../sender/console/index.html"), gallery());
    let (light, dark) = page.split_once("prefers-color-scheme:dark").expect("two themes");
    let colour = |css: &str, name: &str| {
        let (_, rest) = css.split_once(&format!("--{name}:")).unwrap_or_else(|| panic!("no {name}"));
        rest.split([';', '}']).next().unwrap_or_default().to_owned()
    };
    for (own, theirs) in COLOURS {
        let expected = format!("--{own}: light-dark({}, {});", colour(light, theirs), colour(dark, theirs));
        assert!(console.contains(&expected), "{expected}");
    }
}
