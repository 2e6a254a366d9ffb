//! The dispatcher retries while it owns the lane, and no other lane waits.

use hookproof_sender::dispatch::{Event, News, PAUSE_LONGEST};
use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::store::command::{Drain, Settlement};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::{Command, Reader};

use crate::dispatch::world::World;

fn is_of_first(settlements: &[Settlement]) -> bool {
    settlements.iter().any(|settlement| settlement.lane == LaneId(1))
}

fn settles_the_first(command: &Command) -> bool {
    matches!(command, Command::Settle(settlements) if is_of_first(settlements))
}

fn hands_back(command: &Command) -> bool {
    matches!(command, Command::Persist(persist) if persist.hand_back)
}

fn retires(command: &Command) -> bool {
    matches!(command, Command::Retire(_))
}

fn claims_from_the_first(command: &Command) -> bool {
    matches!(command, Command::Claim(claim) if claim.lane == LaneId(1))
}

#[test]
fn settlements_that_fail_for_good_hold_up_no_others_and_are_tried_again() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    world.fault = Some(settles_the_first);
    assert_eq!(world.sent_to(), [1, 2]);
    world.answer(204);
    assert_eq!((world.counts(1).delivered, world.counts(2).delivered), (0, 1), "one batch held both");
    assert_eq!(world.stuck(), [1]);
    world.fault = None;
    world.pass(Nanos::SECOND);
    assert_eq!((world.counts(1).delivered, world.counts(1).waiting), (1, 0));
    assert!(world.stuck().is_empty());
    assert!(world.news.contains(&News::Moves { lane: LaneId(1) }));
}

#[test]
fn a_retry_that_is_written_down_late_is_made_though_a_claim_in_between_did_not_see_it() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    world.fault = Some(settles_the_first);
    // Both settlements share a batch, and the second lane claims its next delivery before that batch is durable.
    world.end(500);
    world.emit(&[2]);
    world.answer(204);
    assert_eq!((world.counts(2).delivered, world.counts(2).waiting), (1, 1));
    world.pass(Nanos::HOUR);
    assert_eq!(world.sent_to(), [2], "its first delivery is tried again");
}

#[test]
fn a_lane_is_handed_over_once_its_settlements_are_written() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.fault = Some(settles_the_first);
    world.answer(204);
    let mut other = world.another(2);
    world.commit(Command::Drain(Drain { owner: OwnerId(1), draining: true }));
    for _ in 0..5 {
        world.pass(Nanos::SECOND);
        other.pass(Nanos::SECOND);
    }
    assert_eq!(
        (world.counts(1).delivered, other.sent_to()),
        (0, vec![]),
        "its next owner would send it again"
    );
    world.fault = None;
    world.pass(Nanos::MINUTE);
    other.pass(Nanos::MINUTE);
    assert_eq!((world.counts(1).delivered, world.counts(1).waiting, other.sent_to()), (1, 0, vec![]));
    other.emit(&[1]);
    assert_eq!(other.sent_to(), [1], "and then it is the other's");
}

#[test]
fn a_lane_whose_settlements_are_not_written_sends_nothing_more() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    world.fault = Some(settles_the_first);
    world.answer(204);
    world.asked.clear();
    world.emit(&[1, 2]);
    world.pass(Nanos::SECOND);
    assert_eq!(world.sent_to(), [2], "each of them would be sent again after a restart");
    world.fault = None;
    world.pass(Nanos::SECOND.times(2));
    assert_eq!(world.sent_to(), [2, 1]);
}

#[test]
fn tries_come_with_pauses_that_have_a_longest() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.fault = Some(settles_the_first);
    world.answer(204);
    world.asked.clear();
    world.pass(Nanos::HOUR);
    let tries = world.asked.iter().filter(|name| **name == "settle deliveries").count();
    let longest = usize::try_from(Nanos::HOUR.0 / PAUSE_LONGEST.0).unwrap();
    assert!((longest..longest + 12).contains(&tries), "{tries} tries in an hour");
    let told = world.news.iter().filter(|news| matches!(news, News::Stuck { .. })).count();
    assert_eq!(told, 1, "it is said once");
}

#[test]
fn a_lane_that_can_not_be_given_back_is_given_back_later() {
    let mut world = World::with(2);
    world.emit(&[1, 2]);
    world.answer(204);
    world.fault = Some(hands_back);
    world.operate(Command::Remove(LaneId(1)));
    assert_eq!(world.stuck(), [1]);
    world.fault = None;
    world.pass(Nanos::SECOND);
    assert!(world.stuck().is_empty());
    world.emit(&[2]);
    assert_eq!(world.sent_to(), [2], "the other lane went on");
}

#[test]
fn deliveries_that_can_not_be_read_are_asked_for_less_and_less_often() {
    let mut world = World::with(2);
    world.fault = Some(claims_from_the_first);
    world.emit(&[1, 2]);
    assert_eq!((world.sent_to(), world.stuck()), (vec![2], vec![1]));
    world.answer(204);
    world.asked.clear();
    world.pass(Nanos::HOUR);
    let claims = world.asked.iter().filter(|name| **name == "claim deliveries").count();
    let longest = usize::try_from(Nanos::HOUR.0 / PAUSE_LONGEST.0).unwrap();
    assert!((longest..longest + 12).contains(&claims), "{claims} claims in an hour");
    world.fault = None;
    world.pass(PAUSE_LONGEST);
    assert_eq!((world.sent_to(), world.stuck()), (vec![1], vec![]));
}

#[test]
fn a_stopping_process_retries_once_and_then_ends_as_after_a_crash() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.fault = Some(settles_the_first);
    world.answer(204);
    assert!(!world.dispatcher.is_over(|| false));
    world.asked.clear();
    world.handle(Event::Stop);
    assert!(world.asked.contains(&"settle deliveries"), "{:?}", world.asked);
    assert!(world.dispatcher.is_over(|| false), "it does not wait for what fails for good");
    assert!(world.news.iter().any(|news| matches!(news, News::GaveUp { .. })));
    assert_eq!(world.counts(1).waiting, 1, "it is made again");
}

#[test]
fn a_hand_back_that_fails_for_good_does_not_keep_a_process_from_ending() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.answer(204);
    world.fault = Some(hands_back);
    world.handle(Event::Stop);
    assert!(world.dispatcher.is_over(|| false));
}

#[test]
fn a_store_that_fails_to_have_a_node_retire_is_asked_again_on_the_way_out() {
    for fails_for_good in [false, true] {
        let mut world = World::with(1);
        world.emit(&[1]);
        world.answer(204);
        assert_eq!(world.reader.nodes().unwrap().all.len(), 1);
        world.fault = Some(retires);
        world.handle(Event::Stop);
        assert!(!world.dispatcher.is_over(|| false));
        if !fails_for_good {
            world.fault = None;
        }
        world.pass(Nanos::SECOND);
        assert!(world.dispatcher.is_over(|| false), "it is not asked for ever");
        assert_eq!(world.reader.nodes().unwrap().all.len(), usize::from(fails_for_good));
        assert_eq!(world.dispatcher.left_nothing(), !fails_for_good, "others have to find out");
    }
}

#[test]
fn a_lane_that_could_not_be_handed_back_is_for_others_to_find() {
    let mut world = World::with(1);
    world.emit(&[1]);
    world.answer(204);
    world.fault = Some(hands_back);
    world.handle(Event::Stop);
    world.pass(Nanos::SECOND);
    assert!(world.dispatcher.is_over(|| false));
    assert!(!world.dispatcher.left_nothing());
}
