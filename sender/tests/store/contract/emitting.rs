use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::store::command::{
    Change, Condition, Emit, Fate, LaneSelection, Purge, RejectOutbox, Transition,
};
use hookproof_sender::store::lane::{Bounds, LaneState, WhenFull};
use hookproof_sender::store::read::Lanes;
use hookproof_sender::store::reply::{Placed, SettleResult};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, LEASE, ME, WIDE, World, YOU, acquire, body, later, waiting};

pub(super) fn an_acknowledged_event_survives_a_crash<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.bodies = vec![body(b"exactly these \x00\xff bytes")];
    event.targets[0].signature = Some("sha256=abc".into());
    let (id, received, expires) = (event.id.clone(), event.received, event.targets[0].expires);
    let delivery = waiting(&world.try_emit(event).unwrap().targets[0]);
    world.crash();
    let term = world.own(ME, lane);
    let rows = world.claim_rows(lane, term);
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.delivery, row.attempts, row.received, row.expires), (delivery, 0, received, expires));
    assert_eq!((&row.event, &*row.kind), (&id, "video.trending"));
    assert_eq!(row.body, body(b"exactly these \x00\xff bytes"));
    assert_eq!(row.signature.as_deref(), Some("sha256=abc"));
}

pub(super) fn every_lane_gets_the_body_that_was_shaped_for_it<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, one_term) = world.own_lane(WIDE);
    let (other, other_term) = world.own_lane(WIDE);
    let mut event = world.event(&[one, other]);
    event.bodies = vec![body(b"nobody's"), body(b"whole"), body(b"shaped!")];
    event.targets[0].body = 2;
    event.targets[1].body = 1;
    let deliveries: Vec<_> = world.try_emit(event).unwrap().targets.iter().map(waiting).collect();
    assert_eq!(world.claim_rows(one, one_term)[0].body, body(b"shaped!"));
    assert_eq!(world.claim_rows(other, other_term)[0].body, body(b"whole"));
    assert_eq!(world.reader.body(deliveries[0]).unwrap(), Some(body(b"shaped!")));
    assert_eq!((world.counts(one).waiting_bytes, world.counts(other).waiting_bytes), (7, 5));
}

/// PostgreSQL's texts cannot hold the character zero, so readers see a replacement. Bodies stay unchanged.
pub(super) fn a_key_may_be_any_text<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.key = Some("a\0\\b\t\u{1}".into());
    let delivery = waiting(&world.try_emit(event).unwrap().targets[0]);
    assert_eq!(world.claim(lane, term), [delivery]);
    let shown = world.reader.delivery(delivery).unwrap().unwrap().key.unwrap();
    assert_eq!(shown.replace('\0', "\u{fffd}"), "a\u{fffd}\\b\t\u{1}");
}

pub(super) fn an_event_for_nobody_leaves_nothing<B: Backend>() {
    let mut world = World::<B>::new();
    let event = world.event(&[]);
    let id = event.id.clone();
    assert_eq!(world.try_emit(event).unwrap().targets, []);
    assert_eq!(world.total().accepted, 0);
    assert_eq!(world.reader.deliveries_of_event(&id, &Lanes::All, None, 10).unwrap().items, []);
}

pub(super) fn a_lane_that_takes_nothing_is_left_out<B: Backend>() {
    let mut world = World::<B>::new();
    let states = [LaneState::Active, LaneState::Paused, LaneState::Disabled];
    let mut lanes: Vec<LaneId> = states
        .into_iter()
        .map(|state| {
            let lane = world.new_lane(WIDE);
            world.change(Change { state: Some(state), ..Change::of(lane) });
            lane
        })
        .collect();
    let removed = world.new_lane(WIDE);
    world.one(Command::Remove(removed));
    lanes.extend([removed, LaneId(4_711)]);
    let event = world.event(&lanes);
    let placed = world.try_emit(event).unwrap().targets;
    waiting(&placed[0]);
    waiting(&placed[1]);
    assert_eq!(placed[2..], [Placed::Absent; 3]);
}

