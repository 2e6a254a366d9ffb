//! A test compares this table with `openapi.json`.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::gate::{check_token, gate};
use super::problem::Problem;
use super::reach::reach;
use super::token::needed;
use super::{
    App, changes, dead, deliveries, events, forget, health, jobs, metrics, plan, retry, status, subscribers,
    tokens,
};
use crate::excerpt::Excerpt;
use crate::store::job::{JobKind, JobState};

pub(super) const OPENAPI: &str = include_str!("openapi.json");

type Route = (Method, &'static str, MethodRouter<App>);

fn of_letters(kind: JobKind) -> MethodRouter<App> {
    post(move |app, caller, request| dead::letters(app, caller, request, kind))
}

fn set_job(state: JobState) -> MethodRouter<App> {
    post(move |app, job, caller, request| jobs::set(app, job, caller, request, state))
}

fn routes() -> Vec<Route> {
    vec![
        (Method::GET, "/", get(page)),
        (Method::POST, "/v1/events", post(events::post)),
        (Method::GET, "/v1/subscribers", get(subscribers::list)),
        (Method::POST, "/v1/subscribers", post(subscribers::create)),
        (Method::GET, "/v1/subscribers/{id}", get(subscribers::show)),
        (Method::PATCH, "/v1/subscribers/{id}", patch(subscribers::change)),
        (Method::DELETE, "/v1/subscribers/{id}", delete(subscribers::remove)),
        (Method::POST, "/v1/subscribers/{id}/pause", post(subscribers::pause)),
        (Method::POST, "/v1/subscribers/{id}/resume", post(subscribers::resume)),
        (Method::POST, "/v1/subscribers/{id}/retry", post(retry::of_subscriber)),
        (Method::POST, "/v1/subscribers/{id}/rotate", post(subscribers::rotate)),
        (Method::POST, "/v1/subscribers/{id}/test", post(subscribers::test)),
        (Method::POST, "/v1/subscribers/{id}/plan", post(plan::plan)),
        (Method::POST, "/v1/subscribers/{id}/shed", post(dead::shed)),
        (Method::POST, "/v1/subscribers/{id}/replay", post(dead::replay)),
        (Method::GET, "/v1/deliveries", get(deliveries::list)),
        (Method::GET, "/v1/deliveries/{id}", get(deliveries::show)),
        (Method::POST, "/v1/deliveries/{id}/resend", post(retry::resend)),
        (Method::POST, "/v1/deliveries/{id}/retry", post(retry::of_delivery)),
        (Method::GET, "/v1/attempts", get(deliveries::attempts)),
        (Method::GET, "/v1/dead", get(dead::list)),
        (Method::GET, "/v1/dead/analysis", get(dead::analysis)),
        (Method::POST, "/v1/dead/redrive", of_letters(JobKind::Redrive)),
        (Method::POST, "/v1/dead/purge", of_letters(JobKind::Purge)),
        (Method::GET, "/v1/jobs", get(jobs::list)),
        (Method::GET, "/v1/jobs/{id}", get(jobs::show)),
        (Method::POST, "/v1/jobs/{id}/pause", set_job(JobState::Paused)),
        (Method::POST, "/v1/jobs/{id}/resume", set_job(JobState::Running)),
        (Method::POST, "/v1/jobs/{id}/cancel", set_job(JobState::Cancelled)),
        (Method::POST, "/v1/find", post(forget::find)),
        (Method::POST, "/v1/forget", post(forget::forget)),
        (Method::GET, "/v1/tokens", get(tokens::list)),
        (Method::POST, "/v1/tokens", post(tokens::create)),
        (Method::DELETE, "/v1/tokens/{name}", delete(tokens::revoke)),
        (Method::GET, "/v1/changes", get(changes::list)),
        (Method::GET, "/v1/status", get(status::status)),
        (Method::GET, "/v1/nodes", get(status::list)),
        (Method::POST, "/v1/nodes/{name}/drain", post(status::drain)),
        (Method::POST, "/v1/nodes/{name}/resume", post(status::resume)),
        (Method::GET, "/v1/audit", get(deliveries::per_second)),
        (Method::GET, "/v1/openapi.json", get(openapi)),
        (Method::GET, "/metrics", get(metrics::metrics)),
        (Method::GET, "/healthz", get(health::lives)),
        (Method::GET, "/readyz", get(health::works)),
    ]
}

pub(super) fn router(app: App) -> Router {
    let routes = routes().into_iter();
    let router = routes.fold(Router::new(), |router, (method, path, handler)| {
        let demands = (needed(&method, path), reach(&method, path));
        let check = from_fn(move |caller, request, next| check_token(demands, caller, request, next));
        router.route(path, handler.route_layer(check))
    });
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), gate))
        .with_state(app)
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], OPENAPI).into_response()
}

async fn unknown_path(uri: Uri) -> Problem {
    let message = format!("there is no route {}; see /v1/openapi.json", Excerpt::of(uri.path()));
    Problem::not_found("unknown_path", message)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    let (method, path) = (Excerpt::of(method.as_str()), Excerpt::of(uri.path()));
    let message = format!("{path} does not allow {method}; the header `allow` lists the methods");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

// The console's page holds no data, so it needs no token; its requests send the token that the user enters. Its
// policy allows only its own style and script, by hash, and this API.

const PAGE: &str = include_str!("../../console/index.html");

static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |tag| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(inside(tag))));
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash("style"),
        hash("script")
    )
});

