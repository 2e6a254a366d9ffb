use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::Command;
use hookproof_sender::store::command::{
    Attempt, AttemptOutcome, Dead, Details, Emit, Fate, LaneSelection, Purge, Reason, Redrive, Settlement,
    Shed,
};
use hookproof_sender::store::lane::LaneState;
use hookproof_sender::store::paging::{Cursor, Page};
use hookproof_sender::store::read::{Filter, Lanes, Place, ReadError, SubscriberRef, Tried, Tries, Work};
use hookproof_sender::store::reply::Reply;

use crate::store::world::{Backend, LEASE, ME, WIDE, World, YOU, later};

fn all<T>(mut page: impl FnMut(Option<Cursor>) -> Result<Page<T>, ReadError>) -> Vec<T> {
    let mut items = Vec::new();
    let mut from = None;
    loop {
        let found = page(from).unwrap();
        items.extend(found.items);
        // Through its text, as an operator does.
        from = found.next.map(|cursor| cursor.to_string().parse().unwrap());
        if from.is_none() {
            return items;
        }
    }
}

pub(super) fn pages_follow_each_other_without_gaps_or_doubles<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..5).map(|_| world.new_lane(WIDE)).collect();
    let mut deliveries: Vec<DeliveryId> = (0..7).map(|_| world.emit_one(lanes[0])).collect();
    world.one(Command::Shed(Shed { lane: lanes[0], max: 5 }));
    for max in [1, 2, 5, 100] {
        let subscribers = all(|from| world.reader.subscribers(from, max));
        assert_eq!(subscribers.iter().map(|found| found.lane).collect::<Vec<_>>(), lanes);
        let figures = all(|from| world.reader.lanes(from, max));
        assert_eq!(figures.iter().map(|found| found.lane).collect::<Vec<_>>(), lanes);
        let queue = Filter { lanes: Lanes::One(lanes[0]), place: Some(Place::Waiting) };
        let waiting = all(|from| world.reader.deliveries(queue.clone(), from, max));
        assert_eq!(waiting.iter().map(|found| found.delivery).collect::<Vec<_>>(), deliveries[5..]);
        deliveries.reverse();
        let everything =
            all(|from| world.reader.deliveries(Filter { lanes: Lanes::All, place: None }, from, max));
        assert_eq!(everything.iter().map(|found| found.delivery).collect::<Vec<_>>(), deliveries);
        let reasons = everything.iter().map(|found| found.reason);
        assert!(
            reasons
                .eq(everything.iter().map(|found| { (found.place == Place::Dead).then_some(Reason::Shed) }))
        );
        for lane in [None, Some(lanes[0])] {
            let letters = all(|from| world.reader.dead(&lane.into(), from, max));
            let letters: Vec<DeliveryId> = letters.iter().map(|found| found.delivery.delivery).collect();
            assert_eq!(letters, deliveries[2..]);
        }
        deliveries.reverse();
        assert!(all(|from| world.reader.dead(&Lanes::One(lanes[1]), from, max)).is_empty());
    }
}

pub(super) fn a_cursor_of_another_listing_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    world.new_lane(WIDE);
    world.new_lane(WIDE);
    let cursor = world.reader.subscribers(None, 1).unwrap().next;
    assert!(cursor.is_some());
    assert!(matches!(world.reader.dead(&Lanes::All, cursor, 1), Err(ReadError::Cursor(_))));
}

pub(super) fn the_queue_is_listed_as_it_is_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (first, second) = (world.emit_one(lane), world.emit_one(lane));
    world.claim(lane, term);
    let due = later(world.now, Nanos::MINUTE);
    world.settle(lane, term, first, Fate::Retry { due });
    let queue = Filter { lanes: Lanes::One(lane), place: Some(Place::Waiting) };
    let listed = all(|from| world.reader.deliveries(queue.clone(), from, 1));
    let listed: Vec<_> = listed.iter().map(|found| (found.delivery, found.at, found.attempts)).collect();
    assert_eq!(listed, [(second, world.now, 0), (first, due, 1)]);
}

