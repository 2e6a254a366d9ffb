//! The number of round trips of a commit must not grow with its content: a lease renewal waits for it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, Term};
use hookproof_sender::store::command::{Acquire, Coalesce, Fate, LaneSelection, Reason, Sweep};
use hookproof_sender::store::lane::{Bounds, Limits, WhenFull};
use hookproof_sender::store::reply::{Handover, Swept};
use hookproof_sender::store::{Command, Reply};

use crate::postgres_server::{by_way_of, execute, hold, new_schema, query};
use crate::store::postgres::Schema;
use crate::store::world::{LEASE, ME, TTL, WIDE, World, YOU};

const MANY: u32 = 200;
/// A round trip for each item exceeds this by far.
const FEW: u64 = 20;

struct Counted {
    world: World<Schema>,
    address: String,
    journeys: Arc<AtomicU64>,
}

impl Counted {
    fn new(test: &str, limits: Limits) -> Option<Self> {
        let address = new_schema(test)?;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (far, socket) = by_way_of(&address, listener.local_addr().unwrap().port())?;
        let journeys = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&journeys);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                client.set_nodelay(true).unwrap();
                carry(client, UnixStream::connect(&socket).unwrap(), &counter);
            }
        });
        Some(Self { world: World::over(Schema::with_limits(far, limits)), address, journeys })
    }

    fn commit(&mut self, commands: &[Command]) -> (Vec<Reply>, u64) {
        let before = self.journeys.load(Ordering::SeqCst);
        let replies = self.world.store.commit(self.world.now, commands).unwrap();
        let after = self.journeys.load(Ordering::SeqCst);
        self.world.check_figures();
        (replies, after - before)
    }

    fn events(&mut self, lane: LaneId, count: u32) -> Vec<Command> {
        (0..count).map(|_| Command::Emit(self.world.event(&[lane]))).collect()
    }

    fn dead_kept(&self, lane: LaneId) -> u64 {
        self.world.counts(lane).dead_kept
    }
}

/// Counts each time the store sends after the server: an upper bound on its waits.
fn carry(client: TcpStream, server: UnixStream, journeys: &Arc<AtomicU64>) {
    let has_answered = Arc::new(AtomicBool::new(true));
    let (mut from_client, mut to_client) = (client.try_clone().unwrap(), client);
    let (mut from_server, mut to_server) = (server.try_clone().unwrap(), server);
    let (asks, journeys) = (Arc::clone(&has_answered), Arc::clone(journeys));
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from_client.read(&mut bytes) {
            if asks.swap(false, Ordering::SeqCst) {
                journeys.fetch_add(1, Ordering::SeqCst);
            }
            if to_server.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from_server.read(&mut bytes) {
            has_answered.store(true, Ordering::SeqCst);
            if to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
    });
}

fn sheds(rows_max: u64) -> Bounds {
    Bounds { rows_max, when_full: WhenFull::ShedOldest, ..WIDE }
}

fn keeps_letters(dead_per_lane_max: u64) -> Limits {
    Limits { dead_per_lane_max, ..Limits::default() }
}

fn shed(replies: &[Reply]) -> u64 {
    let of = |reply: &Reply| match reply {
        Reply::Emitted(emitted) => emitted.shed,
        other => panic!("{other:?}"),
    };
    replies.iter().map(of).sum()
}

#[test]
fn many_events_for_a_full_lane_are_few_journeys() {
    for limits in [Limits::default(), keeps_letters(10)] {
        let Some(mut counted) = Counted::new("many_events_for_a_full_lane", limits) else { return };
        let lane = counted.world.new_lane(sheds(10));
        let events = counted.events(lane, 30);
        assert_eq!(shed(&counted.commit(&events).0), 20);
        let events = counted.events(lane, MANY);
        let (replies, journeys) = counted.commit(&events);
        assert_eq!(shed(&replies), u64::from(MANY));
        assert_eq!(counted.world.counts(lane).waiting, 10);
        assert_eq!(counted.dead_kept(lane), limits.dead_per_lane_max.min(u64::from(MANY) + 20));
        assert!(journeys < FEW, "{journeys} journeys, {limits:?}");
    }
}

