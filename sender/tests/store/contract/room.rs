use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Change, Coalesce, Emit, Fate, Reason, Shed, Target};
use hookproof_sender::store::lane::{Bounds, Limits, WhenFull};
use hookproof_sender::store::read::{Lanes, Place};
use hookproof_sender::store::reply::{Bound, Emitted, FullLane, Placed};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, WIDE, World, body, later, waiting};

fn rows(rows_max: u64, when_full: WhenFull) -> Bounds {
    Bounds { rows_max, when_full, ..WIDE }
}

fn emit_bytes<B: Backend>(world: &mut World<B>, lanes: &[LaneId], bytes: usize) -> Result<Emitted, Refusal> {
    let mut event = world.event(lanes);
    event.bodies = vec![body(&vec![b'x'; bytes])];
    world.try_emit(event)
}

fn full(lane: LaneId, bound: Bound) -> Result<Emitted, Refusal> {
    Err(Refusal::Full(vec![FullLane { lane, bound }]))
}

fn reason<B: Backend>(world: &World<B>, delivery: DeliveryId) -> Option<Reason> {
    let letters = world.reader.dead(&Lanes::All, None, 1_000).unwrap().items;
    letters.iter().find(|letter| letter.delivery.delivery == delivery).map(|letter| letter.reason)
}

pub(super) fn a_lane_that_refuses_refuses_an_atomic_event_for_all<B: Backend>() {
    let mut world = World::<B>::new();
    let wide = world.new_lane(WIDE);
    let (narrow, term) = world.own_lane(rows(2, WhenFull::Refuse));
    world.emit_one(narrow);
    world.emit_one(narrow);
    let mut event = world.event(&[wide, narrow]);
    event.atomic = true;
    assert_eq!(world.try_emit(event), full(narrow, Bound::LaneRows));
    assert_eq!((world.counts(wide).accepted, world.counts(narrow).accepted), (0, 2));
    // Claimed deliveries still wait; settled ones free capacity.
    let claimed = world.claim(narrow, term);
    assert_eq!(emit_bytes(&mut world, &[narrow], 1), full(narrow, Bound::LaneRows));
    world.settle(narrow, term, claimed[0], Fate::Delivered);
    assert!(emit_bytes(&mut world, &[wide, narrow], 1).is_ok());
}

pub(super) fn a_lane_that_refuses_does_so_for_itself_alone<B: Backend>() {
    let mut world = World::<B>::new();
    let wide = world.new_lane(WIDE);
    let (narrow, term) = world.own_lane(rows(1, WhenFull::Refuse));
    let first = world.emit_one(narrow);
    let event = world.event(&[wide, narrow]);
    let emitted = world.try_emit(event.clone()).unwrap();
    assert!(matches!(emitted.targets[..], [Placed::Waiting { .. }, Placed::Refused(Bound::LaneRows)]));
    // The lane with the event keeps it.
    let emitted = world.try_emit(event.clone()).unwrap();
    assert_eq!(emitted.targets, [Placed::Duplicate, Placed::Refused(Bound::LaneRows)]);
    assert_eq!(world.claim(narrow, term), [first]);
    world.settle(narrow, term, first, Fate::Delivered);
    let emitted = world.try_emit(event).unwrap();
    assert!(matches!(emitted.targets[..], [Placed::Duplicate, Placed::Waiting { .. }]), "{emitted:?}");
    assert_eq!((world.counts(wide).accepted, world.counts(narrow).accepted), (1, 2));
}

pub(super) fn a_partly_accepted_event_is_known_for_any_deduplication_window<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [world.new_lane(WIDE), world.new_lane(WIDE)];
    let mut event = world.event(&lanes);
    assert!(event.targets.iter().all(|target| target.dedupe == Nanos::ZERO));
    let whole = event.clone();
    event.targets.truncate(1);
    event.withheld = true;
    world.try_emit(event.clone()).unwrap();
    world.pass(Nanos::DAY);
    for expected in [[1, 1], [1, 1]] {
        world.try_emit(whole.clone()).unwrap();
        assert_eq!(lanes.map(|lane| world.counts(lane).accepted), expected);
    }
    let deliveries = world.reader.deliveries_of_event(&event.id, &Lanes::All, None, 10).unwrap().items;
    assert_eq!(deliveries.iter().map(|delivery| delivery.lane).collect::<Vec<_>>(), lanes);
}

