use std::sync::Arc;

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::change::RecordedChange;
use hookproof_sender::store::command::{Change, Purge, Rotate};
use hookproof_sender::store::lane::{LaneState, Limits, Pause, Secret};
use hookproof_sender::store::read::ChangesOf;
use hookproof_sender::store::{Command, Refusal, Reply};
use serde_json::{Value, json};

use crate::store::contract::tokens::token;
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

pub(super) fn one_subscribers_changes_push_out_few_of_others_and_none_of_tokens<B: Backend>() {
    let mut world = World::<B>::with(Limits { changes_max: 200, ..Limits::default() });
    let lanes = [world.new_lane(WIDE), world.new_lane(WIDE)];
    for number in 0..3 {
        world.one(by("ann", Command::CreateToken(token(&format!("{number}")))));
    }
    let pause = |world: &mut World<B>, lane, times: u32| {
        for time in 0..times {
            world.pass(Nanos::SECOND);
            let pause = pausing(world, lane, &time.to_string());
            assert_eq!(world.one(by("bob", pause)), Reply::Done);
        }
    };
    let counts = |world: &World<B>| {
        let found = all(world);
        let names = ["s1", "s2"].map(|name| {
            found.iter().filter(|one| one.subscriber.as_ref().is_some_and(|of| &*of.1 == name)).count()
        });
        (found.iter().filter(|one| one.subscriber.is_none()).count(), names)
    };
    pause(&mut world, lanes[0], 199);
    assert_eq!(counts(&world), (3, [199, 0]));
    pause(&mut world, lanes[1], 400);
    assert_eq!(counts(&world), (3, [198, 2]), "a hundredth, and the room that was left");
    let newest = all(&world)[0].clone();
    assert_eq!((newest.number, &*newest.subscriber.unwrap().1), (602, "s2"));
    pause(&mut world, lanes[0], 1);
    assert_eq!(counts(&world), (3, [198, 2]), "its own oldest went");
    for number in 3..203 {
        let reply = world.all(&[by("ann", Command::CreateToken(token(&format!("{number}"))))]);
        assert_eq!(reply, [Reply::Done]);
    }
    assert_eq!(counts(&world), (200, [198, 2]));
}
