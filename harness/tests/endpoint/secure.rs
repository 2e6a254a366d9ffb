use std::sync::Arc;
use std::time::Duration as Length;

use hookproof::clock::Clock;
use hookproof::endpoint::{Endpoints, Identity, Reach, Spec, Stage, Tls};
use hookproof_judge::scenario::{Answer, Behaviour, Certificate, Duration, Range, Reply, RetryAfter, Size};
use hookproof_judge::signature::Profile;
use hookproof_judge::trace::{CutKind, Record, Stray, StrayKind};
use hookproof_judge::trace::{Recorder, Records};
use hookproof_play::traffic::Tokens;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::endpoint::stage::{BODY, Exchange, answer, behaviour, during, request};
use crate::endpoint::{any, cuts};

const PATIENCE: Length = Length::from_millis(600);

struct Place {
    endpoints: Endpoints,
    clock: Clock,
    records: Records,
    connector: TlsConnector,
}

impl Place {
    /// Opens these endpoints over TLS; those named `odd` show these behaviours.
    async fn open(names: &[&str], public: Option<&str>, behaviours: &[Behaviour]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::begun();
        let (recorder, records) = Recorder::new(10_000);
        let stage = Stage { clock: clock.clone(), recorder, tokens: Tokens::new(0), seed: 1, offered: None };
        let spec = |name: &&str| Spec {
            name: (*name).to_owned(),
            path: "/".to_owned(),
            behaviours: if *name == "odd" { behaviours.to_vec() } else { Vec::new() },
            answers: Range::just(Duration(0)),
            permission: None,
            scheme: Profile::STANDARD_WEBHOOKS.into(),
        };
        let public = public.map(|url| url.parse().unwrap());
        let reach = Reach { bind: None, public, tls: Tls::OfTheRun };
        let identity = Identity::of(&reach, names, folder.path(), &clock).unwrap().unwrap();
        let specs = names.iter().map(spec).collect();
        let endpoints = Endpoints::open_at(specs, &stage, &reach, Some(&identity)).await.unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(identity.trust()).unwrap()).unwrap();
        Self { endpoints, clock, records, connector: trusting(roots, &[]) }
    }

    async fn connect(&self, host: &str) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_by(&self.connector, host).await
    }

    async fn connect_by(&self, by: &TlsConnector, host: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.endpoints.addresses()[0]).await.unwrap();
        by.connect(ServerName::try_from(host.to_owned()).unwrap(), socket).await
    }

    async fn end(self) -> Vec<Record> {
        let records = self.end_with_all().await;
        records.into_iter().filter(|record| !matches!(record, Record::Handshake(_))).collect()
    }

    async fn end_with_all(self) -> Vec<Record> {
        self.endpoints.close().await;
        self.records.take()
    }

    async fn strays(self, count: usize) -> Vec<Stray> {
        let mut strays = Vec::new();
        while strays.len() < count {
            strays.extend(self.records.take().into_iter().filter_map(stray));
            tokio::task::yield_now().await;
        }
        strays.extend(self.end().await.into_iter().filter_map(stray));
        strays
    }
}

fn stray(record: Record) -> Option<Stray> {
    if let Record::Stray(stray) = record { Some(stray) } else { None }
}

