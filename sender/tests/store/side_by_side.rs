//! Two versions side by side on a server, for the length of a rolling upgrade: a node of the version before goes on with the
//! statements that it has prepared, while nodes of today bring the tables up to date and work the same lanes.

use std::collections::BTreeMap;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{Claim, Emit, Fate, Renew, Settlement, Which};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::node::Announcement;
use hookproof_sender::store::read::Place;
use hookproof_sender::store::reply::{Handover, Placed, Record, TakenLane};
use hookproof_sender::store::{Claimer, Command, Reply, Store};

use crate::older_node::{HandedOut, OlderNode};
use crate::postgres::Schema;
use crate::postgres_server::{execute, new_schema, query};
use crate::world::{LEASE, ME, WIDE, World, body, later};

const OLDER: OwnerId = OwnerId(7);
/// So often they exchange their lanes.
const TURNS: usize = 6;
/// So many events each of them emits in a turn, to both lanes. A lane's key grows with every 64th change that a node of today makes.
const ROUNDS: usize = 40;

/// The clock of the older one is behind: what it emits is due before what was emitted, and handed out, a moment ago.
const BEHIND_NS: i64 = 1_000_000;

/// Makes the tables those of the version before.
fn make_older(address: &str) {
    execute(
        address,
        "DROP VIEW all_deliveries; DROP TABLE done; DROP TYPE new_event, new_delivery, new_attempt, settled;
         DROP VIEW newest_totals;
         ALTER TABLE lanes DROP COLUMN era, DROP COLUMN changes, ADD PRIMARY KEY (lane);
         UPDATE hookproof_schema SET version = 3",
    );
}

fn number(time: StoreTime) -> i64 {
    i64::try_from(time.0).unwrap()
}

fn lane_number(lane: LaneId) -> i64 {
    i64::try_from(lane.0).unwrap()
}

/// What was emitted, and how often each lane was handed it.
#[derive(Default)]
struct Account {
    bodies: BTreeMap<String, Vec<u8>>,
    handed_out: BTreeMap<(LaneId, String), u32>,
}

impl Account {
    fn emitted(&mut self, id: &str, body: &[u8]) {
        assert!(self.bodies.insert(id.to_owned(), body.to_vec()).is_none());
    }

    fn delivered(&mut self, lane: LaneId, event: &str, body: &[u8]) {
        assert_eq!(self.bodies.get(event).map(Vec::as_slice), Some(body), "{event}");
        *self.handed_out.entry((lane, event.to_owned())).or_default() += 1;
    }

    /// Each lane has had each event, once.
    fn check(&self, lanes: [LaneId; 2]) {
        for lane in lanes {
            for id in self.bodies.keys() {
                let times = self.handed_out.get(&(lane, id.clone())).copied().unwrap_or(0);
                assert_eq!(times, 1, "{id} of lane {}", lane.0);
            }
        }
        assert_eq!(self.handed_out.len(), 2 * self.bodies.len());
    }
}

/// What a node has delivered, and for which event.
type Delivered = Vec<(String, Vec<u8>)>;

impl OlderNode {
    fn deliver_what_waits(&mut self, lane: LaneId) -> Delivered {
        let lane = lane_number(lane);
        let claimed = self.claim(lane);
        if !claimed.is_empty() {
            self.deliver(lane, &claimed);
        }
        claimed.into_iter().map(|HandedOut { event, body, .. }| (event, body)).collect()
    }
}

/// A node of today: its store, and a lane that it has.
struct Today<'a> {
    store: &'a mut dyn Store,
    beside: &'a mut dyn Claimer,
    now: StoreTime,
    lane: LaneId,
    term: Term,
}

