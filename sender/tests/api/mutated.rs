//! Randomly mutated requests: a refusal has the one form and names its place; an accepted event or subscriber is stored
//! as it was sent.

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Version};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use url::form_urlencoded::byte_serialize;

use crate::api::world::{Answer, World};
use crate::fuzzing::{Random, Target};

const MESSAGE_BYTES_MAX: usize = 1_000;
/// Refusals of a request as a whole. Those of a text that is no JSON name the byte in their message.
const OF_ALL: [&str; 9] = [
    "bad_path",
    "batch_empty",
    "method_not_allowed",
    "not_an_object",
    "not_json",
    "unknown_delivery",
    "unknown_path",
    "not_utf8",
    "syntax",
];

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    key: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

struct Api {
    runtime: Runtime,
    world: World,
}

impl Api {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let world = runtime.block_on(World::new());
        let api = Self { runtime, world };
        api.add_shop();
        api
    }

    fn call(&self, method: &str, path: &str, body: String) -> Answer {
        self.runtime.block_on(self.world.call(method, path, body))
    }

    fn add_shop(&self) {
        let settings = json!({ "queue": { "rows": 1_000, "when_full": "shed-oldest" } });
        self.runtime.block_on(self.world.subscribe("shop", "http://127.0.0.1:1/", settings));
        self.call("POST", "/v1/subscribers/shop/pause", String::new()).expect(200);
    }

    /// Later inputs find the same subscribers.
    fn reset(&self) {
        let page = self.call("GET", "/v1/subscribers", String::new()).expect(200);
        for subscriber in page["items"].as_array().unwrap() {
            let path = format!("/v1/subscribers/{}", subscriber["id"].as_str().unwrap());
            self.call("DELETE", &path, String::new()).expect(204);
        }
        self.add_shop();
    }

    fn outcome(&self, input: &[u8], random: &mut Random) -> String {
        let Some((request, body)) = request(input, random) else { return "no HTTP".to_owned() };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = self.runtime.block_on(self.world.send_as_it_is(request));
        let status = answer.status;
        if !status.is_success() {
            return format!("{status} {}", refusal(&answer));
        }
        match (&method, &*path) {
            (&Method::POST, "/v1/events") => self.check_events(&answer, body),
            (&Method::POST, "/v1/subscribers") => self.check_subscriber(&answer, body),
            (&Method::PATCH, _) => self.check_change(&answer, &path, body),
            (&Method::GET | &Method::HEAD, _) => return status.to_string(),
            _ => self.reset(),
        }
        let keys = serde_json::from_slice(body).unwrap_or_else(|_| Map::new());
        let keys: Vec<&String> = keys.keys().take(3).collect();
        format!("{method} {status} {keys:?}")
    }

    fn check_events(&self, answer: &Answer, body: &[u8]) {
        let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect::<Vec<_>>();
        let is_batch = answer.headers["content-type"] != "application/json";
        for line in answer.text.lines() {
            let told: Value = serde_json::from_str(line).unwrap();
            if told["deliveries"] != 1 {
                continue;
            }
            let sent = if is_batch {
                lines[usize::try_from(told["line"].as_u64().unwrap()).unwrap() - 1]
            } else {
                body
            };
            let event: Event<'_> = serde_json::from_slice(sent).unwrap();
            let id = told["id"].as_str().unwrap();
            let asked: String = byte_serialize(id.as_bytes()).collect();
            let path = format!("/v1/deliveries?event={asked}");
            let (mut page, mut newest) = (path.clone(), Value::Null);
            loop {
                let mut found = self.call("GET", &page, String::new()).expect(200);
                newest = found["items"].as_array_mut().and_then(Vec::pop).unwrap_or(newest);
                let Some(next) = found["next"].as_str() else { break };
                page = format!("{path}&cursor={next}");
            }
            let delivery = &newest;
            assert_eq!((&delivery["type"], &delivery["key"]), (&json!(event.kind), &json!(event.key)));
            let path = format!("/v1/deliveries/{}", delivery["id"].as_str().unwrap());
            let stored = self.call("GET", &path, String::new()).expect(200);
            let stored = stored["body"].as_str().unwrap();
            assert!(stored.ends_with(&format!(",\"data\":{}}}", event.data.get())), "{stored}");
        }
    }

    fn check_subscriber(&self, answer: &Answer, body: &[u8]) {
        let path = answer.headers["location"].to_str().unwrap();
        let mut added = answer.json();
        assert!(added["secret"].is_string());
        added.as_object_mut().unwrap().remove("secret");
        let mut sent: Map<String, Value> = serde_json::from_slice(body).unwrap();
        assert_eq!(sent.get("name"), added.get("name"));
        sent.remove("secret");
        let shown = self.call("GET", path, String::new()).expect(200);
        for (name, value) in added.as_object().unwrap() {
            assert_eq!(value, &shown[name], "{name}");
        }
        // As sent, and as shown with all defaults.
        let mut whole = added.as_object().unwrap().clone();
        whole.retain(|name, _| !["id", "state", "pause", "fault", "version", "created"].contains(&&**name));
        for change in [sent, whole] {
            let changed = self.call("PATCH", path, Value::Object(change).to_string()).expect(200);
            self.are_alike(&added, &changed);
        }
        self.call("DELETE", path, String::new()).expect(204);
        self.call("GET", path, String::new()).refuses(404, "unknown_subscriber", Some("subscriber"));
    }

    /// The same change again changes nothing.
    fn check_change(&self, answer: &Answer, path: &str, body: &[u8]) {
        let changed = answer.json();
        let mut sent: Map<String, Value> = serde_json::from_slice(body).unwrap();
        sent.remove("version");
        let path = path.replace("/shop", &format!("/{}", changed["id"].as_str().unwrap()));
        let again = self.call("PATCH", &path, Value::Object(sent).to_string()).expect(200);
        self.are_alike(&changed, &again);
        self.reset();
    }

    fn are_alike(&self, one: &Value, other: &Value) {
        for (name, value) in one.as_object().unwrap().iter().filter(|(name, _)| *name != "version") {
            assert_eq!(value, &other[name], "{name}");
        }
    }
}

