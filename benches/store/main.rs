//! The store's cost: durable emits a second, settled deliveries a second, and rows written for each.
//!
//! `cargo bench -p hookproof-benches --bench store` prints a table. Compare figures of one machine only: the disk
//! decides over single commits. `-- month` measures the file's size over 40 virtual days of a million events each,
//! in a quarter of an hour or more.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{
    Acquire, Attempt, AttemptOutcome, Body, Claim, Details, Emit, Fate, LaneSelection, Renew, Settlement,
    Subscribe, Target,
};
use hookproof_sender::store::lane::{Bounds, OwnerId, Secret, WhenFull};
use hookproof_sender::store::sqlite::{Options, SqliteStore};
use hookproof_sender::store::thread::{Answer, Capacity, Handle, Request, StoreThread};
use hookproof_sender::store::{Command, Durability, Reply, Store};

mod month;

const NOW: StoreTime = StoreTime::from_secs(1_800_000_000);
const OWNER: OwnerId = OwnerId(1);
const BODY_BYTES: usize = 300;
/// Longer than any virtual time here.
const LEASE: Nanos = Nanos::DAY.times(365);

fn main() {
    if std::env::args().any(|argument| argument == "lanes") {
        return many_lanes();
    }
    if std::env::args().any(|argument| argument == "latency") {
        return latencies();
    }
    if std::env::args().any(|argument| argument == "month") {
        return month::measure();
    }
    println!("{:<44} {:>12} {:>12}", "", "a second", "rows each");
    for (name, durability) in [("power-loss", Durability::PowerLoss), ("process", Durability::Process)] {
        emits(&format!("durable emits, one a commit, {name}"), durability, 1, 500);
        emits(&format!("durable emits, 256 a commit, {name}"), durability, 256, 100_000);
        through_the_thread(&format!("emits in flight: 1, {name}"), durability, 1, 500);
        through_the_thread(&format!("emits in flight: 64, {name}"), durability, 64, 20_000);
        through_the_thread(&format!("emits in flight: 1,000, {name}"), durability, 1_000, 100_000);
        deliveries(name, durability, 10, 200_000, 1_000);
        deliveries(name, durability, 1_000, 200_000, 1_000);
    }
    backlog();
    many_lanes();
    latencies();
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a whole number"))
}

fn open(folder: &Path, durability: Durability, lanes: u64) -> (SqliteStore, Vec<(LaneId, Term)>) {
    let options = Options { durability, create: true, ..Options::default() };
    let mut store =
        SqliteStore::open(&folder.join("bench.db"), &options).expect("a new file in a new folder");
    let subscribe: Vec<Command> = (0..lanes).map(subscriber).collect();
    commit(&mut store, &subscribe);
    let acquire =
        Acquire { owner: OWNER, lease: LEASE, which: LaneSelection::All, homes: None, max: u32::MAX };
    let replies = commit(&mut store, &[Command::Acquire(acquire)]);
    let Some(Reply::Acquired(taken)) = replies.into_iter().next() else { panic!("acquired") };
    (store, taken.iter().map(|taken| (taken.lane, taken.term)).collect())
}

fn subscriber(number: u64) -> Command {
    Command::Subscribe(Subscribe {
        id: format!("sub_{number}").into(),
        name: format!("partner {number}").into(),
        url: "http://127.0.0.1:9/".into(),
        patterns: "[\"*\"]".into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: u64::MAX, bytes_max: u64::MAX, when_full: WhenFull::ShedOldest },
        secret: Secret::new("whsec_"),
    })
}

fn commit(store: &mut SqliteStore, commands: &[Command]) -> Vec<Reply> {
    store.commit(NOW, commands).expect("the disk works")
}

