use std::sync::Arc;

use hookproof_sender::engine::breaker::{Cause, Disabled};
use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::{
    Attempt, AttemptOutcome, Change, Dead, Details, Fate, Forget, KeptAnswer, LaneSelection, Purge, Reason,
    Retry, Settlement, Shed, ToRetry,
};
use hookproof_sender::store::lane::LaneState;
use hookproof_sender::store::read::{Lanes, Place};
use hookproof_sender::store::reply::SettleResult;

use crate::store::world::{Backend, LEASE, WIDE, World, YOU, acquire, later};

const DEAD: Fate = Fate::Dead(Reason::Exhausted);

pub(super) fn delivered_is_delivered<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.pass(Nanos::SECOND);
    assert_eq!(world.settle(lane, term, delivery, Fate::Delivered), SettleResult::Applied);
    let read = world.reader.delivery(delivery).unwrap().unwrap();
    assert_eq!((read.place, read.attempts, read.at), (Place::Delivered, 1, world.now));
    let counts = world.counts(lane);
    assert_eq!((counts.delivered, counts.waiting, counts.waiting_bytes), (1, 0, 0));
    assert_eq!((counts.latency_us, counts.failed_attempts), (20_000, 0));
    world.pass(Nanos::SECOND);
    assert_eq!(world.settle(lane, term, delivery, Fate::Delivered), SettleResult::Absent);
    let attempts = world.reader.attempts_of(delivery).unwrap();
    assert_eq!(attempts.len(), 2, "a second success is an attempt of the delivery");
}

pub(super) fn a_failed_delivery_waits_until_it_is_due_again<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let due = later(world.now, Nanos::MINUTE);
    assert_eq!(world.settle(lane, term, delivery, Fate::Retry { due }), SettleResult::Applied);
    let read = world.reader.delivery(delivery).unwrap().unwrap();
    assert_eq!((read.place, read.attempts, read.at), (Place::Waiting, 1, due));
    let counts = world.counts(lane);
    assert_eq!((counts.waiting, counts.retrying, counts.failed_attempts), (1, 1, 1));
    world.pass(Nanos::MINUTE);
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Delivered);
    assert_eq!(world.counts(lane).retrying, 0);
}

pub(super) fn a_given_up_delivery_is_a_dead_letter_with_its_last_error<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let reasons = [Reason::Exhausted, Reason::Expired];
    for reason in reasons {
        let delivery = world.emit_one(lane);
        world.claim(lane, term);
        assert_eq!(world.settle(lane, term, delivery, Fate::Dead(reason)), SettleResult::Applied);
    }
    let letters = world.reader.dead(&Lanes::One(lane), None, 10).unwrap().items;
    assert_eq!(letters.iter().map(|letter| letter.reason).collect::<Vec<_>>(), [reasons[1], reasons[0]]);
    assert_eq!((letters[0].status, letters[0].error.as_deref()), (Some(503), Some("unavailable")));
    assert_eq!((letters[0].delivery.attempts, letters[0].delivery.at), (1, world.now));
    let counts = world.counts(lane);
    assert_eq!((counts.dead, counts.dead_kept, counts.waiting), (2, 2, 0));
}

pub(super) fn a_verdict_comes_for_each_in_order<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let deliveries: Vec<DeliveryId> = (0..3).map(|_| world.emit_one(lane)).collect();
    world.claim(lane, term);
    let results = world.settle_all(vec![
        world.settlement(lane, term, deliveries[2], Fate::Delivered),
        world.settlement(lane, term, DeliveryId(4_711), DEAD),
        world.settlement(lane, term, deliveries[0], DEAD),
        world.settlement(lane, term, deliveries[0], Fate::Retry { due: world.now }),
        world.settlement(LaneId(99), term, deliveries[1], Fate::Delivered),
    ]);
    let (applied, absent) = (SettleResult::Applied, SettleResult::Absent);
    assert_eq!(results, [applied, absent, applied, absent, absent]);
    assert_eq!(world.place(deliveries[1]), Some(Place::Waiting));
}

fn late<B: Backend>(fate: Fate) -> (SettleResult, Option<Place>, u64) {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.pass(LEASE);
    world.backend.store().commit(world.now, &[acquire(YOU, LaneSelection::All)]).unwrap();
    let result = world.settle(lane, term, delivery, fate);
    let attempts = world.reader.attempts_of(delivery).unwrap().len();
    (result, world.place(delivery), attempts.try_into().unwrap())
}

