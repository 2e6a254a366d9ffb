use std::fmt;
use std::str::FromStr;

use hookproof_words::text_form;
use http::{HeaderName, HeaderValue};

use super::Profile;
use crate::excerpt::Excerpt;

text_form!(ExtraHeader, "a header, such as \"X-Team: orders\"");

/// A header beside those of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraHeader {
    name: HeaderName,
    value: HeaderValue,
    text: Box<str>,
}

/// Headers that frame a request, choose its connection or describe its body.
const RESERVED: [&str; 15] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "http2-settings",
];

impl ExtraHeader {
    pub const COUNT_MAX: usize = 16;
    pub const BYTES_MAX: usize = 1024;

    #[must_use]
    pub const fn name(&self) -> &HeaderName {
        &self.name
    }

    #[must_use]
    pub const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// `Name: value`.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.text
    }
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
        let profiles = Profile::ALL.into_iter().flat_map(Profile::headers).map(|(name, _)| *name);
        if RESERVED.into_iter().chain(profiles).any(|reserved| reserved == parsed.as_str()) {
            return Err(HeaderError::Reserved(Excerpt::of(name)));
        }
        let value = value.trim_matches([' ', '\t']);
        if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(HeaderError::Value(Excerpt::of(name)));
        }
        let text = format!("{name}: {value}").into();
        let value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value(Excerpt::of(name)))?;
        Ok(Self { name: parsed, value, text })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("{0} is not a header; expected a name, a colon and a value, such as \"X-Team: orders\"")]
    Form(Excerpt),
    #[error("{0} is not the name of a header; expected letters, digits and -")]
    Name(Excerpt),
    #[error("the sender sets the header {0} itself, or no request may carry it; leave it out")]
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
        assert_eq!(header.to_string(), "X-Team: orders and more");
        assert_eq!(header.line().parse(), Ok(header.clone()));
        assert_eq!("X-Empty:".parse::<ExtraHeader>().unwrap().to_string(), "X-Empty: ");
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
        ] {
            assert!(text.parse::<ExtraHeader>().is_err(), "{text:?}");
        }
        let long = format!("X-Team: {}", "a".repeat(ExtraHeader::BYTES_MAX));
        assert_eq!(long.parse::<ExtraHeader>(), Err(HeaderError::Long { bytes: long.len() }));
    }
}