fn event(number: u64, now: StoreTime, roster: u64, lanes: &[LaneId]) -> Command {
    let bytes: Arc<[u8]> = vec![b'x'; BODY_BYTES].into();
    Command::Emit(Emit {
        roster,
        id: format!("evt_{number:020}").into(),
        id_is_new: false,
        kind: "video.trending".into(),
        key: Some("clip".into()),
        received: now,
        bodies: vec![Body { bytes }],
        targets: lanes
            .iter()
            .map(|lane| Target {
                lane: *lane,
                body: 0,
                due: now,
                expires: StoreTime(now.0 + Nanos::DAY.0),
                dedupe: Nanos::HOUR,
                coalesce: None,
                signature: None,
            })
            .collect(),
        atomic: false,
        withheld: false,
        outbox: None,
        notifies: None,
    })
}

fn settled(lane: LaneId, term: Term, delivery: DeliveryId, now: StoreTime) -> Settlement {
    Settlement {
        lane,
        term,
        delivery,
        attempts: 1,
        fate: Fate::Delivered,
        disables: None,
        attempt: Some(Attempt {
            at: StoreTime(now.0 + delivery.0),
            latency: Nanos::from_millis(20),
            outcome: AttemptOutcome::Delivered,
            status: Some(204),
            error: None,
            body_hash: delivery.0,
            received: Some(now),
            details: Details::default(),
        }),
    }
}

fn emits(name: &str, durability: Durability, batch: u64, total: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut store, lanes) = open(folder.path(), durability, 10);
    let before = store.written().rows;
    let mut took = Duration::ZERO;
    for first in (0..total).step_by(usize::try_from(batch).expect("small")) {
        let lane = |number: u64| lanes[usize::try_from(number % 10).expect("small")].0;
        let commands: Vec<Command> =
            (first..first + batch).map(|number| event(number, NOW, 10, &[lane(number)])).collect();
        took += time(|| drop(commit(&mut store, &commands)));
    }
    print(name, total, took, store.written().rows - before);
}

/// One event a request, with `in_flight` unanswered requests: the thread groups them into commits.
fn through_the_thread(name: &str, durability: Durability, in_flight: u64, total: u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, lanes) = open(folder.path(), durability, 10);
    let before = store.written().rows;
    let thread =
        StoreThread::start(Box::new(store), Arc::new(|| NOW), Capacity::default()).expect("a thread");
    let handle = thread.handle();
    let (told, answers) = channel();
    let submit = |number: u64| {
        let lane = lanes[usize::try_from(number % 10).expect("small")].0;
        let told = told.clone();
        let answer: Answer = Box::new(move |replies| told.send(replies.is_ok()).expect("the bench listens"));
        let request = Request { commands: vec![event(number, NOW, 10, &[lane])], answer };
        assert!(handle.submit(request).is_ok(), "there is room for all in flight");
    };
    let took = time(|| {
        (0..in_flight).for_each(submit);
        for number in in_flight..total + in_flight {
            assert!(answers.recv().expect("an answer"), "the disk works");
            if number < total {
                submit(number);
            }
        }
    });
    thread.stop();
    print(name, total, took, handle.health().written.rows - before);
}

