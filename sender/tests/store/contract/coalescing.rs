use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Coalesce, Fate};
use hookproof_sender::store::lane::{Bounds, Limits, WhenFull};
use hookproof_sender::store::read::Place;
use hookproof_sender::store::reply::Placed;

use crate::store::world::{Backend, WIDE, World, body, later};

const WINDOW: Nanos = Nanos::from_secs(10);

fn emit_alike<B: Backend>(
    world: &mut World<B>,
    lane: LaneId,
    key: &str,
) -> (DeliveryId, StoreTime, Option<DeliveryId>) {
    let mut event = world.event(&[lane]);
    event.targets[0].coalesce = Some(Coalesce { key: key.into(), window: WINDOW });
    match world.try_emit(event).unwrap().targets[0] {
        Placed::Waiting { delivery, due, replaced } => (delivery, due, replaced),
        other => panic!("{other:?}"),
    }
}

pub(super) fn the_newest_goes_out_when_the_window_of_the_first_ends<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let end = later(world.now, WINDOW);
    let (first, first_due, nothing) = emit_alike(&mut world, lane, "clip");
    assert_eq!((first_due, nothing), (end, None));
    world.pass(Nanos::from_secs(4));
    let (second, second_due, replaced) = emit_alike(&mut world, lane, "clip");
    assert_eq!((second_due, replaced), (end, Some(first)));
    world.pass(Nanos::from_secs(5));
    let (third, third_due, replaced) = emit_alike(&mut world, lane, "clip");
    assert_eq!((third_due, replaced), (end, Some(second)));
    assert_eq!(world.claim(lane, term), []);
    world.pass(Nanos::from_secs(1));
    assert_eq!(world.claim(lane, term), [third]);
    assert_eq!([world.place(first), world.place(second)], [Some(Place::Coalesced); 2]);
    let counts = world.counts(lane);
    assert_eq!((counts.accepted, counts.coalesced, counts.waiting), (3, 2, 1));
}

pub(super) fn another_key_or_lane_is_not_alike<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    emit_alike(&mut world, one, "clip");
    for (lane, key) in [(one, "other clip"), (other, "clip"), (one, "CLIP"), (one, "")] {
        assert_eq!(emit_alike(&mut world, lane, key).2, None, "lane {} key {key:?}", lane.0);
    }
    world.emit_one(one);
    assert_eq!(world.counts(one).coalesced, 0);
}

pub(super) fn once_the_window_is_over_the_next_one_opens_its_own<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, ..) = emit_alike(&mut world, lane, "clip");
    // Another process may have claimed it.
    world.pass(WINDOW);
    let (second, due, replaced) = emit_alike(&mut world, lane, "clip");
    assert_eq!((due, replaced), (later(world.now, WINDOW), None));
    assert_eq!(world.claim(lane, term), [first]);
    assert_eq!(emit_alike(&mut world, lane, "clip").2, Some(second));
}

pub(super) fn an_attempted_delivery_is_not_coalesced<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, ..) = emit_alike(&mut world, lane, "clip");
    world.pass(WINDOW);
    assert_eq!(world.claim(lane, term), [first]);
    let due = later(world.now, Nanos::HOUR);
    world.settle(lane, term, first, Fate::Retry { due });
    assert_eq!(emit_alike(&mut world, lane, "clip").2, None);
    assert_eq!(world.place(first), Some(Place::Waiting));
}

pub(super) fn a_full_lane_still_takes_a_newer_one_in_the_place_of_an_older<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(Bounds { rows_max: 1, ..WIDE });
    let (first, ..) = emit_alike(&mut world, lane, "clip");
    assert_eq!(emit_alike(&mut world, lane, "clip").2, Some(first));
    assert_eq!(world.counts(lane).waiting, 1);
}

pub(super) fn an_event_that_can_never_fit_replaces_nothing<B: Backend>() {
    for (bytes_max, bytes) in [(100, 101), (1_000, 201)] {
        let mut world = World::<B>::with(Limits { waiting_bytes_max: 200, ..Limits::default() });
        let bounds = Bounds { bytes_max, when_full: WhenFull::ShedOldest, ..WIDE };
        let (lane, term) = world.own_lane(bounds);
        let (first, ..) = emit_alike(&mut world, lane, "clip");
        let mut event = world.event(&[lane]);
        event.bodies = vec![body(&vec![b'x'; bytes])];
        event.targets[0].coalesce = Some(Coalesce { key: "clip".into(), window: WINDOW });
        let placed = world.try_emit(event).unwrap().targets[0];
        assert!(matches!(placed, Placed::Overflowed { .. }), "{placed:?}");
        let (second, _, replaced) = emit_alike(&mut world, lane, "clip");
        assert_eq!(replaced, Some(first));
        world.pass(WINDOW);
        assert_eq!(world.claim(lane, term), [second]);
    }
}
