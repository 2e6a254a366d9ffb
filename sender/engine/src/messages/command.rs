//! Commands to a store.
//!
//! The sender of a command matches patterns, shapes bodies and signs. The store adds only facts that it alone knows,
//! and refuses the rest.

use std::borrow::Cow;
use std::sync::Arc;

pub use hookproof_words::ids::OutboxId;
pub use hookproof_words::states::{AttemptOutcome, Condition, Fate, Reason};
use sha2::{Digest as _, Sha256};

pub use super::job::Dead;
use super::job::{JobKind, JobState, SetJob, StartJob, StepJob};
use super::lane::{Bounds, LaneState, OwnerId, Pause, Secret};
use super::node::{Announcement, Homes};
use super::token::StoredToken;
use crate::engine::breaker::Disabled;
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};

#[derive(Clone, Debug)]
pub enum Command {
    Emit(Emit),
    /// Set aside an outbox row that cannot become an event.
    RejectOutbox(RejectOutbox),
    /// Hand out due deliveries. Writes nothing, except that an unreadable delivery becomes a dead letter
    /// (`unreadable`).
    Claim(Claim),
    Settle(Vec<Settlement>),
    Persist(Persist),
    Acquire(Acquire),
    Renew(Renew),
    /// Declare an owner dead: its lanes are free at once, and it is no node.
    Evict(OwnerId),
    /// Stop being a node: no lane belongs to the owner. It keeps its present lanes until it hands them back.
    Retire(OwnerId),
    Drain(Drain),
    Subscribe(Subscribe),
    Change(Change),
    Rotate(Rotate),
    /// Remove a subscriber. Its waiting deliveries become dead letters (`gone`) in later [`Sweep`]s.
    Remove(LaneId),
    Redrive(Redrive),
    Forget(Forget),
    Erase(Erase),
    Reseal(Reseal),
    Retry(Retry),
    /// Have a settled delivery wait again, with the same id and body.
    Resend(DeliveryId),
    Shed(Shed),
    /// Expired deliveries, and deliveries to removed subscribers, become dead letters.
    Sweep(Sweep),
    Purge(Purge),
    StartJob(StartJob),
    StepJob(StepJob),
    SetJob(SetJob),
    CreateToken(StoredToken),
    /// By its name.
    RevokeToken(Arc<str>),
    Attributed(Box<Attributed>),
}

/// A command, and who gives it. Its commit records the change, unless it is refused or does nothing.
#[derive(Clone, Debug)]
pub struct Attributed {
    pub by: Arc<str>,
    /// A delivery, a node or the way to a data subject. Other commands name theirs themselves.
    pub subject: Option<Arc<str>>,
    pub command: Command,
}

/// If the lane of one target is full and refuses, nothing is recorded, and the emitter may try again.
#[derive(Clone, Debug)]
pub struct Emit {
    /// The targets were chosen from this version of the subscribers. If a changed subscriber is a target or matches the
    /// type, the store refuses the event ([`super::Refusal::StaleRoster`]), and the emitter matches it again.
    pub roster: u64,
    pub id: Arc<str>,
    /// The id was made for this command, so no recorded event has it.
    pub id_is_new: bool,
    pub kind: Arc<str>,
    pub key: Option<Arc<str>>,
    pub received: StoreTime,
    pub bodies: Vec<Body>,
    /// The lanes of the deliveries, each once. Without targets nothing is recorded.
    pub targets: Vec<Target>,
    /// Refuse the whole event if a lane has no room. Otherwise the lanes with room get it, and the same id,
    /// emitted again, goes to the others only.
    pub atomic: bool,
    /// Some matching lanes are left out, so the event is taken in part in any case.
    pub withheld: bool,
    /// The transaction for the last of its lanes deletes the row; until then the row stays with the event's id. If
    /// the row is missing or has another id, the event is refused.
    pub outbox: Option<OutboxId>,
    /// The change that the event notifies operators of, recorded with it.
    pub notifies: Option<Transition>,
}

/// A change of a subscriber's conditions. The store refuses it unless `ends` was notified, and `begins` was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub lane: LaneId,
    pub ends: Option<Condition>,
    pub begins: Option<Condition>,
}