pub(super) fn a_lane_named_twice_gets_the_event_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let event = world.event(&[lane, lane]);
    let placed = world.try_emit(event).unwrap().targets;
    waiting(&placed[0]);
    assert_eq!(placed[1], Placed::Duplicate);
    assert_eq!(world.counts(lane).accepted, 1);
}

pub(super) fn the_same_event_again_is_delivered_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    world.try_emit(event.clone()).unwrap();
    for _ in 0..2 {
        event.received = later(event.received, Nanos::MINUTE);
        assert_eq!(world.try_emit(event.clone()).unwrap().targets, [Placed::Duplicate]);
        world.crash();
    }
    let mut twin = world.event(&[lane]);
    twin.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    let replies = world.all(&[Command::Emit(twin.clone()), Command::Emit(twin)]);
    let Reply::Emitted(second) = &replies[1] else { panic!("{replies:?}") };
    assert_eq!(second.targets, [Placed::Duplicate]);
    assert_eq!(world.counts(lane).accepted, 2);
}

pub(super) fn the_same_event_reaches_a_subscriber_that_came_since<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    world.try_emit(event.clone()).unwrap();
    let newcomer = world.new_lane(WIDE);
    let mut again = world.event(&[lane, newcomer]);
    again.id = event.id;
    again.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    for expected_new in [true, false] {
        let placed = world.try_emit(again.clone()).unwrap().targets;
        assert_eq!(placed[0], Placed::Duplicate);
        assert_eq!(matches!(placed[1], Placed::Waiting { .. }), expected_new);
    }
    assert_eq!((world.counts(lane).accepted, world.counts(newcomer).accepted), (1, 1));
}

pub(super) fn the_same_event_after_the_window_is_another<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets.iter_mut().for_each(|target| target.dedupe = Nanos::HOUR);
    world.try_emit(event.clone()).unwrap();
    let first = event.received;
    event.received = later(first, Nanos(Nanos::HOUR.0 - 1));
    assert_eq!(world.try_emit(event.clone()).unwrap().targets, [Placed::Duplicate]);
    event.received = later(first, Nanos::HOUR);
    waiting(&world.try_emit(event).unwrap().targets[0]);
}

pub(super) fn each_subscriber_has_a_window_of_its_own<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..3).map(|_| world.new_lane(WIDE)).collect();
    let mut event = world.event(&lanes);
    for (target, dedupe) in event.targets.iter_mut().zip([Nanos::HOUR, Nanos::MINUTE, Nanos::ZERO]) {
        target.dedupe = dedupe;
    }
    let first = event.received;
    let mut again = |after| {
        event.received = later(first, after);
        let placed = world.try_emit(event.clone()).unwrap().targets;
        placed.iter().map(|placed| *placed == Placed::Duplicate).collect::<Vec<_>>()
    };
    assert_eq!(again(Nanos::ZERO), [false, false, false]);
    assert_eq!(again(Nanos::SECOND), [true, true, false]);
    // The second has a new delivery, so a new window.
    assert_eq!(again(Nanos::MINUTE), [true, false, false]);
    assert_eq!(again(Nanos::MINUTE.times(59)), [true, false, false]);
    assert_eq!(again(Nanos::HOUR), [false, false, false]);
}