fn inside(tag: &str) -> &'static str {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    let rest = PAGE.split_once(&begin).map_or("", |(_, rest)| rest);
    rest.split_once(&end).map_or("", |(inside, _)| inside)
}

/// `GET /`
pub(super) async fn page() -> Response {
    // A test ensures that the policy is valid.
    let policy = HeaderValue::from_str(&POLICY).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, PAGE).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::excerpt::is_hidden;
    use crate::subscriber::SettingsText;
    use crate::subscriber::reference::schema;

    fn with_settings(document: &str) -> String {
        let (start, end) = ("      \"Settings\": {\n", "\n      },\n");
        let (before, rest) = document.split_once(start).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let settings = format!("\"Settings\": {:#}", schema::part()).replace('\n', "\n      ");
        format!("{before}      {settings},\n{after}")
    }

    #[test]
    fn the_settings_in_the_document_are_those_that_the_types_give() {
        let document = with_settings(OPENAPI);
        if std::env::var_os("HOOKPROOF_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi.json");
            std::fs::write(path, document).unwrap();
            return;
        }
        assert_eq!(OPENAPI, document, "openapi.json is stale; HOOKPROOF_BLESS=1 writes it anew");
    }

    #[test]
    fn every_form_of_a_subscriber_has_exactly_these_settings() {
        let schemas = &documented().0["components"]["schemas"];
        for name in ["SubscriberToAdd", "SubscriberToChange", "Subscriber"] {
            let schema = &schemas[name];
            assert_eq!(schema["allOf"][0]["$ref"], "#/components/schemas/Settings", "{name}");
            assert!(SettingsText::FIELDS.iter().all(|field| schema["properties"][field].is_null()), "{name}");
            // With `allOf`, only this keyword refuses fields that neither schema knows.
            assert_eq!(schema["unevaluatedProperties"] == false, name != "Subscriber", "{name}");
        }
    }

    /// Takes one letter of a class, itself or as its code in four digits.
    fn letter(rest: &mut &str) -> u32 {
        let (code, length) = match rest.strip_prefix("\\u") {
            Some(digits) => (u32::from_str_radix(&digits[..4], 16).unwrap(), 6),
            None => rest.chars().next().map(|letter| (u32::from(letter), letter.len_utf8())).unwrap(),
        };
        *rest = &rest[length..];
        code
    }

    fn letters(mut class: &str) -> BTreeSet<char> {
        let mut found = BTreeSet::new();
        while !class.is_empty() {
            let first = letter(&mut class);
            let last = class.strip_prefix('-').map_or(first, |mut rest| {
                let last = letter(&mut rest);
                class = rest;
                last
            });
            found.extend((first..=last).filter_map(char::from_u32));
        }
        found
    }

    #[test]
    fn names_and_keys_are_refused_the_letters_that_the_document_says() {
        let schemas = &documented().0["components"]["schemas"];
        let hidden: BTreeSet<char> = ('\0'..=char::MAX).filter(|letter| is_hidden(*letter)).collect();
        for (schema, begins) in [(&schemas["Name"], "[^/"), (&schemas["Event"]["properties"]["key"], "[^")] {
            let (_, class) = schema["pattern"].as_str().unwrap().split_once(begins).unwrap();
            assert_eq!(letters(class.split_once(']').unwrap().0), hidden);
        }
    }

    fn documented() -> (Value, BTreeSet<(String, String)>) {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let mut all = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
                all.insert((method.to_uppercase(), path.clone()));
            }
        }
        (document, all)
    }

    #[test]
    fn the_document_and_the_router_have_the_same_routes() {
        let routed: BTreeSet<_> =
            routes().iter().map(|(method, path, _)| (method.to_string(), (*path).to_owned())).collect();
        assert_eq!(documented().1, routed);
    }

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_refers_to_nothing_that_it_does_not_hold_and_each_operation_may_be_refused() {
        let (document, all) = documented();
        assert_eq!(document["openapi"], "3.1.0");
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for (method, path) in all {
            let operation = &document["paths"][&path][method.to_lowercase()];
            assert!(operation["operationId"].is_string(), "{method} {path}");
            assert!(
                operation["responses"].as_object().is_some_and(|answers| !answers.is_empty()),
                "{method} {path}"
            );
            let is_open = matches!(&*path, "/healthz");
            assert!(is_open || operation["responses"]["default"].is_object(), "{method} {path}");
        }
    }
}

#[cfg(test)]
mod console_tests {
    use super::*;

    #[test]
    fn the_page_is_all_in_itself_and_puts_nothing_in_as_html() {
        for tag in ["style", "script"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert!(inside(tag).len() > 1_000, "{tag}");
        }
        for danger in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"]
        {
            assert!(!PAGE.contains(danger), "{danger}");
        }
        let outside = PAGE.replace(inside("style"), "").replace(inside("script"), "");
        assert!(!outside.contains("style=") && !outside.contains("onclick"), "the policy forbids these");
    }

    #[tokio::test]
    async fn its_policy_allows_its_own_and_nothing_else() {
        let policy = page().await.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("connect-src 'self'"), "{policy}");
    }
}
