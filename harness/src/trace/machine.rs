//! What a run ran on, and what that can do: without it no figure of speed means anything.

use serde::{Deserialize, Serialize};

/// What a run had beneath it, as far as that was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// What the machine itself can do.
    pub ceiling: Option<Ceiling>,
    /// What it is.
    pub machine: Option<Machine>,
    /// When its wall clock was set.
    pub clock_sets: Vec<ClockSet>,
}

/// The machine's wall clock was set, or went on while the machine was suspended. The clock of the trace does neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSet {
    /// When it was last seen to be as it had been.
    pub from: u64,
    /// When it was seen to be set.
    pub until: u64,
    /// By how much it was set ahead, in nanoseconds; less than 0 where it was set back.
    pub ns: i64,
}

/// What the machine itself can do, measured before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// When it was measured; 0 for before the run.
    pub t: u64,
    /// Requests a second of a bare client, to the same endpoints with the same bodies.
    pub per_second: u64,
}

/// What the run ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its processor, as it names itself.
    pub processor: String,
    /// How many of its cores there are to use.
    pub cores: u64,
    /// Its memory.
    pub memory_bytes: u64,
    /// Its system and architecture.
    pub system: String,
}

impl Machine {
    /// This one, as far as its system says.
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
