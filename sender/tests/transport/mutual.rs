use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hookproof_sender::engine::LaneId;
use hookproof_sender::tls_files::{PemFile, TlsFiles};
use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::server::TlsStream;

use crate::binary::Database;
use crate::transport::endpoint::read_request;
use crate::transport::rig::{brief, check, post, transport};
use crate::transport::secure::Secure;

const PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// Reports the client certificate of each request.
    async fn endpoint(&self, protocol: &str) -> (Secure, mpsc::UnboundedReceiver<Vec<u8>>) {
        let (certificate, key) = self.issue("localhost");
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let demands = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_client_cert_verifier(demands.build().unwrap());
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let (tell, told) = mpsc::unbounded_channel();
        let (connected, _) = mpsc::unbounded_channel();
        let (agree, agreed) = oneshot::channel();
        agree.send(()).unwrap();
        let script = move |tls: TlsStream<TcpStream>| answer_all(tls, tell.clone());
        (Secure::accepting(config, self.0.pem(), (connected, agreed), script, || {}).await, told)
    }
}

async fn answer_all(mut tls: TlsStream<TcpStream>, tell: mpsc::UnboundedSender<Vec<u8>>) {
    let (_, session) = tls.get_ref();
    let client = session.peer_certificates().unwrap()[0].to_vec();
    if session.alpn_protocol() == Some(b"h2") {
        let mut connection = h2::server::handshake(tls).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            tell.send(client.clone()).unwrap();
            respond.send_response(http::Response::builder().status(204).body(()).unwrap(), true).unwrap();
        }
    } else {
        while read_request(&mut tls).await.is_some() {
            tell.send(client.clone()).unwrap();
            tls.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    }
}

struct Party {
    folder: TempDir,
    certificate: Vec<u8>,
}

impl Party {
    fn new(trusted: &Authority, by: &Authority) -> Self {
        let mut party = Self { folder: tempfile::tempdir().unwrap(), certificate: Vec::new() };
        fs::write(party.path("ca"), trusted.0.pem()).unwrap();
        party.renew(by);
        party
    }

    fn renew(&mut self, by: &Authority) {
        let (certificate, key) = by.issue("client");
        fs::write(self.path("certificate"), certificate.pem()).unwrap();
        fs::write(self.path("key"), key.serialize_pem()).unwrap();
        self.certificate = certificate.der().to_vec();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, setting: &'static str) -> PemFile {
        let name = setting.strip_prefix("tls.").unwrap();
        PemFile { setting, path: self.path(name).to_str().unwrap().into() }
    }

    fn files(&self) -> TlsFiles {
        let identity = Some((self.file("tls.certificate"), self.file("tls.key")));
        TlsFiles { ca: Some(self.file("tls.ca")), identity }
    }
}

#[tokio::test]
async fn an_endpoint_that_demands_a_certificate_gets_that_of_the_subscriber() {
    let (authority, another) = (Authority::new(), Authority::new());
    for protocol in PROTOCOLS {
        let (endpoint, mut told) = authority.endpoint(protocol).await;
        let transport = transport();
        let party = Party::new(&authority, &authority);
        check(&post(endpoint.url()).tls(party.files()).through(&transport).await, "answered 204");
        assert_eq!(told.recv().await.unwrap(), party.certificate);

        let nothing = TlsFiles { identity: None, ..party.files() };
        let foreign = Party::new(&authority, &another).files();
        for (lane, files) in [(2, nothing), (3, foreign)] {
            let made = post(endpoint.url()).lane(lane).tls(files).through(&transport).await;
            assert!(!brief(&made).starts_with("answered"), "{made:?}");
        }
        for (lane, files) in
            [(4, TlsFiles { ca: None, ..party.files() }), (5, Party::new(&another, &authority).files())]
        {
            let made = post(endpoint.url()).lane(lane).tls(files).through(&transport).await;
            check(&made, "unsent tls");
            let said = made.failure().unwrap().to_string();
            assert!(said.contains("invalid peer certificate: "), "{said}");
        }
        assert!(told.try_recv().is_err(), "nothing else arrived");
    }
}

#[tokio::test]
async fn a_renewed_certificate_counts_from_the_next_connection_and_an_unusable_one_says_why() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let (endpoint, mut told) = authority.endpoint(protocol).await;
        let transport = transport();
        let mut party = Party::new(&authority, &authority);
        let post = post(endpoint.url()).tls(party.files());
        for _ in 0..2 {
            for _ in 0..2 {
                check(&post.through(&transport).await, "answered 204");
                assert_eq!(told.recv().await.unwrap(), party.certificate);
            }
            party.renew(&authority);
            transport.close(LaneId(1));
        }
        assert_eq!(endpoint.connections(), 2);
        let key = fs::read(party.path("key")).unwrap();
        fs::remove_file(party.path("key")).unwrap();
        let made = post.through(&transport).await;
        check(&made, "unsent tls_file");
        let path = party.path("key");
        let expected = format!(
            "tls.key cannot be read (No such file or directory (os error 2)); expected a PEM file that the sender may \
             read: {}",
            path.display()
        );
        assert_eq!(made.failure().unwrap().to_string(), expected);
        fs::write(path, key).unwrap();
        check(&post.through(&transport).await, "answered 204");
        assert_eq!(told.recv().await.unwrap(), party.certificate);
    }
}