#[derive(Clone, Debug)]
pub struct Target {
    pub lane: LaneId,
    pub body: usize,
    /// No attempt starts before this time.
    pub due: StoreTime,
    /// No attempt starts at or after this time.
    pub expires: StoreTime,
    /// The delivery is left out if its lane received the same event id less than this ago.
    pub dedupe: Nanos,
    pub coalesce: Option<Coalesce>,
    /// Only for profiles that sign once for all attempts.
    pub signature: Option<Arc<str>>,
}

/// Of the deliveries with one lane and key inside a window, the newest is sent at the end of the window.
#[derive(Clone, Debug)]
pub struct Coalesce {
    pub key: Arc<str>,
    /// How long the first of them waits.
    pub window: Nanos,
}

#[derive(Clone, Debug)]
pub struct RejectOutbox {
    pub id: OutboxId,
    pub why: String,
}

/// Oldest due time first.
#[derive(Clone, Debug)]
pub struct Claim {
    pub lane: LaneId,
    pub term: Term,
    pub max: u32,
    /// The most bytes of bodies. If the first body is longer, no delivery comes, and [`Claimed::too_long`] has
    /// its length.
    ///
    /// [`Claimed::too_long`]: super::reply::Claimed::too_long
    pub bytes_max: u64,
}

#[derive(Clone, Debug)]
pub struct Settlement {
    pub lane: LaneId,
    /// The ownership of its claim. If it has ended, only [`Fate::Delivered`] still counts.
    pub term: Term,
    pub delivery: DeliveryId,
    /// Attempts made so far.
    pub attempts: u32,
    pub fate: Fate,
    /// Disables an active lane, unless [`Retried::asked`](super::lane::Retried) is greater.
    pub disables: Option<(Disabled, u64)>,
    /// The attempt behind the result, if any. It is recorded even if the rest is not applied.
    pub attempt: Option<Attempt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub at: StoreTime,
    pub latency: Nanos,
    pub outcome: AttemptOutcome,
    pub status: Option<u16>,
    /// The failure in a few words; cut to [`Attempt::ERROR_BYTES_MAX`].
    pub error: Option<Box<str>>,
    pub body_hash: u64,
    /// When its event was received, for metrics. Nothing in an attempt read from the store.
    pub received: Option<StoreTime>,
    pub details: Details,
}

/// Shown to operators only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// To connect, TLS included. Nothing on a kept connection.
    pub connect: Option<Nanos>,
    /// From the attempt's start to the first byte of its answer.
    pub first_byte: Option<Nanos>,
    /// The next attempt follows `Retry-After`, not the backoff.
    pub asked: bool,
    /// Nothing if it succeeded, or was empty.
    pub answer: Option<Arc<KeptAnswer>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptAnswer {
    /// A line `name: value` for each kept header.
    pub head: String,
    /// At most [`Self::BODY_BYTES_MAX`] bytes.
    pub body: Vec<u8>,
    pub cut: bool,
}

impl KeptAnswer {
    pub const BODY_BYTES_MAX: usize = 2048;
    pub const VALUE_BYTES_MAX: usize = 256;
    /// The most of a lane: a newer one replaces an older one.
    pub const OF_LANE_MAX: u64 = 64;
    /// Of several headers of one name, the first is kept.
    pub const HEADERS: [&str; 11] = [
        "content-type",
        "content-encoding",
        "retry-after",
        "location",
        "server",
        "via",
        "request-id",
        "x-request-id",
        "x-correlation-id",
        "x-amzn-requestid",
        "cf-ray",
    ];

    #[must_use]
    pub fn with_headers<'h>(value: impl Fn(&'static str) -> Option<&'h [u8]>) -> Self {
        let mut head = String::new();
        for name in Self::HEADERS {
            let Some(value) = value(name) else { continue };
            let mut value = String::from_utf8_lossy(value.trim_ascii()).replace(['\r', '\n'], " ");
            value.truncate(value.floor_char_boundary(Self::VALUE_BYTES_MAX));
            head.extend([name, ": ", &value, "\n"]);
        }
        Self { head, ..Self::default() }
    }

    pub fn add_body(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(Self::BODY_BYTES_MAX - self.body.len());
        self.body.extend_from_slice(&bytes[..kept]);
        self.cut |= kept < bytes.len();
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }

    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.lines().filter_map(|line| line.split_once(": "))
    }

    /// Bytes that are not UTF-8 show as U+FFFD. A character that the cut splits is left out.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let whole = match std::str::from_utf8(&self.body) {
            Err(error) if self.cut && error.error_len().is_none() => &self.body[..error.valid_up_to()],
            _ => &self.body,
        };
        String::from_utf8_lossy(whole)
    }
}

