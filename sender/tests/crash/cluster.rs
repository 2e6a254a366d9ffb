//! Three nodes on one server under load, with kills, stops and partitions. Two nodes have wrong clocks.
//!
//! Invariants:
//! - No acknowledged event is lost.
//! - Each lane keeps its contract over all windows, as its endpoint sees them.
//! - A delivery arrives twice only around a fault, or where another node took over its lane. After the server reported
//!   it as delivered it never arrives again, except where a node recorded that after it had lost the lane.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::crash::emitter::Emitter;
use crate::crash::judge;
use crate::crash::process::{Database, Node, Serving, free_address, wrong_clock};
use crate::crash::sink::{Arrival, Sink};
use crate::crash::way::{Passage, Way};
use crate::crash::{IN_FLIGHT, Moments, QUARANTINE_NS, settings};
use crate::postgres_server::{address_in, query};

const LANES: usize = 4;
const RATE_PER_SECOND: u64 = 100;
const BURST: usize = 20;
/// The first has all lanes at the beginning. A node that is killed again and again may never get any.
const NODES: [(&str, i64); 3] = [("behind", -90), ("ahead", 90), ("right", 0)];
const LEASE_NS: u64 = 1_000_000_000;
const ARRIVALS_BETWEEN: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    Kill,
    /// Stops a node until its lease is over.
    Stop,
    /// Drops all traffic between a node and the server; neither side is notified.
    Silence,
    /// Closes a node's connections to the server, and refuses new ones.
    Cut,
    KillServer,
    /// PostgreSQL's shutdown in immediate mode.
    EndServer,
}

struct Plan([(Deed, usize); 6]);

impl Plan {
    /// `kills` kills of nodes; server faults, stops and partitions each a tenth of that.
    const fn of(kills: usize) -> Self {
        let tenth = kills.div_ceil(10);
        Self([
            (Deed::Kill, kills),
            (Deed::Stop, tenth),
            (Deed::Silence, tenth.div_ceil(2)),
            (Deed::Cut, tenth.div_ceil(2)),
            (Deed::KillServer, tenth.div_ceil(2)),
            (Deed::EndServer, tenth.div_ceil(2)),
        ])
    }

    fn in_some_order(&self, moments: &mut Moments) -> Vec<Deed> {
        let mut deeds: Vec<Deed> =
            self.0.iter().flat_map(|(deed, count)| std::iter::repeat_n(*deed, *count)).collect();
        for left in (1..deeds.len()).rev() {
            deeds.swap(left, moments.next_below(left as u64 + 1));
        }
        deeds
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [(_, kills), (_, stops), (_, silences), (_, cuts), (_, killed), (_, ended)] = self.0;
        write!(
            f,
            "{kills} kills of nodes, {} of the server ({ended} of them in immediate mode), {stops} stops past the lease, {} \
             partitions ({cuts} cut, {silences} silent)",
            killed + ended,
            silences + cuts,
        )
    }
}

#[test]
fn nodes_and_their_server_are_killed_stopped_and_parted() {
    play("nodes_and_their_server_are_killed_stopped_and_parted", &Plan::of(6));
}

#[test]
#[ignore = "takes a quarter of an hour; HOOKPROOF_KILLS says how many"]
fn five_hundred_kills_of_nodes_and_fifty_of_their_server() {
    let kills = std::env::var("HOOKPROOF_KILLS")
        .map_or(500, |kills| kills.parse().expect("HOOKPROOF_KILLS is a number"));
    play("five_hundred_kills_of_nodes", &Plan::of(kills));
}

/// Records takeovers and deliveries in the server's own order. Both triggers run while the lane is locked.
const WATCH: &str = "CREATE TABLE takings (lane int8, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE recordings (delivery int8, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION note_taking() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO takings (lane) VALUES (NEW.lane); RETURN NULL; END $$;
    CREATE FUNCTION note_recording() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO recordings (delivery) VALUES (NEW.delivery); RETURN NULL; END $$;
    CREATE TRIGGER taken AFTER UPDATE ON lanes FOR EACH ROW WHEN (NEW.term > OLD.term) EXECUTE FUNCTION note_taking();
    CREATE TRIGGER recorded AFTER INSERT ON done FOR EACH ROW EXECUTE FUNCTION note_recording();
    SELECT 1";

/// The new owner may have claimed them.
const RECORDED_LATE: &str =
    "SELECT e.id || ' /' || split_part(s.url, '/', 4) FROM recordings r JOIN done d USING (delivery)
    JOIN events e USING (event) JOIN subscribers s USING (lane) WHERE EXISTS (
        SELECT 1 FROM takings t JOIN attempts a ON a.delivery = r.delivery AND a.outcome = 0
        WHERE t.lane = d.lane AND t.at < r.at AND a.at < (extract(epoch FROM t.at) * 1000000)::int8 * 1000)";

type Span = (u64, u64);

#[derive(Default)]
struct LaneReports {
    taken: Vec<(u64, usize)>,
    /// Lanes that live nodes lost, because they failed to renew a lease in time.
    lost: usize,
}

