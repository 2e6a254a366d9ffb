use axum::body::Body;
use axum::http::Request;
use hookproof_sender::api::{Scope, Token};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn every_error_of_a_request_has_one_form() {
    let world = World::new().await;
    let rows = [
        ("GET", "/nothing", 404, "unknown_path", None),
        ("GET", "/v1/nothing", 404, "unknown_path", None),
        ("GET", "/v1/events", 405, "method_not_allowed", None),
        ("PUT", "/v1/subscribers", 405, "method_not_allowed", None),
        ("DELETE", "/healthz", 405, "method_not_allowed", None),
        ("GET", "/v1/subscribers/%ff", 400, "bad_path", None),
        ("GET", "/v1/subscribers/nobody", 404, "unknown_subscriber", Some("subscriber")),
        ("GET", "/v1/subscribers?limit=0", 400, "bad_parameter", Some("limit")),
        ("GET", "/v1/subscribers?limit=1001", 400, "bad_parameter", Some("limit")),
        ("GET", "/v1/subscribers?cursor=x", 400, "bad_cursor", Some("cursor")),
        ("GET", "/v1/dead?cursor=zffff.0", 400, "bad_cursor", Some("cursor")),
        ("GET", "/v1/subscribers?colour=red", 400, "unknown_parameter", Some("colour")),
        ("GET", "/v1/subscribers?limit=1&limit=2", 400, "doubled_parameter", Some("limit")),
        ("GET", "/v1/deliveries?state=lost", 400, "bad_parameter", Some("state")),
        ("GET", "/v1/deliveries?event=e&state=dead", 400, "bad_parameter", Some("event")),
        ("GET", "/v1/deliveries?subscriber=nobody", 404, "unknown_subscriber", Some("subscriber")),
        ("GET", "/v1/dead/analysis?hours=0", 400, "bad_parameter", Some("hours")),
        ("GET", "/v1/attempts?failed=1", 400, "bad_parameter", Some("failed")),
        ("GET", "/v1/audit?per=hour", 400, "bad_parameter", Some("per")),
        ("GET", "/v1/audit?from=yesterday", 400, "bad_parameter", Some("from")),
        ("GET", "/v1/audit?from=20&until=10", 400, "bad_span", Some("from")),
        ("GET", "/v1/audit?from=0&until=86401", 400, "bad_span", Some("from")),
    ];
    for (method, path, status, code, field) in rows {
        println!("{method} {path}");
        world.call(method, path, "").await.refuses(status, code, field);
    }
    let wrong = world.call("DELETE", "/v1/events", "").await;
    assert_eq!(wrong.headers["allow"], "POST");
    world.stop().await;
}

