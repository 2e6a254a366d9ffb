//! A failover, with three nodes under load, to a standby that lacks the last commits. One node is stopped before the
//! standby is cut off, so it committed nothing that is lost.
//!
//! Invariants, as docs/nodes.md promises them:
//! - A node with lost commits reports them and ends; a node without goes on.
//! - Leases are extended by one.
//! - No event that the standby had is lost. No delivery that it knew as delivered is sent again.
//! - Each lane keeps its contract over all windows if its burst is at most rate × lease. With a larger burst, the
//!   attempts since the cut may come on top.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use crate::crash::emitter::Emitter;
use crate::crash::process::{Database, Node, Serving, free_address};
use crate::crash::sink::{Arrival, Sink};
use crate::crash::{QUARANTINE_NS, judge, settings};
use crate::postgres_server::{Private, address_in_any, query};

const LANES: usize = 4;
const LEASE_NS: u64 = 1_000_000_000;
const NODES: [&str; 3] = ["one", "other", "stopped"];
const OUR_FAILURE: i32 = 70;
const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000";

#[derive(Clone, Copy)]
struct Contract {
    rate_per_second: u64,
    burst: usize,
}

const QUICK: Contract = Contract { rate_per_second: 100, burst: 20 };
const SLOW: Contract = Contract { rate_per_second: 10, burst: 60 };

struct Failover {
    contract: Contract,
    sink: Arc<Sink>,
    nodes: Vec<Node>,
    standby: Private,
    // Declared last: the server must end after its nodes.
    database: Database,
}

struct Known {
    events: BTreeSet<String>,
    /// Event and path of each delivery.
    delivered: BTreeSet<String>,
}

impl Known {
    fn by(server: &Private) -> Self {
        let asked = |statement| query(&server.address("public"), statement).into_iter().collect();
        let delivered =
            "SELECT e.id || ' /' || split_part(s.url, '/', 4) FROM all_deliveries d JOIN events e USING (event)
            JOIN subscribers s USING (lane) WHERE d.state = 1";
        Self { events: asked("SELECT id FROM events"), delivered: asked(delivered) }
    }
}

struct ServingWithLog {
    serving: Serving,
    said: Receiver<String>,
}

impl ServingWithLog {
    fn has_gone_back(mut self) {
        let code = self.serving.ended();
        let said: Vec<_> = self.said.iter().collect();
        assert_eq!(code, Some(OUR_FAILURE), "{said:?}");
        for part in ["the database lost commits", "this process ends: restart it"] {
            assert!(said.iter().any(|line| line.contains(part)), "{said:?}");
        }
    }
}

impl Failover {
    fn new(contract: Contract, sink: &Arc<Sink>, database: Database) -> Self {
        let standby = database.server().start_standby();
        let either = address_in_any(&[database.server().folder(), standby.folder()], "public");
        let node = |name| Node { name, address: free_address(), database: either.clone(), clock_ahead: 0 };
        Self {
            contract,
            sink: Arc::clone(sink),
            nodes: NODES.into_iter().map(node).collect(),
            standby,
            database,
        }
    }

    fn serve(&self, which: usize) -> ServingWithLog {
        let (tell, said) = channel();
        let serving = self.database.serve_node(&self.nodes[which], move |line| {
            let _ = tell.send(line.to_owned());
        });
        ServingWithLog { serving, said }
    }

    fn first(&self) -> &Private {
        self.database.server()
    }

    fn first_says(&self, statement: &str) -> Vec<String> {
        query(&self.first().address("public"), statement)
    }

    fn standby_says(&self, statement: &str) -> Vec<String> {
        query(&self.standby.address("public"), statement)
    }

    fn wait_for_first(&self, statement: &str) {
        while self.first_says(statement).is_empty() {}
    }

    fn cut_off(&self) -> Known {
        let known = Known::by(self.first());
        let place = self.first_says("SELECT pg_current_wal_lsn()").remove(0);
        self.wait_for_first(&format!("SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= '{place}'"));
        self.standby_says("ALTER SYSTEM SET primary_conninfo = ''");
        self.standby_says("SELECT pg_reload_conf()");
        while !self.standby_says("SELECT pid FROM pg_stat_wal_receiver").is_empty() {}
        known
    }
}

#[test]
fn after_a_failover_to_a_standby_that_lacked_commits_who_made_them_ends_and_the_rest_holds() {
    play("after_a_failover_to_a_standby_that_lacked_commits", QUICK);
}

#[test]
fn requests_sent_since_a_lagging_standby_was_cut_off_may_add_to_a_large_burst() {
    play("requests_since_a_lagging_standby_was_cut_off", SLOW);
}

