//! What any report holds: a verdict, and parts in the order in which they are read. Makers of reports (a run, a receiver, a
//! load, a plan) fill it; `page` makes HTML of it.

use super::chart::Chart;
use crate::catalogue::{self, Verdict as Status};
use crate::check::Witness;
use crate::check::verdict::show;

/// A report as it is read, from its first line to its last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    /// What it is about: a scenario's name, a receiver's address.
    pub(crate) title: String,
    /// What that is for, or how it was tried.
    pub(crate) about: String,
    /// The verdict.
    pub(crate) verdict: Headline,
    /// What follows.
    pub(crate) parts: Vec<Part>,
}

/// The verdict of a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headline {
    /// What it came to; none for figures that nothing was held against.
    pub(crate) status: Option<Status>,
    /// Why, in one sentence.
    pub(crate) sentence: String,
    /// What else belongs to it, such as what was not proven.
    pub(crate) more: Vec<String>,
}

/// One part of a report.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A heading.
    Title(String),
    /// A paragraph.
    Text(String),
    /// Points of a list.
    List(Vec<String>),
    /// Lines as they were written: commands, requests, answers; several stand side by side.
    Lines(Vec<String>),
    /// A table.
    Table(Table),
    /// A drawing.
    Chart(Box<Chart>),
    /// What failed, or a subscriber: with its status as a mark, under a name that can be linked to.
    Card { status: Option<Status>, name: String, parts: Vec<Part> },
    /// What is read on request.
    Fold { status: Option<Status>, summary: String, open: bool, parts: Vec<Part> },
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The names of the columns; none for pairs of a name and a value.
    pub(crate) head: Vec<String>,
    /// The rows, in order.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether it is so long that its reader searches in it.
    pub(crate) searched: bool,
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// The name of a check, a command.
    Code(String),
    /// The same, with its card on the page.
    Link(String),
    /// A figure, to the right.
    Number(String),
    /// A verdict, in its colour and its word.
    Status(Status),
}

impl Table {
    /// Rows of a name and what it is.
    pub(crate) fn pairs(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let row = |(name, value): (&str, String)| vec![Cell::Text(name.to_owned()), Cell::Text(value)];
        Self { rows: pairs.into_iter().map(row).collect(), ..Self::default() }
    }
}

/// A witness in one sentence: when, at whom, what.
pub(super) fn witnessed(witness: &Witness) -> String {
    let whose = witness.subscriber.as_deref().unwrap_or("the sender");
    format!("at {}, {whose}: {}", show(witness.from), witness.what)
}

/// What to do against what breaks a check.
pub(super) fn remedy(id: &str) -> &'static str {
    catalogue::find(id).map_or("", |entry| entry.remedy.as_str())
}

/// What the catalogue says of a check: what must hold, why, what to do, and where that is written.
pub(crate) fn explained(id: &str) -> Vec<Part> {
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
