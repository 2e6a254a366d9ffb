//! The driver file: how the harness starts, calls and stops a sender.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::calls::{Dead, Depth, Emit, Owner, Request, length, one_or_more, some_length};
use super::declares::{DeadLetters, Declares};
use super::sign::Sign;
use super::template::Template;
use hookproof_judge::scenario::Duration;
use hookproof_judge::trace::{Declared, Lack};

/// A driver file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// The sender's name.
    pub name: String,
    /// How to start it; without this, it runs already.
    pub start: Option<Start>,
    /// The value of `{{ base }}`; by default the loopback address with the port.
    pub base: Option<Template>,
    /// How to connect to it.
    #[serde(default)]
    pub connect: Connect,
    /// Calls before the first subscription.
    #[serde(default)]
    pub setup: Vec<Request>,
    /// Calls for each subscriber, in order.
    #[serde(deserialize_with = "one_or_more")]
    pub subscribe: Vec<Request>,
    /// A call for each subscriber that is repeated until the sender serves it, before the first event.
    pub poll: Option<Request>,
    /// The call for each event, or each batch.
    pub emit: Emit,
    /// Its differences from the scenario's assumptions.
    #[serde(default)]
    pub declares: Declares,
    /// How to read its queue.
    pub depth: Option<Depth>,
    /// How to list its dead letters.
    pub dead: Option<Dead>,
    /// How to change a subscriber's limit.
    pub change: Option<Request>,
    /// How to give a subscriber a new secret.
    pub rotate: Option<Request>,
    /// How to redrive a subscriber's dead letters.
    pub redrive: Option<Request>,
    /// Calls for each subscriber at the end, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub unsubscribe: Vec<Request>,
    /// Calls at the very end, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub teardown: Vec<Request>,
    /// How it signs, unless as each subscriber of the scenario wants it.
    pub sign: Option<Sign>,
    /// How to stop it.
    #[serde(default)]
    pub stop: Stop,
    /// How to kill it, unless by a signal to its process.
    pub kill: Option<Kill>,
    /// The environment variables that the file names.
    #[serde(skip)]
    pub environment: Vec<String>,
}

/// How to start a sender.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<Template>,
    /// Whether the command ends while the sender runs on, apart from the harness.
    #[serde(default)]
    pub detached: bool,
    /// Further arguments where endpoints speak TLS, so that the sender trusts `{{ ca }}`.
    #[serde(default)]
    pub trust: Vec<Template>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, Template>,
    /// A URL that answers 2xx once it is ready.
    pub ready: Template,
    /// The time limit for that.
    #[serde(default = "half_a_minute", deserialize_with = "length")]
    pub within: Duration,
    /// Its SQLite file, for `lock-database` and for its size on disk; or the address of its database server.
    pub database: Option<Template>,
    /// How to ask each process which subscribers it serves, for `owner of NAME`.
    pub owner: Option<Owner>,
}

/// How to connect to a sender that is not on this machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// A PEM file with certificates of trusted authorities, beside the public ones; relative to the driver
    /// file.
    pub ca: Option<Template>,
    /// A PEM file with the harness's own certificate.
    pub certificate: Option<Template>,
    /// The file with its key.
    pub key: Option<Template>,
    /// The time limit of a call; half a minute by default.
    #[serde(default, deserialize_with = "some_length")]
    pub within: Option<Duration>,
}

/// How to stop a sender.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The signal.
    #[serde(default)]
    pub signal: StopSignal,
    /// In its place, a program and its arguments.
    #[serde(default)]
    pub command: Vec<Template>,
}

/// How to kill a sender that is no process of the harness.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// The program and its arguments.
    pub command: Vec<Template>,
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

impl Start {
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        let owner = self.owner.iter().flat_map(|owner| owner.headers.values().chain([&owner.request]));
        self.command
            .iter()
            .chain(&self.trust)
            .chain(self.env.values())
            .chain([&self.ready])
            .chain(&self.database)
            .chain(owner)
    }
}

impl DriverFile {
    pub(super) fn commands(&self) -> impl Iterator<Item = &Template> {
        self.stop.command.iter().chain(self.kill.iter().flat_map(|kill| &kill.command))
    }

    /// The call that asks each process which subscribers it serves.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.start.as_ref()?.owner.as_ref()
    }

    /// Whether it gives the run's database to the sender that it starts.
    #[must_use]
    pub fn names_database(&self) -> bool {
        let templates = self.start.iter().flat_map(Start::templates);
        templates.flat_map(Template::names).any(|name| name == "database")
    }

    /// The declarations for the trace, including calls that the file lacks.
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
            (self.start.as_ref().is_some_and(|start| start.detached), Lack::Process),
            (declares.breaker == Some(false), Lack::Breaker),
            (declares.ordered == Some(false), Lack::Order),
            (self.change.is_none(), Lack::Change),
            (self.rotate.is_none(), Lack::Rotate),
            (self.redrive.is_none(), Lack::Redrive),
            (self.sign.as_ref().is_some_and(|sign| !sign.scheme.is_signed()), Lack::Signature),
        ];
        let nanos = |delays: &Vec<Duration>| delays.iter().map(|delay| delay.0).collect();
        Declared {
            lacks: rows.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect(),
            schedule: declares.schedule.as_ref().map(nanos),
            jitter: declares.jitter.map_or(0, |share| share.0),
            confirmed_within: declares.confirmed_within.map(|length| length.0),
            content_type: declares.content_type.clone(),
            signs: self.sign.as_ref().map(Sign::declared),
            told: Vec::new(),
        }
    }
}

const fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}