pub(super) fn the_status_tells_the_last_hour<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    for latency in [10, 20, 60] {
        for fate in [Fate::Delivered, Fate::Delivered, Fate::Dead(Reason::Exhausted)] {
            let delivery = world.emit_one(lane);
            let mut settlement = world.settlement(lane, term, delivery, fate);
            let attempt = settlement.attempt.take();
            settlement.attempt =
                attempt.map(|attempt| Attempt { latency: Nanos::from_millis(latency), ..attempt });
            world.settle_all(vec![settlement]);
        }
        world.pass(Nanos(Nanos::MINUTE.0 * 40));
    }
    let figures = |world: &World<B>| {
        let status = world.reader.status(world.now).unwrap();
        (
            status.delivered_last_hour,
            status.failed_last_hour,
            status.dead_last_hour,
            status.latency_last_hour.map(|latency| latency.to_string()),
        )
    };
    assert_eq!(figures(&world), (2, 1, 1, Some("60ms".into())));
    world.now = StoreTime(world.now.0 - Nanos::MINUTE.0 * 25);
    assert_eq!(figures(&world), (4, 2, 2, Some("40ms".into())));
    // The hour is exact to the minute.
    world.now = StoreTime(world.now.0 + Nanos::MINUTE.0 * 45);
    assert_eq!(figures(&world), (2, 1, 1, Some("60ms".into())));
    world.pass(Nanos::MINUTE);
    assert_eq!(figures(&world), (0, 0, 0, None));
    world.pass(Nanos::DAY);
    assert_eq!(figures(&world), (0, 0, 0, None));
    // The first commit after a long silence must not revive old figures.
    world.emit_one(lane);
    assert_eq!(figures(&world), (0, 0, 0, None));
    let status = world.reader.status(world.now).unwrap();
    assert_eq!((status.counts.delivered, status.counts.dead, status.counts.failed_attempts), (6, 3, 3));
}

pub(super) fn the_oldest_are_told<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let status = world.reader.status(world.now).unwrap();
    assert_eq!((status.oldest_due, status.next_to_expire), (None, None));
    let received = world.now;
    let delivery = world.emit_one(lane);
    world.pass(Nanos::SECOND);
    let second = world.now;
    world.emit_one(lane);
    world.try_claim(lane, term, 1).unwrap();
    world.settle(lane, term, delivery, Fate::Retry { due: later(second, Nanos::HOUR) });
    world.change(hookproof_sender::store::command::Change {
        state: Some(LaneState::Paused),
        ..hookproof_sender::store::command::Change::of(lane)
    });
    let status = world.reader.status(world.now).unwrap();
    assert_eq!((status.oldest_due, status.next_to_expire), (Some(second), Some(received)));
    assert_eq!((status.counts.waiting, status.counts.retrying), (2, 1));
    assert_eq!(status.subscribers, [0, 1, 0]);
    assert_eq!(world.lane(lane).next, Some(second));
}

