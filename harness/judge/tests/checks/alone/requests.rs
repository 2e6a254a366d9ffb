use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::{Asked, Payload};

use super::Row;
use super::run::{Run, calm, retried};
use crate::build::{head, with_head};

pub(super) const ROWS: [Row; 10] = [
    Row {
        check: "format.http",
        broken: "one request names no host",
        good: || calm(""),
        breaks: |run| {
            with_head(&mut run.trace.arrivals[1], |head| head.forbidden = Some("it names no host".into()));
        },
    },
    Row {
        check: "format.post-json",
        broken: "one request says that its body is plain text",
        good: || calm(""),
        breaks: |run| {
            with_head(&mut run.trace.arrivals[1], |head| head.content_type = Some("text/plain".into()));
        },
    },
    Row {
        check: "format.timestamp",
        broken: "one timestamp is an hour ahead",
        good: || calm(""),
        breaks: |run| run.trace.arrivals[1].signed.timestamp = Some("3602".into()),
    },
    Row {
        check: "format.id",
        broken: "two deliveries have one id",
        good: || calm(""),
        breaks: |run| run.trace.arrivals[1].id = run.trace.arrivals[0].id.clone(),
    },
    Row {
        check: "path.own",
        broken: "one request comes to the root of the URL",
        good: || calm(""),
        breaks: |run| run.trace.arrivals[1].head = head("/"),
    },
    Row {
        check: "permission.asked",
        broken: "one request comes before its endpoint has granted its permission",
        good: permitted,
        breaks: |run| run.trace.reached.permissions[0].t = run.trace.arrivals[0].t + 1,
    },
    Row {
        check: "payload.intact",
        broken: "a number of one event's data has lost its last digits",
        good: || calm(""),
        breaks: |run| run.trace.arrivals[1].payload = Some(Payload::Altered("another number".into())),
    },
    Row {
        check: "identity.body",
        broken: "a retry has another body",
        good: || retried(""),
        breaks: |run| run.trace.arrivals[1].sha256 = "1".repeat(64).into(),
    },
    Row {
        check: "identity.headers",
        broken: "a retry has another content type, JSON as well",
        good: || retried(""),
        breaks: |run| {
            with_head(&mut run.trace.arrivals[1], |head| {
                head.content_type = Some("application/event+json".into());
            });
        },
    },
    Row {
        check: "identity.secret",
        broken: "while two secrets are valid, the newer one signs alone",
        good: rotated,
        breaks: |run| {
            run.signed(2, &[1]);
        },
    },
];

fn permitted() -> Run {
    let mut run = calm("permission = { origin = \"events.example\" }");
    let (endpoint, origin) = ("a".to_owned(), "events.example".to_owned());
    run.trace.reached.permissions.push(Asked { t: 1, endpoint, origin: Some(origin.clone()), granted: true });
    for arrival in &mut run.trace.arrivals {
        with_head(arrival, |head| head.origin = Some(origin.as_str().into()));
    }
    run
}

/// A second secret is added at 0.5 s; both sign requests from 2 s on.
fn rotated() -> Run {
    let mut run = calm("[[fault]]\nat = \"500ms\"\ndo = \"rotate\"\nlasts = \"30s\"");
    run.fault(600, FaultKind::Rotate, 30_500).signed(1, &[0, 1]).signed(2, &[0, 1]);
    run
}
