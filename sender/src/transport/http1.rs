//! One connection that speaks HTTP/1.1.
//!
//! Nothing runs beside an attempt: the task that makes a request drives the connection too. So a connection does nothing
//! between attempts, ends with the attempt that is given up, and a request costs no detour over another task.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::attempt_result::{ANSWER_BYTES_MAX, Answered, HEAD_BYTES_MAX};
use super::failure::{Cause, Failure};
use super::wire::Wire;
use super::write_tracker::{SocketState, WriteTracker};

/// A connection, idle or serving one request.
pub(super) struct Http1 {
    sender: SendRequest<Full<Bytes>>,
    driven: Driven,
    socket: Arc<SocketState>,
}

/// The connection's own future; nothing when it is over.
struct Driven(Option<Box<Connection<TokioIo<Wire>, Full<Bytes>>>>);

impl Http1 {
    pub(super) async fn over(wire: Wire) -> Result<Self, Failure> {
        let socket = wire.state();
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(wire)).await.map_err(|e| failure(&e))?;
        Ok(Self { sender, driven: Driven(Some(Box::new(connection))), socket })
    }

    /// Whether it could take a request, as far as can be known: notices what the endpoint did since the last one.
    pub(super) async fn is_ready(&mut self) -> bool {
        poll_fn(|cx| {
            self.driven.advance(cx);
            Poll::Ready(self.driven.0.is_some() && self.sender.is_ready())
        })
        .await
    }

    /// Sends a request and reads its answer. Afterwards [`Self::is_ready`] says whether there can be another.
    pub(super) async fn exchange(
        &mut self,
        request: http::Request<Full<Bytes>>,
        tracker: Arc<WriteTracker>,
    ) -> Result<Answered, Failure> {
        self.socket.begin(tracker);
        let sending = pin!(self.sender.try_send_request(request));
        let answer = self.driven.alongside(sending).await.map_err(|error| failure(&error.into_error()))?;
        let mut answered = Answered::of(answer.status(), answer.headers());
        answered.cut = self.is_longer_than_is_read(answer.into_body()).await?;
        if answered.cut {
            self.driven.0 = None;
        } else {
            self.socket.answered();
        }
        Ok(answered)
    }

    async fn is_longer_than_is_read(&mut self, mut body: Incoming) -> Result<bool, Failure> {
        let mut read = 0;
        while !body.is_end_stream() {
            match self.driven.alongside(body.frame()).await {
                None => break,
                Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(error)) => return Err(Failure::Half(Cause::of(&error))),
            }
            if read > ANSWER_BYTES_MAX {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Driven {
    fn advance(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.0
            // An error goes to the request that waits, if one does; without one it needs no words.
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.0 = None;
        }
    }

    /// Waits for something that the connection brings about.
    async fn alongside<F: Future + Unpin>(&mut self, mut awaited: F) -> F::Output {
        poll_fn(|cx| {
            self.advance(cx);
            Pin::new(&mut awaited).poll(cx)
        })
        .await
    }
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        Failure::NotHttp(Cause::of(error))
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Failure::Closed
    } else {
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        Failure::Broken(io.map_or_else(|| Cause::of(error), |io| Cause::of(io)))
    }
}
