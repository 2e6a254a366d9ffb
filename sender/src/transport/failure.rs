//! Why an attempt got no answer, in words that may be shown and stored: short, on one line, without the URL.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::excerpt::{Excerpt, is_hidden};
use crate::guard::Refused;

/// Why no answer came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The URL or a header is valid to us and not to HTTP.
    #[error("cannot make a request: {0}")]
    Request(Cause),
    /// All connections that the lane may have were in use until the deadline.
    #[error(
        "no connection became free within {within:?}: all {connections_max} of this subscriber are in use"
    )]
    Full {
        /// The total deadline.
        within: Duration,
        /// How many the lane may have.
        connections_max: u32,
    },
    /// All lanes together have as many connections as they may, or the process as many files as it may. The fault is
    /// ours, and nothing is to be held against the endpoint.
    #[error(
        "no connection became free: all {max} that the sender may have are in use, or its files are; raise the limit on \
         open files, or --connections-max"
    )]
    NoSocket {
        /// How many there may be.
        max: u32,
    },
    /// So many look-ups of names wait for an answer that there was no room for this one. The fault is ours, and nothing is to
    /// be held against the endpoint.
    #[error(
        "the name of the endpoint could not be looked up: too many others wait for name servers that do not answer"
    )]
    NoLookup,
    /// The lane withdrew its consent, since it was paused, changed or lost; or its lease or the attempt's time was over before
    /// the first byte, since this process stood still. The fault is ours.
    #[error("the attempt was withdrawn: its lane may not send any more, or its time was over")]
    Withdrawn,
    /// The lease of the lane was over before an answer came: another process may serve it by now, and counts on it that this
    /// one has nothing open. The fault is ours.
    #[error("the attempt was broken off: its lane may be served by another process by now")]
    LeaseOver,
    /// This end broke its connection off, since another request over it was not to be sent, or not to arrive so late. The fault is
    /// ours.
    #[error("the attempt was broken off: another request over its connection had to be held back")]
    CutOff,
    /// DNS does not know the name, or gave no answer.
    #[error("cannot resolve {host}: {cause}")]
    Unresolved {
        /// The name.
        host: Excerpt,
        /// What the resolver says.
        cause: Cause,
    },
    /// No address of the endpoint may be connected to. Of several, the first.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No connection within its deadline.
    #[error("no connection within {within:?}, name lookup and TLS included")]
    ConnectDeadline {
        /// The deadline.
        within: Duration,
    },
    /// No connection. Of several addresses, the last that failed.
    #[error("cannot connect to {address}: {cause}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        cause: Cause,
    },
    /// TLS came to nothing: a wrong certificate, for instance.
    #[error("cannot agree on TLS with {host}: {cause}")]
    Tls {
        /// The name in the URL.
        host: Excerpt,
        /// What went wrong.
        cause: Cause,
    },
    /// No whole answer within the total deadline.
    #[error("no whole answer within {within:?}")]
    Deadline {
        /// The deadline.
        within: Duration,
    },
    /// The connection ended before an answer began.
    #[error("the endpoint closed the connection without an answer")]
    Closed,
    /// The answer began and did not end.
    #[error("the answer broke off: {0}")]
    Half(Cause),
    /// What came is not HTTP, or has more headers than are read.
    #[error("the answer cannot be read as HTTP: {0}")]
    NotHttp(Cause),
    /// The endpoint sends far more than its answers. This connection was ended for it, or not opened, since another was.
    #[error(
        "hostile: the endpoint floods its connections beside its answers; they are closed, for 16 s at least"
    )]
    Hostile,
    /// The connection broke: reset, most often.
    #[error("the connection broke: {0}")]
    Broken(Cause),
}

impl Failure {
    /// Whether the fault is ours: nothing may be held against the endpoint.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::NoSocket { .. } | Self::NoLookup | Self::Withdrawn | Self::LeaseOver | Self::CutOff
        )
    }

    /// The same for machines.
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
            Self::Unresolved { .. } => "unresolved",
            Self::Refused(_) => "address_refused",
            Self::ConnectDeadline { .. } => "connect_deadline",
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::Deadline { .. } => "deadline",
            Self::Closed => "closed",
            Self::Half(_) => "half_answer",
            Self::NotHttp(_) => "not_http",
            Self::Hostile => "hostile",
            Self::Broken(_) => "broken",
        }
    }
}

/// What caused a failure, in the words of the library or the system. Strangers have a say in these (a certificate's names,
/// an HTTP/2 error's data), so they are cut, and cannot forge a line of a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Cause(Box<str>);

impl Cause {
    const BYTES_MAX: usize = 160;

    /// An error with everything beneath it.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = error.to_string();
        let mut beneath = error.source();
        while let Some(source) = beneath
            && text.len() < Self::BYTES_MAX
        {
            let says = source.to_string();
            // Many errors already say what lies beneath them.
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
