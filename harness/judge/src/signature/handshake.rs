//! The request with which a provider tests an endpoint, and its right answers, as data.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

const CHALLENGE: &str = "{challenge}";
const TOKEN: &str = "{token}";
const HMAC: &str = "{hmac}";
const UNAUTHORIZED: u16 = 401;
/// The content type of an answer for which the provider names none.
const ANY: &str = "*/*";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handshake {
    request: Place,
    /// By content type. Any of them is right. `{hmac}` is the challenge, signed with the secret.
    answers: BTreeMap<String, String>,
    /// Else any 4xx refuses it.
    is_401: bool,
}

pub(super) const ORIGIN: &str = "webhook-request-origin";
const RATE: &str = "webhook-request-rate";
const ALLOWED_ORIGIN: &str = "webhook-allowed-origin";
const ALLOWED_RATE: &str = "webhook-allowed-rate";
const ANY_OF_THEM: &str = "*";

/// A request by `OPTIONS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permission {
    pub origin: String,
    /// A minute.
    pub rate: u32,
}

impl Permission {
    #[must_use]
    pub fn headers(&self) -> [(&'static str, String); 2] {
        [(ORIGIN, self.origin.clone()), (RATE, self.rate.to_string())]
    }

    /// A missing or wrong header, with the due value.
    #[must_use]
    pub fn lacks(&self, header: impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
        let is_rate = |text: &str| {
            text.bytes().all(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte != b'0')
        };
        let is_origin = |text: &str| text.eq_ignore_ascii_case(&self.origin) || text == ANY_OF_THEM;
        if !header(ALLOWED_ORIGIN).is_some_and(|origin| is_origin(&origin)) {
            return Some((ALLOWED_ORIGIN, format!("'{}' or '{ANY_OF_THEM}'", self.origin)));
        }
        let is_allowed = header(ALLOWED_RATE).is_some_and(|rate| is_rate(&rate) || rate == ANY_OF_THEM);
        (!is_allowed).then(|| (ALLOWED_RATE, format!("a number above 0 or '{ANY_OF_THEM}'")))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Of a `POST`, signed as an event's.
    Body(String),
    /// Of a `GET`, unsigned; both sides know the `{token}`.
    Query(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenHandshake {
    body: Option<String>,
    query: Option<String>,
    answers: Option<BTreeMap<String, String>>,
    refusal: Option<u16>,
    origin: Option<String>,
    rate: Option<u32>,
}

impl WrittenHandshake {
    pub(super) fn permission(&self) -> Result<Option<Permission>, String> {
        let Some(origin) = &self.origin else { return Ok(None) };
        if origin.is_empty()
            || !origin.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        {
            return Err(format!(
                "handshake.origin: expected the sender's name in DNS, such as \"events.example.com\", got {origin:?}"
            ));
        }
        match self.rate.unwrap_or(60) {
            0 => Err("handshake.rate: expected requests a minute, at least 1, got 0".to_owned()),
            rate => Ok(Some(Permission { origin: origin.clone(), rate })),
        }
    }

    pub(super) const fn has_challenge(&self) -> bool {
        self.origin.is_none()
            || self.body.is_some()
            || self.query.is_some()
            || self.answers.is_some()
            || self.refusal.is_some()
    }

    pub(super) fn read(self, has_secret: bool) -> Result<Handshake, String> {
        let request = match (self.body, self.query) {
            (Some(body), None) => Place::Body(known("body", body, &[CHALLENGE])?),
            (None, Some(query)) => Place::Query(known("query", query, &[CHALLENGE, TOKEN])?),
            (Some(_), Some(_)) => {
                return Err(
                    "handshake.query: there are both `body` and `query`; expected one of them".to_owned()
                );
            }
            (None, None) => {
                return Err("handshake: there is neither `body` nor `query`; expected one of them".to_owned());
            }
        };
        let answers = self.answers.unwrap_or_default().into_iter().map(|(kind, text)| {
            let parts = kind.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
            if !parts || kind != media_type(&kind) {
                return Err(format!(
                    "handshake.answers: expected a content type such as \"text/plain\", or \"{ANY}\" for any, got {kind:?}"
                ));
            }
            Ok((kind, known("answers", text, &[CHALLENGE, HMAC])?))
        });
        let answers = answers.collect::<Result<BTreeMap<_, _>, _>>()?;
        if answers.is_empty() || answers.values().any(String::is_empty) {
            return Err(format!(
                "handshake.answers: it is missing or empty; expected texts by content type, such as {{ \"{ANY}\" = \"{CHALLENGE}\" }}"
            ));
        }
        let is_constant = |text: &&String| !text.contains(CHALLENGE) && !text.contains(HMAC);
        if let Place::Query(query) = &request
            && query.contains(TOKEN)
            && let Some(constant) = answers.values().find(is_constant)
        {
            return Err(format!(
                "handshake.answers: expected {CHALLENGE} or {HMAC} in each where the query has {TOKEN}, got {constant:?}"
            ));
        }
        if !has_secret && answers.values().any(|text| text.contains(HMAC)) {
            return Err(
                "handshake.answers: it has {hmac}; expected it only with a secret that both sides know"
                    .to_owned(),
            );
        }
        if let Some(other) = self.refusal.filter(|status| *status != UNAUTHORIZED) {
            return Err(format!(
                "handshake.refusal: expected 401, or no such key where any 4xx will do, got {other}"
            ));
        }
        Ok(Handshake { request, answers, is_401: self.refusal.is_some() })
    }
}

/// JSON has no word in braces.
fn known(key: &str, text: String, words: &[&str]) -> Result<String, String> {
    let others = text.match_indices('{').filter_map(|(at, _)| {
        let word = &text[at..=at + text[at..].find('}')?];
        let is_word = word.len() > 2 && word[1..word.len() - 1].bytes().all(|byte| byte.is_ascii_lowercase());
        (is_word && !words.contains(&word)).then(|| word.to_owned())
    });
    match others.collect::<Vec<_>>().first() {
        Some(other) => Err(format!(
            "handshake.{key}: expected no other words in braces than {}, got {other}",
            words.join(", ")
        )),
        None => Ok(text),
    }
}

impl Handshake {
    #[must_use]
    pub fn body(&self, challenge: &str) -> Option<String> {
        match &self.request {
            Place::Body(text) => Some(text.replace(CHALLENGE, challenge)),
            Place::Query(_) => None,
        }
    }

    #[must_use]
    pub fn query(&self, challenge: &str, token: &str) -> Option<String> {
        match &self.request {
            Place::Body(_) => None,
            Place::Query(text) => Some(text.replace(CHALLENGE, challenge).replace(TOKEN, &in_query(token))),
        }
    }

    #[must_use]
    pub fn query_without_token(&self, challenge: &str) -> Option<String> {
        let Place::Query(text) = &self.request else { return None };
        let others = text.split('&').filter(|pair| !pair.contains(TOKEN)).collect::<Vec<_>>();
        Some(others.join("&").replace(CHALLENGE, challenge))
    }

    #[must_use]
    pub fn has_token(&self) -> bool {
        matches!(&self.request, Place::Query(text) if text.contains(TOKEN))
    }

    #[must_use]
    pub const fn is_refused_with_401(&self) -> bool {
        self.is_401
    }

    #[must_use]
    pub fn answer(&self, challenge: &str, hmac: &str) -> String {
        self.answers.values().next().map(|text| filled(text, challenge, hmac)).unwrap_or_default()
    }

    /// JSON may be spelled otherwise, and have further members.
    #[must_use]
    pub fn is_answered(&self, body: &[u8], challenge: &str, hmac: &str) -> bool {
        self.types(body, challenge, hmac).next().is_some()
    }

    /// The content type that a right answer lacks.
    #[must_use]
    pub fn due_type(&self, given: &str, body: &[u8], challenge: &str, hmac: &str) -> Option<&str> {
        let given = media_type(given);
        let mut types = self.types(body, challenge, hmac).peekable();
        let due = *types.peek()?;
        (!types.any(|due| due == ANY || due == given)).then_some(due)
    }

    /// Of the answers that a body is.
    fn types(&self, body: &[u8], challenge: &str, hmac: &str) -> impl Iterator<Item = &str> {
        let fits = move |text: &str| {
            let due = filled(text, challenge, hmac);
            match serde_json::from_str::<Value>(&due) {
                Ok(due @ Value::Object(_)) => {
                    serde_json::from_slice::<Value>(body).is_ok_and(|came| includes(&came, &due))
                }
                _ => body == due.as_bytes(),
            }
        };
        self.answers.iter().filter(move |(_, text)| fits(text)).map(|(kind, _)| kind.as_str())
    }
}

fn filled(text: &str, challenge: &str, hmac: &str) -> String {
    text.replace(CHALLENGE, challenge).replace(HMAC, hmac)
}

/// Without parameters, which say nothing of the body's form.
fn media_type(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn includes(came: &Value, due: &Value) -> bool {
    match (came, due) {
        (Value::Object(came), Value::Object(due)) => {
            due.iter().all(|(name, due)| came.get(name).is_some_and(|came| includes(came, due)))
        }
        _ => came == due,
    }
}

#[must_use]
pub fn in_query(text: &str) -> String {
    let spelled = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;

    use crate::signature::{Definition, Profile, Written};

    #[test]
    fn an_answer_is_right_by_its_values() {
        let check = |profile: &str, body: &str, expected: bool| {
            let profile: Profile = profile.parse().unwrap();
            let handshake = profile.handshake().unwrap();
            assert_eq!(handshake.is_answered(body.as_bytes(), "17", "ab"), expected, "{profile}: {body}");
        };
        for body in [
            "17",
            "challenge=17",
            r#"{"challenge":"17"}"#,
            "{ \"ok\": true, \"challenge\": \"\\u0031\\u0037\" }\n",
        ] {
            check("slack", body, true);
        }
        for body in [
            "",
            "18",
            "17\n",
            "\"17\"",
            r#"{"challenge":17}"#,
            r#"[{"challenge":"17"}]"#,
            r#"{"challenge":"17""#,
        ] {
            check("slack", body, false);
        }
        check("zoom", r#"{"encryptedToken":"ab","plainToken":"17"}"#, true);
        check("zoom", r#"{"encryptedToken":"AB","plainToken":"17"}"#, false);
        check("zoom", r#"{"plainToken":"17"}"#, false);
        check("discord", r#"{"type":1,"data":null}"#, true);
        check("discord", r#"{"type":"1"}"#, false);
        check("meta", "17", true);
        check("meta", "\"17\"", false);
    }

    #[test]
    fn an_answer_has_the_type_that_the_provider_names() {
        let check = |profile: &str, given: &str, body: &str, expected: Option<&str>| {
            let profile: Profile = profile.parse().unwrap();
            let due = profile.handshake().unwrap().due_type(given, body.as_bytes(), "17", "ab");
            assert_eq!(due, expected, "{profile}: {given}: {body}");
        };
        check("slack", "text/plain", "17", None);
        check("slack", "Text/Plain ; charset=utf-8", "17", None);
        check("slack", "text/html; charset=utf-8", "17", None);
        check("slack", "text/html", "challenge=17", Some("application/x-www-form-urlencoded"));
        check("slack", "application/json", r#"{"challenge":"17"}"#, None);
        check("slack", "text/plain", r#"{"challenge":"17"}"#, Some("application/json"));
        check("slack", "application/x-www-form-urlencoded", "challenge=17", None);
        check("discord", "application/json; charset=utf-8", r#"{"type":1}"#, None);
        check("discord", "text/html", r#"{"type":1}"#, Some("application/json"));
        check("meta", "text/html", "17", None);
        check("zoom", "", r#"{"encryptedToken":"ab","plainToken":"17"}"#, None);
    }

    #[test]
    fn a_token_is_spelled_for_a_query() {
        let meta: Profile = "meta".parse().unwrap();
        let query = "hub.mode=subscribe&hub.challenge=17&hub.verify_token=a%20%26%C3%BC";
        assert_eq!(meta.handshake().unwrap().query("17", "a &ü").unwrap(), query);
        assert!(meta.handshake().unwrap().has_token());
        let without = meta.handshake().unwrap().query_without_token("17").unwrap();
        assert_eq!(without, "hub.mode=subscribe&hub.challenge=17");
    }

    #[test]
    fn a_mistake_in_a_handshake_is_told() {
        let check = |algorithm: &str, text: &str, expected: &str| {
            let head = format!(
                "algorithm = \"{algorithm}\"\nheader = \"S\"\nsigned = [\"{{body}}\"]\n[handshake]\n"
            );
            let error = Profile::parse("own", &(head + text)).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        for (text, expected) in [
            ("", "handshake: there is neither"),
            ("body = 'x'\nquery = 'x'", "handshake.query: there are both"),
            ("body = 'x'", "handshake.answers: it is missing"),
            ("body = 'x'\nanswers = { '*/*' = '' }", "handshake.answers: it is missing or empty"),
            ("body = 'x'\nanswers = { text = 'x' }", "handshake.answers: expected a content type such as"),
            ("body = 'x'\nanswers = { 'a/b; c' = 'x' }", "or \"*/*\" for any, got \"a/b; c\""),
            (
                "body = '{token}'\nanswers = { '*/*' = 'x' }",
                "handshake.body: expected no other words in braces than {challenge}, got {token}",
            ),
            (
                "query = 'a={chalenge}'\nanswers = { '*/*' = 'x' }",
                "handshake.query: expected no other words in braces than {challenge}, {token}, got {chalenge}",
            ),
            (
                "body = 'x'\nanswers = { '*/*' = 'x' }\nrefusal = 403",
                "handshake.refusal: expected 401, or no such key",
            ),
            (
                "query = 'a={token}'\nanswers = { '*/*' = 'x', 'a/b' = '{challenge}' }",
                "handshake.answers: expected {challenge} or {hmac} in each where the query has {token}, got \"x\"",
            ),
            ("body = 'x'\nanswer = 'x'", "unknown field `answer`"),
            ("origin = 'a b'", "handshake.origin: expected"),
            ("origin = 'a'\nrate = 0", "handshake.rate: expected"),
            ("origin = 'a'\nbody = 'x'", "handshake.answers: it is missing"),
        ] {
            check("hmac-sha256", text, expected);
        }
        check(
            "ed25519",
            "body = 'x'\nanswers = { '*/*' = '{hmac}' }",
            "handshake.answers: it has {hmac}; expected it only with",
        );
    }

    #[test]
    fn a_sender_has_no_handshake() {
        let text = "profile = 'slack'\n[handshake]\nbody = 'x'\nanswers = { '*/*' = 'x' }";
        let written: Written<IgnoredAny> = toml::from_str(text).unwrap();
        let error = Definition::read(&written).unwrap_err();
        assert_eq!(error, "handshake: expected it only in a profile for `hookproof receiver`");
    }

    #[test]
    fn permission_is_given_by_both_headers() {
        let profile: Profile = "cloudevents".parse().unwrap();
        let permission = profile.permission().unwrap();
        let check = |origin: Option<&str>, rate: Option<&str>, expected: Option<&str>| {
            let header = |name: &str| {
                let value = if name == "webhook-allowed-origin" { origin } else { rate };
                value.map(str::to_owned)
            };
            let lacks = permission.lacks(header).map(|(name, _)| name);
            assert_eq!(lacks, expected, "{origin:?} {rate:?}");
        };
        let (origin, rate) = (Some("webhook-allowed-origin"), Some("webhook-allowed-rate"));
        check(Some("hookproof.example"), Some("120"), None);
        check(Some("*"), Some("*"), None);
        check(Some("hookproof.example"), Some("1"), None);
        for other in [None, Some(""), Some("other.example"), Some("hookproof.example, *")] {
            check(other, Some("120"), origin);
        }
        for other in [None, Some(""), Some("0"), Some("-1"), Some("1.5"), Some("120/min")] {
            check(Some("*"), other, rate);
        }
    }
}
