use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::sign::Keys;
use hookproof_sender::store::command::{Change, Dead, Fate, Purge, Reason, Redrive, Rotate, Sweep};
use hookproof_sender::store::lane::{Bounds, LaneState, Pause, Secret, WhenFull};
use hookproof_sender::store::read::{Lanes, SubscriberRef};
use hookproof_sender::store::reply::Swept;
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, WIDE, World, later, subscribe};

fn add<B: Backend>(world: &mut World<B>, name: &str) -> Reply {
    world.one(Command::Subscribe(subscribe(name, WIDE)))
}

fn read<B: Backend>(
    world: &World<B>,
    whom: SubscriberRef,
) -> Option<hookproof_sender::store::read::Subscriber> {
    world.reader.subscriber(&whom).unwrap()
}

fn secrets<B: Backend>(world: &World<B>, lane: LaneId) -> Vec<String> {
    let live = world.reader.secrets(lane, world.now).unwrap();
    live.iter().map(|live| live.secret.reveal().to_owned()).collect()
}

fn rotate<B: Backend>(world: &mut World<B>, lane: LaneId, secret: &str, overlap: Nanos) -> Reply {
    let retire = later(world.now, overlap);
    world.one(Command::Rotate(Rotate { lane, secret: Secret::new(secret), retire, now: world.now }))
}

fn fill_with_secrets<B: Backend>(world: &mut World<B>, lane: LaneId) {
    for number in 1..Keys::COUNT_MAX {
        assert_eq!(rotate(world, lane, &number.to_string(), Nanos::HOUR), Reply::Done);
    }
}

pub(super) fn a_subscriber_reads_as_it_was_written<B: Backend>() {
    let mut world = World::<B>::new();
    let bounds = Bounds { rows_max: 7, bytes_max: u64::MAX, when_full: WhenFull::ShedOldest };
    let Reply::Subscribed { lane } = world.one(Command::Subscribe(subscribe("ä", bounds))) else { panic!() };
    let found = read(&world, SubscriberRef::Lane(lane)).unwrap();
    assert_eq!((&*found.id, &*found.name, &*found.url), ("sub_ä", "ä", "https://partner.example/hook"));
    assert_eq!((&*found.patterns, &*found.settings), (r#"["video.*"]"#, r#"{"rate":"5/s"}"#));
    assert_eq!((found.state, found.version, found.created), (LaneState::Active, 1, world.now));
    assert_eq!((found.bounds.rows_max, found.bounds.when_full), (7, WhenFull::ShedOldest));
    assert!(found.bounds.bytes_max >= 1 << 62, "as good as boundless");
    assert_eq!(read(&world, SubscriberRef::Id("sub_ä".into())).as_ref(), Some(&found));
    assert_eq!(read(&world, SubscriberRef::Name("ä".into())).as_ref(), Some(&found));
    assert_eq!(read(&world, SubscriberRef::Name("sub_ä".into())), None);
}

pub(super) fn names_and_ids_are_unique<B: Backend>() {
    let mut world = World::<B>::new();
    add(&mut world, "a");
    let Reply::Subscribed { lane } = add(&mut world, "b") else { panic!() };
    assert_eq!(add(&mut world, "a"), Reply::Refused(Refusal::IdTaken("sub_a".into())));
    let mut twin = subscribe("a", WIDE);
    twin.id = "sub_c".into();
    assert_eq!(world.one(Command::Subscribe(twin)), Reply::Refused(Refusal::NameTaken("a".into())));
    let rename = |name: &str| Change { name: Some(name.into()), ..Change::of(lane) };
    assert_eq!(world.change(rename("a")), Reply::Refused(Refusal::NameTaken("a".into())));
    assert_eq!(world.change(rename("b")), Reply::Done);
}

pub(super) fn a_removed_name_is_free_again<B: Backend>() {
    let mut world = World::<B>::new();
    let Reply::Subscribed { lane } = add(&mut world, "a") else { panic!() };
    world.one(Command::Remove(lane));
    assert_eq!(read(&world, SubscriberRef::Name("a".into())), None);
    let mut heir = subscribe("a", WIDE);
    heir.id = "sub_heir".into();
    let Reply::Subscribed { lane: other } = world.one(Command::Subscribe(heir)) else { panic!() };
    assert_ne!(other, lane);
    assert_eq!(add(&mut world, "a"), Reply::Refused(Refusal::IdTaken("sub_a".into())));
}

pub(super) fn a_change_makes_a_new_roster<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let mut roster = world.reader.glance().unwrap().roster;
    let changes = [
        Change { url: Some("https://elsewhere.example/".into()), ..Change::of(lane) },
        Change { patterns: Some("[]".into()), ..Change::of(lane) },
        Change { settings: Some("{}".into()), ..Change::of(lane) },
        Change { name: Some("new".into()), ..Change::of(lane) },
        Change { bounds: Some(Bounds { rows_max: 1, ..WIDE }), ..Change::of(lane) },
        Change { state: Some(LaneState::Paused), ..Change::of(lane) },
    ];
    for change in changes {
        assert_eq!(world.change(change), Reply::Done);
        let next = world.reader.glance().unwrap().roster;
        assert_eq!(next, roster + 1);
        roster = next;
    }
    let found = read(&world, SubscriberRef::Lane(lane)).unwrap();
    assert_eq!((&*found.url, &*found.patterns, &*found.settings), ("https://elsewhere.example/", "[]", "{}"));
    assert_eq!((&*found.name, found.bounds.rows_max, found.state), ("new", 1, LaneState::Paused));
    assert_eq!(found.version, roster);
}

pub(super) fn a_change_of_what_has_changed_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let read_version = read(&world, SubscriberRef::Lane(lane)).unwrap().version;
    let pause = Change { version: Some(read_version), state: Some(LaneState::Paused), ..Change::of(lane) };
    assert_eq!(world.change(pause.clone()), Reply::Done);
    let conflict = Refusal::VersionConflict { expected: read_version, found: read_version + 1 };
    assert_eq!(world.change(pause), Reply::Refused(conflict));
}

