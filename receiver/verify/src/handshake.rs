//! Handshakes, with which providers test an endpoint. Answer them, and store nothing. Those of `slack`, `zoom` and
//! `discord` (the PING of interactions) are signed; that of `meta` is a `GET` with a [token](Keys::with_verify_token).
//! CloudEvents' `OPTIONS` asks for a [permission](Keys::with_permission), under any profile.

use http::StatusCode;
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;

use super::{Headers, Keys, Permission, Profile, Verified, body_id};

const BODY_BYTES_MAX: usize = 16 << 10;
const CHALLENGE_BYTES_MAX: usize = 256;
const PING: i64 = 1;
const ORIGIN: &str = "WebHook-Request-Origin";
const ANY: &str = "*";

/// The answer to a handshake, with status 200.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// To the byte.
    pub body: String,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Why a handshake is refused. Safe to reveal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A part is no single visible text.
    #[error(
        "the handshake's {name} is missing, repeated or malformed; expected up to {CHALLENGE_BYTES_MAX} visible characters"
    )]
    Malformed {
        /// The part.
        name: &'static str,
    },
    /// The body is too long.
    #[error("the handshake is too long; expected at most {BODY_BYTES_MAX} bytes")]
    Long,
    /// Another mode.
    #[error("the handshake's hub.mode is unknown; expected subscribe")]
    Mode,
    /// No token was set.
    #[error("this receiver has no verify token, so it answers no handshake")]
    NoToken,
    /// Another origin.
    #[error("the handshake's {ORIGIN} is not allowed here")]
    Origin,
    /// Another token.
    #[error("the handshake's hub.verify_token is wrong")]
    Token,
}

impl Refused {
    /// The HTTP status: 403 for one that proves nothing, else 400.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::Token | Self::Origin => StatusCode::FORBIDDEN,
            Self::Malformed { .. } | Self::Long | Self::Mode => StatusCode::BAD_REQUEST,
        }
    }
}

impl Answer {
    fn text(body: String) -> Self {
        Self { content_type: "text/plain; charset=utf-8", body, headers: Vec::new() }
    }

    fn json(body: &Value) -> Self {
        Self { content_type: "application/json", body: body.to_string(), headers: Vec::new() }
    }
}

/// The answer to a verified handshake; none to an event.
#[must_use]
pub fn in_body(verified: &Verified<'_>, body: &[u8], keys: &Keys) -> Option<Result<Answer, Refused>> {
    match keys.profile() {
        Profile::Slack if body_id::says(body, "type", "url_verification") => {
            Some(challenge(body, "challenge", "/challenge").map(Answer::text))
        }
        Profile::Zoom if body_id::says(body, "event", "endpoint.url_validation") => {
            let mac = keys.macs().get(verified.key)?;
            let token = challenge(body, "plainToken", "/payload/plainToken");
            // A text with `:` could be one that signs an event.
            let token = token.and_then(|token| {
                let is_word =
                    token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
                is_word.then_some(token).ok_or(Refused::Malformed { name: "plainToken" })
            });
            Some(token.map(|token| {
                Answer::json(&json!({ "plainToken": token, "encryptedToken": mac.hex(token.as_bytes()) }))
            }))
        }
        // Discord's webhook events have this type too, beside an `event`.
        Profile::Discord if body_id::number(body, "type") == Some(PING) && !body_id::has(body, "event") => {
            Some(Ok(Answer::json(&json!({ "type": PING }))))
        }
        _ => None,
    }
}

/// The answer to the query of a `GET`; none where it is no handshake.
#[must_use]
pub fn in_query(query: &str, keys: &Keys) -> Option<Result<Answer, Refused>> {
    let is_handshake =
        keys.profile().has_verify_token() && query.split('&').any(|pair| pair.starts_with("hub."));
    is_handshake.then(|| subscribed(query, keys))
}

/// The answer to an `OPTIONS`; none without an origin.
#[must_use]
pub fn in_headers<H: Headers + ?Sized>(headers: &H, keys: &Keys) -> Option<Result<Answer, Refused>> {
    let Permission { origins, rate } = keys.permission()?;
    let mut values = headers.values(ORIGIN);
    let (first, second) = (values.next()?, values.next());
    let text = if second.is_none() { String::from_utf8_lossy(first).into_owned() } else { String::new() };
    let allowed = visible(text, ORIGIN).and_then(|origin| {
        let is_allowed = origins.iter().any(|one| one == ANY || one.eq_ignore_ascii_case(&origin));
        if is_allowed { Ok(origin) } else { Err(Refused::Origin) }
    });
    Some(allowed.map(|origin| {
        let rate = rate.map_or_else(|| ANY.to_owned(), |rate| rate.to_string());
        let headers = [
            ("allow", "POST".to_owned()),
            ("webhook-allowed-origin", origin),
            ("webhook-allowed-rate", rate),
        ];
        Answer { headers: headers.into(), ..Answer::text(String::new()) }
    }))
}

