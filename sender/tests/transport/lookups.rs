use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hookproof_sender::guard::Guard;
use hookproof_sender::transport::{Addresses, DnsResolver, Resolve, Resolving, Settings, Transport};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::transport::endpoint::Endpoint;
use crate::transport::name_server::{NameServer, Says};
use crate::transport::rig::{LONG, SHORT, brief, check, lenient, post, transport};

const OK: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

/// The last one repeats.
struct Scripted {
    answers: Vec<Vec<[u8; 4]>>,
    asked: AtomicUsize,
}

impl Resolve for Scripted {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        assert_eq!(name, "partner.example");
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = &self.answers[asked.min(self.answers.len() - 1)];
        let all = answer.iter().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets))).collect();
        // Valid for no time, so each connection asks again.
        Box::pin(async move { Ok(Addresses { all, valid_for: Duration::ZERO }) })
    }
}

fn scripted(answers: &[&[[u8; 4]]], guard: Guard) -> (Transport, Arc<Scripted>) {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    let resolver = Arc::new(Scripted { answers, asked: AtomicUsize::new(0) });
    let settings = Settings { resolver: Arc::clone(&resolver) as _, ..Settings::default() };
    (Transport::new(settings, guard), resolver)
}

fn first_only() -> Guard {
    Guard::strict().allow_network("127.0.0.1/32".parse().unwrap())
}

