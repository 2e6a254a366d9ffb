use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::TcpListener;

/// Stands for an endpoint's name in a public URL.
pub const HOLE: &str = "{endpoint}";

/// By default, each endpoint has a port of its own on loopback, in plain HTTP.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// The address; loopback by default.
    pub bind: Option<Bind>,
    /// The endpoints' own addresses by default. With it, all endpoints share one port.
    pub public: Option<PublicUrl>,
    pub tls: Tls,
}

#[derive(Clone, Debug, Default)]
pub enum Tls {
    #[default]
    None,
    /// Certificates by an authority that is created for the run.
    OfTheRun,
    Given {
        /// PEM: the endpoints' certificate first, then its issuers.
        certificate: PathBuf,
        key: PathBuf,
    },
}

/// An address to listen at: `0.0.0.0:8443`, or `127.0.0.2` without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    pub address: IpAddr,
    /// Any free one by default.
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    #[error("{0:?} is not an address to listen on; expected one such as 0.0.0.0:8443 or [::]:8443")]
    Bind(String),
    #[error(
        "{url:?} is not a public URL: {why}; expected one such as https://hooks.example.org/{HOLE} or \
         https://{HOLE}.hooks.example.org/"
    )]
    Url { url: String, why: &'static str },
    #[error(
        "with --public-url all endpoints share one port, the target of your tunnel or ingress; expected --bind \
         ADDRESS:PORT"
    )]
    NoPort,
    #[error(
        "without --public-url each endpoint has its own port; expected --bind with an address only, or \
         --public-url"
    )]
    OnePort,
    #[error("no sender can call {0}; expected --public-url, or --bind with an address of this machine")]
    Unspecified(IpAddr),
    #[error("the public URL begins with http://, which excludes TLS; expected https://, or no --tls")]
    Plain,
    #[error(
        "the scenario shows wrong certificates; expected neither --public-url nor --tls-cert, because the harness \
         issues them for each endpoint's own port"
    )]
    Certificates,
    #[error(
        "{name:?} cannot be part of a host name; expected lower-case letters, digits and dashes, or {HOLE} in \
         the path"
    )]
    Name { name: String },
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {bind}: {error}{expected}", expected = self.expected())]
pub(crate) struct ListenError {
    bind: Bind,
    is_asked: bool,
    #[source]
    error: io::Error,
}

impl ListenError {
    /// Another `--bind` would help.
    pub(crate) fn is_askers(&self) -> bool {
        !self.expected().is_empty()
    }

    fn expected(&self) -> &'static str {
        match self.error.kind() {
            _ if !self.is_asked => "",
            io::ErrorKind::AddrInUse => "; expected --bind with a free port",
            io::ErrorKind::AddrNotAvailable => "; expected --bind with an address of this machine",
            io::ErrorKind::PermissionDenied => "; expected --bind with a port that this user may use",
            _ => "",
        }
    }
}

impl Reach {
    /// Port 0 means any free one.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let Bind { address, port } = self.bind();
        SocketAddr::new(address, port.unwrap_or(0))
    }

    pub fn with_certificates(&self) -> Result<Self, ReachError> {
        if self.public.is_some() || matches!(self.tls, Tls::Given { .. }) {
            return Err(ReachError::Certificates);
        }
        Ok(Self { tls: Tls::OfTheRun, ..self.clone() })
    }

    fn bind(&self) -> Bind {
        self.bind.unwrap_or(Bind { address: Ipv4Addr::LOCALHOST.into(), port: None })
    }

    /// Fails with a [`ListenError`].
    pub(super) async fn listen(&self) -> io::Result<TcpListener> {
        TcpListener::bind(self.address()).await.map_err(|error| {
            let (kind, bind, is_asked) = (error.kind(), self.bind(), self.bind.is_some());
            io::Error::new(kind, ListenError { bind, is_asked, error })
        })
    }

    #[must_use]
    pub const fn is_tls(&self) -> bool {
        !matches!(self.tls, Tls::None)
    }

    /// Fails when the settings contradict each other, or a name.
    pub fn check<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<(), ReachError> {
        let address = self.address();
        let Some(public) = &self.public else {
            return match address {
                _ if address.port() != 0 => Err(ReachError::OnePort),
                _ if address.ip().is_unspecified() => Err(ReachError::Unspecified(address.ip())),
                _ => Ok(()),
            };
        };
        if address.port() == 0 {
            return Err(ReachError::NoPort);
        }
        if self.is_tls() && !public.is_https() {
            return Err(ReachError::Plain);
        }
        match names.into_iter().find(|name| !public.takes(name)) {
            Some(name) => Err(ReachError::Name { name: name.to_owned() }),
            None => Ok(()),
        }
    }
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.address, port).fmt(f),
            None => self.address.fmt(f),
        }
    }
}