#[test]
fn an_event_for_many_full_lanes_is_few_journeys() {
    let Some(mut counted) = Counted::new("an_event_for_many_full_lanes", keeps_letters(2)) else { return };
    let lanes: Vec<LaneId> = (0..MANY).map(|_| counted.world.new_lane(sheds(3))).collect();
    let events = |counted: &mut Counted, count: u32| -> Vec<Command> {
        (0..count).map(|_| Command::Emit(counted.world.event(&lanes))).collect()
    };
    let first = events(&mut counted, 6);
    counted.commit(&first);
    for count in [1, 3] {
        let events = events(&mut counted, count);
        let (replies, journeys) = counted.commit(&events);
        assert_eq!(shed(&replies), u64::from(MANY * count));
        assert!(journeys < FEW, "{journeys} journeys for {count} events");
    }
    assert!(
        lanes.iter().all(|lane| (counted.world.counts(*lane).waiting, counted.dead_kept(*lane)) == (3, 2))
    );
}

#[test]
fn many_deliveries_that_die_where_letters_are_forgotten_are_few_journeys() {
    let Some(mut counted) = Counted::new("many_deliveries_that_die", keeps_letters(10)) else { return };
    let (lane, term) = counted.world.own_lane(WIDE);
    let events = counted.events(lane, MANY + 20);
    counted.commit(&events);
    let claimed = counted.world.claim(lane, term);
    let (first, rest) = claimed.split_at(20);
    let settled = |counted: &Counted, deliveries: &[DeliveryId]| {
        let dies =
            |one: &DeliveryId| counted.world.settlement(lane, term, *one, Fate::Dead(Reason::Exhausted));
        Command::Settle(deliveries.iter().map(dies).collect())
    };
    let commands = [settled(&counted, first)];
    counted.commit(&commands);
    let commands = [settled(&counted, rest)];
    let (_, journeys) = counted.commit(&commands);
    assert_eq!((counted.world.counts(lane).dead, counted.dead_kept(lane)), (u64::from(MANY) + 20, 10));
    assert!(journeys < FEW, "{journeys} journeys");
}

#[test]
fn many_events_that_replace_others_are_few_journeys() {
    let Some(mut counted) = Counted::new("many_events_that_replace_others", Limits::default()) else {
        return;
    };
    let lane = counted.world.new_lane(WIDE);
    let events = |counted: &mut Counted| -> Vec<Command> {
        let window = Nanos::MINUTE;
        (0..MANY)
            .map(|key| {
                let mut event = counted.world.event(&[lane]);
                event.targets[0].coalesce = Some(Coalesce { key: key.to_string().into(), window });
                Command::Emit(event)
            })
            .collect()
    };
    for _ in 0..2 {
        let commands = events(&mut counted);
        counted.commit(&commands);
    }
    let commands = events(&mut counted);
    let (_, journeys) = counted.commit(&commands);
    let counts = counted.world.counts(lane);
    assert_eq!((counts.waiting, counts.coalesced), (u64::from(MANY), 2 * u64::from(MANY)));
    assert!(journeys < FEW, "{journeys} journeys");
}

