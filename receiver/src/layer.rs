//! A tower layer that passes only verified requests.
//!
//! It reads the raw body within bounds of size, time and memory, and passes on the signed bytes, unparsed and still
//! compressed. The inner service finds an [`Authentic`] in the request's extensions. It sees no
//! [`handshake`]: the layer answers those of the keys' profile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};
use tracing::debug;

use crate::answer::{self, closing, overloaded, rejected, text};
use crate::clock::Clock;
use crate::verify::handshake::{self, Answer, Refused};
use crate::verify::{Keys, Rejection, UnixSeconds, verify};

/// Bodies hold memory no longer.
const MEMORY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Connections are bounded, so these bytes are not counted: clients that hold all memory do not keep out usual
/// deliveries.
const BODY_BYTES_FREE: u32 = 16 << 10;

/// Bytes of a refused body, since a client that still writes does not read the answer.
const LINGER_BYTES_MAX: usize = 16 << 20;
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

/// The limits of requests that are not yet verified.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub body_bytes: u32,
    pub body_time: Duration,
    /// The memory in bytes for all bodies, without the first 16 KiB of each.
    pub bodies_bytes: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { body_bytes: 2 << 20, body_time: Duration::from_secs(10), bodies_bytes: 64 << 20 }
    }
}

#[derive(Clone, Debug)]
pub struct Authentic {
    /// The id that identifies repeats.
    pub id: String,
    /// When it was signed, if the profile signs a time.
    pub signed_at: Option<UnixSeconds>,
    /// The index of the matching key.
    pub key: usize,
    /// Released with the last clone.
    pub(crate) room: Arc<OwnedSemaphorePermit>,
}

#[derive(Clone, Debug)]
pub struct Admission {
    clock: Clock,
    bounds: Bounds,
    room: Arc<Semaphore>,
}

impl Admission {
    #[must_use]
    pub fn new(clock: Clock, bounds: Bounds) -> Self {
        let room = Arc::new(Semaphore::new(bounds.bodies_bytes as usize));
        Self { clock, bounds, room }
    }

    /// A layer that passes requests signed by one of the keys.
    #[must_use]
    pub fn layer(&self, keys: Keys) -> VerifyLayer {
        self.layer_with(keys, Rejection::status)
    }

    pub(crate) fn layer_with(&self, keys: Keys, status_of: fn(&Rejection) -> StatusCode) -> VerifyLayer {
        VerifyLayer(Arc::new(Gate { keys, status_of, admission: self.clone() }))
    }

    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }
}

#[derive(Clone, Debug)]
pub struct VerifyLayer(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    keys: Keys,
    status_of: fn(&Rejection) -> StatusCode,
    admission: Admission,
}

impl VerifyLayer {
    #[must_use]
    pub fn new(keys: Keys, clock: Clock, bounds: Bounds) -> Self {
        Admission::new(clock, bounds).layer(keys)
    }
}

impl<S> Layer<S> for VerifyLayer {
    type Service = Verify<S>;

    fn layer(&self, inner: S) -> Verify<S> {
        Verify { gate: Arc::clone(&self.0), inner }
    }
}

#[derive(Clone, Debug)]
pub struct Verify<S> {
    gate: Arc<Gate>,
    inner: S,
}

impl<S> Verify<S> {
    /// Whether it answers a request other than a `POST`.
    pub(crate) fn answers_handshake<B>(&self, request: &Request<B>) -> bool {
        self.gate.without_body(request).is_some()
    }
}

impl<S, B, R> Service<Request<B>> for Verify<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let gate = Arc::clone(&self.gate);
        // Calls the clone that was polled ready.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            match gate.admit(request).await {
                Ok(request) => inner.call(request).await,
                Err(early) => Ok(early.answer(gate.status_of)),
            }
        })
    }
}

impl Gate {
    fn without_body<B>(&self, request: &Request<B>) -> Option<Result<Answer, Refused>> {
        match *request.method() {
            Method::GET => handshake::in_query(request.uri().query()?, &self.keys),
            Method::OPTIONS => handshake::in_headers(request.headers(), &self.keys),
            _ => None,
        }
    }

