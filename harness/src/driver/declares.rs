//! A check that needs a missing feature does not apply; others use the declared values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use hookproof_judge::scenario::{Duration, Millionths, nearest};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declares {
    /// True by default.
    pub breaker: Option<bool>,
    /// Where a subscriber asks for it; true by default.
    pub ordered: Option<bool>,
    pub dead_letter: Option<DeadLetters>,
    /// Replaces each subscriber's backoff: one attempt more than delays.
    #[serde(default, deserialize_with = "lengths")]
    pub schedule: Option<Vec<Duration>>,
    /// Relative, of that schedule: 0 to 1; 0 by default.
    #[serde(default, deserialize_with = "share")]
    pub jitter: Option<Millionths>,
    /// JSON by default.
    pub content_type: Option<String>,
    /// The outcome is committed so long after its answer.
    #[serde(default, deserialize_with = "length")]
    pub confirmed_within: Option<Duration>,
    /// A refused event may still reach some of its subscribers; false by default.
    #[serde(default)]
    pub partial_acceptance: bool,
    #[serde(default, deserialize_with = "length")]
    pub stale: Option<Duration>,
    /// Failing statuses, beside 410, after which it gives a delivery up.
    #[serde(default, rename = "final", deserialize_with = "failing")]
    pub final_statuses: Vec<u16>,
}

#[derive(Clone, Debug)]
pub enum DeadLetters {
    /// False: it drops them silently. True is the default.
    Kept(bool),
    /// Its own reasons, with the harness's words for them.
    Reasons(BTreeMap<String, Reason>),
}

impl<'de> Deserialize<'de> for DeadLetters {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(AnyDeadLetters)
    }
}

struct AnyDeadLetters;

impl<'de> Visitor<'de> for AnyDeadLetters {
    type Value = DeadLetters;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or a table from the sender's reasons to those of the harness")
    }

    fn visit_bool<E>(self, kept: bool) -> Result<DeadLetters, E> {
        Ok(DeadLetters::Kept(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DeadLetters, A::Error> {
        let words = BTreeMap::<String, Reason>::deserialize(MapAccessDeserializer::new(map));
        words.map(DeadLetters::Reasons)
    }
}

/// The harness's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(&'static str);

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let given = String::deserialize(source)?;
        const REASONS: [&str; 4] = ["exhausted", "expired", "overflow", "gone"];
        let known = REASONS.into_iter().find(|reason| *reason == given);
        known.map(Self).ok_or_else(|| {
            let hint =
                nearest(&given, REASONS).map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            serde::de::Error::custom(format_args!(
                "expected one of {}, got {given:?}{hint}",
                REASONS.join(", ")
            ))
        })
    }
}

impl Declares {
    /// The sender's own where the table lacks it.
    #[must_use]
    pub fn reason<'a>(&'a self, given: &'a str) -> &'a str {
        match &self.dead_letter {
            Some(DeadLetters::Reasons(words)) => words.get(given).map_or(given, |reason| reason.0),
            _ => given,
        }
    }
}

fn read<E: serde::de::Error>(text: &str) -> Result<Duration, E> {
    text.parse().map_err(|problem| E::custom(format_args!("{text:?}: {problem}")))
}

fn length<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    read(&String::deserialize(source)?).map(Some)
}

fn failing<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<u16>, D::Error> {
    let statuses = Vec::<u16>::deserialize(source)?;
    match statuses.iter().find(|status| !(300..=599).contains(*status)) {
        Some(wrong) => {
            Err(serde::de::Error::custom(format_args!("{wrong}: expected statuses from 300 to 599")))
        }
        None => Ok(statuses),
    }
}

fn lengths<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<Duration>>, D::Error> {
    let texts = Vec::<String>::deserialize(source)?;
    if texts.is_empty() {
        return Err(serde::de::Error::custom("a schedule needs at least one delay"));
    }
    texts.iter().map(|text| read(text)).collect::<Result<_, _>>().map(Some)
}

fn share<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Millionths>, D::Error> {
    let number = serde_json::Number::deserialize(source)?.to_string();
    let share: Result<Millionths, String> = number.parse();
    let share = share.map_err(|problem| serde::de::Error::custom(format_args!("{number}: {problem}")))?;
    if share.0 > 1_000_000 {
        return Err(serde::de::Error::custom(format_args!("{number}: expected 0 to 1")));
    }
    Ok(Some(share))
}

#[cfg(test)]
mod tests {
    use hookproof_judge::trace::Lack;

    use crate::driver::DriverFile;

    const CALLS: &str = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                         emit = { request = \"POST {{ base }}/\", body = \"{{ data }}\" }\n";

    #[test]
    fn the_trace_records_missing_calls_and_declarations_of_the_driver_file() {
        let text = format!(
            "{CALLS}[declares]\nbreaker = false\nordered = false\nschedule = [\"5s\", \"5min\"]\njitter = 0.2\nconfirmed_within = \"1s\"\n\
             partial_acceptance = true\nstale = \"2s\"\nfinal = [400, 422]\ndead_letter = {{ MaxAttempts = \"exhausted\" }}\n"
        );
        let file = DriverFile::parse(&text, "x.toml").unwrap();
        let declared = file.declared();
        let lacks = [Lack::Start, Lack::Depth, Lack::DeadLetters, Lack::Breaker, Lack::Order, Lack::Change];
        for lack in lacks {
            assert!(declared.lacks(lack), "{lack:?}: {declared:?}");
        }
        assert_eq!(declared.schedule, Some(vec![5_000_000_000, 300_000_000_000]));
        assert_eq!((declared.jitter, declared.confirmed_within), (200_000, Some(1_000_000_000)));
        assert_eq!((declared.partial_acceptance, declared.stale), (true, 2_000_000_000));
        assert_eq!(declared.final_statuses, [400, 422]);
        assert_eq!(file.declares.reason("MaxAttempts"), "exhausted");
        assert_eq!(file.declares.reason("Other"), "Other");
        let ours = DriverFile::hookproof().unwrap().declared();
        assert_eq!(ours.lacks, [Lack::Kept, Lack::Order]);
    }

    #[test]
    fn a_wrong_declaration_is_reported() {
        for (line, part) in [
            ("jitter = 1.5", "0 to 1"),
            ("schedule = []", "at least one"),
            ("final = [204]", "from 300 to 599"),
            ("schedule = [\"5\"]", "\"5\""),
            ("braker = false", "did you mean \"breaker\"?"),
            ("dead_letter = { Max = \"exhasted\" }", "did you mean \"exhausted\"?"),
            ("dead_letter = 7", "the sender's reasons"),
        ] {
            let error = DriverFile::parse(&format!("{CALLS}[declares]\n{line}\n"), "x.toml").unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
