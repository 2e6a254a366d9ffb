//! Templates of a driver file: `{{ name }}`, `{{ env.NAME }}`, filters such as `{{ name | tojson }}`; and the redaction
//! of secrets.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use hookproof_judge::scenario::SECOND;
use hookproof_judge::scenario::quantity::rfc3339;
use hookproof_play::settings::EVENT_NAMES;
pub use hookproof_play::settings::Variables;

pub trait Lookup {
    fn find(&self, name: &str) -> Option<Cow<'_, str>>;
    fn names(&self) -> Vec<&str>;
}

impl Lookup for Variables {
    fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name).map(Cow::from)
    }

    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }
}

/// A text with holes.
#[derive(Clone, Debug)]
pub struct Template {
    pieces: Vec<Piece>,
    /// In bytes.
    at: usize,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Hole { name: String, filters: Vec<Filter> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Json,
    /// Percent-encoded, for a URL or a form.
    Url,
    /// A number of the sender's type, from 1 to this.
    Whole(&'static str, u64),
}

const FILTERS: [(&str, Filter); 8] = [
    ("tojson", Filter::Json),
    ("urlencode", Filter::Url),
    ("u8", Filter::Whole("u8", 0xff)),
    ("u16", Filter::Whole("u16", 0xffff)),
    ("u32", Filter::Whole("u32", 0xffff_ffff)),
    ("i16", Filter::Whole("i16", 0x7fff)),
    ("i32", Filter::Whole("i32", 0x7fff_ffff)),
    ("i64", Filter::Whole("i64", 0x7fff_ffff_ffff_ffff)),
];

#[cfg(test)]
pub(super) fn filters() -> impl Iterator<Item = &'static str> {
    FILTERS.into_iter().map(|(word, _)| word)
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    pub name: String,
    pub is: String,
    pub told: String,
    pub kind: &'static str,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, is, told, kind } = self;
        write!(f, "its {name} is a {kind}: the sender gets {told} instead of {is}")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{{{{` without `}}}}` in {text:?}; expected {{{{ name }}}}")]
    Open { text: String },
    #[error(
        "{{{{ {hole} }}}} cannot be read; expected {{{{ name }}}} or {{{{ env.NAME }}}}, with or without a \
         filter: {}",
        FILTERS.map(|(word, _)| word).join(", ")
    )]
    Hole { hole: String },
    #[error("{{{{ {name} }}}} is unknown; known here: {known}")]
    Unknown { name: String, known: String },
    #[error("{{{{ {name} | {kind} }}}} is {value:?}; expected a number")]
    Number { name: String, kind: &'static str, value: String },
    #[error("the environment variable {name} is not set; the driver file needs it")]
    Environment { name: String },
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (hole, after) =
                after.split_once("}}").ok_or_else(|| TemplateError::Open { text: text.to_owned() })?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Self::hole(hole.trim())?);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces, at: 0 })
    }

    fn hole(hole: &str) -> Result<Piece, TemplateError> {
        let unclear = || TemplateError::Hole { hole: hole.to_owned() };
        let mut words = hole.split('|').map(str::trim);
        let name = words.next().unwrap_or_default();
        let named = !name.is_empty()
            && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.'));
        if !named {
            return Err(unclear());
        }
        let filter = |word: &str| FILTERS.iter().find(|(known, _)| *known == word).map(|(_, filter)| *filter);
        let filters = words.map(|word| filter(word).ok_or_else(unclear)).collect::<Result<_, _>>()?;
        Ok(Piece::Hole { name: name.to_owned(), filters })
    }

    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Hole { name, .. } => Some(name.as_str()),
        })
    }

    /// Whether it is a single hole, perhaps after a word such as `Bearer` or `session=`.
    pub(super) fn is_hole_after_a_word(&self) -> bool {
        let texts: Vec<&str> = self.pieces.iter().filter_map(Piece::text).collect();
        let [before, after] = texts.as_slice() else { return false };
        after.is_empty() && before.split_whitespace().count() <= 1
    }

    pub fn fill(&self, variables: &impl Lookup) -> Result<String, TemplateError> {
        let mut filled = String::new();
        self.fill_into(&mut filled, variables)?;
        Ok(filled)
    }

    /// Appends to `text`.
    pub(super) fn fill_into(&self, text: &mut String, variables: &impl Lookup) -> Result<(), TemplateError> {
        for piece in &self.pieces {
            match piece {
                Piece::Text(own) => text.push_str(own),
                Piece::Hole { name, filters } => {
                    let value = value(name, variables)?;
                    let filtered = filters.iter().try_fold(value, |value, filter| filter.apply(name, &value));
                    text.push_str(&filtered?);
                }
            }
        }
        Ok(())
    }

    /// The values that the sender cannot express, with replacements.
    pub(super) fn differences(&self, variables: &Variables) -> Vec<Difference> {
        let of = |piece: &Piece| {
            let Piece::Hole { name, filters } = piece else { return None };
            let is = value(name, variables).ok()?;
            let (kind, told) = filters.iter().find_map(|filter| match filter {
                Filter::Whole(kind, _) => Some((*kind, filter.apply(name, &is).ok()?)),
                Filter::Json | Filter::Url => None,
            })?;
            (told != is).then(|| Difference {
                name: name.clone(),
                is: is.into_owned(),
                told: told.into_owned(),
                kind,
            })
        };
        self.pieces.iter().filter_map(of).collect()
    }
}

impl Piece {
    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl Filter {
    fn apply(self, name: &str, value: &str) -> Result<Cow<'static, str>, TemplateError> {
        let filtered = match self {
            Self::Json => serde_json::Value::from(value).to_string(),
            Self::Url => encoded(value),
            Self::Whole(kind, most) => {
                let (whole, part) = value.split_once('.').unwrap_or((value, ""));
                let digits = |text: &str| text.bytes().all(|letter| letter.is_ascii_digit());
                if whole.is_empty() || !digits(whole) || !digits(part) {
                    return Err(TemplateError::Number {
                        name: name.to_owned(),
                        kind,
                        value: value.to_owned(),
                    });
                }
                // More digits than a `u64` holds.
                whole.parse().unwrap_or(u64::MAX).clamp(1, most).to_string()
            }
        };
        Ok(Cow::Owned(filtered))
    }
}

pub(super) fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn value<'v>(name: &str, variables: &'v impl Lookup) -> Result<Cow<'v, str>, TemplateError> {
    if let Some(variable) = name.strip_prefix("env.") {
        let value = std::env::var(variable).map(Cow::from);
        return value.map_err(|_| TemplateError::Environment { name: variable.to_owned() });
    }
    variables.find(name).ok_or_else(|| {
        let known = variables.names().join(", ");
        TemplateError::Unknown { name: name.to_owned(), known }
    })
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Self, TemplateError> {
        Self::parse(&text)
    }
}

impl<'de> serde::Deserialize<'de> for Template {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        // Gives errors their line.
        let text = toml::Spanned::<String>::deserialize(source)?;
        let template = Self::parse(text.get_ref()).map_err(serde::de::Error::custom)?;
        Ok(Self { at: text.span().start, ..template })
    }
}

#[derive(Clone, Debug)]
pub struct Event {
    pub token: u64,
    pub text: String,
    pub uuid: String,
    pub kind: String,
    pub key: String,
    pub data: String,
    /// The wall clock at the offer.
    pub unix_ns: u64,
}

/// An event's own variables hide the shared ones.
pub(super) struct Words<'a> {
    pub(super) event: Option<&'a Event>,
    pub(super) others: &'a Variables,
}

impl Event {
    pub(super) fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = match name {
            "data" => &self.data,
            "key" => &self.key,
            "now" => return Some(rfc3339(self.unix_ns / SECOND).into()),
            "token" => &self.text,
            "type" => &self.kind,
            "uuid" => &self.uuid,
            _ => return None,
        };
        Some(own.into())
    }
}

impl Lookup for Words<'_> {
    fn find(&self, name: &str) -> Option<Cow<'_, str>> {
        self.event.and_then(|event| event.find(name)).or_else(|| self.others.find(name))
    }

    fn names(&self) -> Vec<&str> {
        let own: &[&str] = if self.event.is_some() { &EVENT_NAMES } else { &[] };
        let mut names = [own, &self.others.names()].concat();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Shorter values occur by chance.
const BYTES_MIN: usize = 4;
const ELLIPSIS: &str = "…";
/// The searched part of a long text; far less is shown.
const SEARCHED_BYTES_MAX: usize = 1 << 16;

/// Values from the environment or from answers open the sender; traces and reports are passed on.
#[derive(Debug, Default)]
pub(super) struct Redactor(RwLock<Vec<String>>);

impl Redactor {
    pub(super) fn learn(&self, values: impl IntoIterator<Item = String>) {
        let mut hidden = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for value in values.into_iter().filter(|value| value.len() >= BYTES_MIN) {
            let json = serde_json::Value::from(value.as_str()).to_string();
            hidden.push(json.trim_matches('"').to_owned());
            hidden.push(format!("{value:?}").trim_matches('"').to_owned());
            hidden.push(encoded(&value));
            hidden.push(value);
        }
        // Longest first: a value may be part of another.
        hidden.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        hidden.dedup();
    }

    pub(super) fn hide(&self, text: &str) -> String {
        let hidden = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hidden.iter().fold(text.to_owned(), |text, value| text.replace(value, ELLIPSIS))
    }

    /// Redacted before it is cut, so that no part of a value remains at the cut.
    pub(super) fn beginning(&self, text: &[u8], chars_max: usize) -> String {
        let searched = &text[..text.len().min(SEARCHED_BYTES_MAX)];
        let mut shown = self.hide(&String::from_utf8_lossy(searched));
        if searched.len() < text.len() {
            self.drop_begun(&mut shown);
        }
        shown.chars().take(chars_max).collect()
    }

    /// Drops a prefix of a value at the end of a cut text.
    fn drop_begun(&self, text: &mut String) {
        let hidden = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // A character may be cut too.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let begun = |value: &String| {
            let mut ends = value.char_indices().rev().map(|(at, _)| at);
            ends.find(|at| whole.ends_with(&value[..*at])).unwrap_or(0)
        };
        let dropped = hidden.iter().map(begun).max().unwrap_or(0);
        let kept = whole.len() - dropped;
        text.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{Random, Target};

    #[track_caller]
    fn check(template: &str, expected: Result<&str, &str>) {
        let variables =
            Variables::from([("url".into(), "http://a/\"b\"".into()), ("rate".into(), "5".into())]);
        let filled = Template::parse(template).and_then(|template| template.fill(&variables));
        match (filled, expected) {
            (Ok(filled), Ok(expected)) => assert_eq!(filled, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (filled, _) => panic!("{template} gave {filled:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn holes_are_filled_plainly_or_as_json() {
        check("no hole {\"a\": {}}", Ok("no hole {\"a\": {}}"));
        check("{{rate}}x{{ rate }}", Ok("5x5"));
        check(r#"{"url": {{ url | tojson }}}"#, Ok(r#"{"url": "http://a/\"b\""}"#));
    }

    #[test]
    fn a_template_that_cannot_be_filled_gives_the_reason() {
        check("{{ rat }}", Err("known here: rate, url"));
        check("{{ rate", Err("without"));
        check("{{ rate | upper }}", Err("cannot be read"));
        check("{{ rate | u16 | tojsn }}", Err("cannot be read"));
        check("{{ url | u16 }}", Err("expected a number"));
        check("{{ }}", Err("cannot be read"));
        check("{{ env.HOOKPROOF_NO_SUCH_VARIABLE }}", Err("is not set"));
    }
    #[test]
    fn a_value_is_told_as_the_sender_can_express_it_and_the_difference_is_known() {
        let of = |template: &str, rate: &str| {
            let variables = Variables::from([("rate".to_owned(), rate.to_owned())]);
            let template = Template::parse(template).unwrap();
            let told: Vec<_> = template.differences(&variables).iter().map(ToString::to_string).collect();
            (template.fill(&variables).unwrap(), told)
        };
        assert_eq!(of("{{ rate | u16 }}", "65535"), ("65535".to_owned(), vec![]));
        let high = "its rate is a u16: the sender gets 65535 instead of 1000000";
        assert_eq!(of("{{ rate | u16 }}", "1000000"), ("65535".to_owned(), vec![high.to_owned()]));
        let low = "its rate is a i32: the sender gets 1 instead of 0.5";
        assert_eq!(of("{{ rate | i32 | tojson }}", "0.5"), ("\"1\"".to_owned(), vec![low.to_owned()]));
        assert_eq!(of("{{ rate | u8 }}", &"9".repeat(40)).0, "255");
        assert_eq!(of("{{ rate }}", "0.5").1, Vec::<String>::new());
    }

    #[test]
    fn a_key_is_nothing_but_a_hole_after_a_word() {
        let is = |text: &str| Template::parse(text).unwrap().is_hole_after_a_word();
        assert!(is("Bearer {{ env.TOKEN }}") && is("{{ token }}") && is("session={{ token }}"));
        assert!(!is("Bearer sk_live_1") && !is("Bearer sk {{ run }}") && !is("{{ run }}sk") && !is(""));
    }

    #[test]
    fn no_message_contains_a_secret() {
        let hidden = Redactor::default();
        hidden.learn(["token".to_owned(), "token-and-more".to_owned(), "a".to_owned()]);
        assert_eq!(hidden.hide("a token, and token-and-more twice: token"), "a …, and … twice: …");
        hidden.learn(["a \"key\"=\n".to_owned()]);
        assert_eq!(hidden.hide(r#"{"k": "a \"key\"=\n"}"#), r#"{"k": "…"}"#);
        assert_eq!(hidden.hide("k=a+%22key%22%3D%0A&b=c"), "k=…&b=c");
    }

    #[test]
    fn no_part_of_what_is_hidden_is_left_where_a_text_is_cut() {
        let hidden = Redactor::default();
        hidden.learn(["tökens".to_owned()]);
        let text = "a tökens, and more";
        for chars in 0..text.len() {
            let shown = hidden.beginning(text.as_bytes(), chars);
            assert!("a …, and more".starts_with(&shown) && shown.chars().count() <= chars, "{shown}");
        }
        let long = "tökens".repeat(SEARCHED_BYTES_MAX);
        let shown = hidden.beginning(long.as_bytes(), usize::MAX);
        assert!(shown.chars().all(|character| character == '…'), "{}", shown.len());
        let other = "ä".repeat(SEARCHED_BYTES_MAX);
        let shown = hidden.beginning(other.as_bytes(), usize::MAX);
        assert_eq!(shown.len(), SEARCHED_BYTES_MAX, "nothing else is dropped");
    }

    fn written(piece: &Piece) -> String {
        let word = |filter: &Filter| FILTERS.iter().find(|(_, known)| known == filter).unwrap().0;
        match piece {
            Piece::Text(text) => text.clone(),
            Piece::Hole { name, filters } => {
                let words: String = filters.iter().map(|filter| format!(" | {}", word(filter))).collect();
                format!("{{{{ {name}{words} }}}}")
            }
        }
    }

    fn values() -> Variables {
        let digits = "9".repeat(40);
        let rows = [("url", "http://a/\"b\"\n&c=\u{e9}"), ("rate", "0.5"), ("burst", "300"), ("none", "")];
        let rows = rows.into_iter().chain([("digits", &*digits)]);
        rows.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The value of a hole, checked by the inverse of its last filter.
    fn value_of(name: &str, filters: &[Filter], values: &Variables) -> Option<String> {
        let piece = Piece::Hole { name: name.to_owned(), filters: filters.to_vec() };
        let filled = Template::parse(&written(&piece)).unwrap().fill(values);
        let Some((last, before)) = filters.split_last() else {
            let known = match name.strip_prefix("env.") {
                Some(variable) => std::env::var(variable).ok(),
                None => values.get(name).cloned(),
            };
            assert_eq!(filled.as_ref().ok(), known.as_ref());
            return filled.ok();
        };
        let before = value_of(name, before, values)?;
        match last {
            Filter::Json => {
                assert_eq!(serde_json::from_str::<String>(filled.as_ref().unwrap()).unwrap(), before);
            }
            Filter::Url => {
                let form = format!("x={}", filled.as_ref().unwrap());
                assert_eq!(url::form_urlencoded::parse(form.as_bytes()).next().unwrap().1, before);
            }
            Filter::Whole(_, most) => {
                let (whole, part) = before.split_once('.').unwrap_or((&before, ""));
                let is_number =
                    !whole.is_empty() && format!("{whole}{part}").bytes().all(|byte| byte.is_ascii_digit());
                let number = whole.parse::<u128>().unwrap_or(u128::MAX).clamp(1, (*most).into());
                assert_eq!(filled.as_ref().ok(), is_number.then(|| number.to_string()).as_ref());
            }
        }
        filled.ok()
    }

    fn outcome(input: &[u8], _: &mut Random) -> String {
        let Ok(text) = str::from_utf8(input) else { return "no text".to_owned() };
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(TemplateError::Open { text: whole }) => {
                assert_eq!(whole, text);
                return "open".to_owned();
            }
            Err(TemplateError::Hole { hole }) => {
                assert!(text.contains(&hole), "{hole}");
                return "unclear".to_owned();
            }
            Err(other) => panic!("{other}"),
        };
        let again: String = template.pieces.iter().map(written).collect();
        let again = Template::parse(&again).unwrap();
        assert_eq!(format!("{:?}", again.pieces), format!("{:?}", template.pieces));
        let values = values();
        let parts = template.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => Some(text.clone()),
            Piece::Hole { name, filters } => value_of(name, filters, &values),
        });
        let expected: Option<String> = parts.collect();
        assert!(template.differences(&values).len() <= template.names().count());
        match template.fill(&values) {
            Ok(filled) => {
                assert_eq!(Some(filled), expected);
                format!("filled, {}", template.is_hole_after_a_word())
            }
            Err(error) => {
                assert_eq!(expected, None);
                let said = error.to_string();
                assert!(
                    template.names().any(|name| said.contains(name.trim_start_matches("env."))),
                    "{said}"
                );
                said.split(' ').next_back().unwrap_or_default().to_owned()
            }
        }
    }

    fn target() -> Target<'static> {
        let corpus = [
            "POST {{ url }}/{{rate|u16|tojson}}?x={{ url | urlencode }}",
            "Bearer {{ url }}",
            "{\"a\": {{ url | tojson }}, \"b\": {{ digits | i64 }}{{ burst | u8 }}{{ none | u32 }}}",
            "{{ env.HOOKPROOF_NO_SUCH_VARIABLE }}",
        ];
        let words =
            &["{{", "}}", "{{ rate", " | ", "tojson", "urlencode", "u8", "i32", "none", "env.", "{", "}"];
        Target { quick: 20_000, corpus: corpus.map(Vec::from).into(), words, check: &outcome }
    }

    #[test]
    fn any_template_is_filled_as_it_reads_or_refused_with_its_hole() {
        target().try_some();
    }

    #[test]
    #[ignore = "takes HOOKPROOF_SECONDS"]
    fn any_template_is_filled_as_it_reads_or_refused_with_its_hole_at_length() {
        target().try_at_length();
    }
}
