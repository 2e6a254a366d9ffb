use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::uri::{Authority, PathAndQuery};
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use url::{Host, Position, Url};

use super::{Guard, Refused};
use crate::excerpt::Excerpt;

/// A URL that deliveries may be sent to, as far as known without DNS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    url: Url,
}

/// A URL's parts in types of HTTP and TLS.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The port if it is not the default.
    pub authority: Authority,
    pub path: PathAndQuery,
    /// The name that a certificate must have; `None` without TLS.
    pub server: Option<ServerName<'static>>,
}

impl Target {
    /// Limits the URL as written and in its normal form.
    pub const BYTES_MAX: usize = 2_048;

    pub fn parse(text: &str, guard: &Guard) -> Result<Self, TargetError> {
        check_length(text)?;
        let target = Self::stored(text)?;
        // Percent-encoding may lengthen it.
        check_length(target.as_str())?;
        if !guard.allows(target.url.scheme() == "https") {
            return Err(TargetError::Unencrypted);
        }
        check_host(target.url.host(), guard)?;
        target.parts()?;
        Ok(target)
    }

    /// Does not check the length, nor whether the guard allows it today.
    pub fn stored(text: &str) -> Result<Self, TargetError> {
        // The URL parser would silently drop some of these.
        if let Some(at) = text.find(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(TargetError::Blank { at });
        }
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(url::ParseError::EmptyHost) => return Err(TargetError::NoHost),
            Err(url::ParseError::RelativeUrlWithoutBase) => return Err(TargetError::Relative),
            Err(problem) => return Err(TargetError::Malformed { problem }),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Scheme { scheme: Excerpt::of(url.scheme()) });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(TargetError::Fragment);
        }
        if url.port() == Some(0) {
            return Err(TargetError::Port);
        }
        Ok(Self { url })
    }

    /// HTTP and TLS allow fewer hosts than URLs. Succeeds for each target from [`Self::parse`].
    pub fn parts(&self) -> Result<Parts, TargetError> {
        let url = &self.url;
        let host = url.host().ok_or(TargetError::NoHost)?;
        let unfit = |problem: &dyn fmt::Display| TargetError::Host {
            host: Excerpt::of(&host.to_string()),
            problem: problem.to_string().into(),
        };
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        let authority = authority.parse::<Authority>().map_err(|error| unfit(&error))?;
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let path = path.parse::<PathAndQuery>().map_err(|_| TargetError::Path)?;
        let is_secure = url.scheme() == "https";
        let server = is_secure.then(|| server(&host)).transpose().map_err(|error| unfit(&error))?;
        Ok(Parts { authority, path, server })
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const fn check_length(text: &str) -> Result<(), TargetError> {
    match text.len() {
        ..=Target::BYTES_MAX => Ok(()),
        bytes => Err(TargetError::TooLong { bytes }),
    }
}

/// The parser turns `0x7f.1` and `2130706433` into `127.0.0.1`. Names are judged once they are resolved, except for
/// `localhost`.
fn check_host(host: Option<Host<&str>>, guard: &Guard) -> Result<(), TargetError> {
    match host {
        None => Err(TargetError::NoHost),
        Some(Host::Ipv4(v4)) => Ok(guard.check(IpAddr::V4(v4))?),
        Some(Host::Ipv6(v6)) => Ok(guard.check(IpAddr::V6(v6))?),
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.is_empty() {
                return Err(TargetError::NoHost);
            }
            let (_, last) = name.rsplit_once('.').unwrap_or(("", name));
            if last == "localhost" && guard.check(IpAddr::V6(Ipv6Addr::LOCALHOST)).is_err() {
                guard.check(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
            }
            Ok(())
        }
    }
}

/// Only DNS reads a final dot.
fn server(host: &Host<&str>) -> Result<ServerName<'static>, InvalidDnsNameError> {
    match host {
        Host::Ipv4(v4) => Ok(ServerName::from(IpAddr::V4(*v4))),
        Host::Ipv6(v6) => Ok(ServerName::from(IpAddr::V6(*v6))),
        Host::Domain(name) => ServerName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned()),
    }
}

/// No message repeats the URL, which may hold a password or a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(
        "the URL has {bytes} bytes, as written or percent-encoded; at most {} are accepted",
        Target::BYTES_MAX
    )]
    TooLong { bytes: usize },
    #[error("the URL has a space or control character at byte {at}; percent-encode it")]
    Blank { at: usize },
    #[error("the URL is not absolute; begin it with https://")]
    Relative,
    #[error("the URL cannot be read: {problem}")]
    Malformed { problem: url::ParseError },
    #[error("the URL's host is {host}: {problem}; expected letters, digits, hyphens and dots")]
    Host { host: Excerpt, problem: Box<str> },
    #[error("the URL's path or query has a character that cannot be sent; percent-encode it")]
    Path,
    #[error("the URL's scheme is {scheme}; expected https or http")]
    Scheme { scheme: Excerpt },
    #[error("the URL's scheme is http, and --https-only refuses it; expected https")]
    Unencrypted,
    #[error("the URL has no host")]
    NoHost,
    #[error("the URL has a user name or password; leave it out, since deliveries are signed")]
    UserInfo,
    #[error("the URL ends in a fragment (#…), which is never sent; leave it out")]
    Fragment,
    #[error("the URL's port is 0; expected 1 to 65535")]
    Port,
    #[error("the URL's host is refused: {0}")]
    Refused(#[from] Refused),
}

impl TargetError {
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "url_too_long",
            Self::Blank { .. } => "url_blank",
            Self::Relative => "url_relative",
            Self::Malformed { .. } | Self::Host { .. } | Self::Path => "url_malformed",
            Self::Scheme { .. } | Self::Unencrypted => "url_scheme",
            Self::NoHost => "url_no_host",
            Self::UserInfo => "url_user_info",
            Self::Fragment => "url_fragment",
            Self::Port => "url_port",
            Self::Refused(_) => "url_refused",
        }
    }
}
