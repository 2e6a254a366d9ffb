//! Only a change that affects an event makes it stale.

use hookproof_sender::engine::{LaneId, Nanos};
use hookproof_sender::roster::RosterKeeper;
use hookproof_sender::store::command::{Change, Emit, Purge, Rotate, Subscribe};
use hookproof_sender::store::lane::{Bounds, LaneState, Secret};
use hookproof_sender::store::reply::Placed;
use hookproof_sender::store::{Command, Refusal, Reply};
use hookproof_sender::subscriber::RegionSecrets;

use crate::store::world::{Backend, WIDE, World, later, subscribe, waiting};

const OTHER: &str = r#"["order.*", "video", "videos.*", "video.trending.now"]"#;
const WANTED: [&str; 4] =
    [r#"["*"]"#, r#"["order.*", "video.trending"]"#, r#"["video.*"]"#, "patterns that nobody can read"];

fn roster<B: Backend>(world: &World<B>) -> u64 {
    world.reader.glance().unwrap().roster
}

fn newcomer(name: &str, patterns: &str) -> Command {
    Command::Subscribe(Subscribe { patterns: patterns.into(), ..subscribe(name, WIDE) })
}

/// Every change to a subscriber whose patterns match other events before or after it.
fn changes_of<B: Backend>(world: &World<B>, lane: LaneId) -> Vec<Command> {
    let retire = later(world.now, Nanos::SECOND);
    let rotate = Rotate { lane, secret: Secret::new("another"), retire, now: world.now };
    let changes = [
        Change { patterns: Some(OTHER.into()), ..Change::of(lane) },
        Change { url: Some("https://elsewhere.example/".into()), ..Change::of(lane) },
        Change { settings: Some("{}".into()), ..Change::of(lane) },
        Change { name: Some("another".into()), ..Change::of(lane) },
        Change { bounds: Some(Bounds { rows_max: 70, ..WIDE }), ..Change::of(lane) },
        Change { state: Some(LaneState::Paused), ..Change::of(lane) },
        Change { state: Some(LaneState::Active), ..Change::of(lane) },
    ];
    changes.into_iter().map(Command::Change).chain([Command::Rotate(rotate)]).collect()
}

fn carried_out(replies: &[Reply]) -> bool {
    matches!(replies, [Reply::Done | Reply::Subscribed { .. }])
}

pub(super) fn however_often_one_subscriber_changes_the_events_of_others_are_taken<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    world.change(Change { patterns: Some(OTHER.into()), ..Change::of(one) });
    let mut operator = world.backend.store();
    let (mut taken, mut matched_anew) = (0, 0);
    for round in 0..10 {
        let mut changes = changes_of(&world, one);
        changes.push(newcomer(&format!("newcomer {round}"), OTHER));
        for change in changes {
            let event = world.event(&[other]);
            assert!(carried_out(&operator.commit(world.now, &[change]).unwrap()));
            match world.try_emit(event).map(|emitted| emitted.targets) {
                Ok(targets) => taken += usize::from(matches!(targets[..], [Placed::Waiting { .. }])),
                Err(Refusal::StaleRoster { .. }) => matched_anew += 1,
                Err(refusal) => panic!("{refusal}"),
            }
        }
        world.pass(Nanos::MINUTE);
    }
    assert_eq!((taken, matched_anew), (90, 0));
    assert_eq!(world.counts(other).accepted, 90);
}

/// The emitting process has missed every change; several events share a commit.
pub(super) fn however_old_its_roster_is_an_event_is_taken_that_no_change_concerns<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let known = roster(&world);
    for _ in 0..20 {
        world.change(Change { patterns: Some(OTHER.into()), ..Change::of(one) });
    }
    let mut commands: Vec<Command> = (known..=roster(&world))
        .rev()
        .map(|roster| Command::Emit(Emit { roster, ..world.event(&[other]) }))
        .collect();
    commands.insert(5, Command::Change(Change { patterns: Some(OTHER.into()), ..Change::of(one) }));
    let replies = world.all(&commands);
    let refused = replies.iter().filter(|reply| matches!(reply, Reply::Refused(_))).count();
    assert_eq!(refused, 0, "{replies:?}");
    assert_eq!(world.counts(other).accepted, 21);
}

pub(super) fn an_event_for_a_subscriber_that_has_changed_is_matched_anew<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, other) = (world.new_lane(WIDE), world.new_lane(WIDE));
    for change in changes_of(&world, one) {
        let event = world.event(&[other, one]);
        let known = event.roster;
        assert!(carried_out(&world.all(&[change])));
        let stale = Err(Refusal::StaleRoster { known, current: known + 1 });
        assert_eq!(world.try_emit(event.clone()), stale);
        let placed = world.try_emit(Emit { roster: known + 1, ..event }).unwrap().targets;
        assert_eq!(placed.iter().map(waiting).count(), 2);
    }
}

