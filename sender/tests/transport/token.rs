use std::io::Error;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use hookproof_sender::guard::{Guard, Target};
use hookproof_sender::oauth::OauthClient;
use hookproof_sender::transport::{Settings, Transport};
use serde_json::json;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving, read_json};
use crate::transport::rig::{check, lenient, post};

const SECRET: &str = "s3cr+t";
/// Of `me` and the secret, percent-encoded.
const BASIC: &str = "Basic bWU6czNjciUyQnQ=";

fn answer(stream: &mut impl std::io::Write, status: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn token(number: usize) -> String {
    format!(r#"{{"access_token":"t0k3n-{number}","token_type":"Bearer","expires_in":3600}}"#)
}

fn database(sink: &Endpoint, tokens: &Endpoint, settings: &[&str]) -> Database {
    let database = Database::new();
    let url = format!("oauth.token_url={}", tokens.url);
    let add = ["subscriber", "add", "sink", &sink.url, "--allow-private-targets", "--json"];
    let oauth = ["--client-secret-env", "CLIENT_SECRET", "oauth.client_id=me", "oauth.scope=a b", &url];
    let mut command = database.command(&[&add[..], &oauth, settings].concat());
    command.env("CLIENT_SECRET", SECRET);
    read_json(command);
    database
}

#[track_caller]
fn check_secrets(serving: &Serving, database: &Database) {
    let pages = ["/v1/status", "/v1/subscribers", "/v1/subscribers/sink", "/metrics"];
    let mut shown: Vec<String> = pages.iter().map(|path| serving.get(path).text()).collect();
    for more in [&[][..], &["--json"]] {
        let printed = database.command(&[&["subscriber", "show", "sink"], more].concat()).output().unwrap();
        shown.push(String::from_utf8(printed.stdout).unwrap());
    }
    assert!(shown.iter().skip(2).any(|text| text.contains("client_id")), "{shown:?}");
    for text in shown.into_iter().chain(serving.lines()) {
        assert!(!text.contains("s3cr") && !text.contains(&BASIC[6..]) && !text.contains("t0k3n"), "{text}");
    }
}

#[test]
fn attempts_carry_one_token_until_a_401_and_then_a_new_one_with_the_same_body() {
    let tokens = Endpoint::scripted(|number, stream| answer(stream, "200 OK", &token(number)));
    let sink = Endpoint::answering(|number| {
        if number == 2 { "401 Unauthorized\r\n".to_owned() } else { "204 No Content\r\n".to_owned() }
    });
    let database = database(&sink, &tokens, &["limit.in_flight=1", "retry.base=1ms", "retry.cap=1ms"]);
    let serving = database.serve();
    (0..4).for_each(|number| drop(serving.emit(&number.to_string())));
    let arrivals = sink.wait_for(5);
    let carried: Vec<_> = arrivals.iter().map(|arrival| arrival.header("authorization")).collect();
    let [first, second] = ["Bearer t0k3n-0", "Bearer t0k3n-1"];
    assert_eq!(carried, [first, first, first, second, second]);
    let again = arrivals[3..].iter().find(|arrival| arrival.event() == arrivals[2].event()).unwrap();
    assert_eq!(again.body, arrivals[2].body);
    let asked = tokens.arrivals();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].header("authorization"), BASIC);
    assert_eq!(asked[0].body, b"grant_type=client_credentials&scope=a+b");
    check_secrets(&serving, &database);
}

#[test]
fn attempts_that_need_a_token_wait_for_one_request() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let tokens = Endpoint::scripted(move |number, stream| {
        released.lock().unwrap().recv().map_err(Error::other)?;
        answer(stream, "200 OK", &token(number))
    });
    let sink = Endpoint::taking();
    let database = database(&sink, &tokens, &["limit.in_flight=5", "timeout=60s", "connect_timeout=60s"]);
    let serving = database.serve();
    let events: Vec<_> = (0..5).map(|number| serving.emit(&number.to_string())).collect();
    tokens.wait_for(1);
    while serving.figure("hookproof_attempts_in_flight") < 5.0 {
        std::thread::yield_now();
    }
    assert_eq!(sink.count(), 0);
    release.send(()).unwrap();
    sink.wait_for_events(&events);
    assert_eq!(tokens.count(), 1);
}

#[test]
fn a_token_endpoint_that_fails_is_asked_again_after_a_pause_and_nothing_is_sent_meanwhile() {
    let tokens = Endpoint::scripted(|number, stream| match number {
        0 => answer(stream, "503 Service Unavailable", r#"{"error":"temporarily_unavailable"}"#),
        number => answer(stream, "200 OK", &token(number)),
    });
    let sink = Endpoint::taking();
    let settings =
        ["breaker.failures=1000", "breaker.failures_when_slow=1000", "retry.base=1ms", "retry.cap=50ms"];
    let database = database(&sink, &tokens, &[&settings[..], &["retry.attempts=1000"]].concat());
    let serving = database.serve();
    let event = serving.emit("first");
    sink.wait_for_events(&[event]);
    assert_eq!((tokens.count(), sink.count()), (2, 1), "a pause, though attempts were made");
    let printed = database.command(&["attempts", "--failed", "--max", "1000"]).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let reason = r#"no token from "127.0.0.1": it answered 503: "temporarily_unavailable""#;
    assert!(printed.lines().count() > 1 && printed.lines().all(|line| line.contains(reason)), "{printed}");
    check_secrets(&serving, &database);
}

#[tokio::test]
async fn the_guard_judges_the_token_endpoint() {
    let sink = crate::transport::endpoint::Endpoint::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let client = OauthClient {
        token_url: Target::parse("http://10.0.0.1/token", &lenient()).unwrap(),
        id: "me".into(),
        secret: serde_json::from_value(json!(SECRET)).unwrap(),
        scope: None,
        audience: None,
    };
    let guard = Guard::strict().allow_network("127.0.0.0/8".parse().unwrap());
    let made = post(sink.url()).oauth(client).through(&Transport::new(Settings::default(), guard)).await;
    check(&made, "unsent token");
    assert!(made.failure().unwrap().to_string().contains("refusing to connect to 10.0.0.1"), "{made:?}");
    assert_eq!(sink.connections(), 0);
    let metadata = ["oauth.client_id=me", "oauth.token_url=http://169.254.169.254/"];
    let add = ["subscriber", "add", "shop", "http://127.0.0.1:9/", "--allow-private-targets"];
    let mut command = Database::new().command(&[&add[..], &metadata, &["--client-secret-env", "S"]].concat());
    let refused = command.env("S", SECRET).output().unwrap();
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(
        complaint.contains("refusing to connect to 169.254.169.254") && !complaint.contains("s3cr"),
        "{complaint}"
    );
}