fn deliveries(name: &str, durability: Durability, lane_count: u64, total: u64, batch: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut store, lanes) = open(folder.path(), durability, lane_count);
    let ids: Vec<LaneId> = lanes.iter().map(|(lane, _)| *lane).collect();
    let mut number = 0;
    let before = store.written().rows;
    let mut emitting = Duration::ZERO;
    while number < total / 10 {
        let commands: Vec<Command> = (0..100)
            .map(|_| {
                number += 1;
                let first = usize::try_from(number).expect("small") % (ids.len() / 10).max(1) * 10;
                event(number, NOW, lane_count, &ids[first..first + 10])
            })
            .collect();
        emitting += time(|| drop(commit(&mut store, &commands)));
    }
    print(&format!("recorded, {lane_count} lanes, {name}"), total, emitting, store.written().rows - before);

    let before = store.written().rows;
    let (mut claiming, mut settling, mut done) = (Duration::ZERO, Duration::ZERO, 0);
    let share = u32::try_from((batch / lanes.len()).max(1)).expect("small");
    let mut turn = lanes.iter().cycle();
    while done < total {
        let claims: Vec<Command> = turn
            .by_ref()
            .take(batch / usize::try_from(share).expect("small"))
            .map(|(lane, term)| {
                Command::Claim(Claim { lane: *lane, term: *term, max: share, bytes_max: u64::MAX })
            })
            .collect();
        let mut settlements = Vec::with_capacity(batch);
        claiming += time(|| {
            for reply in commit(&mut store, &claims) {
                let Reply::Claimed(claimed) = reply else { panic!("claimed") };
                settlements.extend(
                    claimed.rows.iter().map(|row| settled(claimed.lane, claimed.term, row.delivery, NOW)),
                );
            }
        });
        done += u64::try_from(settlements.len()).expect("small");
        settling += time(|| drop(commit(&mut store, &[Command::Settle(settlements)])));
    }
    print(&format!("claimed, {lane_count} lanes, {name}"), total, claiming, 0);
    print(&format!("settled, {lane_count} lanes, {name}"), total, settling, store.written().rows - before);
    print(
        &format!("claimed and settled, {lane_count} lanes, {name}"),
        total,
        claiming + settling,
        store.written().rows - before,
    );
}

/// A lane with a million waiting deliveries must not slow another.
fn backlog() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut store, lanes) = open(folder.path(), Durability::Process, 2);
    let mut number = 0;
    while number < 1_000_000 {
        let commands: Vec<Command> = (0..1_000)
            .map(|_| {
                number += 1;
                event(number, NOW, 2, &[lanes[0].0])
            })
            .collect();
        commit(&mut store, &commands);
    }
    let mut took = Duration::ZERO;
    for _ in 0..200 {
        let commands: Vec<Command> = (0..100)
            .map(|_| {
                number += 1;
                event(number, NOW, 2, &[lanes[1].0])
            })
            .collect();
        took += time(|| {
            commit(&mut store, &commands);
            let claim = Claim { lane: lanes[1].0, term: lanes[1].1, max: 100, bytes_max: u64::MAX };
            let replies = commit(&mut store, &[Command::Claim(claim)]);
            let Some(Reply::Claimed(claimed)) = replies.into_iter().next() else { panic!("claimed") };
            let settlements = claimed
                .rows
                .iter()
                .map(|row| settled(claimed.lane, claimed.term, row.delivery, NOW))
                .collect();
            commit(&mut store, &[Command::Settle(settlements)]);
        });
    }
    print("a fast lane, whole way, 1,000,000 wait beside", 20_000, took, 0);
    drop(store);
    let opening = time(|| {
        let options = Options { durability: Durability::Process, ..Options::default() };
        let mut store = SqliteStore::open(&folder.path().join("bench.db"), &options).expect("it is there");
        let acquire = Acquire {
            owner: OwnerId(2),
            lease: Nanos::HOUR,
            which: LaneSelection::WithWork { after: LaneId(0) },
            homes: None,
            max: 10,
        };
        store.commit(StoreTime(NOW.0 + Nanos::DAY.0), &[Command::Acquire(acquire)]).expect("the disk works");
    });
    println!("{:<44} {:>9.1} ms", "opening with 1,000,000 waiting", opening.as_secs_f64() * 1e3);
}

fn latencies() {
    for (name, durability) in [("power-loss", Durability::PowerLoss), ("process", Durability::Process)] {
        for (per_second, lanes) in [(1_000, 10), (1_000, 1_000)] {
            latency(name, durability, per_second, lanes);
        }
    }
}

