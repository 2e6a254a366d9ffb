use std::fmt::Display;
use std::process::ExitCode;

use crate::runtime::{Failed, OpenError};
use crate::store::read::ReadError;
use crate::store::{Refusal, StoreError};

const EXIT_USAGE: u8 = 64;
/// The disk, the store or a defect.
const EXIT_OURS: u8 = 70;
const EXIT_REFUSED: u8 = 1;

/// One line: subject, expected, found, hint.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Damaged(String),
    #[error("{0}")]
    Ours(String),
}

impl Failure {
    pub(super) fn usage(text: impl Display) -> Self {
        Self::Usage(text.to_string())
    }

    pub(super) fn refused(text: impl Display) -> Self {
        Self::Refused(text.to_string())
    }

    pub(super) fn ours(text: impl Display) -> Self {
        Self::Ours(text.to_string())
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Refused(_) => EXIT_REFUSED,
            Self::Damaged(_) | Self::Ours(_) => EXIT_OURS,
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::OtherVersion { .. }
            | StoreError::Foreign { .. }
            | StoreError::Key { .. }
            | StoreError::InPart { .. } => Self::usage(error),
            error if error.is_damage() => Self::Damaged(error.to_string()),
            other => Self::ours(other),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::Cursor(_) => Self::ours(error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match &error {
            OpenError::Store {
                error:
                    StoreError::OtherVersion { .. }
                    | StoreError::Foreign { .. }
                    | StoreError::Key { .. }
                    | StoreError::InPart { .. },
                ..
            } => Self::usage(error),
            _ => Self::ours(error),
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        Self::ours(failed)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::refused(refusal)
    }
}
