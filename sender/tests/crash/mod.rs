//! Invariants for any number of kills:
//! - No acknowledged event is lost.
//! - A delivery arrives twice only around a kill, never after the file reported it as delivered, and with the same
//!   body.
//! - All arrivals together keep the contract over all windows, exactly.

mod away;
mod cluster;
mod compose;
mod emitter;
mod failover;
mod jobs;
mod judge;
mod lagging;
mod postgres;
mod process;
mod sharing;
mod sink;
mod way;

use std::collections::BTreeMap;
use std::sync::Arc;

use emitter::Emitter;
use process::{Database, Serving};
use sink::{Arrival, Sink};

/// `QUARANTINE_NS` bounds how late a dead process's request may arrive.
const RATE_PER_SECOND: u64 = 200;
const IN_FLIGHT: usize = 4;
const QUARANTINE_NS: u64 = 500_000_000;

fn settings(rate_per_second: u64, burst: usize) -> Vec<String> {
    vec![
        format!("limit.rate={rate_per_second}/s"),
        format!("limit.burst={burst}"),
        format!("limit.in_flight={IN_FLIGHT}"),
        "limit.quarantine=500ms".to_owned(),
        // Kills come faster than answers clear the doubt that the previous kill left.
        "limit.doubt=500ms".to_owned(),
        "retry.base=10ms".to_owned(),
        "retry.cap=50ms".to_owned(),
    ]
}

#[test]
fn thirty_kills_lose_nothing_and_stay_within_the_contract() {
    kill_again_and_again(1, &SHORT);
}

#[test]
fn two_processes_on_one_file_of_which_either_is_killed() {
    kill_again_and_again(2, &SHORT);
}

#[test]
#[ignore = "takes minutes; HOOKPROOF_KILLS says how many"]
fn a_thousand_kills_of_one_process() {
    kill_again_and_again(1, &Plan { kills: kills_wanted(), ..LONG });
}

#[test]
#[ignore = "takes minutes; HOOKPROOF_KILLS says how many"]
fn a_thousand_kills_of_either_of_two_processes() {
    kill_again_and_again(2, &Plan { kills: kills_wanted(), ..LONG });
}

#[derive(Clone, Copy)]
struct Plan {
    kills: usize,
    arrivals_between: u64,
    burst: usize,
}

const SHORT: Plan = Plan { kills: 30, arrivals_between: 60, burst: 10 };
/// The burst covers the doubt of several kills in a row.
const LONG: Plan = Plan { kills: 1_000, arrivals_between: 30, burst: 60 };

fn kills_wanted() -> usize {
    std::env::var("HOOKPROOF_KILLS")
        .map_or(LONG.kills, |kills| kills.parse().expect("HOOKPROOF_KILLS is a number"))
}

fn kill_again_and_again(processes: usize, plan: &Plan) {
    let sink = Arc::new(Sink::start());
    let database = Database::with_subscriber(&sink.url(), &settings(RATE_PER_SECOND, plan.burst));
    kill_on(&database, &sink, processes, plan);
}

fn kill_on(database: &Database, sink: &Arc<Sink>, processes: usize, plan: &Plan) {
    sink.explain_by(database.lanes());
    let emitter = Emitter::start(database.address(), Arc::clone(sink), 1);
    let start = |which| if which == 0 { database.serve() } else { database.serve_elsewhere() };
    let mut senders: Vec<Serving> = (0..processes).map(start).collect();
    let (mut kills, mut confirmed) = (vec![], BTreeMap::new());
    let mut moments = Moments::new();
    for _ in 0..plan.kills {
        sink.wait_for(sink.count() + moments.next_below(plan.arrivals_between));
        let which = if processes == 1 { 0 } else { moments.next_below(processes as u64) };
        senders[which].kill();
        kills.push(sink.now());
        for event in database.confirmed() {
            confirmed.entry(event).or_insert_with(|| sink.now());
        }
        senders[which] = start(which);
    }
    let acknowledged = emitter.stop();
    sink.wait_for_events(&acknowledged);
    senders.into_iter().for_each(Serving::stop_in_order);
    assert!(acknowledged.len() > plan.kills, "{} events were acknowledged", acknowledged.len());
    assert!(!confirmed.is_empty(), "no event was known to be delivered when a process was killed");
    let counts = judge_all(&sink.arrivals(), &kills, &confirmed, (RATE_PER_SECOND, plan.burst));
    eprintln!(
        "{processes} processes, {} kills, {} events acknowledged, 0 lost; {counts}; burst {} and {RATE_PER_SECOND}/s kept \
         in every window",
        kills.len(),
        acknowledged.len(),
        plan.burst
    );
}

/// After a random number of arrivals, possibly none, so that kills meet start-up, claims, attempts and commits.
/// `HOOKPROOF_SEED` repeats a run, as far as two processes are repeatable.
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

fn judge_all(
    arrivals: &[Arrival],
    kills: &[u64],
    confirmed: &BTreeMap<String, u64>,
    (rate_per_second, burst): (u64, usize),
) -> String {
    judge::conforms(arrivals, rate_per_second, burst);
    let mut deliveries: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        deliveries.entry(&arrival.delivery).or_default().push(arrival);
    }
    let again = deliveries.values().filter(|attempts| attempts.len() > 1).count();
    assert!(again * 2 > kills.len(), "only {again} deliveries were attempted more than once");
    let mut twice = 0;
    for (delivery, attempts) in deliveries {
        for pair in attempts.windows(2) {
            assert_eq!(pair[0].body, pair[1].body, "{delivery}");
            if pair[0].taken {
                let (first, second) = (pair[0].at, pair[1].at);
                // A dead process's request may arrive shortly after its death.
                let between = kills.iter().any(|kill| first <= kill + QUARANTINE_NS && *kill <= second);
                assert!(between, "{delivery} arrived at {first} and {second} without a kill between");
                let known = confirmed.get(&pair[1].event).copied().unwrap_or(u64::MAX);
                assert!(
                    second <= known.saturating_add(QUARANTINE_NS),
                    "{delivery} was known to be delivered at {known}, and came again at {second}"
                );
                twice += 1;
            }
        }
    }
    let most = kills.len() * (IN_FLIGHT + burst);
    // On a faster lane, the length of a commit decides how many answers are not committed yet.
    assert!(
        rate_per_second > RATE_PER_SECOND || twice <= most,
        "{twice} arrived twice: more than could be in flight or just answered at the kills"
    );
    format!(
        "{} arrivals, {again} deliveries attempted again, {twice} taken twice, each around a kill and none that \
         the file told to be delivered",
        arrivals.len()
    )
}
