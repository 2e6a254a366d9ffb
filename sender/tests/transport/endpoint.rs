use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

pub(crate) struct Connection {
    /// From 0, in the order of arrival.
    pub(crate) number: usize,
    pub(crate) socket: TcpStream,
    counts: Arc<Counts>,
}

impl Endpoint {
    pub(crate) async fn start<F>(script: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    pub(crate) fn on<F>(listener: TcpListener, script: impl Fn(Connection) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let seen = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let number = seen.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(Connection { number, socket, counts: Arc::clone(&seen) }));
            }
        });
        Self { address, counts, accepting }
    }

    pub(crate) async fn answering(answer: &'static str) -> Self {
        Self::start(move |mut connection| async move {
            while connection.request().await.is_some() {
                connection.write(answer).await;
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Connection {
    /// Reads a whole request; `None` if the connection ends first.
    pub(crate) async fn request(&mut self) -> Option<Vec<u8>> {
        let request = read_request(&mut self.socket).await;
        if request.is_some() {
            self.counts.requests.fetch_add(1, Ordering::SeqCst);
        }
        request
    }

    pub(crate) async fn write(&mut self, text: &str) {
        let _ = self.socket.write_all(text.as_bytes()).await;
    }

    pub(crate) fn reset(self) {
        self.socket.set_zero_linger().unwrap();
    }

    /// Waits until the peer ends the connection; an error means a reset.
    pub(crate) async fn end(&mut self) -> std::io::Result<()> {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).await.map(|_| ())
    }
}

pub(crate) async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = std::str::from_utf8(&request[..head]).unwrap();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if request.len() >= head + 4 + length.parse::<usize>().unwrap() {
                return Some(request);
            }
        }
        if socket.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}