#[test]
fn many_lanes_are_taken_over_in_few_journeys() {
    let Some(mut counted) = Counted::new("many_lanes_are_taken_over", Limits::default()) else { return };
    let lanes: Vec<LaneId> = (0..MANY).map(|_| counted.world.new_lane(WIDE)).collect();
    execute(&counted.address, "UPDATE lanes SET capped = true");
    let terms = |counted: &mut Counted, owner| -> (Vec<(LaneId, Term, Handover)>, u64) {
        let which = LaneSelection::These(lanes.clone());
        let acquire = Acquire { owner, lease: LEASE, which, homes: None, max: 1_000 };
        let (replies, journeys) = counted.commit(&[Command::Acquire(acquire)]);
        let Reply::Acquired(taken) = &replies[0] else { panic!("{replies:?}") };
        let taken = taken.iter().map(|one| (one.lane, one.term, one.handover.clone()));
        (taken.collect(), journeys)
    };
    let (mine, _) = terms(&mut counted, ME);
    for (lane, term, _) in &mine {
        let delivery = counted.world.emit_one(*lane);
        assert_eq!(counted.world.claim(*lane, *term), [delivery]);
        counted.world.settle(*lane, *term, delivery, Fate::Delivered);
        counted.world.persist(*lane, *term, b"state", false);
    }
    for (owner, from) in [(YOU, ME), (ME, YOU)] {
        counted.world.pass(LEASE);
        let (taken, journeys) = terms(&mut counted, owner);
        assert_eq!(taken.iter().map(|(lane, ..)| *lane).collect::<Vec<_>>(), lanes);
        for (lane, _, handover) in taken {
            let Handover::Seized { from: before, record: Some(_), ended, .. } = handover else {
                panic!("{}: {handover:?}", lane.0)
            };
            assert_eq!((before, ended.iter().map(|run| run.count).sum::<u32>()), (from, 1), "{}", lane.0);
        }
        assert!(owner == YOU || journeys < FEW, "{journeys} journeys");
    }
}

/// Other nodes renew their leases meanwhile.
#[test]
fn a_sweep_is_few_journeys_and_waits_for_no_lease() {
    let Some(mut counted) = Counted::new("a_sweep_is_few_journeys", keeps_letters(10)) else { return };
    let lanes = [(); 5].map(|()| counted.world.new_lane(WIDE));
    for _ in 0..2 {
        for lane in lanes {
            let events = counted.events(lane, 100);
            counted.commit(&events);
        }
    }
    counted.world.pass(TTL);
    let sweep = |counted: &mut Counted| {
        let (replies, journeys) = counted.commit(&[Command::Sweep(Sweep { max: 500 })]);
        assert!(matches!(replies[..], [Reply::Swept(Swept { expired: 500, .. })]), "{replies:?}");
        journeys
    };
    sweep(&mut counted);
    counted.world.renew(ME);
    counted.world.pass(LEASE);
    let holding = hold(&counted.address, "BEGIN; SELECT FROM owners FOR UPDATE");
    let journeys = sweep(&mut counted);
    drop(holding);
    assert!(journeys < FEW, "{journeys} journeys");
    assert!(
        lanes.iter().all(|lane| (counted.world.counts(*lane).dead, counted.dead_kept(*lane)) == (200, 10))
    );
    // A later sweep forgets the owner whose lease is over.
    assert_eq!(query(&counted.address, "SELECT count(*) FROM owners"), ["1"]);
    counted.commit(&[Command::Sweep(Sweep { max: 1 })]);
    assert_eq!(query(&counted.address, "SELECT count(*) FROM owners"), ["0"]);
}

#[test]
fn the_backlogs_of_many_removed_subscribers_are_given_up_in_few_round_trips() {
    let Some(mut counted) = Counted::new("the_backlogs_of_many_removed_subscribers", keeps_letters(1)) else {
        return;
    };
    let lanes: Vec<LaneId> = (0..2 * MANY).map(|_| counted.world.new_lane(WIDE)).collect();
    for _ in 0..2 {
        counted.world.emit(&lanes);
    }
    let removals: Vec<Command> = lanes.iter().map(|lane| Command::Remove(*lane)).collect();
    counted.commit(&removals);
    for journeys_max in [u64::MAX, FEW] {
        let (replies, journeys) = counted.commit(&[Command::Sweep(Sweep { max: 2 * MANY })]);
        assert!(matches!(replies[..], [Reply::Swept(Swept { gone: 400, .. })]), "{replies:?}");
        assert!(journeys < journeys_max, "{journeys} journeys");
    }
    assert_eq!(counted.world.total().dead_kept, u64::from(2 * MANY));
}
