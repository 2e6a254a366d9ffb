//! The ceiling: a minimal client that sends equal bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::exchange::Failure;
use crate::figures::Rate;
use crate::{now, offer};

/// Run as `bare ADDRESS REQUESTS CONNECTIONS`; prints requests a second.
pub(crate) fn main(arguments: &[String]) -> Result<(), Failure> {
    let [address, requests, connections] = arguments else {
        return Err(Failure::Says("bare: an address, requests and connections are wanted".to_owned()));
    };
    let says = |_| Failure::Says("bare: an argument is not a number".to_owned());
    let address: SocketAddr = address.parse().map_err(|_| Failure::Says("bare: no address".to_owned()))?;
    let (requests, connections): (u64, u32) =
        (requests.parse().map_err(says)?, connections.parse().map_err(says)?);
    let runtime = tokio::runtime::Runtime::new()?;
    let left = Arc::new(AtomicU64::new(requests));
    let began = now();
    runtime.block_on(async {
        let clients: Vec<_> =
            (0..connections).map(|_| tokio::spawn(client(address, Arc::clone(&left)))).collect();
        for client in clients {
            client.await.map_err(|error| Failure::Says(error.to_string()))??;
        }
        Ok::<_, Failure>(())
    })?;
    let rate = Rate::new(requests, now() - began);
    print(rate);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn print(rate: Rate) {
    println!("{}", rate.0);
}

async fn client(address: SocketAddr, left: Arc<AtomicU64>) -> Result<(), Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let body = Bytes::from(offer::plain_body());
    let one = |left: u64| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok() {
        let request = Request::post("/")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))
            .map_err(|error| Failure::Says(error.to_string()))?;
        let answer = sender.send_request(request).await?;
        answer.into_body().collect().await?;
    }
    Ok(())
}
