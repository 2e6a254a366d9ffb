//! The machine that a run ran on, and its measured capacity, without which no speed means anything.

use serde::{Deserialize, Serialize};

/// The machine of a run, as far as it was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The machine's own limit.
    pub ceiling: Option<Ceiling>,
    pub machine: Option<Machine>,
    pub clock_sets: Vec<ClockSet>,
}

/// The machine's wall clock was set, or ran on while the machine was suspended. The clock of the trace does
/// neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSet {
    /// When it was last seen unchanged.
    pub from: u64,
    /// When the change was seen.
    pub until: u64,
    /// The step in nanoseconds; negative where the clock was set back.
    pub ns: i64,
}

/// The machine's own limit, measured before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// When it was measured; 0 for before the run.
    pub t: u64,
    /// Requests per second of a bare client, to the same endpoints with the same bodies.
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
    /// This machine, as far as its system reports it.
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
