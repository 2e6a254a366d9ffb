//! The lines of a trace, as they are written. Times are nanoseconds since the run began, on the harness's
//! monotonic clock. Subscribers and endpoints have the scenario's names, with `-1`, `-2`, … where one entry
//! counts several.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Process, Undone};
use super::harness::{Declared, Handshake, Offset, Public, Stall, Stray, Unoffered};
use super::machine::{Ceiling, ClockSet, Machine};
use super::said::{Dead, Depth};
use super::shared::{Shared, Text};

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "kebab-case")]
pub enum Record {
    /// The first line.
    Header(Box<Header>),
    /// An event was written to the sender's API.
    Offer(Offer),
    /// The sender took responsibility for an event.
    Accepted(Accepted),
    /// The sender refused an event, or did not answer.
    Refused(Refused),
    /// A whole request was read at an endpoint.
    Arrival(Arrival),
    /// An endpoint answered.
    Answer(Answer),
    /// An endpoint ended an exchange without an answer.
    Cut(Cut),
    /// A fault was injected into the sender under test.
    Fault(Fault),
    /// An event in the life of a process of the sender under test.
    Process(Process),
    /// The sender under test reported its queue and its cost.
    Depth(Depth),
    /// The sender under test listed a delivery as given up.
    Dead(Dead),
    /// Two subscribers were given the same secret.
    SharedSecret(SharedSecret),
    /// The machine's own limit.
    Ceiling(Ceiling),
    /// The machine of the run.
    Machine(Machine),
    /// The machine's wall clock was set.
    ClockSet(ClockSet),
    /// The driver file's declarations about the sender.
    Declared(Declared),
    /// A thread of the harness stood still.
    Stall(Stall),
    /// An event was never written to the sender's API.
    Unoffered(Unoffered),
    /// The offset of the sender's clock.
    Offset(Offset),
    /// The form of subscribers' URLs.
    Public(Public),
    /// A request or handshake that matched no endpoint.
    Stray(Stray),
    /// TLS was agreed on a connection.
    Handshake(Handshake),
    /// A planned fault was not injected.
    Undone(Undone),
    /// The last line. A trace without it was cut short.
    Trailer(Trailer),
}

/// The identity of a run: scenario, schedule, seed, driver, clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format of this trace.
    pub format: u32,
    /// Hookproof's version.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// SHA-256 of the scenario after `--set`, in hexadecimal.
    pub scenario_sha256: String,
    /// SHA-256 of the schedule, in hexadecimal.
    pub schedule_sha256: String,
    /// The seed of the schedule and of the endpoints' choices.
    pub seed: u64,
    /// The driver's name.
    pub driver: String,
    /// `real` or `virtual`.
    pub clock: ClockKind,
    /// The smallest step seen on the clock.
    pub clock_resolution_ns: u64,
    /// Wall-clock time of the run's beginning, in Unix nanoseconds.
    pub began_unix_ns: u64,
    /// The scenario as it was run, so that a trace can be judged without its file.
    pub scenario_toml: String,
}

/// The clock of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    /// The machine's.
    Real,
    /// The simulator's.
    Virtual,
}

/// An event was written to the sender's API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// When the harness began to write its call.
    pub t: u64,
    /// When the schedule had it.
    pub intended: u64,
    /// How long it waited for the sender's answers to earlier calls: the sender's delay. The rest of the time
    /// from `intended` to `t` is the harness's own lag.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub held: u64,
    /// The harness's name for the event, unique in the run unless the event was offered twice on purpose.
    pub token: u64,
    /// The event's type.
    #[serde(rename = "type")]
    pub kind: Text,
    /// The event's key.
    pub key: Text,
    /// The subscribers that it is owed to, by the scenario's patterns.
    pub owed: Shared<[Text]>,
}

/// The sender took responsibility for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// When its answer was read.
    pub t: u64,
    /// The event.
    pub token: u64,
    /// The answer's status.
    pub status: u16,
    /// The number of matching subscribers, where the sender reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u32>,
}

