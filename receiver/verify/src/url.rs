//! The URL that the sender was given.

/// A URL up to its port, the port with its colon, and the rest.
pub(super) fn parts(url: &str) -> (&str, &str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let is_port = |at: &usize| url[at + 1..end].bytes().all(|byte| byte.is_ascii_digit());
    let colon = url[start..end].rfind(':').map(|at| start + at).filter(is_port).unwrap_or(end);
    (&url[..colon], &url[colon..end], &url[end..])
}

/// Whether a request to this path and query can be one to the URL. A proxy may have removed the start of the path; a sender may
/// have added to the query.
pub(super) fn is_to(url: &str, target: &str) -> bool {
    let (url, _) = url.split_once('#').unwrap_or((url, ""));
    let (_, _, own) = parts(url);
    let split = |target: &'_ str| {
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        (if path.is_empty() { "/".to_owned() } else { path.to_owned() }, query.to_owned())
    };
    let ((own_path, own_query), (path, query)) = (split(own), split(target));
    let more = query.strip_prefix(&own_query);
    own_path.ends_with(&path) && more.is_some_and(|more| more.is_empty() || more.starts_with(['?', '&']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_to_the_url_or_to_the_rest_that_a_proxy_leaves() {
        for (url, target, expected) in [
            ("https://a.example/in/x?t=7", "/in/x?t=7", true),
            ("https://a.example/in/x?t=7", "/x?t=7", true),
            ("https://a.example/in/x?t=7", "/in/x?t=7&bodySHA256=ab", true),
            ("https://a.example/in/x", "/in/x?bodySHA256=ab", true),
            ("https://a.example", "/", true),
            ("https://a.example:8443/in#part", "/in", true),
            ("https://a.example/in/x?t=7", "/in/x", false),
            ("https://a.example/in/x?t=7", "/in/x?t=77", false),
            ("https://a.example/in/x", "/in/y", false),
            ("https://a.example/in/x", "/other/in/x", false),
        ] {
            assert_eq!(is_to(url, target), expected, "{url} {target}");
        }
    }
}
