use hookproof_sender::engine::{DeliveryId, Nanos, Term};
use hookproof_sender::store::command::{Claim, Dead, Fate, Reason, Redrive};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, LEASE, WIDE, World, body, claim, later, waiting};

pub(super) fn the_longest_due_come_first<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut due_in = |seconds: u64| {
        let mut event = world.event(&[lane]);
        event.targets[0].due = later(world.now, Nanos::from_secs(seconds));
        waiting(&world.try_emit(event).unwrap().targets[0])
    };
    let (third, first, second, last) = (due_in(3), due_in(1), due_in(2), due_in(3));
    world.pass(Nanos::from_secs(5));
    assert_eq!(world.claim(lane, term), [first, second, third, last]);
}

pub(super) fn nothing_comes_before_it_is_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets[0].due = later(world.now, Nanos(2));
    let due = event.targets[0].due;
    let delivery = waiting(&world.try_emit(event).unwrap().targets[0]);
    for _ in 0..2 {
        let claimed = world.try_claim(lane, term, 10).unwrap();
        assert_eq!((claimed.rows, claimed.next), (Vec::new(), Some(due)));
        world.pass(Nanos(1));
    }
    assert_eq!(world.claim(lane, term), [delivery]);
}

pub(super) fn nothing_is_handed_out_twice<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let deliveries: Vec<DeliveryId> = (0..5).map(|_| world.emit_one(lane)).collect();
    let mut handed_out = Vec::new();
    for _ in 0..4 {
        let claimed = world.try_claim(lane, term, 2).unwrap();
        handed_out.extend(claimed.rows.iter().map(|row| row.delivery));
    }
    assert_eq!(handed_out, deliveries);
    world.settle(lane, term, deliveries[0], Fate::Delivered);
    assert_eq!(world.claim(lane, term), []);
}

pub(super) fn a_released_delivery_is_claimed_again<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    assert_eq!(world.claim(lane, term), [first, second]);
    world.settle(lane, term, first, Fate::Released);
    let rows = world.claim_rows(lane, term);
    assert_eq!(rows.iter().map(|row| (row.delivery, row.attempts)).collect::<Vec<_>>(), [(first, 0)]);
}

pub(super) fn a_retry_is_claimed_when_it_is_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    let due = later(world.now, Nanos::MINUTE);
    world.settle(lane, term, delivery, Fate::Retry { due });
    let claimed = world.try_claim(lane, term, 10).unwrap();
    assert_eq!((claimed.rows, claimed.next), (Vec::new(), Some(due)));
    world.pass(Nanos::MINUTE);
    let rows = world.claim_rows(lane, term);
    assert_eq!(rows.iter().map(|row| (row.delivery, row.attempts)).collect::<Vec<_>>(), [(delivery, 1)]);
}

pub(super) fn next_says_when_the_first_is_due_that_was_not_handed_out<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    assert_eq!(world.try_claim(lane, term, 1).unwrap().next, None);
    let emitted_at = world.now;
    world.emit_one(lane);
    world.emit_one(lane);
    world.pass(Nanos::SECOND);
    // Claiming the first leaves the second, which is overdue.
    assert_eq!(world.try_claim(lane, term, 1).unwrap().next, Some(emitted_at));
    assert_eq!(world.try_claim(lane, term, 0).unwrap().next, Some(emitted_at));
    assert_eq!(world.try_claim(lane, term, 1).unwrap().next, None);
}

pub(super) fn no_more_bytes_come_than_were_asked_for_and_a_longer_body_is_told_of<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let deliveries: Vec<DeliveryId> = (0..4)
        .map(|_| {
            let mut event = world.event(&[lane]);
            event.bodies = vec![body(&[b'x'; 100])];
            waiting(&world.try_emit(event).unwrap().targets[0])
        })
        .collect();
    let mut claim_bytes = |bytes_max| {
        let claim = Claim { lane, term, max: 10, bytes_max };
        let Reply::Claimed(claimed) = world.one(Command::Claim(claim)) else { panic!("claimed") };
        let rows = claimed.rows.iter().map(|row| row.delivery).collect::<Vec<_>>();
        (rows, claimed.next.is_some(), claimed.too_long)
    };
    assert_eq!(claim_bytes(99), (vec![], true, Some(100)));
    assert_eq!(claim_bytes(100), (deliveries[..1].to_vec(), true, None));
    assert_eq!(claim_bytes(250), (deliveries[1..3].to_vec(), true, None));
    assert_eq!(claim_bytes(0), (vec![], true, Some(100)));
    assert_eq!(claim_bytes(100), (deliveries[3..].to_vec(), false, None));
    assert_eq!(claim_bytes(0), (vec![], false, None));
}

