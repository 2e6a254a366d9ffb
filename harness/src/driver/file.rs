//! The driver file: how any sender is started, spoken to and stopped.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::calls::{Dead, Depth, Emit, Owner, Request, length, one_or_more, some_length};
use super::declares::{DeadLetters, Declares};
use super::sign::Sign;
use super::template::Template;
use crate::scenario::Duration;
use crate::trace::{Declared, Lack};

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
    /// How it is connected to.
    #[serde(default)]
    pub connect: Connect,
    /// Calls before anybody subscribes.
    #[serde(default)]
    pub setup: Vec<Request>,
    /// Once for each subscriber, one call after another.
    #[serde(deserialize_with = "one_or_more")]
    pub subscribe: Vec<Request>,
    /// What each subscriber is waited for with, before anything is emitted.
    pub poll: Option<Request>,
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
    /// Once for each subscriber, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub unsubscribe: Vec<Request>,
    /// Calls at the very end, however the run ended.
    #[serde(default, deserialize_with = "one_or_more")]
    pub teardown: Vec<Request>,
    /// How it signs, if not as each subscriber of the scenario wants it.
    pub sign: Option<Sign>,
    /// How it is stopped.
    #[serde(default)]
    pub stop: Stop,
    /// How it is killed, if not by a signal to its process.
    pub kill: Option<Kill>,
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
    /// Whether the command ends once the sender runs, apart from it and from the harness.
    #[serde(default)]
    pub detached: bool,
    /// Further arguments where endpoints speak TLS, so that the sender trusts `{{ ca }}`.
    #[serde(default)]
    pub trust: Vec<Template>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, Template>,
    /// What answers 2xx when it is ready.
    pub ready: Template,
    /// How long that may take.
    #[serde(default = "half_a_minute", deserialize_with = "length")]
    pub within: Duration,
    /// Its SQLite file, for `lock-database` and the size of what is kept; or the address of its database on a server.
    pub database: Option<Template>,
    /// How each of its processes says which subscribers it serves, for `owner of NAME`.
    pub owner: Option<Owner>,
}

/// How a sender is connected to, where it isn't on this machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// A file with certificates of authorities to trust beside the public ones, in PEM; beside this file, if it is relative.
    pub ca: Option<Template>,
    /// A file with a certificate of the harness's own, in PEM.
    pub certificate: Option<Template>,
    /// The file with its key.
    pub key: Option<Template>,
    /// How long a call may take; half a minute without it.
    #[serde(default, deserialize_with = "some_length")]
    pub within: Option<Duration>,
}

/// How a sender is stopped.
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

/// How a sender is killed that is no process of the harness's.
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
    /// The texts of its commands.
    pub(super) fn commands(&self) -> impl Iterator<Item = &Template> {
        self.stop.command.iter().chain(self.kill.iter().flat_map(|kill| &kill.command))
    }

    /// How each of its processes says which subscribers it serves.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.start.as_ref()?.owner.as_ref()
    }

    /// Whether it hands the run's database to the sender that it starts.
    #[must_use]
    pub fn names_database(&self) -> bool {
        let templates = self.start.iter().flat_map(Start::templates);
        templates.flat_map(Template::names).any(|name| name == "database")
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
