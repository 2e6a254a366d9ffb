use hookproof_sender::engine::{LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::{AttemptOutcome, Fate, Purge, Sweep};
use hookproof_sender::store::latency::Histogram;
use hookproof_sender::store::read::Over;

use crate::store::world::{Backend, ME, WIDE, World, YOU};

fn deliver<B: Backend>(world: &mut World<B>, lane: LaneId, term: Term, count: usize, latency: Nanos) {
    let deliveries: Vec<_> = (0..count).map(|_| world.emit_one(lane)).collect();
    world.claim(lane, term);
    let settlements = deliveries.into_iter().map(|delivery| {
        let mut settlement = world.settlement(lane, term, delivery, Fate::Delivered);
        settlement.attempt.as_mut().unwrap().latency = latency;
        settlement
    });
    let settlements = settlements.collect();
    world.settle_all(settlements);
}

/// Commits something, as a running sender always does.
fn a_second_passes<B: Backend>(world: &mut World<B>) {
    world.pass(Nanos::SECOND);
    world.one(Command::Sweep(Sweep { max: 10 }));
}

fn of_day<B: Backend>(world: &World<B>, lane: LaneId) -> Option<Histogram> {
    let over = Over::Day { until: world.now };
    world.reader.latencies(&[lane], over).unwrap().pop().map(|(_, measured)| measured.answer)
}

fn ever<B: Backend>(world: &World<B>, lane: LaneId) -> u64 {
    world
        .reader
        .latencies(&[lane], Over::Ever)
        .unwrap()
        .pop()
        .map_or(0, |(_, measured)| measured.answer.samples())
}

pub(super) fn percentiles_are_told_a_second_later<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let idle = world.new_lane(WIDE);
    deliver(&mut world, lane, term, 90, Nanos::from_millis(10));
    deliver(&mut world, lane, term, 10, Nanos::from_secs(3));
    a_second_passes(&mut world);
    let found = of_day(&world, lane).unwrap().percentiles().unwrap();
    assert_eq!(found.samples, 100);
    assert!((Nanos::from_millis(10)..Nanos::from_millis(11)).contains(&found.p50), "{found:?}");
    assert!((Nanos::from_secs(3)..Nanos::from_millis(3_100)).contains(&found.p95), "{found:?}");
    assert!(found.is_slow());
    assert_eq!(of_day(&world, idle), None);
}

pub(super) fn from_emit_to_the_first_attempt_and_to_success_each_delivery_counts_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let received = world.now;
    let delivery = world.emit_one(lane);
    for (number, fate) in [(1, Fate::Retry { due: world.now }), (2, Fate::Delivered)] {
        world.pass(Nanos::from_secs(5));
        world.claim(lane, term);
        let mut settlement = world.settlement(lane, term, delivery, fate);
        settlement.attempts = number;
        let attempt = settlement.attempt.as_mut().unwrap();
        (attempt.received, attempt.latency) = (Some(received), Nanos::SECOND);
        world.settle_all(vec![settlement]);
    }
    a_second_passes(&mut world);
    let (_, measured) = world.reader.latencies(&[lane], Over::Ever).unwrap().pop().unwrap();
    let seconds = |histogram: &Histogram| {
        histogram.percentiles().map(|found| (found.samples, found.p99.0 / Nanos::SECOND.0))
    };
    assert_eq!(measured.answer.samples(), 2);
    assert_eq!(seconds(&measured.first_attempt), Some((1, 5)));
    assert_eq!(seconds(&measured.delivery), Some((1, 11)));
}

pub(super) fn an_unsent_delivery_has_no_latency<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let mut settlement = world.settlement(lane, term, delivery, Fate::Retry { due: world.now });
    settlement.attempt.as_mut().unwrap().outcome = AttemptOutcome::Unsent;
    world.settle_all(vec![settlement]);
    a_second_passes(&mut world);
    let counted = of_day(&world, lane).unwrap();
    assert_eq!((counted.percentiles(), counted.delivered(), counted.failed()), (None, 0, 1));
}

pub(super) fn the_last_hour_is_told_of_each_lane<B: Backend>() {
    let mut world = World::<B>::new();
    // On the hour.
    world.now.0 -= world.now.0 % Nanos::HOUR.0;
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 8, Nanos::from_millis(10));
    a_second_passes(&mut world);
    let told = |world: &World<B>| {
        let hour = world.reader.last_hour(&[lane], world.now).unwrap()[0];
        (hour.delivered, hour.failed)
    };
    assert_eq!(told(&world), (8, 0));
    world.pass(Nanos(Nanos::MINUTE.0 * 89));
    assert_eq!(told(&world), (4, 0), "half of the hour before still counts");
    world.pass(Nanos::HOUR);
    assert_eq!(told(&world), (0, 0));
}

pub(super) fn attempts_do_not_cost_a_write_each<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 50, Nanos::from_millis(10));
    world.pass(Nanos::SECOND);
    let before = world.store.written().rows;
    world.one(Command::Sweep(Sweep { max: 10 }));
    assert!(world.store.written().rows - before <= 2, "a row for the hour, one for ever");
    assert_eq!(ever(&world, lane), 50);
}

pub(super) fn the_figures_of_several_processes_add_up<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 5, Nanos::from_millis(10));
    let other = world.backend.store();
    let first = std::mem::replace(&mut world.store, other);
    let term = {
        world.one(Command::Evict(ME));
        world.own(YOU, lane)
    };
    deliver(&mut world, lane, term, 3, Nanos::from_millis(10));
    a_second_passes(&mut world);
    assert_eq!(ever(&world, lane), 3, "the first has not written its own");
    world.store = first;
    a_second_passes(&mut world);
    assert_eq!(ever(&world, lane), 8);
}

pub(super) fn an_orderly_end_loses_no_figure<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 5, Nanos::from_millis(10));
    world.store.close().unwrap();
    world.crash();
    assert_eq!(ever(&world, lane), 5);
}

pub(super) fn a_day_goes_by_and_the_rest_stays<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 5, Nanos::from_millis(10));
    a_second_passes(&mut world);
    world.pass(Nanos::HOUR.times(22));
    deliver(&mut world, lane, term, 3, Nanos::from_millis(10));
    a_second_passes(&mut world);
    assert_eq!(of_day(&world, lane).unwrap().samples(), 8);
    world.pass(Nanos::HOUR.times(2));
    assert_eq!(of_day(&world, lane).unwrap().samples(), 3);
    world.pass(Nanos::DAY.times(2));
    purge(&mut world);
    let before = world.store.written().rows;
    purge(&mut world);
    assert_eq!(world.store.written().rows, before, "both hours were forgotten by the first");
    assert_eq!((of_day(&world, lane), ever(&world, lane)), (None, 8));
}

pub(super) fn nothing_is_left_of_a_removed_lane<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    deliver(&mut world, lane, term, 5, Nanos::from_millis(10));
    a_second_passes(&mut world);
    world.one(Command::Remove(lane));
    world.pass(Nanos::DAY);
    purge(&mut world);
    assert_eq!(ever(&world, lane), 0);
}

fn purge<B: Backend>(world: &mut World<B>) {
    let (settled_before, never) = (world.now, StoreTime(0));
    let purge = Purge {
        settled_before,
        attempts_before: never,
        dead_before: never,
        changes_before: StoreTime(0),
        max: 300,
    };
    world.one(Command::Purge(purge));
}
