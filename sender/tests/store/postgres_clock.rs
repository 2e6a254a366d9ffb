//! No process may expire anything by a server's wrong clock, or adopt its time.

use std::time::{SystemTime, UNIX_EPOCH};

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::clock::{BACK_MAX, Beginning, Fault, Start};
use hookproof_sender::store::command::{Acquire, Fate, LaneSelection, Persist, Purge, Renew, Shed, Sweep};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::reply::{Handover, Placed, Purged, Swept};
use hookproof_sender::store::{Command, Reply, Store};

use crate::postgres_server::{execute, new_schema, query};
use crate::store::postgres::Schema;
use crate::store::world::{Backend, ME, WIDE, World, YOU, acquire, claim, later};

const AHEAD: Nanos = Nanos(25 * Nanos::HOUR.0);
const NEAR: Nanos = Nanos::HOUR;

struct Clocked {
    world: World<Schema>,
    address: String,
}

impl Clocked {
    fn new(test: &str) -> Option<Self> {
        let address = new_schema(test)?;
        let mut world = World::over(Schema::at_address(address.clone()));
        world.now = begin_by(wall(), &mut *world.store).now;
        Some(Self { world, address })
    }

    fn was_ahead(&self) {
        execute(&self.address, &format!("UPDATE totals SET clock = clock + {} WHERE clock > 0", AHEAD.0));
    }

    fn another(&self, ahead: Nanos) -> (Box<dyn Store>, Start) {
        let mut store = self.world.backend.store();
        let start = begin_by(later(wall(), ahead), &mut *store);
        (store, start)
    }

    fn latest(&self) -> StoreTime {
        StoreTime(query(&self.address, "SELECT max(clock) FROM totals")[0].parse().unwrap())
    }
}

fn wall() -> StoreTime {
    #[expect(clippy::disallowed_methods, reason = "the server's clock is the machine's")]
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    StoreTime(u64::try_from(wall).unwrap())
}

fn begin_by(wall: StoreTime, store: &mut dyn Store) -> Start {
    store.begin_clock(Beginning { wall, machine: None, alone: false, back_max: BACK_MAX }).unwrap()
}

fn one(store: &mut dyn Store, now: StoreTime, command: Command) -> Reply {
    store.commit(now, &[command]).unwrap().remove(0)
}

fn is_near(one: StoreTime, other: StoreTime) -> bool {
    one.since(other).max(other.since(one)) < NEAR
}

#[test]
fn nothing_expires_for_a_server_clock_that_was_ahead_for_one_commit() {
    let Some(address) = new_schema("nothing_expires_for_a_server_clock_that_was_ahead") else { return };
    let mut world = World::over(Schema::at_address(address.clone()));
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    execute(&address, "UPDATE totals SET clock = clock + 90000000000000");
    let mut store = world.backend.store();
    let Start { now, .. } = begin_by(wall(), &mut *store);
    let swept = one(&mut *store, now, Command::Sweep(Sweep { max: 10 }));
    assert!(matches!(swept, Reply::Swept(Swept { expired: 0, .. })), "{swept:?}");
}

/// The machine's clock agrees with that commit.
#[test]
fn a_time_that_may_be_right_is_kept_and_nothing_is_given_up_or_deleted_for_it() {
    let Some(mut clocked) = Clocked::new("a_time_that_may_be_right_is_kept") else { return };
    let world = &mut clocked.world;
    let (lane, term) = world.own_lane(WIDE);
    let (delivered, dead) = (world.emit_one(lane), world.emit_one(lane));
    assert_eq!(world.claim(lane, term), [delivered, dead]);
    world.settle(lane, term, delivered, Fate::Delivered);
    world.settle(lane, term, dead, Fate::Released);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    let waiting = world.emit_one(lane);
    clocked.was_ahead();
    let (mut store, start) = clocked.another(AHEAD);
    assert!(matches!(start.fault, Some(Fault::Kept(ahead)) if ahead > Nanos::DAY), "{start:?}");
    assert!(is_near(start.now, later(clocked.world.now, AHEAD)), "{start:?}");
    let swept = one(&mut *store, start.now, Command::Sweep(Sweep { max: 10 }));
    assert!(matches!(swept, Reply::Swept(Swept { expired: 0, .. })), "{swept:?}");
    let before = StoreTime(start.now.0 - Nanos::DAY.0);
    let purge = Purge {
        settled_before: before,
        attempts_before: before,
        dead_before: before,
        changes_before: StoreTime(0),
        max: 100,
    };
    let purged = one(&mut *store, start.now, Command::Purge(purge));
    assert_eq!(purged, Reply::Purged(Purged::default()));
    one(&mut *store, start.now, Command::Evict(ME));
    let another = later(start.now, Nanos::from_secs(4));
    let taken = one(&mut *store, another, acquire(OwnerId(9), LaneSelection::All));
    let Reply::Acquired(taken) = taken else { panic!("{taken:?}") };
    let claimed = one(&mut *store, another, claim(lane, taken[0].term, 10));
    let Reply::Claimed(claimed) = claimed else { panic!("{claimed:?}") };
    assert_eq!(claimed.rows.iter().map(|row| row.delivery).collect::<Vec<_>>(), [waiting]);
    assert!(claimed.rows[0].expires > later(another, Nanos(23 * Nanos::HOUR.0)), "{claimed:?}");
}

