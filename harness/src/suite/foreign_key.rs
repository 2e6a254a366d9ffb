//! The certificate of a stranger, for receivers that fetch a key from any host.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::time::Duration;

use hookproof_judge::signature::STRANGERS_CERTIFICATE;

const READ_LIMIT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Serves one connection after another until the process ends.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    let served = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _gone = stream.set_read_timeout(Some(READ_LIMIT)).and_then(|()| answer(stream));
            }
        });
        Ok::<_, std::io::Error>(address)
    };
    served().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 9)))
});

pub(super) fn address() -> SocketAddr {
    *ADDRESS
}

/// Once the whole request is read: a connection that closes before then takes the answer back.
fn answer(stream: impl Read + Write) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.take(HEAD_BYTES_MAX));
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            break;
        }
    }
    let mut stream = reader.into_inner().into_inner();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{STRANGERS_CERTIFICATE}",
        STRANGERS_CERTIFICATE.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that writes byte by byte.
    struct Slow {
        unread: &'static [u8],
        answer: Vec<u8>,
    }

    impl Read for &mut Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let (now, later) = self.unread.split_at(self.unread.len().min(1));
            buffer[..now.len()].copy_from_slice(now);
            self.unread = later;
            Ok(now.len())
        }
    }

    impl Write for &mut Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert_eq!(self.unread, b"", "answered before the request was read");
            self.answer.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_that_comes_in_pieces_is_answered_after_its_last_one() {
        let mut client = Slow { unread: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", answer: Vec::new() };
        answer(&mut client).unwrap();
        assert!(client.answer.ends_with(STRANGERS_CERTIFICATE.as_bytes()));
        let mut ended = Slow { unread: b"GET / HTTP/1.1\r\n", answer: Vec::new() };
        answer(&mut ended).unwrap();
        assert_eq!(ended.answer, b"");
    }
}
