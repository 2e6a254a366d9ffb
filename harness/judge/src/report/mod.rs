//! The reports of runs, receivers, loads and plans.

mod chart;
pub mod compare;
mod drawing;
mod drawn;
pub mod junit;
mod markdown;
mod page;
mod run;
mod run_page;
mod table;

pub use chart::{Band, Chart, Shape, places};
pub use drawn::{Break, Drawn, LaneDrawn, Series};
pub use junit::{Regressions, Unjudged, junit};
pub use markdown::{bars, markdown};
pub use page::{page, picture, unjudged};
pub use run::{Course, FaultReport, Lag, Report, SubscriberReport, schema};
pub use run_page::{html, html_awaited, html_live, html_unjudged};
pub use table::{Colours, TimeUnit, columns, in_one_line, paint, terminal, visible};

use crate::catalogue::{self, Verdict as Status};
use crate::check::Witness;
use crate::check::verdict::moment;

#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    pub about: String,
    pub facts: Vec<String>,
    pub verdict: Headline,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// None before the end.
    pub status: Option<Status>,
    pub sentence: String,
    pub failures: Vec<(String, String)>,
    pub more: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Part {
    Title(String),
    Text(String),
    Lead(String),
    Remedy(String),
    List(Vec<String>),
    Lines(Vec<String>),
    Table(Table),
    Chart(Box<Chart>),
    /// A failure or a subscriber, with its status as a mark, under a name for links.
    Card {
        status: Option<Status>,
        name: String,
        parts: Vec<Part>,
    },
    Fold {
        status: Option<Status>,
        summary: String,
        open: bool,
        parts: Vec<Part>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    pub searched: bool,
}

#[derive(Clone, Debug)]
pub enum Cell {
    Text(String),
    Code(String),
    Link(String),
    /// Right-aligned.
    Number(String),
    Status(Status),
}

impl Table {
    pub fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let row = |(name, value): (&str, String)| vec![Cell::Text(name.to_owned()), Cell::Text(value)];
        Self { rows: pairs.into_iter().map(row).collect(), ..Self::default() }
    }
}

fn witnessed(witness: &Witness) -> String {
    let whose = witness.subscriber.as_deref().unwrap_or("the sender");
    format!("at {}, {whose}: {}", moment(witness.from), witness.what)
}

pub fn remedy(id: &str) -> &'static str {
    catalogue::find(id).map_or("", |entry| entry.remedy.as_str())
}

pub fn explained(id: &str) -> Vec<Part> {
    let Some(entry) = catalogue::find(id) else { return Vec::new() };
    let rows = [
        ("requirement", entry.requirement.clone()),
        ("reason", entry.why.clone()),
        ("source", entry.source.clone()),
    ];
    let rows = rows.into_iter().filter(|(_, text)| !text.is_empty());
    vec![Part::Table(Table::pairs(rows))]
}