/// Live nodes may still follow another time, and their leases with it, so only a process alone discards that time.
#[test]
fn a_new_process_uses_the_right_clock_and_the_first_alone_passes_on_no_other() {
    let Some(mut clocked) = Clocked::new("a_new_process_uses_the_right_clock") else { return };
    let lane = clocked.world.new_lane(WIDE);
    clocked.world.emit_one(lane);
    let renew = Renew { owner: ME, lease: Nanos::MINUTE, announce: None };
    clocked.world.one(Command::Renew(renew));
    clocked.was_ahead();
    let wrong = clocked.latest();
    for others_live in [true, false] {
        if !others_live {
            clocked.world.one(Command::Evict(ME));
        }
        let (mut store, start) = clocked.another(Nanos::ZERO);
        assert!(matches!(start.fault, Some(Fault::Corrected(ahead)) if ahead > Nanos::DAY), "{start:?}");
        assert!(is_near(start.now, clocked.world.now), "{start:?}");
        let swept = one(&mut *store, start.now, Command::Sweep(Sweep { max: 10 }));
        assert!(matches!(swept, Reply::Swept(Swept { expired: 0, .. })), "{swept:?}");
        assert!(is_near(clocked.latest(), if others_live { wrong } else { clocked.world.now }));
    }
    assert_eq!(clocked.another(AHEAD).1.fault, None);
}

struct TwoTimes {
    clocked: Clocked,
    right: Box<dyn Store>,
    ahead: Box<dyn Store>,
    now: StoreTime,
}

impl TwoTimes {
    fn new(test: &str) -> Option<Self> {
        let clocked = Clocked::new(test)?;
        let ((right, start), (ahead, _)) = (clocked.another(Nanos::ZERO), clocked.another(Nanos::ZERO));
        Some(Self { clocked, right, ahead, now: start.now })
    }

    fn by_right(&mut self, command: Command) -> Reply {
        one(&mut *self.right, self.now, command)
    }

    fn by_ahead(&mut self, command: Command) -> Reply {
        one(&mut *self.ahead, later(self.now, AHEAD), command)
    }
}

/// Otherwise the node with the other time would exceed a window cap.
#[test]
fn attempts_of_an_earlier_clock_are_converted_for_a_later_one() {
    let Some(mut two) = TwoTimes::new("attempts_of_an_earlier_clock_are_converted") else { return };
    let lane = two.clocked.world.new_lane(WIDE);
    execute(&two.clocked.address, "UPDATE lanes SET capped = true");
    let owned = |reply: Reply| match reply {
        Reply::Acquired(mut taken) if taken.len() == 1 => taken.remove(0),
        other => panic!("{other:?}"),
    };
    let brief = |owner| Acquire {
        owner,
        lease: Nanos(1),
        which: LaneSelection::These(vec![lane]),
        homes: None,
        max: 1,
    };
    // Its checkpoint has the later time, and lists no attempt.
    let mine = owned(two.by_ahead(Command::Acquire(brief(ME))));
    let record = Persist { lane, term: mine.term, record: b"state".to_vec().into(), hand_back: false };
    two.by_ahead(Command::Persist(record));
    two.now = later(two.now, Nanos::from_secs(4));
    let yours = owned(two.by_right(Command::Acquire(brief(YOU))));
    let delivery = two.clocked.world.emit_one(lane);
    two.by_right(claim(lane, yours.term, 1));
    let settlement = two.clocked.world.settlement(lane, yours.term, delivery, Fate::Delivered);
    two.by_right(Command::Settle(vec![settlement]));
    let Handover::Seized { ended, at, .. } = owned(two.by_ahead(Command::Acquire(brief(ME)))).handover else {
        panic!("nobody had it")
    };
    assert_eq!(ended.iter().map(|run| run.count).sum::<u32>(), 1, "{ended:?}");
    assert!(is_near(ended[0].at, at), "{ended:?}, {at:?}");
    let yours = owned(two.by_right(Command::Acquire(brief(YOU))));
    let Handover::Seized { ended, .. } = yours.handover else { panic!("nobody had it") };
    assert_eq!(ended.iter().map(|run| run.count).sum::<u32>(), 1, "{ended:?}");
}

#[test]
fn an_event_that_was_received_by_an_earlier_time_is_known_by_a_later_one() {
    let Some(mut two) = TwoTimes::new("an_event_that_was_received_by_an_earlier_time") else { return };
    let lane = two.clocked.world.new_lane(WIDE);
    let mut event = two.clocked.world.event(&[lane]);
    event.targets[0].dedupe = Nanos::HOUR;
    let placed = |reply: Reply| match reply {
        Reply::Emitted(mut emitted) => emitted.targets.remove(0),
        other => panic!("{other:?}"),
    };
    event.received = two.now;
    assert!(matches!(placed(two.by_right(Command::Emit(event.clone()))), Placed::Waiting { .. }));
    event.received = later(two.now, AHEAD);
    let again = placed(two.by_ahead(Command::Emit(event)));
    assert!(matches!(again, Placed::Duplicate), "{again:?}");
}
