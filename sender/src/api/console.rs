//! The console: one self-contained page that uses this API. It holds no data, so it needs no token; its
//! requests send the token that the user enters. Its policy allows only its own style and script, by hash,
//! and this API.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

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
    // A test ensures that the policy is a valid header value.
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