impl FromStr for Bind {
    type Err = ReachError;

    fn from_str(text: &str) -> Result<Self, ReachError> {
        let bare = || text.parse().ok().map(|address| Self { address, port: None });
        let whole =
            text.parse().map(|whole: SocketAddr| Self { address: whole.ip(), port: Some(whole.port()) });
        whole.ok().or_else(bare).ok_or_else(|| ReachError::Bind(text.to_owned()))
    }
}

/// Its placeholder is a segment of the path, or the first label of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    text: String,
    /// The host without its port, in lower case, perhaps with the placeholder.
    host: String,
    path: String,
}

impl PublicUrl {
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        self.text.replace(HOLE, name)
    }

    /// May hold the placeholder.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    #[must_use]
    pub fn host(&self, name: &str) -> String {
        self.host.replace(HOLE, name)
    }

    #[must_use]
    pub fn is_https(&self) -> bool {
        self.text.starts_with("https://")
    }

    /// The endpoint need not exist.
    #[must_use]
    pub fn name_in<'a>(&self, target: &'a str, host: Option<&'a str>) -> Option<&'a str> {
        if let Some(before) = self.path.split_once(HOLE).map(|(before, _)| before) {
            let rest = target.strip_prefix(before)?;
            return rest.split(['/', '?', '#']).next();
        }
        let after = self.host.strip_prefix(HOLE)?;
        let host = host?;
        let host = without_port(host);
        let at = host.len().checked_sub(after.len())?;
        let is_ours = host.get(at..)?.eq_ignore_ascii_case(after);
        host.get(..at).filter(|_| is_ours)
    }

    fn takes(&self, name: &str) -> bool {
        const LABEL_MAX: usize = 63;
        if self.path.contains(HOLE) {
            return name != "." && name != "..";
        }
        let fine = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
        name.len() <= LABEL_MAX
            && name.chars().all(fine)
            && !name.is_empty()
            && !name.starts_with('-')
            && !name.ends_with('-')
    }
}

impl FromStr for PublicUrl {
    type Err = ReachError;

    fn from_str(text: &str) -> Result<Self, ReachError> {
        /// A name in place of the placeholder, for the parser.
        const NAME: &str = "endpoint";

        let wrong = |why| ReachError::Url { url: text.to_owned(), why };
        if text.matches(HOLE).count() != 1 {
            return Err(wrong("it must contain {endpoint} exactly once"));
        }
        let url = url::Url::parse(&text.replace(HOLE, NAME)).map_err(|_| wrong("it cannot be read"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("its scheme is neither http nor https"));
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has more than a host and a path"));
        }
        let (_, rest) = text.split_once("://").ok_or_else(|| wrong("it cannot be read"))?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let host = without_port(authority).to_ascii_lowercase();
        // The text must equal the form that requests will have.
        let is_plain = url.path() == path.replace(HOLE, NAME)
            && url.host_str().is_some_and(|known| known == host.replace(HOLE, NAME));
        if !is_plain {
            return Err(wrong("a request would spell its host or path differently"));
        }
        let is_segment = path.split('/').any(|segment| segment == HOLE);
        let is_label = host.strip_prefix(HOLE).is_some_and(|rest| rest.starts_with('.'));
        if !is_segment && !is_label {
            return Err(wrong(
                "{endpoint} must be a whole segment of the path or the first label of the host",
            ));
        }
        Ok(Self { text: text.to_owned(), host, path: path.to_owned() })
    }
}

