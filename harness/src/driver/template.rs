//! The little templates of a driver file: `{{ name }}`, `{{ name | tojson }}`, `{{ env.NAME }}`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What templates may name, in the words of the driver file.
pub type Variables = BTreeMap<String, String>;

/// A text with holes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole { name: String, json: bool },
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It opens a hole and never closes it.
    #[error("`{{{{` without `}}}}` in {text:?}; expected {{{{ name }}}}")]
    Open {
        /// The template.
        text: String,
    },
    /// A hole asks for something that isn't done.
    #[error(
        "{{{{ {hole} }}}} is not understood; expected {{{{ name }}}}, {{{{ name | tojson }}}} or {{{{ env.NAME }}}}"
    )]
    Hole {
        /// What is in it.
        hole: String,
    },
    /// A hole names what there is not.
    #[error("{{{{ {name} }}}} names nothing; known here: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// What it could have named.
        known: String,
    },
    /// An environment variable is missing.
    #[error("the environment variable {name} is not set; the driver file needs it")]
    Environment {
        /// Its name.
        name: String,
    },
}

impl Template {
    /// Reads a template.
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
        Ok(Self { pieces })
    }

    fn hole(hole: &str) -> Result<Piece, TemplateError> {
        let (name, filter) = match hole.split_once('|') {
            None => (hole, None),
            Some((name, filter)) => (name.trim(), Some(filter.trim())),
        };
        let named = !name.is_empty()
            && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'.'));
        if !named || !matches!(filter, None | Some("tojson")) {
            return Err(TemplateError::Hole { hole: hole.to_owned() });
        }
        Ok(Piece::Hole { name: name.to_owned(), json: filter.is_some() })
    }

    /// The text with its holes filled.
    pub fn fill(&self, variables: &Variables) -> Result<String, TemplateError> {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Hole { name, json } => {
                    let value = value(name, variables)?;
                    if *json {
                        // Writing to a string cannot fail.
                        let _ = write!(filled, "{}", serde_json::Value::from(value));
                    } else {
                        filled.push_str(&value);
                    }
                }
            }
        }
        Ok(filled)
    }
}

fn value(name: &str, variables: &Variables) -> Result<String, TemplateError> {
    if let Some(variable) = name.strip_prefix("env.") {
        return std::env::var(variable).map_err(|_| TemplateError::Environment { name: variable.to_owned() });
    }
    variables.get(name).cloned().ok_or_else(|| {
        let known: Vec<_> = variables.keys().map(String::as_str).collect();
        TemplateError::Unknown { name: name.to_owned(), known: known.join(", ") }
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
        let text = String::deserialize(source)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_cannot_be_filled_says_why() {
        check("{{ rat }}", Err("known here: rate, url"));
        check("{{ rate", Err("without"));
        check("{{ rate | upper }}", Err("not understood"));
        check("{{ }}", Err("not understood"));
        check("{{ env.HOOKPROOF_NO_SUCH_VARIABLE }}", Err("is not set"));
    }
}