impl Attempt {
    pub const ERROR_BYTES_MAX: usize = 200;

    /// Without the parts that may name a data subject.
    #[must_use]
    pub fn erased(&self) -> Self {
        let details = Details { answer: None, ..self.details.clone() };
        Self { error: None, body_hash: 0, details, ..self.clone() }
    }
}

#[derive(Clone, Debug)]
pub struct Persist {
    pub lane: LaneId,
    pub term: Term,
    /// The store does not read it.
    pub record: Box<[u8]>,
    /// Nothing is under way and nothing more will be sent: the lane becomes free.
    pub hand_back: bool,
}

#[derive(Clone, Debug)]
pub struct Acquire {
    pub owner: OwnerId,
    /// The length of the owner's leases from now. A length and not a moment, because the clocks of processes
    /// may differ.
    pub lease: Nanos,
    pub which: LaneSelection,
    /// Only lanes whose home is the owner; without homes, all of them.
    pub homes: Option<Arc<Homes>>,
    pub max: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneSelection {
    /// Active lanes with waiting deliveries, in ascending order.
    WithWork {
        after: LaneId,
    },
    All,
    These(Vec<LaneId>),
}

#[derive(Clone, Debug)]
pub struct Renew {
    pub owner: OwnerId,
    /// Counts from now.
    pub lease: Nanos,
    /// The owner's announcement, which makes it a node. Without one, it stays as it is.
    pub announce: Option<Arc<Announcement>>,
}

impl Command {
    #[must_use]
    pub fn by(self, by: &Arc<str>, subject: Option<&str>) -> Self {
        let (by, subject) = (Arc::clone(by), subject.map(Into::into));
        Self::Attributed(Box::new(Attributed { by, subject, command: self }))
    }

    /// The operation in the API's document, if it is a change that operators or programs make.
    #[must_use]
    pub fn operation(&self) -> Option<&'static str> {
        Some(match self {
            Self::Subscribe(_) => "addSubscriber",
            Self::Change(Change { state: Some(LaneState::Paused), .. }) => "pauseSubscriber",
            Self::Change(Change { state: Some(LaneState::Active), .. }) => "resumeSubscriber",
            Self::Change(_) => "changeSubscriber",
            Self::Rotate(_) => "rotateSecret",
            Self::Remove(_) => "removeSubscriber",
            Self::Emit(_) => "testSubscriber",
            Self::Retry(Retry { which: ToRetry::Of(_), .. }) => "retrySubscriber",
            Self::Retry(Retry { which: ToRetry::This(_), .. }) => "retryDelivery",
            Self::Resend(_) => "resendDelivery",
            Self::Erase(_) => "forgetSubject",
            Self::StartJob(StartJob { task, .. }) => match task.kind {
                JobKind::Redrive => "redriveDead",
                JobKind::Purge => "purgeDead",
                JobKind::Shed => "shedSubscriber",
                JobKind::Replay => "replaySubscriber",
            },
            Self::SetJob(SetJob { state: JobState::Paused, .. }) => "pauseJob",
            Self::SetJob(SetJob { state: JobState::Running, .. }) => "resumeJob",
            Self::SetJob(SetJob { state: JobState::Cancelled, .. }) => "cancelJob",
            Self::Drain(Drain { draining: true, .. }) => "drainNode",
            Self::Drain(Drain { draining: false, .. }) => "resumeNode",
            Self::CreateToken(_) => "createToken",
            Self::RevokeToken(_) => "revokeToken",
            _ => return None,
        })
    }

