//! Requests byte by byte, without additions or normalisation.

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The path, with the query.
    pub path: String,
    /// Names and values in order, as bytes, since some are no text.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// The framing of the body.
    pub framing: Framing,
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`.
    Length,
    /// Chunks of one byte.
    BytePerChunk,
}

impl Request {
    fn place(&self, name: &str) -> Option<usize> {
        self.headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.place(name).map(|at| self.headers[at].1.as_slice())
    }

    /// Replaces a header's value, or adds the header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.place(name) {
            Some(at) => self.headers[at].1 = value.as_ref().to_vec(),
            None => self.headers.push((name.to_owned(), value.as_ref().to_vec())),
        }
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Adds a header, even if there is one with that name.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Replaces the body, and nothing else.
    #[must_use]
    pub fn carrying(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// The request line and the headers, without the final empty line.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        match self.framing {
            Framing::Length => head.extend(format!("Content-Length: {}\r\n", self.body.len()).bytes()),
            Framing::BytePerChunk => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        }
        head
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend_from_slice(b"\r\n");
        match self.framing {
            Framing::Length => bytes.extend_from_slice(&self.body),
            Framing::BytePerChunk => {
                for byte in &self.body {
                    bytes.extend_from_slice(&[b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }
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
        let chunked = Request { framing: Framing::BytePerChunk, ..request.without("host") };
        let expected =
            b"POST /hooks?a=b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        assert_eq!(chunked.bytes(), expected);
    }
}
