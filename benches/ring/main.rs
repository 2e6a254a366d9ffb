//! Our tables on PostgreSQL, whose keys grow, beside a ring of append-only tables that are emptied by TRUNCATE: the same events,
//! emitted, claimed and settled without HTTP, on the same server in turn. `cargo bench -p hookproof-benches --bench ring`, with
//! `HOOKPROOF_POSTGRES` naming a server with a database to itself; each turn lasts as many seconds as `HOOKPROOF_SECONDS` says, or 60.
//!
//! One lane, and a hundred; alone, and beside a stranger's REPEATABLE READ transaction that has read a table of its own and stays open
//! for the whole turn. Bodies have 300 bytes, ids are unique, one of fifty first attempts fails and is made again a second later.
//! With words after `--` only some turns are played: `one` or `hundred`; `alone` or `beside`; `ours` or `ring`. With `looked-up`, a
//! ring too that also looks in all its parts for the ids that it is about to write; with `sound`, no attempt fails.
//!
//! The ring is a prototype, as bare as it can be ([`LEFT_OUT`]): it says what its tables would save at most. Both have one connection
//! that commits whatever waits, and one that claims. What the machine does besides changes from minute to minute: turns of the same
//! sitting compare, figures of different ones do not.

#[path = "../end_to_end/failure.rs"]
mod failure;
#[expect(dead_code, reason = "shared with end_to_end, which prints more")]
#[path = "../end_to_end/figures.rs"]
mod figures;
mod ours;
mod prototype;
#[expect(dead_code, reason = "shared with end_to_end, which asks for more")]
#[path = "../end_to_end/server.rs"]
mod server;
mod workload;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use failure::Failure;
use figures::Rate;
use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::command::Body;
use hookproof_sender::store::thread::Clock;
use mimalloc::MiMalloc;
use ours::Ours;
use prototype::{Ring, Setup};
use server::Server;
use workload::{Course, Queue, Workload};

/// As in the sender's own program.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

/// What the prototype does not do, and our store does.
const LEFT_OUT: &str = "The ring is a bare prototype. Left out, and done by our store: bounds of queues; duplicates told by event id within
a window (the ring's ids are unique within a part, and forgotten with it); events that several subscribers share; coalescing;
counts by lane and in total, figures and latencies; lanes that change hands; dead letters; what was delivered, kept for a
time, with its attempts found by time and by delivery (audits).";

const BODY_BYTES: usize = 300;
const KIND: &str = "video.trending";
const KEY: &str = "clip";
const LATENCY: Nanos = Nanos::from_millis(20);
/// What is answered to an attempt that succeeds, and to one that fails.
const STATUS: (u16, u16) = (204, 503);

/// Turns, and parts of them that are told.
const SECONDS: u64 = 60;
const PART: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Ring,
    RingThatLooksUp,
}

impl Who {
    const fn name(self) -> &'static str {
        match self {
            Self::Ours => "our store",
            Self::Ring => "ring",
            Self::RingThatLooksUp => "ring that looks ids up",
        }
    }
}

