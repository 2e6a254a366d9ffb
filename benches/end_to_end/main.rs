//! The whole sender on this machine, compared with the machine's ceiling:
//! `cargo bench -p hookproof-benches --bench end_to_end`. Options:
//!
//! - `-- scale`: a million waiting deliveries, or `HOOKPROOF_WAITING`;
//! - `-- many`: ten thousand subscribers;
//! - `-- cost`: processor time of each thread;
//! - `-- server`: only the server that `HOOKPROOF_POSTGRES` names, with a database of its own. Without an option the
//!   bench measures it too;
//! - `-- steady`: that server for six minutes, or `HOOKPROOF_SECONDS` in each half; `-- steady beside`: the second
//!   half alone;
//! - `-- nodes`: several nodes on that server, and a lane beside as many waiting deliveries as for `-- scale`.
//!
//! The sender is a separate process of this program, with the environment of its systemd unit; the bare client, which
//! measures the ceiling, is another. Both send the same 300-byte body to the same sink, over at most 64 connections.
//! The ceiling is measured before and after, because other programs share the machine: compare only ratios of
//! simultaneous figures.

mod bare;
mod cost;
mod exchange;
mod failure;
mod figures;
mod nodes;
mod offer;
mod process;
mod scale;
mod server;
mod sink;
mod space;
mod steady;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use exchange::Failure;
use figures::{Latencies, Rate};
use mimalloc::MiMalloc;
use offer::{Offer, Pace};
use process::{Bare, Database, Place, Sender};
use server::Server;
use sink::Sink;

/// The sender's allocator, and so the bare client's too.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

/// Connections of the bare client, and requests in flight of the sender.
const CONNECTIONS: u32 = 64;

/// `HOOKPROOF_EVENTS` overrides it.
const EVENTS: u64 = 300_000;

/// `HOOKPROOF_WAITING` overrides it.
const WAITING: u64 = 1_000_000;

/// The open-loop part: the rate of single events, and the duration.
const PACE_PER_SECOND: u32 = 1_000;
const PACE: Pace =
    Pace { requests_per_second: PACE_PER_SECOND, events_each: 1, lasts: Duration::from_secs(10) };
/// Events in one request at half the sender's rate: single requests would be the bottleneck.
const HALF_EACH: u32 = 20;

/// The kinds of durability of the sender's files.
const FILES: [&str; 2] = ["power-loss", "process"];

