use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{Change, Coalesce, Fate, Purge, Reason, Retry, Sweep, ToRetry};
use hookproof_sender::store::lane::{Bounds, Counts, LaneState, Pause, Retried};
use hookproof_sender::store::read::{Place, Resent, SubscriberRef};
use hookproof_sender::store::reply::Bound;
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, ME, TTL, WIDE, World, later, waiting};

fn retry<B: Backend>(world: &mut World<B>, which: ToRetry, max: u32) -> (u64, bool) {
    match world.one(Command::Retry(Retry { which, insist: false, probe: true, max })) {
        Reply::Retried { rows, more, .. } => (rows, more),
        other => panic!("{other:?}"),
    }
}

fn failed<B: Backend>(world: &mut World<B>, lane: LaneId, term: Term, wait: Nanos) -> DeliveryId {
    let delivery = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [delivery]);
    let due = later(world.now, wait);
    world.settle(lane, term, delivery, Fate::Retry { due });
    delivery
}

fn due<B: Backend>(world: &World<B>, delivery: DeliveryId) -> StoreTime {
    world.reader.delivery(delivery).unwrap().unwrap().at
}

pub(super) fn a_retry_is_brought_forward_and_nothing_else<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (other, term_of_other) = world.own_lane(WIDE);
    let waiting = failed(&mut world, lane, term, Nanos::HOUR);
    let elsewhere = failed(&mut world, other, term_of_other, Nanos::HOUR);
    let mut untried = world.event(&[lane]);
    untried.targets[0].due = later(world.now, Nanos::HOUR);
    untried.targets[0].coalesce = Some(Coalesce { key: "k".into(), window: Nanos::HOUR });
    world.try_emit(untried).unwrap();
    world.pass(Nanos::SECOND);
    assert_eq!(world.claim(lane, term), []);
    assert_eq!(retry(&mut world, ToRetry::Of(lane), 10), (1, false));
    assert_eq!(due(&world, waiting), world.now);
    assert_ne!(due(&world, elsewhere), world.now);
    let read = world.reader.delivery(waiting).unwrap().unwrap();
    assert_eq!((read.place, read.attempts), (Place::Waiting, 1));
    assert_eq!(world.claim(lane, term), [waiting], "the one that was never tried waits for its window");
    assert_eq!(retry(&mut world, ToRetry::Of(lane), 10), (0, false), "what is claimed is due already");
    assert_eq!(world.claim(lane, term), []);
    let counts = world.counts(lane);
    assert_eq!((counts.waiting, counts.retrying), (2, 1));
}

pub(super) fn retries_come_forward_in_steps_the_earliest_first<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let hours = [3, 1, 2].map(|hours| failed(&mut world, lane, term, Nanos::HOUR.times(hours)));
    assert_eq!(retry(&mut world, ToRetry::Of(lane), 2), (2, true));
    let now = world.now;
    assert_eq!(hours.map(|delivery| due(&world, delivery) == now), [false, true, true]);
    assert_eq!(retry(&mut world, ToRetry::Of(lane), 2), (1, false));
    assert_eq!(world.claim(lane, term), hours, "in the order of their events");
}

pub(super) fn a_change_that_has_the_endpoint_tried_makes_its_earliest_retry_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let state = |state| Change { state: Some(state), ..Change::of(lane) };
    let url = |url: &str| Change { url: Some(url.into()), ..Change::of(lane) };
    let [later_one, earlier] = [2, 1].map(|hours| failed(&mut world, lane, term, Nanos::HOUR.times(hours)));
    for (change, tried) in [
        (state(LaneState::Active), false),
        (state(LaneState::Paused), false),
        (url("https://partner.example/moved"), false),
        (state(LaneState::Active), true),
        (state(LaneState::Disabled), false),
        (state(LaneState::Active), true),
        (url("https://partner.example/moved again"), true),
    ] {
        world.pass(Nanos::SECOND);
        let before = world.reader.glance().unwrap();
        assert_eq!(world.change(change.clone()), Reply::Done);
        let after = world.reader.glance().unwrap();
        assert_eq!(after.stirred != before.stirred, tried, "{change:?}");
        assert!(due(&world, later_one) > world.now);
        let claimable = if tried { vec![earlier] } else { Vec::new() };
        assert_eq!(world.claim(lane, term), claimable, "{change:?}");
        if tried {
            world.settle(lane, term, earlier, Fate::Retry { due: later(world.now, Nanos::HOUR) });
        }
    }
}

