//! What a look at a store found, for operators.

use std::fmt::Display;

use super::StoreError;

/// So many names are named.
const NAMES_MAX: usize = 10;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check, in one word.
    pub check: &'static str,
    /// Its verdict.
    pub state: State,
    /// For people; nothing, where all is well.
    pub detail: String,
}

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is wrong.
    Well,
    /// It would have held up those that write.
    Unchecked,
    /// Something is wrong.
    Off,
    /// Something was wrong and is repaired.
    Mended,
}

impl Finding {
    /// Nothing is wrong.
    #[must_use]
    pub fn well(check: &'static str) -> Self {
        Self { check, state: State::Well, detail: String::new() }
    }

    /// Something is wrong.
    #[must_use]
    pub fn off(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Off, detail: detail.into() }
    }

    /// Off, if what is checked cannot be read: the other checks go on.
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

    /// Off, unless there is nothing to name.
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

    /// The same, repaired.
    #[must_use]
    pub fn mended(self) -> Self {
        Self { state: State::Mended, ..self }
    }
}

impl State {
    /// In one word.
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
