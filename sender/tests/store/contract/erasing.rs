use std::sync::Arc;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{
    Coalesce, Dead, Emit, Erase, Fate, KeptAnswer, Purge, Reason, Redrive, Settlement, Sweep,
};
use hookproof_sender::store::read::Place;
use hookproof_sender::store::reply::{Erased, Placed, Redriven, SettleResult, Swept};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, TTL, WIDE, World, at_once, body, later, waiting};

fn step<B: Backend>(world: &mut World<B>, erase: Erase) -> (Erased, Option<DeliveryId>) {
    match world.one(Command::Erase(erase)) {
        Reply::Erased(erased, after) => (erased, after),
        other => panic!("{other:?}"),
    }
}

fn erase<B: Backend>(world: &mut World<B>, deliveries: &[DeliveryId], plan: bool) -> Erased {
    let mut sum = Erased::default();
    for delivery in deliveries {
        let (erased, after) = step(world, at_once(*delivery, plan));
        assert_eq!(after, None);
        sum += erased;
    }
    sum
}

fn answered(mut settlement: Settlement) -> Settlement {
    let answer = KeptAnswer { head: "server: ann\n".to_owned(), body: b"ann".to_vec(), cut: false };
    settlement.attempt.as_mut().unwrap().details.answer = Some(Arc::new(answer));
    settlement
}

/// Makes an attempt that fails, whose answer is kept.
fn fail<B: Backend>(
    world: &mut World<B>,
    lane: LaneId,
    term: Term,
    delivery: DeliveryId,
    fate: Fate,
) -> SettleResult {
    world.pass(Nanos::SECOND);
    let settlement = answered(world.settlement(lane, term, delivery, fate));
    world.settle_all(vec![settlement])[0]
}

/// Its content: the key, the body, errors, hashes and answers of attempts.
fn content<B: Backend>(world: &World<B>, delivery: DeliveryId) -> Vec<String> {
    let mut found: Vec<_> =
        world.reader.delivery(delivery).unwrap().unwrap().key.iter().map(ToString::to_string).collect();
    found.extend(
        world.reader.body(delivery).unwrap().map(|body| String::from_utf8_lossy(&body.bytes).into_owned()),
    );
    for one in world.reader.attempts_of(delivery).unwrap() {
        found.extend(one.attempt.error.map(String::from));
        found.extend((one.attempt.body_hash != 0).then(|| "a hash".to_owned()));
        found.extend(one.attempt.details.answer.map(|answer| answer.text().into_owned()));
    }
    found
}

fn event<B: Backend>(world: &mut World<B>, lanes: &[LaneId]) -> Emit {
    let mut event = world.event(lanes);
    event.bodies = (0..lanes.len()).map(|each| body(format!("ann {each}").as_bytes())).collect();
    event.targets.iter_mut().enumerate().for_each(|(each, target)| target.body = each);
    event
}

