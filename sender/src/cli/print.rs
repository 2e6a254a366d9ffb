use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde_json::Value;

use super::failure::Failure;
use crate::engine::StoreTime;
use crate::excerpt::is_hidden;
pub(super) use crate::operate::json_forms::{moment, place};
use crate::store::latency::{Histogram, Percentiles, TOO_HIGH_PERMILLE};
pub(super) use crate::units::rough;

/// Writes until the reader closes the pipe (`| head`).
pub(super) struct Printer {
    out: Box<dyn Write>,
    pub(super) json: bool,
    colour: bool,
    closed: bool,
}

impl Printer {
    pub(super) fn stdout(json: bool) -> Self {
        let out = io::stdout();
        let colour = out.is_terminal() && wants_colour();
        Self { out: Box::new(out), json, colour, closed: false }
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.write(&format!("{text}\n"))
    }

    pub(super) fn object(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(value)
    }

    pub(super) fn table(&mut self, table: &Table, when_empty: &str) -> Result<(), Failure> {
        if table.rows.is_empty() {
            return self.line(when_empty);
        }
        self.write(&table.render(self.colour))
    }

    /// Data, as it is.
    pub(super) fn pairs(&mut self, pairs: &[(String, String)]) -> Result<(), Failure> {
        self.each(pairs, |label, value| format!("{label}{value}"))
    }

    /// Long values are wrapped.
    pub(super) fn sentences(&mut self, pairs: &[(String, String)]) -> Result<(), Failure> {
        self.each(pairs, wrapped)
    }

    fn each(
        &mut self,
        pairs: &[(String, String)],
        line: impl Fn(&str, &str) -> String,
    ) -> Result<(), Failure> {
        let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in pairs {
            self.line(line(&format!("{name:width$}  "), &fit(value)))?;
        }
        Ok(())
    }

    /// Further lines of a long value begin below its first.
    pub(super) fn labelled(&mut self, label: &str, value: &str) -> Result<(), Failure> {
        self.line(wrapped(label, &fit(value)))
    }

    fn write(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => Err(Failure::ours(format_args!("cannot write to stdout: {error}"))),
        }
    }
}

/// See <https://no-color.org>.
pub(super) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A heading with `>` aligns its column to the right.
pub(super) struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) const fn new(headings: &'static [&'static str]) -> Self {
        Self { headings, rows: Vec::new() }
    }

    pub(super) fn row<const CELLS: usize>(&mut self, cells: [String; CELLS]) {
        debug_assert_eq!(CELLS, self.headings.len(), "a cell for each heading");
        self.rows.push(cells.iter().map(|cell| fit(cell)).collect());
    }

    fn render(&self, colour: bool) -> String {
        let headings: Vec<_> =
            self.headings.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        let widths: Vec<_> = (0..headings.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&headings]).filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        let (bold, plain) = if colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(text, "{bold}{}{plain}", self.render_row(&headings, &widths));
        for row in &self.rows {
            text.push_str(&self.render_row(row, &widths));
            text.push('\n');
        }
        text
    }

    fn render_row(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).zip(self.headings).map(|((cell, &width), heading)| {
            if heading.starts_with('>') { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

/// A command between backticks stays on one line.
fn wrapped(label: &str, text: &str) -> String {
    const COLUMNS: usize = 120;
    let margin = label.chars().count();
    let (mut words, mut is_code) = (Vec::<String>::new(), false);
    let mut left = text.matches('`').count();
    for word in text.split(' ') {
        match words.last_mut().filter(|_| is_code) {
            Some(code) => code.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
        let here = word.matches('`').count();
        left -= here;
        // An unclosed one opens nothing.
        is_code = (is_code ^ (here % 2 == 1)) && left > 0;
    }
    let (mut lines, mut column) = (label.to_owned(), margin);
    for (at, word) in words.iter().enumerate() {
        let length = word.chars().count();
        if at > 0 && column + 1 + length > COLUMNS {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', margin));
            column = margin;
        } else if at > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Replaces control characters, because strangers choose names and errors.
fn fit(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    text.chars().map(|letter| if is_hidden(letter) { '\u{fffd}' } else { letter }).collect()
}

pub(super) fn ago(at: StoreTime, now: StoreTime) -> String {
    format!("{} ago", rough(now.since(at)))
}

pub(super) fn relative_time(at: StoreTime, now: StoreTime) -> String {
    if at > now { format!("in {}", rough(at.since(now))) } else { ago(at, now) }
}

pub(super) fn latency(counted: Option<&Histogram>) -> String {
    let is_slow = counted.and_then(Histogram::percentiles).is_some_and(|found| found.is_slow());
    format!("{}{}", lengths(counted, "attempts"), if is_slow { "; SLOW" } else { "" })
}

pub(super) fn lengths(counted: Option<&Histogram>, what: &str) -> String {
    counted.and_then(Histogram::percentiles).map_or_else(
        || format!("no {what} in the last 24 h"),
        |Percentiles { samples, p50, p95, p99 }| {
            let [p50, p95, p99] = [p50, p95, p99].map(rough);
            let (percent, rest) = (TOO_HIGH_PERMILLE / 10, TOO_HIGH_PERMILLE % 10);
            format!(
                "p50 {p50}, p95 {p95}, p99 {p99} (at most {percent}.{rest} % too high) over {samples} {what} in the last 24 h"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_headings_and_figures_to_the_right() {
        let mut table = Table::new(&["NAME", ">ROWS", "STATE"]);
        table.row(["a".into(), "1".into(), "active".into()]);
        table.row(["größer".into(), "1000".into(), String::new()]);
        let expected = "NAME    ROWS  STATE\na          1  active\ngrößer  1000  -\n";
        assert_eq!(table.render(false), expected);
        assert!(table.render(true).starts_with("\x1b[1mNAME    ROWS  STATE\x1b[0m\n"));
    }

    #[test]
    fn a_long_value_is_wrapped_below_its_first_line() {
        let (word, longest) = ("x".repeat(55), "y".repeat(130));
        let text = format!("{word} {word} {word} {longest} end");
        let expected = format!("state  {word} {word}\n       {word}\n       {longest}\n       end");
        assert_eq!(wrapped("state  ", &text), expected);
        let command = format!("`sender {}`", "resume ".repeat(20).trim_end());
        assert_eq!(wrapped("state  ", &format!("then {command}")), format!("state  then\n       {command}"));
        assert_eq!(wrapped("state  ", "two  spaces stay"), "state  two  spaces stay");
        let odd = wrapped("", &format!("`foo {}", "bar ".repeat(100)));
        assert!(odd.lines().all(|line| line.len() <= 120), "{odd}");
    }

    #[test]
    fn a_strangers_text_can_not_move_the_cursor() {
        assert_eq!(fit("a\x1b[2J\nb\u{202e}c"), "a\u{fffd}[2J\u{fffd}b\u{fffd}c");
    }
}
