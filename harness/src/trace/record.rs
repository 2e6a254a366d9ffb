//! The lines of a trace, as they are written. Times are nanoseconds since the run began, on the harness's one monotonic
//! clock; names of subscribers and endpoints are those of the scenario, with `-1`, `-2`, … where it counts several.

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
    /// The sender said no to an event, or said nothing.
    Refused(Refused),
    /// A whole request was read at an endpoint.
    Arrival(Arrival),
    /// An endpoint answered.
    Answer(Answer),
    /// An endpoint ended an exchange without an answer.
    Cut(Cut),
    /// Something was done to the sender under test.
    Fault(Fault),
    /// Something happened to a process of the sender under test.
    Process(Process),
    /// What the sender under test said of its queue, and what it cost.
    Depth(Depth),
    /// The sender under test listed a delivery as given up.
    Dead(Dead),
    /// Two subscribers were given the same secret.
    SharedSecret(SharedSecret),
    /// What the machine itself can do.
    Ceiling(Ceiling),
    /// What the run ran on.
    Machine(Machine),
    /// The machine's wall clock was set.
    ClockSet(ClockSet),
    /// What the driver file says of the sender.
    Declared(Declared),
    /// A thread of the harness stood still.
    Stall(Stall),
    /// An event that was never written to the sender's API.
    Unoffered(Unoffered),
    /// How far the sender's clock is off.
    Offset(Offset),
    /// How subscribers' URLs look.
    Public(Public),
    /// What came to no endpoint.
    Stray(Stray),
    /// TLS was agreed on a connection.
    Handshake(Handshake),
    /// Something that was not done to the sender under test.
    Undone(Undone),
    /// The last line. A trace without it was cut short.
    Trailer(Trailer),
}

/// What was run, on what, and which contracts bind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Of this format.
    pub format: u32,
    /// Of Hookproof.
    pub version: String,
    /// The scenario's name.
    pub scenario: String,
    /// SHA-256 of the scenario after `--set`, in hexadecimal.
    pub scenario_sha256: String,
    /// SHA-256 of the schedule, in hexadecimal.
    pub schedule_sha256: String,
    /// What made the schedule and the endpoints' choices.
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

/// Whose time the trace is in.
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
    /// When the call that carries it began to be written.
    pub t: u64,
    /// When the schedule wanted it.
    pub intended: u64,
    /// How long it waited for the sender to answer earlier calls: the sender's delay, not the generator's. The rest of the
    /// time from `intended` to `t` is the harness's own lag.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub held: u64,
    /// The harness's own name for the event, unique in the run unless it was offered twice on purpose.
    pub token: u64,
    /// The event's type.
    #[serde(rename = "type")]
    pub kind: Text,
    /// The event's key.
    pub key: Text,
    /// The subscribers that must get it, by the scenario's patterns.
    pub owed: Shared<[Text]>,
}

/// The sender took responsibility for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// When its answer was read.
    pub t: u64,
    /// Which event.
    pub token: u64,
    /// The answer's status.
    pub status: u16,
    /// How many subscribers it matched, where the sender says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u32>,
}

/// The sender did not take responsibility for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// When that was known.
    pub t: u64,
    /// Which event.
    pub token: u64,
    /// The answer's status; none if there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `Retry-After` of the answer, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// Whether the event may have been taken all the same (the answer was lost).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// What went wrong, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A request reached an endpoint. Its place in the trace is its place in the order of arrivals.
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
    /// The harness's token found in the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Further tokens in the body, where one request carries several events.
    #[serde(default, skip_serializing_if = "<[u64]>::is_empty")]
    pub more: Box<[u64]>,
    /// The delivery's id, from the profile's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The attempt's number, where a header carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Text>,
    /// What it has in common with most others of its endpoint.
    #[serde(flatten)]
    pub head: Shared<Head>,
    /// The body's length.
    pub bytes: u64,
    /// SHA-256 of the body, in hexadecimal.
    pub sha256: Text,
    /// What it was signed with.
    #[serde(flatten)]
    pub signed: Signed,
}

/// What most requests to an endpoint have in common.
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

/// What an arrival was signed with, and whether it is right.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signed {
    /// The signature header, word for word. Hardly two are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<str>>,
    /// What the harness's own verifier says of it.
    pub verified: Verified,
    /// The timestamp header, word for word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Text>,
}

/// What the harness's own verifier says of a signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verified {
    /// It is right, by these of the subscriber's keys (0 is the oldest).
    Keys(Shared<[usize]>),
    /// It is wrong, and why.
    No(Text),
    /// A secret is not known to the harness, or the profile isn't.
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
    /// Whether the whole answer could be written.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub whole: bool,
}

/// An exchange ended without an answer, or a connection without a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// When.
    pub t: u64,
    /// The endpoint where it was.
    pub endpoint: Text,
    /// The arrival, if one was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// How it ended.
    pub how: CutKind,
    /// When the first byte of a request was read that was not read whole; none if there was no byte, or an arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// The harness's token, if what was read of such a request had it.
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
    /// The endpoint never answered; this is when the peer gave up, or the run ended.
    Blackhole,
    /// The peer went away before the endpoint had answered.
    PeerGone,
    /// What came is no request.
    Malformed,
    /// The run ended with the exchange open.
    RunEnded,
}

/// A subscriber was given a secret that another one has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSecret {
    /// When.
    pub t: u64,
    /// Whose endpoint.
    pub endpoint: String,
    /// Whose it is as well.
    pub with: String,
}

/// What a whole trace holds.
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
    /// Dead letters by name, where the sender lists them: subscriber, token, reason.
    #[serde(default)]
    pub dead_listed: bool,
    /// Events that the generator released later than its budget allows.
    pub late: u64,
    /// Records that could not be kept, as a buffer was full. More than 0 makes the trace inconclusive.
    pub dropped: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Everything was settled, or `drain` was over.
    Done,
    /// Somebody interrupted it.
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
