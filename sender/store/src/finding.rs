//! The findings of `doctor`.

use std::fmt::Display;

use super::StoreError;

const NAMES_MAX: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub state: State,
    /// Empty if all is well.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Well,
    /// The check would have delayed writers.
    Unchecked,
    Off,
    Mended,
}

impl Finding {
    #[must_use]
    pub fn well(check: &'static str) -> Self {
        Self { check, state: State::Well, detail: String::new() }
    }

    #[must_use]
    pub fn off(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Off, detail: detail.into() }
    }

    /// Turns a read failure into a finding, so that the other checks go on.
    pub(crate) fn checked(check: &'static str, found: Result<Self, StoreError>) -> Result<Self, StoreError> {
        match found {
            Err(error) if error.is_damage() => Ok(Self::unreadable(check, error)),
            found => found,
        }
    }

    /// Off, since it cannot be read.
    #[must_use]
    pub fn unreadable(check: &'static str, why: impl Display) -> Self {
        Self::off(check, format!("cannot be checked: {why}"))
    }

    /// Well if there are no names.
    #[must_use]
    pub fn of(check: &'static str, names: &[String], what: &str) -> Self {
        if names.is_empty() {
            return Self::well(check);
        }
        let more = names.len().saturating_sub(NAMES_MAX);
        let named = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Self::off(check, format!("{what}: {named}{more}"))
    }

    #[must_use]
    pub fn mended(self) -> Self {
        Self { state: State::Mended, ..self }
    }
}

impl State {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Unchecked => "unchecked",
            Self::Off => "off",
            Self::Mended => "mended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_cut() {
        let names: Vec<_> = (0..12).map(|n| n.to_string()).collect();
        let detail = Finding::of("lanes", &names, "stuck").detail;
        assert!(detail.starts_with("stuck: 0, 1,") && detail.ends_with("9, and 2 more"), "{detail}");
    }
}
