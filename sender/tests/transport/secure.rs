use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hookproof_sender::transport::{Roots, Settings, Transport};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::transport::rig::lenient;

pub(crate) struct Secure {
    pub(crate) address: SocketAddr,
    pub(crate) pem: String,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Secure {
    /// Runs the script for each connection with TLS. The certificate names only `localhost`.
    pub(crate) async fn start<F>(
        speaks: &[&str],
        script: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (connected, _) = mpsc::unbounded_channel();
        let (agree, agreed) = oneshot::channel();
        agree.send(()).unwrap();
        Self::start_held(speaks, connected, agreed, script, || {}).await
    }

    /// Reports the number of requests of each ended connection.
    pub(crate) async fn counting() -> (Self, mpsc::UnboundedReceiver<usize>) {
        let (tell, told) = mpsc::unbounded_channel();
        let endpoint = Self::start(&["h2"], move |tls| {
            let tell = tell.clone();
            async move {
                let mut connection = h2::server::handshake(tls).await.unwrap();
                let mut requests = 0;
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    requests += 1;
                    let head = http::Response::builder().status(204).body(()).unwrap();
                    respond.send_response(head, true).unwrap();
                }
                tell.send(requests).unwrap();
            }
        })
        .await;
        (endpoint, told)
    }

    /// The first connection begins TLS only after `agreed`. Reports it at once, and every connection once TLS
    /// completed or failed.
    pub(crate) async fn start_held<F>(
        speaks: &[&str],
        connected: mpsc::UnboundedSender<()>,
        agreed: oneshot::Receiver<()>,
        script: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
        failed: impl Fn() + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (config, pem) = config(speaks);
        Self::accepting(config, pem, (connected, agreed), script, failed).await
    }

    pub(crate) async fn accepting<F>(
        config: ServerConfig,
        pem: String,
        (connected, agreed): (mpsc::UnboundedSender<()>, oneshot::Receiver<()>),
        script: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static,
        failed: impl Fn() + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            let mut agreed = Some(agreed);
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                if let Some(agreed) = agreed.take() {
                    let _ = connected.send(());
                    agreed.await.unwrap();
                }
                match acceptor.accept(socket).await {
                    Ok(tls) => drop(tokio::spawn(script(tls))),
                    Err(_) => failed(),
                }
                let _ = connected.send(());
            }
        });
        Self { address, pem, connections, accepting }
    }

    /// Reports the bytes read over each connection, none if TLS failed.
    pub(crate) async fn reading(
        speaks: &[&str],
        connected: mpsc::UnboundedSender<()>,
        agreed: oneshot::Receiver<()>,
    ) -> (Self, mpsc::UnboundedReceiver<Vec<u8>>) {
        let (tell, told) = mpsc::unbounded_channel();
        let tell_nothing = tell.clone();
        let read = move |mut tls: TlsStream<TcpStream>| {
            let tell = tell.clone();
            async move {
                let mut read = Vec::new();
                let _ = tls.read_to_end(&mut read).await;
                tell.send(read).unwrap();
            }
        };
        let failed = move || tell_nothing.send(Vec::new()).unwrap();
        (Self::start_held(speaks, connected, agreed, read, failed).await, told)
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn transport(&self) -> Transport {
        trusting(&self.pem)
    }
}

pub(crate) fn trusting(pem: &str) -> Transport {
    let roots = Roots::default().with_pem(pem.as_bytes()).unwrap();
    Transport::new(Settings { roots, ..Settings::default() }, lenient())
}

pub(crate) fn config(speaks: &[&str]) -> (ServerConfig, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    config.alpn_protocols = speaks.iter().map(|name| name.as_bytes().to_vec()).collect();
    (config, made.cert.pem())
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