fn subscribed(query: &str, keys: &Keys) -> Result<Answer, Refused> {
    let token = keys.verify_token().ok_or(Refused::NoToken)?;
    if only(query, "hub.mode")? != "subscribe" {
        return Err(Refused::Mode);
    }
    let given = only(query, "hub.verify_token")?;
    let challenge = visible(only(query, "hub.challenge")?, "hub.challenge")?;
    if given.as_bytes().ct_eq(token.as_bytes()).into() {
        Ok(Answer::text(challenge))
    } else {
        Err(Refused::Token)
    }
}

fn challenge(body: &[u8], name: &'static str, pointer: &str) -> Result<String, Refused> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Refused::Long);
    }
    let body: Value = serde_json::from_slice(body).map_err(|_| Refused::Malformed { name })?;
    let text = body.pointer(pointer).and_then(Value::as_str).ok_or(Refused::Malformed { name })?;
    visible(text.to_owned(), name)
}

fn visible(text: String, name: &'static str) -> Result<String, Refused> {
    let fits =
        (1..=CHALLENGE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(text) } else { Err(Refused::Malformed { name }) }
}

/// The value of a parameter that must be there once.
fn only(query: &str, name: &'static str) -> Result<String, Refused> {
    let mut values =
        query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(known, _)| *known == name);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => decoded(value).ok_or(Refused::Malformed { name }),
        _ => Err(Refused::Malformed { name }),
    }
}