/// A paused one would record events that its endpoint refused.
pub(super) fn a_disabled_subscriber_is_not_paused<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let to = |state| Change { state: Some(state), ..Change::of(lane) };
    assert_eq!(world.change(to(LaneState::Disabled)), Reply::Done);
    let refused = Reply::Refused(Refusal::NotActive(LaneState::Disabled));
    assert_eq!(world.change(to(LaneState::Paused)), refused);
    assert_eq!(world.change(to(LaneState::Active)), Reply::Done);
    assert_eq!(world.change(to(LaneState::Paused)), Reply::Done);
}

pub(super) fn secrets_sign_together_until_the_old_one_retires<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    assert_eq!(rotate(&mut world, lane, "second", Nanos::HOUR), Reply::Done);
    assert_eq!(secrets(&world, lane), ["second", "whsec_s1"]);
    assert_eq!(rotate(&mut world, lane, "third", Nanos::DAY), Reply::Done);
    assert_eq!(secrets(&world, lane), ["third", "second", "whsec_s1"]);
    world.pass(Nanos::HOUR);
    assert_eq!(secrets(&world, lane), ["third", "second"]);
    world.pass(Nanos::DAY);
    assert_eq!(secrets(&world, lane), ["third"]);
    // At once, if it leaked.
    assert_eq!(rotate(&mut world, lane, "fourth", Nanos::ZERO), Reply::Done);
    assert_eq!(secrets(&world, lane), ["fourth"]);
}

pub(super) fn there_is_an_end_to_secrets<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let max = u64::try_from(Keys::COUNT_MAX).unwrap();
    let refused = Reply::Refused(Refusal::TooManySecrets { live: max, max });
    fill_with_secrets(&mut world, lane);
    assert_eq!(rotate(&mut world, lane, "x", Nanos::HOUR), refused);
    assert_eq!(secrets(&world, lane).len(), Keys::COUNT_MAX, "as many as sign at once");
    world.pass(Nanos::HOUR);
    assert_eq!(rotate(&mut world, lane, "x", Nanos::HOUR), Reply::Done);
}

pub(super) fn however_many_secrets_there_are_they_may_retire_at_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    fill_with_secrets(&mut world, lane);
    assert_eq!(rotate(&mut world, lane, "new", Nanos::ZERO), Reply::Done);
    assert_eq!(secrets(&world, lane), ["new"]);
    // More secrets are live than may sign.
    world.now = StoreTime(world.now.0 - 1);
    assert_eq!(secrets(&world, lane), ["new", "3", "2", "1"]);
}

