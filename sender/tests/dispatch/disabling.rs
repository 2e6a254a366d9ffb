//! Days of nothing but failures disable a lane. Silence does not count: idle, paused, or without a process.

use hookproof_sender::dispatch::Event;
use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::store::command::{Change, Retry, Shed, ToRetry};
use hookproof_sender::store::lane::LaneState;
use hookproof_sender::store::{Command, Reader};

use crate::dispatch::world::World;

const LANE: LaneId = LaneId(1);
const SETTINGS: &str = r#"{"limit":{"in_flight":1},"retry":{"base":"1ms","cap":"1ms"},
    "breaker":{"failures":1,"failures_when_slow":1,"cooldown":"1h","disable_after":"2h"}}"#;

/// Its breaker is open after the first failure.
fn failing() -> World {
    let mut world = World::with_settings(1, SETTINGS);
    world.emit(&[1]);
    world.answer(500);
    world
}

fn fail_probe(world: &mut World) {
    world.pass(Nanos::HOUR);
    assert_eq!(world.sent_to(), [1]);
    world.answer(500);
}

fn state(world: &World) -> LaneState {
    world.reader.lane(LANE).unwrap().unwrap().state
}

fn change(state: LaneState) -> Command {
    Command::Change(Change { state: Some(state), ..Change::of(LANE) })
}

#[test]
fn nothing_but_failures_disable_it_and_a_resumed_one_starts_anew() {
    let mut world = failing();
    fail_probe(&mut world);
    assert_eq!(state(&world), LaneState::Active);
    fail_probe(&mut world);
    let found = world.reader.lane(LANE).unwrap().unwrap();
    assert_eq!(found.state, LaneState::Disabled);
    let why = "nothing but failures for 2h, last: it answered 500 at ";
    assert!(found.pause.why_disabled().starts_with(why), "{:?}", found.pause);
    assert_eq!(found.counts.waiting, 1, "its deliveries wait");
    world.learn_of_subscribers();
    world.pass(Nanos::HOUR);
    assert!(world.sent_to().is_empty());

    world.operate(change(LaneState::Active));
    assert_eq!(world.sent_to(), [1], "a probe at once");
    world.answer(500);
    assert_eq!(state(&world), LaneState::Active);
    fail_probe(&mut world);
    assert_eq!(state(&world), LaneState::Active);
    fail_probe(&mut world);
    assert_eq!(state(&world), LaneState::Disabled);
}

#[test]
fn a_mended_endpoint_is_not_disabled_for_time_without_attempts() {
    const SILENCE: Nanos = Nanos::from_secs(3 * 3_600);
    type Silence = fn(World) -> World;
    // At most an hour of it counts, or nothing where an operator ended it.
    let silences: [(&str, u32, Silence); 3] = [
        ("idle", 1, |mut world| {
            world.operate(Command::Shed(Shed { lane: LANE, max: 9 }));
            world.pass(SILENCE);
            world.emit(&[1]);
            world
        }),
        ("paused", 2, |mut world| {
            world.operate(change(LaneState::Paused));
            world.pass(SILENCE);
            world.operate(change(LaneState::Active));
            world
        }),
        ("no process", 1, |mut world| {
            world.handle(Event::Stop);
            world.pass(SILENCE);
            let mut next = world.another(2);
            next.pass(Nanos::SECOND);
            next
        }),
    ];
    for (name, hours, silence) in silences {
        for (status, failures) in [(200, 0), (500, hours)] {
            let mut world = silence(failing());
            assert_eq!(world.sent_to(), [1], "{name}");
            world.answer(status);
            assert_eq!(state(&world), LaneState::Active, "{name}, then {status}");
            for _ in 0..failures {
                fail_probe(&mut world);
            }
            let expected = if failures == 0 { LaneState::Active } else { LaneState::Disabled };
            assert_eq!(state(&world), expected, "{name}, then {status} again");
        }
    }
}

#[test]
fn owners_that_follow_each_other_count_each_hour_once() {
    for end_in_order in [true, false] {
        let mut world = failing();
        world.pass(Nanos::HOUR);
        assert_eq!(world.sent_to(), [1]);
        world.answer(500);
        if end_in_order {
            world.handle(Event::Stop);
        }
        let mut next = world.another(2);
        drop(world);
        next.pass(Nanos::MINUTE);
        next.pass(Nanos::HOUR);
        assert_eq!((next.sent_to(), state(&next)), (vec![1], LaneState::Active));
        next.answer(500);
        assert_eq!(state(&next), LaneState::Disabled, "in order: {end_in_order}");
    }
}

fn retry() -> Command {
    Command::Retry(Retry { which: ToRetry::Of(LANE), insist: false, probe: true, max: 1 })
}

#[test]
fn an_endpoint_that_is_gone_gets_nothing_though_an_operator_asks_at_the_last_moment() {
    let mut world = failing();
    world.emit(&[1]);
    fail_probe(&mut world);
    world.pass(Nanos::HOUR);
    world.end(410);
    world.commit(retry());
    world.learn_of_subscribers();
    world.pass(Nanos::HOUR);
    assert_eq!((state(&world), world.sent_to()), (LaneState::Disabled, vec![]));
}

#[test]
fn an_operator_who_asks_at_the_last_moment_is_heard() {
    for known_first in [true, false] {
        for asked in [retry as fn() -> Command, || {
            Command::Change(Change { url: Some("https://moved.example".into()), ..Change::of(LANE) })
        }] {
            let mut world = failing();
            fail_probe(&mut world);
            world.pass(Nanos::HOUR);
            if known_first {
                // The engine has decided, and nothing was written yet.
                world.end(500);
                world.commit(asked());
            } else {
                world.commit(asked());
                world.answer(500);
            }
            world.learn_of_subscribers();
            world.pass(Nanos::SECOND);
            assert_eq!((state(&world), world.sent_to()), (LaneState::Active, vec![1]), "{known_first}");
            world.answer(500);
            world.operate(change(LaneState::Paused));
            world.pass(Nanos::HOUR);
            assert!(world.sent_to().is_empty(), "a pause holds");
        }
    }
}
