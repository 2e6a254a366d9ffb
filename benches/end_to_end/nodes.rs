//! Several nodes on one server.

use std::time::Duration;

use crate::exchange::Failure;
use crate::figures::{self, Rate};
use crate::process::{Database, Place, Sender};
use crate::server::Server;
use crate::sink::Sink;
use crate::{PACE_PER_SECOND, WAITING, now, number, offer};

const IDLE_LANES: u64 = 10_000;
const IDLE_LASTS: Duration = Duration::from_secs(60);
const IDLE_PERCENT_WANTED: f64 = 2.0;
const IDLE_MIB_WANTED: f64 = 200.0;

/// Deliveries of the lane beside a backlog.
const BESIDE: u64 = 200_000;
/// Earlier deliveries, which fill the server's buffers.
const WARM_UP: u64 = 600_000;

/// A server is at rest after this time without a vacuum; it checks for work once a minute. `LOOK` is the interval of
/// polls.
const QUIET: Duration = Duration::from_secs(65);
const LOOK: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_mins(10);

const TAKES: Duration = Duration::from_millis(100);
const SLOW_LANES: u64 = 32;
const SLOW_SETTINGS: [&str; 3] = ["limit.rate=1000/s", "limit.burst=1000", "limit.in_flight=8"];
const CONNECTIONS: &str = "32";
const RATE_LASTS: Duration = Duration::from_secs(10);
/// Events for all of those lanes, more than the nodes can send in time.
const SLOW_EVENTS: u64 = 500;

/// The expected rates of one, two and three nodes, relative to one.
const WANTED: [f64; 3] = [1.0, 1.6, 2.4];

const NAMES: [&str; 3] = ["first", "second", "third"];

pub(crate) fn measure(parts: &[String]) -> Result<(), Failure> {
    let Some(server) = Server::named() else {
        figures::title("nothing is measured: HOOKPROOF_POSTGRES names no server");
        return Ok(());
    };
    let wants = |part: &str| {
        let named: Vec<_> = parts.iter().filter(|part| !part.starts_with('-')).collect();
        named.is_empty() || named.iter().any(|name| *name == part)
    };
    if wants("elsewhere") {
        elsewhere(&server)?;
    }
    if wants("rates") {
        rates(&server)?;
    }
    if wants("backlog") {
        backlog(&server)?;
    }
    if wants("idle") {
        idle(&server)?;
    }
    Ok(())
}

fn nodes(database: &Database, count: usize, options: &[&str]) -> Result<Vec<Sender>, Failure> {
    NAMES[..count]
        .iter()
        .map(|name| Sender::beside(database, &[&["--node", name], options].concat()))
        .collect()
}

fn wait_until_shared(database: &Database, nodes: usize, lanes: u64) -> Result<(), Failure> {
    loop {
        let shares = database.lanes_by_node()?;
        let is_shared = shares.len() == nodes && shares.values().all(|lanes| *lanes > 0);
        if is_shared && shares.values().sum::<u64>() == lanes {
            figures::title(&format!("lanes: {shares:?}"));
            return Ok(());
        }
    }
}

fn elsewhere(server: &Server) -> Result<(), Failure> {
    let (sink, database) = (Sink::start()?, Place::Server(server.clone()).database()?);
    crate::add(&database, &sink)?;
    let nodes = nodes(&database, 2, &[])?;
    offer::flood(nodes[0].address(), offer::KIND, 1)?;
    sink.wait_for(1)?;
    let owner = loop {
        let shares = database.lanes_by_node()?;
        if let Some(place) = NAMES.iter().position(|name| shares.get(*name) == Some(&1)) {
            break place;
        }
    };
    for (what, place) in [("at the node that sends it", owner), ("at the other one", 1 - owner)] {
        figures::title(&format!("two nodes, {PACE_PER_SECOND} events/s emitted {what}"));
        sink.forget_latencies();
        let before = sink.arrivals();
        let offered = offer::paced(nodes[place].address(), sink.clock(), crate::PACE)?;
        sink.wait_for(before + offered.events)?;
        crate::report_paced(crate::PACE, &sink.latencies(), &offered);
    }
    nodes.into_iter().try_for_each(Sender::end)
}