pub(super) fn the_end_of_a_pause_makes_the_earliest_retry_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let [later_one, earlier] = [3, 2].map(|hours| failed(&mut world, lane, term, Nanos::HOUR.times(hours)));
    let end = later(world.now, Nanos::HOUR);
    let pause = Pause { reason: None, until: Some(end) };
    world.change(Change { state: Some(LaneState::Paused), pause, ..Change::of(lane) });
    world.now = end;
    world.renew(ME);
    let before = world.reader.glance().unwrap();
    let Reply::Swept(swept) = world.one(Command::Sweep(Sweep { max: 9 })) else { panic!() };
    let after = world.reader.glance().unwrap();
    assert_eq!((swept.resumed, after.roster), (1, before.roster + 1));
    let retried = world.reader.subscriber(&SubscriberRef::Lane(lane)).unwrap().unwrap().retried;
    assert_eq!((retried.asked, retried.insisted), (after.roster, 0), "an open breaker lets a probe through");
    assert_eq!((due(&world, earlier), due(&world, later_one) > end), (end, true));
    assert!(after.stirred > before.stirred);
    assert_eq!(world.claim(lane, term), [earlier]);
}

pub(super) fn one_delivery_is_brought_forward_alone<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let [one, other] = [(); 2].map(|()| failed(&mut world, lane, term, Nanos::HOUR));
    assert_eq!(retry(&mut world, ToRetry::This(other), 1), (1, false));
    assert_eq!((due(&world, other), due(&world, one) > world.now), (world.now, true));
    assert_eq!(world.claim(lane, term), [other]);
}

pub(super) fn a_request_makes_a_new_roster_that_says_how_by_any_clock<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let read = |world: &World<B>, since| world.reader.subscribers_since(since, 10).unwrap().pop();
    let mut found = read(&world, 0).unwrap();
    assert_eq!(found.retried, Retried::default());
    let mut insisted = 0;
    for insist in [false, true, false] {
        // The clock is set back.
        world.now = StoreTime(world.now.0 - Nanos::SECOND.0);
        let which = ToRetry::Of(lane);
        for probe in [true, false] {
            world.one(Command::Retry(Retry { which, insist, probe, max: 1 }));
        }
        let next = read(&world, found.version).unwrap();
        assert_eq!(next.retried.since(found.version), Some(insist));
        let asked = next.version;
        insisted = if insist { asked } else { insisted };
        assert_eq!(next.retried, Retried { asked, insisted });
        found = next;
        assert!(read(&world, found.version).is_none(), "a further step asks for no probe");
    }
}

pub(super) fn what_does_not_wait_or_is_not_active_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let refused = |world: &mut World<B>, which| match world.one(Command::Retry(Retry {
        which,
        insist: true,
        probe: true,
        max: 1,
    })) {
        Reply::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    let nowhere = DeliveryId(4_711);
    assert_eq!(refused(&mut world, ToRetry::This(nowhere)), Refusal::UnknownDelivery(nowhere));
    let delivered = world.emit_one(lane);
    world.claim(lane, term);
    world.settle(lane, term, delivered, Fate::Delivered);
    assert_eq!(refused(&mut world, ToRetry::This(delivered)), Refusal::NotWaiting(Place::Delivered));
    let waiting = failed(&mut world, lane, term, Nanos::HOUR);
    world.change(Change { state: Some(LaneState::Paused), ..Change::of(lane) });
    for which in [ToRetry::Of(lane), ToRetry::This(waiting)] {
        assert_eq!(refused(&mut world, which), Refusal::NotActive(LaneState::Paused));
    }
    world.one(Command::Remove(lane));
    assert_eq!(refused(&mut world, ToRetry::Of(lane)), Refusal::UnknownLane(lane));
    assert!(due(&world, waiting) > world.now, "a refusal changes nothing");
}

pub(super) fn another_process_learns_of_retries<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let waiting = failed(&mut world, lane, term, Nanos::HOUR);
    assert_eq!(world.claim(lane, term), []);
    let before = world.reader.glance().unwrap();
    let command = Retry { which: ToRetry::Of(lane), insist: false, probe: true, max: 9 };
    world.backend.store().commit(world.now, &[Command::Retry(command)]).unwrap();
    let after = world.reader.glance().unwrap();
    assert_ne!((before.stirred, before.roster), (after.stirred, after.roster));
    assert_eq!(world.reader.heads(&[lane]).unwrap(), [(lane, world.now)]);
    assert_eq!(world.claim(lane, term), [waiting]);
}

