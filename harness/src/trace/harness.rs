//! What a trace says of the harness itself, and of the sender before the run: threads that stood still, events that were
//! not offered, a remote clock, and what the sender's driver file declares.

use serde::{Deserialize, Serialize};

use crate::scenario::{Backoff, Duration, Profile, Retry, Scenario};

/// A thread of the harness stood still. What it stamped in that time may have happened at any moment of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Which thread: [`ENDPOINTS`] stamps arrivals, [`GENERATOR`] releases events.
    pub thread: String,
    /// When it was last seen to run.
    pub from: u64,
    /// When it ran again.
    pub until: u64,
}

/// The thread that stamps arrivals.
pub const ENDPOINTS: &str = "endpoints";
/// The thread that releases events.
pub const GENERATOR: &str = "generator";

/// The name of our own sender's driver file. Nothing is forgiven it.
pub const OURS: &str = "hookproof";

/// An event of the schedule that was never written to the sender's API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unoffered {
    /// When that was known.
    pub t: u64,
    /// When the schedule wanted it.
    pub intended: u64,
    /// Which event.
    pub token: u64,
    /// Why not, for people.
    pub why: String,
}

/// How far the sender's clock is ahead of the harness's, as the `Date` fields of its answers bound it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// When it was worked out.
    pub t: u64,
    /// In nanoseconds; less than 0 where the sender's clock is behind.
    pub ns: i64,
    /// How far the estimate may be off, in nanoseconds.
    pub error: u64,
}

/// How subscribers' URLs look, where they are not their endpoints' own addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Public {
    /// The URL, with `{endpoint}` in place of each one's name.
    pub url: String,
    /// Its path, likewise.
    pub path: String,
}

/// What came to the harness, and to none of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// When.
    pub t: u64,
    /// What it was.
    pub kind: StrayKind,
    /// The harness's token, if what came had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// What it asked for, or what was wrong with it.
    pub said: String,
    /// For how many it stands: one, or all that were not recorded one by one.
    pub count: u64,
}

/// What may come to no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrayKind {
    /// A request whose path or host names no endpoint, or that ended before it named any.
    Request,
    /// A handshake of TLS that came to nothing.
    Handshake,
}

/// A connection on which TLS was agreed: who opened it waits for that with the request in its hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    /// When the connection was accepted.
    pub t: u64,
    /// When TLS was agreed.
    pub until: u64,
    /// The connection, numbered over the run.
    pub connection: u64,
    /// The first arrival on it, once the trace is read.
    #[serde(skip)]
    pub first: Option<u64>,
}

/// How endpoints were reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// By which URLs, where they are not the endpoints' own addresses.
    pub public: Option<Public>,
    /// What came to none of them.
    pub strays: Vec<Stray>,
    /// Over which connections with TLS, in the order of their numbers.
    pub handshakes: Vec<Handshake>,
}

impl Reached {
    /// The path of a subscriber's URL, if it isn't its endpoint's own.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<String> {
        self.public.as_ref().map(|public| public.path.replace("{endpoint}", name))
    }
}

/// What the driver file says of the sender. It is in the trace so that the trace can be judged without that file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// What the sender has no notion of, or the driver file no call for.
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// Fixed retry delays in nanoseconds, in place of each subscriber's backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<u64>>,
    /// By which share, in millionths, a delay of that schedule may be shorter or longer.
    #[serde(default)]
    pub jitter: u64,
    /// How long after an answer the sender has noted it for good, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_within: Option<u64>,
    /// The media type of its deliveries, if it isn't JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// How it signs, whatever the scenario's subscribers want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs: Option<Signs>,
    /// What subscribers were told otherwise than the scenario has it, as the sender can't express it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Told>,
}

/// How a sender signs, as its driver file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signs {
    /// By this profile.
    Profile(String),
    /// In a way of its own, with what its requests carry.
    Own {
        /// A signature.
        signature: bool,
        /// A timestamp.
        timestamp: bool,
        /// The delivery's id.
        id: bool,
        /// Whether the timestamp is signed, so that each attempt has its own signature.
        signs_timestamp: bool,
    },
}

/// A value that a subscriber was told otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Whose.
    pub subscriber: String,
    /// What it is and what was told, for people.
    pub what: String,
}

impl Declared {
    /// Whether the sender or its driver file lacks that.
    #[must_use]
    pub fn lacks(&self, what: Lack) -> bool {
        self.lacks.contains(&what)
    }

    /// The scenario as it binds this sender: with the retry delays and the profile that it declares, and without breakers where
    /// it has none.
    #[must_use]
    pub fn applied(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        for subscriber in &mut scenario.subscribers {
            if let Some(Signs::Profile(name)) = &self.signs {
                subscriber.sign = Profile::named(name).unwrap_or(subscriber.sign);
            }
            if self.lacks(Lack::Breaker) {
                subscriber.breaker = None;
            }
            if let Some(schedule) = &self.schedule {
                let (spread, schedule) =
                    (self.jitter, schedule.iter().copied().map(Duration).collect::<Vec<_>>());
                let attempts = u32::try_from(schedule.len()).unwrap_or(u32::MAX).saturating_add(1);
                let retry = subscriber.retry.clone();
                subscriber.retry = Retry { backoff: Backoff::Fixed, schedule, spread, attempts, ..retry };
            }
        }
        scenario
    }
}

/// Something that a check may need, and not every sender or driver file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// Processes that the harness starts and may kill.
    Start,
    /// Processes that are the harness's own, to be stopped where they stand and measured.
    Process,
    /// The path of a database that the harness may lock.
    Database,
    /// A call that looks into the queue.
    Depth,
    /// A call that lists what is kept of deliveries that were made.
    Kept,
    /// Dead letters, or a call that lists them.
    DeadLetters,
    /// A breaker.
    Breaker,
    /// An order that the first attempts of one key keep.
    Order,
    /// A call that changes a limit.
    Change,
    /// A call that adds a secret.
    Rotate,
    /// A call that sends dead letters again.
    Redrive,
    /// Signatures.
    Signature,
}