pub(super) fn an_old_term_settles_nothing_but_a_delivery<B: Backend>() {
    let due = hookproof_sender::engine::StoreTime(u64::MAX);
    assert_eq!(late::<B>(Fate::Delivered), (SettleResult::Applied, Some(Place::Delivered), 1));
    assert_eq!(late::<B>(Fate::Retry { due }), (SettleResult::Stale, Some(Place::Waiting), 1));
    assert_eq!(late::<B>(DEAD), (SettleResult::Stale, Some(Place::Waiting), 1));
    assert_eq!(late::<B>(Fate::Released), (SettleResult::Applied, Some(Place::Waiting), 0));
}

pub(super) fn delivered_is_a_fact_even_after_it_was_given_up<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    // Another process does not know this process's claims.
    world.backend.store().commit(world.now, &[Command::Shed(Shed { lane, max: 1 })]).unwrap();
    assert_eq!(world.place(delivery), Some(Place::Dead));
    let due = world.now;
    assert_eq!(world.settle(lane, term, delivery, Fate::Retry { due }), SettleResult::Absent);
    world.pass(Nanos(1));
    assert_eq!(world.settle(lane, term, delivery, Fate::Delivered), SettleResult::Applied);
    let counts = world.counts(lane);
    assert_eq!((counts.delivered, counts.dead, counts.dead_kept), (1, 0, 0));
    assert_eq!(world.reader.dead(&Lanes::All, None, 10).unwrap().items, []);
}

pub(super) fn an_attempt_is_recorded_whatever_became_of_the_delivery<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let nowhere = DeliveryId(4_711);
    assert_eq!(world.settle(lane, term, nowhere, DEAD), SettleResult::Absent);
    let second = world.now.0 / Nanos::SECOND.0;
    let audit = world.reader.audit(Some(lane), world.now, later(world.now, Nanos::SECOND), 10).unwrap();
    assert_eq!(audit.iter().map(|row| (row.second, row.attempts)).collect::<Vec<_>>(), [(second, 1)]);
}

fn details() -> Details {
    Details { connect: Some(Nanos(3)), first_byte: Some(Nanos::from_millis(9)), asked: true, answer: None }
}

pub(super) fn the_attempts_of_a_delivery_are_listed_newest_first<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (delivery, other, third) = (world.emit_one(lane), world.emit_one(lane), world.emit_one(lane));
    world.settle(lane, term, third, Fate::Retry { due: later(world.now, Nanos::HOUR) });
    for number in 1..=3 {
        world.claim(lane, term);
        let fate = if number == 3 { Fate::Delivered } else { Fate::Retry { due: world.now } };
        let settlements = [delivery, other].into_iter().map(|delivery| {
            let mut settlement = world.settlement(lane, term, delivery, fate);
            settlement.attempts = number;
            settlement.attempt = settlement
                .attempt
                .map(|attempt| if number == 2 { Attempt { details: details(), ..attempt } } else { attempt });
            settlement
        });
        let settlements = settlements.collect();
        world.settle_all(settlements);
        world.pass(Nanos::SECOND);
    }
    let attempts = world.reader.attempts_of(delivery).unwrap();
    let listed: Vec<_> = attempts.iter().map(|attempt| (attempt.number, attempt.attempt.outcome)).collect();
    assert_eq!(
        listed,
        [(3, AttemptOutcome::Delivered), (2, AttemptOutcome::Rejected), (1, AttemptOutcome::Rejected)]
    );
    assert_eq!(
        (attempts[1].attempt.status, attempts[1].attempt.error.as_deref()),
        (Some(503), Some("unavailable"))
    );
    assert_eq!(attempts[1].attempt.details, details());
    assert_eq!(attempts[0].attempt.details, Details::default());
    let fact = Settlement { attempt: None, ..world.settlement(lane, term, third, Fate::Delivered) };
    world.settle_all(vec![fact]);
    assert_eq!(world.reader.attempts_of(third).unwrap().len(), 1);
    assert_eq!((attempts[0].attempt.body_hash, attempts[0].attempt.latency), (7, Nanos::from_millis(20)));
}