pub(super) fn an_audit_counts_attempts_by_second<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, one_term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    let start = world.now;
    let mut attempt_at = |lane, term, millis: u64, status: u16| {
        let at = later(start, Nanos::from_millis(millis));
        let attempt = Attempt {
            at,
            latency: Nanos::SECOND,
            outcome: AttemptOutcome::Rejected,
            status: Some(status),
            error: None,
            body_hash: 1,
            received: None,
            details: Details::default(),
        };
        let delivery = world.emit_one(lane);
        let fate = Fate::Dead(Reason::Exhausted);
        let settlement = world.settlement(lane, term, delivery, fate);
        world.settle_all(vec![Settlement { attempt: Some(attempt), ..settlement }]);
    };
    attempt_at(other, other_term, 0, 503);
    attempt_at(one, one_term, 1, 503);
    attempt_at(one, one_term, 999, 429);
    attempt_at(one, one_term, 2_000, 503);
    let second = start.0 / Nanos::SECOND.0;
    let audit = |lane, from: u64, until: u64, max| {
        let at = |seconds| later(start, Nanos::from_secs(seconds));
        let found = world.reader.audit(lane, at(from), at(until), max).unwrap();
        found.iter().map(|row| (row.lane, row.second - second, row.attempts, row.limited)).collect::<Vec<_>>()
    };
    assert_eq!(audit(None, 0, 3, 10), [(one, 0, 2, 1), (other, 0, 1, 0), (one, 2, 1, 0)]);
    assert_eq!(audit(Some(other), 0, 3, 10), [(other, 0, 1, 0)]);
    assert_eq!(audit(None, 0, 2, 10).len(), 2, "the end is not in the span");
    assert_eq!(audit(None, 0, 3, 0), []);
    assert_eq!(audit(None, 0, 3, 1), [(one, 0, 2, 1)], "by lanes within a second, whichever began first");
    assert_eq!(audit(None, 0, 3, 2), [(one, 0, 2, 1), (other, 0, 1, 0)]);
    let limited = |from: u64, until: u64| {
        let at = |seconds| later(start, Nanos::from_secs(seconds));
        let found = world.reader.limited(at(from), at(until)).unwrap();
        found.iter().map(|it| (it.lane, it.attempts, it.limited)).collect::<Vec<_>>()
    };
    assert_eq!(limited(0, 3), [(one, 3, 1), (other, 1, 0)]);
    assert_eq!(limited(2, 3), [(one, 1, 0)]);
    assert_eq!(limited(0, 2), [(one, 2, 1), (other, 1, 0)], "the end is not in the span");
}

pub(super) fn latencies_of_attempts_are_listed_in_pages<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, one_term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    let received = world.now;
    let at = |millis| later(received, Nanos::from_millis(millis));
    let (first, second, third) = (world.emit_one(one), world.emit_one(one), world.emit_one(other));
    let mut attempt = |lane, delivery, begin, took, outcome| {
        let attempt = Attempt {
            at: at(begin),
            latency: Nanos::from_millis(took),
            outcome,
            status: None,
            error: None,
            body_hash: 1,
            received: None,
            details: Details::default(),
        };
        let fate = match outcome {
            AttemptOutcome::Delivered => Fate::Delivered,
            _ => Fate::Retry { due: received },
        };
        let term = if lane == one { one_term } else { other_term };
        let settlement = world.settlement(lane, term, delivery, fate);
        world.settle_all(vec![Settlement { attempt: Some(attempt), ..settlement }]);
    };
    attempt(one, first, 1, 5, AttemptOutcome::Rejected);
    // The second sent nothing.
    attempt(one, first, 7, 3, AttemptOutcome::Delivered);
    attempt(one, second, 7, 9, AttemptOutcome::Unsent);
    attempt(other, third, 7, 1, AttemptOutcome::Silent);
    attempt(one, second, 8, 2, AttemptOutcome::Delivered);
    attempt(one, DeliveryId(1_000), 9, 4, AttemptOutcome::Delivered);
    let millis = |length: Option<Nanos>| length.map(|length| length.0 / 1_000_000);
    let all = |lane, from, until, max| {
        let (mut times, mut next) = (vec![], Some((at(from), DeliveryId(0))));
        while let Some(from) = next {
            let page = world.reader.attempt_times(lane, from, at(until), max).unwrap();
            assert!(page.attempts.len() <= usize::try_from(max).unwrap());
            times.extend(
                page.attempts.iter().map(|it| [it.answer, it.first_attempt, it.delivery].map(millis)),
            );
            next = page.next;
        }
        times
    };
    let of_one = [
        [Some(5), Some(1), None],
        [Some(3), None, Some(10)],
        [None, Some(7), None],
        [Some(2), None, Some(10)],
        [Some(4), None, None],
    ];
    let of_other = [Some(1), Some(7), None];
    let of_all = [&of_one[..3], &[of_other], &of_one[3..]].concat();
    for max in [1, 2, 3, 6, 100] {
        assert_eq!(all(None, 0, 10, max), of_all, "{max} at a time");
        assert_eq!(all(Some(one), 0, 10, max), of_one, "{max} at a time");
        assert_eq!(all(Some(other), 0, 10, max), [of_other], "{max} at a time");
        assert_eq!(all(None, 7, 8, max), of_all[1..4], "the end is not in the span");
        assert!(all(None, 10, 20, max).is_empty());
    }
}

