use super::*;

/// A secret in the sender's answers, which the driver file saves.
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