impl LaneReports {
    fn read_line(&mut self, line: &str, now: u64) {
        let fields = || serde_json::from_str::<serde_json::Value>(line).unwrap()["fields"].take();
        if line.contains("\"took a lane\"") || line.contains("broke off a request") {
            self.taken.push((now, usize::try_from(fields()["lane"].as_u64().unwrap()).unwrap()));
        } else if line.contains("\"lost a lane to another process\"") {
            self.lost += 1;
        }
    }

    /// A node acts a little before it logs the change.
    fn has_moved(&self, path: &str, first: u64, second: u64) -> bool {
        const LATE_NS: u64 = 1_000_000_000;
        let lane = path[1..].parse::<usize>().unwrap() + 1;
        self.taken.iter().any(|(at, taken)| {
            *taken == lane && first <= at + QUARANTINE_NS && at.saturating_sub(LATE_NS) <= second
        })
    }
}

struct Cluster {
    sink: Arc<Sink>,
    ways: Vec<Way>,
    nodes: Vec<Node>,
    serving: Vec<Serving>,
    told: Arc<Mutex<LaneReports>>,
    done: Vec<Span>,
    confirmed: BTreeMap<String, u64>,
    // Declared last: the server must end after its nodes.
    database: Database,
}

impl Cluster {
    fn start(sink: &Arc<Sink>, database: Database) -> Self {
        let folder = database.server().folder();
        let ways: Vec<Way> = NODES.iter().map(|_| Way::to(folder)).collect();
        let can_be_wrong = wrong_clock().is_some();
        let node = |((name, ahead), way): ((&'static str, i64), &Way)| Node {
            name,
            address: free_address(),
            database: address_in(way.folder(), "public"),
            clock_ahead: if can_be_wrong { ahead } else { 0 },
        };
        let nodes = NODES.into_iter().zip(&ways).map(node).collect();
        let mut cluster = Self {
            sink: Arc::clone(sink),
            ways,
            nodes,
            serving: Vec::new(),
            told: Arc::default(),
            done: Vec::new(),
            confirmed: BTreeMap::new(),
            database,
        };
        assert_eq!(cluster.server_says(WATCH).len(), 1);
        cluster.serving = (0..NODES.len()).map(|which| cluster.serve(which)).collect();
        cluster
    }

    fn serve(&self, which: usize) -> Serving {
        let (told, sink) = (Arc::clone(&self.told), Arc::clone(&self.sink));
        self.database
            .serve_node(&self.nodes[which], move |line| told.lock().unwrap().read_line(line, sink.now()))
    }

    fn server_says(&self, statements: &str) -> Vec<String> {
        query(&self.database.server().address("public"), statements)
    }

    fn wait_until_over(&self, which: usize) {
        let alive = format!(
            "SELECT 1 FROM nodes n JOIN owners o USING (owner) WHERE n.name = '{}'
             AND o.until > (extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000",
            self.nodes[which].name
        );
        while !self.server_says(&alive).is_empty() {
            std::thread::yield_now();
        }
    }

    fn record_confirmed(&mut self) {
        let delivered = self.server_says(
            "SELECT e.id || ' /' || split_part(s.url, '/', 4) FROM all_deliveries d JOIN events e USING (event)
             JOIN subscribers s USING (lane)
             WHERE d.state = 1 AND d.at > ((extract(epoch FROM clock_timestamp()) - 30) * 1000000)::int8 * 1000",
        );
        let now = self.sink.now();
        for one in delivered {
            self.confirmed.entry(one).or_insert(now);
        }
    }

    fn do_this(&mut self, deed: Deed, moments: &mut Moments) {
        self.record_confirmed();
        let from = self.sink.now();
        let which = moments.next_below(NODES.len() as u64);
        match deed {
            Deed::Kill => {
                self.serving[which].kill();
                self.serving[which] = self.serve(which);
            }
            Deed::Stop => {
                self.serving[which].signal("STOP");
                self.wait_until_over(which);
                self.serving[which].signal("CONT");
            }
            Deed::Silence | Deed::Cut => {
                let passage = if deed == Deed::Cut { Passage::Cut } else { Passage::Silent };
                self.ways[which].let_pass(passage);
                // Some faults are shorter than a lease.
                if moments.next_below(2) == 0 {
                    self.wait_until_over(which);
                } else {
                    self.sink.wait_for(self.sink.count() + 20);
                }
                self.ways[which].let_pass(Passage::Open);
            }
            Deed::KillServer => {
                self.database.server().kill();
                self.database.server().begin();
            }
            Deed::EndServer => {
                self.database.server().end();
                self.database.server().begin();
            }
        }
        let until = self.sink.now();
        eprintln!("{deed:?}, {}: {from} to {until}", self.nodes[which].name);
        self.done.push((from, until));
    }
}

fn play(test: &str, plan: &Plan) {
    let sink = Arc::new(Sink::start());
    let settings = settings(RATE_PER_SECOND, BURST);
    let Some(database) = Database::on_server_with_subscribers(test, &sink.url(), LANES, &settings) else {
        return;
    };
    sink.explain_by(database.lanes());
    let mut cluster = Cluster::start(&sink, database);
    let addresses: Vec<_> = cluster.nodes.iter().map(|node| node.address).collect();
    let emitter = Emitter::start_at(&addresses, Arc::clone(&sink), LANES);
    let mut moments = Moments::new();
    for deed in plan.in_some_order(&mut moments) {
        sink.wait_for(sink.count() + moments.next_below(ARRIVALS_BETWEEN));
        cluster.do_this(deed, &mut moments);
    }
    let acknowledged = emitter.stop();
    let owed = acknowledged.iter().flat_map(|event| (0..LANES).map(move |lane| format!("{event} /{lane}")));
    sink.wait_for_taken(owed.collect(), |arrival| format!("{} {}", arrival.event, arrival.path));
    std::mem::take(&mut cluster.serving).into_iter().for_each(Serving::stop_in_order);
    let arrivals = sink.arrivals();
    let clocks = clocks_text(&arrivals);
    let counts = judge_all(&arrivals, &cluster);
    eprintln!(
        "{} nodes, {plan}; {clocks}; {} events acknowledged for {LANES} lanes each, 0 lost; {counts}; burst {BURST} and \
         {RATE_PER_SECOND}/s kept in every window of every lane",
        NODES.len(),
        acknowledged.len(),
    );
}

fn clocks_text(arrivals: &[Arrival]) -> String {
    let ahead = |arrival: &Arrival| arrival.ahead;
    let (least, most) =
        (arrivals.iter().map(ahead).min().unwrap(), arrivals.iter().map(ahead).max().unwrap());
    if wrong_clock().is_none() {
        return "all clocks right, as libfaketime is not installed".to_owned();
    }
    // A late arrival looks as if a slow clock had signed it.
    assert!(least <= -85 || most >= 85, "signatures are of {least} s to {most} s: no clock was wrong");
    format!("clocks {least} s to {most} s ahead")
}

fn judge_all(arrivals: &[Arrival], cluster: &Cluster) -> String {
    let mut lanes: BTreeMap<&str, Vec<Arrival>> = BTreeMap::new();
    let mut deliveries: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        lanes.entry(&arrival.path).or_default().push(arrival.clone());
        deliveries.entry(&arrival.delivery).or_default().push(arrival);
    }
    assert_eq!(lanes.len(), LANES);
    lanes.values().for_each(|arrivals| judge::conforms(arrivals, RATE_PER_SECOND, BURST));
    let told = cluster.told.lock().unwrap();
    // Without statistics the planner may take tables for empty.
    assert_eq!(cluster.server_says("ANALYZE; SELECT 1").len(), 1);
    let late: BTreeSet<String> = cluster.server_says(RECORDED_LATE).into_iter().collect();
    let (mut twice, mut twice_as_late) = (0, 0);
    for (delivery, attempts) in &deliveries {
        for pair in attempts.windows(2) {
            assert_eq!(pair[0].body, pair[1].body, "{delivery}");
            if !pair[0].taken {
                continue;
            }
            let (first, second) = (pair[0].at, pair[1].at);
            // A dead process's request may arrive shortly after its death.
            let during = |(from, until): &Span| first <= until + QUARANTINE_NS && *from <= second;
            let around = cluster.done.iter().any(during) || told.has_moved(&pair[1].path, first, second);
            assert!(
                around,
                "{delivery} arrived at {first} and {second}, and nothing was done, nor its lane taken, between"
            );
            let name = format!("{} {}", pair[1].event, pair[1].path);
            let known = cluster.confirmed.get(&name).copied().unwrap_or(u64::MAX);
            if second > known.saturating_add(QUARANTINE_NS) && late.contains(&name) {
                twice_as_late += 1;
            } else if second > known.saturating_add(QUARANTINE_NS) {
                let came: Vec<_> = attempts.iter().map(|one| (one.at, one.ahead, one.taken)).collect();
                panic!(
                    "{delivery} to {} was known to be delivered at {known}, and came again at {second}. When it came, by how \
                     many seconds who signed it was ahead, whether it was taken: {came:?}. Lanes were taken: {:?}",
                    pair[1].path, told.taken
                );
            }
            twice += 1;
        }
    }
    // Attempts since a node's last commit, which is at most one lease old, and those that it may start at once.
    let unconfirmed =
        IN_FLIGHT + BURST + usize::try_from(RATE_PER_SECOND * LEASE_NS / 1_000_000_000).unwrap();
    let changes = cluster.done.len() * LANES + told.taken.len();
    assert!(twice <= changes * unconfirmed, "{twice} arrived twice");
    format!(
        "{} arrivals, {twice} taken twice, each around one of these or where its lane was taken ({} lanes lost by a node that \
         lived), and none that the server told to be delivered, but {twice_as_late} of the {} that were recorded for a node that had \
         lost the lane",
        arrivals.len(),
        told.lost,
        late.len()
    )
}
