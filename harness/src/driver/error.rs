//! Why a call to a sender under test did not do what it was for.

use super::client::CallError;
use super::redactor::Redactor;
use super::template::TemplateError;

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
        match &mut self {
            Self::Request { request: text, .. } | Self::Status { body: text, .. } => {
                *text = hidden.hide(text);
            }
            Self::Silent(error) => {
                (error.url, error.why) = (hidden.hide(&error.url), hidden.hide(&error.why));
            }
            _ => {}
        }
        self
    }
}
