use bytes::Bytes;
use h2::Reason;
use h2::client::SendRequest;
use hookproof_judge::scenario::{Answer, Behaviour, Duration, Millionths, Reply, RetryAfter, Size};
use hookproof_judge::trace::{CutKind, Record};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::endpoint::cuts;
use crate::endpoint::stage::{BODY, Set, behaviour, during, set};

#[derive(Debug, PartialEq, Eq)]
enum Met {
    Answered(u16, usize),
    /// An earlier end, with its reason.
    Ended(Option<Reason>),
}

async fn connect(set: &Set) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn send(client: &SendRequest<Bytes>) -> Met {
    let ended = |error: h2::Error| Met::Ended(error.reason());
    let request = http::Request::post("http://a/").body(()).unwrap();
    let mut client = match client.clone().ready().await {
        Ok(client) => client,
        Err(error) => return ended(error),
    };
    let (answer, mut body) = client.send_request(request, false).unwrap();
    // If the stream was reset already, its answer reports that.
    let _ = body.send_data(Bytes::from_static(BODY.as_bytes()), true);
    let answer = match answer.await {
        Ok(answer) => answer,
        Err(error) => return ended(error),
    };
    let (parts, mut rest) = answer.into_parts();
    let mut length = 0;
    while let Some(piece) = rest.data().await {
        match piece {
            Ok(piece) => length += piece.len(),
            Err(error) => return ended(error),
        }
        rest.flow_control().release_capacity(length.min(1)).unwrap();
    }
    Met::Answered(parts.status.as_u16(), length)
}

async fn play(behaviours: &[Behaviour]) -> (Met, Vec<Record>) {
    let set = set(1, behaviours).await;
    let client = connect(&set).await;
    let met = send(&client).await;
    drop(client);
    (met, set.end().await)
}

#[tokio::test]
async fn streams_of_one_connection_are_requests_of_their_own_and_wait_for_nobody() {
    let slow = Behaviour {
        share: Millionths(500_000),
        latency: Some(hookproof_judge::scenario::Range::just(Duration::from_millis(200))),
        ..behaviour(Answer::Status(Reply { status: 500, ..reply() }))
    };
    let set = set(1, &[slow]).await;
    let client = connect(&set).await;
    let all = futures(&client, 16).await;
    drop(client);
    let records = set.end().await;
    assert!(all.contains(&Met::Answered(204, 0)) && all.contains(&Met::Answered(500, 0)), "{all:?}");
    let arrivals: Vec<_> = records
        .iter()
        .filter_map(|one| if let Record::Arrival(one) = one { Some(one) } else { None })
        .collect();
    let answers: Vec<_> = records
        .iter()
        .filter_map(|one| if let Record::Answer(one) = one { Some(one) } else { None })
        .collect();
    assert_eq!((arrivals.len(), answers.len()), (16, 16));
    assert!(arrivals.iter().all(|one| one.connection == arrivals[0].connection && one.token == Some(7)));
    assert!(
        arrivals.iter().all(|one| one.head.path.as_str() == "/"
            && one.head.method.as_str() == "POST"
            && one.t <= one.read)
    );
    for answer in answers {
        let arrival = arrivals.iter().find(|one| one.n == answer.n).unwrap();
        assert!(arrival.read <= answer.t && answer.t <= answer.end && answer.whole, "{answer:?}");
    }
    // Requests that were sent first and answered late were open while all others came.
    let last = arrivals.iter().map(|one| one.t).max().unwrap();
    assert!(records.iter().any(|one| matches!(one, Record::Answer(one) if one.t > last)));
}

async fn futures(client: &SendRequest<Bytes>, count: usize) -> Vec<Met> {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        all.spawn(async move { send(&client).await });
    }
    all.join_all().await
}

fn reply() -> Reply {
    Reply { status: 204, retry_after: None, body: Size(0), location: None }
}