#[tokio::test]
async fn subscribers_of_one_endpoint_share_no_connection_and_neither_do_identities_of_one() {
    let authority = Authority::new();
    for protocol in PROTOCOLS {
        let (endpoint, mut told) = authority.endpoint(protocol).await;
        let transport = transport();
        let parties = [(); 2].map(|()| Party::new(&authority, &authority));
        for _ in 0..3 {
            for (lane, party) in (1..).zip(&parties) {
                let post = post(endpoint.url()).lane(lane).tls(party.files());
                check(&post.through(&transport).await, "answered 204");
                assert_eq!(told.recv().await.unwrap(), party.certificate);
            }
        }
        assert_eq!(endpoint.connections(), 2);
        let changed = post(endpoint.url()).lane(1).tls(parties[1].files());
        check(&changed.through(&transport).await, "answered 204");
        assert_eq!(told.recv().await.unwrap(), parties[1].certificate);
        assert_eq!(endpoint.connections(), 3);
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_is_expected() {
    let authority = Authority::new();
    let party = Party::new(&authority, &authority);
    let url = "https://localhost/";
    party.files().check(url).unwrap();
    let check = |setting: &'static str, problem: &str| {
        let error = party.files().check(url).unwrap_err();
        assert_eq!((&error.file, &*error.problem), (&party.file(setting), problem));
    };
    let intact = fs::read(party.path("key")).unwrap();
    fs::write(party.path("key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    check("tls.key", "is another key than that of the first certificate in tls.certificate");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    fs::write(party.path("key"), locked).unwrap();
    check("tls.key", "holds no readable private key; expected one in PEM without a passphrase");
    fs::write(party.path("key"), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    check("tls.key", "holds an unknown key; expected RSA, P-256, P-384 or Ed25519");
    fs::write(party.path("key"), &intact).unwrap();
    let no_chain = "holds no readable certificate; expected the client certificate and its chain in PEM";
    for text in [&intact[..], b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
        fs::write(party.path("certificate"), text).unwrap();
        check("tls.certificate", no_chain);
    }
    fs::write(party.path("ca"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let error = party.files().check(url).unwrap_err();
    let unfit =
        "holds a certificate, number 1, that cannot be used; expected certificates of authorities in PEM";
    assert_eq!(&*error.problem, unfit);
    // On one line, as an environment variable may have left it: the parser quotes the whole of it.
    for secret in
        ["-----BEGIN PRIVATE KEY-----MIISECRET-----END PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----\nMIIS"]
    {
        fs::write(party.path("ca"), secret).unwrap();
        assert_eq!(&*party.files().check(url).unwrap_err().problem, unfit);
    }
    fs::write(party.path("ca"), "").unwrap();
    check("tls.ca", "holds no certificate; expected certificates of authorities in PEM");
    fs::write(party.path("ca"), vec![b'x'; (1 << 20) + 1]).unwrap();
    let unread = |why| format!("cannot be read ({why}); expected a PEM file that the sender may read");
    check("tls.ca", &unread("it is longer than 1 MiB"));
    fs::remove_file(party.path("ca")).unwrap();
    fs::create_dir(party.path("ca")).unwrap();
    check("tls.ca", &unread("it is no file"));
    let error = party.files().check("http://localhost/").unwrap_err();
    assert_eq!(&*error.problem, "has no effect on a URL that does not begin with https://");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sender_presents_the_certificate_that_its_subscriber_names_and_shows_its_paths_alone() {
    let authority = Authority::new();
    let (endpoint, mut told) = authority.endpoint("h2").await;
    let party = Party::new(&authority, &authority);
    let settings =
        ["ca", "certificate", "key"].map(|name| format!("tls.{name}={}", party.path(name).display()));
    let database = Database::with_sink(&endpoint.url(), &settings.each_ref().map(String::as_str));
    let serving = database.serve();
    serving.emit("first");
    assert_eq!(told.recv().await.unwrap(), party.certificate);

    let path = party.path("key");
    let shown = database.json(&["subscriber", "show", "sink", "--json"]);
    assert_eq!((shown["tls"]["key"].as_str(), shown["fault"].is_null()), (path.to_str(), true), "{shown}");
    let key = fs::read_to_string(&path).unwrap();
    fs::write(&path, "no key").unwrap();
    let problem = format!(
        "tls.key holds no readable private key; expected one in PEM without a passphrase: {}",
        path.display()
    );
    let shown = database.json(&["subscriber", "show", "sink", "--json"]);
    assert_eq!(
        (&shown["fault"], &serving.get("/v1/subscribers/sink").json()["fault"]),
        (&problem.as_str().into(), &problem.as_str().into())
    );
    // A change of something else is none of the files.
    database.json(&["subscriber", "set", "sink", "timeout=5s", "--json"]);
    let refused = serving.post(
        "/v1/subscribers",
        &serde_json::json!({
            "name": "other", "url": endpoint.url(), "tls": shown["tls"],
        })
        .to_string(),
    );
    let said = refused.json();
    assert_eq!(
        (refused.status, &said["error"]["code"], &said["error"]["field"]),
        (422, &"bad_tls_file".into(), &"tls.key".into()),
        "{said}"
    );
    let again = format!("tls.ca={}", party.path("certificate").display());
    let refused = database.command(&["subscriber", "set", "sink", &again]).output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(64) && complaint.contains(&problem), "{complaint}");
    fs::write(&path, &key).unwrap();
    let secret = key.lines().nth(1).unwrap();
    assert!(!serving.lines().iter().any(|line| line.contains(secret)));
    serving.stop_in_order();
}