/// A form's value: `+` is a space, `%2B` a plus.
fn decoded(value: &str) -> Option<String> {
    let mut parts = value.split('%');
    let mut bytes = parts.next()?.replace('+', " ").into_bytes();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend(rest.replace('+', " ").into_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const TOKEN: &str = "a +%token/ü";
    const SPELLED: &str = "a+%2B%25token%2f%C3%BC";

    fn keys(profile: Profile) -> Keys {
        let public = "2615936c343f1dbda94fbf24c9a99c723152c105c69ae4fc9fbd805cb5f5ffc2";
        let secret = if profile == Profile::Discord { public } else { "another" };
        Keys::new(profile, [&Secret::new(secret).unwrap()]).unwrap()
    }

    fn in_body(profile: Profile, body: &str) -> Option<Result<String, Refused>> {
        let verified = Verified { id: "".into(), signed_at: None, key: 0 };
        let found = super::in_body(&verified, body.as_bytes(), &keys(profile))?;
        Some(found.map(|answer| answer.body))
    }

    #[test]
    fn a_challenge_comes_back() {
        let slack = r#"{"token":"t","challenge":"3eZbrw1a","type":"url_verification"}"#;
        assert_eq!(in_body(Profile::Slack, slack), Some(Ok("3eZbrw1a".to_owned())));
        let zoom = r#"{"payload":{"plainToken":"qgg8vl"},"event_ts":1,"event":"endpoint.url_validation"}"#;
        // printf qgg8vl | openssl dgst -sha256 -hmac another
        let tag = "373f6c78db7f658ccec1b846f4c09c87a1730ce7572a2b0c80ff726912e2c03b";
        let expected = format!(r#"{{"encryptedToken":"{tag}","plainToken":"qgg8vl"}}"#);
        assert_eq!(in_body(Profile::Zoom, zoom), Some(Ok(expected)));
        assert_eq!(in_body(Profile::Discord, r#"{"id":"7","type":1}"#), Some(Ok(r#"{"type":1}"#.to_owned())));
    }

    #[test]
    fn an_event_is_no_handshake() {
        for (profile, body) in [
            (
                Profile::Slack,
                r#"{"type":"event_callback","event":{"type":"url_verification","challenge":"x"}}"#,
            ),
            (Profile::Slack, "url_verification"),
            (Profile::Slack, r#"{"event":"endpoint.url_validation"}"#),
            (Profile::Zoom, r#"{"event":"meeting.started","payload":{"plainToken":"x"}}"#),
            (Profile::Discord, r#"{"type":0}"#),
            (Profile::Discord, r#"{"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}"#),
            (Profile::Discord, r#"{"type":"1"}"#),
            (Profile::Github, r#"{"type":"url_verification","challenge":"x"}"#),
        ] {
            assert_eq!(in_body(profile, body), None, "{profile}: {body}");
        }
    }

    #[test]
    fn a_malformed_handshake_is_refused() {
        let malformed = Some(Err(Refused::Malformed { name: "challenge" }));
        for challenge in
            ["", r#","challenge":7"#, r#","challenge":"""#, r#","challenge":"a b""#, r#","challenge":"<é>""#]
        {
            let body = format!(r#"{{"type":"url_verification"{challenge}}}"#);
            assert_eq!(in_body(Profile::Slack, &body), malformed, "{body}");
        }
        let long = |bytes| format!(r#"{{"type":"url_verification","challenge":"{}"}}"#, "x".repeat(bytes));
        assert!(in_body(Profile::Slack, &long(256)).unwrap().is_ok());
        assert_eq!(in_body(Profile::Slack, &long(257)), malformed);
        assert_eq!(in_body(Profile::Slack, &long(BODY_BYTES_MAX)), Some(Err(Refused::Long)));
        let cut = r#"{"type":"url_verification","challenge":"x""#;
        assert_eq!(in_body(Profile::Slack, cut), malformed);
    }

    #[test]
    fn no_text_is_signed_that_could_sign_an_event() {
        let zoom = |token: &str| {
            let body = json!({ "event": "endpoint.url_validation", "payload": { "plainToken": token } });
            in_body(Profile::Zoom, &body.to_string()).unwrap()
        };
        assert!(zoom("qgg8-vl_X").is_ok());
        for token in ["v0:1700000000:{}", "a:b", "a.b", "{}"] {
            assert_eq!(zoom(token), Err(Refused::Malformed { name: "plainToken" }), "{token}");
        }
    }

    #[test]
    fn a_query_is_answered_for_its_token_alone() {
        let keys = keys(Profile::Meta).with_verify_token(Secret::new(TOKEN).unwrap());
        let answer = |query: &str| in_query(query, &keys).map(|found| found.map(|answer| answer.body));
        let query = |mode: &str, token: &str| {
            format!("hub.mode={mode}&hub.challenge=1158201444&hub.verify_token={token}")
        };
        assert_eq!(answer(&query("subscribe", SPELLED)), Some(Ok("1158201444".to_owned())));
        for (token, why) in [
            ("a", Refused::Token),
            ("", Refused::Token),
            (&format!("{SPELLED}x"), Refused::Token),
            ("%zz", Refused::Malformed { name: "hub.verify_token" }),
            ("%2", Refused::Malformed { name: "hub.verify_token" }),
            ("%+1", Refused::Malformed { name: "hub.verify_token" }),
            ("%FF", Refused::Malformed { name: "hub.verify_token" }),
            (&format!("x&hub.verify_token={SPELLED}"), Refused::Malformed { name: "hub.verify_token" }),
        ] {
            assert_eq!(answer(&query("subscribe", token)), Some(Err(why)), "{token}");
        }
        assert_eq!(answer(&query("unsubscribe", SPELLED)), Some(Err(Refused::Mode)));
        assert_eq!(answer("hub.mode=subscribe"), Some(Err(Refused::Malformed { name: "hub.verify_token" })));
        assert_eq!(answer("page=1"), None);
        let without = self::keys(Profile::Meta);
        assert_eq!(in_query(&query("subscribe", ""), &without), Some(Err(Refused::NoToken)));
        assert_eq!(in_query(&query("subscribe", SPELLED), &self::keys(Profile::Github)), None);
    }

    #[test]
    fn an_origin_is_allowed_by_its_name_and_never_without_a_permission() {
        let permission = |origins: &[&str], rate| Permission {
            origins: origins.iter().map(|&name| name.to_owned()).collect(),
            rate,
        };
        let answer = |permission: Permission, headers: &[(&str, &str)]| {
            let keys = keys(Profile::Github).with_permission(permission);
            in_headers(headers, &keys).map(|found| found.map(|answer| answer.headers))
        };
        let granted = |origin: &str, rate: &str| {
            let origin = ("webhook-allowed-origin", origin.to_owned());
            Some(Ok(vec![("allow", "POST".to_owned()), origin, ("webhook-allowed-rate", rate.to_owned())]))
        };
        let asks = [("webhook-request-origin", "Events.example"), ("webhook-request-rate", "9")];
        let known = permission(&["a.example", "events.example"], Some(120));
        assert_eq!(answer(known.clone(), &asks), granted("Events.example", "120"));
        assert_eq!(answer(permission(&["*"], None), &asks), granted("Events.example", "*"));
        for other in ["events.example.org", "vents.example", "*"] {
            assert_eq!(answer(known.clone(), &[(ORIGIN, other)]), Some(Err(Refused::Origin)), "{other}");
        }
        let malformed = Some(Err(Refused::Malformed { name: ORIGIN }));
        for other in
            [&[(ORIGIN, "")][..], &[(ORIGIN, "a b")], &[(ORIGIN, "a.example"), (ORIGIN, "a.example")]]
        {
            assert_eq!(answer(known.clone(), other), malformed, "{other:?}");
        }
        assert_eq!(answer(known, &[("origin", "a.example")]), None);
        assert_eq!(in_headers(&asks[..], &keys(Profile::Github)), None);
    }
}
