use std::io;
use std::path::PathBuf;

use hookproof_judge::scenario::{Duration, Problem};

use super::client::{CallError, CertificateError};
use super::template::{Redactor, TemplateError};

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("the driver's {what} cannot be made: {error}")]
    Template { what: &'static str, error: TemplateError },
    #[error(
        "the driver's {what} is {request:?}; expected a method and a URL, such as \"POST {{{{ base }}}}/events\""
    )]
    Request { what: &'static str, request: String },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Silent(#[from] CallError),
    #[error("{what} was answered with {status}; expected {expected}: {body}")]
    Status {
        what: &'static str,
        status: u16,
        expected: String,
        /// The answer's beginning.
        body: String,
    },
    #[error("the answer to {what} has no value at {pointer:?}, which the driver saves as {variable:?}")]
    Missing { what: &'static str, pointer: String, variable: String },
    #[error("the answer to {what} cannot be read: {why}")]
    Unreadable { what: &'static str, why: String },
    #[error("the list of dead letters does not end: {listed} were listed; expected at most {most}")]
    Endless { listed: usize, most: usize },
    #[error("{what} did not reach the expected state within {within}: {last}")]
    NotYet {
        what: &'static str,
        within: Duration,
        /// The last difference.
        last: String,
    },
    #[error("the driver file has no [{what}]")]
    Absent { what: &'static str },
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

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Command(#[from] ApiError),
    #[error("the sender's process {worker} cannot be started: {error}; its command is {command:?}")]
    Start {
        worker: usize,
        /// Redacted.
        command: Vec<String>,
        error: io::Error,
    },
    #[error("the sender's process {worker} ended before it was ready ({status}): {last}\nits log is {log}", log = log.display())]
    Ended {
        worker: usize,
        status: String,
        /// Its last output, redacted.
        last: String,
        log: PathBuf,
    },
    #[error("the sender's process {worker} is not ready after {within:?}; its log is {log}", log = log.display())]
    Late { worker: usize, within: std::time::Duration, log: PathBuf },
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("the driver file {path} cannot be read: {error}", path = path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}
