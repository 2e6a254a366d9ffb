//! The driver file: how any sender is started, spoken to and stopped.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Deserializer};

use super::declares::{DeadLetters, Declares};
use super::error::FileError;
use super::template::Template;
use crate::scenario::{Duration, Size};
use crate::trace::{Declared, Lack};
use crate::wire::Profile;

/// Our own sender's driver file. It goes the way of every other.
const HOOKPROOF: &str = include_str!("../../../scenarios/drivers/hookproof.toml");

/// A driver file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// The sender's name.
    pub name: String,
    /// How it is started; without it, it is running already.
    pub start: Option<Start>,
    /// What `{{ base }}` stands for, if it isn't the loopback address with the port.
    pub base: Option<Template>,
    /// Calls before anybody subscribes.
    #[serde(default)]
    pub setup: Vec<Request>,
    /// Once for each subscriber.
    pub subscribe: Request,
    /// Once for each event, or each batch of them.
    pub emit: Emit,
    /// What it has no notion of, or does in its own way.
    #[serde(default)]
    pub declares: Declares,
    /// How its queue is looked into.
    pub depth: Option<Depth>,
    /// How its dead letters are listed.
    pub dead: Option<Dead>,
    /// How a subscriber's limit is changed.
    pub change: Option<Request>,
    /// How a subscriber gets another secret.
    pub rotate: Option<Request>,
    /// How a subscriber's dead letters are sent again.
    pub redrive: Option<Request>,
    /// How it signs, if not as each subscriber of the scenario wants it.
    pub sign: Option<Sign>,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// The environment variables that it names.
    #[serde(skip)]
    pub environment: Vec<String>,
}

/// How a sender is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<Template>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, Template>,
    /// What answers 2xx when it is ready.
    pub ready: Template,
    /// How long that may take.
    #[serde(default = "half_a_minute", deserialize_with = "length")]
    pub within: Duration,
    /// Its SQLite file, for `lock-database` and the size of what is kept.
    pub database: Option<Template>,
    /// How each of its processes says which subscribers it serves, for `owner of NAME`.
    pub owner: Option<Owner>,
}

/// A call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Method and URL.
    pub request: Template,
    /// Header fields; `content-type: application/json` beside a body, if none is given.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The body.
    pub body: Option<Template>,
    /// Which statuses are right; 2xx without it.
    #[serde(default)]
    pub accept: Vec<u16>,
    /// What is taken out of its answer: a variable's name, and a JSON pointer.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
}

/// How events are emitted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emit {
    /// Method and URL.
    pub request: Template,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The body of one event; in a batch, its line.
    pub body: Template,
    /// Which statuses say that all of it was taken; 2xx without it.
    #[serde(default)]
    pub accept: Vec<u16>,
    /// Whether one call takes many events, one on each line.
    #[serde(default)]
    pub batch: bool,
    /// The most events of a batch: 1 to 10,000.
    #[serde(default = "five_hundred", deserialize_with = "up_to::<_, 10_000>")]
    pub batch_max: usize,
    /// The most bytes of event data in a batch; a single event may have more. 8 MiB without it.
    #[serde(default = "eight_mib", deserialize_with = "size")]
    pub batch_bytes_max: Size,
    /// Calls that may be under way at once: 1 to 1,000.
    #[serde(default = "four", deserialize_with = "up_to::<_, 1_000>")]
    pub calls: usize,
    /// Where the answer, or each of its lines, says how many subscribers an event matched.
    pub matched: Option<String>,
    /// Where a line of the answer says its own status; a line without it was taken.
    pub status: Option<String>,
}

/// How the queue is looked into.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Depth {
    /// Method and URL.
    pub request: Template,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// How many deliveries wait.
    pub pointer: String,
    /// Their bytes.
    pub bytes: Option<String>,
    /// Dead letters so far.
    pub dead: Option<String>,
    /// Deliveries done so far.
    pub delivered: Option<String>,
    /// Deliveries replaced by newer ones so far.
    pub coalesced: Option<String>,
    /// The same of each subscriber.
    pub each: Option<Each>,
    /// How what is kept of deliveries that were made is listed.
    pub kept: Option<Kept>,
}

/// How what a sender keeps of deliveries that were made is listed, the oldest among the first.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Method and URL.
    pub request: Template,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The list.
    pub list: String,
    /// When each of its items was delivered.
    pub delivered: String,
}

/// Where each subscriber's queue stands in the same answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// The list.
    pub list: String,
    /// The subscriber's name in each of its items.
    pub name: String,
    /// How many deliveries wait.
    pub pointer: String,
    /// Their bytes.
    pub bytes: Option<String>,
    /// Dead letters so far.
    pub dead: Option<String>,
    /// Deliveries done so far.
    pub delivered: Option<String>,
    /// Deliveries replaced by newer ones so far.
    pub coalesced: Option<String>,
}

/// How dead letters are listed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// Method and URL of the first page.
    pub request: Template,
    /// Method and URL of a further page, which may name `{{ next }}`. Needed beside `next`.
    pub page: Option<Template>,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The list.
    pub list: String,
    /// What the next page is asked for with; nothing there on the last page.
    pub next: Option<String>,
    /// The subscriber in each item: its name, or what was saved as `id`.
    pub subscriber: String,
    /// The delivery's id.
    pub id: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The number of attempts.
    pub attempts: Option<String>,
}

