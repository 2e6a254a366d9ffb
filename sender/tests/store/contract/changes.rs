use std::sync::Arc;

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::change::RecordedChange;
use hookproof_sender::store::command::{Change, Purge, Rotate};
use hookproof_sender::store::lane::{LaneState, Limits, Pause, Secret};
use hookproof_sender::store::read::ChangesOf;
use hookproof_sender::store::{Command, Refusal, Reply};
use serde_json::{Value, json};

use crate::store::world::{Backend, WIDE, World};

const EVERYTHING: ChangesOf = ChangesOf { subscriber: None, by: None, within: None };

fn by(who: &str, command: Command) -> Command {
    command.by(&who.into(), None)
}

fn changes<B: Backend>(world: &World<B>, of: &ChangesOf) -> Vec<RecordedChange> {
    world.reader.changes(of, None, 500).unwrap().items
}

fn all<B: Backend>(world: &World<B>) -> Vec<RecordedChange> {
    changes(world, &EVERYTHING)
}

fn changed(change: &RecordedChange) -> Value {
    serde_json::from_str(&change.changed).unwrap()
}

fn pausing(world: &World<impl Backend>, lane: hookproof_sender::engine::LaneId, reason: &str) -> Command {
    let pause = Pause { reason: Some(reason.into()), until: Some(StoreTime(world.now.0 + 1)) };
    Command::Change(Change { state: Some(LaneState::Paused), pause, ..Change::of(lane) })
}

pub(super) fn a_change_and_its_record_are_one_commit_that_survives_a_power_cut<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    assert_eq!(all(&world), [], "nobody was named");
    let settings: Option<Arc<str>> = Some(r#"{"limit":{"rate":"9/s"}}"#.into());
    let url = Some("https://other.example/".into());
    let change = Command::Change(Change { settings, url, ..Change::of(lane) });
    let (retire, now) = (world.now, world.now);
    let rotate = Command::Rotate(Rotate { lane, secret: Secret::new("whsec_rotated"), retire, now });
    let pause = pausing(&world, lane, "move");
    let commands = [("ann", change), ("bob", pause), ("ann", rotate), ("ann", Command::Remove(lane))];
    let replies = world.all(&commands.map(|(who, command)| by(who, command)));
    assert!(replies.iter().all(|reply| *reply == Reply::Done), "{replies:?}");
    let world = World::over(world.backend.after_power_cut());
    let found = all(&world);
    let told: Vec<_> = found.iter().map(|change| (change.number, &*change.by, &*change.operation)).collect();
    let expected = [
        (4, "ann", "removeSubscriber"),
        (3, "ann", "rotateSecret"),
        (2, "bob", "pauseSubscriber"),
        (1, "ann", "changeSubscriber"),
    ];
    assert_eq!(told, expected, "the newest first");
    assert_eq!(changed(&found[0]), json!({ "state": ["paused", "removed"] }));
    assert_eq!(changed(&found[1]), json!({ "secret": "changed" }));
    assert_eq!(changed(&found[2])["pause.reason"], json!([null, "move"]));
    assert_eq!(changed(&found[2])["state"], json!(["active", "paused"]));
    assert_eq!(changed(&found[3])["limit.rate"][1], "9/s");
    assert_eq!(changed(&found[3])["url"][1], "https://other.example/");
    let name = found[0].subscriber.clone().unwrap().1;
    assert!(found.iter().all(|change| change.subscriber == found[0].subscriber));
    for (subscriber, by, expected) in [
        (Some(name), Some("bob".into()), vec![2]),
        (None, Some("ann".into()), vec![4, 3, 1]),
        (Some("nobody\0".into()), None, vec![]),
    ] {
        let numbers = changes(&world, &ChangesOf { subscriber, by, within: None })
            .into_iter()
            .map(|change| change.number);
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
    }
    let id = found[0].subscriber.clone().unwrap().0;
    for (within, expected) in [(vec![id], 4), (vec!["nobody".into()], 0), (vec![], 0)] {
        let of = ChangesOf { within: Some(within), ..EVERYTHING };
        assert_eq!(changes(&world, &of).len(), expected, "{of:?}");
    }
    let first = world.reader.changes(&EVERYTHING, None, 3).unwrap();
    let rest = world.reader.changes(&EVERYTHING, first.next, 3).unwrap();
    assert_eq!([first.items.len(), rest.items.len()], [3, 1]);
}

pub(super) fn a_refused_change_leaves_no_record<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let stale = Change { version: Some(99), name: Some("other".into()), ..Change::of(lane) };
    let reply = world.one(by("ann", Command::Change(stale)));
    assert!(matches!(reply, Reply::Refused(Refusal::VersionConflict { .. })), "{reply:?}");
    let reply = world.one(by("ann", Command::RevokeToken("nobody".into())));
    assert!(matches!(reply, Reply::Refused(Refusal::UnknownToken(_))), "{reply:?}");
    let reply = world.one(by("ann", Command::Sweep(hookproof_sender::store::command::Sweep { max: 1 })));
    assert!(matches!(reply, Reply::Refused(Refusal::Nonsense(_))), "{reply:?}");
    assert_eq!(all(&world), []);
}

pub(super) fn changes_are_bounded_by_number_and_age_and_no_number_is_used_again<B: Backend>() {
    let mut world = World::<B>::with(Limits { changes_max: 3, ..Limits::default() });
    let lane = world.new_lane(WIDE);
    let numbers = |world: &World<B>| all(world).iter().map(|change| change.number).collect::<Vec<_>>();
    for reason in ["a", "b", "c", "d", "e"] {
        world.pass(Nanos::HOUR);
        let pause = pausing(&world, lane, reason);
        world.one(by("ann", pause));
    }
    assert_eq!(numbers(&world), [5, 4, 3]);
    let purge = |changes_before| {
        let never = StoreTime(0);
        let before = (never, never, never);
        let (settled_before, attempts_before, dead_before) = before;
        Command::Purge(Purge { settled_before, attempts_before, dead_before, changes_before, max: 30 })
    };
    world.one(purge(world.now.sooner(Nanos::HOUR)));
    assert_eq!(numbers(&world), [5, 4], "younger ones stay");
    world.one(purge(StoreTime(world.now.0 + 1)));
    assert_eq!(numbers(&world), [5], "the newest stays for its number");
    let pause = pausing(&world, lane, "f");
    world.one(by("ann", pause));
    assert_eq!(numbers(&world), [6, 5]);
}
