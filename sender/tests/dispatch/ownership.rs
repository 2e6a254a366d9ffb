use hookproof_sender::dispatch::{Event, LEASE_DEFAULT, News};
use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::Change;
use hookproof_sender::store::lane::{LaneState, OwnerId};

use crate::dispatch::world::World;

/// No attempt is in flight when the lease ends.
const SERVED: Nanos = Nanos(LEASE_DEFAULT.0 - LEASE_DEFAULT.0 / 50);

#[test]
fn an_attempt_may_go_out_until_its_deadline_and_the_end_of_the_lease_as_renewed() {
    let mut world = World::with(1);
    let asked = world.now;
    world.emit(&[1]);
    let limits = world.sends[0].limits;
    assert_eq!(limits.deadline, world.now + world.sends[0].subscriber.deadline());
    assert_eq!(limits.lease_until, asked + SERVED);
    world.answer(204);
    world.pass(Nanos::from_secs(25));
    assert_eq!(world.told.lease_until, asked + Nanos::from_secs(20) + SERVED, "for what is under way");
    world.emit(&[1]);
    assert_eq!(world.sends[0].limits.lease_until, asked + Nanos::from_secs(20) + SERVED);
}

#[test]
fn sends_decided_before_a_change_are_withdrawn() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    assert_eq!(world.told.withdrawn, []);
    world.operate(Command::Change(Change { state: Some(LaneState::Paused), ..Change::of(LaneId(1)) }));
    assert_eq!(world.told.withdrawn, [LaneId(1)]);
    world.answer(204);
    world.emit(&[1, 2]);
    assert_eq!(world.sent_to(), [2], "the other one is paused");
}

#[test]
fn a_lane_that_another_process_took_is_withdrawn_and_sends_nothing() {
    let mut world = World::with(1);
    world.emit(&[1]);
    let mut other = world.another(2);
    other.commit(Command::Evict(OwnerId(1)));
    other.pass(Nanos::from_millis(1));
    assert!(other.news.iter().any(|news| matches!(news, News::Took { .. })), "{:?}", other.news);
    // The node notices at its next renewal.
    world.pass(Nanos::from_secs(11));
    assert_eq!((&world.told.withdrawn[..], &world.told.forgotten[..]), (&[][..], &[LaneId(1)][..]));
    assert!(world.news.iter().any(|news| matches!(news, News::Lost { .. })));
    world.answer(204);
    assert_eq!(world.counts(1).delivered, 1, "what was delivered is a fact");
    assert_eq!(world.dispatcher.views().len(), 0);
    world.emit(&[1]);
    world.pass(Nanos::from_secs(11));
    assert!(world.sent_to().is_empty(), "it is the other one's");
}

#[test]
fn deliveries_recorded_during_a_takeover_are_not_forgotten() {
    let mut world = World::with(1);
    world.handle(Event::Tick);
    world.answers.are_late = true;
    let later = StoreTime(world.now.0 + Nanos::HOUR.0);
    world.record(&[1], later);
    world.handle(Event::Work(vec![(LaneId(1), later)]));
    world.emit(&[1]);
    world.deliver_answers();
    assert_eq!(world.sent_to(), [1]);
}

#[test]
fn an_endpoint_that_was_gone_and_is_resumed_while_nobody_runs_gets_what_is_due() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.answer(410);
    world.handle(Event::Stop);
    assert!(world.dispatcher.is_over(|| false));
    world.commit(Command::Change(Change { state: Some(LaneState::Active), ..Change::of(LaneId(1)) }));
    let mut other = world.another(2);
    other.emit(&[1]);
    assert_eq!(other.sent_to(), [1]);
}

#[test]
fn an_endpoint_that_is_resumed_before_anybody_saw_that_it_was_gone_gets_what_is_due() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.answer(410);
    world.operate(Command::Change(Change { state: Some(LaneState::Active), ..Change::of(LaneId(1)) }));
    world.emit(&[1]);
    assert_eq!(world.sent_to(), [1]);
}

#[test]
fn the_backlog_of_a_resumed_lane_without_an_owner_is_sent_at_once() {
    let mut world = World::with(1);
    let change = |state| Command::Change(Change { state: Some(state), ..Change::of(LaneId(1)) });
    world.operate(change(LaneState::Paused));
    let now = world.now;
    world.record(&[1], now);
    world.operate(change(LaneState::Active));
    assert_eq!(world.sent_to(), [1]);
}

#[test]
fn a_stopping_process_withdraws_unsent_attempts_and_releases_all_rows() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    world.handle(Event::Stop);
    assert_eq!(world.told.withdrawn, [LaneId(1), LaneId(2)]);
    assert!(!world.dispatcher.is_over(|| false), "two attempts are under way");
    world.answer(204);
    assert!(world.dispatcher.is_over(|| false));
    let mut other = world.another(2);
    other.emit(&[1, 2]);
    assert_eq!(other.sent_to(), [1, 2], "it need not wait for the leases to end");
}
