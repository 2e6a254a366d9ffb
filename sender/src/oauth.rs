//! A subscriber's OAuth 2.0 client, for endpoints that demand a bearer token. `transport/token.rs` gets the tokens.

use std::fmt;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use url::form_urlencoded::{Serializer as Form, byte_serialize};
use zeroize::Zeroizing;

use crate::guard::Target;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthClient {
    /// The guard judges it when it is set, and for each connection.
    pub token_url: Target,
    pub id: Box<str>,
    pub secret: ClientSecret,
    pub scope: Option<Box<str>>,
    pub audience: Option<Box<str>>,
}

impl OauthClient {
    pub const URL_BYTES: RangeInclusive<usize> = 10..=Target::BYTES_MAX;
    pub const TEXT_BYTES: RangeInclusive<usize> = 1..=512;

    /// The body of a request for a token (RFC 6749 §4.4.2).
    #[must_use]
    pub fn form(&self) -> String {
        let mut form = Form::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", &self.scope), ("audience", &self.audience)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        form.finish()
    }

    /// The value of `Authorization` (RFC 6749 §2.3.1).
    #[must_use]
    pub fn basic(&self) -> Zeroizing<String> {
        let mut pair = Zeroizing::new(String::new());
        pair.extend(byte_serialize(self.id.as_bytes()));
        pair.push(':');
        pair.extend(byte_serialize(self.secret.0.as_bytes()));
        let encoded = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
        Zeroizing::new(format!("Basic {}", *encoded))
    }
}

/// Of settings as written.
#[must_use]
pub fn token_url(settings: &Value) -> Option<&str> {
    settings.get("oauth")?.get("token_url")?.as_str()
}

/// Stored with the settings. [`crate::subscriber::SettingsText::in_effect`], which people see, leaves it out.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    /// 1 to 512 visible ASCII characters.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        OauthClient::TEXT_BYTES.contains(&self.0.len()) && self.0.bytes().all(|byte| byte.is_ascii_graphic())
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Serialize for ClientSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ClientSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Zeroizing::new(String::deserialize(deserializer)?)))
    }
}
