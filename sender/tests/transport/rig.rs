use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hookproof_sender::boot_clock::BootClock;
use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::guard::{Guard, Target};
use hookproof_sender::oauth::OauthClient;
use hookproof_sender::permission::Permission;
use hookproof_sender::sign::{Attempt, ExtraHeader, Headers, Keys, Profile, Secret, Signer};
use hookproof_sender::store::command::Details;
use hookproof_sender::tls_files::TlsFiles;
use hookproof_sender::transport::{
    AttemptResult, CancellationToken, Destination, Lease, Request, SendPermit, Settings, Transport,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A deadline that must not pass.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A deadline that must pass.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Part of every target, and of no message.
pub(crate) const TOKEN: &str = "s3cret";

pub(crate) fn transport() -> Transport {
    Transport::new(Settings::default(), lenient())
}

pub(crate) fn lenient() -> Guard {
    Guard::strict().allow_private_targets()
}

pub(crate) struct Post {
    target: Destination,
    headers: Headers,
    extra: Vec<ExtraHeader>,
    pub(crate) lane: LaneId,
    pub(crate) body: Arc<[u8]>,
    pub(crate) deadline: Duration,
    pub(crate) connect_deadline: Duration,
    pub(crate) connections_max: u32,
}

pub(crate) fn post(base: impl std::fmt::Display) -> Post {
    let url = Target::parse(&format!("{base}/hooks?token={TOKEN}"), &lenient()).unwrap();
    Post {
        target: Destination { url, tls: None, oauth: None, permission: None, late_max: nanos(LONG) },
        headers: signed(Profile::Github, ""),
        extra: Vec::new(),
        lane: LaneId(1),
        body: Arc::from(*br#"{"id":"evt_1"}"#),
        deadline: LONG,
        connect_deadline: LONG,
        connections_max: 8,
    }
}

impl Post {
    pub(crate) fn lane(self, lane: u64) -> Self {
        Self { lane: LaneId(lane), ..self }
    }

    pub(crate) fn body(self, body: impl Into<Arc<[u8]>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// An abandoned request leaves within this time, or never.
    pub(crate) fn late_max(mut self, late_max: Duration) -> Self {
        self.target.late_max = nanos(late_max);
        self
    }

    pub(crate) fn tls(mut self, files: TlsFiles) -> Self {
        self.target.tls = Some(Arc::new(files));
        self
    }

    pub(crate) fn oauth(mut self, client: OauthClient) -> Self {
        self.target.oauth = Some(Arc::new(client));
        self
    }

    pub(crate) fn permission(mut self, permission: Permission) -> Self {
        self.target.permission = Some(Arc::new(permission));
        self
    }

    pub(crate) fn to(mut self, url: Target) -> Self {
        self.target.url = url;
        self
    }

    pub(crate) fn signed_as(self, profile: Profile) -> Self {
        Self { headers: signed(profile, self.target.url.as_str()), ..self }
    }

    pub(crate) fn extra(self, headers: &[&str]) -> Self {
        Self { extra: headers.iter().map(|text| text.parse().unwrap()).collect(), ..self }
    }

    pub(crate) fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn connect_deadline(self, connect_deadline: Duration) -> Self {
        Self { connect_deadline, ..self }
    }

    pub(crate) fn connections_max(self, connections_max: u32) -> Self {
        Self { connections_max, ..self }
    }

    pub(crate) async fn through(&self, transport: &Transport) -> AttemptResult {
        self.with_permit(transport, permit(self.deadline)).await
    }

    pub(crate) async fn with_permit(&self, transport: &Transport, permit: SendPermit) -> AttemptResult {
        transport.attempt(&self.request(permit), &mut Details::default()).await
    }

    pub(crate) fn request(&self, permit: SendPermit) -> Request<'_> {
        Request {
            lane: self.lane,
            target: &self.target,
            headers: &self.headers,
            extra: &self.extra,
            body: &self.body,
            deadline: self.deadline,
            permit,
            connect_deadline: self.connect_deadline,
            connections_max: NonZeroU32::new(self.connections_max).unwrap(),
        }
    }
}

pub(crate) fn permit(deadline: Duration) -> SendPermit {
    let at = |length: Duration| BootClock::default().now().after(nanos(length));
    let cancelled = CancellationToken::new();
    SendPermit { deadline: at(deadline), lease: Lease::until(at(2 * LONG)), cancelled }
}

fn nanos(length: Duration) -> Nanos {
    Nanos(u64::try_from(length.as_nanos()).unwrap())
}

pub(crate) fn withdrawn() -> SendPermit {
    let permit = permit(LONG);
    permit.cancelled.cancel();
    permit
}

pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx))).await
}

fn signed(profile: Profile, url: &str) -> Headers {
    let signer = Signer::new(profile, &Keys::new(Secret::generate(profile, &[1; 32]))).unwrap().with_url(url);
    let mut headers = Headers::new();
    let attempt = Attempt {
        id: &"evt_01hf7yat000000000000000000".parse().unwrap(),
        event_type: &"video.trending".parse().unwrap(),
        subscriber: &"sub_01hf7yat000000000000000000".parse().unwrap(),
        number: 1,
        frozen: None,
        body: b"",
    };
    signer.sign(hookproof_sender::engine::StoreTime(0), &attempt, &mut headers);
    headers
}

/// Events arrive in order, and this one is last.
pub(crate) async fn all_events_are_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut one = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut other, _) = listener.accept().await.unwrap();
    one.write_all(b"x").await.unwrap();
    other.read_exact(&mut [0]).await.unwrap();
}

/// Such as `answered 204`, `unsent connect`, `silent deadline`. A failure's message must be short, on one line, and
/// without the URL's secret parts.
pub(crate) fn brief(made: &AttemptResult) -> String {
    if let Some(failure) = made.failure() {
        let (said, shown) = (failure.to_string(), format!("{made:?}"));
        assert!(!said.contains(TOKEN) && !shown.contains(TOKEN), "{said} {shown}");
        assert!(said.len() < 300 && !said.contains(char::is_control), "{said:?}");
    }
    match made {
        AttemptResult::Answered(answered) => {
            format!("answered {}{}", answered.status, if answered.cut { " cut" } else { "" })
        }
        AttemptResult::Unsent(failure) => format!("unsent {}", failure.code()),
        AttemptResult::Silent(failure) => format!("silent {}", failure.code()),
    }
}

#[track_caller]
pub(crate) fn check(made: &AttemptResult, expected: &str) {
    assert_eq!(brief(made), expected, "{made:?}");
}
