//! The URL that the sender was given.

/// What Twilio adds to the query, before the digest of a body that is no form.
pub(super) const BODY_DIGEST: &str = "bodySHA256=";

/// A URL up to its port, the port with its colon, and the rest.
pub(super) fn parts(url: &str) -> (&str, &str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let is_port = |at: &usize| url[at + 1..end].bytes().all(|byte| byte.is_ascii_digit());
    let colon = url[start..end].rfind(':').map(|at| start + at).filter(is_port).unwrap_or(end);
    (&url[..colon], &url[colon..end], &url[end..])
}

/// Whether a request to this path and query can be one to the URL. A proxy may have removed the path or its start; a sender
/// may have added this parameter to the query.
pub(super) fn is_to(url: &str, target: &str, added: Option<&str>) -> bool {
    let (url, _) = url.split_once('#').unwrap_or((url, ""));
    let (_, _, own) = parts(url);
    let ((own_path, own_query), (path, query)) = (split(own), split(target));
    let Some(more) = query.strip_prefix(own_query) else { return false };
    let is_added = |name: &str| {
        let more = more.strip_prefix(if own_query.is_empty() { '?' } else { '&' });
        let value = more.and_then(|more| more.strip_prefix(name));
        value.is_some_and(|value| !value.contains(['&', '?']))
    };
    (path == "/" || own_path.ends_with(path)) && (more.is_empty() || added.is_some_and(is_added))
}

fn split(target: &str) -> (&str, &str) {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    (if path.is_empty() { "/" } else { path }, query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_to_the_url_or_to_the_rest_that_a_proxy_leaves() {
        for (url, target, expected) in [
            ("https://a.example/in/x?t=7", "/in/x?t=7", true),
            ("https://a.example/in/x?t=7", "/x?t=7", true),
            ("https://a.example/in/x?t=7", "/?t=7", true),
            ("https://a.example/in/x?t=7", "/in/x?t=7&sum=ab", true),
            ("https://a.example/in/x", "/in/x?sum=ab", true),
            ("https://a.example", "/", true),
            ("https://a.example:8443/in#part", "/in", true),
            ("https://a.example/in/x?t=7", "/in/x", false),
            ("https://a.example/in/x?t=7", "/in/x?t=77", false),
            ("https://a.example/in/x?t=7", "/in/x?t=7?sum=ab", false),
            ("https://a.example/in/x?t=7", "/in/x?t=7&t=8", false),
            ("https://a.example/in/x", "/in/x?admin=1", false),
            ("https://a.example/in/x", "/in/x?sum=ab&admin=1", false),
            ("https://a.example/in/x", "/in/y", false),
            ("https://a.example/in/x", "/other/in/x", false),
        ] {
            assert_eq!(is_to(url, target, Some("sum=")), expected, "{url} {target}");
            assert!(expected || !is_to(url, target, None), "{url} {target}");
        }
        assert!(!is_to("https://a.example/in", "/in?sum=ab", None));
    }
}
