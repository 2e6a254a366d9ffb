//! One short line without the URL, for logs and the store.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::engine::Refusal;
use crate::excerpt::{Excerpt, is_hidden};
use crate::guard::Refused;
use crate::tls_files::TlsFileError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("cannot make a request: {0}")]
    Request(Cause),
    #[error(
        "no connection became free within {within:?}: all {connections_max} of this subscriber are in use"
    )]
    Full { within: Duration, connections_max: u32 },
    /// Or the process's limit on files. Not the endpoint's fault.
    #[error(
        "no connection became free: all {max} connections or all files of the sender are in use; raise the \
         limit on open files, or --connections-max"
    )]
    NoSocket { max: u32 },
    /// Too many wait already. Not the endpoint's fault.
    #[error(
        "the name of the endpoint could not be looked up: too many lookups wait for name servers that do not \
         answer"
    )]
    NoLookup,
    /// The lane was paused, changed or lost, or its lease or deadline ended before the first byte. Not the endpoint's
    /// fault.
    #[error(
        "the attempt was withdrawn before it was sent: its lane may not send any more, or its deadline passed"
    )]
    Withdrawn,
    /// Another process may serve the lane. Not the endpoint's fault.
    #[error("the attempt was cut off: another process may own its lane by now")]
    LeaseOver,
    /// This end closed a shared connection to hold back another request.
    #[error("the attempt was cut off: another request on its connection had to be stopped")]
    CutOff,
    /// It cannot be reached, or does not answer CONNECT as a proxy does. Not the endpoint's fault.
    #[error("cannot use the egress proxy: {0}")]
    Proxy(Cause),
    /// Other attempts have just failed at it. Not the endpoint's fault.
    #[error("{0} (another attempt found out a moment ago)")]
    ProxyAway(Cause),
    /// 407 is the sender's fault. Any other status counts as the endpoint's: the proxy may not reach it, or not connect
    /// to it.
    #[error("proxy refused: {status} to CONNECT {target}{}", hint(*.status))]
    ProxyRefused { status: u16, target: SocketAddr },
    /// It mostly waits for the endpoint itself.
    #[error("the egress proxy did not answer CONNECT {target} in time; it may wait for the endpoint")]
    ProxyDeadline { target: SocketAddr },
    /// Of the subscriber's OAuth 2.0 token endpoint.
    #[error("no token from {host}: {cause}")]
    Token { host: Excerpt, cause: Cause },
    #[error("the endpoint permits no request ({0:?})")]
    Unpermitted(Refusal),
    #[error("cannot resolve {host}: {cause}")]
    Unresolved { host: Excerpt, cause: Cause },
    /// The guard refuses all addresses of the endpoint. Names the first one.
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(
        "--https-only refuses the endpoint, whose URL begins with http://; set an https URL (`subscriber set NAME url=https://…`)"
    )]
    Unencrypted,
    #[error("no connection within {within:?}, name lookup and TLS included")]
    ConnectDeadline { within: Duration },
    #[error("cannot connect to {address}: {cause}")]
    Connect { address: SocketAddr, cause: Cause },
    /// The handshake failed, for example by a wrong certificate.
    #[error("cannot agree on TLS with {host}: {cause}")]
    Tls { host: Excerpt, cause: Cause },
    #[error(transparent)]
    TlsFile(#[from] TlsFileError),
    #[error("no complete answer within {within:?}")]
    Deadline { within: Duration },
    #[error("the endpoint closed the connection without an answer")]
    Closed,
    #[error("the answer broke off: {0}")]
    Half(Cause),
    #[error("the answer cannot be read as HTTP: {0}")]
    NotHttp(Cause),
    /// The endpoint floods its connections, so all of them end for a while.
    #[error(
        "hostile: the endpoint floods its connections with bytes outside of answers; they are closed for at \
         least 16 s"
    )]
    Hostile,
    /// The connection broke: reset, most often.
    #[error("the connection broke: {0}")]
    Broken(Cause),
}

impl Failure {
    /// Whether the failure does not count against the endpoint.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. }
                | Self::NoLookup
                | Self::Withdrawn
                | Self::LeaseOver
                | Self::CutOff
                | Self::ProxyAway(_)
        )
    }

    /// Whether an attempt at another endpoint would have failed too.
    #[must_use]
    pub const fn is_the_proxys(&self) -> bool {
        matches!(self, Self::Proxy(_) | Self::ProxyRefused { status: 407, .. })
    }

    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Full { .. } => "connections_full",
            Self::NoSocket { .. } => "no_socket",
            Self::NoLookup => "no_lookup",
            Self::Withdrawn => "withdrawn",
            Self::LeaseOver => "lease_over",
            Self::CutOff => "cut_off",
            Self::Proxy(_) => "proxy",
            Self::ProxyAway(_) => "proxy_away",
            Self::ProxyRefused { .. } => "proxy_refused",
            Self::ProxyDeadline { .. } => "proxy_deadline",
            Self::Token { .. } => "token",
            Self::Unpermitted(_) => "unpermitted",
            Self::Unresolved { .. } => "unresolved",
            Self::Refused(_) => "address_refused",
            Self::Unencrypted => "unencrypted",
            Self::ConnectDeadline { .. } => "connect_deadline",
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::TlsFile(_) => "tls_file",
            Self::Deadline { .. } => "deadline",
            Self::Closed => "closed",
            Self::Half(_) => "half_answer",
            Self::NotHttp(_) => "not_http",
            Self::Hostile => "hostile",
            Self::Broken(_) => "broken",
        }
    }
}

const fn hint(status: u16) -> &'static str {
    if status == 407 { "; expected a user and a password in --egress-proxy that it takes" } else { "" }
}

/// Endpoints influence it (names in certificates), so it is cut and escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause(Box<str>);

impl Cause {
    const BYTES_MAX: usize = 160;

    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = error.to_string();
        let mut beneath = error.source();
        while let Some(source) = beneath
            && text.len() < Self::BYTES_MAX
        {
            let says = source.to_string();
            // Many errors already include their source.
            if !text.ends_with(&says) {
                text.push_str(": ");
                text.push_str(&says);
            }
            beneath = source.source();
        }
        Self::from(text.as_str())
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(Self::BYTES_MAX);
        let kept = text[..end].chars().map(|letter| if is_hidden(letter) { ' ' } else { letter });
        Self(kept.chain((end < text.len()).then_some('…')).collect::<String>().into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_short_and_stays_on_its_line() {
        assert_eq!(Cause::from("reset\r\nERROR forged").to_string(), "reset  ERROR forged");
        let long = Cause::from("ü".repeat(200).as_str()).to_string();
        assert_eq!(long, format!("{}…", "ü".repeat(80)));
    }

    #[test]
    fn a_cause_says_what_lies_beneath_but_not_twice() {
        let beneath = io::Error::other("beneath");
        assert_eq!(Cause::of(&io::Error::other(beneath)).to_string(), "beneath");
        let refused = Failure::Broken(Cause::of(&io::Error::from(io::ErrorKind::ConnectionReset)));
        assert_eq!(refused.to_string(), "the connection broke: connection reset");
    }
}