/// A failed attempt, with an answer that has its number.
fn answered(settlement: Settlement, number: u32) -> Settlement {
    let head = format!("x-request-id: {number}\n");
    let answer = KeptAnswer { head, body: vec![0xff, 0, b'a'], cut: true };
    let attempt = settlement.attempt.map(|attempt| Attempt {
        at: StoreTime(attempt.at.0 + u64::from(number)),
        details: Details { answer: Some(Arc::new(answer)), ..Details::default() },
        ..attempt
    });
    Settlement { attempts: number, attempt, ..settlement }
}

pub(super) fn the_newest_answers_of_each_lane_are_kept_as_long_as_their_attempts<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (quiet, quiet_term) = world.own_lane(WIDE);
    let (delivery, single, second) = (world.emit_one(lane), world.emit_one(quiet), world.emit_one(lane));
    let kept = |world: &World<B>, delivery| {
        let attempts = world.reader.attempts_of(delivery).unwrap();
        let its = attempts.iter().filter_map(|one| Some((one.number, one.attempt.details.answer.clone()?)));
        its.map(|(number, answer)| {
            let headers: Vec<_> = answer.headers().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(headers, [format!("x-request-id: {number}")]);
            assert_eq!((&*answer.text(), answer.cut), ("\u{fffd}\0a", true));
            number
        })
        .collect::<Vec<_>>()
    };
    let retry = Fate::Retry { due: world.now };
    let only = answered(world.settlement(quiet, quiet_term, single, retry), 1);
    world.settle_all(vec![only]);
    let (mut number, mut moments) = (0, Vec::new());
    for batch in [1, 63, 1, 150, 2] {
        let settlements = (0..batch).map(|_| {
            number += 1;
            answered(world.settlement(lane, term, delivery, retry), number)
        });
        let settlements = settlements.collect();
        world.settle_all(settlements);
        world.pass(Nanos::SECOND);
        moments.push(world.now);
        let newest: Vec<_> = (1..=number).rev().take(64).collect();
        assert_eq!(kept(&world, delivery), newest);
    }
    assert_eq!((kept(&world, single), world.backend.answers()), (vec![1], 65));
    world.settle(lane, term, second, Fate::Delivered);
    assert_eq!(world.backend.answers(), 65, "a success keeps nothing");
    world.pass(Nanos::SECOND);
    let purge = |before| Purge {
        attempts_before: before,
        settled_before: StoreTime(0),
        dead_before: StoreTime(0),
        changes_before: StoreTime(0),
        max: 3_000,
    };
    world.one(Command::Purge(purge(moments[3])));
    assert_eq!((kept(&world, delivery), world.backend.answers()), (vec![217, 216], 2));
    world.one(Command::Purge(purge(world.now)));
    assert_eq!(world.backend.answers(), 0);
}

pub(super) fn the_same_attempt_told_twice_counts_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let told = world.settlement(lane, term, delivery, Fate::Retry { due: world.now });
    world.settle_all(vec![told.clone(), told]);
    assert_eq!(world.reader.attempts_of(delivery).unwrap().len(), 1);
    assert_eq!((world.counts(lane).failed_attempts, world.counts(lane).retrying), (1, 1));
}

pub(super) fn an_attempt_told_again_after_an_earlier_one_counts_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let retry = Fate::Retry { due: world.now };
    let late = world.settlement(lane, term, delivery, retry);
    world.pass(LEASE);
    let term = world.acquire(YOU, LaneSelection::All)[0].term;
    world.claim(lane, term);
    let told = Settlement { attempts: 2, ..world.settlement(lane, term, delivery, retry) };
    for settlement in [told.clone(), late, told] {
        world.settle_all(vec![settlement]);
    }
    assert_eq!(world.reader.attempts_of(delivery).unwrap().len(), 2);
    assert_eq!(world.counts(lane).failed_attempts, 2);
}

pub(super) fn a_long_error_is_cut_between_letters<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let mut settlement = world.settlement(lane, term, delivery, DEAD);
    let error = "x".to_owned() + &"é".repeat(5_000);
    settlement.attempt = settlement.attempt.map(|attempt| Attempt { error: Some(error.into()), ..attempt });
    world.settle_all(vec![settlement]);
    let kept = world.reader.dead(&Lanes::All, None, 1).unwrap().items.remove(0).error.unwrap();
    assert_eq!(*kept, *("x".to_owned() + &"é".repeat(99)));
}

