//! The scenario file: a run's traffic, endpoints and faults, and its expectations.
//!
//! ```text
//!  TOML ──► document (a tree with lines) ──► --set ──► reader, by the forms of sections ──► Scenario
//! ```
//!
//! A `Scenario` is valid by construction: units parsed, counts expanded, keys known. All problems of a file are
//! reported at once, each with its line. Nothing here touches a disk, a clock or a network.
//!
//! - `quantity`: durations, rates, sizes and ranges.
//! - `traffic`, `subscriber`, `contract`, `retry`, `behaviour`, `sender`, `fault`, `expect`: the sections.
//! - `partition`: separations of a process and its database server; `target`: a fault's process; `ending`: the end
//!   of a run.
//! - `form`, `reader`, `document`: the parser; `schema`: the JSON Schema for editors; `tests/reference`: the
//!   tables of `docs/scenario.md`.

pub mod behaviour;
pub mod contract;
mod document;
mod ending;
pub mod expect;
pub mod fault;
mod form;
mod partition;
pub mod problem;
pub mod quantity;
mod reader;
pub mod retry;
pub mod schema;
pub mod sender;
pub mod subscriber;
mod target;
pub mod traffic;

pub use behaviour::{Answer, Behaviour, PIECE_BYTES, Reply, RetryAfter};
pub use contract::{Bucket, Limit, Queue, Slack, WhenFull};
pub use ending::Standing;
pub use expect::{
    Duplicates, Expect, Holds, KeptBound, Known, LatencyBound, Percentiles, PressureBound, QueueRows, Speeds,
};
pub use fault::{FaultAction, FaultKind, FaultPlan};
pub use partition::Partition;
pub use problem::Problem;
pub use quantity::{Duration, Millionths, Range, Rate, SECOND, Size, Whole, Window};
pub use retry::{Backoff, Breaker, Retry};
pub use sender::{Durability, Setup, Store};
pub use subscriber::{Coalesce, Handling, Pattern, Subscriber};
pub use target::FaultTarget;
pub use traffic::{Events, Phase, Shape};

use std::collections::BTreeSet;

use form::{Form, Section, may, must};
use reader::{Problems, Reader};

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
        may("fault", Form::Tables(&fault::FAULT), "disturbances of the sender under test"),
        may("expect", Form::Table(&expect::EXPECT), "figures that must hold, and known failures"),
    ],
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    pub seed: u64,
    /// The longest time from the last event until all is settled.
    pub drain: Duration,
    /// The time without arrivals, open exchanges and outstanding deliveries that ends a run.
    pub linger: Duration,
    pub sender: Setup,
    /// The phases of traffic in order; at least one.
    pub traffic: Vec<Phase>,
    pub events: Events,
    /// The endpoints with their contracts, at least one; `count` is expanded.
    pub subscribers: Vec<Subscriber>,
    /// The planned faults, sorted by time.
    pub faults: Vec<FaultPlan>,
    pub expect: Expect,
    /// The file's text; after `--set`, the rewritten document.
    pub text: String,
}

impl Scenario {
    /// Reads a scenario; `file` is its name in messages.
    ///
    /// # Errors All of its problems.
    pub fn from_text(text: &str, file: &str) -> Result<Self, Vec<Problem>> {
        Self::from_text_with(text, file, &[])
    }

    /// Reads a scenario after changes, each given as `key=value`.
    ///
    /// # Errors All of its problems, and those of the changes.
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

    /// The processes that a fault starts, by number.
    #[must_use]
    pub fn joining(&self) -> BTreeSet<usize> {
        let started = self.faults.iter().filter(|fault| fault.action == FaultAction::Start);
        started.filter_map(|fault| fault.worker.as_ref()?.worker()).collect()
    }

    /// The approximate number of its events.
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

    /// Checks across sections.
    fn fits_together(&self, root: &Reader<'_>) {
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        // Dots alone would name the folder itself or its parent.
        let none = self.name.chars().all(|letter| letter == '.');
        if root.has("name") && (none || !self.name.chars().all(fine)) {
            root.wrong(
                "name",
                "expected letters, digits, dots, dashes and underscores, and not dots alone: folders are called after it",
            );
        }
        let mut names: Vec<&str> =
            self.subscribers.iter().map(|subscriber| subscriber.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            root.wrong("subscriber", format!("two subscribers are called {:?}", twice[0]));
        }
        let groups = || self.subscribers.iter().map(|subscriber| subscriber.group.as_str());
        let knows = |name: &str| groups().any(|group| group == name) || self.subscriber(name).is_some();
        let concerned =
            self.faults.iter().filter_map(|fault| fault.action.subscriber()).map(|name| ("fault", name));
        let timed = self.expect.speeds.names().map(|name| ("expect", name));
        for (key, name) in concerned.chain(timed).filter(|(_, name)| !knows(name)) {
            let hint = problem::nearest(name, groups())
                .map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            root.wrong(key, format!("there is no subscriber {name:?}{hint}"));
        }
        let of_servers = |fault: &&FaultPlan| {
            matches!(fault.action, FaultAction::DatabaseRestart | FaultAction::Partition(_))
        };
        if let Some(fault) =
            self.faults.iter().find(of_servers).filter(|_| self.sender.store == Store::Sqlite)
        {
            let name = fault.action.kind();
            root.wrong("fault", format!("a file is no server; {name} needs [sender] store = \"postgres\""));
        }
        let targets = || self.faults.iter().filter_map(|fault| fault.worker.as_ref());
        if let Some(name) =
            targets().filter_map(FaultTarget::owner_of).find(|name| self.subscriber(name).is_none())
        {
            let hint = problem::nearest(name, names.iter().copied())
                .map_or(String::new(), |meant| format!("; did you mean {meant:?}?"));
            root.wrong("fault", format!("nobody owns {name:?}: there is no such subscriber{hint}"));
        }
        let number = |target: &FaultTarget| match target {
            FaultTarget::Worker(worker) => Some(*worker),
            FaultTarget::OwnerOf(_) => None,
        };
        if let Some(worker) = targets().filter_map(number).find(|at| *at >= self.sender.workers) {
            root.wrong(
                "fault",
                format!("there is no worker {worker}; they count from 0 to {}", self.sender.workers - 1),
            );
        }
    }
}

/// A sender that missed an answer retries after its timeout and its first delay, and the run must see that.
/// The upper bound limits the wait for scenarios with long delays.
fn default_linger(subscribers: &[Subscriber]) -> Duration {
    let again = |one: &Subscriber| one.timeout.0.saturating_add(one.retry.bounds(1).1);
    let longest = subscribers.iter().map(again).max().unwrap_or(0);
    Duration(longest.clamp(3 * SECOND, 15 * SECOND))
}

#[cfg(test)]
mod tests;
