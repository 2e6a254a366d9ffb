use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

pub(crate) use crate::failure::Failure;

pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::with_capacity(64 << 10, stream) })
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<String, Failure> {
        self.exchange(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes(), b"")
    }

    pub(crate) fn post(&mut self, path: &str, kind: &str, body: &[u8]) -> Result<String, Failure> {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        self.exchange(head.as_bytes(), body)
    }

    fn exchange(&mut self, head: &[u8], body: &[u8]) -> Result<String, Failure> {
        let request = [head, body].concat();
        self.reader.get_mut().write_all(&request)?;
        let mut status = String::new();
        self.reader.read_line(&mut status)?;
        let (mut length, mut chunked) = (0_usize, false);
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", text)) => length = number(text, 10)?,
                Some(("transfer-encoding", "chunked")) => chunked = true,
                Some(_) => {}
                None => break,
            }
        }
        let mut answer = Vec::new();
        if chunked {
            while self.chunk(&mut answer)? {}
        } else {
            self.take(length, &mut answer)?;
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        if status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
            return Ok(answer);
        }
        Err(Failure::Says(format!("the sender answered {}: {answer}", status.trim_end())))
    }

    fn chunk(&mut self, answer: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let length = number(line.trim_end(), 16)?;
        self.take(length, answer)?;
        self.reader.read_line(&mut line)?;
        Ok(length > 0)
    }

    fn take(&mut self, length: usize, answer: &mut Vec<u8>) -> Result<(), Failure> {
        let from = answer.len();
        answer.resize(from + length, 0);
        Ok(self.reader.read_exact(&mut answer[from..])?)
    }
}

fn number(text: &str, radix: u32) -> Result<usize, Failure> {
    usize::from_str_radix(text, radix).map_err(|_| Failure::Says(format!("'{text}' is no length")))
}
