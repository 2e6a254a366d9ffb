//! Calls to a sender that answers as it likes.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A sender that answers every call with what `answer` makes of the call's number, and an `Api` that speaks to it.
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
    // What follows the first page is read no less closely.
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
            kind: String::new(),
            key: String::new(),
            data: String::new(),
            unix_ns: 0,
        };
        let told = format!("{:?}", speaking_to(answer).await.emit(&[event]).await);
        assert!(told.contains("why") && !told.contains(key), "{told}");
    }
}
