//! The reports of runs, receivers, loads and plans.
//!
//! Reading order: `Document`, a report of any kind, with its `page`, `chart`, `table`, `junit` and `markdown`; `run`,
//! a run's report and its JSON; `compare`, a report against an older one.

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
pub use table::{Colours, columns, in_one_line, paint, terminal, visible};

use crate::catalogue::{self, Verdict as Status};
use crate::check::Witness;
use crate::check::verdict::moment;

// A report of any kind: a verdict, and parts in reading order.

#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its subject: a scenario's name, a receiver's address.
    pub title: String,
    /// The purpose, or the way it was tested.
    pub about: String,
    /// The sender, the date and the duration, in one line.
    pub facts: Vec<String>,
    pub verdict: Headline,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// None for figures without a limit.
    pub status: Option<Status>,
    /// The counts, or the reason.
    pub sentence: String,
    /// Each with the name of its card; the head shows the first ones.
    pub failures: Vec<(String, String)>,
    /// Further facts, such as the unproven.
    pub more: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// A heading.
    Title(String),
    /// A note.
    Text(String),
    /// The one sentence of a card.
    Lead(String),
    /// The way to mend a failure.
    Remedy(String),
    /// A list.
    List(Vec<String>),
    /// Preformatted texts: commands, requests, answers; several are side by side.
    Lines(Vec<String>),
    /// A table.
    Table(Table),
    /// A drawing.
    Chart(Box<Chart>),
    /// A failure or a subscriber, with its status as a mark, under a name for links.
    Card { status: Option<Status>, name: String, parts: Vec<Part> },
    /// A part that is folded by default.
    Fold { status: Option<Status>, summary: String, open: bool, parts: Vec<Part> },
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The names of the columns; none for name and value pairs.
    pub head: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    pub searched: bool,
}

#[derive(Clone, Debug)]
pub enum Cell {
    Text(String),
    Code(String),
    Link(String),
    /// A figure, right-aligned.
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