#[tokio::test]
async fn a_name_that_leads_into_our_own_network_is_refused() {
    let endpoint = Endpoint::answering(OK).await;
    let (transport, resolver) = scripted(&[&[[127, 0, 0, 1]]], Guard::strict());
    let url = format!("http://partner.example:{}", endpoint.address.port());
    check(&post(&url).through(&transport).await, "unsent address_refused");
    assert_eq!((endpoint.connections(), resolver.asked.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_name_is_asked_for_once_and_what_was_judged_is_what_is_connected_to() {
    let endpoint = Endpoint::answering(OK).await;
    let (transport, resolver) = scripted(&[&[[127, 0, 0, 1]], &[[127, 0, 0, 2]]], first_only());
    let url = format!("http://partner.example:{}", endpoint.address.port());
    check(&post(&url).through(&transport).await, "answered 204");
    assert_eq!((endpoint.connections(), resolver.asked.load(Ordering::SeqCst)), (1, 1));
    // The next connection must notice the forbidden address.
    check(&post(&url).through(&transport).await, "unsent address_refused");
    assert_eq!((endpoint.connections(), resolver.asked.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn of_several_addresses_only_those_that_may_be_are_connected_to() {
    let allowed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = allowed.local_addr().unwrap().port();
    let forbidden = Endpoint::on(TcpListener::bind(("127.0.0.2", port)).await.unwrap(), |_| async {});
    let url = format!("http://partner.example:{port}");
    let (transport, _) = scripted(&[&[[127, 0, 0, 2], [127, 0, 0, 1], [127, 0, 0, 2]]], first_only());
    let endpoint = Endpoint::on(allowed, |mut connection| async move {
        connection.request().await.unwrap();
        connection.write(OK).await;
    });
    check(&post(&url).through(&transport).await, "answered 204");
    assert_eq!((endpoint.connections(), forbidden.connections()), (1, 0));
}

#[tokio::test]
async fn an_address_that_fails_is_followed_by_the_next() {
    let endpoint = Endpoint::answering(OK).await;
    let url = format!("http://partner.example:{}", endpoint.address.port());
    let (transport, _) = scripted(&[&[[127, 0, 0, 2], [127, 0, 0, 3], [127, 0, 0, 1]]], lenient());
    check(&post(&url).through(&transport).await, "answered 204");
    let (transport, _) = scripted(&[&[[127, 0, 0, 2], [127, 0, 0, 3]]], lenient());
    check(&post(&url).through(&transport).await, "unsent connect");
    let (transport, _) = scripted(&[&[]], lenient());
    check(&post(&url).through(&transport).await, "unsent unresolved");
}

#[derive(Default)]
struct Hanging {
    asked: AtomicUsize,
}

impl Resolve for Hanging {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_name_server_that_hangs_holds_one_look_up_of_a_lane_and_no_other_lane() {
    let endpoint = Endpoint::answering(OK).await;
    let resolver = Arc::new(Hanging::default());
    let settings = Settings { resolver: Arc::clone(&resolver) as _, ..Settings::default() };
    let transport = Arc::new(Transport::new(settings, lenient()));
    let mut attempts = JoinSet::new();
    for _ in 0..8 {
        let post = post("http://partner.example").connect_deadline(SHORT);
        let transport = Arc::clone(&transport);
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    }
    check(&post(endpoint.url()).lane(2).through(&transport).await, "answered 204");
    assert_eq!(attempts.join_all().await, ["unsent connect_deadline"; 8]);
    let late = post("http://partner.example").connect_deadline(SHORT);
    check(&late.through(&transport).await, "unsent connect_deadline");
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
}

struct Panicking;

impl Resolve for Panicking {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        panic!("a resolver may do anything")
    }
}

#[tokio::test]
async fn a_resolver_that_panics_costs_the_attempt_and_no_more() {
    let settings = Settings { resolver: Arc::new(Panicking), ..Settings::default() };
    let transport = Transport::new(settings, lenient());
    for _ in 0..2 {
        check(&post("http://partner.example").through(&transport).await, "unsent unresolved");
    }
}

struct Failing(AtomicUsize);

impl Resolve for Failing {
    fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(io::Error::other("nobody knows")) })
    }
}

#[tokio::test]
async fn a_failure_is_remembered_for_a_moment() {
    let resolver = Arc::new(Failing(AtomicUsize::new(0)));
    let settings = Settings { resolver: Arc::clone(&resolver) as _, ..Settings::default() };
    let transport = Transport::new(settings, lenient());
    for _ in 0..3 {
        let result = post("http://partner.example").through(&transport).await;
        check(&result, "unsent unresolved");
        assert!(result.failure().unwrap().to_string().ends_with("nobody knows"));
    }
    assert_eq!(resolver.0.load(Ordering::SeqCst), 1);
    check(&post("http://partner.example").lane(2).through(&transport).await, "unsent unresolved");
    assert_eq!(resolver.0.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn this_machines_own_name_needs_no_name_server() {
    let endpoint = Endpoint::answering(OK).await;
    let settings = Settings { resolver: Arc::new(Panicking), ..Settings::default() };
    let without = Transport::new(settings, lenient());
    let url = format!("http://localhost:{}", endpoint.address.port());
    check(&post(&url).through(&without).await, "answered 204");
    check(&post(&url).through(&transport()).await, "answered 204");
}

fn asking(server: &NameServer) -> Transport {
    let resolver = Arc::new(DnsResolver::asking(server.address));
    Transport::new(Settings { resolver, ..Settings::default() }, lenient())
}

#[tokio::test]
async fn an_answer_counts_for_as_long_as_it_says() {
    let endpoint = Endpoint::answering(OK).await;
    for (seconds, questions) in [(60, 1), (0, 3)] {
        let server = NameServer::start(move |_| Says::Address(Ipv4Addr::LOCALHOST, seconds)).await;
        let transport = asking(&server);
        for _ in 0..3 {
            let url = format!("http://partner.example:{}", endpoint.address.port());
            check(&post(url).through(&transport).await, "answered 204");
        }
        assert_eq!(server.queries(), questions, "{seconds} s");
    }
}

#[tokio::test]
async fn the_guard_checks_answers_of_the_name_server() {
    let endpoint = Endpoint::answering(OK).await;
    let server = NameServer::start(|_| Says::Address(Ipv4Addr::LOCALHOST, 60)).await;
    let resolver = Arc::new(DnsResolver::asking(server.address));
    let strict = Transport::new(Settings { resolver, ..Settings::default() }, Guard::strict());
    let url = format!("http://partner.example:{}", endpoint.address.port());
    check(&post(url).through(&strict).await, "unsent address_refused");
    assert_eq!(endpoint.connections(), 0);
}

#[tokio::test]
async fn a_name_that_a_name_server_does_not_know_is_unresolved() {
    let server = NameServer::start(|_| Says::NoSuchName).await;
    check(&post("http://partner.example").through(&asking(&server)).await, "unsent unresolved");
}

#[tokio::test]
async fn hundreds_of_lanes_whose_names_hang_hold_up_neither_a_name_that_is_known_nor_a_new_one() {
    const HANGING: u64 = 620;
    let endpoint = Endpoint::answering(OK).await;
    let mut server = NameServer::start(|name| match name {
        "healthy.example" | "new.example" => Says::Address(Ipv4Addr::LOCALHOST, 0),
        _ => Says::Nothing,
    })
    .await;
    let transport = Arc::new(asking(&server));
    let healthy = |name: &str, lane| {
        post(format!("http://{name}.example:{}", endpoint.address.port())).lane(lane).connect_deadline(LONG)
    };
    check(&healthy("healthy", 1).through(&transport).await, "answered 204");
    let mut hanging = JoinSet::new();
    for lane in 0..HANGING {
        let (transport, post) =
            (Arc::clone(&transport), post(format!("http://hangs-{lane}.example")).lane(1_000 + lane));
        hanging.spawn(async move { brief(&post.through(&transport).await) });
    }
    server.hangs_for(1).await;
    check(&healthy("healthy", 1).through(&transport).await, "answered 204");
    // It queues behind other new names until those prove to be slow.
    check(&healthy("new", 2).through(&transport).await, "answered 204");
    check(&healthy("healthy", 1).through(&transport).await, "answered 204");
    // Lookups that never started are not the endpoints' fault.
    let made = hanging.join_all().await;
    assert!(made.iter().any(|made| made == "unsent unresolved"), "{made:?}");
    assert!(made.iter().all(|made| made == "unsent unresolved" || made == "unsent no_lookup"), "{made:?}");
}
