use hookproof_sender::engine::{DeliveryId, LaneId, Nanos};
use hookproof_sender::store::command::{
    Attempt, AttemptOutcome, Change, Coalesce, Dead, Details, Fate, Forget, Reason, Redrive, Settlement,
    Shed, Sweep,
};
use hookproof_sender::store::lane::{Bounds, LaneState, Limits};
use hookproof_sender::store::read::Place;
use hookproof_sender::store::reply::{Placed, Redriven, Swept};
use hookproof_sender::store::{Command, Reply};

use crate::store::world::{Backend, TTL, WIDE, World, later, waiting};

fn letters<B: Backend>(world: &mut World<B>, lane: LaneId, count: u32) -> Vec<DeliveryId> {
    let letters: Vec<DeliveryId> = (0..count).map(|_| world.emit_one(lane)).collect();
    world.one(Command::Shed(Shed { lane, max: count }));
    letters
}

fn redrive<B: Backend>(world: &mut World<B>, which: Dead, after: Option<DeliveryId>, max: u32) -> Redriven {
    match world.one(Command::Redrive(Redrive { which, after, max })) {
        Reply::Redriven(redriven) => redriven,
        other => panic!("{other:?}"),
    }
}

fn forget<B: Backend>(
    world: &mut World<B>,
    which: Dead,
    after: Option<DeliveryId>,
    max: u32,
) -> (u64, Option<DeliveryId>) {
    match world.one(Command::Forget(Forget { which, after, max })) {
        Reply::Forgotten { rows, last } => (rows, last),
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_redriven_letter_waits_with_all_its_life_before_it<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    for _ in 0..2 {
        world.claim(lane, term);
        let dead = world.settlement(lane, term, delivery, Fate::Dead(Reason::Exhausted));
        world.settle_all(vec![Settlement { attempts: 12, ..dead }]);
        world.pass(Nanos::DAY);
        let redriven = redrive(&mut world, Dead::All, None, 10);
        assert_eq!(redriven, Redriven { rows: vec![(lane, delivery)], kept: 0, last: None });
        let read = world.reader.delivery(delivery).unwrap().unwrap();
        assert_eq!((read.place, read.attempts, read.at), (Place::Waiting, 0, world.now));
        assert_eq!(read.expires, later(world.now, TTL));
    }
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.waiting, counts.dead, counts.retrying), (1, 1, 0, 0));
    assert_eq!(world.reader.attempts_of(delivery).unwrap().len(), 2, "what was tried is not forgotten");
}

pub(super) fn redriving_stops_where_there_is_no_room<B: Backend>() {
    let mut world = World::<B>::with(Limits { waiting_rows_max: 3, ..Limits::default() });
    let narrow = world.new_lane(Bounds { rows_max: 1, ..WIDE });
    let wide = world.new_lane(WIDE);
    let mut of_narrow = letters(&mut world, narrow, 1);
    of_narrow.extend(letters(&mut world, narrow, 1));
    let of_wide = letters(&mut world, wide, 3);
    let redriven = redrive(&mut world, Dead::All, None, 10);
    let rows = vec![(narrow, of_narrow[0]), (wide, of_wide[0]), (wide, of_wide[1])];
    assert_eq!(redriven, Redriven { rows, kept: 2, last: None });
    assert_eq!(world.total().waiting, 3);
}

pub(super) fn redriving_goes_on_where_it_left_off<B: Backend>() {
    let mut world = World::<B>::new();
    let full = world.new_lane(Bounds { rows_max: 1, ..WIDE });
    let lane = world.new_lane(WIDE);
    let stuck = letters(&mut world, full, 1);
    world.emit_one(full);
    let free = letters(&mut world, lane, 2);
    let first = redrive(&mut world, Dead::All, None, 2);
    assert_eq!(first, Redriven { rows: vec![(lane, free[0])], kept: 1, last: Some(free[0]) });
    let second = redrive(&mut world, Dead::All, first.last, 2);
    assert_eq!(second, Redriven { rows: vec![(lane, free[1])], kept: 0, last: None });
    assert_eq!(world.place(stuck[0]), Some(Place::Dead));
}

