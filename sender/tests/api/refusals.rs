use axum::body::Body;
use axum::http::Request;
use hookproof_sender::api::Token;
use proptest::prelude::*;
use serde_json::json;

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_wrong_with_a_request_is_said_in_one_form() {
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

/// A server's texts have no character zero, so it can't even be asked for one.
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