#[tokio::test]
async fn a_stream_ends_in_each_of_its_ways_and_the_trace_calls_it_as_ever() {
    let ended = |reason| Met::Ended(Some(reason));
    let rows = [
        (Answer::Reset, ended(Reason::INTERNAL_ERROR), Some((CutKind::Reset, false))),
        (Answer::ResetAfterRead, ended(Reason::INTERNAL_ERROR), Some((CutKind::ResetAfterRead, true))),
        (Answer::Close, ended(Reason::CANCEL), Some((CutKind::Close, true))),
        (Answer::HalfAnswer, ended(Reason::PROTOCOL_ERROR), Some((CutKind::HalfAnswer, true))),
        (Answer::HugeAnswer { body: Size(300_000) }, Met::Answered(200, 300_000), None),
    ];
    for (answer, expected, cut) in rows {
        let (met, records) = play(&[behaviour(answer.clone())]).await;
        assert_eq!(met, expected, "{answer:?}");
        assert_eq!(cuts(&records), cut.into_iter().collect::<Vec<_>>(), "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_says_what_the_scenario_gives_it_and_a_drip_comes_byte_by_byte() {
    let told = Reply { status: 503, retry_after: Some(RetryAfter::Text("3\u{1}".to_owned())), ..reply() };
    let (met, records) = play(&[behaviour(Answer::Status(told))]).await;
    assert_eq!(met, Met::Answered(503, 0));
    assert!(matches!(&records[1], Record::Answer(one) if one.retry_after.as_deref() == Some("3\u{1}")));
    let (met, records) = play(&[behaviour(Answer::Drip { pace: Duration::from_millis(1) })]).await;
    assert!(matches!(met, Met::Answered(200, 40..)), "{met:?}");
    assert!(matches!(&records[1], Record::Answer(one) if one.whole && one.end - one.t > 40_000_000));
}

#[tokio::test]
async fn a_cancelled_stream_without_an_answer_is_recorded_as_cut() {
    let mut set = set(1, &[behaviour(Answer::Blackhole)]).await;
    let client = connect(&set).await;
    let waits = tokio::spawn({
        let client = client.clone();
        async move { send(&client).await }
    });
    let arrived = set.next().await;
    assert!(matches!(arrived, Record::Arrival(_)), "{arrived:?}");
    waits.abort();
    let Record::Cut(cut) = set.next().await else { panic!("no cut") };
    assert_eq!((cut.how, cut.n), (CutKind::Blackhole, Some(0)));
    drop(client);
    assert_eq!(set.end().await, []);
}

#[tokio::test]
async fn a_stalled_endpoint_reads_nothing_until_it_is_over() {
    const STALL_NS: u64 = 300_000_000;
    let set = set(1, &[during(Answer::Stall, 0, 300)]).await;
    let client = connect(&set).await;
    assert_eq!(send(&client).await, Met::Answered(204, 0));
    drop(client);
    let records = set.end().await;
    assert!(matches!(&records[0], Record::Arrival(one) if one.t >= STALL_NS), "{records:?}");
}

#[tokio::test]
async fn a_port_that_closes_ends_the_connections_that_are_open() {
    let set = set(1, &[during(Answer::Refuse, 300, 60_000)]).await;
    let client = connect(&set).await;
    assert_eq!(send(&client).await, Met::Answered(204, 0));
    while !matches!(send(&client).await, Met::Ended(_)) {}
    set.clock.until(300_000_000).await;
    let mut refused = TcpStream::connect(set.endpoints.addresses()[0]).await;
    while refused.is_ok() {
        refused = TcpStream::connect(set.endpoints.addresses()[0]).await;
    }
    set.end().await;
}

#[tokio::test]
async fn a_partial_request_is_counted_from_its_first_byte() {
    let mut set = set(1, &[]).await;
    let stream = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post("http://a/").header("content-length", 100).body(()).unwrap();
    let (_answer, mut body) = client.ready().await.unwrap().send_request(request, false).unwrap();
    body.send_data(Bytes::from_static(BODY.as_bytes()), false).unwrap();
    set.clock.pass(100_000_000).await;
    connection.abort();
    let Record::Cut(cut) = set.next().await else { panic!("no cut") };
    assert!(cut.n.is_none() && cut.how == CutKind::PeerGone && cut.began.is_some(), "{cut:?}");
    assert_eq!(cut.token, Some(7));
    // An HTTP/2 preface without a valid continuation is no request.
    let mut other = TcpStream::connect(set.endpoints.addresses()[0]).await.unwrap();
    other.write_all(b"PRI * HTTP/2.0\r\n\r\nno").await.unwrap();
    drop(other);
    assert_eq!(set.end().await, []);
}