fn rates(server: &Server) -> Result<(), Failure> {
    figures::title(&format!(
        "endpoints that take {TAKES:?}, {SLOW_LANES} lanes, {CONNECTIONS} connections for each node"
    ));
    let mut one = None;
    for count in 1..=NAMES.len() {
        let (sink, database) = (Sink::start_slow(TAKES)?, Place::Server(server.clone()).database()?);
        for lane in 0..SLOW_LANES {
            database.add(&format!("s{lane}"), &sink.url(), "*", &SLOW_SETTINGS)?;
        }
        let nodes = nodes(&database, count, &["--connections-max", CONNECTIONS])?;
        offer::flood(nodes[0].address(), offer::KIND, SLOW_EVENTS)?;
        wait_until_shared(&database, count, SLOW_LANES)?;
        let (began, before) = (now(), sink.arrivals());
        offer::wait_until(began + RATE_LASTS);
        let rate = Rate::new(sink.arrivals() - before, now() - began);
        figures::rate(&format!("{count} nodes"), rate);
        figures::ratio("  ÷ one", rate.over(*one.get_or_insert(rate)), WANTED[count - 1]);
        drop(nodes);
    }
    Ok(())
}

fn backlog(server: &Server) -> Result<(), Failure> {
    let waiting = number("HOOKPROOF_WAITING", WAITING);
    figures::title(&format!("{waiting} deliveries waiting for a slow subscriber, on PostgreSQL"));
    let (sink, database) = (Sink::start()?, Place::Server(server.clone()).database()?);
    crate::scale::add_fast_and_slow(&database, &sink)?;
    let sender = Sender::beside(&database, &[])?;
    let fast = |deliveries| crate::scale::fast_rate(&sender, &sink, deliveries);
    fast(WARM_UP)?;
    let alone = median_of_three(server, "fast lane alone", || fast(BESIDE))?;
    offer::flood(sender.address(), "slow.one", waiting)?;
    rest(server)?;
    let beside = median_of_three(server, "fast lane beside them", || fast(BESIDE))?;
    figures::ratio("ratio", beside.over(alone), 0.95);
    sender.end()
}

fn rest(server: &Server) -> Result<(), Failure> {
    let workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'";
    let (mut quiet_since, give_up) = (now(), now() + REST_MAX);
    while now() < quiet_since + QUIET {
        if server.query_value(workers)?.as_deref() != Some("0") {
            quiet_since = now();
        }
        if now() > give_up {
            return Err(Failure::Says(format!("the server still vacuums after {REST_MAX:?}")));
        }
        offer::wait_until(now() + LOOK);
    }
    Ok(())
}

/// The median of three rates of [`BESIDE`] deliveries, and the server's work for one of them.
fn median_of_three(
    server: &Server,
    what: &str,
    rate: impl Fn() -> Result<Rate, Failure>,
) -> Result<Rate, Failure> {
    let before = server.used()?;
    let mut rates = [rate()?, rate()?, rate()?];
    let after = server.used()?;
    rates.sort_by(|one, other| one.0.total_cmp(&other.0));
    for one in rates {
        figures::rate(what, one);
    }
    figures::count("  the server: processor time per delivery, µs", before.micros_until(&after, 3 * BESIDE));
    figures::count("  the server: bytes of its log per delivery", before.log_bytes_until(&after, 3 * BESIDE));
    Ok(rates[1])
}

fn idle(server: &Server) -> Result<(), Failure> {
    figures::title(&format!("{IDLE_LANES} idle lanes on two nodes, {IDLE_LASTS:?}"));
    let place = Place::Server(server.clone());
    let (sink, database) = (Sink::start()?, place.database()?);
    let nodes = nodes(&database, 2, &[])?;
    nodes[0].subscribe_many(&sink.url(), IDLE_LANES, "")?;
    offer::flood(nodes[0].address(), offer::KIND, 1)?;
    sink.wait_for(IDLE_LANES)?;
    wait_until_shared(&database, 2, IDLE_LANES)?;
    offer::wait_until(now() + IDLE_LASTS / 4);
    let (began, before) = (now(), server.used()?);
    offer::wait_until(began + IDLE_LASTS);
    let after = server.used()?;
    figures::wanted(
        "the server: % of a core",
        before.percent_until(&after, now() - began),
        IDLE_PERCENT_WANTED,
    );
    let memory = nodes.iter().map(Sender::resident_mib).sum::<Result<f64, Failure>>()?;
    figures::wanted("resident memory of both nodes, MiB", memory, IDLE_MIB_WANTED);
    nodes.into_iter().try_for_each(Sender::end)
}