pub(super) fn an_endpoint_that_is_gone_is_disabled_in_the_same_breath<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (delivery, other) = (world.emit_one(lane), world.emit_one(lane));
    world.claim(lane, term);
    let roster = world.reader.glance().unwrap().roster;
    world.settle(lane, term, delivery, Fate::Dead(Reason::Gone));
    assert_eq!(world.lane(lane).state, LaneState::Disabled);
    assert_eq!(world.reader.glance().unwrap().roster, roster + 1);
    assert_eq!(world.place(other), Some(Place::Waiting));
}

pub(super) fn an_endpoint_that_is_gone_is_disabled_whatever_became_of_the_delivery<B: Backend>() {
    for commands in 1..=2 {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        let delivery = world.emit_one(lane);
        world.claim(lane, term);
        let shed = Command::Shed(Shed { lane, max: 1 });
        let forget = Command::Forget(Forget { which: Dead::All, after: None, max: 1 });
        world.backend.store().commit(world.now, &[shed, forget][..commands]).unwrap();
        assert_eq!(world.settle(lane, term, delivery, Fate::Dead(Reason::Gone)), SettleResult::Absent);
        assert_eq!(world.lane(lane).state, LaneState::Disabled, "after {commands} commands");
    }
}

pub(super) fn a_former_owner_disables_no_lane<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.pass(LEASE);
    world.backend.store().commit(world.now, &[acquire(YOU, LaneSelection::All)]).unwrap();
    let gone = Fate::Dead(Reason::Gone);
    assert_eq!(world.settle(lane, term, delivery, gone), SettleResult::Stale);
    assert_eq!(world.settle(lane, term, DeliveryId(4_711), gone), SettleResult::Absent);
    let failed = world.settlement(lane, term, delivery, Fate::Retry { due: world.now });
    assert_eq!(world.settle_all(vec![disabling(failed, u64::MAX)]), [SettleResult::Stale]);
    assert_eq!(world.lane(lane).state, LaneState::Active);
}

fn disabling(settlement: Settlement, handled: u64) -> Settlement {
    let disabled = Disabled { after: Nanos::DAY.times(5), last: Cause::Answered(503) };
    Settlement { disables: Some((disabled, handled)), ..settlement }
}

pub(super) fn nothing_but_failures_disable_an_active_lane_unless_an_operator_asked_since<B: Backend>() {
    for (asked, paused, fate, disables) in [
        (false, false, Fate::Retry { due: StoreTime::from_secs(1_900_000_000) }, true),
        (false, false, DEAD, true),
        (true, false, DEAD, false),
        (false, true, DEAD, false),
    ] {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        let delivery = world.emit_one(lane);
        world.claim(lane, term);
        let handled = world.reader.glance().unwrap().roster;
        if asked {
            let which = ToRetry::Of(lane);
            world.one(Command::Retry(Retry { which, insist: false, probe: true, max: 1 }));
        }
        if paused {
            world.change(Change { state: Some(LaneState::Paused), ..Change::of(lane) });
        }
        let roster = world.reader.glance().unwrap().roster;
        let settlement = world.settlement(lane, term, delivery, fate);
        // A commit with an unknown result is repeated.
        world.settle_all(vec![disabling(settlement.clone(), handled), disabling(settlement, handled)]);
        let now = world.reader.glance().unwrap().roster;
        assert_eq!(now, roster + u64::from(disables), "asked {asked}, paused {paused}, {fate:?}");
        let found = world.lane(lane);
        let expected = if disables {
            LaneState::Disabled
        } else if paused {
            LaneState::Paused
        } else {
            LaneState::Active
        };
        assert_eq!((found.state, found.pause.reason.is_some()), (expected, disables));
        let why = "nothing but failures for 5d, last: it answered 503 at 20";
        assert!(!disables || found.pause.why_disabled().starts_with(why), "{:?}", found.pause);
        let place = if fate == DEAD { Place::Dead } else { Place::Waiting };
        assert_eq!(world.place(delivery), Some(place), "its own fate is as it was");
    }
}
