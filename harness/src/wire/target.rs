//! The target of requests: a URL and its addresses.

use std::net::{IpAddr, SocketAddr};

use tokio::net::lookup_host;
use url::{Host, Url};

/// A receiver's URL, parsed.
#[derive(Clone, Debug)]
pub struct Target {
    /// The URL, which has no user or password.
    pub url: String,
    /// The `Host` header.
    pub host_header: String,
    /// The name in the certificate.
    pub host: String,
    /// The path, with the query.
    pub path: String,
    /// Whether it uses TLS.
    pub tls: bool,
    port: u16,
}

impl Target {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let wrong = |why: &str| TargetError { given: text.chars().take(200).collect(), why: why.to_owned() };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong("expected http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("a user and a password in a URL are not sent by webhooks"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(wrong("there is no host in it")),
        };
        let port = url.port_or_known_default().ok_or_else(|| wrong("there is no port in it"))?;
        let shown = url.host_str().unwrap_or(&host);
        let host_header = url.port().map_or_else(|| shown.to_owned(), |port| format!("{shown}:{port}"));
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", url.path());
        Ok(Self { url: url.to_string(), host_header, host, path, tls: url.scheme() == "https", port })
    }

    /// The addresses of the host.
    pub async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        Ok(lookup_host((self.host.as_str(), self.port)).await?.collect())
    }
}

/// An invalid target URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no URL to send webhooks to: {why}")]
pub struct TargetError {
    given: String,
    why: String,
}
