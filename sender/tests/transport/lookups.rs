//! Names, and the addresses behind them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use hookproof_sender::guard::Guard;
use hookproof_sender::transport::{Resolve, Settings, Transport};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::rig::{SHORT, brief, check, lenient, post, transport};

const OK: &str = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

/// Gives each lookup its own answer; the last one for all that follow.
struct Scripted {
    answers: Vec<Vec<[u8; 4]>>,
    asked: AtomicUsize,
}

impl Resolve for Scripted {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(name, "partner.example");
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = &self.answers[asked.min(self.answers.len() - 1)];
        Ok(answer.iter().map(|octets| IpAddr::V4(Ipv4Addr::from(*octets))).collect())
    }
}

fn scripted(answers: &[&[[u8; 4]]], guard: Guard) -> (Transport, Arc<Scripted>) {
    let answers = answers.iter().map(|answer| answer.to_vec()).collect();
    let resolver = Arc::new(Scripted { answers, asked: AtomicUsize::new(0) });
    let settings = Settings { resolver: Arc::clone(&resolver) as _, ..Settings::default() };
    (Transport::new(settings, guard).unwrap(), resolver)
}

/// Lets the first address of this machine through and no other.
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
    // The name has moved to where it may not lead; the next connection notices.
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
        connection.say(OK).await;
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

/// Does not answer before its other end is dropped.
struct Hanging {
    until: Mutex<mpsc::Receiver<()>>,
    asked: AtomicUsize,
}

impl Resolve for Hanging {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let _ = self.until.lock().unwrap().recv();
        Ok(Vec::new())
    }
}

#[tokio::test]
async fn a_name_server_that_hangs_holds_one_thread_of_a_lane_and_no_other_lane() {
    let endpoint = Endpoint::answering(OK).await;
    let (release, until) = mpsc::channel();
    let resolver = Arc::new(Hanging { until: Mutex::new(until), asked: AtomicUsize::new(0) });
    let settings = Settings { resolver: Arc::clone(&resolver) as _, ..Settings::default() };
    let transport = Arc::new(Transport::new(settings, lenient()).unwrap());
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
    drop(release);
}

struct Panicking;

impl Resolve for Panicking {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        panic!("a resolver may do anything")
    }
}

#[tokio::test]
async fn a_resolver_that_panics_costs_the_attempt_and_no_more() {
    let settings = Settings { resolver: Arc::new(Panicking), ..Settings::default() };
    let transport = Transport::new(settings, lenient()).unwrap();
    for _ in 0..2 {
        check(&post("http://partner.example").through(&transport).await, "unsent unresolved");
    }
}

#[tokio::test]
async fn the_systems_own_resolver_knows_this_machine() {
    let endpoint = Endpoint::answering(OK).await;
    let url = format!("http://localhost:{}", endpoint.address.port());
    check(&post(url).through(&transport()).await, "answered 204");
}
