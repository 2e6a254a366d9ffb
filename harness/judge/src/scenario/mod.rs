//! The scenario file: a run's traffic, endpoints and faults, and its expectations.
//!
//! A `Scenario` is valid by construction. All problems of a file are reported at once, each with its line. Nothing here
//! touches a disk, a clock or a network.
//!
//! - `quantity`: durations, rates, sizes and ranges.
//! - `traffic`, `subscriber`, `contract`, `behaviour`, `sender`, `fault`, `expect`: the sections.
//! - `document`, `reader`: the parser; `schema`: the JSON Schema for editors; `tests/reference`: the tables of
//!   `docs/scenario.md`.

pub mod behaviour;
pub mod contract;
mod document;
pub mod expect;
pub mod fault;
pub mod quantity;
mod reader;
pub mod sender;
pub mod subscriber;
pub mod traffic;

use std::collections::BTreeSet;
use std::fmt;

pub use crate::spelling::{distance, nearest};
pub use behaviour::{Answer, Behaviour, Certificate, PIECE_BYTES, Reply, RetryAfter};
pub use contract::{Backoff, Breaker, Bucket, Limit, Queue, Retry, Slack, WhenFull};
pub use expect::{
    Duplicates, Expect, Holds, KeptBound, Known, LatencyBound, Percentiles, PressureBound, QueueRows, Speeds,
};
pub use fault::{FaultAction, FaultKind, FaultPlan, Partition};
pub use quantity::{Duration, Millionths, Range, Rate, SECOND, Size, Whole, Window};
use reader::{Form, Need, Problems, Reader, Section, may, must};
pub use sender::{Durability, Setup, Store};
use serde_json::{Map, Value, json};
pub use subscriber::{Coalesce, Handling, Pattern, Permission, Subscriber};
pub use traffic::{COLUMNS, Events, Phase, Shape};

