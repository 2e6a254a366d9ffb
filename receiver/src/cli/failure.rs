//! Why a command ended early, and the exit code that says so to a script.

use std::process::ExitCode;

use crate::inbox::OpenError;
use crate::server::BindError;
use crate::verify::KeyError;

/// A bad command line, or a bad setting in it.
const EXIT_USAGE: u8 = 64;
/// We failed: the disk, the network, a defect.
const EXIT_OURS: u8 = 70;

/// Why a command ended early, in one line: what, expected, got, hint.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The command line, or a setting in it.
    #[error("{0}")]
    Usage(String),
    /// It is not the asker's fault.
    #[error("{0}")]
    Ours(String),
}

impl Failure {
    /// The exit code.
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
            OpenError::InUse { .. } | OpenError::Foreign { .. } | OpenError::OtherVersion { .. } => {
                Self::Usage(error.to_string())
            }
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
