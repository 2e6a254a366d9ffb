//! A report of any kind: a verdict, and parts in reading order. The makers of reports fill it; `page` renders
//! it as HTML.

use super::chart::Chart;
use crate::catalogue::{self, Verdict as Status};
use crate::check::Witness;
use crate::check::verdict::show;

#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its subject: a scenario's name, a receiver's address.
    pub title: String,
    /// The purpose, or the way it was tested.
    pub about: String,
    pub verdict: Headline,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Default)]
pub struct Headline {
    /// None for figures without a limit.
    pub status: Option<Status>,
    pub sentence: String,
    /// Further facts, such as the unproven.
    pub more: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Part {
    /// A heading.
    Title(String),
    /// A paragraph.
    Text(String),
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
    /// Whether it is long enough for a search field.
    pub searched: bool,
}

#[derive(Clone, Debug)]
pub enum Cell {
    Text(String),
    /// The name of a check, or a command.
    Code(String),
    /// The same, linked to its card on the page.
    Link(String),
    /// A figure, right-aligned.
    Number(String),
    Status(Status),
}

impl Table {
    /// Name and value pairs.
    pub fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let row = |(name, value): (&str, String)| vec![Cell::Text(name.to_owned()), Cell::Text(value)];
        Self { rows: pairs.into_iter().map(row).collect(), ..Self::default() }
    }
}

pub(super) fn witnessed(witness: &Witness) -> String {
    let whose = witness.subscriber.as_deref().unwrap_or("the sender");
    format!("at {}, {whose}: {}", show(witness.from), witness.what)
}

pub(super) fn remedy(id: &str) -> &'static str {
    catalogue::find(id).map_or("", |entry| entry.remedy.as_str())
}

pub fn explained(id: &str) -> Vec<Part> {
    let Some(entry) = catalogue::find(id) else { return Vec::new() };
    let rows = [
        ("what must hold", entry.requirement.clone()),
        ("why it matters", entry.why.clone()),
        ("what to do", entry.remedy.clone()),
        ("source", entry.source.clone()),
    ];
    let rows = rows.into_iter().filter(|(_, text)| !text.is_empty());
    vec![Part::Table(Table::pairs(rows))]
}
