use std::sync::Arc;

use http::Uri;
use http::uri::Scheme;
use rustls::pki_types::ServerName;
use url::Host;

use super::failure::{Cause, Failure};
use super::request::Destination;
use crate::excerpt::Excerpt;
use crate::guard::{Parts, Target};
use crate::tls_files::TlsFiles;

#[derive(Debug)]
pub(super) struct Route {
    target: Target,
    /// Requests with the same one may share connections.
    pub(super) origin: Origin,
    /// The first lines.
    pub(super) head: Box<[u8]>,
    /// Where a request's own end of the query goes in `head`.
    pub(super) query_at: usize,
    pub(super) whole: Uri,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    /// The name in the certificate; `None` without TLS.
    pub(super) tls: Option<ServerName<'static>>,
    pub(super) files: Option<Arc<TlsFiles>>,
}

impl Route {
    pub(super) fn to(target: &Target, files: Option<&Arc<TlsFiles>>) -> Result<Self, Failure> {
        let url = target.url();
        let malformed = |error: &(dyn std::error::Error + 'static)| Failure::Request(Cause::of(error));
        let host = url.host().ok_or(Failure::Request("the URL has no host".into()))?.to_owned();
        let port = url.port_or_known_default().ok_or(Failure::Request("the URL has no port".into()))?;
        let Parts { authority, path, server } = target.parts().map_err(|error| malformed(&error))?;
        // Both parts were parsed, so no byte in them ends the line.
        let start = format!("POST {path}");
        let head = format!("{start} HTTP/1.1\r\nhost: {authority}\r\n");
        let whole = Uri::builder()
            .scheme(if server.is_some() { Scheme::HTTPS } else { Scheme::HTTP })
            .authority(authority)
            .path_and_query(path)
            .build();
        Ok(Self {
            target: target.clone(),
            origin: Origin { tls: server, host, port, files: files.cloned() },
            head: head.into_bytes().into(),
            query_at: start.len(),
            whole: whole.map_err(|error| malformed(&error))?,
        })
    }

    pub(super) fn leads_to(&self, Destination { url, tls, .. }: &Destination) -> bool {
        self.target == *url && self.origin.files == *tls
    }
}

impl Origin {
    pub(super) fn excerpt(&self) -> Excerpt {
        Excerpt::of(&self.host.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::guard::Guard;

    #[track_caller]
    fn check(url: &str, host: &str, port: u16, path: &str, named: Option<&str>) {
        let target = Target::parse(url, &Guard::strict()).unwrap();
        let route = Route::to(&target, None).unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n");
        assert_eq!(std::str::from_utf8(&route.head).unwrap(), head, "{url}");
        assert_eq!(route.origin.port, port, "{url}");
        assert_eq!(route.whole.to_string(), target.as_str(), "{url}");
        assert_eq!(route.origin.tls.map(|name| name.to_str().into_owned()).as_deref(), named, "{url}");
    }

    #[test]
    fn a_target_is_taken_apart_for_requests() {
        check("http://example.com", "example.com", 80, "/", None);
        check("http://example.com:8080/a?b=c", "example.com:8080", 8080, "/a?b=c", None);
        check("https://example.com:443/", "example.com", 443, "/", Some("example.com"));
        check("https://example.com./a", "example.com.", 443, "/a", Some("example.com"));
        check("https://8.8.8.8/", "8.8.8.8", 443, "/", Some("8.8.8.8"));
        let v6 = "2606:4700:4700::1111";
        check(&format!("https://[{v6}]:1/"), &format!("[{v6}]:1"), 1, "/", Some(v6));
    }

    proptest! {
        #[test]
        fn every_target_that_is_accepted_has_a_route(rest in "[!-~]{0,60}|\\PC{0,20}") {
            for begin in ["https://example.com/", "https://", "http://"] {
                if let Ok(target) = Target::parse(&format!("{begin}{rest}"), &Guard::strict()) {
                    let route = Route::to(&target, None);
                    prop_assert!(route.is_ok(), "{} {:?}", target, route);
                }
            }
        }

        #[test]
        fn no_target_panics(rest in "[!-~]{0,60}|\\PC{0,20}") {
            if let Ok(target) = Target::stored(&format!("https://{rest}")) {
                let _ = Route::to(&target, None);
            }
        }
    }
}