fn play(test: &str, contract: Contract) {
    let sink = Arc::new(Sink::start());
    let settings = settings(contract.rate_per_second, contract.burst);
    if let Some(database) = Database::on_server_with_subscribers(test, &sink.url(), LANES, &settings) {
        fail_over(&Failover::new(contract, &sink, database));
    }
}

fn fail_over(failover: &Failover) {
    let sink = &failover.sink;
    sink.explain_by(failover.database.lanes());
    failover.wait_for_first("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'");
    let mut serving: Vec<ServingWithLog> = (0..NODES.len()).map(|which| failover.serve(which)).collect();
    let addresses: Vec<_> = failover.nodes.iter().map(|node| node.address).collect();
    let emitter = Emitter::start_at(&addresses, Arc::clone(sink), LANES);
    sink.wait_for(300);
    let stopped = serving.pop().expect("there are three");
    stopped.serving.signal("STOP");
    failover.wait_for_first(&format!(
        "SELECT 1 WHERE NOT EXISTS (SELECT FROM owners o JOIN nodes n USING (owner)
            WHERE n.name = 'stopped' AND o.until > ({NOW}))"
    ));
    let known = failover.cut_off();
    let cut = sink.now();
    sink.wait_for_time(cut, LANES);
    sink.wait_for(sink.count() + 200);
    failover.first().kill();
    let promoted: u64 = failover.standby_says(NOW)[0].parse().unwrap();
    failover.standby_says("SELECT pg_promote()");
    serving.into_iter().for_each(ServingWithLog::has_gone_back);
    let gone = sink.now();
    let until: u64 = failover.standby_says("SELECT min(until) FROM owners")[0].parse().unwrap();
    assert!(until >= promoted + LEASE_NS, "{until} is no lease after {promoted}");
    stopped.serving.signal("CONT");
    let anew = [failover.serve(0), failover.serve(1)];
    sink.wait_for_time(sink.now(), LANES);
    sink.wait_for(sink.count() + 300);
    let acknowledged: BTreeSet<String> = emitter.stop().into_iter().collect();
    let kept = Known::by(&failover.standby).events;
    let owed = kept.iter().flat_map(|event| (0..LANES).map(move |lane| format!("{event} /{lane}")));
    sink.wait_for_taken(owed.collect(), name);
    anew.into_iter().chain([stopped]).for_each(|node| node.serving.stop_in_order());
    let lost = judge_events(failover, &known, &kept, &acknowledged);
    let again = judge_arrivals(failover.contract, &sink.arrivals(), &known, (cut, gone));
    eprintln!(
        "{} events acknowledged, {} that the standby lacked are gone, {again} of what was delivered since it was cut off came again",
        acknowledged.len(),
        lost.len(),
    );
}

fn name(arrival: &Arrival) -> String {
    format!("{} {}", arrival.event, arrival.path)
}

/// Lost are at most those that the standby lacked, which the first server names.
fn judge_events(
    failover: &Failover,
    known: &Known,
    kept: &BTreeSet<String>,
    acknowledged: &BTreeSet<String>,
) -> BTreeSet<String> {
    failover.first().begin();
    let first = Known::by(failover.first()).events;
    let lost: BTreeSet<String> = acknowledged - kept;
    assert!(known.events.is_subset(kept), "{:?}", &known.events - kept);
    assert!(lost.is_subset(&(&first - &known.events)), "{:?}", &lost - &first);
    assert!(!lost.is_empty(), "the standby lacked nothing");
    lost
}

/// Returns deliveries that were taken twice, none of which the standby knew as delivered. It knows no attempts of
/// `(cut, gone)`.
fn judge_arrivals(contract: Contract, arrivals: &[Arrival], known: &Known, (cut, gone): (u64, u64)) -> usize {
    let Contract { rate_per_second, burst } = contract;
    let refills_in_a_lease = burst as u64 <= rate_per_second * LEASE_NS / 1_000_000_000;
    for lane in 0..LANES {
        let path = format!("/{lane}");
        let of_lane: Vec<_> = arrivals.iter().filter(|arrival| arrival.path == path).cloned().collect();
        let forgotten = of_lane.iter().filter(|arrival| (cut..gone + QUARANTINE_NS).contains(&arrival.at));
        let on_top = if refills_in_a_lease { 0 } else { forgotten.count().min(burst) };
        judge::conforms(&of_lane, rate_per_second, burst + on_top);
    }
    let late = arrivals.iter().filter(|arrival| arrival.at > cut + QUARANTINE_NS);
    for arrival in late {
        assert!(!known.delivered.contains(&name(arrival)), "{arrival:?} was known to be delivered at {cut}");
    }
    let taken: Vec<_> = arrivals.iter().filter(|arrival| arrival.taken).map(name).collect();
    taken.len() - taken.iter().collect::<BTreeSet<_>>().len()
}