pub(super) fn the_letters_of_a_disabled_lane_stay<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    letters(&mut world, lane, 2);
    world.change(Change { state: Some(LaneState::Disabled), ..Change::of(lane) });
    assert_eq!(redrive(&mut world, Dead::Of(lane), None, 9).kept, 2);
    for state in [LaneState::Active, LaneState::Paused] {
        world.change(Change { state: Some(state), ..Change::of(lane) });
    }
    assert_eq!(redrive(&mut world, Dead::Of(lane), None, 9).rows.len(), 2);
}

pub(super) fn only_the_named_letters_are_redriven<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let (of_one, of_other) = (letters(&mut world, one, 2), letters(&mut world, other, 5));
    let alive = world.emit_one(one);
    let named = vec![of_other[1], alive, DeliveryId(4_711), DeliveryId(u64::MAX)];
    assert_eq!(redrive(&mut world, Dead::These(named), None, 9).rows, [(other, of_other[1])]);
    let named = Dead::These(vec![of_other[4], of_other[0], of_other[3]]);
    let page = redrive(&mut world, named.clone(), None, 2);
    assert_eq!(page.rows, [(other, of_other[0]), (other, of_other[3])]);
    assert_eq!(redrive(&mut world, named, page.last, 2).rows, [(other, of_other[4])]);
    let rows = redrive(&mut world, Dead::Of(one), None, 9).rows;
    assert_eq!(rows, [(one, of_one[0]), (one, of_one[1])]);
}

pub(super) fn a_redriven_letter_is_not_replaced_by_a_newer_event<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let coalesce = Coalesce { key: "clip".into(), window: Nanos::MINUTE };
    let mut event = world.event(&[lane]);
    event.targets[0].coalesce = Some(coalesce.clone());
    let first = waiting(&world.try_emit(event.clone()).unwrap().targets[0]);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    redrive(&mut world, Dead::All, None, 1);
    // The redriven delivery is not due yet.
    world.now = hookproof_sender::engine::StoreTime(world.now.0 - 1);
    let mut newer = world.event(&[lane]);
    newer.targets[0].coalesce = Some(coalesce);
    let placed = world.try_emit(newer).unwrap().targets[0];
    assert!(matches!(placed, Placed::Waiting { replaced: None, .. }), "{placed:?}");
    assert_eq!(world.place(first), Some(Place::Waiting));
}

pub(super) fn forgotten_letters_are_gone<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let (of_one, of_other) = (letters(&mut world, one, 3), letters(&mut world, other, 2));
    let alive = world.emit_one(one);
    let these = Dead::These(vec![of_one[2], alive]);
    assert_eq!(forget(&mut world, these, None, 9), (1, None));
    assert_eq!(forget(&mut world, Dead::Of(one), None, 1), (1, Some(of_one[0])));
    assert_eq!(forget(&mut world, Dead::All, None, 9), (3, None));
    for letter in of_one.iter().chain(&of_other) {
        assert_eq!(world.place(*letter), None);
    }
    let counts = world.counts(one);
    assert_eq!((counts.accepted, counts.dead, counts.dead_kept, counts.waiting), (4, 3, 0, 1));
}

pub(super) fn all_the_named_letters_are_forgotten_step_by_step<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let named = letters(&mut world, lane, 5);
    let these = Dead::These(named.iter().rev().copied().collect());
    // The first step meets letters that are gone, and still continues.
    assert_eq!(forget(&mut world, Dead::These(named[..2].to_vec()), None, 9), (2, None));
    assert_eq!(forget(&mut world, these.clone(), None, 2), (0, Some(named[1])));
    assert_eq!(forget(&mut world, these.clone(), Some(named[1]), 2), (2, Some(named[3])));
    assert_eq!(forget(&mut world, these, Some(named[3]), 2), (1, None));
    assert_eq!(world.counts(lane).dead_kept, 0);
}

