use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hookproof_sender::engine::LaneId;
use hookproof_sender::store::command::Details;
use hookproof_sender::transport::{Addresses, AttemptResult, Resolve, Resolving, Settings, Transport};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::transport::endpoint::{Connection, Endpoint};
use crate::transport::rig::{
    LONG, SHORT, brief, check, lenient, permit, poll_once, post, transport, withdrawn,
};
use crate::transport::unsent::black_hole_at;

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

async fn holding() -> (Endpoint, mpsc::UnboundedReceiver<Connection>) {
    let (give, given) = mpsc::unbounded_channel();
    let endpoint = Endpoint::start(move |mut connection| {
        let give = give.clone();
        async move {
            connection.request().await.unwrap();
            give.send(connection).unwrap();
        }
    })
    .await;
    (endpoint, given)
}

#[tokio::test]
async fn an_attempt_under_way_takes_less_than_a_kibibyte() {
    let (transport, post) = (transport(), post("http://127.0.0.1:9"));
    let request = post.request(permit(LONG));
    let taken = size_of_val(&transport.attempt(&request, &mut Details::default()));
    assert!(taken < 1_024, "{taken}");
}

#[tokio::test]
async fn attempts_beyond_the_bound_wait_for_a_connection_of_their_lane() {
    let (endpoint, mut held) = holding().await;
    let transport = Arc::new(transport());
    let mut attempts = JoinSet::new();
    for _ in 0..6 {
        let (transport, post) = (Arc::clone(&transport), post(endpoint.url()).connections_max(2));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    }
    let mut serving = vec![held.recv().await.unwrap(), held.recv().await.unwrap()];
    // Every answer lets another request through, on an existing connection.
    for answered in 1..=6 {
        let mut connection = serving.remove(0);
        assert!(transport.connections(LaneId(1)) <= 2);
        connection.write(OK).await;
        assert_eq!(attempts.join_next().await.unwrap().unwrap(), "answered 204");
        if answered <= 4 {
            connection.request().await.unwrap();
            serving.push(connection);
        }
    }
    assert_eq!((endpoint.connections(), endpoint.requests()), (2, 6));
}

#[tokio::test]
async fn at_the_bound_an_attempt_is_unsent_at_its_deadline_and_other_lanes_go_on() {
    let (hung, mut held) = holding().await;
    let quick = Endpoint::answering(OK).await;
    let transport = Arc::new(transport());
    let (mut hanging, mut connections) = (JoinSet::new(), Vec::new());
    for _ in 0..3 {
        let (transport, post) = (Arc::clone(&transport), post(hung.url()).connections_max(3));
        hanging.spawn(async move { brief(&post.through(&transport).await) });
        connections.push(held.recv().await.unwrap());
    }
    let made = post(hung.url()).connections_max(3).deadline(SHORT).through(&transport).await;
    check(&made, "unsent connections_full");
    for _ in 0..10 {
        check(&post(quick.url()).lane(2).connections_max(1).through(&transport).await, "answered 204");
    }
    assert_eq!(hung.connections(), 3);
}

#[tokio::test]
async fn a_connection_that_fails_makes_room_for_another() {
    let endpoint = Endpoint::start(|mut connection| async move {
        connection.request().await.unwrap();
    })
    .await;
    let transport = Arc::new(transport());
    let mut attempts = JoinSet::new();
    for _ in 0..8 {
        let (transport, post) = (Arc::clone(&transport), post(endpoint.url()).connections_max(1));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
    }
    assert_eq!(attempts.join_all().await, ["silent closed"; 8]);
    assert_eq!(transport.connections(LaneId(1)), 0);
    assert_eq!(endpoint.requests(), 8);
}

#[tokio::test]
async fn a_bound_that_is_lowered_closes_what_is_too_many() {
    let (endpoint, mut held) = holding().await;
    let transport = Arc::new(transport());
    let mut attempts = JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..4 {
        let (transport, post) = (Arc::clone(&transport), post(endpoint.url()).connections_max(4));
        attempts.spawn(async move { brief(&post.through(&transport).await) });
        connections.push(held.recv().await.unwrap());
    }
    for connection in &mut connections {
        connection.write(OK).await;
    }
    assert_eq!(attempts.join_all().await, ["answered 204"; 4]);
    assert_eq!(transport.connections(LaneId(1)), 4);
    let serve = async {
        let mut kept = connections.pop().unwrap();
        // Over either connection: the others are closed by then.
        for mut connection in connections {
            assert!(connection.request().await.is_none());
        }
        kept.request().await.unwrap();
        kept.write(OK).await;
        kept
    };
    let next = post(endpoint.url()).connections_max(1);
    let (made, _kept) = tokio::join!(next.through(&transport), serve);
    check(&made, "answered 204");
    assert_eq!(transport.connections(LaneId(1)), 1);
}

fn few_sockets(max: u32) -> Transport {
    let connections_max = NonZeroU32::new(max);
    Transport::new(Settings { connections_max, ..Settings::default() }, lenient())
}

