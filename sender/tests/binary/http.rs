use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::FOREVER;

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn is_a_refusal(&self) {
        let error = &self.json()["error"];
        assert!(error["code"].as_str().is_some_and(|code| !code.is_empty()), "{self:?}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(' ')), "{self:?}");
        let field = error.as_object().unwrap().get("field");
        assert!(field.is_some_and(|field| field.is_null() || field.is_string()), "{self:?}");
    }
}

#[track_caller]
pub(crate) fn request(address: &str, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
    try_ask(address, method, path, kind, body).unwrap()
}

pub(crate) fn try_ask(
    address: &str,
    method: &str,
    path: &str,
    kind: &str,
    body: &[u8],
) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    read(&stream)
}

pub(crate) fn read(stream: &TcpStream) -> std::io::Result<Answer> {
    stream.set_read_timeout(Some(FOREVER))?;
    let mut reader = BufReader::new(stream);
    let (mut head, mut length, mut chunked) = (String::new(), None, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length: ") {
            length = value.trim().parse::<usize>().ok();
        }
        chunked |= lower == "transfer-encoding: chunked\r\n";
        head.push_str(&line);
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    if chunked {
        while read_chunk(&mut reader, &mut body)? {}
    } else {
        read_more(&mut reader, length.unwrap_or(0), &mut body)?;
    }
    Ok(Answer { status, head, body })
}

fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
    read_more(reader, length, body)?;
    reader.read_line(&mut line)?;
    Ok(length > 0)
}

fn read_more(reader: &mut impl Read, length: usize, body: &mut Vec<u8>) -> std::io::Result<()> {
    let from = body.len();
    body.resize(from + length, 0);
    reader.read_exact(&mut body[from..])
}
