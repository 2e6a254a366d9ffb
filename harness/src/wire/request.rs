//! Requests byte by byte, without normalisation, and their target.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hookproof_judge::signature::folded;
use tokio::net::lookup_host;
use url::{Host, Url};

#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    /// Includes the query.
    pub path: String,
    /// Names and values as bytes, since some are no text.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    pub framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    /// Chunks of at most this many bytes.
    Chunks(usize, Spelling),
}

/// The spelling of chunks. A recipient must read each of them (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The size in lower-case hexadecimal.
    Plain,
    /// In upper case, with a zero in front.
    UpperCase,
    /// With extensions behind the size.
    Extended,
    /// With a header behind the last chunk.
    Trailer,
}

impl Spelling {
    fn size(self, bytes: usize) -> String {
        match self {
            Self::Plain | Self::Trailer => format!("{bytes:x}\r\n"),
            Self::UpperCase => format!("0{bytes:X}\r\n"),
            Self::Extended => format!("{bytes:x};hookproof=1;text=\"a; b\"\r\n"),
        }
    }
}

impl Request {
    fn place(&self, name: &str) -> Option<usize> {
        self.headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.place(name).map(|at| self.headers[at].1.as_slice())
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.place(name) {
            Some(at) => self.headers[at].1 = value.as_ref().to_vec(),
            None => self.headers.push((name.to_owned(), value.as_ref().to_vec())),
        }
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Puts it in front of all others.
    #[must_use]
    pub fn after(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.insert(0, (name.to_owned(), value.as_ref().to_vec()));
        self
    }

    #[must_use]
    pub fn and(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    #[must_use]
    pub fn carrying(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// With the signature in its place, where that is the body.
    #[must_use]
    pub fn sent(&self) -> Cow<'_, Self> {
        match folded(&self.headers, &self.body) {
            Some((headers, body)) => Cow::Owned(Self { headers, body, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Excludes the final empty line.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.sent().own_head()
    }

    fn own_head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        match self.framing {
            Framing::Length => head.extend(format!("Content-Length: {}\r\n", self.body.len()).bytes()),
            Framing::Chunks(..) => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        head
    }

    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.sent().own_bytes()
    }

    fn own_bytes(&self) -> Vec<u8> {
        let mut bytes = self.own_head();
        bytes.extend_from_slice(b"\r\n");
        match self.framing {
            Framing::Length => bytes.extend_from_slice(&self.body),
            Framing::Chunks(size, spelling) => {
                for chunk in self.body.chunks(size.max(1)) {
                    bytes.extend_from_slice(spelling.size(chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(spelling.size(0).as_bytes());
                if spelling == Spelling::Trailer {
                    bytes.extend_from_slice(b"X-Trailer: 1\r\n");
                }
                bytes.extend_from_slice(b"\r\n");
            }
        }
        bytes
    }
}

#[derive(Clone, Debug)]
pub struct Target {
    /// The URL, which has no user or password; or the option that names the command.
    pub url: String,
    /// Reads a request on stdin, and answers by its exit code.
    pub command: Option<String>,
    pub host_header: String,
    pub host: String,
    /// Includes the query.
    pub path: String,
    pub tls: bool,
    port: u16,
}

impl Target {
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let wrong = |why: &str| TargetError { given: text.chars().take(200).collect(), why: why.to_owned() };
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(wrong("expected http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it has a user or password, which webhooks do not send"));
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
        Ok(Self {
            url: url.to_string(),
            command: None,
            host_header,
            host,
            path,
            tls: url.scheme() == "https",
            port,
        })
    }

    /// A shell command; `option` names it in reports.
    #[must_use]
    pub fn command(command: &str, option: String) -> Self {
        let host = "localhost".to_owned();
        let (command, path) = (Some(command.to_owned()), "/hook".to_owned());
        Self { url: option, command, host_header: host.clone(), host, path, tls: false, port: 0 }
    }

    /// The URL that a signature covers: as the receiver sees it.
    #[must_use]
    pub fn signed_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header, self.path)
    }

    pub async fn resolve(&self) -> std::io::Result<Vec<SocketAddr>> {
        if self.command.is_some() {
            return Ok(Vec::new());
        }
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        Ok(lookup_host((self.host.as_str(), self.port)).await?.collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a URL for webhooks: {why}")]
pub struct TargetError {
    given: String,
    why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_it_was_asked_for() {
        let request = Request {
            method: "POST",
            path: "/hooks?a=b".to_owned(),
            headers: vec![("hOsT".to_owned(), b"a".to_vec())],
            body: b"{}".to_vec(),
            framing: Framing::Length,
        };
        let odd = request.clone().and("X", [0xff]).and("X", "2");
        let expected =
            b"POST /hooks?a=b HTTP/1.1\r\nhOsT: a\r\nX: \xff\r\nX: 2\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(odd.bytes(), expected);
        let framed = |framing| {
            Request { framing, ..request.clone().without("host") }.carrying(b"{ten bytes}".to_vec())
        };
        let chunked = framed(Framing::Chunks(10, Spelling::Plain));
        let head = "POST /hooks?a=b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let expected = format!("{head}a\r\n{{ten bytes\r\n1\r\n}}\r\n0\r\n\r\n");
        assert_eq!(chunked.bytes(), expected.as_bytes());
        let rows = [
            (Spelling::UpperCase, "0A\r\n{ten bytes\r\n01\r\n}\r\n00\r\n\r\n"),
            (Spelling::Trailer, "a\r\n{ten bytes\r\n1\r\n}\r\n0\r\nX-Trailer: 1\r\n\r\n"),
        ];
        for (spelling, expected) in rows {
            let bytes = framed(Framing::Chunks(10, spelling)).bytes();
            assert_eq!(bytes, format!("{head}{expected}").as_bytes(), "{spelling:?}");
        }
        let bytes = framed(Framing::Chunks(11, Spelling::Extended)).bytes();
        assert!(bytes.ends_with(
            b"\r\n\r\nb;hookproof=1;text=\"a; b\"\r\n{ten bytes}\r\n0;hookproof=1;text=\"a; b\"\r\n\r\n"
        ));
    }
}
