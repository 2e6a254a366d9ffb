//! The keys of a scenario, with their types and meanings: the single source for the reader, its messages and
//! the published schema.

#[derive(Debug)]
pub(super) struct Section {
    pub(super) about: &'static str,
    pub(super) fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) key: &'static str,
    pub(super) form: Form,
    pub(super) need: Need,
    pub(super) about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Must,
    May,
}

#[derive(Debug)]
pub(super) enum Form {
    Text,
    Flag,
    Count,
    Decimal,
    Duration,
    Rate,
    Size,
    Window,
    Day,
    /// `20ms..80ms`
    Durations,
    /// `200..2000`
    Counts,
    /// One of these words.
    Word(&'static [&'static str]),
    List(&'static Form),
    /// A table with arbitrary keys.
    Map(&'static Form),
    Table(&'static Section),
    /// `[[…]]`
    Tables(&'static Section),
    Either(&'static Form, &'static Form),
}

pub(super) const fn may(key: &'static str, form: Form, about: &'static str) -> Field {
    Field { key, form, need: Need::May, about }
}

pub(super) const fn must(key: &'static str, form: Form, about: &'static str) -> Field {
    Field { key, form, need: Need::Must, about }
}

impl Form {
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::Decimal => "a number, such as 0.98".to_owned(),
            Self::Duration => "a duration with its unit, such as \"5s\"".to_owned(),
            Self::Rate => "a rate with its unit, such as \"20/s\"".to_owned(),
            Self::Size => "a size with its unit, such as \"64MiB\"".to_owned(),
            Self::Window => "a window cap, such as \"60 per 1s\"".to_owned(),
            Self::Day => "a day, such as \"2027-01-01\"".to_owned(),
            Self::Durations => "a duration or a range of them, such as \"20ms..80ms\"".to_owned(),
            Self::Counts => "a range of whole numbers, such as \"200..2000\"".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::List(form) => format!("a list of {}", form.expected()),
            Self::Map(form) => format!("a table of {}", form.expected()),
            Self::Table(_) => "a table".to_owned(),
            Self::Tables(_) => "tables, each with its own [[…]]".to_owned(),
            Self::Either(one, other) => format!("{}, or {}", one.expected(), other.expected()),
        }
    }
}
