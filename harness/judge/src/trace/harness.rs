//! Records about the harness, its machine, and the sender under test.

use serde::{Deserialize, Serialize};

use crate::scenario::{Backoff, Certificate, Duration, Retry, Scenario};

/// The stamps of a stalled thread's time may belong to any moment of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    pub thread: String,
    pub from: u64,
    pub until: u64,
}

/// It stamps arrivals.
pub const ENDPOINTS: &str = "endpoints";
/// It releases events.
pub const GENERATOR: &str = "generator";
/// It only sleeps: where it wakes late, the machine kept it from running.
pub const SLEEPER: &str = "sleeper";
/// No thread: the part of the time for which other programs used the processors, while all were busy.
pub const OTHERS: &str = "others";

/// The name of our own sender's driver file. Checks excuse nothing for it.
pub const OURS: &str = "hookproof";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unoffered {
    pub t: u64,
    pub intended: u64,
    pub token: u64,
    pub why: String,
}

/// Estimated from the `Date` fields of its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    pub t: u64,
    /// Nanoseconds; negative where the sender's clock is behind.
    pub ns: i64,
    /// In nanoseconds.
    pub error: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Public {
    pub url: String,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    pub t: u64,
    pub kind: StrayKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The requested target, or the error.
    pub said: String,
    /// 1, or all beyond the limit of single records.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StrayKind {
    /// It names no endpoint by path or host, or ended before it named one.
    Request,
    Handshake,
}

/// The client waits for it before it sends the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshake {
    pub t: u64,
    pub until: u64,
    pub connection: u64,
    /// The first arrival on it, once the trace is read.
    #[serde(skip)]
    pub first: Option<u64>,
}

/// A connection on which an endpoint showed a certificate that the sender must refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownCertificate {
    pub t: u64,
    pub endpoint: String,
    pub connection: u64,
    pub certificate: Certificate,
    /// None if the peer took the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// By `OPTIONS`, which is no arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub t: u64,
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    pub granted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    pub public: Option<Public>,
    pub strays: Vec<Stray>,
    pub handshakes: Vec<Handshake>,
    pub certificates: Vec<ShownCertificate>,
    pub permissions: Vec<Asked>,
}

impl Reached {
    /// None for its endpoint's own.
    #[must_use]
    pub fn path_of(&self, name: &str) -> Option<String> {
        self.public.as_ref().map(|public| public.path.replace("{endpoint}", name))
    }
}

/// In the trace, so that it can be judged alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    #[serde(default)]
    pub lacks: Vec<Lack>,
    /// In nanoseconds, in place of each subscriber's backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<u64>>,
    /// In millionths.
    #[serde(default)]
    pub jitter: u64,
    /// From an answer to its commit in the sender, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_within: Option<u64>,
    /// None for JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Regardless of the scenario's subscribers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs: Option<Signs>,
    /// Unlike the scenario, as the sender cannot express them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Substitution>,
    /// A refused event may still reach some of its subscribers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial_acceptance: bool,
    /// The greatest age of its figures about itself, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stale: u64,
    /// After these, beside 410, it gives a delivery up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub final_statuses: Vec<u16>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signs {
    Profile(String),
    /// The profile under other names of its headers.
    Prefixed {
        profile: String,
        header_prefix: String,
    },
    /// A scheme of the sender's own; the fields name the parts of its requests.
    Own {
        signature: bool,
        timestamp: bool,
        id: bool,
        /// Each attempt then has its own signature.
        signs_timestamp: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Substitution {
    pub subscriber: String,
    pub what: String,
}

impl Declared {
    #[must_use]
    pub fn lacks(&self, what: Lack) -> bool {
        self.lacks.contains(&what)
    }

    /// With the declared retry delays and profile, and without breakers if it has none.
    #[must_use]
    pub fn applied(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        for subscriber in &mut scenario.subscribers {
            if let Some(Signs::Profile(name) | Signs::Prefixed { profile: name, .. }) = &self.signs {
                subscriber.sign = name.parse().unwrap_or(subscriber.sign);
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    Start,
    /// Local processes that the harness can stop and measure.
    Process,
    /// The path of a lockable database.
    Database,
    /// A call that looks into the queue.
    Depth,
    Kept,
    DeadLetters,
    Breaker,
    /// Ordered first attempts within a key.
    Order,
    Change,
    Rotate,
    Redrive,
    Signature,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Depth {
    pub t: u64,
    /// None for the whole sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscriber: Option<String>,
    /// In flight included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesced: Option<u64>,
    /// Sum over all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Sum over the living processes, since their start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_ns: Option<u64>,
    /// Where the harness looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Retained>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retained {
    pub listed: bool,
    /// Moment of delivery, on the sender's clock; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unix_ns: Option<u64>,
    /// None unless the disk is on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dead {
    pub t: u64,
    pub subscriber: String,
    /// From the listed body; none if the sender doesn't list it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `exhausted`, `expired`, `overflow`, `gone`, or the sender's own word.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub ceiling: Option<Ceiling>,
    pub machine: Option<Machine>,
    pub clock_sets: Vec<ClockSet>,
}

/// The wall clock was set, or ran on while the machine was suspended. The trace's clock does neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSet {
    pub from: u64,
    pub until: u64,
    /// The step in nanoseconds; negative where the clock was set back.
    pub ns: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    pub t: u64,
    /// Requests of a bare client, to the same endpoints with the same bodies.
    pub per_second: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: u64,
    pub memory_bytes: u64,
    pub system: String,
}

impl Machine {
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map_or(String::new(), |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kilobytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64),
            memory_bytes: kilobytes << 10,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
