//! The machine as a limit like any other: what it carries, beside what a load asks of it. Pure; it is measured elsewhere.

use serde::Serialize;

use super::scale::{AS_IT_STANDS, times};
use super::slo::Breach;
use crate::scenario::{Scenario, Subscriber};
use crate::sim::figures::Figures;

/// How a breach names it: no subscriber can have this name.
pub const NAME: &str = "this machine";

/// What the machine can do; what is none is not known, and no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// What a bare client reaches on it, in requests a second.
    pub ceiling_per_second: Option<u64>,
    /// What a sender carries on it, in requests or events a second, whichever are more.
    pub carries_per_second: Option<u64>,
    /// Whether that is all that it was offered, so that it may carry more.
    pub at_least: bool,
    /// How that is known.
    pub source: String,
    /// How many such machines are on the store; 0 counts as 1.
    pub nodes: u64,
    /// Room for the database, in bytes.
    pub disk_bytes: Option<u64>,
    /// Its memory, in bytes.
    pub memory_bytes: Option<u64>,
}

/// What a load asks of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Requests in the busiest second.
    pub peak_per_second: u64,
    /// Events in the busiest second.
    pub peak_events: u64,
    /// The largest that the database becomes, in bytes.
    pub database_bytes: u64,
    /// What the sender holds of deliveries at most, in bytes: by its own bounds, not measured.
    pub memory_bytes: u64,
}

/// Something that a load asks beyond what the machine has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What.
    pub what: &'static str,
    /// How much is asked for: a count a second, or bytes.
    pub asked: u64,
    /// What there is, on all nodes together.
    pub has: u64,
    /// How many such nodes would do, where the store is shared and its server keeps up with them.
    pub nodes: Option<u64>,
}

/// What a machine carries in a second.
const CARRIED: &str = "requests or events in a second";

/// A row that is held: its body, and about so much around it.
const AROUND_BYTES: u64 = 512;
/// What a lane holds of deliveries that it has not sent, at most.
const HELD_MAX: u64 = 256;

impl Load {
    /// Of a scenario as it was simulated.
    #[must_use]
    pub fn of(scenario: &Scenario, figures: &Figures, body_bytes: u64) -> Self {
        let held = |one: &Subscriber| HELD_MAX + u64::from(one.limit.in_flight.unwrap_or(1_000));
        let rows: u64 = scenario.subscribers.iter().map(held).sum();
        Self {
            peak_per_second: figures.busiest.count,
            peak_events: figures.busiest_offered.count,
            database_bytes: figures.database_bytes,
            memory_bytes: rows.saturating_mul(body_bytes + AROUND_BYTES),
        }
    }

    /// The most of either in each respect.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            peak_per_second: self.peak_per_second.max(other.peak_per_second),
            peak_events: self.peak_events.max(other.peak_events),
            database_bytes: self.database_bytes.max(other.database_bytes),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    /// Requests or events in the busiest second, whichever are more: an event that nobody is owed is taken and kept too.
    #[must_use]
    pub fn per_second(&self) -> u64 {
        self.peak_per_second.max(self.peak_events)
    }
}

impl Machine {
    /// Requests or events a second that all nodes carry.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        self.carries_per_second.map(|each| each.saturating_mul(self.nodes.max(1)))
    }

    /// What a load asks beyond what there is, as limits that are passed.
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

    /// What a load asks beyond what there is, on a store that nodes share or do not.
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

    /// What is to be done, as the end of a sentence.
    #[must_use]
    pub fn told(&self) -> String {
        if self.what != CARRIED {
            let (asked, has) = (self.show(self.asked), self.show(self.has));
            return format!("{} of {asked} instead of {has}", self.what);
        }
        let times = times(self.asked.saturating_mul(AS_IT_STANDS) / self.has.max(1));
        let one = format!("{} a second are asked for, {times} what is carried", self.asked);
        match self.nodes {
            Some(nodes) => format!("{one}: {nodes} such nodes on the shared store, if its server keeps up"),
            None => format!("{one}: a machine that is so much faster, or a store that nodes can share"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load =
        Load { peak_per_second: 50, peak_events: 120, database_bytes: 3 << 20, memory_bytes: 2 << 20 };

    fn told(machine: &Machine) -> Vec<String> {
        machine.breaches(&LOAD).iter().map(|one| format!("{}: {}", one.objective, one.figure)).collect()
    }

    #[test]
    fn what_is_asked_beyond_what_there_is_breaks() {
        let machine = Machine { carries_per_second: Some(119), ..Machine::default() };
        assert_eq!(told(&machine), ["requests or events in a second<=119/s: 120/s"]);
        assert_eq!(told(&Machine { carries_per_second: Some(120), ..Machine::default() }), [""; 0]);
        assert_eq!(told(&Machine { nodes: 2, ..machine }), [""; 0]);
        let small = Machine { disk_bytes: Some(2 << 20), memory_bytes: Some(1 << 20), ..Machine::default() };
        assert_eq!(told(&small), ["database<=2 MiB: 3 MiB", "memory<=1 MiB: 2 MiB"]);
        assert_eq!(told(&Machine::default()), [""; 0], "what is not known is no limit");
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
        let told: Vec<String> = machine.needs(&LOAD, false).iter().map(Need::told).collect();
        assert!(
            told[0].starts_with("120 a second are asked for, 1.2× what is carried: a machine"),
            "{told:?}"
        );
        assert_eq!(told[1], "database of 3 MiB instead of 2 MiB");
    }
}
