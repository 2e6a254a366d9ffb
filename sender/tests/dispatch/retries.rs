//! An operator's retry is taken up once, by whatever clock it was asked and whoever owns the lane.

use hookproof_sender::dispatch::{Event, News};
use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::{Retry, ToRetry};

use crate::dispatch::world::World;

const SETTINGS: &str =
    r#"{"limit":{"in_flight":1},"breaker":{"failures":1,"failures_when_slow":1,"cooldown":"1h"}}"#;

/// Its breaker is open for an hour.
fn failing() -> World {
    let mut world = World::with_settings(1, SETTINGS);
    world.emit(&[1]);
    world.answer(500);
    world.pass(Nanos::from_secs(100));
    assert!(world.sent_to().is_empty());
    world
}

fn retry() -> Command {
    Command::Retry(Retry { which: ToRetry::Of(LaneId(1)), insist: false, probe: true, max: 1 })
}

/// Asks by a clock that differs from the owner's.
fn ask_at(world: &mut World, at: StoreTime) {
    let now = std::mem::replace(&mut world.now, at);
    world.commit(retry());
    world.now = now;
}

/// As a process polls the store.
fn notice(world: &mut World) {
    world.learn_of_subscribers();
    let now = world.now;
    world.handle(Event::Work(vec![(LaneId(1), now)]));
}

fn stop(world: &mut World) {
    world.handle(Event::Stop);
    assert!(world.dispatcher.is_over(|| false));
}

fn taken_up(world: &World) -> usize {
    world.news.iter().filter(|news| matches!(news, News::Retried { .. })).count()
}

#[test]
fn a_retry_asked_by_a_clock_that_was_set_back_is_taken_up() {
    let mut world = failing();
    for (number, back) in [Nanos::ZERO, Nanos::from_secs(50), Nanos::HOUR].into_iter().enumerate() {
        let asked = StoreTime(world.now.0 - back.0);
        ask_at(&mut world, asked);
        notice(&mut world);
        assert_eq!((world.sent_to(), taken_up(&world)), (vec![1], number + 1), "{back} before");
        world.answer(500);
    }
}

#[test]
fn a_retry_that_the_owner_did_not_notice_before_it_stopped_is_taken_up_by_the_next() {
    let mut world = failing();
    let now = world.now;
    ask_at(&mut world, now);
    world.pass(Nanos::SECOND);
    stop(&mut world);
    assert_eq!(taken_up(&world), 0);
    let mut other = world.another(2);
    other.pass(Nanos::SECOND);
    assert_eq!((other.sent_to(), taken_up(&other)), (vec![1], 1));
}

#[test]
fn a_retry_asked_by_a_clock_ahead_is_not_repeated_by_the_next_owners() {
    let mut world = failing();
    let ahead = world.now + Nanos::DAY;
    ask_at(&mut world, ahead);
    notice(&mut world);
    assert_eq!((world.sent_to(), taken_up(&world)), (vec![1], 1));
    world.answer(500);
    for owner in [2, 3] {
        stop(&mut world);
        world = world.another(owner);
        world.pass(Nanos::from_secs(100));
        assert_eq!((world.sent_to(), taken_up(&world)), (vec![], 0));
    }
}

#[test]
fn an_owner_that_learns_late_of_a_handled_retry_does_not_repeat_it() {
    let mut world = failing();
    let mut other = world.another(2);
    let now = world.now;
    ask_at(&mut world, now);
    notice(&mut world);
    world.answer(500);
    stop(&mut world);
    other.pass(Nanos::from_secs(100));
    assert_eq!(other.lanes(), 1);
    notice(&mut other);
    assert_eq!((other.sent_to(), taken_up(&other)), (vec![], 0));
}
