use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

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

async fn noting(
    file: &str,
    answers: &'static [(u16, &'static str)],
) -> (Api, tokio::task::JoinHandle<Vec<String>>) {
    noting_all(file, answers, false).await
}

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
    let told: Vec<String> = api.substitutions().into_iter().map(|told| told.what).collect();
    assert_eq!(told, ["its rate_per_second is a u16: the sender gets 65535 instead of 100000"]);
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
async fn a_condition_that_never_holds_ends_with_its_last_state() {
    let file = STEPS.replace("[emit]", "within = \"0s\"\n[emit]");
    let answers =
        &[(200, "{\"id\": 7}"), (200, "{\"key\": \"k\"}"), (200, "{\"state\": \"new\"}"), (200, "")];
    let (api, _noted) = noting(&file, answers).await;
    let subscriber = subscriber();
    let one = Subscription { subscriber: &subscriber, types: &[], url: "http://a", secret: "s" };
    let error = api.subscribe(&one).await.unwrap_err();
    assert!(error.to_string().contains("\"/state\" was \"new\", expected \"active\""), "{error}");
    let failed = api.tear_down().await;
    assert_eq!(failed, Vec::<String>::new(), "subscriptions and setup are removed; nothing was set up");
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

const NAMED: &str = r#"
name = "x"
[subscribe]
request = "POST {{ base }}/"
save = { id = "/id" }
[emit]
request = "POST {{ base }}/"
body = ""
[unsubscribe]
request = "DELETE {{ base }}/{{ id }}"
[[teardown]]
request = "POST {{ base }}/bye"
"#;

#[tokio::test]
async fn a_subscription_whose_id_is_not_known_is_told_as_left() {
    let (api, _noted) = noting(NAMED, &[(201, "{}")]).await;
    let subscriber = subscriber();
    let one = Subscription { subscriber: &subscriber, types: &[], url: "http://a", secret: "s" };
    api.subscribe(&one).await.unwrap_err();
    let failed = api.tear_down().await;
    assert!(failed.iter().any(|why| why.contains("one: ") && why.contains("{{ id }}")), "{failed:?}");
    assert!(failed.iter().any(|why| why.contains("subscriptions left with the sender: 1")), "{failed:?}");
}

#[tokio::test]
async fn an_undo_call_that_is_late_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = DriverFile::parse(NAMED, "x.toml").unwrap();
    let api = Api::new(file, &[port], Variables::new()).unwrap();
    api.0.begun.store(true, Ordering::Relaxed);
    let failed = api.tear_down_within(0).await;
    assert!(failed.iter().any(|why| why.contains("not all subscriptions were removed")), "{failed:?}");
}

const KEY: &str = "secret-of-the-sender";

const CURIOUS: &str = r#"
name = "x"
[subscribe]
request = "POST {{ base }}/"
save = { secret = "/key", id = "/id" }
[emit]
request = "POST {{ base }}/"
body = ""
[depth]
request = "GET {{ base }}/"
pointer = "/waiting"
kept = { request = "GET {{ base }}/", list = "/kept", delivered = "/at" }
[start]
command = ["/no/such/program"]
ready = "{{ base }}/"
owner = { request = "GET {{ base }}/", list = "/each", name = "/name", here = "/here" }
[dead]
request = "GET {{ base }}/"
list = "/dead"
subscriber = "/whose"
[[teardown]]
request = "POST {{ base }}/bye"
"#;

fn events() -> [Event; 1] {
    let text = String::new;
    [Event { token: 1, text: text(), uuid: text(), kind: text(), key: text(), data: text(), unix_ns: 0 }]
}

async fn subscribe(api: &Api) -> Result<String, ApiError> {
    let subscriber = subscriber();
    let one = Subscription { subscriber: &subscriber, types: &[], url: "http://a", secret: "secret-of-ours" };
    api.subscribe(&one).await
}

#[track_caller]
fn check_hidden(told: &str) {
    assert!(told.contains("no: …"), "{told}");
    assert!(!told.contains(KEY), "{told}");
}

#[tokio::test]
async fn a_saved_value_is_in_no_word_about_a_question_that_is_refused() {
    const NO: (u16, &str) = (500, "no: secret-of-the-sender");
    let answers = &[(200, r#"{"key": "secret-of-the-sender", "id": 7}"#), NO, NO, NO, NO, NO];
    let (api, _noted) = noting(CURIOUS, answers).await;
    api.set_open(0, true);
    subscribe(&api).await.unwrap();
    check_hidden(&api.depth().await.unwrap_err().to_string());
    check_hidden(&api.oldest_kept().await.unwrap_err().to_string());
    check_hidden(&api.owner("one").await.unwrap_err().to_string());
    check_hidden(&api.dead(1).await.unwrap_err().to_string());
    check_hidden(&format!("{:?}", api.emit(&events()).await));
}

#[tokio::test]
async fn a_value_is_hidden_even_if_the_call_that_returned_it_failed() {
    let rows: [&'static [(u16, &str)]; 2] = [
        &[(200, r#"{"key": "secret-of-the-sender"}"#), (500, "no: secret-of-the-sender")],
        &[(409, r#"{"no": 1, "key": "secret-of-the-sender"}"#), (500, "no: secret-of-the-sender")],
    ];
    for answers in rows {
        let (api, _noted) = noting(CURIOUS, answers).await;
        let error = subscribe(&api).await.unwrap_err().to_string();
        assert!(!error.contains(KEY), "{error}");
        check_hidden(&format!("{:?}", api.emit(&events()).await));
    }
}

/// The key lies across byte `at`.
fn across(at: usize) -> &'static str {
    Box::leak(format!("no: {}{KEY} and more", "-".repeat(at - 4 - KEY.len() / 2)).into_boxed_str())
}

#[tokio::test]
async fn a_value_at_the_cut_of_a_long_text_is_hidden_whole() {
    let answers = [
        (200, r#"{"key": "secret-of-the-sender", "id": 7}"#),
        (500, across(300)),
        (500, across(200)),
        (500, across(2_000)),
    ];
    let (api, _noted) = noting_all(CURIOUS, Vec::leak(answers.to_vec()), true).await;
    subscribe(&api).await.unwrap();
    let half = &KEY[..KEY.len() / 2];
    let depth = api.depth().await.unwrap_err().to_string();
    assert!(depth.contains("no: -") && !depth.contains(half), "{depth}");
    let emitted = format!("{:?}", api.emit(&events()).await);
    assert!(emitted.contains("no: -") && !emitted.contains(half), "{emitted}");
    api.depth().await.unwrap_err();
    let got = api.last().unwrap().got;
    assert!(got.contains("no: -") && !got.contains(half), "{got}");
}

#[tokio::test]
async fn a_value_at_the_cut_of_a_line_is_hidden_whole() {
    let file = CURIOUS.replace("body = \"\"", "body = \"\"\nbatch = true\nstatus = \"/status\"");
    let line = |status: &str| {
        let padding = "-".repeat(200 - r#"{"no":""#.len() - KEY.len() / 2);
        format!(r#"{{"no":"{padding}{KEY}","status":{status}}}"#)
    };
    for status in ["429", "\"none\""] {
        let answers = [(200, r#"{"key": "secret-of-the-sender", "id": 7}"#), (207, &*line(status).leak())];
        let (api, _noted) = noting(&file, Vec::leak(answers.to_vec())).await;
        subscribe(&api).await.unwrap();
        let emitted = format!("{:?}", api.emit(&events()).await);
        assert!(emitted.contains("---") && !emitted.contains(&KEY[..KEY.len() / 2]), "{emitted}");
    }
}
