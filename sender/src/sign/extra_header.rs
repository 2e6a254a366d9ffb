use std::fmt;
use std::str::FromStr;

use hookproof_words::text_form;
use http::{HeaderName, HeaderValue};

use super::Profile;
use crate::excerpt::Excerpt;

text_form!(ExtraHeader, "a header, such as \"X-Team: orders\"");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraHeader {
    name: HeaderName,
    value: HeaderValue,
    text: Box<str>,
}

/// Headers that the sender sets, or that frame a request or choose its connection.
const RESERVED: [&str; 13] = [
    "ce-datacontenttype",
    "connection",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Headers that describe the body, or name and sign the delivery.
const PREFIXES: [&str; 4] = ["content-", "svix-", "webhook-", "x-vvv-"];

impl ExtraHeader {
    pub const COUNT_MAX: usize = 16;
    pub const BYTES_MAX: usize = 1024;

    /// Which `headers` may not set.
    #[must_use]
    pub fn of_origin(origin: &str) -> Option<Self> {
        let name = HeaderName::from_static("webhook-request-origin");
        let value = HeaderValue::from_str(origin).ok()?;
        let text = format!("WebHook-Request-Origin: {origin}").into();
        Some(Self { name, value, text })
    }

    #[must_use]
    pub const fn name(&self) -> &HeaderName {
        &self.name
    }

    /// Many receivers take `_` and `-` for the same.
    #[must_use]
    pub fn usual_name(&self) -> String {
        usual(&self.name)
    }

    #[must_use]
    pub const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// As it was written, without blanks at its end.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.text
    }
}

fn usual(name: &HeaderName) -> String {
    name.as_str().replace('_', "-")
}

impl fmt::Display for ExtraHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ExtraHeader {
    type Err = HeaderError;

    fn from_str(text: &str) -> Result<Self, HeaderError> {
        if text.len() > Self::BYTES_MAX {
            return Err(HeaderError::Long { bytes: text.len() });
        }
        let (name, value) = text.split_once(':').ok_or_else(|| HeaderError::Form(Excerpt::of(text)))?;
        let parsed = HeaderName::from_str(name).map_err(|_| HeaderError::Name(Excerpt::of(name)))?;
        let usual = usual(&parsed);
        let profiles = Profile::ALL.into_iter().flat_map(Profile::headers).map(|(name, _)| *name);
        let is_reserved = RESERVED.into_iter().chain(profiles).any(|reserved| reserved == usual);
        if is_reserved || PREFIXES.into_iter().any(|prefix| usual.starts_with(prefix)) {
            return Err(HeaderError::Reserved(Excerpt::of(name)));
        }
        let value = value.trim_matches([' ', '\t']);
        if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(HeaderError::Value(Excerpt::of(name)));
        }
        // As it was written: it must not grow, since it is stored and read again.
        let text = text.trim_end_matches([' ', '\t']).into();
        let value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value(Excerpt::of(name)))?;
        Ok(Self { name: parsed, value, text })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("{0} is not a header; expected a name, a colon and a value, such as \"X-Team: orders\"")]
    Form(Excerpt),
    #[error("{0} is not the name of a header; expected a name such as X-Team")]
    Name(Excerpt),
    #[error("the header {0} is reserved for the sender; leave it out")]
    Reserved(Excerpt),
    #[error("the value of the header {0} cannot be sent; expected visible ASCII characters and blanks")]
    Value(Excerpt),
    #[error("a header of {bytes} bytes is too long; expected at most {}", ExtraHeader::BYTES_MAX)]
    Long { bytes: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let header: ExtraHeader = "X-Team:  orders and more \t".parse().unwrap();
        assert_eq!((header.name().as_str(), header.value().as_bytes()), ("x-team", &b"orders and more"[..]));
        assert_eq!(header.to_string(), "X-Team:  orders and more");
        assert_eq!(header.line().parse(), Ok(header.clone()));
        let longest: ExtraHeader = format!("A:{}", "a".repeat(ExtraHeader::BYTES_MAX - 2)).parse().unwrap();
        assert_eq!(longest.to_string().parse(), Ok(longest), "what is stored is read again");
        assert_eq!("X-Empty:".parse::<ExtraHeader>().unwrap().to_string(), "X-Empty:");
    }

    #[test]
    fn a_header_that_would_change_the_request_is_refused() {
        for text in [
            "X-Team",
            "",
            ": value",
            "X Team: orders",
            "X-Team : orders",
            "X-Team: orders\r\nHost: elsewhere",
            "X-Team: orders\n",
            "X-Team: \u{7f}",
            "X-Team: caf\u{e9}",
            "Host: elsewhere",
            "HOST: elsewhere",
            "content-Length: 3",
            "Transfer-Encoding: chunked",
            "Webhook-Signature: v1,forged",
            "x-hub-signature-256: sha256=00",
            "Stripe-Signature: t=1",
            "Webhook_Signature: v1,forged",
            "Content_Length: 3",
            "X-VVV-Attempt: 2",
            "Ce_Type: order.paid",
            "ce-datacontenttype: text/xml",
        ] {
            assert!(text.parse::<ExtraHeader>().is_err(), "{text:?}");
        }
        let long = format!("X-Team: {}", "a".repeat(ExtraHeader::BYTES_MAX));
        assert_eq!(long.parse::<ExtraHeader>(), Err(HeaderError::Long { bytes: long.len() }));
    }
}
