//! A real `serve` that exports to a collector.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::binary::endpoint::{Arrival, Endpoint};
use crate::binary::{SERVE, Serving, http};
use crate::cli::world::World;

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

fn serve(world: &World, collector: &Endpoint) -> Serving {
    let url = collector.url.trim_end_matches("hook");
    let mut command = world.command(&[&SERVE[..], &["--node", "one", "--otlp", url]].concat());
    command.env(HEADERS, "x-key=Basic%20s3cret, x-team=hooks");
    Serving::start(command)
}

fn emit(serving: &Serving, body: &str) {
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    let head = format!(
        "POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntraceparent: {CALLER}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(http::read(&stream).unwrap().status, 202);
}

fn spans(arrivals: &[Arrival]) -> Vec<Value> {
    let of =
        |arrival: &Arrival| arrival.json()["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned();
    arrivals.iter().filter_map(of).flatten().collect()
}

fn attribute(of: &Value, name: &str) -> Value {
    let found = of["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {of}"))["value"].clone()
}

fn check_trace(world: &World) {
    let statuses = ["500 Internal Server Error\r\n", "204 No Content\r\n"];
    let shop = Endpoint::answering(move |number| statuses[number.min(1)].to_owned());
    let collector = Endpoint::answering(|_| "200 OK\r\n".to_owned());
    let private = "--allow-private-targets";
    world.ok(&["subscriber", "add", "shop", &shop.url, private, "retry.base=1ms", "retry.cap=1ms"]);
    let serving = serve(world, &collector);
    emit(&serving, r#"{"id":"order-1","type":"order.paid","data":1}"#);
    let exported = collector.wait_until("three spans", |arrivals| spans(arrivals).len() >= 3);
    let mut spans = spans(&exported);
    spans.sort_by_key(|span| span["startTimeUnixNano"].as_str().unwrap().to_owned());
    let [event, first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&event["name"], &event["kind"]), (&"event".into(), &4.into()));
    assert_eq!(attribute(event, "hookproof.event.id"), json!({ "stringValue": "order-1" }));
    let link = json!([{ "traceId": &CALLER[3..35], "spanId": &CALLER[36..52] }]);
    assert_eq!((&event["links"], &event["parentSpanId"]), (&link, &Value::Null));
    let attempts = shop.wait_for(2);
    for (number, (attempt, arrival)) in [first, second].into_iter().zip(&attempts).enumerate() {
        assert_eq!((&attempt["name"], &attempt["kind"]), (&"attempt".into(), &3.into()));
        assert_eq!((&attempt["traceId"], &attempt["parentSpanId"]), (&event["traceId"], &event["spanId"]));
        let text = |name: &str| attempt[name].as_str().unwrap();
        assert_eq!(arrival.header("traceparent"), format!("00-{}-{}-01", text("traceId"), text("spanId")));
        assert!(text("startTimeUnixNano") <= text("endTimeUnixNano"));
        let is = |name: &str, kind: &str, value: &str| {
            assert_eq!(attribute(attempt, name), json!({ kind: value }));
        };
        is("http.response.status_code", "intValue", &statuses[number][..3]);
        is("server.port", "intValue", shop.url.rsplit([':', '/']).nth(1).unwrap());
        is("hookproof.subscriber", "stringValue", "shop");
        is("server.address", "stringValue", "127.0.0.1");
        is("server.port", "intValue", shop.url.rsplit([':', '/']).nth(1).unwrap());
        is("hookproof.delivery.id", "stringValue", arrival.header("webhook-id"));
    }
    let failed = json!({ "code": 2, "message": "" });
    assert_eq!((&first["status"], &second["status"]), (&failed, &Value::Null));
    assert_eq!(attribute(first, "error.type"), json!({ "stringValue": "500" }));
    assert_eq!(attribute(second, "http.request.resend_count"), json!({ "intValue": "1" }));
    assert!(!first.to_string().contains("resend_count") && !second.to_string().contains("error.type"));
    assert_eq!(attempts[0].body, attempts[1].body);
    for arrival in &exported {
        let headers = ["content-type", "x-key", "x-team"].map(|name| arrival.header(name));
        assert_eq!(headers, ["application/json", "Basic s3cret", "hooks"]);
    }
    // Emitted again for one more subscriber, the event keeps its span.
    let late = Endpoint::taking();
    let added = serving.post("/v1/subscribers", &json!({ "name": "late", "url": late.url }).to_string());
    assert_eq!(added.status, 201, "{added:?}");
    emit(&serving, r#"{"id":"order-1","type":"order.paid","data":1}"#);
    let exported = collector.wait_until("a fourth span", |arrivals| self::spans(arrivals).len() >= 4);
    let names: Vec<Value> = self::spans(&exported).iter().map(|span| span["name"].clone()).collect();
    assert_eq!(names.iter().filter(|name| **name == "event").count(), 1, "{names:?}");
    serving.stop_in_order();
}

#[test]
fn an_event_and_its_attempts_are_one_trace_and_the_endpoint_gets_its_parent() {
    check_trace(&World::new());
    if let Some(world) = World::on_postgres("an_event_and_its_attempts_are_one_trace") {
        check_trace(&world);
    }
}

#[test]
fn metrics_are_exported_and_the_last_spans_when_the_sender_stops() {
    const EVENTS: usize = 2_000;
    let (shop, collector) = (Endpoint::taking(), Endpoint::answering(|_| "200 OK\r\n".to_owned()));
    let (world, _) = World::with_shop(&shop.url, &["limit.rate=10000/s", "limit.burst=1000"]);
    let serving = serve(&world, &collector);
    let exported = collector.wait_until("metrics", |arrivals| {
        arrivals.iter().any(|arrival| !arrival.json()["resourceMetrics"].is_null())
    });
    let exported = exported.iter().find_map(|arrival| arrival.json()["resourceMetrics"].as_array().cloned());
    let exported = &exported.unwrap()[0];
    assert_eq!(attribute(&exported["resource"], "service.instance.id"), json!({ "stringValue": "one" }));
    let metrics = exported["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let shown = http::request(&serving.address, "GET", "/metrics", "text/plain", b"").text();
    let named =
        |line: &str| line.strip_prefix("# TYPE ").map(|rest| rest.split(' ').next().unwrap().to_owned());
    let shown: Vec<String> = shown.lines().filter_map(named).collect();
    let names: Vec<&str> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, shown, "the same metrics as for Prometheus");

    let lines =
        (0..EVENTS).map(|number| format!("{{\"type\":\"a\",\"data\":{number}}}\n")).collect::<String>();
    let kind = "application/x-ndjson";
    assert_eq!(http::request(&serving.address, "POST", "/v1/events", kind, lines.as_bytes()).status, 202);
    shop.wait_for(EVENTS);
    serving.stop_in_order();
    let spans = spans(&collector.arrivals());
    let count = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
    assert_eq!((count("event"), count("attempt")), (EVENTS, EVENTS));
}

#[test]
fn a_collector_that_takes_nothing_holds_up_no_delivery_and_its_spans_are_counted() {
    let shop = Endpoint::taking();
    let collector = Endpoint::answering(|_| "401 Unauthorized\r\n".to_owned());
    let (world, _) = World::with_shop(&shop.url, &[]);
    let serving = serve(&world, &collector);
    emit(&serving, r#"{"type":"order.paid","data":1}"#);
    shop.wait_for(1);
    let line = serving.wait_for_line("the OTLP collector did not take");
    assert!(line.contains("it answered 401; put its key into OTEL_EXPORTER_OTLP_HEADERS"), "{line}");
    assert!(!line.contains("s3cret"), "{line}");
    let dropped = |spans: usize| format!("\nhookproof_spans_dropped_total {spans}\n");
    while !http::request(&serving.address, "GET", "/metrics", "text/plain", b"").text().contains(&dropped(2))
    {
    }
    serving.stop_in_order();
}

#[test]
fn a_collector_that_never_answers_holds_up_no_delivery_and_no_stop() {
    let shop = Endpoint::taking();
    let collector = Endpoint::scripted(|_, stream| stream.read_exact(&mut [0]));
    let (world, _) = World::with_shop(&shop.url, &[]);
    let serving = serve(&world, &collector);
    collector.wait_for(1);
    emit(&serving, r#"{"type":"order.paid","data":1}"#);
    shop.wait_for(1);
    serving.request_stop();
    serving.wait_for_line("the OTLP collector is slow: the last spans are dropped");
    serving.stop_in_order();
}

#[test]
fn without_a_collector_endpoints_get_no_trace_and_what_cannot_be_one_is_refused() {
    let shop = Endpoint::taking();
    let (world, _) = World::with_shop(&shop.url, &[]);
    let serving = Serving::start(world.command(&SERVE));
    emit(&serving, r#"{"type":"order.paid","data":1}"#);
    let arrived = shop.wait_for(1).remove(0);
    assert!(arrived.headers.iter().all(|(name, _)| name != "traceparent"), "{arrived:?}");
    serving.stop_in_order();
    for (options, headers, problem) in [
        (&["--otlp", "collector:4317"][..], "", "--otlp cannot be used: "),
        (&["--otlp-one-in", "10"], "", "--otlp <URL>"),
        (&["--otlp", "http://u:s3cret@127.0.0.1:1"], "", "it has a user"),
        (&["--otlp", "http://127.0.0.1:1"], "content-length=3", "content-length is reserved"),
        (&["--otlp", "http://127.0.0.1:1"], "s3cret", "a part has no =; expected NAME=VALUE"),
        (&["--otlp", "http://127.0.0.1:1"], "a=s3cret\u{1}", "the value of a cannot be sent"),
    ] {
        let mut command = world.command(&[&["serve"], options].concat());
        let output = command.env(HEADERS, headers).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{complaint}");
        assert!(complaint.contains(problem) && !complaint.contains("s3cret"), "{complaint}");
    }
}