pub(super) fn letters_are_grouped_by_what_they_have_in_common<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    // The groups' hours are then known.
    world.now = later(world.now, Nanos(Nanos::HOUR.0 - world.now.0 % Nanos::HOUR.0));
    let hour = world.now;
    let mut die = |lane, term, status: Option<u16>, error: Option<&str>, attempts| {
        let delivery = world.emit_one(lane);
        let outcome = if status.is_some() { AttemptOutcome::Rejected } else { AttemptOutcome::Silent };
        let attempt = Attempt {
            at: world.now,
            latency: Nanos::SECOND,
            outcome,
            status,
            error: error.map(Into::into),
            body_hash: 7,
            received: None,
            details: Details::default(),
        };
        let fate = Fate::Dead(Reason::Exhausted);
        let settlement = world.settlement(lane, term, delivery, fate);
        world.settle_all(vec![Settlement { attempts, attempt: Some(attempt), ..settlement }]);
        world.pass(Nanos::MINUTE);
    };
    die(lane, term, Some(401), Some("unauthorised"), 12);
    die(lane, term, Some(401), Some("unauthorised"), 10);
    die(other, other_term, None, Some("deadline"), 12);
    die(lane, term, Some(429), None, 12);
    world.pass(Nanos::HOUR);
    let mut late = world.event(&[lane]);
    late.targets[0].expires = world.now;
    world.try_emit(late).unwrap();
    world.one(Command::Sweep(hookproof_sender::store::command::Sweep { max: 9 }));

    let groups = world.reader.dead_groups(hour, 10).unwrap();
    let told: Vec<_> = groups
        .iter()
        .map(|group| {
            (group.lane, group.reason, group.status, group.error.as_deref(), group.rows, group.attempts)
        })
        .collect();
    assert_eq!(
        told,
        [
            (lane, Reason::Exhausted, Some(401), Some("unauthorised"), 2, 22),
            (lane, Reason::Exhausted, Some(429), None, 1, 12),
            (other, Reason::Exhausted, None, Some("deadline"), 1, 12),
            (lane, Reason::Expired, None, None, 1, 0),
        ]
    );
    assert_eq!((groups[0].hour, groups[0].first, groups[0].last), (hour, hour, later(hour, Nanos::MINUTE)));
    assert_eq!(groups[3].hour, later(hour, Nanos::HOUR));
    assert_eq!(world.reader.dead_groups(later(hour, Nanos::HOUR), 10).unwrap(), groups[3..]);
    assert_eq!(world.reader.dead_groups(hour, 1).unwrap(), groups[..1]);
}

pub(super) fn one_commit_buries_many_and_forgets_the_oldest_of_as_many_lanes<B: Backend>() {
    const MANY: u32 = 150;

    let mut world = World::<B>::with(Limits { dead_max: MANY.into(), ..Limits::default() });
    let lanes: Vec<LaneId> = (0..MANY).map(|_| world.new_lane(WIDE)).collect();
    let last = world.new_lane(WIDE);
    let emits: Vec<Command> = lanes.iter().map(|lane| Command::Emit(world.event(&[*lane]))).collect();
    world.all(&emits);
    let sheds: Vec<Command> = lanes.iter().map(|lane| Command::Shed(Shed { lane: *lane, max: 1 })).collect();
    world.all(&sheds);
    assert_eq!(world.total().dead_kept, u64::from(MANY));
    let emits: Vec<Command> = (0..MANY).map(|_| Command::Emit(world.event(&[last]))).collect();
    world.all(&emits);
    world.pass(TTL);
    let swept = world.one(Command::Sweep(Sweep { max: MANY }));
    assert!(matches!(swept, Reply::Swept(Swept { expired, .. }) if expired == u64::from(MANY)), "{swept:?}");
    assert_eq!((world.total().dead_kept, world.counts(last).dead_kept), (u64::from(MANY), u64::from(MANY)));
}
