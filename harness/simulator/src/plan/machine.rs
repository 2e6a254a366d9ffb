//! The machine as a limit: its capacity beside a load's demand. Pure; the capacity is measured elsewhere.

use hookproof_judge::scenario::{Scenario, Subscriber};
use hookproof_sender::dispatch::BODY_BYTES_MAX;
use hookproof_sender::engine::Limits;
use hookproof_sender::engine::contract::IN_FLIGHT_MAX;
use serde::Serialize;

use super::scale::{AS_IT_STANDS, times};
use super::slo::Breach;
use crate::sim::figures::Figures;

/// No subscriber can have this name.
pub const NAME: &str = "this machine";

/// A missing value is unknown and no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// A bare client's rate on it.
    pub ceiling_per_second: Option<u64>,
    /// A sender's rate on it, in requests or events per second, the larger of both.
    pub carries_per_second: Option<u64>,
    /// Only a lower bound, since no more was offered.
    pub at_least: bool,
    pub source: String,
    /// Machines on one store; 0 counts as 1.
    pub nodes: u64,
    pub disk_bytes: Option<u64>,
    pub memory_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    pub peak_per_second: u64,
    pub peak_events: u64,
    pub database_bytes: u64,
    /// The most that the sender holds of deliveries, in bytes: by its bounds, not measured.
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    pub what: &'static str,
    /// A rate per second, or bytes.
    pub asked: u64,
    /// Capacity of all nodes together.
    pub has: u64,
    /// They suffice if the store is shared and its server keeps up.
    pub nodes: Option<u64>,
}

const CARRIED: &str = "requests or events per second";

/// A held row takes this beside its body.
const AROUND_BYTES: u64 = 512;
/// The unsent deliveries that all lanes of a process hold together: HELD in the sender's engine/machine.rs.
const HELD: u64 = 32_768;
/// The bounds of each lane's share: WINDOW_LEAST there, and WINDOW_MAX in engine/lane.rs.
const HELD_BY_LANE: (u64, u64) = (4, 256);

/// The most bytes of deliveries that a sender's processes hold, with lanes spread evenly.
fn held_bytes(scenario: &Scenario, body_bytes: u64) -> u64 {
    let (lanes, processes) = (scenario.subscribers.len() as u64, u64::from(scenario.sender.workers.max(1)));
    let (least, most) = HELD_BY_LANE;
    let unsent = (HELD / lanes.div_ceil(processes).max(1)).clamp(least, most).saturating_mul(lanes);
    let in_flight = |one: &Subscriber| u64::from(one.limit.in_flight_told().unwrap_or(IN_FLIGHT_MAX));
    let allowed: u64 = scenario.subscribers.iter().map(in_flight).sum();
    let under_way = allowed.min(Limits::default().attempts() as u64 * processes + lanes);
    let rows = unsent.saturating_add(under_way);
    let bodies = rows.saturating_mul(body_bytes).min(BODY_BYTES_MAX * processes);
    bodies.saturating_add(rows.saturating_mul(AROUND_BYTES))
}

impl Load {
    #[must_use]
    pub fn of(scenario: &Scenario, figures: &Figures, body_bytes: u64) -> Self {
        Self {
            peak_per_second: figures.busiest.count,
            peak_events: figures.busiest_offered.count,
            database_bytes: figures.database_bytes,
            memory_bytes: held_bytes(scenario, body_bytes),
        }
    }

    /// The maximum in each respect.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            peak_per_second: self.peak_per_second.max(other.peak_per_second),
            peak_events: self.peak_events.max(other.peak_events),
            database_bytes: self.database_bytes.max(other.database_bytes),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// Requests or events in the busiest second, the larger of both: an event without subscribers is accepted too.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        self.peak_per_second.max(self.peak_events)
    }
}

impl Machine {
    /// All nodes together, in requests or events per second.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.carries_per_second.map(|each| each.saturating_mul(self.nodes.max(1)))
    }

    #[must_use]
    pub fn breaches(&self, load: &Load) -> Vec<Breach> {
        let breach = |need: Need| Breach {
            subscriber: NAME.to_owned(),
            group: NAME.to_owned(),
            objective: format!("{}<={}", need.what, need.show(need.has)),
            figure: need.show(need.asked),
            excess: need.asked.saturating_mul(AS_IT_STANDS) / need.has.max(1),
        };
        self.needs(load, false).into_iter().map(breach).collect()
    }

    /// `shared`: several nodes share the store.
    #[must_use]
    pub fn needs(&self, load: &Load, shared: bool) -> Vec<Need> {
        let limits = [
            (CARRIED, self.capacity(), load.per_second()),
            ("database", self.disk_bytes, load.database_bytes),
            ("memory", self.memory_bytes, load.memory_bytes),
        ];
        let each = self.carries_per_second.filter(|_| shared);
        let need = |(what, has, asked): (&'static str, Option<u64>, u64)| {
            let has = has.filter(|has| asked > *has)?;
            let nodes = each.filter(|_| what == CARRIED).map(|each| asked.div_ceil(each.max(1)));
            Some(Need { what, asked, has, nodes })
        };
        limits.into_iter().filter_map(need).collect()
    }
}

