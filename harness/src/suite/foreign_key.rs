//! The certificate of a stranger, for receivers that fetch a key from any host.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use hookproof_judge::signature::STRANGERS_CERTIFICATE;

const READ_LIMIT: Duration = Duration::from_secs(1);

/// Serves one connection after another until the process ends.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(|| {
    let served = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream))));
        Ok::<_, std::io::Error>(address)
    };
    served().unwrap_or_else(|_| SocketAddr::from(([127, 0, 0, 1], 9)))
});

pub(super) fn address() -> SocketAddr {
    *ADDRESS
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_LIMIT))?;
    let _request = stream.read(&mut [0; 4096])?;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{STRANGERS_CERTIFICATE}",
        STRANGERS_CERTIFICATE.len()
    )
}