fn resend<B: Backend>(world: &mut World<B>, delivery: DeliveryId) -> Result<(), Refusal> {
    match world.one(Command::Resend(delivery)) {
        Reply::Resent => Ok(()),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_settled_delivery_is_sent_again_with_its_id_and_body<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    for (fate, counted) in [(Fate::Delivered, (2, 1, 0)), (Fate::Dead(Reason::Exhausted), (1, 0, 0))] {
        let before = world.counts(lane);
        let delivery = world.emit_one(lane);
        let first = world.claim_rows(lane, term);
        world.settle(lane, term, delivery, fate);
        world.pass(Nanos::HOUR);
        assert_eq!(resend(&mut world, delivery), Ok(()));
        let read = world.reader.delivery(delivery).unwrap().unwrap();
        assert_eq!((read.place, read.attempts, read.at), (Place::Waiting, 0, world.now));
        assert_eq!(read.expires, later(world.now, TTL));
        let counts = world.counts(lane);
        let since = |count: fn(&Counts) -> u64| count(&counts) - count(&before);
        assert_eq!((since(|it| it.accepted), since(|it| it.delivered), since(|it| it.dead)), counted);
        let after = world.reader.attempts_of(delivery).unwrap().first().map(|last| last.attempt.at);
        assert_eq!(world.reader.resent(delivery).unwrap(), [Resent { at: world.now, after }]);
        let again = world.claim_rows(lane, term);
        assert_eq!((again[0].delivery, &again[0].body), (delivery, &first[0].body));
        assert_eq!((again[0].event.clone(), again[0].received), (first[0].event.clone(), first[0].received));
        assert_eq!(resend(&mut world, delivery), Err(Refusal::Pending), "it is under way");
        world.pass(Nanos::SECOND);
        world.settle(lane, term, delivery, Fate::Delivered);
        assert_eq!(world.counts(lane).delivered, before.delivered + counted.1 + 1);
        assert_eq!(resend(&mut world, delivery), Ok(()), "and again");
        assert_eq!(world.claim(lane, term), [delivery]);
        world.settle(lane, term, delivery, Fate::Delivered);
        assert_eq!(world.reader.resent(delivery).unwrap().len(), 2);
    }
}

pub(super) fn what_waits_or_was_replaced_is_not_sent_again<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    assert_eq!(resend(&mut world, delivery), Err(Refusal::Pending));
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Retry { due: later(world.now, Nanos::HOUR) });
    assert_eq!(resend(&mut world, delivery), Err(Refusal::Pending), "its retry is pending");
    let mut alike = || {
        let mut event = world.event(&[lane]);
        event.targets[0].coalesce = Some(Coalesce { key: "k".into(), window: Nanos::HOUR });
        waiting(&world.try_emit(event).unwrap().targets[0])
    };
    let (older, _) = (alike(), alike());
    assert_eq!(resend(&mut world, older), Err(Refusal::Replaced));
    let nowhere = DeliveryId(4_711);
    assert_eq!(resend(&mut world, nowhere), Err(Refusal::UnknownDelivery(nowhere)));
}

pub(super) fn nothing_is_sent_again_without_room_or_while_not_active<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(Bounds { rows_max: 1, ..WIDE });
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Delivered);
    world.emit_one(lane);
    assert_eq!(resend(&mut world, delivery), Err(Refusal::NoRoom(Bound::LaneRows)));
    for state in [LaneState::Paused, LaneState::Disabled] {
        world.change(Change { state: Some(state), ..Change::of(lane) });
        assert_eq!(resend(&mut world, delivery), Err(Refusal::NotActive(state)));
    }
    world.one(Command::Remove(lane));
    assert_eq!(resend(&mut world, delivery), Err(Refusal::NotActive(LaneState::Removed)));
    assert_eq!(world.place(delivery), Some(Place::Delivered), "a refusal changes nothing");
}

pub(super) fn a_delivery_sent_again_outlives_its_first_settlement<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Delivered);
    world.pass(Nanos::DAY.times(2));
    resend(&mut world, delivery).unwrap();
    world.pass(Nanos::HOUR);
    let before = world.now;
    world.one(Command::Purge(Purge {
        settled_before: before,
        attempts_before: before,
        dead_before: before,
        changes_before: StoreTime(0),
        max: 100,
    }));
    assert_eq!(world.place(delivery), Some(Place::Waiting));
    assert_eq!(world.reader.resent(delivery).unwrap(), [], "as its attempts");
    assert_eq!(world.claim(lane, term), [delivery]);
}

pub(super) fn a_delivery_without_its_body_is_not_sent_again<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    world.claim(lane, term);
    world.settle(lane, term, delivery, Fate::Delivered);
    world.backend.lose_bodies();
    assert_eq!(resend(&mut world, delivery), Err(Refusal::BodyGone));
    assert_eq!(world.place(delivery), Some(Place::Delivered));
}
