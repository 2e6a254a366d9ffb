use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hookproof_sender::engine::{Outcome, StoreTime};
use hookproof_sender::guard::Guard;
use hookproof_sender::transport::{DnsResolver, EgressProxy, Settings, Transport};
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::binary::{Database, SERVE, Serving, endpoint};
use crate::transport::endpoint::{Connection, Endpoint};
use crate::transport::name_server::{NameServer, Says};
use crate::transport::rig::{SHORT, check, lenient, post};
use crate::transport::secure::Secure;

const PASSWORD: &str = "s3cr@t";
/// Of `me` and the password.
const BASIC: &str = "Basic bWU6czNjckB0";

/// A proxy that demands credentials. Notes the target of each tunnel.
struct Proxy {
    endpoint: Endpoint,
    targets: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn on(listener: TcpListener, accepts: Arc<AtomicBool>) -> Self {
        let targets = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&targets);
        let endpoint = Endpoint::on(listener, move |connection| {
            tunnel(connection, Arc::clone(&seen), accepts.load(Ordering::SeqCst))
        });
        Self { endpoint, targets }
    }

    fn tunnels_to(&self, target: &str) -> usize {
        self.targets.lock().unwrap().iter().filter(|seen| *seen == target).count()
    }
}

async fn tunnel(mut connection: Connection, targets: Arc<Mutex<Vec<String>>>, accepts: bool) {
    let Some(head) = connection.request().await else { return };
    let head = String::from_utf8(head).unwrap();
    let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
    assert!(head.contains(&format!("\r\nhost: {target}\r\n")), "{head}");
    if !accepts || !head.contains(&format!("\r\nproxy-authorization: {BASIC}\r\n")) {
        let demand = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n";
        return connection.write(demand).await;
    }
    let Ok(mut onward) = TcpStream::connect(&target).await else {
        return connection.write("HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
    };
    targets.lock().unwrap().push(target);
    connection.write("HTTP/1.1 200 Connection established\r\n\r\n").await;
    let _ = copy_bidirectional(&mut connection.socket, &mut onward).await;
    let _ = onward.shutdown().await;
}

fn serve_by(proxy: &str, database: &Database, options: &[&str]) -> Serving {
    let mut command = database.command(&[&SERVE, options].concat());
    command.env("HOOKPROOF_EGRESS_PROXY", proxy);
    Serving::start(command)
}

fn address(proxy: impl std::fmt::Display) -> String {
    format!("http://me:{}@{proxy}", PASSWORD.replace('@', "%40"))
}

#[track_caller]
fn check_no_password(serving: &Serving) {
    let shown = ["/v1/status", "/readyz", "/metrics", "/v1/subscribers"].map(|path| serving.get(path).text());
    for text in shown.into_iter().chain(serving.lines()) {
        assert!(!text.contains("s3cr") && !text.contains(&BASIC[6..]), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_https_leave_through_the_proxy_to_addresses_and_keep_their_tunnels() {
    const EVENTS: usize = 8;
    let accepts = Arc::new(AtomicBool::new(true));
    let proxy = Proxy::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), accepts);
    let names = NameServer::start(|_| Says::Address([127, 0, 0, 1].into(), 60)).await;
    let (secure, _) = Secure::counting().await;
    let plain = endpoint::Endpoint::taking();
    let database = Database::new();
    let one = ["limit.in_flight=1"];
    database.subscribe("plain", &plain.url.replace("127.0.0.1", "plain.example"), &one);
    database.subscribe("secure", &secure.url(), &one);
    let roots = database.folder.path().join("roots.pem");
    std::fs::write(&roots, &secure.pem).unwrap();
    let (roots, names) = (roots.to_str().unwrap(), names.address.to_string());
    let options = ["--extra-roots", roots, "--resolver", &names];
    let serving = serve_by(&address(proxy.endpoint.address), &database, &options);
    let events: Vec<_> = (0..EVENTS).map(|number| serving.emit(&number.to_string())).collect();
    plain.wait_for_events(&events);
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 2 * EVENTS);
    let target = plain.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    for target in [target, &secure.address.to_string()] {
        // A stall of 4 s would end one.
        let tunnels = proxy.tunnels_to(target);
        assert!((1..EVENTS).contains(&tunnels), "{tunnels} to {target}");
    }
    assert_eq!(secure.connections(), proxy.tunnels_to(&secure.address.to_string()), "none beside the proxy");
    check_no_password(&serving);
}

fn wait_for_attempt(database: &Database, error: &str) {
    let sql = database.sql();
    let mut found = sql.prepare("SELECT 1 FROM attempts WHERE outcome = 2 AND error LIKE ?1 || '%'").unwrap();
    while !found.exists([error]).unwrap() {
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_fails_opens_no_breaker_and_deliveries_go_on_once_it_works() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let place = socket.local_addr().unwrap();
    let sink = endpoint::Endpoint::taking();
    let settings =
        ["breaker.failures=1", "breaker.failures_when_slow=1", "retry.base=1ms", "retry.attempts=1000"];
    let database = Database::with_sink(&sink.url, &settings);
    let serving = serve_by(&address(place), &database, &[]);
    let event = serving.emit("first");
    // Nobody listens yet.
    wait_for_attempt(&database, &format!("cannot use the egress proxy: cannot connect to {place}: "));
    serving.wait_for_line("their endpoints are not at fault");
    let ready = serving.get("/readyz");
    assert!(ready.status == 503 && ready.text().contains("cannot use the egress proxy"), "{ready:?}");
    let accepts = Arc::<AtomicBool>::default();
    let proxy = Proxy::on(socket.listen(64).unwrap(), Arc::clone(&accepts));
    wait_for_attempt(&database, "proxy refused: 407 to CONNECT 127.0.0.1:");
    assert_eq!((sink.count(), proxy.targets.lock().unwrap().len()), (0, 0));
    accepts.store(true, Ordering::SeqCst);
    sink.wait_for_events(&[event]);
    serving.until("/v1/status", |status| status["unready"].as_array().unwrap().is_empty());
    assert!(!serving.lines().iter().any(|line| line.contains("circuit breaker")), "{:?}", serving.lines());
    let printed = database.command(&["attempts", "--failed"]).output().unwrap();
    assert!(String::from_utf8_lossy(&printed.stdout).contains("proxy refused: 407"), "{printed:?}");
    check_no_password(&serving);
}

/// The other address gets no try meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the proxy takes its time")]
async fn a_slow_proxy_is_found_to_work_again_by_an_endpoint_of_two_addresses() {
    let is_broken = AtomicBool::new(true);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Endpoint::on(listener, move |connection: Connection| {
        let is_broken = is_broken.swap(false, Ordering::SeqCst);
        async move {
            if !is_broken {
                // Longer than the sender waits before it tries the other address.
                tokio::time::sleep(Duration::from_millis(600)).await;
                tunnel(connection, Arc::default(), true).await;
            }
        }
    });
    let sink = endpoint::Endpoint::taking();
    let url = sink.url.replace("127.0.0.1", "localhost");
    let database = Database::with_sink(&url, &["retry.base=1ms", "retry.attempts=1000"]);
    let serving = serve_by(&address(proxy.address), &database, &[]);
    let event = serving.emit("first");
    wait_for_attempt(&database, "cannot use the egress proxy: ");
    sink.wait_for_events(&[event]);
}

fn through(proxy: &Endpoint, settings: Settings, guard: Guard) -> Transport {
    let proxy = EgressProxy::parse(&proxy.url()).unwrap();
    Transport::new(Settings { proxy: Some(Arc::new(proxy)), ..settings }, guard)
}

#[tokio::test]
async fn an_answer_of_the_proxy_tells_its_own_fault_from_the_endpoints() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(9_000));
    let rows: [(&str, &str, Outcome); 7] = [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "unsent proxy_refused", Outcome::ProxyFailed),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "unsent proxy_refused", Outcome::Unsent),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", "unsent proxy_refused", Outcome::Unsent),
        ("SSH-2.0-OpenSSH\r\n\r\n", "unsent proxy", Outcome::ProxyFailed),
        ("HTTP/1.1 200 OK\r\n", "unsent proxy", Outcome::ProxyFailed),
        ("", "unsent proxy", Outcome::ProxyFailed),
        (&long, "unsent proxy", Outcome::ProxyFailed),
    ];
    for (answer, expected, outcome) in rows {
        let text: &'static str = answer.to_owned().leak();
        let proxy = Endpoint::start(move |mut connection| async move {
            connection.request().await;
            connection.write(text).await;
        })
        .await;
        let made = post("http://127.0.0.1:9").through(&through(&proxy, Settings::default(), lenient())).await;
        check(&made, expected);
        assert_eq!(made.outcome(StoreTime(0)), outcome, "{answer}");
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_counts_as_an_endpoint_that_takes_no_connection() {
    let proxy = Endpoint::start(|mut connection| async move { drop(connection.end().await) }).await;
    let transport = through(&proxy, Settings::default(), lenient());
    let made = post("http://127.0.0.1:9").connect_deadline(SHORT).through(&transport).await;
    check(&made, "unsent proxy_deadline");
    assert_eq!(made.outcome(StoreTime(0)), Outcome::Unsent);
}

#[tokio::test]
async fn bytes_after_the_proxys_answer_belong_to_the_endpoint() {
    let proxy = Endpoint::start(|mut connection| async move {
        connection.request().await;
        connection.write("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n").await;
        connection.request().await;
    })
    .await;
    let transport = through(&proxy, Settings::default(), lenient());
    check(&post("http://127.0.0.1:9").through(&transport).await, "answered 204");
}

#[tokio::test]
async fn the_guard_judges_the_address_before_the_proxy_hears_of_it() {
    let names = NameServer::start(|_| Says::Address([10, 0, 0, 1].into(), 60)).await;
    let proxy = Endpoint::answering("HTTP/1.1 200 OK\r\n\r\n").await;
    let settings = Settings { resolver: Arc::new(DnsResolver::asking(names.address)), ..Settings::default() };
    let transport = through(&proxy, settings, Guard::strict());
    check(&post("http://inside.example").through(&transport).await, "unsent address_refused");
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn direct_networks_are_reached_beside_the_proxy() {
    let proxy = Endpoint::answering("HTTP/1.1 502 Bad Gateway\r\n\r\n").await;
    let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let direct = EgressProxy::parse(&proxy.url()).unwrap().except(vec!["127.0.0.0/8".parse().unwrap()]);
    let transport =
        Transport::new(Settings { proxy: Some(Arc::new(direct)), ..Settings::default() }, lenient());
    check(&post(endpoint.url()).through(&transport).await, "answered 204");
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn an_unusable_address_of_the_proxy_is_refused_without_its_password() {
    let wrong = address("proxy.example").replace("http:", "https:");
    let refused = Database::new().command(&["serve", "--egress-proxy", &wrong]).output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{complaint}");
    assert!(complaint.contains("its scheme is not http") && !complaint.contains("s3cr"), "{complaint}");
}
