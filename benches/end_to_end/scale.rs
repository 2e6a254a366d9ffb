//! A million waiting deliveries beside a fast lane, a start with them, and ten thousand subscribers.

use std::time::Duration;

use crate::exchange::Failure;
use crate::figures::{self, Rate};
use crate::process::{Database, Place, Sender};
use crate::sink::Sink;
use crate::{cost, now, offer, space};

/// These measurements concern files only.
const PLACE: Place = Place::File("power-loss");

/// Subscribers with one connection each, and events for each after the first.
const SUBSCRIBERS: u64 = 10_000;
const MORE: u64 = 30;
const MANY_WANTED_PER_SECOND: f64 = 20_000.0;
const MANY_WANTED_MIB: f64 = 150.0;
const RSS_WANTED_MIB: f64 = 200.0;
const START_WANTED: Duration = Duration::from_millis(100);
/// The part of its rate that a fast lane must keep.
const RATIO_WANTED: f64 = 0.98;

const UNLIMITED: [&str; 3] = ["limit.rate=1000000/s", "limit.burst=100000", "limit.in_flight=64"];
const ROOM: [&str; 2] = ["queue.rows=20000000", "queue.bytes=64GiB"];
const SLOW: [&str; 2] = ["limit.rate=1/s", "limit.burst=1"];
const SLOW_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn measure(sink: &Sink, waiting: u64, sent: u64) -> Result<(), Failure> {
    figures::title(&format!("{waiting} deliveries waiting for a slow subscriber"));
    let before = fast_rate(&serving(sink)?, sink, sent)?;
    let sender = serving(sink)?;
    offer::flood(sender.address(), "slow.one", waiting)?;
    let filled = sender.resident_mib()?;
    space::wait_until_noted(sender.file()?)?;
    space::print(sender.file()?, waiting)?;
    let beside = fast_rate(&sender, sink, sent)?;
    // Alone again, because the machine's load may have changed.
    let alone = Rate::between(before, fast_rate(&serving(sink)?, sink, sent)?);
    figures::rate("fast lane alone", alone);
    figures::rate("fast lane beside them", beside);
    figures::ratio("ratio", beside.over(alone), RATIO_WANTED);
    figures::wanted("resident memory after taking them, MiB", filled, RSS_WANTED_MIB);
    figures::wanted("resident memory at its highest, MiB", sender.resident_highest_mib()?, RSS_WANTED_MIB);
    let database = sender.stop()?;
    let (fast, all) = (sink.fast_arrivals(), sink.arrivals());
    let began = now();
    let sender = Sender::start(database)?;
    sender.wait_until_ready()?;
    let ready = now() - began;
    offer::flood(sender.address(), "fast.one", 1)?;
    sink.wait_for_fast(fast + 1)?;
    let claimed = now() - began;
    // Including one of the slow lane, whose limit is one a second.
    sink.wait_for(all + 2)?;
    let slow = now() - began;
    figures::wanted("start with them, seconds", ready.as_secs_f64(), START_WANTED.as_secs_f64());
    figures::wanted(
        "until a first event has arrived, seconds",
        claimed.as_secs_f64(),
        START_WANTED.as_secs_f64(),
    );
    let slow_wanted = (SLOW_EVERY + START_WANTED).as_secs_f64();
    figures::wanted("until one of the waiting has arrived, seconds", slow.as_secs_f64(), slow_wanted);
    figures::wanted("resident memory after a start, MiB", sender.resident_mib()?, RSS_WANTED_MIB);
    sender.stop()?;
    many(sink)
}

fn serving(sink: &Sink) -> Result<Sender, Failure> {
    let database = PLACE.database()?;
    add_fast_and_slow(&database, sink)?;
    Sender::start(database)
}

pub(crate) fn add_fast_and_slow(database: &Database, sink: &Sink) -> Result<(), Failure> {
    database.add("fast", &sink.url(), "fast.*", UNLIMITED.iter().chain(&ROOM))?;
    database.add("slow", &sink.url(), "slow.*", SLOW.iter().chain(&ROOM))
}

pub(crate) fn fast_rate(sender: &Sender, sink: &Sink, events: u64) -> Result<Rate, Failure> {
    let before = sink.fast_arrivals();
    let began = now();
    offer::flood(sender.address(), "fast.one", events)?;
    sink.wait_for_fast(before + events)?;
    Ok(Rate::new(events, now() - began))
}

pub(crate) fn many(sink: &Sink) -> Result<(), Failure> {
    figures::title(&format!("{SUBSCRIBERS} subscribers with a connection each"));
    let sender = Sender::start(PLACE.database()?)?;
    let began = now();
    sender.subscribe_many(&sink.url(), SUBSCRIBERS, &cost::unlimited(1))?;
    figures::rate("subscribed", Rate::new(SUBSCRIBERS, now() - began));
    figures::count("resident memory before, MiB", sender.resident_mib()?);
    let more = cost::first_and_more(sink, &sender, MORE, SUBSCRIBERS)?;
    figures::rate_wanted("delivered over connections that are there", more, MANY_WANTED_PER_SECOND);
    figures::wanted("resident memory, MiB", sender.resident_mib()?, MANY_WANTED_MIB);
    figures::wanted("resident memory at its highest, MiB", sender.resident_highest_mib()?, MANY_WANTED_MIB);
    sender.stop().map(drop)
}
