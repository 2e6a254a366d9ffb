use hookproof_sender::engine::{Answer, Outcome, StoreTime};
use hookproof_sender::store::command::Details;
use hookproof_sender::transport::{ANSWER_BYTES_MAX, AttemptResult, Settings, Transport};
use tokio::sync::oneshot;
use wiremock::matchers::{body_bytes, header, header_exists, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::transport::endpoint::Endpoint;
use crate::transport::rig::{LONG, TOKEN, brief, check, lenient, permit, post, transport};

const OK: &str = "HTTP/1.1 204 No Content\r\n\r\n";

async fn answering(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(answer).expect(1).mount(&server).await;
    server
}

#[tokio::test]
async fn a_request_carries_its_headers_and_its_body_as_it_is() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .and(path("/hooks"))
        .and(query_param("token", TOKEN))
        .and(header("content-type", "application/json"))
        .and(header("user-agent", concat!("Hookproof/", env!("CARGO_PKG_VERSION"))))
        .and(header("host", server.address().to_string().as_str()))
        .and(header("x-github-event", "video.trending"))
        .and(header_exists("x-hub-signature-256"))
        .and(header("x-team", "orders"))
        .and(body_bytes(br#"{ "as" : "it is" }"#))
        .respond_with(ResponseTemplate::new(204))
        .expect(1)
        .mount(&server)
        .await;
    let made = post(server.uri()).extra(&["X-Team: orders"]).body(&br#"{ "as" : "it is" }"#[..]);
    let made = made.through(&transport()).await;
    check(&made, "answered 204");
}

#[tokio::test]
async fn a_long_body_arrives_whole() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|byte| byte.to_le_bytes()[1]).collect();
    let expected = body.clone();
    let endpoint = Endpoint::start(move |mut connection| {
        let expected = expected.clone();
        async move {
            let request = connection.request().await.unwrap();
            let same = request.ends_with(&expected);
            connection.write(if same { OK } else { "HTTP/1.1 400 Bad Request\r\n\r\n" }).await;
        }
    })
    .await;
    check(&post(endpoint.url()).body(body).through(&transport()).await, "answered 204");
}

#[tokio::test]
async fn date_and_retry_after_of_an_answer_are_returned_verbatim() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let answer = ResponseTemplate::new(429).insert_header("retry-after", " 120 ").insert_header("date", date);
    let server = answering(answer).await;
    let made = post(server.uri()).through(&transport()).await;
    let expected = Answer {
        status: 429,
        retry_after: Some(b"120"[..].into()),
        date: Some(date.as_bytes().into()),
        at: StoreTime(7),
    };
    assert_eq!(made.outcome(StoreTime(7)), Outcome::Answered(expected));
}

#[tokio::test]
async fn an_attempt_is_timed_in_parts() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(204)).mount(&server).await;
    let (transport, post) = (transport(), post(server.uri()));
    let mut parts = Vec::new();
    for _ in 0..2 {
        let mut details = Details::default();
        check(&transport.attempt(&post.request(permit(LONG)), &mut details).await, "answered 204");
        assert!(details.first_byte > details.connect, "{details:?}");
        parts.push(details.connect.is_some());
    }
    assert_eq!(parts, [true, false], "the second takes the kept connection");
}

#[tokio::test]
async fn a_failures_answer_is_kept_unless_it_is_empty_or_none_is_wanted() {
    let redirect = ResponseTemplate::new(302).insert_header("location", "/b").set_body_bytes(*b"moved");
    let refusal = ResponseTemplate::new(400).set_body_bytes(*b"no \xff");
    for (answer, keep, expected) in [
        (redirect, true, Some(("location: /b\n", "moved"))),
        (refusal.clone(), true, Some(("", "no \u{fffd}"))),
        (refusal, false, None),
        (ResponseTemplate::new(500), true, None),
        (ResponseTemplate::new(200).set_body_bytes(*b"ok"), true, None),
    ] {
        let server = answering(answer).await;
        let settings = Settings { keep_answers: keep, ..Settings::default() };
        let transport = Transport::new(settings, lenient());
        let mut details = Details::default();
        let made = transport.attempt(&post(server.uri()).request(permit(LONG)), &mut details).await;
        assert!(matches!(made, AttemptResult::Answered(_)), "{made:?}");
        let kept = details.answer.as_deref();
        assert_eq!(
            kept.map(|kept| (&*kept.head, kept.text())),
            expected.map(|(head, text)| (head, text.into()))
        );
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let elsewhere = Endpoint::answering(OK).await;
    for status in [301, 302, 303, 307, 308] {
        let answer = ResponseTemplate::new(status).insert_header("location", elsewhere.url());
        let server = answering(answer).await;
        check(&post(server.uri()).through(&transport()).await, &format!("answered {status}"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn an_answer_is_read_in_whatever_form_it_comes() {
    let rows = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "answered 200"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "answered 200"),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "answered 200"),
        ("HTTP/1.0 500 Oh\r\n\r\n", "answered 500"),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
            "answered 202",
        ),
        ("HTTP/1.1 503\r\ncontent-length: 0\r\n\r\n", "answered 503"),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 7\r\n\r\nno gzip", "answered 200"),
    ];
    for (answer, expected) in rows {
        let endpoint = Endpoint::start(move |mut connection| async move {
            connection.request().await.unwrap();
            connection.write(answer).await;
        })
        .await;
        assert_eq!(brief(&post(endpoint.url()).through(&transport()).await), expected, "{answer}");
        assert_eq!(endpoint.requests(), 1, "{answer}");
    }
}

#[tokio::test]
async fn of_a_huge_answer_the_status_counts_and_the_rest_is_not_read() {
    let (tell, told) = oneshot::channel();
    let tell = std::sync::Mutex::new(Some(tell));
    let endpoint = Endpoint::start(move |mut connection| {
        let tell = tell.lock().unwrap().take().unwrap();
        async move {
            connection.request().await.unwrap();
            connection.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
            // Until the sender closes the connection.
            while tokio::io::AsyncWriteExt::write_all(&mut connection.socket, chunk.as_bytes()).await.is_ok()
            {
            }
            tell.send(()).unwrap();
        }
    })
    .await;
    check(&post(endpoint.url()).through(&transport()).await, "answered 200 cut");
    told.await.unwrap();
}

#[tokio::test]
async fn an_answer_of_just_the_bound_is_read_and_its_connection_kept() {
    for (bytes, expected, connections) in
        [(ANSWER_BYTES_MAX, "answered 200", 1), (ANSWER_BYTES_MAX + 1, "answered 200 cut", 2)]
    {
        let endpoint = Endpoint::start(move |mut connection| async move {
            while connection.request().await.is_some() {
                let body = "x".repeat(bytes);
                connection.write(&format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{body}")).await;
            }
        })
        .await;
        let transport = transport();
        for _ in 0..2 {
            check(&post(endpoint.url()).through(&transport).await, expected);
        }
        assert_eq!(endpoint.connections(), connections, "{bytes}");
    }
}

#[tokio::test]
async fn an_absurd_retry_after_is_dropped_rather_than_kept() {
    let value = "9".repeat(10_000);
    let server = answering(ResponseTemplate::new(503).insert_header("retry-after", value.as_str())).await;
    match post(server.uri()).through(&transport()).await {
        AttemptResult::Answered(answered) => assert_eq!((answered.status, answered.retry_after), (503, None)),
        made => panic!("{made:?}"),
    }
}