pub(super) fn a_forgotten_event_has_no_content_and_its_counts_stay<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [(); 4].map(|()| world.own_lane(WIDE));
    let mut named = event(&mut world, &lanes.map(|(lane, _)| lane));
    named.targets[0].signature = Some("ann".into());
    named.targets[3].coalesce = Some(Coalesce { key: "ann".into(), window: Nanos::MINUTE });
    let ids: Vec<_> = world.try_emit(named).unwrap().targets.iter().map(waiting).collect();
    let other = world.emit_one(lanes[0].0);
    for (lane, term) in &lanes[..3] {
        world.claim(*lane, *term);
    }
    let retry = Fate::Retry { due: world.now };
    fail(&mut world, lanes[0].0, lanes[0].1, ids[0], retry);
    world.pass(Nanos::SECOND);
    world.settle(lanes[0].0, lanes[0].1, ids[0], Fate::Delivered);
    fail(&mut world, lanes[1].0, lanes[1].1, ids[1], Fate::Dead(Reason::Exhausted));
    fail(&mut world, lanes[2].0, lanes[2].1, ids[2], retry);
    let mut late = answered(world.settlement(lanes[2].0, lanes[2].1, ids[2], retry));
    late.attempt.as_mut().unwrap().at.0 -= 1;
    world.settle_all(vec![late]);
    let kept = content(&world, other);
    let full = |world: &World<B>| ids.iter().map(|id| content(world, *id).len()).collect::<Vec<_>>();
    assert_eq!(full(&world), [6, 5, 8, 2]);
    let expected = Erased { events: 1, deliveries: 4, waiting: 2, dead: 1, attempts: 5, answers: 4 };
    assert_eq!(erase(&mut world, &ids[2..3], true), expected);
    assert_eq!(full(&world), [6, 5, 8, 2], "a plan changes nothing");
    let before = world.total();
    assert_eq!(erase(&mut world, &[ids[2], ids[0]], false), expected);
    assert_eq!(full(&world), [0; 4]);
    assert_eq!(content(&world, other), kept);
    let places = [Place::Delivered, Place::Forgotten, Place::Forgotten, Place::Forgotten].map(Some);
    assert_eq!(ids.iter().map(|id| world.place(*id)).collect::<Vec<_>>(), places);
    let (after, gone) = (world.total(), before.waiting - 2);
    assert_eq!((after.accepted, after.delivered, after.waiting), (before.accepted, before.delivered, gone));
    assert_eq!(
        (after.dead, after.dead_kept, after.retrying),
        (before.dead - 1, 0, 0),
        "none is a dead letter"
    );
    assert_eq!(after.coalesced, before.coalesced + 3);
    assert_eq!(world.reader.attempts_of(ids[0]).unwrap().len(), 2, "times and outcomes stay");
    assert_eq!(erase(&mut world, &ids, false), Erased::default(), "a second time there is nothing");
    assert_eq!(erase(&mut world, &[DeliveryId(4_711)], false), Erased::default());
}

pub(super) fn attempts_are_erased_in_steps_and_the_event_at_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [(); 3].map(|()| world.own_lane(WIDE));
    let event = event(&mut world, &lanes.map(|(lane, _)| lane));
    let ids: Vec<_> = world.try_emit(event).unwrap().targets.iter().map(waiting).collect();
    for ((lane, term), id) in lanes.into_iter().zip(&ids) {
        world.claim(lane, term);
        let retry = Fate::Retry { due: world.now };
        let mut second = answered(world.settlement(lane, term, *id, retry));
        second.attempts = 2;
        fail(&mut world, lane, term, *id, retry);
        world.settle_all(vec![second]);
    }
    for plan in [true, false] {
        let mut one = Erase { max: 3, ..at_once(ids[1], plan) };
        for done in &ids[..2] {
            let expected = Erased { attempts: 2, answers: 2, ..Erased::default() };
            assert_eq!(step(&mut world, one), (expected, Some(*done)));
            one.after = Some(*done);
        }
        if !plan {
            assert_eq!(ids.iter().map(|id| content(&world, *id).len()).collect::<Vec<_>>(), [2, 2, 8]);
            assert_eq!(world.total().waiting, 3, "the event has its content still");
        }
        let expected = Erased { events: 1, deliveries: 3, waiting: 3, dead: 0, attempts: 2, answers: 2 };
        assert_eq!(step(&mut world, one), (expected, None));
    }
    assert_eq!((world.backend.attempts(), world.backend.answers()), ([6, 0], 0));
    assert!(ids.iter().all(|id| content(&world, *id).is_empty()));
}

pub(super) fn a_forgotten_event_offered_again_is_a_duplicate<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [(); 3].map(|()| world.own_lane(WIDE));
    let mut named = event(&mut world, &lanes.map(|(lane, _)| lane));
    named.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    let ids: Vec<_> = world.try_emit(named.clone()).unwrap().targets.iter().map(waiting).collect();
    for ((lane, term), fate) in lanes.iter().zip([Fate::Delivered, Fate::Dead(Reason::Exhausted)]) {
        world.claim(*lane, *term);
        let id = ids[usize::from(fate != Fate::Delivered)];
        world.settle(*lane, *term, id, fate);
    }
    erase(&mut world, &ids[..1], false);
    world.pass(Nanos::MINUTE);
    named.received = world.now;
    assert_eq!(world.try_emit(named.clone()).unwrap().targets, [Placed::Duplicate; 3]);
    world.pass(Nanos::HOUR);
    named.received = world.now;
    let again = world.try_emit(named).unwrap().targets;
    assert!(again.iter().all(|placed| matches!(placed, Placed::Waiting { .. })), "{again:?}");
}