pub(super) fn new_work_is_noticed_by_another_process<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let observer = world.backend.reader();
    let before = observer.glance().unwrap();
    let first = world.emit(&[one, other]);
    let mut later_due = world.event(&[one]);
    later_due.targets[0].due = later(world.now, Nanos::MINUTE);
    world.try_emit(later_due).unwrap();
    let glance = observer.glance().unwrap();
    assert_eq!((glance.last.0, glance.roster), (before.last.0 + 3, before.roster));
    assert_eq!(glance.identity, u64::MAX);
    let work = observer.work_after(before.last, 100).unwrap();
    let lanes = vec![(one, world.now), (other, world.now)];
    assert_eq!(work, Work { lanes: lanes.clone(), last: glance.last, more: false });
    let step = observer.work_after(before.last, 1).unwrap();
    assert_eq!(step, Work { lanes: lanes[..1].to_vec(), last: first[0], more: true });
    assert_eq!(observer.work_after(glance.last, 100).unwrap().lanes, []);
    assert_eq!(observer.heads(&[one, other, LaneId(99)]).unwrap(), lanes);
}

pub(super) fn redriven_work_stirs<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    world.one(Command::Shed(Shed { lane, max: 1 }));
    let before = world.reader.glance().unwrap();
    world.one(Command::Redrive(Redrive { which: Dead::All, after: None, max: 1 }));
    let after = world.reader.glance().unwrap();
    assert_eq!((after.stirred, after.last), (before.stirred + 1, before.last));
    assert_eq!(world.reader.heads(&[lane]).unwrap(), [(lane, world.now)]);
    world.one(Command::Redrive(Redrive { which: Dead::All, after: None, max: 1 }));
    assert_eq!(world.reader.glance().unwrap().stirred, after.stirred);
}

pub(super) fn changed_subscribers_are_told_in_order<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..3).map(|_| world.new_lane(WIDE)).collect();
    let all_changes = world.reader.subscribers_since(0, 100).unwrap();
    assert_eq!(all_changes.iter().map(|changed| changed.lane).collect::<Vec<_>>(), lanes);
    let roster = world.reader.glance().unwrap().roster;
    assert_eq!(all_changes[2].version, roster);
    world.one(Command::Remove(lanes[2]));
    world.change(hookproof_sender::store::command::Change::of(lanes[0]));
    let changes = world.reader.subscribers_since(roster, 100).unwrap();
    let told: Vec<_> = changes.iter().map(|changed| (changed.lane, changed.state)).collect();
    assert_eq!(told, [(lanes[2], LaneState::Removed), (lanes[0], LaneState::Active)]);
    assert_eq!(world.reader.subscribers_since(roster, 1).unwrap(), changes[..1]);
    assert_eq!(world.reader.subscribers_since(roster + 2, 100).unwrap(), []);
}

pub(super) fn an_events_deliveries_are_found_by_its_id<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [world.new_lane(WIDE), world.new_lane(WIDE)];
    world.emit(&lanes);
    let event = world.event(&lanes);
    let (id, received) = (event.id.clone(), event.received);
    world.try_emit(event).unwrap();
    let found = all(|from| world.reader.deliveries_of_event(&id, &Lanes::All, from, 1));
    assert_eq!(found.iter().map(|delivery| delivery.lane).collect::<Vec<_>>(), lanes);
    let first = &found[0];
    assert_eq!((&first.event, &*first.kind, first.key.as_deref()), (&id, "video.trending", Some("clip")));
    assert_eq!((first.received, first.place, first.bytes), (received, Place::Waiting, 10));
    assert_eq!(world.reader.delivery(first.delivery).unwrap().as_ref(), Some(first));
    assert_eq!(world.reader.deliveries_of_event("nothing", &Lanes::All, None, 10).unwrap().items, []);
    let first_page = world.reader.deliveries_of_event(&id, &Lanes::All, None, 1).unwrap();
    assert_eq!(first_page.items, found[..1]);
    let other = world.new_lane(WIDE);
    let same_id = Emit { id: id.clone(), ..world.event(&[other]) };
    world.try_emit(same_id).unwrap();
    let found = all(|from| world.reader.deliveries_of_event(&id, &Lanes::All, from, 2));
    let lanes = [lanes[0], lanes[1], other];
    assert_eq!(found.iter().map(|delivery| delivery.lane).collect::<Vec<_>>(), lanes, "of both events");
}