impl Need {
    fn show(&self, figure: u64) -> String {
        if self.what == CARRIED { format!("{figure}/s") } else { format!("{} MiB", figure >> 20) }
    }

    /// As the end of a sentence.
    #[must_use]
    pub fn phrase(&self) -> String {
        if self.what != CARRIED {
            let (asked, has) = (self.show(self.asked), self.show(self.has));
            return format!("{} of {asked} instead of {has}", self.what);
        }
        let times = times(self.asked.saturating_mul(AS_IT_STANDS) / self.has.max(1));
        let one = format!("{} per second are needed, {times} the capacity", self.asked);
        match self.nodes {
            Some(nodes) => format!("{one}: use {nodes} such nodes on a shared store, if its server keeps up"),
            None => format!("{one}: use a faster machine, or a store that nodes can share"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::simulated;
    use crate::sim::Options;

    const LOAD: Load =
        Load { peak_per_second: 50, peak_events: 120, database_bytes: 3 << 20, memory_bytes: 2 << 20 };

    /// The bytes for this many subscribers with these settings and this many processes.
    fn memory_bytes(count: usize, subscriber: &str, processes: u32, body_bytes: u64) -> u64 {
        let text = format!(
            "name = \"held\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"one\"\n{subscriber}"
        );
        let mut scenario = Scenario::from_text(&text, "held.toml").unwrap();
        let figures = simulated(&scenario, &Options::default()).unwrap();
        scenario.subscribers = vec![scenario.subscribers[0].clone(); count];
        scenario.sender.workers = processes;
        Load::of(&scenario, &figures, body_bytes).memory_bytes
    }

    #[test]
    fn the_memory_bound_equals_the_senders() {
        const SMALL: &str = "limit = { rate = \"10/s\", burst = 5, in_flight = 4 }\n";
        assert_eq!(memory_bytes(1, SMALL, 1, 1_000), (256 + 4) * 1_512, "one lane holds all that a lane may");
        assert_eq!(
            memory_bytes(1, "", 1, 1_000),
            (256 + 10_000) * 1_512,
            "it is told ten thousand in flight"
        );
        // Four rows for each lane, and ten thousand attempts beside one for each lane.
        let rows = 10_000 * 4 + 20_000;
        assert_eq!(memory_bytes(10_000, SMALL, 1, 1_000), rows * 1_512);
        assert_eq!(memory_bytes(10_000, SMALL, 1, 256 << 10), (1 << 30) + rows * 512, "a gigabyte of bodies");
        // Each of a process's 5,000 lanes holds six.
        let rows = 10_000 * 6 + 30_000;
        assert_eq!(memory_bytes(10_000, SMALL, 2, 256 << 10), (2 << 30) + rows * 512, "and of each process");
    }

    fn breach_texts(machine: &Machine) -> Vec<String> {
        machine.breaches(&LOAD).iter().map(|one| format!("{}: {}", one.objective, one.figure)).collect()
    }

    #[test]
    fn a_need_beyond_the_machine_is_a_breach() {
        let machine = Machine { carries_per_second: Some(119), ..Machine::default() };
        assert_eq!(breach_texts(&machine), ["requests or events per second<=119/s: 120/s"]);
        assert_eq!(breach_texts(&Machine { carries_per_second: Some(120), ..Machine::default() }), [""; 0]);
        assert_eq!(breach_texts(&Machine { nodes: 2, ..machine }), [""; 0]);
        let small = Machine { disk_bytes: Some(2 << 20), memory_bytes: Some(1 << 20), ..Machine::default() };
        assert_eq!(breach_texts(&small), ["database<=2 MiB: 3 MiB", "memory<=1 MiB: 2 MiB"]);
        assert_eq!(breach_texts(&Machine::default()), [""; 0], "what is not known is no limit");
    }

    #[test]
    fn nodes_help_where_the_store_is_shared() {
        let machine = Machine {
            carries_per_second: Some(50),
            nodes: 2,
            disk_bytes: Some(2 << 20),
            ..Machine::default()
        };
        let nodes =
            |shared: bool| machine.needs(&LOAD, shared).iter().map(|need| need.nodes).collect::<Vec<_>>();
        assert_eq!((nodes(true), nodes(false)), (vec![Some(3), None], vec![None, None]));
        let told: Vec<String> = machine.needs(&LOAD, false).iter().map(Need::phrase).collect();
        assert!(
            told[0].starts_with("120 per second are needed, 1.2× the capacity: use a faster machine"),
            "{told:?}"
        );
        assert_eq!(told[1], "database of 3 MiB instead of 2 MiB");
    }
}
