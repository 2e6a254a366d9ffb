use std::collections::BTreeMap;
use std::sync::Arc;

use crate::crash::emitter::Emitter;
use crate::crash::process::{Database, Serving};
use crate::crash::settings;
use crate::crash::sharing::Cluster;
use crate::crash::sink::{Arrival, Sink};

const LANES: usize = 12;
const RATE_PER_SECOND: u64 = 40;
/// A lane with its whole burst in doubt pauses until the doubt ends.
const BURST: usize = 10;
const SECOND: u64 = 1_000_000_000;
const LEASE: u64 = 5 * SECOND;

#[derive(Clone, Copy, PartialEq)]
enum Going {
    Dies,
    Leaves,
}

impl Going {
    /// No lane pauses longer than this because of it.
    const fn is_over_after(self) -> u64 {
        match self {
            Self::Dies => LEASE + 2 * SECOND,
            Self::Leaves => SECOND,
        }
    }
}

#[test]
#[ignore = "measures; HOOKPROOF_REPEATS says how often"]
fn the_gap_of_lanes_whose_node_dies_or_leaves_is_measured() {
    let repeats: usize = std::env::var("HOOKPROOF_REPEATS")
        .map_or(20, |repeats| repeats.parse().expect("HOOKPROOF_REPEATS is a number"));
    let sink = Arc::new(Sink::willing());
    let test = "the_gap_of_lanes_whose_node_dies_or_leaves";
    let settings = settings(RATE_PER_SECOND, BURST);
    let Some(database) = Database::on_server_with_subscribers(test, &sink.url(), LANES, &settings) else {
        return;
    };
    sink.explain_by(database.lanes());
    let cluster = Cluster { sink: Arc::clone(&sink), database, lanes: LANES };
    let stays = cluster.database.serve_as("stays");
    let emitter = Emitter::start(cluster.database.address(), Arc::clone(&sink), LANES);
    for going in [Going::Leaves, Going::Dies] {
        let (mut gaps, mut others, mut twice) = (Vec::new(), Vec::new(), 0);
        for _ in 0..repeats {
            let (gone, stayed, doubled) = go(&cluster, going);
            gaps.extend(gone);
            others.extend(stayed);
            twice += doubled;
        }
        let (how, beside) = match going {
            // The emitter stops once too much waits for the dead node's lanes.
            Going::Dies => ("dies by SIGKILL", String::new()),
            Going::Leaves => {
                ("leaves in order", format!("; those of the other for {}", percentiles_text(&mut others)))
            }
        };
        eprintln!(
            "a node {how}, {repeats} times, lease {} s: its lanes stand still for {}{beside}; {twice} taken twice",
            LEASE / SECOND,
            percentiles_text(&mut gaps),
        );
        if going == Going::Leaves {
            assert_eq!(twice, 0, "nobody has died");
        }
    }
    let acknowledged = emitter.stop();
    let owed = acknowledged.iter().flat_map(|event| (0..LANES).map(move |lane| format!("{event} /{lane}")));
    sink.wait_for_taken(owed.collect(), |arrival| format!("{} {}", arrival.event, arrival.path));
    stays.stop_in_order();
}

/// Longest pauses of the lanes of the node that goes, those of other lanes, and the count of doubled deliveries.
fn go(cluster: &Cluster, going: Going) -> (Vec<u64>, Vec<u64>, usize) {
    let mut serving = cluster.database.serve_elsewhere_as("goes");
    cluster.wait_until_shared(|shares| shares.len() == 2 && shares.values().all(|share| share.lanes > 0));
    let lanes = cluster.database.lanes_of("goes");
    let begun = cluster.sink.now();
    match going {
        Going::Dies => serving.kill(),
        Going::Leaves => Serving::stop_in_order(serving),
    }
    let end = begun + going.is_over_after();
    cluster.sink.wait_for_time(end, LANES);
    let arrivals = cluster.sink.arrivals();
    let (mut gone, mut stayed) = (Vec::new(), Vec::new());
    for (path, gap) in longest_gaps(&arrivals, begun) {
        if lanes.iter().any(|lane| lane == path) { &mut gone } else { &mut stayed }.push(gap);
    }
    // The node may have ended while it delivered earlier events.
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let around = arrivals.iter().filter(|arrival| arrival.taken && arrival.at + 2 * SECOND > begun);
    around.for_each(|arrival| *taken.entry(&arrival.delivery).or_default() += 1);
    (gone, stayed, taken.values().map(|count| count - 1).sum())
}

/// The later arrival comes after `begun`.
fn longest_gaps(arrivals: &[Arrival], begun: u64) -> BTreeMap<&str, u64> {
    let (mut last, mut gaps) = (BTreeMap::new(), BTreeMap::new());
    for arrival in arrivals {
        let before = last.insert(arrival.path.as_str(), arrival.at).unwrap_or(arrival.at);
        if arrival.at > begun {
            let longest = gaps.entry(arrival.path.as_str()).or_insert(0);
            *longest = (arrival.at - before).max(*longest);
        }
    }
    gaps
}

/// Median, 95th percentile and maximum, in milliseconds.
fn percentiles_text(gaps: &mut [u64]) -> String {
    gaps.sort_unstable();
    let at = |part: usize| gaps[(gaps.len() - 1) * part / 100] / 1_000_000;
    format!("p50 {} ms, p95 {} ms, {} ms at most, of {}", at(50), at(95), at(100), gaps.len())
}