const ROOT: Section = Section {
    about: "A scenario: traffic, subscribers, faults and expectations.",
    fields: &[
        must("name", Form::Text, "its name, also in reports and folders"),
        may("about", Form::Text, "its purpose"),
        may("seed", Form::Count, "the seed of all random choices (default 1)"),
        may(
            "drain",
            Form::Duration,
            "the longest time from the last event until all deliveries are settled (default 60s)",
        ),
        may(
            "linger",
            Form::Duration,
            "a run ends after this time without an arrival, once all is settled (default: the longest timeout plus the \
             first retry delay, 3s to 15s)",
        ),
        may("sender", Form::Table(&sender::SENDER), "the setup of the sender under test"),
        must("traffic", Form::Tables(&traffic::PHASE), "phases of traffic, in order"),
        may("events", Form::Table(&traffic::EVENTS), "the events of the traffic"),
        must("subscriber", Form::Tables(&subscriber::SUBSCRIBER), "the endpoints and their contracts"),
        may(
            "fault",
            Form::Tables(&fault::FAULT),
            "faults that the harness injects into the sender under \
            test",
        ),
        may("expect", Form::Table(&expect::EXPECT), "figures that must hold, and known failures"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    pub seed: u64,
    /// From the last event until all is settled.
    pub drain: Duration,
    /// The run ends after so long without arrivals, open exchanges and outstanding deliveries.
    pub linger: Duration,
    pub sender: Setup,
    /// In order; at least one.
    pub traffic: Vec<Phase>,
    pub events: Events,
    /// At least one; `count` is expanded.
    pub subscribers: Vec<Subscriber>,
    /// Sorted by time.
    pub faults: Vec<FaultPlan>,
    pub expect: Expect,
    /// The file's text; after `--set`, the rewritten document.
    pub text: String,
}

impl Scenario {
    /// `file` is its name in messages. Returns all problems.
    pub fn from_text(text: &str, file: &str) -> Result<Self, Vec<Problem>> {
        Self::from_text_with(text, file, &[])
    }

    /// Each change is given as `key=value`. Returns all problems, also those of the changes.
    pub fn from_text_with(text: &str, file: &str, changes: &[String]) -> Result<Self, Vec<Problem>> {
        let mut document = document::parse(text, file).map_err(|problem| vec![problem])?;
        for change in changes {
            document::set(&mut document, change).map_err(|what| {
                vec![Problem { file: file.to_owned(), line: None, key: String::new(), what }]
            })?;
        }
        let problems = Problems::new(file);
        let scenario =
            Reader::new(&ROOT, &document, String::new(), &problems).and_then(|root| Self::read(&root));
        let text = if changes.is_empty() { text.to_owned() } else { document.to_toml() };
        match (scenario, problems.into_inner()) {
            (Some(scenario), problems) if problems.is_empty() => Ok(Self { text, ..scenario }),
            (_, problems) => Err(problems),
        }
    }

    #[must_use]
    pub fn subscriber(&self, name: &str) -> Option<&Subscriber> {
        self.subscribers.iter().find(|subscriber| subscriber.name == name)
    }

    /// The endpoints then speak TLS.
    #[must_use]
    pub fn shows_wrong_certificates(&self) -> bool {
        let mut behaviours = self.subscribers.iter().flat_map(|one| &one.behaviours);
        behaviours.any(|one| matches!(one.answer, Answer::WrongCertificate(_)))
    }

    #[must_use]
    pub fn is_owed(&self, kind: &str) -> bool {
        self.subscribers.iter().any(|one| one.is_owed(kind))
    }

    /// By number.
    #[must_use]
    pub fn joining(&self) -> BTreeSet<usize> {
        let started = self.faults.iter().filter(|fault| fault.action == FaultAction::Start);
        started.filter_map(|fault| fault.worker.as_ref()?.worker()).collect()
    }

    #[must_use]
    pub fn expected_events(&self) -> u64 {
        u64::try_from(self.traffic.iter().map(Phase::expected_events).sum::<u128>()).unwrap_or(u64::MAX)
    }

    fn read(root: &Reader<'_>) -> Option<Self> {
        let mut faults: Vec<_> = root.tables("fault").iter().flat_map(FaultPlan::read).collect();
        faults.sort_by_key(|fault| fault.at);
        let subscribers = Self::subscribers(root);
        let scenario = Self {
            name: root.get("name").unwrap_or_default(),
            about: root.or("about", String::new()),
            seed: root.or("seed", 1),
            drain: root.or("drain", Duration::from_secs(60)),
            linger: root.get("linger").unwrap_or_else(|| default_linger(&subscribers)),
            sender: root.table("sender").map_or_else(Setup::default, |setup| Setup::read(&setup)),
            traffic: root.tables("traffic").iter().filter_map(Phase::read).collect(),
            events: root.table("events").map_or_else(Events::default, |events| Events::read(&events)),
            subscribers,
            faults,
            expect: root.table("expect").map_or_else(Expect::default, |expect| Expect::read(&expect)),
            text: String::new(),
        };
        scenario.fits_together(root);
        (!scenario.traffic.is_empty() && !scenario.subscribers.is_empty()).then_some(scenario)
    }

    fn subscribers(root: &Reader<'_>) -> Vec<Subscriber> {
        let mut all = Vec::new();
        for reader in root.tables("subscriber") {
            let room = Subscriber::COUNT_MAX.saturating_sub(all.len() as u64);
            all.extend(Subscriber::read(&reader, room));
        }
        all
    }

    fn fits_together(&self, root: &Reader<'_>) {
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        // Dots alone would name the folder itself or its parent.
        let none = self.name.chars().all(|letter| letter == '.');
        if root.has("name") && (none || !self.name.chars().all(fine)) {
            root.wrong(
                "name",
                "expected letters, digits, dots, dashes and underscores, and not only dots, because \
                    folders get this name",
            );
        }
        let mut names: Vec<&str> =
            self.subscribers.iter().map(|subscriber| subscriber.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            root.wrong("subscriber", format!("two subscribers have the name {:?}", twice[0]));
        }
        let groups = || self.subscribers.iter().map(|subscriber| subscriber.group.as_str());
        let knows = |name: &str| groups().any(|group| group == name) || self.subscriber(name).is_some();
        let concerned =
            self.faults.iter().filter_map(|fault| fault.action.subscriber()).map(|name| ("fault", name));
        let timed = self.expect.speeds.names().map(|name| ("expect", name));
        for (key, name) in concerned.chain(timed).filter(|(_, name)| !knows(name)) {
            let hint =
                nearest(name, groups()).map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            root.wrong(key, format!("there is no subscriber {name:?}{hint}"));
        }
        let of_servers = |fault: &&FaultPlan| {
            matches!(fault.action, FaultAction::DatabaseRestart | FaultAction::Partition(_))
        };
        if let Some(fault) =
            self.faults.iter().find(of_servers).filter(|_| self.sender.store == Store::Sqlite)
        {
            let name = fault.action.kind();
            root.wrong(
                "fault",
                format!(
                    "{name} needs a database server: set store = \"postgres\" in \
                [sender]"
                ),
            );
        }
        let targets = || self.faults.iter().filter_map(|fault| fault.worker.as_ref());
        if let Some(name) =
            targets().filter_map(FaultTarget::owner_of).find(|name| self.subscriber(name).is_none())
        {
            let hint = nearest(name, names.iter().copied())
                .map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            root.wrong("fault", format!("no process owns {name:?}: there is no such subscriber{hint}"));
        }
        let number = |target: &FaultTarget| match target {
            FaultTarget::Worker(worker) => Some(*worker),
            FaultTarget::OwnerOf(_) => None,
        };
        if let Some(worker) = targets().filter_map(number).find(|at| *at >= self.sender.workers) {
            root.wrong(
                "fault",
                format!("there is no worker {worker}; expected 0 to {}", self.sender.workers - 1),
            );
        }
    }
}

/// A sender that missed an answer retries after its timeout and its first delay, and the run must see that.
fn default_linger(subscribers: &[Subscriber]) -> Duration {
    let again = |one: &Subscriber| one.timeout.0.saturating_add(one.retry.bounds(1).1);
    let longest = subscribers.iter().map(again).max().unwrap_or(0);
    Duration(longest.clamp(3 * SECOND, 15 * SECOND))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Nanoseconds since the run began.
    pub since: u64,
    pub settled: bool,
    pub open: bool,
    pub came: u64,
}

impl Scenario {
    /// Nothing is outstanding and `linger` has passed without an arrival or an open exchange; or `drain` has passed
    /// with deliveries outstanding; or both have passed.
    #[must_use]
    pub fn is_over(&self, standing: &Standing, now: u64) -> bool {
        let Standing { since, settled, open, came } = *standing;
        let drained = since.saturating_add(self.drain.0);
        if !settled {
            return now >= drained;
        }
        let quiet = !open && now >= came.max(since).saturating_add(self.linger.0);
        quiet || now >= drained.saturating_add(self.linger.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultTarget {
    /// From 0.
    Worker(u32),
    /// The process that serves this subscriber when the fault is due.
    OwnerOf(String),
}

const OWNER_OF: &str = "owner of ";

impl FaultTarget {
    fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix(OWNER_OF).map(str::trim).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| format!("expected a number or \"{OWNER_OF}NAME\", got {text:?}"))?;
        Ok(Self::OwnerOf(name.to_owned()))
    }

    #[must_use]
    pub fn owner_of(&self) -> Option<&str> {
        match self {
            Self::Worker(_) => None,
            Self::OwnerOf(name) => Some(name),
        }
    }

    /// None for an owner.
    #[must_use]
    pub fn worker(&self) -> Option<usize> {
        match self {
            Self::Worker(worker) => usize::try_from(*worker).ok(),
            Self::OwnerOf(_) => None,
        }
    }

    #[must_use]
    pub fn label(&self, struck: Option<usize>) -> String {
        match (self, struck) {
            (Self::Worker(worker), _) => format!("worker {worker}"),
            (Self::OwnerOf(name), Some(worker)) => format!("worker {worker}, {OWNER_OF}{name}"),
            (Self::OwnerOf(name), None) => format!("{OWNER_OF}{name}"),
        }
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label(None))
    }
}

// The JSON Schema, from the reader's own forms, so that both agree.

const LENGTH: &str = "[0-9]+(ns|us|ms|s|min|h|d)";

#[must_use]
pub fn schema() -> Value {
    let mut schema = of_section(&ROOT);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        fields.insert("title".to_owned(), json!("Hookproof scenario"));
    }
    schema
}

fn of_section(section: &Section) -> Value {
    let properties: Map<String, Value> = section
        .fields
        .iter()
        .map(|field| {
            let mut form = of_form(&field.form);
            if let Value::Object(form) = &mut form {
                form.insert("description".to_owned(), json!(field.about));
            }
            (field.key.to_owned(), form)
        })
        .collect();
    let required = section.fields.iter().filter(|field| field.need == Need::Must).map(|field| field.key);
    json!({
        "type": "object",
        "description": section.about,
        "properties": properties,
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn of_form(form: &Form) -> Value {
    let text = |pattern: String| json!({ "type": "string", "pattern": pattern });
    match form {
        Form::Text => json!({ "type": "string" }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Count => json!({ "type": "integer", "minimum": 0 }),
        Form::Decimal => json!({ "type": "number", "minimum": 0 }),
        Form::Duration => text(format!("^{LENGTH}$")),
        Form::Rate => text("^[0-9]+/[0-9]*(ns|us|ms|s|min|h|d)$".to_owned()),
        Form::Size => text("^[0-9]+(B|KB|MB|GB|KiB|MiB|GiB)$".to_owned()),
        Form::Window => text(format!("^[0-9]+ per {LENGTH}$")),
        Form::Day => text("^[0-9]{4}-[0-9]{2}-[0-9]{2}$".to_owned()),
        Form::Durations => text(format!("^{LENGTH}(\\.\\.{LENGTH})?$")),
        Form::Counts => {
            json!({ "oneOf": [of_form(&Form::Count), text("^[0-9]+(\\.\\.[0-9]+)?$".to_owned())] })
        }
        Form::Word(words) => json!({ "enum": words }),
        Form::List(form) => json!({ "type": "array", "items": of_form(form) }),
        Form::Map(form) => json!({ "type": "object", "additionalProperties": of_form(form) }),
        Form::Table(section) => of_section(section),
        Form::Tables(section) => json!({ "type": "array", "items": of_section(section) }),
        Form::Either(one, other) => json!({ "oneOf": [of_form(one), of_form(other)] }),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; none for a missing key, or a value of `--set`.
    pub line: Option<usize>,
    /// From the root: `subscriber[0].limit.rate`. Empty for the file as a whole.
    pub key: String,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests;