impl Today<'_> {
    fn commit(&mut self, command: Command) -> Reply {
        self.store.commit(self.now, &[command]).unwrap().remove(0)
    }

    fn emit(&mut self, emit: Emit) {
        let reply = self.commit(Command::Emit(emit));
        assert!(matches!(&reply, Reply::Emitted(emitted) if emitted.targets.len() == 2), "{reply:?}");
    }

    fn deliver_what_waits(&mut self, settlement: impl Fn(DeliveryId) -> Settlement) -> Delivered {
        let claim = Claim { lane: self.lane, term: self.term, max: 1_000, bytes_max: u64::MAX };
        let claimed =
            self.beside.claim(self.now, &[claim]).unwrap().expect("the lane is its own").remove(0).rows;
        let settled: Vec<_> = claimed.iter().map(|row| settlement(row.delivery)).collect();
        if !settled.is_empty() {
            self.commit(Command::Settle(settled));
        }
        claimed.iter().map(|row| (row.event.to_string(), row.body.bytes.to_vec())).collect()
    }

    fn renew(&mut self) {
        let announcement = Announcement {
            name: "today".into(),
            version: "0.2.0".into(),
            protocol: 1,
            address: None,
            unable: Default::default(),
            draining: false,
        };
        let renew = Renew { owner: ME, lease: LEASE, announce: Some(announcement.into()) };
        let reply = self.commit(Command::Renew(renew));
        assert!(matches!(&reply, Reply::Renewed(renewed) if renewed.lost.is_empty()), "{reply:?}");
    }
}

#[test]
fn a_node_of_the_version_before_works_the_same_lanes_as_one_of_today() {
    let Some(address) = new_schema("a_node_of_the_version_before_works_the_same_lanes") else { return };
    let mut world = World::over(Schema::at_address(address.clone()));
    let lanes = [world.new_lane(WIDE), world.new_lane(WIDE)];
    let (now, until) = (world.now, number(later(world.now, LEASE)));
    let World { backend, store, reader, .. } = world;
    drop((store, reader));
    make_older(&address);
    let mut account = Account::default();
    let behind = number(now) - BEHIND_NS;
    let mut older = OlderNode::open(&address, i64::try_from(OLDER.0).unwrap(), behind);
    works_alone(&mut older, lanes, until, &mut account);
    let prepared = older.statements();
    let mut world = World::over(backend);
    assert_eq!(query(&address, "SELECT version FROM hookproof_schema"), ["6"]);
    for turn in 0..TURNS {
        take_a_turn(&mut world, &mut older, turn, lanes, &mut account);
        world.check_figures();
    }
    assert_eq!(older.statements(), prepared, "it goes on with what it had prepared");
    is_killed_with_work_in_hand(&mut world, older, lanes[0], &mut account);
    account.check(lanes);
    let events = u64::try_from(account.bodies.len()).unwrap();
    assert_eq!(events, u64::try_from(1 + 2 * TURNS * ROUNDS + 1).unwrap());
    for lane in lanes {
        let counts = world.counts(lane);
        assert_eq!((counts.accepted, counts.delivered, counts.waiting), (events, events, 0));
    }
    assert_eq!((world.total().accepted, world.total().delivered), (2 * events, 2 * events));
    world.check_figures();
    let keys = query(&address, "SELECT min(era) FROM lanes");
    assert!(keys[0].parse::<u32>().unwrap() > 1, "keys have grown meanwhile: {keys:?}");
    assert_eq!(query(&address, "SELECT count(*) FROM lanes"), ["2"]);
    knows_what_either_has_delivered(&mut world, &address, lanes, account.bodies.keys());
}

/// What the older one has delivered lies where it was, what the other has does not, and both are known alike.
fn knows_what_either_has_delivered<'a>(
    world: &mut World<Schema>,
    address: &str,
    lanes: [LaneId; 2],
    events: impl Iterator<Item = &'a String>,
) {
    let delivered =
        "SELECT (SELECT count(*) FROM deliveries WHERE state = 1) > 0, (SELECT count(*) FROM done) > 0,
        (SELECT count(*) FROM deliveries WHERE state <> 1)";
    assert_eq!(
        query(address, &format!("SELECT concat_ws(' ', a, b, c) FROM ({delivered}) d (a, b, c)")),
        ["t t 0"]
    );
    for event in events {
        let listed = world.reader.deliveries_of_event(event, None, 10).unwrap().items;
        let of_lanes: Vec<_> = listed.iter().map(|one| (one.lane, one.place)).collect();
        assert_eq!(of_lanes, lanes.map(|lane| (lane, Place::Delivered)), "{event}");
        let mut again = Emit { id: event.as_str().into(), ..world.event(&lanes) };
        again.targets.iter_mut().for_each(|target| target.dedupe = Nanos::DAY);
        let emitted = world.try_emit(again).unwrap();
        assert_eq!(emitted.targets, [Placed::Duplicate, Placed::Duplicate], "{event}");
    }
}