/// What a turn came to.
struct Turn {
    first: Rate,
    whole: Rate,
    last: Rate,
    /// The server's processor time for each cycle, and all processes' together.
    micros: (f64, f64),
    log_bytes: f64,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let usual = if words.iter().any(|word| word == "--bench") { SECONDS } else { 1 };
    let seconds = std::env::var("HOOKPROOF_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    match measure(&words, Duration::from_secs(seconds)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ring: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure(words: &[String], lasts: Duration) -> Result<(), Failure> {
    let Some(server) = Server::named() else {
        figures::title("nothing is measured: HOOKPROOF_POSTGRES names no server");
        return Ok(());
    };
    figures::title(LEFT_OUT);
    let mut players = chosen(words, &[("ours", Who::Ours), ("ring", Who::Ring)]);
    players.extend(words.iter().any(|word| word == "looked-up").then_some(Who::RingThatLooksUp));
    let some_fail = !words.iter().any(|word| word == "sound");
    for lanes in chosen(words, &[("one", 1), ("hundred", 100)]) {
        for stranger in chosen(words, &[("alone", false), ("beside", true)]) {
            turns(&server, &players, Course { lanes, stranger, some_fail }, lasts)?;
        }
    }
    Ok(())
}

/// What is named; everything, if nothing is.
fn chosen<T: Copy>(words: &[String], all: &[(&str, T)]) -> Vec<T> {
    let named = |(name, _): &&(&str, T)| words.iter().any(|word| word == name);
    let some: Vec<T> = all.iter().filter(named).map(|(_, one)| *one).collect();
    if some.is_empty() { all.iter().map(|(_, one)| *one).collect() } else { some }
}

/// Each plays once, one after the other.
fn turns(server: &Server, players: &[Who], course: Course, lasts: Duration) -> Result<(), Failure> {
    let mut first: Option<Turn> = None;
    for who in players {
        let Course { lanes, stranger, some_fail } = course;
        let fail = if some_fail { "" } else { ", no attempt fails" };
        let beside = if stranger { "beside a stranger's open transaction" } else { "alone" };
        figures::title(&format!("{}, {lanes} lane(s), {beside}{fail}", who.name()));
        let held = stranger.then(|| server.hold()).transpose()?;
        let address = server.schema()?;
        let turn = play(server, &address, (*who, course), lasts)?;
        let place = Server::at(&address);
        place.tell_tables()?;
        drop(held);
        clear(&place)?;
        match &first {
            None => first = Some(turn),
            Some(first) => turn.compare(first, &format!("{} ÷ {}", who.name(), players[0].name())),
        }
    }
    Ok(())
}

/// The next turn finds neither tables of this one nor pages that are still to be written.
fn clear(place: &Server) -> Result<(), Failure> {
    let schema = place.ask("SELECT current_schema()")?;
    let schema = schema.ok_or_else(|| Failure::Says("the server does not tell the schema".to_owned()))?;
    place.ask(&format!("DROP SCHEMA {schema} CASCADE"))?;
    place.ask("CHECKPOINT")?;
    Ok(())
}

/// One of them plays.
fn play(
    server: &Server,
    address: &str,
    (who, course): (Who, Course),
    lasts: Duration,
) -> Result<Turn, Failure> {
    let began = now();
    let clock: Clock = Arc::new(move || {
        let passed = u64::try_from((now() - began).as_nanos()).expect("a bench ends");
        StoreTime(StoreTime::from_secs(1_800_000_000).0 + passed)
    });
    let body = Body { bytes: vec![b'x'; BODY_BYTES].into() };
    if who == Who::Ours {
        let (tell, told) = channel();
        let ours = Ours::start(address, course.lanes, body, clock.clone(), tell)?;
        let turn = parts(server, Workload::new(&ours, &told, &*clock, course), lasts);
        ours.stop();
        return turn;
    }
    let (tell, told) = channel();
    let setup = Setup { lanes: course.lanes, body, looks_up: who == Who::RingThatLooksUp };
    let ring = Ring::start(address, setup, clock.clone(), tell)?;
    let turn = parts(server, Workload::new(&ring, &told, &*clock, course), lasts)?;
    ring.stop()?;
    Ok(turn)
}

/// Works, and tells of each part.
fn parts<Q: Queue>(server: &Server, mut workload: Workload<'_, Q>, lasts: Duration) -> Result<Turn, Failure> {
    let (start, begun, own, commits) = (server.used()?, now(), own_ticks()?, workload.commits());
    let (mut cycles, mut rates) = (0, Vec::new());
    let mut left = lasts;
    while !left.is_zero() {
        let part = left.min(PART);
        left -= part;
        let (before, began) = (server.used()?, now());
        let count = workload.run(part)?;
        let (after, rate) = (server.used()?, Rate::new(count, now() - began));
        cycles += count;
        rates.push(rate);
        figures::rate(&format!("until {} s", (lasts - left).as_secs()), rate);
        figures::count("  the server: processor time per cycle, µs", before.micros_until(&after, count));
        figures::count("  the server: bytes of its log per cycle", before.log_bytes_until(&after, count));
    }
    let (end, commits) = (server.used()?, workload.commits() - commits);
    let turn = Turn {
        first: rates[0],
        last: rates[rates.len() - 1],
        whole: Rate::new(cycles, now() - begun),
        micros: (start.micros_until(&end, cycles), server::micros(own_ticks()? - own, cycles)),
        log_bytes: start.log_bytes_until(&end, cycles),
    };
    workload.drain()?;
    figures::rate("in all", turn.whole);
    figures::count("  cycles per commit", figures::float(cycles) / figures::float(commits));
    figures::count("  the server: processor time per cycle, µs", turn.micros.0);
    figures::count("  its client: processor time per cycle, µs", turn.micros.1);
    figures::count("  the server: bytes of its log per cycle", turn.log_bytes);
    Ok(turn)
}

impl Turn {
    fn compare(&self, other: &Self, what: &str) {
        figures::title(what);
        figures::count("cycles a second, the first part", self.first.over(other.first));
        figures::count("cycles a second, the last part", self.last.over(other.last));
        figures::count("cycles a second, in all", self.whole.over(other.whole));
        figures::count("the server's processor time", self.micros.0 / other.micros.0);
        figures::count("its client's processor time", self.micros.1 / other.micros.1);
        figures::count("bytes of its log", self.log_bytes / other.log_bytes);
    }
}

/// What this process has had of the processors, which is what the client of the server has.
fn own_ticks() -> Result<u64, Failure> {
    let ticks = server::figures_of("self").map(|figures| server::spent(&figures));
    ticks.ok_or_else(|| Failure::Says("the system does not tell of this process".to_owned()))
}

/// The moment, for whatever is measured here.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time; this is its one clock")]
fn now() -> Instant {
    Instant::now()
}
