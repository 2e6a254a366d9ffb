use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::server::{Request, Server};
use crate::receiver_mutants::verify::Verdict;

#[derive(Default)]
pub(crate) struct Connection {
    is_trusted: bool,
}

pub(crate) fn remembered(server: &Server, request: &Request, connection: &Connection) -> Option<Verdict> {
    let known = key(server, request).is_some_and(|key| server.state.lock().unwrap().verified.contains(&key));
    let trusted = server.has(Flaw::TrustsConnection) && connection.is_trusted;
    if !known && !trusted {
        return None;
    }
    let header = |name| request.header(name).unwrap_or_default();
    Some(Verdict::Good { id: header("webhook-id"), timestamp: header("webhook-timestamp") })
}

pub(crate) fn remember(server: &Server, request: &Request, connection: &mut Connection) {
    connection.is_trusted = true;
    if let Some(key) = key(server, request) {
        server.state.lock().unwrap().verified.insert(key);
    }
}

fn key(server: &Server, request: &Request) -> Option<String> {
    match server.flaw? {
        Flaw::CachesById => request.header("webhook-id"),
        Flaw::CachesBySignature => request.header("webhook-signature"),
        Flaw::CachesByBody => Some(String::from_utf8_lossy(&request.body).into_owned()),
        Flaw::CachesByTimestamp => request.header("webhook-timestamp"),
        _ => None,
    }
}