/// PostgreSQL's texts cannot hold the character zero.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_known_by_a_text_with_a_character_zero() {
    let test = "nobody_is_known_by_a_text_with_a_character_zero";
    for world in [Some(World::new().await), World::on_postgres(test).await].into_iter().flatten() {
        for (method, path, code, field) in [
            ("GET", "/v1/subscribers/%00", "unknown_subscriber", Some("subscriber")),
            ("DELETE", "/v1/subscribers/acme%00", "unknown_subscriber", Some("subscriber")),
            ("GET", "/v1/deliveries?subscriber=%00", "unknown_subscriber", Some("subscriber")),
            ("GET", "/v1/dead?subscriber=%00", "unknown_subscriber", Some("subscriber")),
            ("GET", "/v1/deliveries/%00", "unknown_delivery", None),
            ("POST", "/v1/nodes/%00/drain", "unknown_node", None),
            ("DELETE", "/v1/tokens/%00", "unknown_token", None),
        ] {
            println!("{method} {path}");
            world.call(method, path, "").await.refuses(404, code, field);
        }
        let page = world.get("/v1/deliveries?event=%00").await.expect(200);
        assert_eq!(page, json!({ "items": [], "next": null }));
        world.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_nothing_but_health_is_answered_without_it() {
    let token = "a-token-that-nobody-guesses";
    let world = World::with(Some(Token::new(token).unwrap()), |_| {}).await;
    let ask = async |path: &str, shown: Option<&str>| {
        let mut request = Request::get(path);
        if let Some(shown) = shown {
            request = request.header("authorization", shown);
        }
        world.send(request.body(Body::empty()).unwrap()).await
    };
    for path in ["/v1/subscribers", "/metrics", "/v1/openapi.json", "/v1/nothing"] {
        for shown in [None, Some("Bearer "), Some("Bearer wrong"), Some(token), Some("Basic dTpw")] {
            let answer = ask(path, shown).await;
            answer.refuses(401, "unauthorized", Some("authorization"));
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
        }
    }
    for scheme in ["Bearer", "bearer"] {
        ask("/v1/subscribers", Some(&format!("{scheme} {token}"))).await.expect(200);
    }
    ask("/healthz", None).await.expect(200);
    ask("/readyz", None).await.expect(200);
    world.stop().await;
}

/// The routes of a scope beside those of `read`, which are all `GET`s but that of tokens.
const OPERATE: [&str; 18] = [
    "/v1/dead/purge",
    "/v1/dead/redrive",
    "/v1/deliveries/{id}/resend",
    "/v1/deliveries/{id}/retry",
    "/v1/find",
    "/v1/forget",
    "/v1/jobs/{id}/cancel",
    "/v1/jobs/{id}/pause",
    "/v1/jobs/{id}/resume",
    "/v1/nodes/{name}/drain",
    "/v1/nodes/{name}/resume",
    "/v1/subscribers/{id}/pause",
    "/v1/subscribers/{id}/plan",
    "/v1/subscribers/{id}/replay",
    "/v1/subscribers/{id}/resume",
    "/v1/subscribers/{id}/retry",
    "/v1/subscribers/{id}/shed",
    "/v1/subscribers/{id}/test",
];

fn may(scope: Scope, method: &str, path: &str) -> bool {
    let reads = method == "GET" && path != "/v1/tokens";
    match scope {
        Scope::Admin => true,
        Scope::Operate => reads || OPERATE.contains(&path),
        Scope::Read => reads,
        Scope::Emit => {
            (method, path) == ("POST", "/v1/events") || ["/", "/healthz", "/readyz"].contains(&path)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_may_call_its_routes_and_no_other() {
    let text = |scope: Scope| format!("a-token-of-the-scope-{}", scope.name());
    let tokens = Scope::ALL.map(|scope| (Token::new(&text(scope)).unwrap(), scope));
    let world = World::with_tokens(tokens, |_| {}).await;
    let document: Value = serde_json::from_str(include_str!("../../src/api/openapi.json")).unwrap();
    let (mut allowed, mut refused) = (0, 0);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let method = method.to_uppercase();
            for scope in Scope::ALL {
                let uri = path.replace("{id}", "nobody").replace("{name}", "nobody");
                let request = Request::builder().method(&*method).uri(uri);
                let request = request.header("authorization", format!("Bearer {}", text(scope)));
                let answer = world.send(request.body(Body::empty()).unwrap()).await;
                if may(scope, &method, path) {
                    assert!(![401, 403].contains(&answer.status.as_u16()), "{scope:?} {method} {path}");
                    allowed += 1;
                } else {
                    answer.refuses(403, "wrong_scope", Some("authorization"));
                    refused += 1;
                }
            }
        }
    }
    assert!(allowed > 50 && refused > 40, "{allowed} and {refused} were tried");
    for (scope, expected) in [(Scope::Operate, 403), (Scope::Admin, 404)] {
        let request = Request::post("/v1/subscribers/nobody/test").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", text(scope)));
        let body = Body::from(r#"{"type":"order.paid","data":{"forged":true}}"#);
        let answer = world.send(request.body(body).unwrap()).await;
        assert_eq!(answer.status.as_u16(), expected, "{scope:?} emits by a test");
    }
    for (scope, plan, expected) in [
        (Scope::Operate, true, 200),
        (Scope::Operate, false, 403),
        (Scope::Admin, false, 200),
        (Scope::Read, true, 403),
    ] {
        let request = Request::post("/v1/forget").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", text(scope)));
        let body = Body::from(json!({ "key": "ann", "plan": plan }).to_string());
        let answer = world.send(request.body(body).unwrap()).await;
        assert_eq!(answer.status.as_u16(), expected, "{scope:?} forgets: {plan}");
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_a_web_page_is_not_answered() {
    let world = World::new().await;
    for (header, value, status, code) in [
        ("origin", "https://evil.example", 403, "foreign_origin"),
        ("host", "evil.example", 421, "foreign_host"),
    ] {
        let request = Request::post("/v1/dead/purge").header(header, value);
        let answer = world.send(request.body(Body::from("{\"all\":true}")).unwrap()).await;
        answer.refuses(status, code, Some(header));
    }
    world.stop().await;
}

#[test]
fn nothing_that_is_asked_breaks_anything() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::new());
    let nouns = "subscribers|deliveries|dead|dead/analysis|status|audit|subscribers/[a-z%0-9_]{0,9}|deliveries/dlv_[0-9a-z]{26}";
    let query = "((limit|cursor|state|subscriber|event|from|until|per|hours)=[a-z0-9.%:+-]{0,20}&?){0,3}";
    proptest!(ProptestConfig::with_cases(400), |(noun in nouns, query in query)| {
        let path = format!("/v1/{noun}?{query}");
        if let Ok(request) = Request::get(&path).body(Body::empty()) {
            let answer = runtime.block_on(world.send(request));
            prop_assert!(answer.status.as_u16() < 500, "{path}: {answer:?}");
            prop_assert!(answer.status.is_success() || answer.json()["error"]["code"].is_string());
        }
    });
    runtime.block_on(world.stop());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_no_unicode_or_misleads_people_is_refused_with_its_field() {
    let world = World::new().await;
    world.subscribe("shop", "http://127.0.0.1:1/", json!({})).await;
    let named = |name: &str| format!(r#"{{"name":"{name}","url":"http://127.0.0.1:1/"}}"#);
    let rows = [
        ("POST /v1/events", r#"{"type":"a","data":"\ud800"}"#.to_owned(), "lone_surrogate", "data"),
        (
            "POST /v1/events",
            r#"{"type":"a","data":{"x\udc00\ud800":[]}}"#.to_owned(),
            "lone_surrogate",
            "data",
        ),
        ("POST /v1/events", r#"{"type":"a","key":"\uDBFFx","data":1}"#.to_owned(), "lone_surrogate", "key"),
        ("POST /v1/events", r#"{"type":"\ud800","data":1}"#.to_owned(), "lone_surrogate", "type"),
        ("POST /v1/events", r#"{"id":null,"type":"a","data":1}"#.to_owned(), "not_text", "id"),
        ("POST /v1/events", r#"{"type":"a","key":"x\u202egpj","data":1}"#.to_owned(), "key_character", "key"),
        (
            "POST /v1/events",
            "{\"type\":\"a\",\"key\":\"x\u{2066}\",\"data\":1}".to_owned(),
            "key_character",
            "key",
        ),
        ("POST /v1/events", r#"{"type":"a","key":"a\u001b[2J","data":1}"#.to_owned(), "key_character", "key"),
        ("POST /v1/events", r#"{"type":"a\u202e","data":1}"#.to_owned(), "type_character", "type"),
        ("POST /v1/subscribers", named("\\ud800"), "lone_surrogate", "name"),
        ("POST /v1/subscribers", named("a\u{202e}b"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\\u200fb"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{feff}"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\\nb"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{34f}"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{115f}"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{180e}"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{fff9}"), "bad_name", "name"),
        ("POST /v1/subscribers", named("a\u{e0041}"), "bad_name", "name"),
        ("PATCH /v1/subscribers/shop", r#"{"name":"a\u202eb"}"#.to_owned(), "bad_name", "name"),
        (
            "PATCH /v1/subscribers/shop",
            r#"{"limit":{"rate":"\udfff"}}"#.to_owned(),
            "lone_surrogate",
            "limit",
        ),
        ("POST /v1/subscribers/shop/test", r#"{"data":"\ud800"}"#.to_owned(), "lone_surrogate", "data"),
    ];
    for (request, body, code, field) in rows {
        println!("{request} {body}");
        let (method, path) = request.split_once(' ').unwrap();
        world.call(method, path, body).await.refuses(422, code, Some(field));
    }
    // Valid text: surrogate pairs, an escaped backslash before `ud800`, letters from right to left.
    let pair = r#"{"type":"a","key":"\ud83d\ude00","data":"\ud83d\ude00 \\ud800"}"#;
    world.call("POST", "/v1/events", pair).await.expect(202);
    world.post("/v1/events", json!({ "type": "a", "key": "\u{5d0}", "data": 1 })).await.expect(202);
    let escaped = r#"{"type":"a","data":"\\\ud83d\\\ude00"}"#;
    world.call("POST", "/v1/events", escaped).await.refuses(422, "lone_surrogate", Some("data"));
    let lines = "{\"type\":\"a\",\"data\":\"\\ud800\"}\n{\"type\":\"a\",\"data\":1}\n";
    let answer = world.call_with("POST", "/v1/events", "application/x-ndjson", lines).await;
    assert!(answer.text.contains("lone_surrogate") && answer.text.contains("\"deliveries\":"), "{answer:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_comes_twice_is_refused_by_its_name() {
    let world = World::new().await;
    world.subscribe("shop", "http://127.0.0.1:1/", json!({})).await;
    for (request, body, field) in [
        (
            "POST /v1/subscribers",
            r#"{"name":"a","url":"http://a.example/","url":"http://b.example/"}"#,
            "url",
        ),
        ("PATCH /v1/subscribers/shop", r#"{"limit":{"rate":"1/s","r\u0061te":"2/s"}}"#, "rate"),
        ("POST /v1/subscribers/shop/test", r#"{"data":[{"x":1,"x":2}]}"#, "x"),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        world.call(method, path, body).await.refuses(422, "doubled_field", Some(field));
    }
    world.stop().await;
}

fn body_schema<'a>(document: &'a Value, method: &str, path: &str) -> &'a Value {
    let operation = &document["paths"][path][method.to_lowercase()];
    followed(document, &operation["requestBody"]["content"]["application/json"]["schema"])
}

fn followed<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().map_or(schema, |name| document.pointer(name.strip_prefix('#').unwrap()).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_a_body_may_be_null_only_if_the_schema_says_so() {
    let world = World::new().await;
    let document = world.get("/v1/openapi.json").await.expect(200);
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, _) in methods.as_object().unwrap().iter().filter(|(_, it)| it["requestBody"].is_object())
        {
            let fields = body_schema(&document, method, path)["properties"].as_object().unwrap();
            for (field, schema) in fields {
                let schema = followed(&document, schema);
                world.subscribe(&format!("shop{tried}"), "http://127.0.0.1:1/", json!({})).await;
                let mut body = match &**path {
                    "/v1/events" => json!({ "type": "a", "data": 1 }),
                    "/v1/subscribers" => {
                        json!({ "name": format!("new{tried}"), "url": "http://127.0.0.1:1/" })
                    }
                    "/v1/subscribers/{id}/shed" if field == "plan" => json!({ "all": true }),
                    "/v1/dead/redrive" | "/v1/dead/purge" if field == "since" || field == "plan" => {
                        json!({ "all": true })
                    }
                    "/v1/find" => json!({ "key": "k" }),
                    "/v1/forget" => json!({ "key": "k", "plan": true }),
                    _ => json!({}),
                };
                body[field] = Value::Null;
                let path = path.replace("{id}", &format!("shop{tried}"));
                let answer = world.call(&method.to_uppercase(), &path, body.to_string()).await;
                let kinds = schema["type"].as_array();
                let any = schema["type"].is_null() && schema["const"].is_null();
                let may_be_null = any || kinds.is_some_and(|kinds| kinds.contains(&json!("null")));
                println!("{method} {path} {body}: {}", answer.text);
                assert_eq!(answer.status.as_u16() == 422, !may_be_null, "{method} {path} {body}: {answer:?}");
                assert!(may_be_null || answer.text.contains(field), "{method} {path} {body}: {answer:?}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 30, "{tried}");
    world.stop().await;
}
