use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Fate, Purge, Reason, Settlement, Shed, Sweep};
use hookproof_sender::store::read::{Filter, Lanes, Place};
use hookproof_sender::store::reply::{Purged, Swept};
use hookproof_sender::store::{Command, Reply};

use crate::store::world::{Backend, TTL, WIDE, World, later, waiting};

const NEVER: StoreTime = StoreTime(0);

fn sweep<B: Backend>(world: &mut World<B>, max: u32) -> Swept {
    match world.one(Command::Sweep(Sweep { max })) {
        Reply::Swept(swept) => swept,
        other => panic!("{other:?}"),
    }
}

fn purge<B: Backend>(
    world: &mut World<B>,
    settled: StoreTime,
    attempts: StoreTime,
    dead: StoreTime,
    max: u32,
) -> Purged {
    let purge = Purge {
        settled_before: settled,
        attempts_before: attempts,
        dead_before: dead,
        changes_before: StoreTime(0),
        max,
    };
    match world.one(Command::Purge(purge)) {
        Reply::Purged(purged) => purged,
        other => panic!("{other:?}"),
    }
}

fn deliver<B: Backend>(
    world: &mut World<B>,
    lane: LaneId,
    term: hookproof_sender::engine::Term,
) -> DeliveryId {
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Delivered);
    delivery
}

pub(super) fn an_expired_delivery_is_given_up<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let early = world.emit_one(lane);
    world.pass(Nanos::SECOND);
    let late = world.emit_one(lane);
    world.try_claim(lane, term, 1).unwrap();
    let due = later(world.now, Nanos(TTL.0 * 2));
    world.settle(lane, term, early, Fate::Retry { due });
    world.pass(Nanos(TTL.0 - Nanos::SECOND.0 - 1));
    assert_eq!(sweep(&mut world, 9), Swept::default());
    world.pass(Nanos(1));
    assert_eq!(sweep(&mut world, 9), Swept { expired: 1, more: false, ..Swept::default() });
    assert_eq!([world.place(early), world.place(late)], [Some(Place::Dead), Some(Place::Waiting)]);
    let letter = world.reader.dead(&Lanes::All, None, 9).unwrap().items.remove(0);
    assert_eq!((letter.reason, letter.status, letter.delivery.attempts), (Reason::Expired, Some(503), 1));
    assert_eq!(world.counts(lane).retrying, 0);
}

pub(super) fn a_delivery_that_expires_while_claimed_stays_with_its_owner<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let held = world.emit_one(lane);
    world.claim(lane, term);
    let other = world.emit_one(lane);
    world.pass(TTL);
    assert_eq!(sweep(&mut world, 1), Swept { expired: 1, more: true, ..Swept::default() });
    assert_eq!([world.place(held), world.place(other)], [Some(Place::Waiting), Some(Place::Dead)]);
    world.settle(lane, term, held, Fate::Released);
    assert_eq!(sweep(&mut world, 9).expired, 1);
}

pub(super) fn small_steps_sweep_everything<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    for _ in 0..7 {
        world.emit_one(lane);
    }
    world.pass(TTL);
    let steps: Vec<u64> = (0..3).map(|_| sweep(&mut world, 3).expired).collect();
    assert_eq!(steps, [3, 3, 1]);
}

pub(super) fn nothing_is_deleted_before_its_time<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = deliver(&mut world, lane, term);
    world.emit_one(lane);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    let now = world.now;
    assert_eq!(purge(&mut world, now, now, now, 100), Purged::default());
    assert_eq!(world.place(delivery), Some(Place::Delivered));
    let then = later(now, Nanos(1));
    let purged = purge(&mut world, then, then, then, 100);
    assert_eq!(purged, Purged { events: 2, deliveries: 1, attempts: 1, dead: 1, more: false });
    assert_eq!(world.place(delivery), None);
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.delivered, counts.dead), (2, 1, 1));
}

pub(super) fn an_event_goes_once_all_its_deliveries_are_old<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, one_term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    let both = world.emit(&[one, other]);
    world.settle(one, one_term, both[0], Fate::Delivered);
    world.pass(Nanos::HOUR);
    let then = world.now;
    assert_eq!(purge(&mut world, then, NEVER, NEVER, 100).deliveries, 0, "one still waits");
    world.settle(other, other_term, both[1], Fate::Delivered);
    assert_eq!(purge(&mut world, then, NEVER, NEVER, 100).deliveries, 0, "one was settled just now");
    let purged = purge(&mut world, later(then, Nanos(1)), NEVER, NEVER, 100);
    assert_eq!((purged.events, purged.deliveries), (1, 2));
    assert_eq!(world.reader.body(both[0]).unwrap(), None);
}

pub(super) fn an_event_from_a_fast_clock_retains_no_later_event<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.received = later(world.now, Nanos::DAY.times(20));
    let first = waiting(&world.try_emit(event).unwrap().targets[0]);
    world.claim(lane, term);
    world.settle(lane, term, first, Fate::Delivered);
    let second = deliver(&mut world, lane, term);
    world.pass(Nanos::DAY.times(2));
    let yesterday = StoreTime(world.now.0 - Nanos::DAY.0);
    assert_eq!(purge(&mut world, yesterday, NEVER, NEVER, 100).events, 1);
    assert_eq!([world.place(first), world.place(second)], [Some(Place::Delivered), None]);
}

