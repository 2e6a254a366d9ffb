//! The bytes of a connection, plain or over TLS, and the handshake.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hookproof_judge::scenario::SECOND;
use hookproof_judge::trace::{Handshake, Record, StrayKind};
use hookproof_play::endpoint::civil;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::reach::{Port, Reach, Tls};
use crate::clock::Clock;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Waits for a byte or the end. Reads nothing from the socket.
    pub(super) async fn readable(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            // Bytes that came with the handshake have left the socket already. The next read reports their errors.
            let waits = tls.get_mut().1.process_new_packets();
            if waits.is_err()
                || waits.is_ok_and(|waits| waits.plaintext_bytes_to_read() > 0 || waits.peer_has_closed())
            {
                return Ok(());
            }
        }
        poll_fn(|cx| self.socket().poll_read_ready(cx)).await
    }

    /// Reads the bytes that are ready; otherwise fails with `WouldBlock`.
    pub(super) fn try_read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_read_buf(buffer),
            Self::Tls(tls) => {
                let mut context = Context::from_waker(Waker::noop());
                match pin!(tls.read_buf(buffer)).poll(&mut context) {
                    Poll::Ready(read) => read,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
        }
    }

    /// Whether a read may leave ready bytes: over TLS it ends with a record.
    pub(super) const fn reads_in_pieces(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns the number of written bytes, and the time just before.
    pub(super) async fn write_some(&mut self, clock: &Clock, bytes: &[u8]) -> io::Result<(usize, u64)> {
        const RECORD_BYTES: usize = 16 << 10;
        loop {
            // A plain write reports a full socket; a TLS write blocks on it.
            if let Self::Tls(_) = self {
                self.socket().writable().await?;
            }
            let now = clock.now();
            let written = match self {
                Self::Plain(socket) => socket.try_write(bytes),
                Self::Tls(tls) => {
                    let piece = &bytes[..bytes.len().min(RECORD_BYTES)];
                    tls.write_all(piece).await?;
                    tls.flush().await.map(|()| piece.len())
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => return Ok((written, now)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.socket().writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends close_notify over TLS; errors do not matter.
    pub(super) async fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            let _ = tls.shutdown().await;
        }
    }

    /// Makes the connection end with a reset when it is dropped.
    pub(super) fn reset_at_end(&self) {
        // Without it the close is orderly; the sender gets no answer either way.
        let _ = self.socket().set_zero_linger();
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// The first byte included.
const HANDSHAKE_WITHIN_NS: u64 = 10 * SECOND;
/// The validity of a run's certificates, in days: longer than any run.
const GOOD_FOR_DAYS: u64 = 90;
/// A handshake carries at most 64 KiB of certificate.
const HOSTS_MAX: usize = 200;
const CA_FILE: &str = "ca.pem";

/// An unusable certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The given file is unusable.
    #[error("{path} cannot be used: {why}", path = path.display())]
    Given {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// No certificate could be created.
    #[error("no certificate could be made for the endpoints: {0}")]
    Made(String),
    /// The authority's certificate can't be written.
    #[error("{path} cannot be written: {error}", path = path.display())]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

/// The endpoints' certificate.
#[derive(Clone)]
pub struct Identity {
    pub(super) acceptor: TlsAcceptor,
    /// The file that a sender must trust.
    trust: PathBuf,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("trust", &self.trust).finish_non_exhaustive()
    }
}

impl Identity {
    /// None without TLS. Writes a run's authority into its folder, but never its key.
    ///
    /// Fails when a file can't be used or written.
    pub fn of(reach: &Reach, names: &[&str], folder: &Path, clock: &Clock) -> Result<Option<Self>, TlsError> {
        match &reach.tls {
            Tls::None => Ok(None),
            Tls::Given { certificate, key } => load_identity(certificate, key).map(Some),
            Tls::OfTheRun => {
                let made = make(hosts(reach, names), clock.unix_ns(clock.now()) / SECOND / 86_400);
                let (config, authority) = made.map_err(TlsError::Made)?;
                let path = folder.join(CA_FILE);
                let unwritten = |error| TlsError::Unwritten { path: path.clone(), error };
                std::fs::write(&path, authority).map_err(unwritten)?;
                let trust = std::path::absolute(&path).map_err(unwritten)?;
                Ok(Some(Self { acceptor: acceptor(config), trust }))
            }
        }
    }

    /// The file that a sender must trust.
    #[must_use]
    pub fn trust(&self) -> &Path {
        &self.trust
    }
}

/// Many hosts become one wildcard: each name is one label.
fn hosts(reach: &Reach, names: &[&str]) -> Vec<String> {
    let Some(public) = &reach.public else { return vec![reach.address().ip().to_string()] };
    let mut hosts: Vec<String> = names.iter().map(|name| public.host(name)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.len() > HOSTS_MAX {
        return vec![public.host("*")];
    }
    hosts.into_iter().map(|host| host.trim_matches(['[', ']']).to_owned()).collect()
}

fn acceptor(mut config: ServerConfig) -> TlsAcceptor {
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    versions.with_no_client_auth().with_single_cert(chain, key)
}

fn load_identity(certificate: &Path, key_file: &Path) -> Result<Identity, TlsError> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| TlsError::Given {
        path: path.to_owned(),
        why: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| wrong(certificate, &error))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|error| wrong(certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key_file).map_err(|error| wrong(key_file, &error))?;
    let config = config(chain, key).map_err(|error| wrong(certificate, &error))?;
    let trust = std::path::absolute(certificate).map_err(|error| wrong(certificate, &error))?;
    Ok(Identity { acceptor: acceptor(config), trust })
}

fn make(hosts: Vec<String>, today: u64) -> Result<(ServerConfig, String), String> {
    let text = |error: rcgen::Error| error.to_string();
    let mut root = CertificateParams::new(Vec::new()).map_err(text)?;
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    root.distinguished_name.push(DnType::CommonName, format!("Hookproof, for one run, {}", date(today)));
    bound(&mut root, today);
    let root = CertifiedIssuer::self_signed(root, KeyPair::generate().map_err(text)?).map_err(text)?;
    let mut own = CertificateParams::new(hosts).map_err(text)?;
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = true;
    own.distinguished_name.push(DnType::CommonName, "Hookproof's endpoints");
    bound(&mut own, today);
    let key = KeyPair::generate().map_err(text)?;
    let own = own.signed_by(&key, &root).map_err(text)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = config(vec![own.der().clone()], key).map_err(|error| error.to_string())?;
    Ok((config, root.pem()))
}

/// Valid from yesterday, since clocks differ.
fn bound(params: &mut CertificateParams, today: u64) {
    // `civil` returns valid months and days.
    let moment = |day: u64| {
        let ((year, month, day), small) = (civil(day), |number: u64| u8::try_from(number).unwrap_or(1));
        rcgen::date_time_ymd(i32::try_from(year).unwrap_or(i32::MAX), small(month), small(day))
    };
    params.not_before = moment(today.saturating_sub(1));
    params.not_after = moment(today.saturating_add(GOOD_FOR_DAYS));
}

fn date(day: u64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns whether HTTP/2 was chosen. Records a failure as a stray, unless the peer left without sending a byte: port
/// probes do so.
pub(super) async fn shake_hands(
    port: &Port,
    acceptor: &TlsAcceptor,
    socket: TcpStream,
    connection: u64,
) -> Option<(Stream, bool)> {
    let t = port.stage.clock.now();
    let agreed = async {
        if !matches!(socket.peek(&mut [0]).await, Ok(1..)) {
            return None;
        }
        let _turn = port.handshakes.acquire().await.ok()?;
        Some(acceptor.accept(socket).await)
    };
    let why = tokio::select! {
        agreed = agreed => match agreed? {
            Ok(tls) => {
                let until = port.stage.clock.now();
                port.stage.recorder.record(Record::Handshake(Handshake { t, until, connection, first: None }));
                let is_second = tls.get_ref().1.alpn_protocol() == Some(HTTP2);
                return Some((Stream::Tls(Box::new(tls)), is_second));
            }
            Err(error) => error.to_string(),
        },
        () = port.stage.clock.pass(HANDSHAKE_WITHIN_NS) => {
            format!("it did not end within {} s", HANDSHAKE_WITHIN_NS / SECOND)
        }
    };
    port.strays.record_or_count(StrayKind::Handshake, None, &why);
    None
}