/// From an event's intended time to its claim, and then to its settlement, at a steady rate: the store's part of the
/// latency of a first attempt.
fn latency(name: &str, durability: Durability, per_second: u64, lane_count: u64) {
    const SECONDS: u64 = 5;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (store, lanes) = open(folder.path(), durability, lane_count);
    let thread =
        StoreThread::start(Box::new(store), Arc::new(|| NOW), Capacity::default()).expect("a thread");
    let took = Arc::new(std::sync::Mutex::new(Vec::new()));
    let start = now();
    for number in 0..per_second * SECONDS {
        let intended = start + Duration::from_secs(number) / u32::try_from(per_second).expect("small");
        sleep_until(intended);
        let (lane, term) = lanes[usize::try_from(number % lane_count).expect("small")];
        let (handle, took) = (thread.handle(), took.clone());
        let emitted: Answer = Box::new(move |_| {
            let claim = Claim { lane, term, max: 100, bytes_max: u64::MAX };
            let settling = handle.clone();
            let claimed: Answer = Box::new(move |replies| {
                took.lock().expect("whole").push(now() - intended);
                let Some(Reply::Claimed(claimed)) = replies.expect("the disk works").pop() else {
                    panic!("claimed")
                };
                let settlements =
                    claimed.rows.iter().map(|row| settled(lane, term, row.delivery, NOW)).collect();
                submit(&settling, Command::Settle(settlements), Box::new(|_| {}));
            });
            submit(&handle, Command::Claim(claim), claimed);
        });
        submit(&thread.handle(), event(number, NOW, lane_count, &[lane]), emitted);
    }
    thread.stop();
    let mut took = std::mem::take(&mut *took.lock().expect("whole"));
    took.sort();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!(
        "{:<44} p50 {:.1}  p95 {:.1}  p99 {:.1} ms",
        format!("emit to claim, {per_second}/s, {lane_count} lanes, {name}"),
        at(50),
        at(95),
        at(99)
    );
}

fn submit(handle: &Handle, command: Command, answer: Answer) {
    // The last settlements meet a stopped thread, and do not matter.
    drop(handle.submit(Request { commands: vec![command], answer }));
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the generator keeps a schedule")]
fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(now()));
}

fn many_lanes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = 10_000;
    let (mut store, lanes) = open(folder.path(), Durability::Process, count);
    let ids: Vec<LaneId> = lanes.iter().map(|(lane, _)| *lane).collect();
    let emitted = time(|| drop(commit(&mut store, &[event(1, NOW, count, &ids)])));
    drop(store);
    let options = Options { durability: Durability::Process, ..Options::default() };
    let mut store = SqliteStore::open(&folder.path().join("bench.db"), &options).expect("it is there");
    let later = StoreTime(NOW.0 + Nanos::DAY.0);
    let mut carry_out = |commands: &[Command]| store.commit(later, commands).expect("the disk works");
    let mut taken = Vec::new();
    let acquired = time(|| {
        let acquire = Acquire {
            owner: OwnerId(2),
            lease: Nanos::HOUR,
            which: LaneSelection::WithWork { after: LaneId(0) },
            homes: None,
            max: u32::MAX,
        };
        let replies = carry_out(&[Command::Acquire(acquire)]);
        let Some(Reply::Acquired(lanes)) = replies.into_iter().next() else { panic!("acquired") };
        taken = lanes;
    });
    let renewed = time(|| {
        drop(carry_out(&[Command::Renew(Renew { owner: OwnerId(2), lease: Nanos::HOUR, announce: None })]));
    });
    let claims: Vec<Command> = taken
        .iter()
        .map(|taken| {
            Command::Claim(Claim { lane: taken.lane, term: taken.term, max: 10, bytes_max: u64::MAX })
        })
        .collect();
    let claimed = time(|| drop(carry_out(&claims)));
    for (name, took) in
        [("fan-out to", emitted), ("acquiring", acquired), ("renewing", renewed), ("claiming of", claimed)]
    {
        println!("{:<44} {:>9.1} ms", format!("{name} {} lanes", taken.len()), took.as_secs_f64() * 1e3);
    }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

#[expect(clippy::cast_precision_loss, reason = "figures for the eye")]
fn print(name: &str, count: u64, took: Duration, rows: u64) {
    println!("{name:<44} {:>12.0} {:>12.2}", count as f64 / took.as_secs_f64(), rows as f64 / count as f64);
}