/// How a process says which subscribers it serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Method and URL; asked of each process.
    pub request: Template,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Template>,
    /// The list of subscribers.
    pub list: String,
    /// The subscriber's name in each of its items.
    pub name: String,
    /// What is there, neither null nor false, where the process that is asked serves it.
    pub here: String,
}

/// How a sender signs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sign {
    /// The profile, in the scenario's word.
    #[serde(deserialize_with = "profile")]
    pub profile: Profile,
    /// What stands in its header names in place of `webhook-`, such as `svix-`.
    #[serde(default, deserialize_with = "header_prefix")]
    pub header_prefix: Option<String>,
}

/// How a sender is stopped.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal.
    pub signal: StopSignal,
}

/// A signal that asks a process to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// `SIGTERM`
    #[default]
    Term,
    /// `SIGINT`
    Int,
    /// `SIGQUIT`
    Quit,
}

impl Default for Stop {
    fn default() -> Self {
        Self { signal: StopSignal::Term }
    }
}

impl DriverFile {
    /// How each of its processes says which subscribers it serves.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.start.as_ref()?.owner.as_ref()
    }

    /// What the trace says of the sender: what the file declares, and for what it has no call.
    #[must_use]
    pub fn declared(&self) -> Declared {
        let declares = &self.declares;
        let silent = matches!(declares.dead_letter, Some(DeadLetters::Kept(false)));
        let rows = [
            (self.start.is_none(), Lack::Start),
            (self.start.as_ref().is_none_or(|start| start.database.is_none()), Lack::Database),
            (self.depth.is_none(), Lack::Depth),
            (self.depth.as_ref().is_none_or(|depth| depth.kept.is_none()), Lack::Kept),
            (silent || self.dead.is_none(), Lack::DeadLetters),
            (declares.breaker == Some(false), Lack::Breaker),
            (declares.ordered == Some(false), Lack::Order),
            (self.change.is_none(), Lack::Change),
            (self.rotate.is_none(), Lack::Rotate),
            (self.redrive.is_none(), Lack::Redrive),
        ];
        let nanos = |delays: &Vec<Duration>| delays.iter().map(|delay| delay.0).collect();
        Declared {
            lacks: rows.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect(),
            schedule: declares.schedule.as_ref().map(nanos),
            jitter: declares.jitter.map_or(0, |share| share.0),
            confirmed_within: declares.confirmed_within.map(|length| length.0),
        }
    }

    /// Our own sender's.
    pub fn hookproof() -> Result<Self, FileError> {
        Self::parse(HOOKPROOF, "hookproof")
    }

    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| FileError::Read { path: path.to_owned(), error })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads a file's text.
    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        let file: Self = toml::from_str(text)
            .map_err(|error| FileError::Parse { name: name.to_owned(), error: Box::new(error) })?;
        let prefixed = file.sign.as_ref().filter(|sign| sign.header_prefix.is_some());
        if prefixed.is_some_and(|sign| sign.profile != Profile::StandardWebhooks) {
            return Err(FileError::Prefix { name: name.to_owned() });
        }
        if file.dead.as_ref().is_some_and(|dead| dead.next.is_some() && dead.page.is_none()) {
            return Err(FileError::Page { name: name.to_owned() });
        }
        Ok(Self { environment: environment(text), ..file })
    }
}

/// The environment variables in the holes of a text.
fn environment(text: &str) -> Vec<String> {
    let holes = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    let names = holes.filter_map(|(hole, _)| hole.split('|').next()?.trim().strip_prefix("env."));
    names.map(str::to_owned).collect()
}

fn length<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map_err(|problem| serde::de::Error::custom(format_args!("{text:?}: {problem}")))
}

fn size<'de, D: Deserializer<'de>>(source: D) -> Result<Size, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map_err(|problem| serde::de::Error::custom(format_args!("{text:?}: {problem}")))
}

/// A number from 1 to `MOST`.
fn up_to<'de, D: Deserializer<'de>, const MOST: usize>(source: D) -> Result<usize, D::Error> {
    let number = usize::deserialize(source)?;
    if (1..=MOST).contains(&number) {
        return Ok(number);
    }
    Err(serde::de::Error::custom(format_args!("{number}: expected 1 to {MOST}")))
}

fn profile<'de, D: Deserializer<'de>>(source: D) -> Result<Profile, D::Error> {
    String::deserialize(source)?.parse().map_err(serde::de::Error::custom)
}

fn header_prefix<'de, D: Deserializer<'de>>(source: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(source)?.to_ascii_lowercase();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.is_empty() || !text.bytes().all(is_name) {
        let what = format!("{text:?}: expected the beginning of a header's name, such as \"svix-\"");
        return Err(serde::de::Error::custom(what));
    }
    Ok(Some(text))
}

const fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

const fn five_hundred() -> usize {
    500
}

const fn eight_mib() -> Size {
    Size(8 << 20)
}

const fn four() -> usize {
    4
}

#[cfg(test)]
mod tests;