/// On the tables that its statements were made for.
fn works_alone(older: &mut OlderNode, lanes: [LaneId; 2], until: i64, account: &mut Account) {
    let numbers = lanes.map(lane_number);
    older.renew(until);
    older.emit(&numbers, "first", b"{\"first\":1}");
    account.emitted("first", b"{\"first\":1}");
    for lane in lanes {
        older.acquire(lane_number(lane), until);
        older.look(lane_number(lane));
        for (event, body) in older.deliver_what_waits(lane) {
            account.delivered(lane, &event, &body);
        }
        older.hand_back(lane_number(lane));
    }
}

/// Each takes a lane, both emit to both lanes and deliver on their own, at the same time; then they let go of them in order.
fn take_a_turn(
    world: &mut World<Schema>,
    older: &mut OlderNode,
    turn: usize,
    lanes: [LaneId; 2],
    account: &mut Account,
) {
    let (its, ours) = (lanes[turn % 2], lanes[1 - turn % 2]);
    let (now, until) = (world.now, number(later(world.now, LEASE)));
    let taken = world.acquire(ME, Which::These(vec![ours])).remove(0);
    assert!(matches!(&taken.handover, Handover::Clean(Record { .. })), "{taken:?}");
    older.acquire(lane_number(its), until);
    let names: Vec<String> = (0..ROUNDS).map(|round| format!("older {turn} {round}")).collect();
    let events: Vec<Emit> = (0..ROUNDS).map(|_| world.event(&lanes)).collect();
    names.iter().for_each(|name| account.emitted(name, name.as_bytes()));
    events.iter().for_each(|event| account.emitted(&event.id, &event.bodies[0].bytes));
    let settlement = |lane, term| {
        let settled = world.settlement(lane, term, DeliveryId(0), Fate::Delivered);
        move |delivery| Settlement { delivery, ..settled.clone() }
    };
    let settlement = settlement(ours, taken.term);
    let mut beside = world.store.claimer().unwrap().unwrap();
    let mut today =
        Today { store: &mut *world.store, beside: &mut *beside, now, lane: ours, term: taken.term };
    let (by_older, by_today) = std::thread::scope(|scope| {
        let worked = scope.spawn(|| {
            let mut delivered = Delivered::new();
            for name in &names {
                older.emit(&lanes.map(lane_number), name, name.as_bytes());
                older.look(lane_number(its));
                delivered.extend(older.deliver_what_waits(its));
                older.renew(until);
            }
            delivered
        });
        let mut delivered = Delivered::new();
        for event in events {
            today.emit(event);
            delivered.extend(today.deliver_what_waits(&settlement));
            today.renew();
        }
        (worked.join().unwrap(), delivered)
    });
    // What one of them emitted last.
    let rest = (older.deliver_what_waits(its), today.deliver_what_waits(&settlement));
    assert_eq!(older.renew(until), 2, "each knows of both nodes");
    by_older.into_iter().chain(rest.0).for_each(|(event, body)| account.delivered(its, &event, &body));
    by_today.into_iter().chain(rest.1).for_each(|(event, body)| account.delivered(ours, &event, &body));
    older.hand_back(lane_number(its));
    assert_eq!(world.persist(ours, taken.term, b"of today", true), Reply::Done);
}

/// What it had in hand is handed out by whoever takes its lane over, once its lease has ended.
fn is_killed_with_work_in_hand(
    world: &mut World<Schema>,
    mut older: OlderNode,
    its: LaneId,
    account: &mut Account,
) {
    let other = LaneId(its.0 + 1);
    let until = number(later(world.now, LEASE));
    older.acquire(lane_number(its), until);
    older.emit(&[lane_number(its), lane_number(other)], "last", b"{}");
    account.emitted("last", b"{}");
    assert_eq!(older.claim(lane_number(its)).len(), 1);
    drop(older);
    assert_eq!(world.acquire(ME, Which::These(vec![its])), []);
    world.pass(LEASE);
    for lane in [its, other] {
        let TakenLane { term, handover, .. } = world.acquire(ME, Which::These(vec![lane])).remove(0);
        let is_seized = matches!(&handover, Handover::Seized { from: OLDER, record: Some(_), .. });
        assert_eq!(is_seized, lane == its, "{handover:?}");
        for row in world.claim_rows(lane, term) {
            assert_eq!(row.body, body(b"{}"));
            account.delivered(lane, &row.event, &row.body.bytes);
            world.settle(lane, term, row.delivery, Fate::Delivered);
        }
    }
}