pub(super) fn a_listing_of_some_lanes_leaves_out_the_others<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: [(LaneId, Term); 4] = std::array::from_fn(|_| world.own_lane(WIDE));
    let mut made = Vec::new();
    for number in 0..8 {
        let (lane, term) = lanes[number % 4];
        let event = world.event(&[lane]);
        let id = event.id.clone();
        world.try_emit(event).unwrap();
        let delivery = world.claim(lane, term)[0];
        let fate = if number < 4 { Fate::Dead(Reason::Exhausted) } else { Fate::Delivered };
        world.settle(lane, term, delivery, fate);
        made.insert(0, (lane, delivery, id, number < 4));
        world.pass(Nanos::SECOND);
    }
    let lanes = lanes.map(|(lane, _)| lane);
    for some in [vec![], vec![lanes[2]], vec![lanes[0], lanes[3]], lanes.to_vec()] {
        let these = Lanes::These(some.clone().into());
        let wanted = || made.iter().filter(|one| some.contains(&one.0));
        let all_of = wanted().map(|one| one.1).collect::<Vec<_>>();
        let dead_of = wanted().filter(|one| one.3).map(|one| one.1).collect::<Vec<_>>();
        for max in [1, 2, 100] {
            let filter = Filter { lanes: these.clone(), place: None };
            let found = all(|from| world.reader.deliveries(filter.clone(), from, max));
            assert_eq!(found.iter().map(|one| one.delivery).collect::<Vec<_>>(), all_of, "{these:?}");
            let found = all(|from| world.reader.dead(&these, from, max));
            assert_eq!(
                found.iter().map(|one| one.delivery.delivery).collect::<Vec<_>>(),
                dead_of,
                "{these:?}"
            );
            let of = Tries { lanes: these.clone(), failed: false };
            let found = all(|from| world.reader.attempts(of.clone(), from, max));
            assert_eq!(
                found.iter().map(|one| one.attempted.delivery).collect::<Vec<_>>(),
                all_of,
                "{these:?}"
            );
            let found = all(|from| world.reader.subscribers_with(&some, from, max));
            assert_eq!(found.iter().map(|one| one.lane).collect::<Vec<_>>(), some);
        }
        let found = world.reader.deliveries_of_event(&made[0].2, &these, None, 10).unwrap();
        assert_eq!(found.items.len(), usize::from(some.contains(&made[0].0)));
    }
}

pub(super) fn owners_are_listed<B: Backend>() {
    let mut world = World::<B>::new();
    world.own_lane(WIDE);
    world.own_lane(WIDE);
    world.renew(YOU);
    let told: Vec<_> =
        world.reader.owners().unwrap().iter().map(|owner| (owner.owner, owner.lanes)).collect();
    assert_eq!(told.len(), 2);
    assert!(told.contains(&(ME, 2)) && told.contains(&(YOU, 0)), "{told:?}");
    world.pass(LEASE);
    world.one(Command::Sweep(hookproof_sender::store::command::Sweep { max: 1 }));
    assert_eq!(world.reader.owners().unwrap().len(), 1);
    assert_eq!(world.acquire(YOU, LaneSelection::All).len(), 2);
}

