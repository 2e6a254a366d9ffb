//! Reads a document's tree by the forms of its sections, and collects every problem.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::str::FromStr;

use super::document::{Entry, Node, Value};
use super::quantity::{Day, Duration, Millionths, Range, Rate, Size, Whole, Window};
use super::{FaultTarget, Problem, nearest};

pub(super) struct Problems {
    file: String,
    found: RefCell<Vec<Problem>>,
}

impl Problems {
    pub(super) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), found: RefCell::new(Vec::new()) }
    }

    fn add(&self, line: Option<usize>, key: &str, what: String) {
        let (file, key) = (self.file.clone(), key.to_owned());
        self.found.borrow_mut().push(Problem { file, line, key, what });
    }

    pub(super) fn into_inner(self) -> Vec<Problem> {
        self.found.into_inner()
    }
}

#[derive(Clone)]
pub(super) struct Reader<'a> {
    section: &'static Section,
    node: &'a Node,
    path: String,
    problems: &'a Problems,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        section: &'static Section,
        node: &'a Node,
        path: String,
        problems: &'a Problems,
    ) -> Option<Self> {
        let reader = Self { section, node, path, problems };
        let Value::Table(entries) = &node.value else {
            problems.add(node.line, &reader.path, format!("expected a table, got {}", node.value.kind()));
            return None;
        };
        for entry in entries {
            reader.know(entry);
        }
        for field in section.fields.iter().filter(|field| field.need == Need::Must) {
            if !entries.iter().any(|entry| entry.key == field.key) {
                let what = format!("missing; expected {} ({})", field.form.expected(), field.about);
                problems.add(node.line, &reader.key(field.key), what);
            }
        }
        Some(reader)
    }

    fn know(&self, entry: &Entry) {
        let known = || self.section.fields.iter().map(|field| field.key);
        if known().any(|key| key == entry.key) {
            return;
        }
        let hint = match nearest(&entry.key, known()) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("known keys are {}", known().collect::<Vec<_>>().join(", ")),
        };
        self.problems.add(entry.line, &self.key(&entry.key), format!("unknown key; {hint}"));
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        debug_assert!(self.section.fields.iter().any(|field| field.key == key), "{key} is in no section");
        let Value::Table(entries) = &self.node.value else { return None };
        entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn written(&self) -> BTreeSet<&'static str> {
        self.section.fields.iter().map(|field| field.key).filter(|key| self.has(key)).collect()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// A missing key's problem is the table's.
    pub(super) fn wrong(&self, key: &str, what: impl Into<String>) {
        let line = self.entry(key).map_or(self.node.line, |entry| entry.line);
        self.problems.add(line, &self.key(key), what.into());
    }

    /// None if it is missing or invalid.
    pub(super) fn get<T: Readable>(&self, key: &str) -> Option<T> {
        let entry = self.entry(key)?;
        let read = T::read(&entry.node.value);
        read.map_err(|what| self.problems.add(entry.line, &self.key(key), what)).ok()
    }

    pub(super) fn or<T: Readable>(&self, key: &str, default: T) -> T {
        self.get(key).unwrap_or(default)
    }

    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&'static str, T)]) -> Option<T> {
        let given: String = self.get(key)?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == given) {
            return Some(*meaning);
        }
        let names = || words.iter().map(|(word, _)| *word);
        let hint =
            nearest(&given, names()).map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
        let all = names().collect::<Vec<_>>().join(", ");
        self.wrong(key, format!("expected one of {all}, got {given:?}{hint}"));
        None
    }

    pub(super) fn table(&self, key: &str) -> Option<Self> {
        let entry = self.entry(key)?;
        Self::new(self.section_of(key)?, &entry.node, self.key(key), self.problems)
    }

    pub(super) fn tables(&self, key: &str) -> Vec<Self> {
        let (Some(entry), Some(section)) = (self.entry(key), self.section_of(key)) else { return Vec::new() };
        let Value::List(items) = &entry.node.value else {
            let what = format!("expected [[{}]], got {}", self.key(key), entry.node.value.kind());
            self.problems.add(entry.line, &self.key(key), what);
            return Vec::new();
        };
        let at = |(at, node)| Self::new(section, node, format!("{}[{at}]", self.key(key)), self.problems);
        items.iter().enumerate().filter_map(at).collect()
    }

    /// The tables under user-chosen keys; a key may have several.
    pub(super) fn map(&self, key: &str) -> Vec<(String, Self)> {
        let (Some(entry), Some(section)) = (self.entry(key), self.section_of(key)) else { return Vec::new() };
        let Value::Table(entries) = &entry.node.value else {
            let what = format!("expected a table, got {}", entry.node.value.kind());
            self.problems.add(entry.line, &self.key(key), what);
            return Vec::new();
        };
        let read = |node: &'a Node, path: String| Self::new(section, node, path, self.problems);
        let mut all = Vec::new();
        for Entry { key: own, node, .. } in entries {
            let path = format!("{}.{own}", self.key(key));
            match &node.value {
                Value::List(items) if self.may_be_several(key) => {
                    let each = items.iter().enumerate();
                    let each = each.filter_map(|(at, item)| read(item, format!("{path}[{at}]")));
                    all.extend(each.map(|reader| (own.clone(), reader)));
                }
                _ => all.extend(read(node, path).map(|reader| (own.clone(), reader))),
            }
        }
        all
    }

    fn may_be_several(&self, key: &str) -> bool {
        let field = self.section.fields.iter().find(|field| field.key == key);
        field.is_some_and(|field| matches!(field.form, Form::Map(Form::Either(_, Form::Tables(_)))))
    }

    fn section_of(&self, key: &str) -> Option<&'static Section> {
        let field = self.section.fields.iter().find(|field| field.key == key)?;
        match &field.form {
            Form::Table(section) | Form::Tables(section) | Form::Map(Form::Table(section)) => Some(section),
            Form::Map(Form::Either(Form::Table(section), _)) => Some(section),
            _ => None,
        }
    }
}