/// The sender did not take responsibility for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// When the harness knew.
    pub t: u64,
    /// The event.
    pub token: u64,
    /// The answer's status; none if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `Retry-After` of the answer, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// Whether the outcome is in doubt: the answer was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The error, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A request reached an endpoint. Its number is its place in the order of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// When its first byte was read.
    pub t: u64,
    /// When its last byte was read.
    pub read: u64,
    /// Its number, from 0, by which answers and cuts refer to it.
    pub n: u64,
    /// The subscriber whose endpoint it is.
    pub endpoint: Text,
    /// The connection, numbered over the run.
    pub connection: u64,
    /// The harness's token, found in the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Further tokens in the body of a request that carries several events.
    #[serde(default, skip_serializing_if = "<[u64]>::is_empty")]
    pub more: Box<[u64]>,
    /// The delivery's id, from the profile's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The attempt's number, where a header carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Text>,
    /// The parts that most requests to an endpoint share.
    #[serde(flatten)]
    pub head: Shared<Head>,
    /// The body's length.
    pub bytes: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub sha256: Text,
    /// Its signature.
    #[serde(flatten)]
    pub signed: Signed,
}

/// The parts that most requests to an endpoint share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// Its method.
    pub method: Text,
    /// Its path.
    pub path: Text,
    /// Its content type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Text>,
}

/// The signature of an arrival, and the verifier's verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signed {
    /// The signature header, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<str>>,
    /// The verdict of the harness's own verifier.
    pub verified: Verified,
    /// The timestamp header, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Text>,
}

/// The verdict of the harness's own verifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verified {
    /// Right, by these of the subscriber's keys (0 is the oldest).
    Keys(Shared<[usize]>),
    /// Wrong, and the reason.
    No(Text),
    /// Not checked, and the reason: the harness lacks a secret or does not know the profile.
    Unchecked(Text),
}

/// An endpoint answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// When the first byte was written.
    pub t: u64,
    /// When the last byte was written.
    pub end: u64,
    /// The arrival that it answers.
    pub n: u64,
    /// Its status.
    pub status: u16,
    /// `Retry-After`, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Text>,
    /// Whether the whole answer was written.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub whole: bool,
}

/// An exchange ended without an answer, or a connection without a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// When.
    pub t: u64,
    /// The endpoint.
    pub endpoint: Text,
    /// The arrival, if one was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// How it ended.
    pub how: CutKind,
    /// When the first byte of an incomplete request was read; none for an arrival, or without a byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// The harness's token, if the incomplete request had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
}

/// How an exchange ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutKind {
    /// The endpoint reset the connection before it read.
    Reset,
    /// The endpoint read the request and reset the connection.
    ResetAfterRead,
    /// The endpoint closed the connection.
    Close,
    /// The endpoint sent half an answer and closed.
    HalfAnswer,
    /// The endpoint never answered; `t` is when the peer gave up, or the run ended.
    Blackhole,
    /// The peer went away before the endpoint had answered.
    PeerGone,
    /// The bytes were no request.
    Malformed,
    /// The run ended with the exchange open.
    RunEnded,
}

/// A subscriber was given the secret of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSecret {
    /// When.
    pub t: u64,
    /// The subscriber.
    pub endpoint: String,
    /// The other one.
    pub with: String,
}

/// The totals of a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trailer {
    /// When the run ended.
    pub t: u64,
    /// How.
    pub ended: Ended,
    /// Lines before this one.
    pub lines: u64,
    /// Events offered.
    pub offers: u64,
    /// Arrivals.
    pub arrivals: u64,
    /// Whether the sender lists its dead letters one by one: subscriber, token, reason.
    #[serde(default)]
    pub dead_listed: bool,
    /// Events that the generator released later than its budget.
    pub late: u64,
    /// Records that were lost to a full buffer. More than 0 makes the trace inconclusive.
    pub dropped: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All was settled, or `drain` had passed.
    Done,
    /// The run was interrupted.
    Interrupted,
    /// The sender died for good.
    SenderGone,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_nothing(nanos: &u64) -> bool {
    *nanos == 0
}