pub(super) fn a_claim_writes_nothing<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    world.emit_one(lane);
    let before = world.store.written();
    assert_eq!(world.claim(lane, term).len(), 1);
    assert_eq!(world.store.written(), before);
}

pub(super) fn a_claim_under_an_old_term_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    world.emit_one(lane);
    world.pass(LEASE);
    let mut other = world.backend.store();
    let acquire = crate::store::world::acquire(
        crate::store::world::YOU,
        hookproof_sender::store::command::LaneSelection::All,
    );
    other.commit(world.now, &[acquire]).unwrap();
    let current = Term(term.0 + 1);
    assert_eq!(world.try_claim(lane, term, 1), Err(Refusal::StaleTerm { lane, term, current }));
    assert_eq!(world.try_claim(lane, Term(99), 1), Err(Refusal::StaleTerm { lane, term: Term(99), current }));
}

pub(super) fn a_successor_finds_everything_waiting<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    assert_eq!(world.claim(lane, term), [first, second]);
    world.settle(lane, term, first, Fate::Delivered);
    world.crash();
    world.pass(LEASE);
    let term = world.own(crate::store::world::YOU, lane);
    assert_eq!(world.claim(lane, term), [second]);
}

pub(super) fn one_lane_sees_nothing_of_another<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, one_term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    let delivery = world.emit_one(other);
    assert_eq!(world.try_claim(one, one_term, 1).unwrap().next, None);
    assert_eq!(world.claim(other, other_term), [delivery]);
    let settlement = world.settlement(one, one_term, delivery, Fate::Delivered);
    assert_eq!(world.settle_all(vec![settlement]), [hookproof_sender::store::reply::SettleResult::Absent]);
    assert_eq!(world.counts(other).waiting, 1);
}

pub(super) fn a_settlement_before_a_claim_counts_for_it<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    world.claim(lane, term);
    let settlements = vec![
        world.settlement(lane, term, first, Fate::Delivered),
        world.settlement(lane, term, second, Fate::Released),
    ];
    let replies = world.all(&[Command::Settle(settlements), claim(lane, term, 10)]);
    let Reply::Claimed(claimed) = &replies[1] else { panic!("{replies:?}") };
    assert_eq!(claimed.rows.iter().map(|row| row.delivery).collect::<Vec<_>>(), [second]);
}

pub(super) fn a_delivery_that_another_process_commits_late_is_claimed_too<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut other = world.backend.store();
    let mut beside = world.store.claimer().unwrap();
    let mut claim = |world: &mut World<B>| match &mut beside {
        None => world.claim(lane, term),
        Some(beside) => {
            let claim = Claim { lane, term, max: 10, bytes_max: u64::MAX };
            let claimed = beside.claim(world.now, &[claim]).unwrap().expect("the lane is held");
            claimed[0].rows.iter().map(|row| row.delivery).collect()
        }
    };
    // Only a commit may answer the first claim of a lane.
    assert_eq!(world.claim(lane, term), []);
    for looks_in_between in [false, true] {
        let received = world.now;
        world.pass(Nanos::SECOND);
        let sooner = world.emit_one(lane);
        assert_eq!(claim(&mut world), [sooner]);
        // Received before that, and recorded late by a slow process.
        let mut event = world.event(&[lane]);
        event.targets[0].due = received;
        let replies = other.commit(world.now, &[Command::Emit(event)]).unwrap();
        let Reply::Emitted(emitted) = &replies[0] else { panic!("{replies:?}") };
        if looks_in_between {
            world.settle(lane, term, sooner, Fate::Delivered);
        }
        assert_eq!(claim(&mut world), [waiting(&emitted.targets[0])]);
        assert_eq!(claim(&mut world), []);
    }
}

pub(super) fn a_rescheduled_delivery_is_claimed_again_at_any_due_time<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let first = world.emit_one(lane);
    let due = world.now;
    world.pass(Nanos::SECOND);
    let second = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [first, second]);
    // Deliveries with a later due time are claimed already.
    world.settle(lane, term, first, Fate::Retry { due });
    assert_eq!(world.claim(lane, term), [first]);
    world.settle(lane, term, first, Fate::Dead(Reason::Exhausted));
    let which = Dead::These(vec![first]);
    world.one(Command::Redrive(Redrive { which, after: None, max: 10 }));
    assert_eq!(world.claim(lane, term), [first]);
    world.settle(lane, term, second, Fate::Delivered);
    world.settle(lane, term, first, Fate::Delivered);
    assert_eq!(world.claim(lane, term), []);
}
