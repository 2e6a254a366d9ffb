//! The results of the steps.

use serde::Serialize;

use crate::driver::Exchange;

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It worked.
    Passed,
    /// It was skipped, with the reason.
    Skipped(String),
    /// It failed, with the reason.
    Failed(String),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name.
    pub step: &'static str,
    /// `passed`, `skipped` or `failed`.
    pub status: &'static str,
    /// The finding, or the reason.
    pub what: String,
    /// The request of a failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
    /// The answer to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
}

/// The result of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rehearsal {
    /// The driver's name.
    pub driver: String,
    /// The exit code.
    pub code: u8,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

impl Rehearsal {
    pub(super) fn new(driver: &str) -> Self {
        Self { driver: driver.to_owned(), code: 0, steps: Vec::new() }
    }

    pub(super) fn passed(&mut self, step: &'static str, what: String) {
        self.steps.push(Step { step, status: "passed", what, sent: None, got: None });
    }

    pub(super) fn skipped(&mut self, step: &'static str, why: &str) {
        self.steps.push(Step { step, status: "skipped", what: why.to_owned(), sent: None, got: None });
    }

    /// `code` is the exit code of this failure.
    pub(super) fn failed(&mut self, step: &'static str, why: String, last: Option<Exchange>, code: u8) {
        self.code = hookproof_judge::exit::worse(self.code, code);
        let (sent, got) = last.map(|Exchange { sent, got }| (sent, got)).unzip();
        self.steps.push(Step { step, status: "failed", what: why, sent, got });
    }

    /// A line for each step, and below a failed one its request and answer.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Step { step, status, what, sent, got } in &self.steps {
            text.push_str(&format!("{status:7}  {step:11}  {}\n", marked(what)));
            for (name, part) in [("sent", sent), ("got", got)] {
                for part in part.iter().filter(|part| !part.trim_end().is_empty()) {
                    text.push_str(&format!("         {name:>11}  {}\n", marked(part)));
                }
            }
        }
        let failed = self.steps.iter().filter(|step| step.status == "failed").count();
        let end = match failed {
            0 => "the driver works".to_owned(),
            1 => "one step failed".to_owned(),
            _ => format!("{failed} steps failed"),
        };
        text.push_str(&format!("{}: {end}\n", self.driver));
        text
    }
}

/// Marks each line but the first: a CI runner obeys lines that begin with `::`, which a sender may print. For
/// it a carriage return also begins a line.
fn marked(text: &str) -> String {
    let lines = text.trim_end().replace("\r\n", "\n");
    lines.replace(['\r', '\n'], &format!("\n{:22}| ", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_with_what_a_sender_said() {
        let said = "no\n::error ::a\r::error ::b\r\n  ::error ::c";
        let mut rehearsal = Rehearsal::new("x");
        let last = Exchange { sent: said.to_owned(), got: said.to_owned() };
        rehearsal.failed("emit", said.to_owned(), Some(last), hookproof_judge::exit::UNREACHABLE);
        let text = rehearsal.text();
        assert_eq!(text.matches("::error").count(), 9, "{text}");
        let obeyed = |line: &&str| line.trim_start().starts_with("::");
        assert_eq!(text.split(['\n', '\r']).find(obeyed), None, "{text}");
    }
}