fn trusting(roots: RootCertStore, speaks: &[&[u8]]) -> TlsConnector {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = speaks.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

async fn send(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> Exchange {
    if stream.write_all(request.as_bytes()).await.is_err() || stream.flush().await.is_err() {
        return Exchange::Reset;
    }
    tokio::time::timeout(PATIENCE, answer(stream)).await.unwrap_or(Exchange::Silence)
}

fn reply(status: u16) -> Reply {
    Reply { status, retry_after: None, body: Size(0), location: None }
}

#[tokio::test]
async fn every_answer_and_fault_is_the_same_over_tls() {
    let throttled = Reply { retry_after: Some(RetryAfter::Seconds(3)), body: Size(70_000), ..reply(429) };
    let half =
        Exchange::Closed("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of what was prom".to_owned());
    let rows = [
        (Answer::Reset, Exchange::Reset, Some((CutKind::Reset, false))),
        (Answer::ResetAfterRead, Exchange::Reset, Some((CutKind::ResetAfterRead, true))),
        (Answer::Close, Exchange::Closed(String::new()), Some((CutKind::Close, true))),
        (Answer::HalfAnswer, half, Some((CutKind::HalfAnswer, true))),
        (Answer::Blackhole, Exchange::Silence, Some((CutKind::Blackhole, true))),
    ];
    for (answer, expected, cut) in rows {
        let place = Place::open(&["odd"], None, &[behaviour(answer.clone())]).await;
        let mut stream = place.connect("127.0.0.1").await.unwrap();
        assert_eq!(send(&mut stream, &request()).await, expected, "{answer:?}");
        drop(stream);
        place.clock.pass(50_000_000).await;
        assert_eq!(cuts(&place.end().await), cut.into_iter().collect::<Vec<_>>(), "{answer:?}");
    }
    for (answer, status, length) in [
        (Answer::Status(throttled), 429, 70_000),
        (Answer::Drip { pace: Duration(1) }, 200, 0),
        (Answer::HugeAnswer { body: Size(3 << 20) }, 200, 3 << 20),
    ] {
        let place = Place::open(&["odd"], None, &[behaviour(answer)]).await;
        let mut stream = place.connect("127.0.0.1").await.unwrap();
        let Exchange::Answered(got, rest) = send(&mut stream, &request()).await else { panic!("{status}") };
        assert!(got == status && rest.len() > length, "{got}: {} bytes", rest.len());
        let records = place.end().await;
        let [Record::Arrival(arrival), Record::Answer(answer)] = &records[..] else { panic!("{records:?}") };
        assert!(
            arrival.t <= arrival.read && arrival.read <= answer.t && answer.t <= answer.end && answer.whole
        );
        assert_eq!((arrival.token, arrival.bytes), (Some(7), BODY.len() as u64));
    }
}

#[tokio::test]
async fn a_stalled_endpoint_agrees_on_tls_and_reads_nothing_more_until_it_is_over() {
    const STALL_NS: u64 = 300_000_000;
    for public in [None, Some("https://h.example/{endpoint}")] {
        let place = Place::open(&["odd"], public, &[during(Answer::Stall, 0, 300)]).await;
        let mut stream = place.connect(public.map_or("127.0.0.1", |_| "h.example")).await.unwrap();
        assert!(place.clock.now() < STALL_NS, "the handshake waited for the end of the stall");
        let request = request().replacen("POST /", "POST /odd", 1);
        assert_eq!(send(&mut stream, &request).await, Exchange::Answered(204, String::new()));
        drop(stream);
        let records = place.end().await;
        assert!(matches!(&records[0], Record::Arrival(one) if one.t >= STALL_NS), "{records:?}");
    }
}

#[tokio::test]
async fn requests_that_come_along_with_a_handshake_or_one_behind_another_are_all_read() {
    let place = Place::open(&["a"], None, &[]).await;
    let mut stream = place.connect("127.0.0.1").await.unwrap();
    stream.write_all(request().repeat(40).as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    for _ in 0..40 {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 204"));
    }
    drop(stream);
    assert_eq!(place.end().await.len(), 80);
}

async fn second(place: &Place, connector: &TlsConnector, host: &str, url: &str) -> u16 {
    let stream = place.connect_by(connector, host).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let (answer, mut body) = client.send_request(http::Request::post(url).body(()).unwrap(), false).unwrap();
    body.send_data(bytes::Bytes::from_static(BODY.as_bytes()), true).unwrap();
    answer.await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_client_with_a_choice_speaks_http_2() {
    let mut place = Place::open(&["a"], None, &[]).await;
    place.connector = speaking_second(&place);
    assert_eq!(second(&place, &place.connector, "127.0.0.1", "https://127.0.0.1/").await, 204);
    assert!(matches!(&place.end().await[0], Record::Arrival(one) if one.token == Some(7)));
}

fn speaking_second(place: &Place) -> TlsConnector {
    let mut config = ClientConfig::clone(place.connector.config());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config))
}

#[tokio::test]
async fn one_certificate_is_for_thousands_of_hosts() {
    let names: Vec<String> = (0..4_000).map(|n| format!("partner-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let place = Place::open(&names, Some("https://{endpoint}.hooks.example.org/"), &[]).await;
    let mut stream = place.connect("partner-3999.hooks.example.org").await.unwrap();
    let request = request().replacen("host: a", "host: partner-3999.hooks.example.org", 1);
    assert!(request.contains("partner-3999"), "{request}");
    assert!(matches!(send(&mut stream, &request).await, Exchange::Answered(204, _)));
    let other = place.connect("elsewhere.example.org").await;
    assert!(other.is_err(), "it is for no other hosts");
}

#[tokio::test]
async fn the_trace_records_the_times_of_connect_and_tls_handshake() {
    let place = Place::open(&["a"], None, &[]).await;
    let before = place.clock.now();
    let mut stream = place.connect("127.0.0.1").await.unwrap();
    for _ in 0..2 {
        send(&mut stream, &request()).await;
    }
    let records = place.end_with_all().await;
    let arrivals: Vec<_> = records
        .iter()
        .filter_map(|one| if let Record::Arrival(one) = one { Some(one) } else { None })
        .collect();
    let handshakes: Vec<_> = records
        .iter()
        .filter_map(|one| if let Record::Handshake(one) = one { Some(one) } else { None })
        .collect();
    let ([one], [first, second]) = (&handshakes[..], &arrivals[..]) else { panic!("{records:?}") };
    assert!(one.connection == first.connection && one.connection == second.connection, "{records:?}");
    assert!(before <= one.t && one.t < one.until && one.until <= first.t, "{records:?}");
}

#[tokio::test]
async fn handshakes_that_come_to_nothing_are_counted_with_their_reasons() {
    let place = Place::open(&["a"], None, &[]).await;
    drop(TcpStream::connect(place.endpoints.addresses()[0]).await.unwrap());
    let distrusting = trusting(RootCertStore::empty(), &[]);
    assert!(place.connect_by(&distrusting, "127.0.0.1").await.is_err());
    assert!(place.connect("elsewhere.example").await.is_err());
    let mut plain = TcpStream::connect(place.endpoints.addresses()[0]).await.unwrap();
    plain.write_all(request().as_bytes()).await.unwrap();
    let _ended = plain.read_to_end(&mut Vec::new()).await;
    let strays = place.strays(3).await;
    assert!(strays.iter().all(|stray| stray.kind == StrayKind::Handshake), "{strays:?}");
    let said: Vec<&str> = strays.iter().map(|stray| stray.said.as_str()).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said.iter().any(|said| said.contains("UnknownCA")), "{said:?}");
    assert!(said.iter().any(|said| said.contains("InvalidContentType")), "{said:?}");
}

fn to(target: &str, host: &str) -> String {
    request().replacen("POST /", &format!("POST {target}"), 1).replacen(
        "host: a",
        &format!("host: {host}"),
        1,
    )
}

fn arrivals(records: &[Record]) -> Vec<(&str, &str)> {
    let arrivals =
        records.iter().filter_map(|one| if let Record::Arrival(one) = one { Some(one) } else { None });
    arrivals.map(|one| (one.endpoint.as_str(), one.head.path.as_str())).collect()
}

#[tokio::test]
async fn endpoints_that_share_a_port_are_told_apart_and_who_names_none_is_counted() {
    let place =
        Place::open(&["a", "odd"], Some("https://h.example/in/{endpoint}"), &[behaviour(Answer::Refuse)])
            .await;
    assert_eq!(place.endpoints.url(1).as_deref(), Some("https://h.example/in/odd"));
    let mut stream = place.connect("h.example").await.unwrap();
    for (target, status) in [("/in/a", 204), ("/in/b", 404), ("/in/a/more", 204), ("/", 404)] {
        assert_eq!(send(&mut stream, &to(target, "h.example")).await.status(), Some(status), "{target}");
    }
    // A shared port cannot be closed for one endpoint.
    assert_eq!(send(&mut stream, &to("/in/odd", "h.example")).await, Exchange::Reset);
    let chosen = speaking_second(&place);
    assert_eq!(second(&place, &chosen, "h.example", "https://h.example/in/a").await, 204);
    assert_eq!(second(&place, &chosen, "h.example", "https://h.example/a").await, 404);
    let records = place.end().await;
    assert_eq!(arrivals(&records), [("a", "/in/a"), ("a", "/in/a/more"), ("a", "/in/a")]);
    assert_eq!(cuts(&records), [(CutKind::Reset, false)]);
    let strays: Vec<Stray> = records.into_iter().filter_map(stray).collect();
    let said: Vec<_> = strays.iter().map(|stray| (stray.kind, stray.token, stray.said.as_str())).collect();
    let named = |said| (StrayKind::Request, Some(7), said);
    let expected =
        [named("POST /in/b at h.example"), named("POST / at h.example"), named("POST /a at h.example")];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn hosts_tell_endpoints_apart_as_well() {
    let place = Place::open(&["a", "b"], Some("https://{endpoint}.h.example/"), &[]).await;
    let mut stream = place.connect("b.h.example").await.unwrap();
    for (host, status) in
        [("b.h.example:8443", 204), ("A.H.example", 204), ("c.h.example", 404), ("h.example", 404)]
    {
        assert_eq!(send(&mut stream, &to("/", host)).await.status(), Some(status), "{host}");
    }
    // A request that ends before its host is known counts too.
    stream.write_all(b"POST / HTTP/1.1\r\nho").await.unwrap();
    stream.shutdown().await.unwrap();
    let _ended = stream.read_to_end(&mut Vec::new()).await;
    let records = place.end().await;
    assert_eq!(arrivals(&records), [("b", "/"), ("a", "/")]);
    assert_eq!(records.into_iter().filter_map(stray).count(), 3);
}

#[tokio::test]
async fn a_wrong_certificate_is_shown_in_its_time_and_each_handshake_is_recorded() {
    for certificate in Certificate::ALL {
        let wrong = during(Answer::WrongCertificate(certificate), 0, 300);
        let place = Place::open(&["odd"], None, &[wrong]).await;
        let Err(error) = place.connect("127.0.0.1").await else { panic!("{certificate:?} is taken") };
        let expected = match certificate {
            Certificate::Expired => "Expired",
            Certificate::OtherName => "NotValidForName",
            Certificate::UnknownAuthority => "UnknownIssuer",
            Certificate::SelfSigned => "UnknownIssuer",
        };
        assert!(error.to_string().contains(expected) || format!("{error:?}").contains(expected), "{error:?}");
        let mut taken = place.connect_by(&any::connector(), "127.0.0.1").await.unwrap();
        assert_eq!(send(&mut taken, &request()).await, Exchange::Answered(204, String::new()));
        place.clock.until(300_000_000).await;
        // A connection from before the change ends, and new ones show the right certificate.
        assert_eq!(taken.read(&mut [0]).await.unwrap_or(0), 0);
        let mut right = place.connect("127.0.0.1").await.unwrap();
        assert_eq!(send(&mut right, &request()).await, Exchange::Answered(204, String::new()));
        drop(right);
        let records = place.end().await;
        let shown = |record: &Record| match record {
            Record::Certificate(shown) => {
                Some((shown.certificate, shown.refused.is_some(), shown.connection))
            }
            _ => None,
        };
        let shown: Vec<_> = records.iter().filter_map(shown).collect();
        let [(first, true, _), (second, false, connection)] = shown[..] else { panic!("{shown:?}") };
        assert_eq!([first, second], [certificate; 2]);
        let arrivals: Vec<u64> = records
            .iter()
            .filter_map(|one| if let Record::Arrival(one) = one { Some(one.connection) } else { None })
            .collect();
        assert!(
            arrivals.len() == 2 && arrivals[0] == connection && arrivals[1] != connection,
            "{arrivals:?}"
        );
        assert!(!records.iter().any(|one| matches!(one, Record::Stray(_))), "{records:?}");
    }
}
