//! The schedule from scenario and seed, and the generator's report on keeping it.

mod payload;

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use hookproof::clock::Clock;
use hookproof::traffic::{Lag, Pace, play};
use hookproof_judge::scenario::Scenario;
use hookproof_play::traffic::{Due, Schedule, Tokens};

const SECOND: u64 = 1_000_000_000;

fn scenario(traffic: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\n{traffic}\n[events]\ntypes = {{ \"a.one\" = 3, \"a.two\" = 1 }}\nkeys = 20\nkey_skew = 1.1\n\
         data_bytes = \"100..900\"\nrepeated = 0.05\n[[subscriber]]\nname = \"s\"\n"
    );
    Scenario::from_text(&text, "t.toml").unwrap()
}

fn schedule(traffic: &str, seed: u64) -> Schedule {
    let scenario = scenario(traffic);
    Schedule::compute(&scenario.traffic, &scenario.events, seed, Path::new("")).unwrap()
}

const MIXED: &str = "\
[[traffic]]\nshape = \"steady\"\nrate = \"100/s\"\nlasts = \"5s\"\n\
[[traffic]]\nshape = \"poisson\"\nrate = \"100/s\"\nlasts = \"5s\"\n\
[[traffic]]\nshape = \"pause\"\nlasts = \"1s\"\n\
[[traffic]]\nshape = \"spike\"\nrate = \"20/s\"\nto = \"800/s\"\nlasts = \"10s\"\n\
[[traffic]]\nshape = \"burst\"\nevents = 50\n";

#[test]
fn the_same_seed_gives_the_same_schedule_and_another_gives_another() {
    let [one, again, other] = [7, 7, 8].map(|seed| schedule(MIXED, seed));
    assert_eq!((one.due(), one.sha256()), (again.due(), again.sha256()));
    assert_ne!(one.sha256(), other.sha256());
    assert_eq!(one.sha256().len(), 64);
}

#[test]
fn phases_play_in_order_and_offer_what_they_say() {
    let all = schedule(MIXED, 7);
    assert!(all.due().is_sorted_by_key(|due| due.at));
    assert_eq!(all.lasts(), 21 * SECOND);
    let first = |from: u64, to: u64| {
        let mut tokens: Vec<u64> = all
            .due()
            .iter()
            .filter(|due| (from * SECOND..to * SECOND).contains(&due.at))
            .map(|due| due.token)
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.len()
    };
    assert!(first(0, 5).abs_diff(500) <= 1, "{}", first(0, 5));
    assert!(
        first(11, 21).abs_diff(4_100) <= 25,
        "{}: the area under the spike, and the repeated",
        first(11, 21)
    );
    assert!(first(16, 17) > 4 * first(11, 12), "the spike is where it should be");
}

#[test]
fn a_phase_of_one_key_has_no_other() {
    let phase =
        |more: &str| format!("[[traffic]]\nshape = \"steady\"\nrate = \"5/s\"\nlasts = \"10s\"\n{more}\n");
    let all = schedule(&format!("{}{}{}", phase(""), phase("key = \"the-clip\""), phase("")), 7);
    // A repeated event comes a little later.
    let firsts = |due: &&Due| all.due().iter().all(|other| other.token != due.token || other.at >= due.at);
    let of_the_clip = all.due().iter().filter(|due| all.key(due) == "the-clip");
    let at: Vec<u64> = of_the_clip.filter(firsts).map(|due| due.at).collect();
    assert_eq!(at.len(), 50);
    assert!(at.iter().all(|at| (10 * SECOND..20 * SECOND).contains(at)), "{at:?}");
}

#[test]
fn types_keys_and_repeats_follow_their_shares() {
    let all = schedule("[[traffic]]\nshape = \"steady\"\nrate = \"10000/s\"\nlasts = \"2s\"\n", 3);
    let count = |is: &dyn Fn(&&Due) -> bool| all.due().iter().filter(is).count();
    let total = all.due().len();
    assert!(total.abs_diff(21_000) < 150, "{total}: one in twenty is offered twice");
    let one = count(&|due| all.kind(due) == "a.one");
    assert!(one.abs_diff(total * 3 / 4) < 400, "{one} of {total}");
    let (hot, cold) = (count(&|due| all.key(due) == "key-1"), count(&|due| all.key(due) == "key-20"));
    assert!(hot > 15 * cold && cold > 0, "Zipf: {hot} of the first key and {cold} of the twentieth");
    let tokens = Tokens::new(9);
    for due in all.due().iter().take(100) {
        let data = all.data(due, tokens);
        assert_eq!(data.len(), usize::try_from(due.bytes).unwrap());
        assert_eq!(tokens.find(data.as_bytes()), Some(due.token));
        assert!(serde_json::from_str::<serde_json::Value>(&data).is_ok(), "{data}");
    }
}

#[test]
fn recorded_traffic_is_played_faster_and_more_often() {
    let folder = tempfile::tempdir().unwrap();
    let csv = "time,type,key,bytes\n100,a.x,k,300\n102,a.y,,\n104,a.x,k,\n";
    std::fs::write(folder.path().join("r.csv"), csv).unwrap();
    let scenario = scenario("[[traffic]]\nshape = \"recorded\"\nfile = \"r.csv\"\nspeed = 2\ntimes = 3\n");
    let events = hookproof_judge::scenario::Events {
        repeated: hookproof_judge::scenario::Millionths(0),
        ..scenario.events
    };
    let schedule = Schedule::compute(&scenario.traffic, &events, 1, folder.path()).unwrap();
    let at: Vec<u64> = schedule.due().iter().map(|due| due.at / SECOND).collect();
    assert_eq!(at, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!(schedule.kind(&schedule.due()[3]), "a.y");
    assert_eq!(schedule.due()[0].bytes, 300);
    let tokens: std::collections::BTreeSet<u64> = schedule.due().iter().map(|due| due.token).collect();
    assert_eq!(tokens.len(), 9, "each of them is an event of its own");
}

struct Scripted {
    now: Cell<u64>,
    oversleeps: u64,
}

impl Pace for Scripted {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn wait(&self, until: u64) {
        self.now.set(until + self.oversleeps);
    }
}

fn played(oversleeps: u64) -> (Lag, Vec<u64>) {
    let schedule = schedule("[[traffic]]\nshape = \"steady\"\nrate = \"1000/s\"\nlasts = \"2s\"\n", 1);
    let pace = Scripted { now: Cell::new(0), oversleeps };
    let mut released = Vec::new();
    let stop = AtomicBool::new(false);
    let lag = play(&schedule, 0, &pace, &stop, Lag::new(50_000_000), |due, _, _| released.push(due.token));
    assert_eq!(released.len(), schedule.due().len());
    (lag, released)
}

#[test]
fn a_generator_that_runs_in_time_is_late_for_nothing() {
    let (lag, released) = played(0);
    assert_eq!(lag.late, 0);
    assert!(lag.quantile(1.0) <= 1_000_000, "{} ns", lag.quantile(1.0));
    assert_eq!(lag.released(), u64::try_from(released.len()).unwrap());
}

#[test]
fn a_starved_generator_skips_nothing_and_says_how_late_it_was() {
    let (starved, released) = played(200_000_000);
    assert_eq!(released, played(0).1, "all of it, in order");
    assert!(starved.late > 1_000, "{} late", starved.late);
    assert!(starved.quantile(0.5) > 50_000_000);
}

#[test]
fn a_stopped_generator_releases_nothing_more() {
    let schedule = schedule("[[traffic]]\nshape = \"burst\"\nevents = 1000\n", 1);
    let (stop, pace) = (AtomicBool::new(false), Scripted { now: Cell::new(0), oversleeps: 0 });
    let lag = play(&schedule, 0, &pace, &stop, Lag::new(1), |due, _, _| {
        stop.store(due.token >= 9, Ordering::Relaxed);
    });
    assert!((10..=11).contains(&lag.released()), "{}", lag.released());
}

/// Prints how well this machine keeps a schedule of 5,000 events a second, without a threshold.
#[test]
fn its_lag_at_five_thousand_a_second_is_told() {
    let schedule = schedule("[[traffic]]\nshape = \"steady\"\nrate = \"5000/s\"\nlasts = \"1s\"\n", 1);
    let (clock, stop) = (Clock::begun(), AtomicBool::new(false));
    let lag = play(&schedule, 0, &clock, &stop, Lag::new(50_000_000), |_, _, _| {});
    println!("lag at 5,000/s: p50 {} µs, p99 {} µs", lag.quantile(0.5) / 1_000, lag.quantile(0.99) / 1_000);
    assert_eq!(lag.released(), u64::try_from(schedule.due().len()).unwrap());
}