pub(super) fn a_text_with_a_character_zero_is_known_to_nobody<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, _) = world.own_lane(WIDE);
    world.emit_one(lane);
    for text in ["\0", "s1\0", "\0sub_s1", "e2\0"] {
        assert_eq!(world.reader.subscriber(&SubscriberRef::Id(text.into())).unwrap(), None);
        assert_eq!(world.reader.subscriber(&SubscriberRef::Name(text.into())).unwrap(), None);
        assert_eq!(world.reader.deliveries_of_event(text, &Lanes::All, None, 10).unwrap().items, []);
        assert_eq!(world.reader.lanes_in_part(text).unwrap(), []);
    }
}

pub(super) fn checkpoints_are_told_of_the_lanes_that_have_one<B: Backend>() {
    let mut world = World::<B>::new();
    let (kept, kept_term) = world.own_lane(WIDE);
    let (none, _) = world.own_lane(WIDE);
    let (handed_back, handed_back_term) = world.own_lane(WIDE);
    let replies = [
        world.persist(kept, kept_term, b"first", false),
        world.persist(kept, kept_term, b"latest", false),
        world.persist(handed_back, handed_back_term, b"final", true),
    ];
    assert!(replies.iter().all(|reply| *reply == Reply::Done), "{replies:?}");
    let told = |lanes: &[LaneId]| {
        let found = world.reader.checkpoints(lanes).unwrap().into_iter();
        found.map(|(lane, record)| (lane, record.bytes.to_vec())).collect::<Vec<_>>()
    };
    let [kept_record, final_record] = [(kept, b"latest".to_vec()), (handed_back, b"final".to_vec())];
    assert_eq!(told(&[handed_back, none, LaneId(999), kept]), [final_record, kept_record.clone()]);
    assert_eq!(told(&[kept]), [kept_record]);
    assert_eq!(told(&[]), []);
}

pub(super) fn attempts_are_listed_by_their_beginning<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [world.own_lane(WIDE), world.own_lane(WIDE)];
    let mut made = Vec::new();
    for number in 0..6 {
        let (lane, term) = lanes[number % 2];
        let delivery = world.emit_one(lane);
        world.claim(lane, term);
        let fate =
            if number < 3 { Fate::Retry { due: later(world.now, Nanos::HOUR) } } else { Fate::Delivered };
        world.settle(lane, term, delivery, fate);
        // Two each begin at the same time; the later delivery of them comes first.
        made.insert(0, (lane, number < 3, delivery, world.now));
        if number % 2 == 1 {
            world.pass(Nanos::SECOND);
        }
    }
    let ids = |found: Vec<Tried>| found.iter().map(|tried| tried.attempted.delivery).collect::<Vec<_>>();
    for lane in [None, Some(lanes[0].0)] {
        for failed in [false, true] {
            let wanted =
                made.iter().filter(|one| lane.is_none_or(|lane| one.0 == lane) && (one.1 || !failed));
            let wanted: Vec<_> = wanted.map(|one| one.2).collect();
            for max in [1, 2, 5, 100] {
                let of = Tries { lanes: lane.into(), failed };
                let found = all(|from| world.reader.attempts(of.clone(), from, max));
                assert_eq!(ids(found), wanted, "{of:?} by {max}");
            }
        }
    }
    let first =
        world.reader.attempts(Tries { lanes: Lanes::All, failed: false }, None, 1).unwrap().items.remove(0);
    assert_eq!((first.lane, first.attempted.attempt.at), (made[0].0, made[0].3));
    assert_eq!(first.received, Some(world.reader.delivery(made[0].2).unwrap().unwrap().received));
    // An attempt outlives its delivery.
    let never = StoreTime(0);
    let purge = Purge {
        settled_before: later(world.now, Nanos::SECOND),
        attempts_before: never,
        dead_before: never,
        changes_before: StoreTime(0),
        max: 100,
    };
    world.one(Command::Purge(purge));
    let kept = all(|from| world.reader.attempts(Tries { lanes: Lanes::All, failed: false }, from, 100));
    let received: Vec<bool> = kept.iter().map(|tried| tried.received.is_some()).collect();
    assert_eq!(received, [false, false, false, true, true, true]);
}