pub(super) fn a_letter_keeps_its_event<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let letter = world.emit_one(lane);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    world.pass(Nanos::DAY);
    let now = world.now;
    assert_eq!(purge(&mut world, now, now, NEVER, 100), Purged::default());
    assert!(world.reader.body(letter).unwrap().is_some());
    let purged = purge(&mut world, now, now, now, 100);
    assert_eq!((purged.dead, purged.events), (1, 1));
}

/// The scan of letters takes two steps, that of events three.
pub(super) fn a_purge_ends_with_its_longest_scan<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    world.emit_one(lane);
    world.pass(Nanos::HOUR);
    let now = world.now;
    for _ in 0..2 {
        let steps = (1..9).find(|_| !purge(&mut world, now, NEVER, NEVER, 3).more);
        assert_eq!(steps, Some(3));
    }
}

pub(super) fn attempts_go_by_their_age<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    let mut moments = Vec::new();
    for number in 1..=3 {
        world.claim(lane, term);
        let retry = world.settlement(lane, term, delivery, Fate::Retry { due: world.now });
        world.settle_all(vec![Settlement { attempts: number, ..retry }]);
        moments.push(world.now);
        world.pass(Nanos::HOUR);
    }
    assert_eq!(
        purge(&mut world, NEVER, moments[2], NEVER, 3),
        Purged { attempts: 1, more: true, ..Purged::default() }
    );
    assert_eq!(purge(&mut world, NEVER, moments[2], NEVER, 100).attempts, 1);
    // The rest of the chain was deleted.
    let kept = world.reader.attempts_of(delivery).unwrap();
    assert_eq!(kept.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [3]);
}

pub(super) fn letters_go_by_their_age<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut moments = Vec::new();
    for _ in 0..4 {
        world.emit_one(lane);
        world.one(Command::Shed(Shed { lane, max: 1 }));
        moments.push(world.now);
        world.pass(Nanos::HOUR);
    }
    // Each step continues after the previous one.
    let steps: Vec<u64> = (0..3).map(|_| purge(&mut world, NEVER, NEVER, moments[3], 6).dead).collect();
    assert_eq!(steps, [2, 1, 0]);
    assert_eq!(world.counts(lane).dead_kept, 1);
}

pub(super) fn numbers_are_never_used_again<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let last = deliver(&mut world, lane, term);
    world.pass(Nanos::HOUR);
    let now = world.now;
    assert_eq!(purge(&mut world, now, now, now, 100).deliveries, 1);
    world.crash();
    assert!(world.emit_one(lane) > last);
}

pub(super) fn one_large_event_goes_in_small_steps<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..10).map(|_| world.new_lane(WIDE)).collect();
    let deliveries = world.emit(&lanes);
    let settlements = lanes
        .iter()
        .zip(&deliveries)
        .map(|(lane, delivery)| {
            world.settlement(*lane, hookproof_sender::engine::Term(0), *delivery, Fate::Delivered)
        })
        .collect();
    world.settle_all(settlements);
    world.pass(Nanos::HOUR);
    let now = world.now;
    let mut steps = Vec::new();
    loop {
        let purged = purge(&mut world, now, NEVER, NEVER, 9);
        assert!(purged.deliveries <= 3, "{purged:?}");
        steps.push(purged.deliveries);
        if !purged.more {
            break;
        }
        assert!(steps.len() < 20);
    }
    assert_eq!(steps.iter().sum::<u64>(), 10);
    let of_all = Filter { lanes: Lanes::All, place: None };
    assert_eq!(world.reader.deliveries(of_all, None, 9).unwrap().items, []);
}

/// A commit that dead-letters may have to restart, but not the purge with it.
pub(super) fn a_concurrent_expiry_does_not_retain_old_events_for_ever<B: Backend>() {
    const KEPT: usize = 5;

    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let other = world.new_lane(WIDE);
    for _ in 0..KEPT {
        world.emit_one(other);
    }
    let old = deliver(&mut world, lane, term);
    world.pass(Nanos::SECOND);
    let before = world.now;
    for _ in 0..=KEPT {
        let mut short = world.event(&[lane]);
        short.targets[0].expires = later(world.now, Nanos::SECOND);
        world.try_emit(short).unwrap();
        world.pass(Nanos::SECOND);
        assert_eq!(sweep(&mut world, 9).expired, 1);
        // A third of the limit is for events.
        purge(&mut world, before, NEVER, NEVER, 3);
    }
    assert_eq!(world.place(old), None);
}

pub(super) fn marks_of_deliveries_sent_again_go_in_small_steps<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let sent = [1, 2].map(|_| deliver(&mut world, lane, term));
    for delivery in sent {
        world.one(Command::Resend(delivery));
    }
    world.pass(Nanos::HOUR);
    let now = world.now;
    for left in [1, 0] {
        assert!(purge(&mut world, NEVER, now, NEVER, 3).more);
        let marks = sent.map(|delivery| world.reader.resent(delivery).unwrap().len());
        assert_eq!(marks.iter().sum::<usize>(), left);
    }
}
