//! Errors of driver files, and of starting and calling a sender.

use std::io;
use std::path::PathBuf;

use hookproof_judge::scenario::{Duration, Problem};

use super::client::{CallError, CertificateError};
use super::template::{Redactor, TemplateError};

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The template has holes that cannot be filled.
    #[error("the driver's {what} cannot be made: {error}")]
    Template {
        /// The call.
        what: &'static str,
        /// The error.
        error: TemplateError,
    },
    /// The request line is invalid.
    #[error(
        "the driver's {what} is {request:?}; expected a method and a URL, such as \"POST {{{{ base }}}}/events\""
    )]
    Request {
        /// The call.
        what: &'static str,
        /// The request line.
        request: String,
    },
    /// The files of `[connect]` are unusable.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There was no answer.
    #[error(transparent)]
    Silent(#[from] CallError),
    /// The status was not accepted.
    #[error("{what} was answered with {status}; expected {expected}: {body}")]
    Status {
        /// The call.
        what: &'static str,
        /// The status.
        status: u16,
        /// The accepted statuses.
        expected: String,
        /// The answer's beginning.
        body: String,
    },
    /// The driver saves this value.
    #[error("the answer to {what} has no value at {pointer:?}, which the driver saves as {variable:?}")]
    Missing {
        /// The call.
        what: &'static str,
        /// The pointer.
        pointer: String,
        /// The variable.
        variable: String,
    },
    /// The answer can't be read.
    #[error("the answer to {what} cannot be read: {why}")]
    Unreadable {
        /// The call.
        what: &'static str,
        /// The error.
        why: String,
    },
    /// The list of dead letters repeats a page, or is longer than possible.
    #[error("the list of dead letters does not end: {listed} were listed; expected at most {most}")]
    Endless {
        /// Items until then.
        listed: usize,
        /// The most that are possible.
        most: usize,
    },
    /// The expected values did not come in time.
    #[error("{what} did not reach the expected state within {within}: {last}")]
    NotYet {
        /// The call.
        what: &'static str,
        /// How long the call was repeated.
        within: Duration,
        /// The last difference.
        last: String,
    },
    /// The driver has no such call.
    #[error("the driver file has no [{what}]")]
    Absent {
        /// The call.
        what: &'static str,
    },
}

impl ApiError {
    pub(super) fn hiding(mut self, hidden: &Redactor) -> Self {
        let hide = |text: &mut String| *text = hidden.hide(text);
        match &mut self {
            Self::Template { error, .. } => match error {
                TemplateError::Open { text }
                | TemplateError::Hole { hole: text }
                | TemplateError::Number { value: text, .. }
                | TemplateError::Environment { name: text } => hide(text),
                TemplateError::Unknown { name, known } => [name, known].into_iter().for_each(hide),
            },
            Self::Request { request: text, .. }
            | Self::Status { body: text, .. }
            | Self::Unreadable { why: text, .. }
            | Self::NotYet { last: text, .. } => hide(text),
            Self::Missing { pointer, variable, .. } => [pointer, variable].into_iter().for_each(hide),
            Self::Silent(error) => [&mut error.url, &mut error.why].into_iter().for_each(hide),
            Self::Certificate(error) => error.hide(hidden),
            Self::Endless { .. } | Self::Absent { .. } => {}
        }
        self
    }
}

/// Processes that did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its command has holes that cannot be filled.
    #[error(transparent)]
    Command(#[from] ApiError),
    /// A process cannot be started.
    #[error("the sender's process {worker} cannot be started: {error}; its command is {command:?}")]
    Start {
        /// Its number.
        worker: usize,
        /// Its command, redacted.
        command: Vec<String>,
        /// The error.
        error: io::Error,
    },
    /// A process ended before it was ready.
    #[error("the sender's process {worker} ended before it was ready ({status}): {last}\nits log is {log}", log = log.display())]
    Ended {
        /// Its number.
        worker: usize,
        /// Its exit status.
        status: String,
        /// Its last output, redacted.
        last: String,
        /// Its log.
        log: PathBuf,
    },
    /// A process was not ready in time.
    #[error("the sender's process {worker} is not ready after {within:?}; its log is {log}", log = log.display())]
    Late {
        /// Its number.
        worker: usize,
        /// The time limit.
        within: std::time::Duration,
        /// Its log.
        log: PathBuf,
    },
}

/// A driver file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("the driver file {path} cannot be read: {error}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// It has mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}
