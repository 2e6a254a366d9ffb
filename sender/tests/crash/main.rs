//! Kills the real sender again and again, and looks at what arrives.
//!
//! What holds across any number of kills: nothing acknowledged is lost; a delivery that was taken arrives again only
//! around a kill; its body is the same each time; and all arrivals together conform to the contract, over all windows, exactly.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod emitter;
mod judge;
mod process;
mod sink;

use std::collections::BTreeMap;
use std::sync::Arc;

use emitter::Emitter;
use process::Database;
use sink::{Arrival, Sink};

const KILLS: usize = 30;
/// The contract, and for how long a request of a dead process may still arrive.
const RATE_PER_SECOND: u64 = 200;
const BURST: usize = 10;
const IN_FLIGHT: usize = 4;
const QUARANTINE_NS: u64 = 500_000_000;
const SETTINGS: [&str; 6] = [
    "limit.rate=200/s",
    "limit.burst=10",
    "limit.in_flight=4",
    "limit.quarantine=500ms",
    "retry.base=10ms",
    "retry.cap=50ms",
];

#[test]
fn thirty_kills_lose_nothing_and_stay_within_the_contract() {
    let sink = Arc::new(Sink::start());
    let database = Database::with_subscriber(&sink.url(), &SETTINGS);
    let emitter = Emitter::start(database.address(), Arc::clone(&sink));
    let mut sender = database.serve();
    let mut kills = vec![];
    let mut moments = Moments::new();
    for _ in 0..KILLS {
        sink.wait_for(sink.count() + moments.next_below(60));
        sender.kill();
        kills.push(sink.now());
        sender = database.serve();
    }
    let acknowledged = emitter.stop();
    sink.wait_for_events(&acknowledged);
    sender.stop_in_order();
    judge_all(&sink.arrivals(), &kills);
    assert!(acknowledged.len() > KILLS, "{} events were acknowledged", acknowledged.len());
}

#[test]
fn two_processes_on_one_file_of_which_either_is_killed() {
    let sink = Arc::new(Sink::start());
    let database = Database::with_subscriber(&sink.url(), &SETTINGS);
    let emitter = Emitter::start(database.address(), Arc::clone(&sink));
    let mut pair = [database.serve(), database.serve_elsewhere()];
    let mut kills = vec![];
    let mut moments = Moments::new();
    for _ in 0..KILLS {
        sink.wait_for(sink.count() + moments.next_below(60));
        let which = moments.next_below(2);
        pair[which].kill();
        kills.push(sink.now());
        pair[which] = if which == 0 { database.serve() } else { database.serve_elsewhere() };
    }
    let acknowledged = emitter.stop();
    sink.wait_for_events(&acknowledged);
    pair.into_iter().for_each(process::Serving::stop_in_order);
    judge_all(&sink.arrivals(), &kills);
}

/// When to kill: after a random number of arrivals, none included, so that kills meet start-up, claims, attempts and
/// commits alike. `HOOKPROOF_SEED` repeats a run as far as two processes can be repeated.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        let seed = std::env::var("HOOKPROOF_SEED")
            .map_or(1, |seed| seed.parse().expect("HOOKPROOF_SEED is a number"));
        eprintln!("HOOKPROOF_SEED={seed}");
        Self(seed)
    }

    fn next_below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound).unwrap()
    }
}

fn judge_all(arrivals: &[Arrival], kills: &[u64]) {
    judge::conforms(arrivals, RATE_PER_SECOND, BURST);
    let mut deliveries: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        deliveries.entry(&arrival.delivery).or_default().push(arrival);
    }
    let again = deliveries.values().filter(|attempts| attempts.len() > 1).count();
    assert!(again > KILLS, "only {again} deliveries were attempted more than once");
    let mut twice = 0;
    for (delivery, attempts) in deliveries {
        for pair in attempts.windows(2) {
            assert_eq!(pair[0].body, pair[1].body, "{delivery}");
            if pair[0].taken {
                let (first, second) = (pair[0].at, pair[1].at);
                // What a dead process had sent may be read a little after its death.
                let between = kills.iter().any(|kill| first <= kill + QUARANTINE_NS && *kill <= second);
                assert!(between, "{delivery} arrived at {first} and {second} without a kill between");
                twice += 1;
            }
        }
    }
    let most = kills.len() * (IN_FLIGHT + BURST);
    assert!(
        twice <= most,
        "{twice} arrived twice: more than could be in flight or just answered at the kills"
    );
    eprintln!("{} arrivals, {} kills, {twice} arrived twice", arrivals.len(), kills.len());
}