pub(super) fn an_outbox_row_becomes_an_event_exactly_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    assert_eq!(world.reader.glance().unwrap().outbox, None);
    world.backend.application_emits("video.trending", Some("clip"), r#"{"views":1}"#, Some("mine-1"));
    world.backend.application_emits("video.gone", None, "{}", None);
    let rows = world.reader.outbox(None, 10).unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&*rows[0].kind, rows[0].key.as_deref()), ("video.trending", Some("clip")));
    assert_eq!((&*rows[0].data, rows[0].event.as_deref()), (r#"{"views":1}"#, Some("mine-1")));
    assert_eq!((rows[1].key.as_deref(), rows[1].event.as_deref()), (None, None));
    assert_eq!(world.reader.glance().unwrap().outbox, Some(rows[1].id));
    assert_eq!(world.reader.outbox(Some(rows[0].id), 10).unwrap(), rows[1..]);

    let mut event = world.event(&[lane]);
    (event.outbox, event.id) = (Some(rows[0].id), "mine-1".into());
    waiting(&world.try_emit(event.clone()).unwrap().targets[0]);
    assert_eq!(world.try_emit(event), Err(Refusal::OutboxTaken(rows[0].id)));
    let mut unwanted = world.event(&[]);
    unwanted.outbox = Some(rows[1].id);
    world.try_emit(unwanted).unwrap();
    assert_eq!(world.reader.outbox(None, 10).unwrap(), []);
    assert_eq!(world.total().accepted, 1);
    // Numbers may be part of public ids.
    world.backend.application_emits("video.trending", None, "{}", None);
    assert!(world.reader.outbox(None, 10).unwrap()[0].id > rows[1].id);
}

pub(super) fn an_outbox_row_that_is_refused_stays<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(hookproof_sender::store::lane::Bounds { rows_max: 0, ..WIDE });
    world.backend.application_emits("video.trending", None, "{}", None);
    let id = world.reader.outbox(None, 10).unwrap()[0].id;
    let mut event = world.event(&[lane]);
    event.outbox = Some(id);
    assert!(matches!(world.try_emit(event), Err(Refusal::Full(_))));
    assert_eq!(world.reader.status(world.now).unwrap().outbox, 1);
}

pub(super) fn an_outbox_row_that_is_taken_in_part_stays_with_the_id_of_its_event<B: Backend>() {
    let mut world = World::<B>::new();
    let (wide, narrow) = (world.new_lane(WIDE), world.new_lane(Bounds { rows_max: 0, ..WIDE }));
    world.backend.application_emits("video.trending", None, "{}", None);
    let row = world.reader.outbox(None, 10).unwrap().remove(0);
    let event = Emit { outbox: Some(row.id), ..world.event(&[wide, narrow]) };
    world.try_emit(event.clone()).unwrap();
    let stays = world.reader.outbox(None, 10).unwrap().remove(0);
    assert_eq!((stays.id, stays.event.as_deref()), (row.id, Some(&*event.id)));
    let other = Emit { outbox: Some(row.id), ..world.event(&[wide, narrow]) };
    assert_eq!(world.try_emit(other), Err(Refusal::OutboxNamed(row.id)));
    world.change(Change { bounds: Some(WIDE), ..Change::of(narrow) });
    let event = Emit { roster: world.reader.glance().unwrap().roster, ..event };
    world.try_emit(event).unwrap();
    assert_eq!(world.reader.outbox(None, 10).unwrap(), []);
    assert_eq!([wide, narrow].map(|lane| world.counts(lane).accepted), [1, 1]);
}

pub(super) fn an_outbox_row_that_cannot_be_an_event_is_set_aside<B: Backend>() {
    let mut world = World::<B>::new();
    world.backend.application_emits("not a type", Some("k"), "[1]", Some("mine"));
    let row = world.reader.outbox(None, 10).unwrap().remove(0);
    let reject = RejectOutbox { id: row.id, why: "the type has blanks".into() };
    assert_eq!(world.one(Command::RejectOutbox(reject.clone())), Reply::Done);
    assert_eq!(world.one(Command::RejectOutbox(reject)), Reply::Refused(Refusal::OutboxTaken(row.id)));
    let rejected = world.reader.outbox_rejected(None, 10).unwrap();
    assert_eq!(rejected.items.len(), 1);
    assert_eq!((&rejected.items[0].row, &*rejected.items[0].why), (&row, "the type has blanks"));
    let status = world.reader.status(world.now).unwrap();
    assert_eq!((status.outbox, status.outbox_rejected), (0, 1));
}