const RATIO_WANTED: f64 = 0.5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).map(String::as_str) == Some(process::SENDER) {
        let rest = arguments.iter().skip(2).map(Into::into);
        return hookproof_sender::cli::main(std::iter::once("hookproof-sender".into()).chain(rest));
    }
    let done = match arguments.get(1).map(String::as_str) {
        Some(process::BARE) => bare::main(&arguments[2..]),
        Some("scale") => Sink::start()
            .and_then(|sink| scale::measure(&sink, number("HOOKPROOF_WAITING", WAITING), events())),
        Some("nodes") => nodes::measure(&arguments[2..]),
        Some("many") => Sink::start().and_then(|sink| scale::many(&sink)),
        Some("cost") => Sink::start().and_then(|sink| cost::measure(&sink, events())),
        Some("steady") => Sink::start().and_then(|sink| steady::measure(&sink, &arguments[2..])),
        Some("server") => measure(&[], events(), PACE),
        // `cargo test --all-targets` runs benches too: once is enough.
        _ if !arguments.iter().any(|argument| argument == "--bench") => {
            measure(&FILES, 2_000, Pace { lasts: Duration::from_secs(1), ..PACE })
        }
        _ => measure(&FILES, events(), PACE),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("end_to_end: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn events() -> u64 {
    number("HOOKPROOF_EVENTS", EVENTS)
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time; this is its one clock")]
fn now() -> Instant {
    Instant::now()
}

fn measure(files: &[&'static str], events: u64, pace: Pace) -> Result<(), Failure> {
    let sink = Sink::start()?;
    // The first run also warms up the machine.
    ceiling(&sink, events)?;
    let server = Server::named().map(Place::Server);
    if server.is_none() {
        figures::title("PostgreSQL is not measured: HOOKPROOF_POSTGRES names none");
    }
    for place in files.iter().map(|durability| Place::File(durability)).chain(server) {
        let how = match &place {
            Place::File(durability) => format!("durability {durability}"),
            Place::Encrypted(durability) => format!("durability {durability}, encrypted"),
            Place::Server(_) => "on PostgreSQL".to_owned(),
        };
        figures::title(&format!("{how}, {events} events of {} bytes", offer::BODY_BYTES));
        let before = ceiling(&sink, events)?;
        let (sent, written) = end_to_end(&sink, &place, events)?;
        let after = ceiling(&sink, events)?;
        let ceiling = Rate::between(before, after);
        figures::rate("ceiling: bare client", ceiling);
        figures::rate("sender: emitted, signed, delivered, recorded", sent);
        figures::ratio("ratio", sent.over(ceiling), RATIO_WANTED);
        figures::count("rows written per delivery", written.rows_per_delivery);
        figures::count("deliveries per commit", written.deliveries_per_commit);
        if let Some((log_bytes, micros)) = written.by_server {
            figures::count("the server: bytes of its log per delivery", log_bytes);
            figures::count("the server: processor time per delivery, µs", micros);
        }
        if let Place::File(durability) = place {
            encrypted(&sink, durability, sent, events)?;
        }
        figures::rate("durable emits alone", emits(&sink, &place, events)?);
        paced(&sink, &place, pace)?;
        paced(&sink, &place, half(sent, pace.lasts))?;
    }
    Ok(())
}

/// `before`: the rate of a plain file, which is measured again afterwards.
fn encrypted(sink: &Sink, durability: &'static str, before: Rate, events: u64) -> Result<(), Failure> {
    let (encrypted, _) = end_to_end(sink, &Place::Encrypted(durability), events)?;
    let (after, _) = end_to_end(sink, &Place::File(durability), events)?;
    figures::rate("sender with an encrypted file", encrypted);
    let plain = Rate::between(before, after);
    figures::count("encrypted file ÷ plain file", encrypted.over(plain));
    Ok(())
}

/// A sender with one subscriber that is limited only by its connections.
fn serving(sink: &Sink, place: &Place) -> Result<Sender, Failure> {
    let database = place.database()?;
    add(&database, sink)?;
    Sender::start(database)
}

fn add(database: &Database, sink: &Sink) -> Result<(), Failure> {
    let in_flight = format!("limit.in_flight={CONNECTIONS}");
    let settings =
        ["limit.rate=1000000/s", "limit.burst=100000", &in_flight, "queue.rows=10000000", "queue.bytes=8GiB"];
    database.add("sink", &sink.url(), "*", &settings)
}

fn ceiling(sink: &Sink, requests: u64) -> Result<Rate, Failure> {
    let before = sink.arrivals();
    let rate = Bare::run(sink.address(), requests, CONNECTIONS)?;
    sink.expect(before + requests)?;
    Ok(rate)
}

struct Written {
    rows_per_delivery: f64,
    deliveries_per_commit: f64,
    /// For each delivery: bytes of the server's log, microseconds of processor time.
    by_server: Option<(f64, f64)>,
}

/// Emits at full speed, until every delivery has arrived and is recorded.
fn end_to_end(sink: &Sink, place: &Place, events: u64) -> Result<(Rate, Written), Failure> {
    let sender = serving(sink, place)?;
    let before = sink.arrivals();
    let (rows, commits) =
        (sender.metric("hookproof_store_rows_total")?, sender.metric("hookproof_store_commits_total")?);
    let used = place.used()?;
    let began = now();
    offer::flood(sender.address(), offer::KIND, events)?;
    sink.wait_for(before + events)?;
    let rate = Rate::new(events, now() - began);
    sender.wait_until_recorded(events)?;
    let by_server = used
        .zip(place.used()?)
        .map(|(before, after)| (before.log_bytes_until(&after, events), before.micros_until(&after, events)));
    let written = Written {
        rows_per_delivery: (sender.metric("hookproof_store_rows_total")? - rows) / figures::float(events),
        deliveries_per_commit: figures::float(events)
            / (sender.metric("hookproof_store_commits_total")? - commits),
        by_server,
    };
    sink.expect(before + events)?;
    sender.stop()?;
    Ok((rate, written))
}

fn emits(sink: &Sink, place: &Place, events: u64) -> Result<Rate, Failure> {
    let database = place.database()?;
    add(&database, sink)?;
    database.pause()?;
    let sender = Sender::start(database)?;
    let began = now();
    offer::flood(sender.address(), offer::KIND, events)?;
    let rate = Rate::new(events, now() - began);
    sender.stop()?;
    Ok(rate)
}

fn half(rate: Rate, lasts: Duration) -> Pace {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are far below 2^32")]
    let per_second = (rate.0 / 2.0) as u32;
    let requests_per_second = (per_second / HALF_EACH).max(1);
    Pace { requests_per_second, events_each: u64::from(HALF_EACH), lasts }
}

/// Emits by the clock, in open loop.
fn paced(sink: &Sink, place: &Place, pace: Pace) -> Result<(), Failure> {
    let sender = serving(sink, place)?;
    sink.forget_latencies();
    let before = sink.arrivals();
    let offered: Offer = offer::paced(sender.address(), sink.clock(), pace)?;
    sink.wait_for(before + offered.events)?;
    sender.stop()?;
    report_paced(pace, &sink.latencies(), &offered);
    Ok(())
}

fn report_paced(pace: Pace, first_attempt: &Latencies, offered: &Offer) {
    let per_second = u64::from(pace.requests_per_second) * pace.events_each;
    figures::latencies(&format!("emit to first attempt at {per_second}/s"), first_attempt);
    figures::latencies("  of which until the emit was acknowledged", &offered.acknowledged);
    figures::latencies("  the generator's own lag", &offered.lag);
}