pub(super) trait Readable: Sized {
    fn read(value: &Value) -> Result<Self, String>;
}

fn expected<T>(form: &Form, value: &Value) -> Result<T, String> {
    let hint = match (value, form) {
        (
            Value::Integer(_) | Value::Decimal(_),
            Form::Duration | Form::Durations | Form::Rate | Form::Size,
        ) => "; add a unit",
        _ => "",
    };
    Err(format!("expected {}, got {}{hint}", form.expected(), value.kind()))
}

/// Quantities are text with units.
macro_rules! quantity {
    ($($type:ty => $form:expr;)*) => {$(
        impl Readable for $type {
            fn read(value: &Value) -> Result<Self, String> {
                let form = $form;
                let Value::Text(text) = value else { return expected(&form, value) };
                Self::from_str(text).map_err(|what| format!("expected {}: {what}", form.expected()))
            }
        }
    )*};
}

quantity! {
    Duration => Form::Duration;
    Rate => Form::Rate;
    Size => Form::Size;
    Window => Form::Window;
    Range<Duration> => Form::Durations;
    Day => Form::Day;
}

impl Readable for Range<Whole> {
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => {
                text.parse().map_err(|what| format!("expected {}: {what}", Form::Counts.expected()))
            }
            Value::Integer(_) => u64::read(value).map(|number| Self::just(Whole(number))),
            _ => expected(&Form::Counts, value),
        }
    }
}

impl Readable for String {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Text(text) = value else { return expected(&Form::Text, value) };
        Ok(text.clone())
    }
}

impl Readable for bool {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Flag(flag) = value else { return expected(&Form::Flag, value) };
        Ok(*flag)
    }
}

impl Readable for u64 {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Integer(number) = value else { return expected(&Form::Count, value) };
        Self::try_from(*number).map_err(|_| format!("expected a whole number, got {number}"))
    }
}

impl Readable for u32 {
    fn read(value: &Value) -> Result<Self, String> {
        let number = u64::read(value)?;
        Self::try_from(number).map_err(|_| format!("expected at most {}, got {number}", Self::MAX))
    }
}

impl Readable for Millionths {
    fn read(value: &Value) -> Result<Self, String> {
        let wrong = |what| format!("expected {}: {what}", Form::Decimal.expected());
        match value {
            Value::Integer(number) => number.to_string().parse().map_err(wrong),
            Value::Decimal(text) => text.parse().map_err(wrong),
            _ => expected(&Form::Decimal, value),
        }
    }
}

impl<T: Readable> Readable for Vec<T> {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::List(items) = value else { return Err(format!("expected a list, got {}", value.kind())) };
        items.iter().map(|item| T::read(&item.value)).collect()
    }
}

impl<T: Readable> Readable for Vec<(String, T)> {
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Table(entries) = value else {
            return Err(format!("expected a table, got {}", value.kind()));
        };
        entries.iter().map(|entry| Ok((entry.key.clone(), T::read(&entry.node.value)?))).collect()
    }
}

impl Readable for FaultTarget {
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => Self::parse(text),
            _ => u32::read(value).map(Self::Worker),
        }
    }
}

pub(super) enum WordOrCount {
    Word(String),
    Count(u64),
}

impl Readable for WordOrCount {
    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) => Ok(Self::Word(text.clone())),
            Value::Integer(_) => u64::read(value).map(Self::Count),
            _ => Err(format!("expected a word or a whole number, got {}", value.kind())),
        }
    }
}

// The keys of a scenario, with their types and meanings: the single source for the reader, its messages and
// the published schema.

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
    Word(&'static [&'static str]),
    List(&'static Form),
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
