//! The lines of a trace, as they are written. Times are nanoseconds since the run began, on the harness's
//! monotonic clock. Subscribers and endpoints have the scenario's names, with `-1`, `-2`, … where one entry
//! counts several.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Process, Undone};
use super::harness::{Declared, Handshake, Offset, Public, Stall, Stray, Unoffered};
use super::machine::{Ceiling, ClockSet, Machine};
use super::said::{Dead, Depth};
use super::shared::{Shared, Text};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "kebab-case")]
pub enum Record {
    Header(Box<Header>),
    Offer(Offer),
    Accepted(Accepted),
    Refused(Refused),
    Arrival(Arrival),
    Answer(Answer),
    Cut(Cut),
    Fault(Fault),
    Process(Process),
    Depth(Depth),
    Dead(Dead),
    SharedSecret(SharedSecret),
    Ceiling(Ceiling),
    Machine(Machine),
    ClockSet(ClockSet),
    Declared(Declared),
    Stall(Stall),
    Unoffered(Unoffered),
    Offset(Offset),
    Public(Public),
    Stray(Stray),
    Handshake(Handshake),
    Undone(Undone),
    /// The last line. A trace without it was cut short.
    Trailer(Trailer),
}

/// The identity of a run: scenario, schedule, seed, driver, clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    pub version: String,
    pub scenario: String,
    /// SHA-256 of the scenario after `--set`, in hexadecimal.
    pub scenario_sha256: String,
    /// SHA-256 of the schedule, in hexadecimal.
    pub schedule_sha256: String,
    /// The seed of the schedule and of the endpoints' choices.
    pub seed: u64,
    pub driver: String,
    pub clock: ClockKind,
    /// The smallest step seen on the clock.
    pub clock_resolution_ns: u64,
    /// Wall-clock time of the run's beginning, in Unix nanoseconds.
    pub began_unix_ns: u64,
    /// The scenario as it was run, so that a trace can be judged without its file.
    pub scenario_toml: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKind {
    Real,
    Virtual,
}

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
    #[serde(rename = "type")]
    pub kind: Text,
    pub key: Text,
    /// The subscribers that it is owed to, by the scenario's patterns.
    pub owed: Shared<[Text]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// When the answer was read.
    pub t: u64,
    pub token: u64,
    pub status: u16,
    /// Matching subscribers, where the sender reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// When the harness knew.
    pub t: u64,
    pub token: u64,
    /// The status; none without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The `Retry-After` header, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// Whether the outcome is in doubt: the answer was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The error, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Its number is its place in the order of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    /// When its first byte was read.
    pub t: u64,
    /// When its last byte was read.
    pub read: u64,
    /// The number of the arrival, from 0; answers and cuts refer to it.
    pub n: u64,
    pub endpoint: Text,
    /// Numbered over the run.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Text>,
    /// The parts that most requests to an endpoint share.
    #[serde(flatten)]
    pub head: Shared<Head>,
    pub bytes: u64,
    /// The SHA-256 of the body, in hexadecimal.
    pub sha256: Text,
    #[serde(flatten)]
    pub signed: Signed,
}

/// The parts that most requests to an endpoint share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    pub method: Text,
    pub path: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signed {
    /// The signature header, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<str>>,
    pub verified: Verified,
    /// The timestamp header, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Text>,
}

/// The verdict of the harness's own verifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verified {
    /// Valid, by these of the subscriber's keys (0 is the oldest).
    Keys(Shared<[usize]>),
    /// Invalid, with the reason.
    No(Text),
    /// Not checked, and the reason: the harness lacks a secret or does not know the profile.
    Unchecked(Text),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// First byte written.
    pub t: u64,
    /// When the last byte was written.
    pub end: u64,
    /// The arrival that it answers.
    pub n: u64,
    pub status: u16,
    /// The `Retry-After` header, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Text>,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub whole: bool,
}

/// An exchange ended without an answer, or a connection without a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    pub t: u64,
    pub endpoint: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
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
    pub t: u64,
    pub endpoint: String,
    pub with: String,
}

/// The totals of a whole trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trailer {
    pub t: u64,
    pub ended: Ended,
    /// Lines before this one.
    pub lines: u64,
    pub offers: u64,
    pub arrivals: u64,
    /// Whether the sender lists its dead letters one by one: subscriber, token, reason.
    #[serde(default)]
    pub dead_listed: bool,
    /// Events that the generator released later than its budget.
    pub late: u64,
    /// Records that were lost to a full buffer. More than 0 makes the trace inconclusive.
    pub dropped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All was settled, or `drain` had passed.
    Done,
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