pub(super) fn a_forgotten_delivery_is_not_sent_and_cannot_be<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (waits, dead, delivered) = (world.emit_one(lane), world.emit_one(lane), world.emit_one(lane));
    world.settle(lane, term, dead, Fate::Dead(Reason::Exhausted));
    world.settle(lane, term, delivered, Fate::Delivered);
    let erased = erase(&mut world, &[waits, dead, delivered], false);
    assert_eq!((erased.events, erased.waiting, erased.dead), (3, 1, 1));
    assert_eq!(world.claim(lane, term), []);
    for forgotten in [waits, dead, delivered] {
        assert_eq!(world.one(Command::Resend(forgotten)), Reply::Refused(Refusal::BodyGone));
    }
    let redrive = Redrive { which: Dead::All, after: None, max: 9 };
    assert_eq!(world.one(Command::Redrive(redrive)), Reply::Redriven(Redriven::default()));
    world.pass(TTL);
    assert_eq!(world.one(Command::Sweep(Sweep { max: 9 })), Reply::Swept(Swept::default()));
    let now = later(world.now, Nanos::SECOND);
    let purge = Purge {
        settled_before: now,
        attempts_before: now,
        dead_before: StoreTime(0),
        changes_before: StoreTime(0),
        max: 100,
    };
    world.one(Command::Purge(purge));
    assert_eq!([waits, dead, delivered].map(|id| world.place(id)), [None; 3]);
}

pub(super) fn an_attempt_under_way_of_a_forgotten_delivery_ends_and_leaves_nothing<B: Backend>() {
    for elsewhere in [false, true] {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        let ids = [(); 3].map(|()| world.emit_one(lane));
        assert_eq!(world.claim(lane, term), ids);
        if elsewhere {
            let mut other = world.backend.store();
            let erase = ids.map(|id| Command::Erase(at_once(id, false)));
            other.commit(world.now, &erase).unwrap();
        } else {
            erase(&mut world, &ids, false);
        }
        let retry = Fate::Retry { due: world.now };
        assert_eq!(fail(&mut world, lane, term, ids[0], retry), SettleResult::Absent);
        let given_up = Fate::Dead(Reason::Exhausted);
        assert_eq!(fail(&mut world, lane, term, ids[1], given_up), SettleResult::Absent);
        assert_eq!(world.settle(lane, term, ids[2], Fate::Delivered), SettleResult::Applied);
        let places = [Place::Forgotten, Place::Forgotten, Place::Delivered].map(Some);
        assert_eq!(ids.map(|id| world.place(id)), places);
        assert_eq!(ids.map(|id| content(&world, id)), [const { Vec::<String>::new() }; 3]);
        assert_eq!(
            ids.map(|id| world.reader.attempts_of(id).unwrap().len()),
            [1; 3],
            "they count for limits"
        );
        assert_eq!(world.claim(lane, term), []);
    }
}

pub(super) fn a_late_report_of_a_forgotten_event_leaves_nothing<B: Backend>() {
    for purged in [false, true] {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        let id = world.emit_one(lane);
        assert_eq!(world.claim(lane, term), [id]);
        world.settle(lane, term, id, Fate::Delivered);
        erase(&mut world, &[id], false);
        if purged {
            world.pass(TTL);
            let now = later(world.now, Nanos::SECOND);
            let old = StoreTime(0);
            let purge = Purge {
                settled_before: now,
                attempts_before: old,
                dead_before: old,
                changes_before: StoreTime(0),
                max: 100,
            };
            world.one(Command::Purge(purge));
            assert_eq!(world.place(id), None);
        }
        let retry = Fate::Retry { due: world.now };
        assert_eq!(fail(&mut world, lane, term, id, retry), SettleResult::Absent);
        assert_eq!((world.backend.attempts(), world.backend.answers()), ([2, 0], 0));
    }
}