pub(super) fn a_removed_subscriber_has_no_secrets_and_its_debt_is_given_up<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    for _ in 0..3 {
        world.emit_one(lane);
    }
    assert_eq!(world.one(Command::Remove(lane)), Reply::Done);
    assert_eq!(secrets(&world, lane), [""; 0]);
    assert_eq!(world.try_claim(lane, term, 9), Err(Refusal::UnknownLane(lane)));
    let sweep = Command::Sweep(Sweep { max: 2 });
    assert_eq!(world.one(sweep.clone()), Reply::Swept(Swept { gone: 2, more: true, ..Swept::default() }));
    assert_eq!(world.one(sweep), Reply::Swept(Swept { gone: 1, more: false, ..Swept::default() }));
    let letters = world.reader.dead(&Lanes::One(lane), None, 10).unwrap().items;
    assert_eq!(letters.iter().map(|letter| letter.reason).collect::<Vec<_>>(), [Reason::Gone; 3]);
    let redrive = Redrive { which: Dead::Of(lane), after: None, max: 10 };
    let Reply::Redriven(redriven) = world.one(Command::Redrive(redrive)) else { panic!() };
    assert_eq!((redriven.rows.len(), redriven.kept), (0, 3));
}

pub(super) fn a_commit_may_sweep_the_lane_that_it_removes<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    let replies = world.all(&[Command::Remove(lane), Command::Sweep(Sweep { max: 9 })]);
    assert_eq!(replies[1], Reply::Swept(Swept { gone: 1, more: false, ..Swept::default() }));
}

pub(super) fn a_removed_subscriber_vanishes_with_its_last_trace<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    world.emit_one(lane);
    world.one(Command::Remove(lane));
    let purge = |world: &mut World<B>| {
        let purge = Purge {
            settled_before: world.now,
            attempts_before: world.now,
            dead_before: world.now,
            changes_before: StoreTime(0),
            max: 100,
        };
        world.one(Command::Purge(purge));
        world.lanes().len()
    };
    world.pass(Nanos::HOUR);
    assert_eq!(purge(&mut world), 1, "something still waits");
    world.one(Command::Sweep(Sweep { max: 100 }));
    assert_eq!(purge(&mut world), 1, "a dead letter is kept");
    world.pass(Nanos::HOUR);
    assert_eq!(purge(&mut world), 0);
    let total = world.total();
    assert_eq!((total.accepted, total.dead, total.dead_kept), (1, 1, 0));
    assert!(world.new_lane(WIDE) > lane);
}

pub(super) fn an_unknown_subscriber_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let removed = world.new_lane(WIDE);
    world.one(Command::Remove(removed));
    for lane in [removed, LaneId(99), LaneId(u64::MAX)] {
        let rotate = Rotate { lane, secret: Secret::new("x"), retire: world.now, now: world.now };
        for command in [Command::Change(Change::of(lane)), Command::Remove(lane), Command::Rotate(rotate)] {
            assert_eq!(world.one(command.clone()), Reply::Refused(Refusal::UnknownLane(lane)), "{command:?}");
        }
    }
    let lane = world.new_lane(WIDE);
    let remove = Change { state: Some(LaneState::Removed), ..Change::of(lane) };
    assert!(matches!(world.change(remove), Reply::Refused(Refusal::Nonsense(_))));
}

pub(super) fn a_secret_does_not_show_itself<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let shown = format!("{:?}", subscribe("s1", WIDE));
    assert!(!shown.contains("whsec_"), "{shown}");
    let shown = format!("{:?}", world.reader.secrets(lane, world.now).unwrap());
    assert!(!shown.contains("whsec_"), "{shown}");
}

fn pause(lane: LaneId, reason: &str, until: Option<StoreTime>) -> Change {
    let pause = Pause { reason: Some(reason.into()), until };
    Change { state: Some(LaneState::Paused), pause, ..Change::of(lane) }
}