/// A host without its port. An IPv6 address ends with a bracket.
fn without_port(authority: &str) -> &str {
    let split = authority.rsplit_once(':');
    let split = split.filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()));
    split.map_or(authority, |(host, _)| host)
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> PublicUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_request_names_its_endpoint_by_path_or_by_host() {
        let by_path = public("https://Hooks.example.org:8443/in/{endpoint}/x");
        assert_eq!(by_path.url("a"), "https://Hooks.example.org:8443/in/a/x");
        assert_eq!(by_path.host("a"), "hooks.example.org");
        let rows = [
            ("/in/a/x", Some("a")),
            ("/in/a", Some("a")),
            ("/in/b?x=/in/a", Some("b")),
            ("/in/", Some("")),
            ("/in", None),
            ("/", None),
            ("/out/a/x", None),
        ];
        for (target, expected) in rows {
            assert_eq!(by_path.name_in(target, Some("elsewhere")), expected, "{target}");
        }
        assert_eq!(public("https://[::1]/{endpoint}").host("a"), "[::1]");
        let by_host = public("https://{endpoint}.hooks.example.org");
        assert_eq!((by_host.path(), by_host.host("a").as_str()), ("/", "a.hooks.example.org"));
        let rows = [
            (Some("a.hooks.example.org"), Some("a")),
            (Some("a.Hooks.example.org:443"), Some("a")),
            (Some("a.b.hooks.example.org"), Some("a.b")),
            (Some("hooks.example.org"), None),
            (Some("é"), None),
            (None, None),
        ];
        for (host, expected) in rows {
            assert_eq!(by_host.name_in("/", host), expected, "{host:?}");
        }
    }

    #[test]
    fn a_public_url_has_one_place_for_a_name_and_says_what_requests_will_say() {
        for text in [
            "https://hooks.example.org/",
            "https://hooks.example.org/{endpoint}/{endpoint}",
            "https://hooks.example.org/x-{endpoint}",
            "https://x{endpoint}.example.org/",
            "https://{endpoint}",
            "ftp://hooks.example.org/{endpoint}",
            "https://me:secret@hooks.example.org/{endpoint}",
            "https://hooks.example.org/{endpoint}?a=b",
            "https://hooks.example.org/a/../{endpoint}",
            "https://hooks.example.org/a b/{endpoint}",
            "{endpoint}",
        ] {
            assert!(matches!(text.parse::<PublicUrl>(), Err(ReachError::Url { .. })), "{text}");
        }
    }

    #[test]
    fn an_unreachable_address_is_refused() {
        let reach = |bind: &str, public: &str| Reach {
            bind: (!bind.is_empty()).then(|| bind.parse().unwrap()),
            public: (!public.is_empty()).then(|| public.parse().unwrap()),
            tls: Tls::OfTheRun,
        };
        let check = |reach: Reach, name: &str| reach.check(std::iter::once(name));
        assert_eq!(check(reach("", ""), "a"), Ok(()));
        assert_eq!(check(reach("::1", ""), "a"), Ok(()));
        let any = Ipv4Addr::UNSPECIFIED.into();
        assert_eq!(check(reach("0.0.0.0", ""), "a"), Err(ReachError::Unspecified(any)));
        assert_eq!(check(reach("127.0.0.1:80", ""), "a"), Err(ReachError::OnePort));
        let (by_path, by_host) = ("https://h.example/{endpoint}", "https://{endpoint}.h.example/");
        assert_eq!(check(reach("0.0.0.0", by_path), "a"), Err(ReachError::NoPort));
        assert_eq!(check(reach("[::]:8443", by_path), "A_b.c"), Ok(()));
        assert_eq!(check(reach("[::]:8443", by_host), "a-1"), Ok(()));
        for name in ["A", "a_b", "a.b", "-a", "a-"] {
            let refused = Err(ReachError::Name { name: name.to_owned() });
            assert_eq!(check(reach("[::]:8443", by_host), name), refused);
        }
        let plain = reach("0.0.0.0:80", "http://h.example/{endpoint}");
        assert_eq!(check(plain, "a"), Err(ReachError::Plain));
        assert!("localhost:80".parse::<Bind>().is_err());
    }
}
