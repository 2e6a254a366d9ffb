//! Why a driver file can't be used, a sender under test could not be started, or a call to it did not do what it was for.

use std::io;
use std::path::PathBuf;

use super::client::CallError;
use super::connector::CertificateError;
use super::redactor::Redactor;
use super::template::TemplateError;
use crate::scenario::{Duration, Problem};

/// A call that did not do what it was for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The template has holes that cannot be filled.
    #[error("the driver's {what} cannot be made: {error}")]
    Template {
        /// Which call.
        what: &'static str,
        /// Why not.
        error: TemplateError,
    },
    /// The request is none.
    #[error(
        "the driver's {what} is {request:?}; expected a method and a URL, such as \"POST {{{{ base }}}}/events\""
    )]
    Request {
        /// Which call.
        what: &'static str,
        /// What it is.
        request: String,
    },
    /// What the driver's `[connect]` names is of no use.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There was no answer.
    #[error(transparent)]
    Silent(#[from] CallError),
    /// The answer was a refusal.
    #[error("{what} was answered {status}, expected {expected}: {body}")]
    Status {
        /// Which call.
        what: &'static str,
        /// The status.
        status: u16,
        /// What would have been right.
        expected: String,
        /// The answer's beginning.
        body: String,
    },
    /// The answer lacks what is to be saved.
    #[error("{what}'s answer has nothing at {pointer:?}, which the driver saves as {variable:?}")]
    Missing {
        /// Which call.
        what: &'static str,
        /// Where it was looked for.
        pointer: String,
        /// What it should have been.
        variable: String,
    },
    /// The answer can't be read.
    #[error("{what}'s answer can't be read: {why}")]
    Unreadable {
        /// Which call.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The list of dead letters goes in circles, or on and on.
    #[error("the list of dead letters comes to no end: {listed} were listed, where there can be {most}")]
    Endless {
        /// How many there were until then.
        listed: usize,
        /// How many there can be.
        most: usize,
    },
    /// An answer never had the values that were waited for.
    #[error("{what} was not what the driver waits for after {within}: {last}")]
    NotYet {
        /// Which call.
        what: &'static str,
        /// How long it was asked again.
        within: Duration,
        /// What there was in the last answer.
        last: String,
    },
    /// The driver has no such call.
    #[error("the driver has no [{what}]")]
    Absent {
        /// Which call.
        what: &'static str,
    },
}

impl ApiError {
    /// The same without what must not be told.
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

/// Processes that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its command has holes that cannot be filled.
    #[error(transparent)]
    Command(#[from] ApiError),
    /// A process cannot be started.
    #[error("the sender's process {worker} cannot be started: {error}; its command is {command:?}")]
    Start {
        /// Which one.
        worker: usize,
        /// What was to be started, without what must not be told.
        command: Vec<String>,
        /// Why not.
        error: io::Error,
    },
    /// A process ended before it was ready.
    #[error("the sender's process {worker} ended before it was ready ({status}): {last}\nits log is {log}", log = log.display())]
    Ended {
        /// Which one.
        worker: usize,
        /// How.
        status: String,
        /// What it said last, without what must not be told.
        last: String,
        /// Where it wrote.
        log: PathBuf,
    },
    /// A process isn't ready in time.
    #[error("the sender's process {worker} is not ready after {within:?}; its log is {log}", log = log.display())]
    Late {
        /// Which one.
        worker: usize,
        /// How long it had.
        within: std::time::Duration,
        /// Where it wrote.
        log: PathBuf,
    },
}

/// A driver file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("the driver file {path} cannot be read: {error}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// It has mistakes.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}
