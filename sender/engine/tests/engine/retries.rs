//! An operator has an endpoint tried at once.

use std::cell::Cell;

use hookproof_engine::engine::breaker::Standing;
use hookproof_engine::engine::{Input, LaneId, Nanos, Retried, StoreTime};

use crate::shell::{Sent, per_second, settings};
use crate::world::{Reply, World, busy, status};

const QUICK: Nanos = Nanos::from_millis(10);
const BETWEEN: Nanos = Nanos::from_secs(30);

/// Each moment of these tests is a newer version.
fn asked<F: FnMut(&Sent) -> Reply>(world: &World<F>, lane: LaneId, insist: bool) -> Input {
    let version = world.now.0;
    Input::Retry { lane, asked: Retried { asked: version, insisted: if insist { version } else { 0 } } }
}

/// Sent since the operator asked, in the time until the next request of the operator.
fn sent_after<F: FnMut(&Sent) -> Reply>(world: &mut World<F>, lane: LaneId, insist: bool) -> Vec<StoreTime> {
    let before = world.sent.len();
    world.handle(asked(world, lane, insist));
    world.run(BETWEEN);
    world.sent[before..].iter().map(|sent| sent.at).collect()
}

#[test]
fn each_request_is_one_probe_at_once_until_one_succeeds() {
    let well = Cell::new(false);
    let mut world = World::new(|_: &Sent| status(QUICK, if well.get() { 204 } else { 500 }));
    let lane = world.lane(1, &settings(per_second(10, 1, 10)), 50);
    world.run(Nanos::from_secs(250));
    assert_eq!(world.sent.len(), 10, "the breaker opens after ten failures");
    for _ in 0..5 {
        let now = world.now;
        assert_eq!(sent_after(&mut world, lane, false), [now]);
    }
    assert!(world.shell.turned.iter().all(|(_, breaker)| breaker.is_open()));
    well.set(true);
    let now = world.now;
    let sent = sent_after(&mut world, lane, false);
    assert_eq!(sent[0], now);
    assert!(sent.len() > 40, "the rest follows: {}", sent.len());
    let closed = world.shell.turned.last().map(|(_, breaker)| *breaker);
    assert_eq!(closed, Some(Standing::Closed));
}

#[test]
fn a_second_request_while_the_probe_is_under_way_sends_nothing() {
    let mut world = World::new(|_: &Sent| status(Nanos::from_secs(5), 500));
    let lane = world.lane(1, &settings(per_second(10, 1, 10)), 50);
    world.run(Nanos::from_secs(100));
    let before = world.sent.len();
    for _ in 0..3 {
        world.handle(asked(&world, lane, false));
        world.run(Nanos::SECOND);
    }
    assert_eq!(world.sent.len(), before + 1);
}

#[test]
fn a_retry_after_holds_unless_the_operator_insists() {
    let mut first = Some(busy(QUICK, 503, "3600"));
    let mut world = World::new(move |_: &Sent| first.take().unwrap_or_else(|| status(QUICK, 204)));
    let lane = world.lane(1, &settings(per_second(10, 1, 10)), 5);
    world.run(BETWEEN);
    assert_eq!(sent_after(&mut world, lane, false), []);
    let now = world.now;
    assert_eq!(sent_after(&mut world, lane, true).first(), Some(&now));
    assert!(world.shell.records[&lane].holds(world.now).paused_until <= world.now, "it is durable");
}

#[test]
fn a_paused_lane_stays_paused() {
    let mut world = World::new(|_: &Sent| status(QUICK, 204));
    let lane = world.lane(1, &settings(per_second(10, 1, 10)), 0);
    world.handle(Input::Pause { lane });
    world.offer(lane, 5);
    assert_eq!(sent_after(&mut world, lane, true), []);
}
