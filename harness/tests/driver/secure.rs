use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{hookproof, ours};

const TOKEN: &str = "a-token-that-nobody-may-see";

/// Behind the proxy, a TLS front demands client certificates. It answers `CONNECT` as `staging.test`, and forwards to
/// the same port of this machine.
pub(crate) struct Front {
    proxy: String,
    tunnels: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

impl Front {
    pub(crate) fn open(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (params.signed_by(&key, &authority).unwrap(), key)
        };
        let ((server, server_key), (client, client_key)) = (issue("staging.test"), issue("harness.test"));
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        std::fs::write(folder.join("client.pem"), client.pem()).unwrap();
        std::fs::write(folder.join("client.key"), client_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_client_cert_verifier(verifier);
        let config = config.with_single_cert(vec![server.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let proxy = format!("http://{}", listener.local_addr().unwrap());
        let tunnels = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tunnels);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, acceptor.clone(), Arc::clone(&counted)));
            }
        });
        Self { proxy, tunnels, _runtime: runtime }
    }

    pub(crate) fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::SeqCst)
    }
}

async fn pass(mut stream: TcpStream, acceptor: TlsAcceptor, tunnels: Arc<AtomicUsize>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let port = head.strip_prefix("CONNECT staging.test:").and_then(|rest| rest.split(' ').next());
    let port: u16 = port.unwrap_or_else(|| panic!("{head}")).parse().unwrap();
    tunnels.fetch_add(1, Ordering::SeqCst);
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    let (Ok(mut tls), Ok(mut sender)) =
        (acceptor.accept(stream).await, TcpStream::connect(("127.0.0.1", port)).await)
    else {
        return;
    };
    let _ended = tokio::io::copy_bidirectional(&mut tls, &mut sender).await;
}

pub(crate) fn driver(connect: &str) -> String {
    let text = ours().replacen(
        "[start]",
        &format!("base = \"https://staging.test:{{{{ port }}}}\"\n[connect]\n{connect}\n[start]"),
        1,
    );
    let headers = "headers = { Authorization = \"Bearer {{ env.ACME_TOKEN }}\" }\n";
    let text = text.replace("[depth]\n", &format!("[depth]\n{headers}"));
    let text = text.replace("[subscribe]\n", &format!("[subscribe]\n{headers}"));
    let serve = "\"sender\", \"serve\",";
    assert!(text.contains(serve));
    let text = text.replace(serve, "\"sender\", \"serve\", \"--token-env\", \"ACME_TOKEN\",");
    // Readiness bypasses the front, so the first call fails.
    let text =
        text.replace("ready    = \"{{ base }}/readyz\"", "ready    = \"http://127.0.0.1:{{ port }}/readyz\"");
    let all = ["[start.owner]\n", "[change]\n", "[rotate]\n", "[redrive]\n", "[dead]\n"];
    let text = all.iter().fold(text, |text, call| text.replace(call, &format!("{call}{headers}")));
    text.replace(
        "headers = { content-type = \"application/x-ndjson\" }",
        "headers = { content-type = \"application/x-ndjson\", Authorization = \"Bearer {{ env.ACME_TOKEN }}\" }",
    )
}

pub(crate) const CONNECT: &str =
    "ca = \"ca.pem\"\ncertificate = \"client.pem\"\nkey = \"{{ env.ACME_KEY }}\"\nwithin = \"10s\"";

pub(crate) fn environment(front: &Front) -> [(&str, &str); 4] {
    [("HTTPS_PROXY", &front.proxy), ("NO_PROXY", ""), ("ACME_TOKEN", TOKEN), ("ACME_KEY", "client.key")]
}

#[test]
fn a_sender_behind_a_proxy_that_asks_for_a_certificate_is_spoken_to() {
    let folder = tempfile::tempdir().unwrap();
    let front = Front::open(folder.path());
    let file = folder.path().join("driver.toml");
    let check = |connect: &str| {
        std::fs::write(&file, driver(connect)).unwrap();
        hookproof(&["driver", "check", file.to_str().unwrap()], &environment(&front))
    };
    let (code, said) = check(CONNECT);
    assert!(code == Some(0) && said.contains("valid signatures: 3"), "{code:?}: {said}");
    assert!(front.tunnels.load(Ordering::SeqCst) > 0, "nothing went through the proxy");
    // Either alone is refused.
    let (code, said) = check("ca = \"ca.pem\"\nwithin = \"10s\"");
    assert!(code == Some(4) && said.contains("failed   subscribe"), "{code:?}: {said}");
    let (code, said) = check(&CONNECT.replace("ca = \"ca.pem\"\n", ""));
    assert!(code == Some(4) && said.contains("UnknownIssuer"), "{code:?}: {said}");
    let (code, said) = check(&CONNECT.replace("ca.pem", "no-such.pem"));
    assert!(code == Some(64) && said.contains("no-such.pem cannot be used"), "{code:?}: {said}");
}

#[test]
fn a_token_of_the_environment_is_in_nothing_that_a_run_leaves_behind() {
    const SCENARIO: &str = "name = \"quiet\"\ndrain = \"10s\"\nlinger = \"500ms\"\n[[traffic]]\nshape = \"steady\"\nrate = \"20/s\"\nlasts = \"1s\"\n\
                            [[subscriber]]\nname = \"one\"\nlimit = { rate = \"100/s\", burst = 50, in_flight = 10 }\n";
    let folder = tempfile::tempdir().unwrap();
    let front = Front::open(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (driver_file, scenario, out) = (file("driver.toml"), file("quiet.toml"), file("out"));
    std::fs::write(&scenario, SCENARIO).unwrap();
    let run = |driver: String| {
        std::fs::write(&driver_file, driver).unwrap();
        let arguments = ["run", &scenario, "--driver", &driver_file, "--out", &out, "--only", "loss,format"];
        let (code, said) = hookproof(&arguments, &environment(&front));
        assert!(!said.contains(TOKEN), "{said}");
        (code, said)
    };
    let (code, said) = run(driver(CONNECT));
    assert_eq!(code, Some(0), "{said}");
    let mut files = 0;
    let entries =
        std::fs::read_dir(folder.path().join("out/quiet")).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.filter(|path| path.is_file()) {
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
        assert!(!found, "{} has the token", path.display());
        files += 1;
    }
    assert!(files >= 4, "{files} files: trace, page, report and log");
    let (code, said) =
        run(driver(CONNECT).replace("Bearer {{ env.ACME_TOKEN }}", "Basic {{ env.ACME_TOKEN }}"));
    assert!(code == Some(4) && said.contains("401"), "{code:?}: {said}");
}

#[test]
fn a_token_in_the_file_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("driver.toml");
    let text = driver(CONNECT).replacen("Bearer {{ env.ACME_TOKEN }}", "Bearer sk_live_of_acme", 1);
    std::fs::write(&file, text).unwrap();
    let (code, said) = hookproof(&["driver", "check", file.to_str().unwrap()], &[]);
    assert!(code == Some(64) && said.contains("expected it from the environment"), "{code:?}: {said}");
    assert!(!said.contains("sk_live_of_acme"), "{said}");
}
