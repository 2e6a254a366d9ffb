//! Calls to a sender with scripted answers.

mod left;
mod secrets;

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A sender that answers call `n` with `answer(n)`, and an `Api` for it.
async fn speaking_to(answer: fn(usize) -> String) -> Api {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for number in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer(number).as_bytes()).await.unwrap();
        }
    });
    let file = "name = \"x\"\nsubscribe = { request = \"POST {{ base }}/\" }\n\
                emit = { request = \"GET {{ base }}/?key={{ env.CARGO_PKG_NAME }}\", body = \"\" }\n\
                dead = { request = \"GET {{ base }}/\", list = \"/dead\", subscriber = \"/whose\", \
                next = \"/next\", page = \"GET {{ base }}/{{ next }}\" }\n";
    let file = DriverFile::parse(file, "x.toml").unwrap();
    Api::new(file, &[port], Variables::new()).unwrap()
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_list_of_dead_letters_that_comes_to_no_end_is_given_up() {
    let circle = speaking_to(|_| ok(r#"{"dead": [], "next": "same"}"#)).await;
    assert!(matches!(circle.dead(10).await, Err(ApiError::Endless { .. })));
    let onward = |n: usize| ok(&format!(r#"{{"dead": [{{"whose": "a"}}], "next": "{n}"}}"#));
    let listed = speaking_to(onward).await.dead(10).await;
    assert!(matches!(listed, Err(ApiError::Endless { listed: 11, .. })), "{listed:?}");
    let short = |n: usize| ok(if n == 0 { r#"{"dead": [{}], "next": "1"}"# } else { r#"{"dead": [{}]}"# });
    assert_eq!(speaking_to(short).await.dead(10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_of_dead_letters_that_cannot_be_read_is_no_empty_list() {
    let answers: [fn(usize) -> String; 3] =
        [|_| ok("<html>"), |_| ok(r#"{"items": []}"#), |_| ok(r#"{"dead": {"a": 1}}"#)];
    for answer in answers {
        let listed = speaking_to(answer).await.dead(10).await;
        assert!(listed.is_err(), "{listed:?}");
    }
    // Later pages are read as strictly as the first.
    let second = |n: usize| ok(if n == 0 { r#"{"dead": [{}], "next": "1"}"# } else { "{}" });
    let listed = speaking_to(second).await.dead(10).await;
    assert!(listed.is_err(), "{listed:?}");
}

#[tokio::test]
async fn a_value_of_the_environment_is_in_no_word_about_a_failure() {
    let key = env!("CARGO_PKG_NAME");
    let silent = |_: usize| String::new();
    let refusing = |_: usize| ok(env!("CARGO_PKG_NAME")).replace("200 OK", "500 No");
    let answers: [fn(usize) -> String; 2] = [silent, refusing];
    for answer in answers {
        let event = Event {
            token: 1,
            text: String::new(),
            uuid: String::new(),
            kind: String::new(),
            key: String::new(),
            data: String::new(),
            unix_ns: 0,
        };
        let told = format!("{:?}", speaking_to(answer).await.emit(&[event]).await);
        assert!(told.contains("why") && !told.contains(key), "{told}");
    }
}

/// A sender that records its requests and gives these answers in turn; and an `Api` with this driver file.
async fn noting(
    file: &str,
    answers: &'static [(u16, &'static str)],
) -> (Api, tokio::task::JoinHandle<Vec<String>>) {
    noting_all(file, answers, false).await
}

/// As [`noting`]; a watched `Api` retains the last call.
async fn noting_all(
    file: &str,
    answers: &'static [(u16, &'static str)],
    watched: bool,
) -> (Api, tokio::task::JoinHandle<Vec<String>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let noted = tokio::spawn(async move {
        let mut requests = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = String::new();
            while !text.contains("\r\n\r\n") {
                text.push(char::from(stream.read_u8().await.unwrap()));
            }
            let length = text.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            stream.read_exact(&mut content).await.unwrap();
            requests.push(text + std::str::from_utf8(&content).unwrap());
            let answer = ok(body).replacen("200", &status.to_string(), 1);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        requests
    });
    let file = DriverFile::parse(file, "x.toml").unwrap_or_else(|error| panic!("{error}"));
    let speak = if watched { Api::watched } else { Api::new };
    (speak(file, &[port], Variables::new()).unwrap(), noted)
}

const STEPS: &str = r#"
name = "x"
[[subscribe]]
request = "POST {{ base }}/endpoints"
form = { url = "{{ url }}", types = "{{ filter_types }}", rate = "{{ rate_per_second | u16 }}" }
save = { id = "/id" }
[[subscribe]]
request = "POST {{ base }}/endpoints/{{ id }}/secret"
save = { secret = "/key" }
[poll]
request = "GET {{ base }}/endpoints/{{ id }}"
until = { "/state" = "active", "/workers" = 2 }
[emit]
request = "POST {{ base }}/events"
headers = { content-type = "text/plain" }
body = "{{ data }}"
[unsubscribe]
request = "DELETE {{ base }}/endpoints/{{ id }}"
[[teardown]]
request = "POST {{ base }}/bye"
"#;

fn subscriber() -> hookproof_judge::scenario::Subscriber {
    let text = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n\
                limit = { rate = \"100000/s\", burst = 1 }\n";
    hookproof_judge::scenario::Scenario::from_text(text, "x.toml").unwrap().subscribers.remove(0)
}

#[tokio::test]
async fn a_subscriber_is_made_in_steps_waited_for_and_taken_back() {
    let answers = &[
        (200, "{\"id\": 7}"),
        (200, "{\"key\": \"secret-of-the-sender\"}"),
        (404, "{}"),
        (200, "{\"state\": \"new\", \"workers\": 2}"),
        (200, "{\"state\": \"active\", \"workers\": 2}"),
        (200, "{}"),
        (500, "no: secret-of-the-sender"),
    ];
    let (api, noted) = noting(STEPS, answers).await;
    api.set_up().await.unwrap();
    let subscriber = subscriber();
    let types = ["a.b".to_owned()];
    let one = Subscription {
        subscriber: &subscriber,
        types: &types,
        url: "http://a/?b&c",
        secret: "secret-of-ours",
    };
    assert_eq!(api.subscribe(&one).await.unwrap(), "secret-of-the-sender");
    let told: Vec<String> = api.told().into_iter().map(|told| told.what).collect();
    assert_eq!(told, ["its rate_per_second is a u16: told 65535, not 100000"]);
    let failed = api.tear_down().await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].contains("500") && !failed[0].contains("secret-of-the-sender"), "{failed:?}");
    let noted = noted.await.unwrap();
    let lines: Vec<&str> = noted.iter().map(|request| request.split(" HTTP").next().unwrap()).collect();
    let looks = ["GET /endpoints/7"; 3];
    let expected =
        [&["POST /endpoints", "POST /endpoints/7/secret"][..], &looks, &["DELETE /endpoints/7", "POST /bye"]];
    assert_eq!(lines, expected.concat());
    assert!(noted[0].contains("content-type: application/x-www-form-urlencoded"), "{}", noted[0]);
    let form = "\r\n\r\nrate=65535&types=%5B%22a.b%22%5D&url=http%3A%2F%2Fa%2F%3Fb%26c";
    assert!(noted[0].ends_with(form), "{}", noted[0]);
}

#[tokio::test]
async fn what_never_comes_about_is_given_up_with_what_there_was() {
    let file = STEPS.replace("[emit]", "within = \"0s\"\n[emit]");
    let answers =
        &[(200, "{\"id\": 7}"), (200, "{\"key\": \"k\"}"), (200, "{\"state\": \"new\"}"), (200, "")];
    let (api, _noted) = noting(&file, answers).await;
    let subscriber = subscriber();
    let one = Subscription { subscriber: &subscriber, types: &[], url: "http://a", secret: "s" };
    let error = api.subscribe(&one).await.unwrap_err();
    assert!(error.to_string().contains("\"/state\" was \"new\", expected \"active\""), "{error}");
    let failed = api.tear_down().await;
    assert_eq!(failed, Vec::<String>::new(), "what was begun is taken back; nothing was set up");
}

#[tokio::test]
async fn a_raw_body_is_sent_as_it_is() {
    let (api, noted) = noting(STEPS, &[(202, "{}")]).await;
    let event = Event {
        token: 1,
        text: String::new(),
        uuid: String::new(),
        kind: String::new(),
        key: String::new(),
        data: "plain & simple".to_owned(),
        unix_ns: 0,
    };
    assert_eq!(api.emit(&[event]).await, [EmitResult::Accepted { status: 202, matched: None }]);
    let noted = noted.await.unwrap();
    assert!(
        noted[0].contains("content-type: text/plain") && noted[0].ends_with("plain & simple"),
        "{}",
        noted[0]
    );
}