pub(super) fn an_event_that_somebody_has_come_to_want_is_matched_anew<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, changed) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let mut operator = world.backend.store();
    for (number, wanted) in WANTED.into_iter().enumerate() {
        let change = Command::Change(Change { patterns: Some(wanted.into()), ..Change::of(changed) });
        for who in [newcomer(&format!("newcomer {number}"), wanted), change] {
            let event = world.event(&[one]);
            let known = event.roster;
            let replies = operator.commit(world.now, &[who]).unwrap();
            assert!(carried_out(&replies));
            let stale = Err(Refusal::StaleRoster { known, current: known + 1 });
            assert_eq!(world.try_emit(event.clone()), stale, "{wanted}");
            let lane = if let [Reply::Subscribed { lane }] = replies[..] { lane } else { changed };
            let again = Emit { id: event.id, ..world.event(&[one, lane]) };
            let placed = world.try_emit(again).unwrap().targets;
            assert_eq!(placed.iter().map(waiting).count(), 2);
            operator
                .commit(
                    world.now,
                    &[Command::Change(Change { patterns: Some(OTHER.into()), ..Change::of(lane) })],
                )
                .unwrap();
        }
    }
}

pub(super) fn a_change_counts_from_its_place_in_a_commit<B: Backend>() {
    let mut world = World::<B>::new();
    let one = world.new_lane(WIDE);
    let (before, after) = (world.event(&[one]), world.event(&[one]));
    let change =
        Command::Change(Change { url: Some("https://elsewhere.example/".into()), ..Change::of(one) });
    let known = before.roster;
    let replies = world.all(&[Command::Emit(before), change, Command::Emit(after)]);
    assert!(matches!(replies[0], Reply::Emitted(_)), "{replies:?}");
    assert_eq!(replies[2], Reply::Refused(Refusal::StaleRoster { known, current: known + 1 }));
}

pub(super) fn a_removed_subscriber_holds_up_no_event<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, removed) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let events = [world.event(&[one]), world.event(&[one, removed])];
    world.one(Command::Remove(removed));
    for event in events {
        let placed = world.try_emit(event).unwrap().targets;
        waiting(&placed[0]);
        assert!(placed[1..].iter().all(|placed| *placed == Placed::Absent), "{placed:?}");
    }
}

pub(super) fn a_process_can_emit_after_the_last_writer_of_subscribers_vanished<B: Backend>() {
    let mut world = World::<B>::new();
    let (one, gone) = (world.new_lane(WIDE), world.new_lane(WIDE));
    world.one(Command::Remove(gone));
    world.pass(Nanos::HOUR);
    let (settled_before, attempts_before, dead_before) = (world.now, world.now, world.now);
    world.one(Command::Purge(Purge {
        settled_before,
        attempts_before,
        dead_before,
        changes_before: world.now,
        max: 100,
    }));
    assert_eq!(world.lanes().len(), 1, "it has vanished");
    let mut keeper = RosterKeeper::new(RegionSecrets::default());
    let known = keeper.catch_up(&*world.reader, world.now).unwrap().version();
    assert!(known < roster(&world), "the store has come further than its rows tell");
    let event = Emit { roster: known, ..world.event(&[one]) };
    waiting(&world.try_emit(event).unwrap().targets[0]);
    // A process that asked the store first knows its version.
    assert_eq!(keeper.reach(roster(&world)).version(), roster(&world));
    assert!(keeper.present().get(one).is_some());
}

pub(super) fn events_are_matched_anew_after_too_many_subscriber_changes<B: Backend>() {
    const COMPARED_MAX: usize = 1_000;

    let mut world = World::<B>::new();
    let one = world.new_lane(WIDE);
    let event = world.event(&[one]);
    let newcomers: Vec<Command> =
        (0..=COMPARED_MAX).map(|number| newcomer(&number.to_string(), OTHER)).collect();
    let (last, others) = newcomers.split_last().unwrap();
    let now = world.now;
    let mut emit = |commands: &[Command]| {
        world.store.commit(now, commands).unwrap();
        world.store.commit(now, &[Command::Emit(event.clone())]).unwrap().remove(0)
    };
    assert!(matches!(emit(others), Reply::Emitted(_)));
    assert!(matches!(emit(std::slice::from_ref(last)), Reply::Refused(Refusal::StaleRoster { .. })));
}

/// A store that went back knows less than the emitter.
pub(super) fn a_roster_that_the_store_has_not_come_to_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let one = world.new_lane(WIDE);
    let current = roster(&world);
    let event = Emit { roster: current + 1, ..world.event(&[one]) };
    assert_eq!(world.try_emit(event), Err(Refusal::StaleRoster { known: current + 1, current }));
}
