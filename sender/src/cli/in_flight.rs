//! No database stores attempts in flight, so each node is asked at its announced address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::failure::Failure;
use super::session::runtime;
use crate::engine::{StoreTime, UnderWay};
use crate::operate::json_forms::node_id;
use crate::store::liveness::{Life, Liveness};
use crate::store::node::{Node, Nodes};

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct InFlight {
    sum: UnderWay,
    told: usize,
    silent: Vec<(String, String)>,
}

impl InFlight {
    pub(super) fn query_nodes(
        liveness: &dyn Liveness,
        nodes: &Nodes,
        now: StoreTime,
        token: Option<&str>,
    ) -> Result<Self, Failure> {
        let living: Vec<&Node> = nodes.living(now).collect();
        if living.is_empty() {
            return Ok(Self::default());
        }
        let answers =
            runtime()?.block_on(join_all(living.iter().map(|node| query_node(liveness, node, token))));
        let mut all = Self::default();
        for (node, answer) in living.into_iter().zip(answers) {
            match answer {
                Ok(found) => {
                    all.told += 1;
                    all.sum.in_flight = all.sum.in_flight.saturating_add(found.in_flight);
                    all.sum.in_doubt = all.sum.in_doubt.saturating_add(found.in_doubt);
                }
                Err(why) => all.silent.push((node.announced.name.to_string(), why)),
            }
        }
        Ok(all)
    }

    pub(super) fn to_json(&self) -> Value {
        let silent: Vec<_> =
            self.silent.iter().map(|(name, why)| json!({ "name": name, "why": why })).collect();
        json!({
            "in_flight": self.sum.in_flight,
            "in_doubt": self.sum.in_doubt,
            "nodes_asked": self.told + self.silent.len(),
            "nodes_silent": silent,
        })
    }

    pub(super) fn summary(&self) -> String {
        let UnderWay { in_flight, in_doubt } = self.sum;
        let asked = self.told + self.silent.len();
        let silent: Vec<_> = self.silent.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        match (asked, self.told) {
            (0, _) => "no running process".to_owned(),
            (_, 0) => format!("unknown: {}", silent.join("; ")),
            _ if silent.is_empty() => format!("{in_flight}, {in_doubt} of them in doubt"),
            (_, told) => {
                let silent = silent.join("; ");
                format!("{in_flight}, {in_doubt} of them in doubt, from {told} of {asked} nodes; {silent}")
            }
        }
    }
}

async fn query_node(liveness: &dyn Liveness, node: &Node, token: Option<&str>) -> Result<UnderWay, String> {
    let Some(announced) = node.announced.address.as_deref() else {
        return Err("it serves no API".to_owned());
    };
    let address = announced.parse().map(reachable);
    let address = address.map_err(|error| format!("its address {announced} is invalid: {error}"))?;
    // Only for a living process on loopback; elsewhere any program may listen.
    let is_theirs = address.ip().is_loopback() && liveness.life_of(node.owner) == Life::Alive;
    let shown = token.filter(|_| is_theirs);
    let answer = timeout(ANSWER_WITHIN, get_status(address, shown));
    let answer = answer.await.unwrap_or_else(|_| Err(format!("no answer in {} s", ANSWER_WITHIN.as_secs())));
    let status = answer.map_err(|why| format!("{why}, at {address}"))?;
    let Some(status) = status else {
        return Err(match (token, shown) {
            (None, _) => format!("its API at {address} needs a token (--token-env NAME)"),
            (_, Some(_)) => format!("its API at {address} refuses this token"),
            (_, None) => {
                format!(
                    "the token is sent only to loopback addresses; ask it yourself: GET \
                     http://{address}/v1/status"
                )
            }
        });
    };
    if status["node"] != node_id(node.owner) {
        // Another machine's loopback address leads to this machine.
        return Err(format!("another node answers at {address}"));
    }
    match (status["here"]["in_flight"].as_u64(), status["here"]["in_doubt"].as_u64()) {
        (Some(in_flight), Some(in_doubt)) => Ok(UnderWay { in_flight, in_doubt }),
        _ => Err(format!("the answer from {address} is not that of a sender")),
    }
}

/// A process that listens everywhere also listens on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// `None` if it needs another token.
async fn get_status(address: SocketAddr, token: Option<&str>) -> Result<Option<Value>, String> {
    let failed = |error: &dyn std::error::Error| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| failed(&error))?;
    let (mut connection, driver) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    tokio::spawn(driver);
    let mut request = Request::get("/v1/status?limit=1").header(header::HOST, address.to_string());
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| failed(&error))?;
    let answer = connection.send_request(request).await.map_err(|error| failed(&error))?;
    let status = answer.status();
    match status.as_u16() {
        200 => {}
        401 => return Ok(None),
        403 => return Err("this token may not read; expected the scope read, operate or admin".to_owned()),
        status => return Err(format!("it answered {status}")),
    }
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&body).map(Some).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_which_a_part_is_unknown_says_so() {
        let mut found = InFlight::default();
        assert_eq!(found.summary(), "no running process");
        found.silent.push(("web-1".to_owned(), "it serves no API".to_owned()));
        assert_eq!(found.summary(), "unknown: web-1: it serves no API");
        (found.told, found.sum) = (2, UnderWay { in_flight: 7, in_doubt: 1 });
        assert_eq!(found.summary(), "7, 1 of them in doubt, from 2 of 3 nodes; web-1: it serves no API");
        assert_eq!(found.to_json()["nodes_asked"], 3);
        found.silent.clear();
        assert_eq!(found.summary(), "7, 1 of them in doubt");
    }

    #[test]
    fn a_node_that_listens_everywhere_is_asked_on_this_machine() {
        for (announced, asked) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("10.0.0.7:80", "10.0.0.7:80")]
        {
            assert_eq!(reachable(announced.parse().unwrap()).to_string(), asked);
        }
    }
}
