//! The target of a fault among several processes.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// By its number, from 0.
    Worker(u32),
    /// The process that serves this subscriber when the fault is due.
    OwnerOf(String),
}

/// The prefix of its text form.
const OWNER_OF: &str = "owner of ";

impl FaultTarget {
    /// Parses `owner of NAME`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix(OWNER_OF).map(str::trim).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| format!("expected a number or \"{OWNER_OF}NAME\", got {text:?}"))?;
        Ok(Self::OwnerOf(name.to_owned()))
    }

    #[must_use]
    pub fn owner_of(&self) -> Option<&str> {
        match self {
            Self::Worker(_) => None,
            Self::OwnerOf(name) => Some(name),
        }
    }

    /// The fixed number of the process; none for an owner.
    #[must_use]
    pub fn worker(&self) -> Option<usize> {
        match self {
            Self::Worker(worker) => usize::try_from(*worker).ok(),
            Self::OwnerOf(_) => None,
        }
    }

    /// Its text in the trace, with the process that was struck.
    #[must_use]
    pub fn told(&self, struck: Option<usize>) -> String {
        match (self, struck) {
            (Self::Worker(worker), _) => format!("worker {worker}"),
            (Self::OwnerOf(name), Some(worker)) => format!("worker {worker}, {OWNER_OF}{name}"),
            (Self::OwnerOf(name), None) => format!("{OWNER_OF}{name}"),
        }
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(None))
    }
}