    /// Without its attribution.
    #[must_use]
    pub fn itself(&self) -> &Self {
        match self {
            Self::Attributed(attributed) => attributed.command.itself(),
            command => command,
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Emit(_) => "emit an event",
            Self::RejectOutbox(_) => "reject an outbox row",
            Self::Claim(_) => "claim deliveries",
            Self::Settle(_) => "settle deliveries",
            Self::Persist(_) => "write a lane's checkpoint",
            Self::Acquire(_) => "acquire lanes",
            Self::Renew(_) => "renew a lease",
            Self::Evict(_) => "evict an owner",
            Self::Retire(_) => "retire a node",
            Self::Drain(_) => "drain a node",
            Self::Subscribe(_) => "add a subscriber",
            Self::Change(_) => "change a subscriber",
            Self::Rotate(_) => "rotate a secret",
            Self::Remove(_) => "remove a subscriber",
            Self::Redrive(_) => "redrive dead letters",
            Self::Forget(_) => "purge dead letters",
            Self::Erase(_) => "forget a data subject",
            Self::Reseal(_) => "encrypt stored values",
            Self::Retry(_) => "retry deliveries",
            Self::Resend(_) => "send a delivery again",
            Self::Shed(_) => "shed waiting deliveries",
            Self::Sweep(_) => "sweep",
            Self::Purge(_) => "purge",
            Self::StartJob(_) => "start a job",
            Self::StepJob(_) => "work at a job",
            Self::SetJob(_) => "change a job",
            Self::CreateToken(_) => "make a token",
            Self::RevokeToken(_) => "revoke a token",
            Self::Attributed(attributed) => attributed.command.name(),
        }
    }

    /// An estimate, for the bound on a commit.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self.itself() {
            Self::Emit(emit) => 1 + emit.bodies.len() + emit.targets.len(),
            Self::Settle(settlements) => settlements.len(),
            Self::Erase(Erase { of_event, max, .. }) => {
                of_event.saturating_add(usize::try_from(*max).unwrap_or(usize::MAX))
            }
            Self::Redrive(Redrive { max, .. })
            | Self::Forget(Forget { max, .. })
            | Self::Retry(Retry { max, .. })
            | Self::Shed(Shed { max, .. })
            | Self::Sweep(Sweep { max })
            | Self::StepJob(StepJob { max, .. })
            | Self::Reseal(Reseal { max, .. })
            | Self::Purge(Purge { max, .. }) => usize::try_from(*max).unwrap_or(usize::MAX),
            _ => 1,
        }
    }

    /// An estimate, for the bounds on a commit and on the queue before it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // An estimate of a row's fixed part in memory.
        const ROW: usize = 100;
        let payload = match self.itself() {
            Self::Emit(emit) => emit.bodies.iter().map(|body| body.bytes.len()).sum(),
            Self::Persist(persist) => persist.record.len(),
            Self::Settle(settlements) => {
                let attempts = settlements.iter().filter_map(|settlement| settlement.attempt.as_ref());
                let answers = attempts.filter_map(|attempt| attempt.details.answer.as_ref());
                answers.map(|answer| answer.head.len() + answer.body.len()).sum()
            }
            _ => 0,
        };
        let rows = match self.itself() {
            Self::Emit(_) | Self::Settle(_) => self.rows(),
            _ => 1,
        };
        payload.saturating_add(rows.saturating_mul(ROW))
    }

    /// A full queue refuses such commands first.
    #[must_use]
    pub fn adds_work(&self) -> bool {
        matches!(self.itself(), Self::Emit(_))
    }

    #[must_use]
    pub const fn is_frequent(&self) -> bool {
        matches!(self, Self::Emit(_) | Self::Claim(_) | Self::Settle(_))
    }

    /// True if cached queue state survives this command: lanes keep their owners, and claimed deliveries stay unchanged
    /// until they are settled. After every other command the cache is dropped.
    #[must_use]
    pub const fn spares_queues(&self) -> bool {
        matches!(self, Self::Renew(_) | Self::Persist(Persist { hand_back: false, .. })) || self.is_frequent()
    }

    #[must_use]
    pub const fn only_reads(&self) -> bool {
        matches!(self, Self::Claim(_))
    }
}

/// The same bytes for every attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub bytes: Arc<[u8]>,
}