pub(super) fn an_id_that_others_have_in_part_is_no_duplicate<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let in_part = Emit { withheld: true, ..world.event(&[other]) };
    let event = Emit { id: in_part.id.clone(), ..world.event(&[lane]) };
    world.try_emit(in_part).unwrap();
    for accepted in [1, 2] {
        world.try_emit(event.clone()).unwrap();
        assert_eq!(world.counts(lane).accepted, accepted, "nothing is deduplicated, as without the other");
    }
}

pub(super) fn a_lane_that_sheds_gives_up_those_longest_due<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(rows(2, WhenFull::ShedOldest));
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    let emitted = emit_bytes(&mut world, &[lane], 1).unwrap();
    let third = waiting(&emitted.targets[0]);
    assert_eq!(emitted.shed, 1);
    assert_eq!(reason(&world, first), Some(Reason::Overflow));
    assert_eq!([world.place(second), world.place(third)], [Some(Place::Waiting); 2]);
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.dead, counts.waiting), (3, 1, 2));
}

pub(super) fn bytes_are_bounded_like_rows<B: Backend>() {
    let mut world = World::<B>::new();
    let narrow = Bounds { bytes_max: 100, ..WIDE };
    let refuses = world.new_lane(narrow);
    let sheds = world.new_lane(Bounds { when_full: WhenFull::ShedOldest, ..narrow });
    for lane in [refuses, sheds] {
        emit_bytes(&mut world, &[lane], 60).unwrap();
        emit_bytes(&mut world, &[lane], 40).unwrap();
    }
    assert_eq!(emit_bytes(&mut world, &[refuses], 1), full(refuses, Bound::LaneBytes));
    assert_eq!(emit_bytes(&mut world, &[sheds], 60).unwrap().shed, 1);
    assert_eq!(world.counts(sheds).waiting_bytes, 100);
    assert_eq!(emit_bytes(&mut world, &[sheds], 100).unwrap().shed, 2);
    // An empty body fits in zero bytes.
    assert!(emit_bytes(&mut world, &[refuses], 0).is_ok());
}

pub(super) fn a_claimed_delivery_is_not_shed<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(rows(2, WhenFull::ShedOldest));
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    assert_eq!(world.try_claim(lane, term, 1).unwrap().rows[0].delivery, first);
    world.emit_one(lane);
    assert_eq!([world.place(first), world.place(second)], [Some(Place::Waiting), Some(Place::Dead)]);
}

pub(super) fn without_anything_else_to_shed_the_new_one_is_given_up<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(rows(1, WhenFull::ShedOldest));
    let first = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [first]);
    let placed = emit_bytes(&mut world, &[lane], 1).unwrap().targets[0];
    let Placed::Overflowed { delivery } = placed else { panic!("{placed:?}") };
    assert_eq!(reason(&world, delivery), Some(Reason::Overflow));
    assert_eq!(world.counts(lane).waiting, 1);
}

pub(super) fn an_event_that_can_never_fit_sheds_nothing<B: Backend>() {
    let mut world = World::<B>::new();
    let narrow = Bounds { bytes_max: 100, ..WIDE };
    let refuses = world.new_lane(narrow);
    let sheds = world.new_lane(Bounds { when_full: WhenFull::ShedOldest, ..narrow });
    emit_bytes(&mut world, &[refuses, sheds], 50).unwrap();
    assert_eq!(emit_bytes(&mut world, &[refuses], 101), full(refuses, Bound::BodyBytes));
    let placed = emit_bytes(&mut world, &[sheds], 101).unwrap();
    assert!(matches!(placed.targets[0], Placed::Overflowed { .. }), "{placed:?}");
    assert_eq!((placed.shed, world.counts(sheds).waiting), (0, 1));
}