pub(super) fn rejected_outbox_rows_are_listed_from_the_highest_number_to_the_lowest<B: Backend>() {
    let mut world = World::<B>::new();
    let numbers = [i64::MIN, i64::MIN + 1, -1, 0, 7, i64::MAX - 1, i64::MAX];
    for number in numbers {
        world.backend.application_numbers(number);
    }
    let rows = world.reader.outbox(None, 10).unwrap();
    assert_eq!(rows.iter().map(|row| row.id.0).collect::<Vec<_>>(), numbers);
    let readable: Vec<_> = rows.iter().filter(|row| row.unreadable.is_none()).map(|row| row.id.0).collect();
    assert_eq!(readable, [7]);
    for row in rows {
        let reject = RejectOutbox { id: row.id, why: "its number".into() };
        assert_eq!(world.one(Command::RejectOutbox(reject)), Reply::Done);
    }
    let (mut listed, mut from) = (Vec::new(), None);
    loop {
        let page = world.reader.outbox_rejected(from, 2).unwrap();
        listed.extend(page.items.iter().map(|row| row.row.id.0));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    listed.reverse();
    assert_eq!(listed, numbers);
    world.backend.application_emits("video.trending", None, "{}", None);
}

pub(super) fn a_target_without_a_body_is_nonsense<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut event = world.event(&[lane]);
    event.targets[0].body = 1;
    assert!(matches!(world.try_emit(event), Err(Refusal::Nonsense(_))));
    assert_eq!(world.total().accepted, 0);
}

pub(super) fn the_recipients_of_an_event_are_known_while_its_outbox_row_waits<B: Backend>() {
    let mut world = World::<B>::new();
    let (wide, term) = world.own_lane(WIDE);
    let narrow = world.new_lane(Bounds { rows_max: 0, ..WIDE });
    world.backend.application_emits("video.trending", None, "{}", None);
    let row = world.reader.outbox(None, 10).unwrap().remove(0);
    let event = Emit { outbox: Some(row.id), ..world.event(&[wide, narrow]) };
    let delivery = waiting(&world.try_emit(event.clone()).unwrap().targets[0]);
    world.claim(wide, term);
    world.settle(wide, term, delivery, Fate::Delivered);
    world.pass(Nanos::DAY.times(3));
    let purge = Purge {
        settled_before: world.now,
        attempts_before: world.now,
        dead_before: world.now,
        changes_before: world.now,
        max: 100,
    };
    world.one(Command::Purge(purge));
    assert_eq!(world.reader.lanes_in_part(&event.id).unwrap(), [wide]);
    world.try_emit(event.clone()).unwrap();
    assert_eq!(world.counts(wide).accepted, 1, "it is not made again");
    world.change(Change { bounds: Some(WIDE), ..Change::of(narrow) });
    world.try_emit(Emit { roster: world.reader.glance().unwrap().roster, ..event.clone() }).unwrap();
    assert_eq!(world.reader.outbox(None, 10).unwrap(), []);
    world.one(Command::Purge(purge));
    world.one(Command::Purge(purge));
    assert_eq!(world.reader.lanes_in_part(&event.id).unwrap(), [narrow]);
}

pub(super) fn no_newer_row_is_for_who_refused_an_older_one_in_the_same_commit<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(Bounds { bytes_max: 100, ..WIDE });
    world.emit_one(lane);
    (0..2).for_each(|_| world.backend.application_emits("video.trending", None, "{}", None));
    let rows = world.reader.outbox(None, 10).unwrap();
    let large = Emit { outbox: Some(rows[0].id), bodies: vec![body(&[b'x'; 95])], ..world.event(&[lane]) };
    let small = Emit { outbox: Some(rows[1].id), ..world.event(&[lane]) };
    let beside = world.event(&[lane]);
    let replies = world.all(&[large, small, beside].map(Command::Emit));
    let refused = |reply: &Reply| matches!(reply, Reply::Refused(Refusal::Full(_)));
    assert_eq!(replies.iter().map(refused).collect::<Vec<_>>(), [true, true, false], "{replies:?}");
}

pub(super) fn earlier_recipients_of_an_event_are_known_while_its_outbox_row_waits<B: Backend>() {
    let mut world = World::<B>::new();
    let (wide, narrow) = (world.new_lane(WIDE), world.new_lane(Bounds { rows_max: 0, ..WIDE }));
    let mut event = world.event(&[wide]);
    event.targets[0].dedupe = Nanos::from_secs(10);
    world.try_emit(event.clone()).unwrap();
    world.backend.application_emits("video.trending", None, "{}", Some(&event.id));
    let row = world.reader.outbox(None, 10).unwrap().remove(0);
    for _ in 0..2 {
        let mut again = Emit { outbox: Some(row.id), id: event.id.clone(), ..world.event(&[wide, narrow]) };
        again.targets[0].dedupe = Nanos::from_secs(10);
        let emitted = world.try_emit(again).unwrap();
        assert_eq!(emitted.targets[0], Placed::Duplicate);
        assert_eq!(world.counts(wide).accepted, 1);
        world.pass(Nanos::MINUTE);
    }
}