/// An input is a request as a socket would read it.
fn request<'i>(input: &'i [u8], random: &mut Random) -> Option<(Request<Body>, &'i [u8])> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(length)) = head.parse(input) else { return None };
    let version = if head.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let request = Request::builder().method(head.method?).uri(head.path?).version(version);
    let request = head.headers.iter().fold(request, |request, field| request.header(field.name, field.value));
    let body = &input[length..];
    let parts: Vec<_> = random.pieces(body).into_iter().map(Bytes::copy_from_slice).collect();
    let parts = futures_util::stream::iter(parts.into_iter().map(Ok::<_, std::io::Error>));
    Some((request.body(Body::from_stream(parts)).ok()?, body))
}

fn refusal(answer: &Answer) -> String {
    assert!(answer.status.is_client_error() || answer.status.as_u16() == 501, "{answer:?}");
    if answer.text.is_empty() {
        // The answer to HEAD.
        return String::new();
    }
    assert_eq!(answer.headers["content-type"], "application/json");
    let error = &answer.json()["error"];
    let (code, message) = (error["code"].as_str().unwrap(), error["message"].as_str().unwrap());
    assert!(message.len() <= MESSAGE_BYTES_MAX && !message.contains(char::is_control), "{message:?}");
    assert!(error["field"].is_string() || OF_ALL.contains(&code), "{error}");
    code.to_owned()
}

fn with_body(line: &str, kind: &str, body: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\n\r\n{body}").into_bytes()
}

fn corpus() -> Vec<Vec<u8>> {
    let json = "application/json";
    let settings = r#"{"name":"acme","url":"http://127.0.0.1:1/a?b=c","events":["video.*"],"limit":{"rate":"50/s","burst":20,"windows":["60 per 1s"],"in_flight":3,"pace":true},"retry":{"backoff":"fixed","schedule":["1s","2min"],"ttl":"48h"},"timeout":"5s","sign":"standard-webhooks"}"#;
    let more = r#"{"name":"other","url":"http://127.0.0.1:1/","queue":{"rows":5,"bytes":"1MiB","when_full":"shed-oldest"},"breaker":{"failures":3,"cooldown":"1min"},"pressure":{"slowest":"2min","target":"1s"},"dedupe":"0s","coalesce":[{"events":"video.rank","window":"1s"}],"shape":{"allow":["a.b"]}}"#;
    let batch = "{\"type\":\"a\",\"data\":1}\n\n{\"id\":\"e2\",\"type\":\"b\",\"key\":\"k\",\"data\":[\"\u{e9}\"]}\r\n{";
    vec![
        with_body("POST /v1/events", json, r#"{"type":"video.trending","data":{"views":[1.0,-2e5,"\u00e9"]},"key":"k"}"#),
        with_body("POST /v1/events", "application/x-ndjson", batch),
        with_body("POST /v1/subscribers", json, settings),
        with_body("POST /v1/subscribers", json, more),
        with_body("PATCH /v1/subscribers/shop", json, r#"{"limit":{"rate":"9/s","burst":null},"name":"store","version":2}"#),
        with_body("PATCH /v1/subscribers/shop", json, settings),
        with_body("POST /v1/subscribers/shop/rotate", json, r#"{"overlap":"1h"}"#),
        b"GET /v1/subscribers?limit=5&cursor=x HTTP/1.1\r\nhost: 127.0.0.1:7411\r\norigin: http://127.0.0.1:7411\r\n\r\n".to_vec(),
        b"DELETE /v1/subscribers/shop HTTP/1.0\r\nauthorization: Bearer x\r\ncontent-encoding: identity\r\n\r\n".to_vec(),
    ]
}

fn target(check: &dyn Fn(&[u8], &mut Random) -> String) -> Target<'_> {
    let words = &[
        "\r\nhost: ",
        "\r\n\r\n",
        "transfer-encoding: gzip\r\n",
        "%00",
        "?limit=1",
        "null",
        "\\ud800",
        "\u{202e}",
        "\"key\":",
        ",\"limit\":{",
        "1h",
        "[]",
    ];
    Target { quick: 1_500, corpus: corpus(), words, check }
}

#[test]
fn each_request_of_the_corpus_but_the_page_is_accepted() {
    let api = Api::new();
    let check = |input: &[u8], random: &mut Random| {
        let outcome = api.outcome(input, random);
        assert!(outcome.contains(" 20") || outcome.contains("bad_cursor"), "{outcome}");
        outcome
    };
    Target { quick: 0, ..target(&check) }.try_some();
    api.runtime.block_on(api.world.stop());
}

#[test]
fn any_request_is_taken_as_it_is_or_refused_with_its_field() {
    let api = Api::new();
    target(&|input, random| api.outcome(input, random)).try_some();
    api.runtime.block_on(api.world.stop());
}

#[test]
#[ignore = "takes HOOKPROOF_SECONDS"]
fn any_request_is_taken_as_it_is_or_refused_with_its_field_at_length() {
    let api = Api::new();
    target(&|input, random| api.outcome(input, random)).try_at_length();
    api.runtime.block_on(api.world.stop());
}