fn sweep<B: Backend>(world: &mut World<B>) -> u64 {
    match world.one(Command::Sweep(Sweep { max: 9 })) {
        Reply::Swept(swept) => swept.resumed,
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_pause_ends_at_its_time_whoever_sweeps<B: Backend>() {
    let mut world = World::<B>::new();
    let [short, long, open] = [1, 2, 3].map(|_| world.new_lane(WIDE));
    let end = later(world.now, Nanos::HOUR);
    let change = pause(short, "move", Some(end));
    assert_eq!(world.change(change.clone()), Reply::Done);
    world.change(pause(long, "holiday", Some(later(end, Nanos(1)))));
    world.change(pause(open, "bug", None));
    let state = |world: &World<B>, lane| {
        let (status, whole) = (world.lane(lane), read(world, SubscriberRef::Lane(lane)).unwrap());
        assert_eq!((status.state, &status.pause), (whole.state, &whole.pause));
        (whole.state, whole.pause)
    };
    assert_eq!(state(&world, short), (LaneState::Paused, change.pause));
    world.pass(Nanos(Nanos::HOUR.0 - 1));
    assert_eq!(sweep(&mut world), 0);
    world.crash();
    world.pass(Nanos(1));
    let roster = world.reader.glance().unwrap().roster;
    assert_eq!(sweep(&mut world), 1);
    assert_eq!(state(&world, short), (LaneState::Active, Pause::default()));
    assert_eq!(read(&world, SubscriberRef::Lane(short)).unwrap().version, roster + 1);
    assert_eq!(state(&world, long).0, LaneState::Paused);
    world.pass(Nanos(1));
    let mut other = world.backend.store();
    let sweeps = [Command::Sweep(Sweep { max: 9 })];
    let Reply::Swept(swept) = other.commit(world.now, &sweeps).unwrap().remove(0) else { panic!() };
    assert_eq!((swept.resumed, sweep(&mut world)), (1, 0), "once");
    assert_eq!(state(&world, long), (LaneState::Active, Pause::default()));
    world.pass(Nanos::DAY.times(400));
    assert_eq!(sweep(&mut world), 0);
    assert_eq!(state(&world, open).0, LaneState::Paused);
}

pub(super) fn only_the_pause_that_an_operator_asked_for_last_ends<B: Backend>() {
    let mut world = World::<B>::new();
    let [longer, resumed, removed] = [1, 2, 3].map(|_| world.new_lane(WIDE));
    let (gone, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(gone);
    world.claim(gone, term);
    let end = later(world.now, Nanos::HOUR);
    for lane in [longer, resumed, gone, removed] {
        world.change(pause(lane, "move", Some(end)));
    }
    world.change(pause(longer, "it takes longer", Some(later(end, Nanos::HOUR))));
    world.change(Change { state: Some(LaneState::Active), ..Change::of(resumed) });
    world.change(Change { state: Some(LaneState::Paused), ..Change::of(resumed) });
    world.settle(gone, term, delivery, Fate::Dead(Reason::Gone));
    world.one(Command::Remove(removed));
    world.pass(Nanos::HOUR);
    assert_eq!(sweep(&mut world), 0);
    let states = [longer, resumed, gone].map(|lane| world.lane(lane).state);
    assert_eq!(states, [LaneState::Paused, LaneState::Paused, LaneState::Disabled]);
    world.pass(Nanos::HOUR);
    assert_eq!(sweep(&mut world), 1);
    assert_eq!(world.lane(longer).state, LaneState::Active);
}

pub(super) fn a_resumed_subscriber_and_one_with_another_url_are_tried_at_once<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let state = |state| Change { state: Some(state), ..Change::of(lane) };
    let url = |url: &str| Change { url: Some(url.into()), ..Change::of(lane) };
    let name = Change { name: Some("another".into()), ..Change::of(lane) };
    for (change, tried) in [
        (name, false),
        (url("https://partner.example/hook"), false),
        (url("https://partner.example/moved"), true),
        (state(LaneState::Active), false),
        (state(LaneState::Paused), false),
        (state(LaneState::Active), true),
        (state(LaneState::Disabled), false),
        (state(LaneState::Active), true),
    ] {
        let before = read(&world, SubscriberRef::Lane(lane)).unwrap();
        assert_eq!(world.change(change.clone()), Reply::Done);
        let now = read(&world, SubscriberRef::Lane(lane)).unwrap();
        let asked = if tried { now.version } else { before.retried.asked };
        assert_eq!((now.retried.asked, now.retried.insisted), (asked, 0), "{change:?}");
    }
}
