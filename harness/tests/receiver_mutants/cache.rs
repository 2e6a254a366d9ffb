//! What the small receiver takes as verified because something like it was: nothing, but for its flaw.

use crate::flaw::Flaw;
use crate::server::{Request, Server};
use crate::verify::Verdict;

/// What is known of a connection.
#[derive(Default)]
pub(crate) struct Connection {
    is_trusted: bool,
}

/// The verdict on a request that is not verified again.
pub(crate) fn remembered(server: &Server, request: &Request, connection: &Connection) -> Option<Verdict> {
    let known = key(server, request).is_some_and(|key| server.state.lock().unwrap().verified.contains(&key));
    let trusted = server.has(Flaw::TrustsConnection) && connection.is_trusted;
    if !known && !trusted {
        return None;
    }
    let header = |name| request.header(name).unwrap_or_default();
    Some(Verdict::Good { id: header("webhook-id"), timestamp: header("webhook-timestamp") })
}

/// Remembers that a request was verified.
pub(crate) fn remember(server: &Server, request: &Request, connection: &mut Connection) {
    connection.is_trusted = true;
    if let Some(key) = key(server, request) {
        server.state.lock().unwrap().verified.insert(key);
    }
}

/// What a flaw takes for proof that a request was verified before.
fn key(server: &Server, request: &Request) -> Option<String> {
    match server.flaw? {
        Flaw::CachesById => request.header("webhook-id"),
        Flaw::CachesBySignature => request.header("webhook-signature"),
        Flaw::CachesByBody => Some(String::from_utf8_lossy(&request.body).into_owned()),
        Flaw::CachesByTimestamp => request.header("webhook-timestamp"),
        _ => None,
    }
}