impl Body {
    /// The first eight bytes of the SHA-256, big-endian: enough to compare the bodies of attempts.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let digest: [u8; 32] = Sha256::digest(&self.bytes).into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

pub const SECRETS_MAX: usize = 4;

#[derive(Clone, Debug)]
pub struct Subscribe {
    pub id: Arc<str>,
    /// The name for people: unique among subscribers that are not removed.
    pub name: Arc<str>,
    pub url: Arc<str>,
    /// The wanted event types, as JSON text. The store reads them only to find the subscribers of an event that
    /// was matched before a change.
    pub patterns: Arc<str>,
    /// All other settings, as JSON text. The store does not read them.
    pub settings: Arc<str>,
    pub bounds: Bounds,
    pub secret: Secret,
}

/// `None` leaves a value unchanged.
#[derive(Clone, Debug)]
pub struct Change {
    pub lane: LaneId,
    /// Refuse unless the subscriber still has this version.
    pub version: Option<u64>,
    pub name: Option<Arc<str>>,
    pub url: Option<Arc<str>>,
    pub patterns: Option<Arc<str>>,
    pub settings: Option<Arc<str>>,
    /// New bounds. Waiting deliveries beyond them stay; no delivery is added until it fits.
    pub bounds: Option<Bounds>,
    pub state: Option<LaneState>,
    /// Kept with [`LaneState::Paused`].
    pub pause: Pause,
}

impl Change {
    #[must_use]
    pub const fn of(lane: LaneId) -> Self {
        Self {
            lane,
            version: None,
            name: None,
            url: None,
            patterns: None,
            settings: None,
            bounds: None,
            state: None,
            pause: Pause { reason: None, until: None },
        }
    }
}

#[derive(Clone, Debug)]
pub struct Rotate {
    pub lane: LaneId,
    pub secret: Secret,
    /// When the old secrets stop signing, unless they retire sooner. By the wall clock and not the store's,
    /// because receivers were told a date.
    pub retire: StoreTime,
    pub now: StoreTime,
}

/// Drains a node or ends that. Valid for this run of its process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    pub owner: OwnerId,
    /// True: the node takes no lanes and hands its lanes back.
    pub draining: bool,
}

/// Lets dead letters wait again, oldest first, with no attempts made and a full time to live. Stops at a bound
/// and never sheds.
#[derive(Clone, Debug)]
pub struct Redrive {
    pub which: Dead,
    pub after: Option<DeliveryId>,
    pub max: u32,
}

#[derive(Clone, Debug)]
pub struct Forget {
    pub which: Dead,
    pub after: Option<DeliveryId>,
    pub max: u32,
}

/// Erases a delivery's whole event: what attempts left, in as many commands as that takes, then all else at once.
/// Nothing of it is claimed again.
#[derive(Clone, Copy, Debug)]
pub struct Erase {
    pub delivery: DeliveryId,
    /// The event's deliveries, for [`Command::rows`].
    pub of_event: usize,
    pub plan: bool,
    /// Continues a plan: [`super::Reply::Erased`].
    pub after: Option<DeliveryId>,
    /// At least the attempts of one delivery.
    pub max: u32,
}

/// Seals the values of some rows with the first key, where they have another or none.
#[derive(Clone, Copy, Debug)]
pub struct Reseal {
    pub from: (SealedTable, u64),
    pub max: u32,
}

/// The order of the steps. The last one has all other keys forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedTable {
    Events,
    FurtherBodies,
    Subscribers,
    Secrets,
    Answers,
    Changes,
    Proof,
}

impl SealedTable {
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Events => Some(Self::FurtherBodies),
            Self::FurtherBodies => Some(Self::Subscribers),
            Self::Subscribers => Some(Self::Secrets),
            Self::Secrets => Some(Self::Answers),
            Self::Answers => Some(Self::Changes),
            Self::Changes => Some(Self::Proof),
            Self::Proof => None,
        }
    }
}

/// Tries an endpoint at once, because an operator mended it: an open breaker lets one probe through, and retries are
/// due now. Every limit holds.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    pub which: ToRetry,
    /// End the pause that the endpoint asked for by `Retry-After`.
    pub insist: bool,
    /// Ask for the probe. False in the steps after the first one.
    pub probe: bool,
    pub max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToRetry {
    Of(LaneId),
    This(DeliveryId),
}

/// Sheds a lane's deliveries with the oldest due times, except claimed ones.
#[derive(Clone, Copy, Debug)]
pub struct Shed {
    pub lane: LaneId,
    pub max: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    pub max: u32,
}

/// One step of deleting old rows. An event goes with its deliveries, once all of them have been settled for
/// long enough.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Delete events with all deliveries delivered or coalesced before this time. It must be at least the
    /// dedupe window ago, because a deleted event is no duplicate of a new one.
    pub settled_before: StoreTime,
    pub attempts_before: StoreTime,
    pub dead_before: StoreTime,
    pub changes_before: StoreTime,
    pub max: u32,
}
