use serde_path_to_error::{Path, Segment};

use super::text::SettingsText;
use crate::engine::OutOfRange;
use crate::event::coalesce::{CoalescingError, CoalescingRule};
use crate::event::shape::{PseudonymRule, ShapingError};
use crate::excerpt::Excerpt;

/// A message, a [code](Self::code) for programs, and the [field](Self::field) at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("the settings cannot be read: {problem}")]
    NotJson { problem: Box<str> },
    #[error("the settings cannot be read: {problem}")]
    NotSettings { problem: Box<str> },
    #[error("the settings have no field {field}; {hint}")]
    UnknownField {
        field: Excerpt,
        /// A similar field, or the known fields.
        hint: Box<str>,
    },
    #[error("{field} cannot be read: {problem}")]
    Unreadable { field: Box<str>, problem: Box<str> },
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    #[error("{field} {problem}")]
    Contradiction { field: &'static str, problem: Box<str> },
    #[error("shape cannot be followed: {0}")]
    Shape(#[from] ShapingError),
    #[error("coalesce cannot be followed: {0}")]
    Coalesce(#[from] CoalescingError),
}

impl SettingsError {
    /// A message may quote its input.
    const PROBLEM_BYTES_MAX: usize = 300;

    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::NotSettings { .. } => "unreadable",
            Self::UnknownField { .. } => "unknown_field",
            Self::Unreadable { .. } => "unreadable_field",
            Self::OutOfRange(_) => "out_of_range",
            Self::Contradiction { .. } => "contradiction",
            Self::Shape(_) => "bad_shape",
            Self::Coalesce(_) => "bad_coalescing",
        }
    }

    /// With dots: `limit.burst`. An unknown one may be cut.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::NotJson { .. } | Self::NotSettings { .. } => None,
            Self::UnknownField { field, .. } => Some(field.as_str()),
            Self::Unreadable { field, .. } => Some(field),
            Self::OutOfRange(error) => Some(error.field.split(' ').next().unwrap_or(error.field)),
            Self::Contradiction { field, .. } => Some(field),
            Self::Shape(_) => Some("shape"),
            Self::Coalesce(_) => Some("coalesce"),
        }
    }

    pub(super) fn not_json(problem: &str) -> Self {
        Self::NotJson { problem: fit(problem) }
    }

    pub(super) fn at(path: &Path, problem: &str) -> Self {
        let names: Vec<&str> = path.iter().filter_map(name).collect();
        match names.split_last() {
            None => Self::NotSettings { problem: fit(problem) },
            Some((last, parents)) => {
                let known = known_in(parents);
                if known.contains(last) {
                    Self::Unreadable { field: path.to_string().into(), problem: fit(problem) }
                } else {
                    let parents: String = parents.iter().map(|parent| format!("{parent}.")).collect();
                    let field = Excerpt::of(&format!("{parents}{last}"));
                    Self::UnknownField { field, hint: hint(&parents, last, known) }
                }
            }
        }
    }
}

fn name(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Map { key } => Some(key),
        Segment::Enum { variant } => Some(variant),
        Segment::Seq { .. } | Segment::Unknown => None,
    }
}

fn known_in(parents: &[&str]) -> &'static [&'static str] {
    match parents {
        [] => SettingsText::FIELDS,
        ["coalesce"] => CoalescingRule::FIELDS,
        ["shape", "pseudonymise"] => PseudonymRule::FIELDS,
        [section] => {
            let section = SettingsText::SECTIONS.iter().find(|(name, _)| name == section);
            section.map_or(&[], |(_, fields)| fields)
        }
        _ => &[],
    }
}

/// The same name in another group, or a similar one in this group.
fn hint(parents: &str, given: &str, known: &[&str]) -> Box<str> {
    let elsewhere = SettingsText::SECTIONS.iter().find(|(_, fields)| fields.contains(&given));
    if let Some((section, _)) = elsewhere {
        return format!("did you mean {section}.{given}?").into();
    }
    if SettingsText::FIELDS.contains(&given) {
        return format!("did you mean {given}?").into();
    }
    // A long name is not a typing error.
    let near = nearest(given, known.iter().copied()).filter(|_| given.len() <= 64);
    match near {
        Some(meant) => format!("did you mean {parents}{meant}?").into(),
        None => format!("expected one of {}", known.join(", ")).into(),
    }
}

fn fit(problem: &str) -> Box<str> {
    let end = problem.floor_char_boundary(SettingsError::PROBLEM_BYTES_MAX);
    let mut text: String = problem[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if end < problem.len() {
        text.push('…');
    }
    text.into()
}

/// The first of equally near names.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // At least two, for two swapped letters, and never all.
    let letters = given.chars().count();
    let few = (letters / 3).max(2).min(letters.saturating_sub(1));
    let distances = known.into_iter().map(|name| (distance(given, name), name));
    distances
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= few)
        .map(|(_, name)| name)
}

/// Levenshtein distance.
fn distance(given: &str, known: &str) -> usize {
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (at, letter) in given.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in known.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[known.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let known = ["rate", "burst", "windows", "in_flight"];
        let rows = [
            ("brust", Some("burst")),
            ("bursts", Some("burst")),
            ("rates", Some("rate")),
            ("inflight", Some("in_flight")),
            ("window", Some("windows")),
            ("", None),
            ("banana", None),
            ("ttl", None),
        ];
        for (given, meant) in rows {
            assert_eq!(nearest(given, known), meant, "{given}");
        }
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        let rows = [("", "", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3), ("ä", "ö", 1)];
        for (given, known, letters) in rows {
            assert_eq!(distance(given, known), letters, "{given} {known}");
        }
    }
}