pub(super) fn a_full_store_sheds_from_the_fullest_lane<B: Backend>() {
    let mut world = World::<B>::with(Limits { waiting_rows_max: 6, ..Limits::default() });
    let quiet = world.new_lane(rows(100, WhenFull::ShedOldest));
    let (loud, term) = world.own_lane(rows(100, WhenFull::ShedOldest));
    let refuses = world.new_lane(WIDE);
    let oldest: Vec<DeliveryId> = (0..3).map(|_| world.emit_one(loud)).collect();
    world.emit_one(quiet);
    world.emit_one(refuses);
    world.emit_one(refuses);
    let emitted = emit_bytes(&mut world, &[quiet], 1).unwrap();
    waiting(&emitted.targets[0]);
    assert_eq!((emitted.shed, world.place(oldest[0])), (1, Some(Place::Dead)));
    // Another lane sheds; at last the new delivery itself.
    assert_eq!(world.claim(loud, term), oldest[1..]);
    for _ in 0..4 {
        emit_bytes(&mut world, &[loud], 1).unwrap();
    }
    assert_eq!((world.counts(refuses).waiting, world.total().waiting), (2, 6));
    assert_eq!([world.place(oldest[1]), world.place(oldest[2])], [Some(Place::Waiting); 2]);
}

pub(super) fn room_for_one_target_is_not_made_of_what_another_replaces<B: Backend>() {
    let mut world = World::<B>::with(Limits { waiting_bytes_max: 40, ..Limits::default() });
    let (one, other) =
        (world.new_lane(rows(9, WhenFull::ShedOldest)), world.new_lane(rows(9, WhenFull::ShedOldest)));
    let mut event = world.event(&[other]);
    event.targets[0].coalesce = Some(Coalesce { key: "clip".into(), window: Nanos::SECOND });
    let first = waiting(&world.try_emit(event.clone()).unwrap().targets[0]);
    let mut newer = world.event(&[one, other]);
    newer.bodies = vec![body(&[b'x'; 35]), body(b"small")];
    newer.targets[1] = Target { body: 1, lane: other, ..event.targets[0].clone() };
    let placed = world.try_emit(newer).unwrap();
    assert_eq!(placed.shed, 0);
    assert!(
        matches!(placed.targets[1], Placed::Waiting { replaced: Some(older), .. } if older == first),
        "{placed:?}"
    );
    assert_eq!(world.place(first), Some(Place::Coalesced));
}

pub(super) fn a_full_store_refuses_events_of_lanes_that_refuse<B: Backend>() {
    let mut world =
        World::<B>::with(Limits { waiting_rows_max: 2, waiting_bytes_max: 100, ..Limits::default() });
    let (sheds, refuses) = (world.new_lane(rows(100, WhenFull::ShedOldest)), world.new_lane(WIDE));
    emit_bytes(&mut world, &[sheds], 10).unwrap();
    assert_eq!(emit_bytes(&mut world, &[refuses], 91), full(refuses, Bound::TotalBytes));
    emit_bytes(&mut world, &[refuses], 10).unwrap();
    assert_eq!(emit_bytes(&mut world, &[refuses], 10), full(refuses, Bound::TotalRows));
    let mut event = world.event(&[sheds, refuses]);
    event.atomic = true;
    assert_eq!(world.try_emit(event), full(refuses, Bound::TotalRows));
    assert_eq!(world.total().accepted, 2);
}

pub(super) fn lowered_bounds_hold_for_what_comes<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    for _ in 0..5 {
        world.emit_one(lane);
    }
    let mut lower = |when_full| {
        world.change(Change { bounds: Some(rows(2, when_full)), ..Change::of(lane) });
        let outcome = emit_bytes(&mut world, &[lane], 1).map(|emitted| emitted.shed);
        (outcome.ok(), world.counts(lane).waiting)
    };
    assert_eq!(lower(WhenFull::Refuse), (None, 5));
    assert_eq!(lower(WhenFull::ShedOldest), (Some(4), 2));
}

