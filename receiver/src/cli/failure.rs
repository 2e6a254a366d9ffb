use std::process::ExitCode;

use crate::inbox::OpenError;
use crate::server::BindError;
use crate::verify::KeyError;

const EXIT_USAGE: u8 = 64;
/// The disk, the network or a defect.
const EXIT_OURS: u8 = 70;

/// One line: subject, expected, found, hint.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Ours(String),
}

impl Failure {
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => EXIT_USAGE,
            Self::Ours(_) => EXIT_OURS,
        })
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse { .. }
            | OpenError::Foreign { .. }
            | OpenError::OtherVersion { .. }
            | OpenError::InPart { .. } => Self::Usage(error.to_string()),
            OpenError::Failed { .. } => Self::Ours(error.to_string()),
        }
    }
}

impl From<BindError> for Failure {
    fn from(error: BindError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Ours(error.to_string())
    }
}