pub(super) fn a_commit_of_another_process_holds_in_our_next_one<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(Bounds { rows_max: 3, ..WIDE });
    let mut other = world.backend.store();
    let first = world.emit_one(lane);
    for _ in 0..2 {
        let event = world.event(&[lane]);
        other.commit(world.now, &[Command::Emit(event)]).unwrap();
    }
    let one_too_many = world.event(&[lane]);
    assert!(
        matches!(world.try_emit(one_too_many), Err(Refusal::Full(_))),
        "it counts what the other recorded"
    );
    let second = world.claim(lane, term)[1];
    assert_eq!(world.settle(lane, term, first, Fate::Delivered), SettleResult::Applied);
    assert_eq!((world.counts(lane).accepted, world.counts(lane).waiting), (3, 2));
    world.pass(LEASE);
    other.commit(world.now, &[acquire(YOU, LaneSelection::All)]).unwrap();
    let retry = Fate::Retry { due: world.now };
    assert_eq!(world.settle(lane, term, second, retry), SettleResult::Stale, "the lane is the other's");
    other.commit(world.now, &[Command::Remove(lane)]).unwrap();
    let event = world.event(&[lane]);
    assert_eq!(world.try_emit(event).unwrap().targets, [Placed::Absent], "and now nobody's");
}

pub(super) fn a_change_of_conditions_is_notified_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, operators) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let event = |world: &mut World<B>, ends, begins| Emit {
        notifies: Some(Transition { lane, ends, begins }),
        ..world.event(&[operators])
    };
    let (failing, disabled) = (Some(Condition::Failing), Some(Condition::Disabled));
    let first = event(&mut world, None, failing);
    let second = event(&mut world, None, failing);
    let replies = world.all(&[Command::Emit(first), Command::Emit(second)]);
    assert!(matches!(&replies[0], Reply::Emitted(emitted) if emitted.targets.len() == 1), "{replies:?}");
    assert_eq!(replies[1], Reply::Refused(Refusal::Notified(lane)));
    world.crash();
    let again = event(&mut world, None, failing);
    assert_eq!(world.try_emit(again), Err(Refusal::Notified(lane)));
    assert_eq!(world.reader.notified().unwrap(), [(lane, Condition::Failing)]);
    let next = event(&mut world, failing, disabled);
    world.try_emit(next.clone()).unwrap();
    assert_eq!(world.try_emit(next), Err(Refusal::Notified(lane)));
    assert_eq!(world.reader.notified().unwrap(), [(lane, Condition::Disabled)]);
    let end = Emit { targets: Vec::new(), ..event(&mut world, disabled, None) };
    world.try_emit(end).unwrap();
    assert_eq!(world.reader.notified().unwrap(), []);
    assert_eq!(world.counts(operators).accepted, 2);
    // An event that is refused changes nothing, and a removed subscriber has no conditions.
    world.change(Change {
        bounds: Some(Bounds { rows_max: 2, when_full: WhenFull::Refuse, ..WIDE }),
        ..Change::of(operators)
    });
    let full = event(&mut world, None, failing);
    assert!(matches!(world.try_emit(full), Err(Refusal::Full(_))));
    assert_eq!(world.reader.notified().unwrap(), []);
    let behind = Emit { targets: Vec::new(), ..event(&mut world, None, Some(Condition::Behind)) };
    world.try_emit(behind.clone()).unwrap();
    world.one(Command::Remove(lane));
    assert_eq!(world.reader.notified().unwrap(), []);
    assert_eq!(world.try_emit(Emit { roster: behind.roster + 1, ..behind }), Err(Refusal::UnknownLane(lane)));
}