    async fn admit<B>(&self, request: Request<B>) -> Result<Request<Full<Bytes>>, Early>
    where
        B: Body<Data = Bytes>,
    {
        if let Some(answer) = self.without_body(&request) {
            return Err(Early::Handshake(answer));
        }
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        let is_other = !self.keys.concerns(request.method(), target);
        let (mut parts, body) = request.into_parts();
        let mut body = std::pin::pin!(body);
        let reading = self.read(&parts.headers, body.as_mut());
        let read =
            tokio::time::timeout(self.admission.bounds.body_time, reading).await.unwrap_or(Err(Early::Slow));
        if matches!(read, Err(Early::Large { .. })) {
            linger(&parts.headers, body).await;
        }
        let (body, room) = read?;
        if is_other {
            debug!(rule = Rejection::Target.rule(), "refused");
            return Err(Early::Rejected(Rejection::Target));
        }
        let authentic = match verify(self.admission.clock.seconds(), &parts.headers, &body, &self.keys) {
            Ok(verified) => {
                if let Some(answer) = handshake::in_body(&verified, &body, &self.keys) {
                    return Err(Early::Handshake(answer));
                }
                Authentic {
                    id: verified.id.into_owned(),
                    signed_at: verified.signed_at,
                    key: verified.key,
                    room: Arc::new(room),
                }
            }
            Err(rejection) => {
                debug!(rule = rejection.rule(), "refused");
                return Err(Early::Rejected(rejection));
            }
        };
        parts.extensions.insert(authentic);
        Ok(Request::from_parts(parts, Full::new(body)))
    }

    async fn read<B>(
        &self,
        headers: &HeaderMap,
        mut body: Pin<&mut B>,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Early>
    where
        B: Body<Data = Bytes>,
    {
        let announced =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > self.admission.bounds.body_bytes.into()) {
            return Err(Early::Large { max: self.admission.bounds.body_bytes });
        }
        let mut room = self.set_aside(0)?;
        let mut total = 0_u32;
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            // Trailers are not signed.
            let Ok(data) = frame.map_err(|_| Early::CutShort)?.into_data() else { continue };
            let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
            total = total.saturating_add(length);
            if total > self.admission.bounds.body_bytes {
                return Err(Early::Large { max: self.admission.bounds.body_bytes });
            }
            let set_aside = u32::try_from(room.num_permits()).unwrap_or(u32::MAX);
            room.merge(self.set_aside(total.saturating_sub(BODY_BYTES_FREE).saturating_sub(set_aside))?);
            if first.is_empty() && rest.is_empty() {
                first = data;
            } else {
                rest.extend_from_slice(&std::mem::take(&mut first));
                rest.extend_from_slice(&data);
            }
        }
        Ok((if rest.is_empty() { first } else { rest.freeze() }, room))
    }

    fn set_aside(&self, bytes: u32) -> Result<OwnedSemaphorePermit, Early> {
        Arc::clone(&self.admission.room).try_acquire_many_owned(bytes).map_err(|_| Early::NoRoom)
    }
}

/// A client that still writes does not read the answer.
pub(crate) async fn linger<B: Body<Data = Bytes>>(headers: &HeaderMap, mut body: Pin<&mut B>) {
    // With `Expect`, the client has not begun to write.
    if headers.contains_key(EXPECT) {
        return;
    }
    let reading = async {
        let mut read = 0;
        while read < LINGER_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // The answer is the same after a timeout.
    let _ = tokio::time::timeout(LINGER_TIME_MAX, reading).await;
}

enum Early {
    Handshake(Result<Answer, Refused>),
    Large { max: u32 },
    Slow,
    CutShort,
    NoRoom,
    Rejected(Rejection),
}

impl Early {
    fn answer<R: From<Bytes>>(self, status_of: fn(&Rejection) -> StatusCode) -> Response<R> {
        match self {
            Self::Handshake(answer) => answer::handshake(answer),
            Self::Large { max } => closing(text(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is too long; expected at most {max} bytes"),
            )),
            Self::Slow => closing(text(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
            Self::CutShort => closing(text(StatusCode::BAD_REQUEST, "the body ended early")),
            Self::NoRoom => closing(overloaded("too many bodies are read at once", MEMORY_RETRY_AFTER)),
            Self::Rejected(rejection) => rejected(&rejection, status_of(&rejection)),
        }
    }
}