pub(super) fn an_operator_sheds_what_waits<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let deliveries: Vec<DeliveryId> = (0..4).map(|_| world.emit_one(lane)).collect();
    world.try_claim(lane, term, 1).unwrap();
    let shed = |max| Command::Shed(Shed { lane, max });
    assert_eq!(world.one(shed(2)), Reply::Dropped { rows: 2, more: true });
    assert_eq!(world.place(deliveries[3]), Some(Place::Waiting));
    assert_eq!(world.one(shed(2)), Reply::Dropped { rows: 1, more: false });
    assert_eq!(reason(&world, deliveries[1]), Some(Reason::Shed));
    assert_eq!(world.place(deliveries[0]), Some(Place::Waiting), "handed out");
    let nowhere = Command::Shed(Shed { lane: LaneId(99), max: 1 });
    assert_eq!(world.one(nowhere), Reply::Refused(Refusal::UnknownLane(LaneId(99))));
    assert_eq!(world.reader.lane(LaneId(99)).unwrap().map(|lane| lane.lane), None);
}

pub(super) fn dead_letters_are_bounded_and_the_oldest_go_first<B: Backend>() {
    let limits = Limits { dead_max: 3, dead_per_lane_max: 2, ..Limits::default() };
    let mut world = World::<B>::with(limits);
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let mut letters = Vec::new();
    for lane in [one, one, one, other, other] {
        letters.push(world.emit_one(lane));
        world.one(Command::Shed(Shed { lane, max: 1 }));
    }
    // The first exceeds its lane's bound, the second the whole store's.
    let kept: Vec<bool> = letters.iter().map(|letter| world.place(*letter) == Some(Place::Dead)).collect();
    assert_eq!(kept, [false, false, true, true, true]);
    let counts = world.counts(one);
    assert_eq!((counts.accepted, counts.dead, counts.dead_kept, counts.dead_gone()), (3, 3, 1, 2));
    assert_eq!(world.total().dead, 5);
    let written = world.store.written();
    assert_eq!((written.forgotten, written.shed), (2, 0), "an operator gave them up, not the bound");
}

/// More than a store reads in one step.
pub(super) fn many_make_room_in_one_commit_and_many_letters_are_forgotten_for_them<B: Backend>() {
    const WAITING: u64 = 90;
    const KEPT: usize = 25;

    let mut world = World::<B>::with(Limits { dead_per_lane_max: 25, ..Limits::default() });
    let (lane, term) = world.own_lane(WIDE);
    let mut queue: Vec<(StoreTime, DeliveryId)> = Vec::new();
    for number in 0..WAITING {
        let mut event = world.event(&[lane]);
        event.targets[0].due = later(world.now, Nanos::from_secs(number * 37 % WAITING));
        let due = event.targets[0].due;
        queue.push((due, waiting(&world.try_emit(event).unwrap().targets[0])));
    }
    queue.sort();
    let queue: Vec<DeliveryId> = queue.into_iter().map(|(_, delivery)| delivery).collect();
    world.pass(Nanos::from_secs(9));
    assert_eq!(world.claim(lane, term), queue[..10]);
    world.change(Change { bounds: Some(rows(30, WhenFull::ShedOldest)), ..Change::of(lane) });
    let released = |delivery: &DeliveryId| world.settlement(lane, term, *delivery, Fate::Released);
    let mut commands = vec![Command::Settle(queue[..5].iter().map(released).collect())];
    for _ in 0..3 {
        let mut event = world.event(&[lane]);
        event.targets[0].due = later(world.now, Nanos::HOUR);
        commands.push(Command::Emit(event));
    }
    world.all(&commands);
    let counts = world.counts(lane);
    assert_eq!((counts.waiting, counts.dead, counts.dead_kept), (30, 63, 25));
    let waits = |delivery: &&DeliveryId| world.place(**delivery) == Some(Place::Waiting);
    let left: Vec<DeliveryId> = queue.iter().filter(waits).copied().collect();
    assert_eq!(left, [&queue[5..10], &queue[68..]].concat());
    let mut dead = [&queue[..5], &queue[10..68]].concat();
    dead.sort();
    let letters = world.reader.dead(&Lanes::One(lane), None, 1_000).unwrap().items;
    let mut kept: Vec<DeliveryId> = letters.iter().map(|letter| letter.delivery.delivery).collect();
    kept.sort();
    assert_eq!(kept, dead[dead.len() - KEPT..]);
}
