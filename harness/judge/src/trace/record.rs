//! The lines of a trace, as they are written, with repeated values kept once. Times are nanoseconds since the
//! run began, on the harness's monotonic clock. Subscribers and endpoints have the scenario's names, with
//! `-1`, `-2`, … where one entry counts several.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::{Fault, Process, Undone};
use super::harness::{
    Asked, Ceiling, ClockSet, Dead, Declared, Depth, Handshake, Machine, Offset, Public, ShownCertificate,
    Stall, Stray, Unoffered,
};

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
    Certificate(ShownCertificate),
    Permission(Asked),
    Undone(Undone),
    /// The last line. A trace without it was cut short.
    Trailer(Trailer),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub format: u32,
    pub version: String,
    pub scenario: String,
    /// After `--set`, in hexadecimal.
    pub scenario_sha256: String,
    /// In hexadecimal.
    pub schedule_sha256: String,
    pub seed: u64,
    pub driver: String,
    pub clock: ClockKind,
    pub clock_resolution_ns: u64,
    pub began_unix_ns: u64,
    /// As it was run: a trace can be judged without its file.
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
    pub intended: u64,
    /// Wait for the sender's answers to earlier calls; the rest of the time from `intended` to `t` is the harness's lag.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub held: u64,
    /// Unique in the run unless the event was offered twice on purpose.
    pub token: u64,
    #[serde(rename = "type")]
    pub kind: Text,
    pub key: Text,
    pub owed: Shared<[Text]>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    pub t: u64,
    pub token: u64,
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    pub t: u64,
    pub token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// Whether the outcome is in doubt: the answer was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_off: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Its number is its place in the order of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrival {
    pub t: u64,
    pub read: u64,
    /// From 0; answers and cuts refer to it.
    pub n: u64,
    pub endpoint: Text,
    /// Numbered over the run.
    pub connection: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Further tokens of a request that carries several events.
    #[serde(default, skip_serializing_if = "<[u64]>::is_empty")]
    pub more: Box<[u64]>,
    /// From the profile's header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Text>,
    #[serde(flatten)]
    pub head: Shared<Head>,
    pub bytes: u64,
    pub sha256: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    #[serde(flatten)]
    pub signed: Signed,
}

/// The harness compares each body as it arrives: the trace holds no bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Each of its events has the offered data, type and key.
    Intact,
    /// One differs, with the first difference.
    Altered(Text),
    /// The harness could not read the body, for this reason.
    Unread(Text),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    pub method: Text,
    pub path: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Text>,
    /// The first flaw in its bytes that HTTP forbids a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden: Option<Text>,
    /// The value of `WebHook-Request-Origin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Text>,
    /// Whether it came over HTTP/2, where a library reads the bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub http2: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Box<str>>,
    pub verified: Verified,
    /// Signatures that no known key made, beside one that a known key made.
    #[serde(default, skip_serializing_if = "is_none")]
    pub surplus: u32,
    /// Where the request holds one of the subscriber's secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disclosed: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Text>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verified {
    /// Valid, by these of the subscriber's keys (0 is the oldest).
    Keys(Shared<[usize]>),
    /// Invalid, with the reason.
    No(Text),
    Unchecked(Text),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub t: u64,
    pub end: u64,
    pub n: u64,
    pub status: u16,
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
    /// None for an arrival, or without a byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutKind {
    Reset,
    ResetAfterRead,
    Close,
    HalfAnswer,
    /// The endpoint never answered; `t` is when the peer gave up, or the run ended.
    Blackhole,
    PeerGone,
    Malformed,
    RunEnded,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedSecret {
    pub t: u64,
    pub endpoint: String,
    pub with: String,
}

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
    SenderGone,
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_nothing(nanos: &u64) -> bool {
    *nanos == 0
}

/// Bounds the memory for a trace without repetition.
const KNOWN_MAX: usize = 1 << 16;

struct Known<T: ?Sized>(HashSet<Shared<T>>);

impl<T: ?Sized> Default for Known<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Known<T> {
    /// Replaces a value by a known equal one, or remembers it.
    fn share(&mut self, value: &mut Shared<T>) {
        if let Some(known) = self.0.get(&**value) {
            *value = known.clone();
            return;
        }
        if self.0.len() == KNOWN_MAX {
            self.0.clear();
        }
        self.0.insert(value.clone());
    }
}

#[derive(Default)]
pub(super) struct Shares {
    texts: Known<str>,
    lists: Known<[Text]>,
    heads: Known<Head>,
    keys: Known<[usize]>,
}

impl Shares {
    pub(super) fn share(&mut self, record: &mut Record) {
        match record {
            Record::Offer(offer) => {
                self.lists.share(&mut offer.owed);
                self.texts([&mut offer.kind, &mut offer.key]);
            }
            Record::Arrival(arrival) => self.arrival(arrival),
            Record::Answer(answer) => self.texts(&mut answer.retry_after),
            Record::Cut(cut) => self.texts([&mut cut.endpoint]),
            _ => {}
        }
    }

    fn arrival(&mut self, arrival: &mut Arrival) {
        self.heads.share(&mut arrival.head);
        self.texts([&mut arrival.endpoint, &mut arrival.sha256]);
        let signed = &mut arrival.signed;
        let more = [&mut arrival.id, &mut arrival.attempt, &mut signed.timestamp, &mut signed.disclosed];
        self.texts(more.into_iter().flatten());
        match &mut signed.verified {
            Verified::Keys(keys) => self.keys.share(keys),
            Verified::No(why) | Verified::Unchecked(why) => self.texts.share(why),
        }
        if let Some(Payload::Altered(why) | Payload::Unread(why)) = &mut arrival.payload {
            self.texts.share(why);
        }
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a mut Text>) {
        texts.into_iter().for_each(|text| self.texts.share(text));
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T: ?Sized>(pub(super) Arc<T>);

pub type Text = Shared<str>;

impl Text {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: ?Sized> Shared<T> {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Default for Shared<T>
where
    Arc<T>: Default,
{
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Borrow<T> for Shared<T> {
    fn borrow(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl<T> From<Vec<T>> for Shared<[T]> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::from(list))
    }
}

impl<T> FromIterator<T> for Shared<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Self(list.into_iter().collect())
    }
}

impl<T: ?Sized + Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for Shared<T>
where
    Box<T>: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<T>::deserialize(deserializer).map(|value| Self(Arc::from(value)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_different_ones_are_not_mixed_up() {
        let mut known = Known::<str>::default();
        let mut texts = ["a", "b", "a"].map(Text::from);
        assert!(!Arc::ptr_eq(&texts[0].0, &texts[2].0));
        texts.iter_mut().for_each(|text| known.share(text));
        assert!(Arc::ptr_eq(&texts[0].0, &texts[2].0));
        assert_eq!(texts.map(|text| text.to_string()), ["a", "b", "a"]);
    }

    #[test]
    fn no_more_values_are_known_than_the_bound() {
        let mut known = Known::<[usize]>::default();
        for at in 0..=KNOWN_MAX {
            known.share(&mut vec![at].into());
            assert!(known.0.len() <= KNOWN_MAX);
        }
        assert_eq!(known.0.len(), 1);
    }
}