#[tokio::test]
async fn idle_connections_of_other_lanes_make_room_for_a_new_one() {
    let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let transport = few_sockets(2);
    for lane in 1..=6 {
        check(&post(endpoint.url()).lane(lane).through(&transport).await, "answered 204");
        let open: u32 = (1..=6).map(|lane| transport.connections(LaneId(lane))).sum();
        assert!(open <= 2, "{open}");
    }
    assert_eq!(transport.connections(LaneId(1)), 0, "idle for longest");
}

#[tokio::test]
async fn an_attempt_without_a_free_socket_waits_and_is_our_failure() {
    let (answer, wanted) = tokio::sync::watch::channel(false);
    let slow = Endpoint::start(move |mut connection| {
        let mut wanted = wanted.clone();
        async move {
            while connection.request().await.is_some() {
                wanted.wait_for(|wanted| *wanted).await.unwrap();
                connection.write("HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        }
    })
    .await;
    let transport = few_sockets(1);
    let holder = post(slow.url()).lane(1);
    let holds_it = holder.through(&transport);
    let waits = async {
        let made = post(slow.url()).lane(2).connect_deadline(SHORT).through(&transport).await;
        check(&made, "unsent no_socket");
        assert_eq!(transport.connections(LaneId(2)), 0);
        answer.send(true).unwrap();
        // This lane waits, so the other lane's connection closes.
        check(&post(slow.url()).lane(3).through(&transport).await, "answered 204");
    };
    let (made, ()) = tokio::join!(holds_it, waits);
    check(&made, "answered 204");
}

async fn holds_the_only_socket(transport: &Transport, during: impl AsyncFnOnce()) -> Endpoint {
    let (answer, wanted) = tokio::sync::watch::channel(false);
    let endpoint = Endpoint::start(move |mut connection| {
        let mut wanted = wanted.clone();
        async move {
            while connection.request().await.is_some() {
                wanted.wait_for(|wanted| *wanted).await.unwrap();
                connection.write("HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        }
    })
    .await;
    let holder = post(endpoint.url()).lane(1);
    let (made, ()) = tokio::join!(holder.through(transport), async {
        during().await;
        answer.send(true).unwrap();
    });
    check(&made, "answered 204");
    endpoint
}

#[tokio::test]
async fn an_attempt_that_waits_for_a_socket_is_not_sent_after_its_lane_withdraws() {
    let transport = few_sockets(1);
    let other = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    holds_the_only_socket(&transport, async || {
        let permit = permit(LONG);
        let waits = post(other.url()).lane(2);
        let waits = waits.with_permit(&transport, permit.clone());
        let mut waits = std::pin::pin!(waits);
        assert!(poll_once(&mut waits).await.is_pending());
        permit.cancelled.cancel();
        check(&waits.await, "unsent withdrawn");
    })
    .await;
    assert_eq!(other.requests(), 0);
}

#[tokio::test]
async fn nothing_is_written_after_the_deadline_or_without_consent_over_a_connection_of_either_kind() {
    let endpoint = Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let transport = transport();
    let post = post(endpoint.url());
    check(&post.with_permit(&transport, withdrawn()).await, "unsent withdrawn");
    check(&post.with_permit(&transport, permit(LONG)).await, "answered 204");
    // The connection is kept from here on.
    check(&post.with_permit(&transport, withdrawn()).await, "unsent withdrawn");
    let made = post.with_permit(&transport, permit(Duration::ZERO)).await;
    assert!(matches!(made, AttemptResult::Unsent(_)), "{made:?}");
    assert_eq!(endpoint.requests(), 1);
}

struct Always(Vec<IpAddr>);

impl Resolve for Always {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(Addresses { all: self.0.clone(), valid_for: LONG }) })
    }
}

#[tokio::test]
async fn an_endpoint_of_many_addresses_takes_no_more_sockets_than_its_lane_may_have() {
    let mut holes = vec![black_hole_at(SocketAddr::from(([127, 0, 0, 2], 0))).await];
    let port = holes[0].0.local_addr().unwrap().port();
    for last in 3..=9 {
        holes.push(black_hole_at(SocketAddr::from(([127, 0, 0, last], port))).await);
    }
    let addresses = holes.iter().map(|(hole, _)| hole.local_addr().unwrap().ip()).collect();
    let (resolver, connections_max) = (Arc::new(Always(addresses)), NonZeroU32::new(3));
    let settings = Settings { resolver, connections_max, ..Settings::default() };
    let transport = Transport::new(settings, lenient());
    let many = post(format!("http://many.example:{port}")).connections_max(2);
    let mut many = pin!(many.through(&transport));
    // Time for a try at four of them.
    assert!(timeout(10 * SHORT, &mut many).await.is_err());
    let quick = Endpoint::answering(OK).await;
    let other = post(quick.url()).lane(2).connect_deadline(SHORT);
    tokio::select! {
        made = &mut many => panic!("{made:?}"),
        made = other.through(&transport) => check(&made, "answered 204"),
    }
    assert!(transport.connections(LaneId(1)) <= 2);
}
