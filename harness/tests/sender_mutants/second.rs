//! One kept connection to each endpoint, and a stream for each attempt.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;

use crate::sender_mutants::attempt::Outcome;
use crate::sender_mutants::sender::Sender;

#[derive(Default)]
pub(crate) struct Connections(RefCell<BTreeMap<String, SendRequest<Bytes>>>);

impl Connections {
    /// Renewed if necessary. Nothing is lost with a connection before a request is written.
    async fn ready(&self, host: &str) -> Option<SendRequest<Bytes>> {
        let kept = self.0.borrow().get(host).cloned();
        if let Some(kept) = kept
            && let Ok(ready) = kept.ready().await
        {
            return Some(ready);
        }
        let stream = TcpStream::connect(host).await.ok()?;
        let (client, connection) = h2::client::handshake(stream).await.ok()?;
        tokio::task::spawn_local(async move { drop(connection.await) });
        self.0.borrow_mut().insert(host.to_owned(), client.clone());
        client.ready().await.ok()
    }
}

pub(crate) async fn exchange(sender: &Sender, host: &str, request: &str) -> Outcome {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
    let mut whole = http::Request::post(format!("http://{host}{path}"));
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        // HTTP/2 has no connection headers, and the host is in the URL.
        if !matches!(name, "host" | "connection") {
            whole = whole.header(name, value);
        }
    }
    let Some(mut client) = sender.connections.ready(host).await.filter(|_| sender.is_its_own()) else {
        return Outcome::Refused;
    };
    let Ok((answer, mut stream)) = client.send_request(whole.body(()).unwrap(), false) else {
        return Outcome::Cut;
    };
    if stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true).is_err() {
        return Outcome::Cut;
    }
    let Ok(answer) = answer.await else { return Outcome::Cut };
    let (parts, mut rest) = answer.into_parts();
    while let Some(piece) = rest.data().await {
        let Ok(piece) = piece else { return Outcome::Cut };
        if rest.flow_control().release_capacity(piece.len()).is_err() {
            return Outcome::Cut;
        }
    }
    let field = |name: &str| {
        parts.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    Outcome::Answered {
        status: parts.status.as_u16(),
        retry_after: field("retry-after"),
        location: field("location"),
        allowed: field("webhook-allowed-origin"),
        unix_ns: sender.clock.unix_ns(sender.clock.now()),
    }
}
