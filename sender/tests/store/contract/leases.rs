use std::collections::BTreeMap;
use std::sync::Mutex;

use hookproof_sender::engine::{LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{Acquire, Change, Fate, LaneSelection, Persist, Purge, Renew};
use hookproof_sender::store::lane::{LaneState, OwnerId};
use hookproof_sender::store::reply::{Ended, Handover, Record};
use hookproof_sender::store::{Command, Refusal, Reply, Store};

use crate::store::world::{Backend, LEASE, ME, WIDE, World, YOU, acquire, later};

const WITH_WORK: LaneSelection = LaneSelection::WithWork { after: LaneId(0) };

const ALMOST: Nanos = Nanos(LEASE.0 - 1);

pub(super) fn a_lane_has_one_owner<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    assert_eq!(world.own(ME, lane), Term(1));
    assert_eq!(world.acquire(YOU, LaneSelection::All), []);
    world.pass(ALMOST);
    assert_eq!(world.acquire(YOU, LaneSelection::These(vec![lane])), []);
    assert_eq!(world.lane(lane).owner, Some((ME, Term(1))));
}

pub(super) fn a_lease_that_ran_out_is_taken_over<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    world.persist(lane, term, b"state", false);
    let at = world.now;
    world.pass(LEASE);
    let taken = world.acquire(YOU, LaneSelection::All);
    assert_eq!((taken.len(), taken[0].lane, taken[0].term), (1, lane, Term(term.0 + 1)));
    let record = Some(Record { bytes: b"state".as_slice().into(), at });
    assert_eq!(taken[0].handover, Handover::Seized { from: ME, record, at: world.now, ended: Vec::new() });
}

pub(super) fn a_renewed_lease_holds<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes = [world.own_lane(WIDE).0, world.own_lane(WIDE).0];
    for _ in 0..5 {
        world.pass(ALMOST);
        assert_eq!(world.renew(ME), []);
        assert_eq!(world.acquire(YOU, LaneSelection::These(lanes.to_vec())), []);
    }
    // No other process has taken the lane.
    world.pass(Nanos::HOUR);
    assert_eq!(world.renew(ME), []);
    assert_eq!(world.acquire(YOU, LaneSelection::All), []);
}

pub(super) fn a_lane_that_was_handed_back_is_taken_over_clean<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let taken = world.acquire(ME, LaneSelection::All);
    assert_eq!((taken[0].lane, &taken[0].handover), (lane, &Handover::Fresh));
    let term = taken[0].term;
    world.persist(lane, term, b"not this one", false);
    assert_eq!(world.persist(lane, term, b"level 3", true), Reply::Done);
    let at = world.now;
    world.pass(Nanos::SECOND);
    let taken = world.acquire(YOU, LaneSelection::All);
    let record = Record { bytes: b"level 3".as_slice().into(), at };
    assert_eq!((taken[0].term, &taken[0].handover), (Term(2), &Handover::Clean(record)));
}

pub(super) fn a_clean_hand_over_is_clean_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    world.persist(lane, term, b"level 3", true);
    world.own(YOU, lane);
    // The earlier checkpoint says nothing about its attempts.
    world.pass(LEASE);
    let taken = world.acquire(ME, LaneSelection::All);
    assert!(matches!(taken[0].handover, Handover::Seized { from: YOU, .. }), "{taken:?}");
}

pub(super) fn a_record_persisted_under_an_old_term_is_refused<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    world.pass(LEASE);
    let current = world.own(YOU, lane);
    let stale = Reply::Refused(Refusal::StaleTerm { lane, term, current });
    assert_eq!(world.persist(lane, term, b"old", false), stale);
    assert_eq!(world.persist(lane, term, b"old", true), stale);
    assert_eq!(world.lane(lane).owner, Some((YOU, current)));
    world.persist(lane, current, b"new", true);
    assert_eq!(
        world.persist(lane, current, b"newer", false),
        Reply::Refused(Refusal::StaleTerm { lane, term: current, current })
    );
    let taken = world.acquire(ME, LaneSelection::All);
    assert!(matches!(&taken[0].handover, Handover::Clean(record) if *record.bytes == *b"new"), "{taken:?}");
}

pub(super) fn an_owner_that_lost_lanes_is_notified_once<B: Backend>() {
    let mut world = World::<B>::new();
    let (kept, _) = world.own_lane(WIDE);
    let (lost, term) = world.own_lane(WIDE);
    world.renew(ME);
    world.pass(LEASE);
    let acquire_one = |which| Acquire { owner: YOU, lease: LEASE, which, homes: None, max: 1 };
    let mut other = world.backend.store();
    let these = Command::Acquire(acquire_one(LaneSelection::These(vec![lost, kept])));
    other.commit(world.now, &[these]).unwrap();
    assert_eq!(world.renew(ME), [(lost, term)]);
    assert_eq!(world.renew(ME), []);
    assert_eq!(world.lane(kept).owner.map(|(owner, _)| owner), Some(ME));
}

pub(super) fn a_late_settlement_hides_no_loss<B: Backend>() {
    for fate in [Fate::Delivered, Fate::Released] {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        world.emit_one(lane);
        let delivery = world.claim(lane, term)[0];
        world.renew(ME);
        world.pass(LEASE);
        let mut other = world.backend.store();
        other.commit(world.now, &[acquire(YOU, LaneSelection::All)]).unwrap();
        let late = world.settlement(lane, term, delivery, fate);
        let renew = Command::Renew(Renew { owner: ME, lease: LEASE, announce: None });
        let replies = world.all(&[Command::Settle(vec![late]), renew]);
        let Reply::Renewed(renewed) = &replies[1] else { panic!("{replies:?}") };
        assert_eq!(renewed.lost, [(lane, term)], "{fate:?}");
    }
}

pub(super) fn losses_are_told_even_to_an_owner_that_was_forgotten<B: Backend>() {
    let mut world = World::<B>::new();
    let (lost, term) = world.own_lane(WIDE);
    world.renew(ME);
    world.pass(LEASE);
    let mut other = world.backend.store();
    let sweep = Command::Sweep(hookproof_sender::store::command::Sweep { max: 1 });
    other.commit(world.now, &[acquire(YOU, LaneSelection::All), sweep]).unwrap();
    assert!(world.reader.owners().unwrap().iter().all(|owner| owner.owner != ME), "it owns nothing any more");
    let another = world.new_lane(WIDE);
    world.own(ME, another);
    assert_eq!(world.renew(ME), [(lost, term)]);
}

pub(super) fn a_surely_dead_owner_loses_its_lanes_at_once<B: Backend>() {
    let mut world = World::<B>::new();
    world.own_lane(WIDE);
    world.one(Command::Evict(ME));
    let taken = world.acquire(YOU, LaneSelection::All);
    assert_eq!(
        taken[0].handover,
        Handover::Seized { from: ME, record: None, at: world.now, ended: Vec::new() }
    );
}

const CAPPED: &str = r#"{"limit":{"windows":["1000000 per 31d"]}}"#;

fn capped_lane<B: Backend>(world: &mut World<B>, settings: &str) -> (LaneId, Term) {
    let (lane, term) = world.own_lane(WIDE);
    world.change(Change { settings: Some(settings.into()), ..Change::of(lane) });
    world.persist(lane, term, b"state", false);
    (lane, term)
}

fn attempts<B: Backend>(world: &mut World<B>, (lane, term): (LaneId, Term), count: u32, gap: Nanos) {
    for _ in 0..count {
        world.pass(gap);
        let delivery = world.emit_one(lane);
        world.claim(lane, term);
        world.settle(lane, term, delivery, Fate::Delivered);
    }
}

fn ended<B: Backend>(world: &mut World<B>) -> Vec<Ended> {
    world.one(Command::Evict(ME));
    match world.acquire(YOU, LaneSelection::All).remove(0).handover {
        Handover::Seized { ended, at, .. } => {
            assert_eq!(at, world.now);
            ended
        }
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_takeover_of_a_capped_lane_returns_its_ended_attempts<B: Backend>() {
    // Unreadable settings may contain caps.
    for settings in [CAPPED, "{"] {
        let mut world = World::<B>::new();
        let lane = capped_lane(&mut world, settings);
        let began = world.now;
        attempts(&mut world, lane, 3, Nanos::SECOND);
        let took = Nanos::from_millis(20);
        let expected: Vec<_> = (1..=3)
            .map(|n| later(later(began, Nanos::from_secs(n)), took))
            .map(|at| Ended { at, count: 1 })
            .collect();
        world.pass(Nanos::SECOND);
        assert_eq!(ended(&mut world), expected, "{settings}");
    }
}

pub(super) fn a_takeover_of_a_lane_without_caps_returns_no_attempts<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.own_lane(WIDE);
    world.persist(lane.0, lane.1, b"state", false);
    attempts(&mut world, lane, 3, Nanos::SECOND);
    assert_eq!(ended(&mut world), []);
}

pub(super) fn many_ends_are_told_in_few_runs_and_none_too_early<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = capped_lane(&mut world, CAPPED);
    let began = world.now;
    attempts(&mut world, lane, 2_100, Nanos::SECOND);
    world.pass(Nanos::SECOND);
    let ended = ended(&mut world);
    assert!(ended.len() <= 1_024, "{}", ended.len());
    assert_eq!(ended.iter().map(|run| run.count).sum::<u32>(), 2_100);
    // At no moment may the runs count more ends than there were.
    let mut said = 0;
    for run in &ended {
        said += run.count;
        let had = run.at.since(began).0 / Nanos::SECOND.0;
        assert!(u64::from(said) <= had, "{said} of {had}");
    }
}

pub(super) fn attempts_that_a_cap_counts_outlive_the_attempt_log<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = capped_lane(&mut world, CAPPED);
    attempts(&mut world, lane, 5, Nanos::SECOND);
    world.pass(Nanos::DAY.times(20));
    let purge = |world: &mut World<B>| {
        let (never, now) = (StoreTime(0), world.now);
        let purge = Purge {
            settled_before: never,
            attempts_before: now,
            dead_before: never,
            changes_before: StoreTime(0),
            max: 100,
        };
        match world.one(Command::Purge(purge)) {
            Reply::Purged(purged) => purged.attempts,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(purge(&mut world), 0);
    world.renew(ME);
    assert_eq!(ended(&mut world).len(), 5);
    // The store deletes ends once a checkpoint includes them, or no window reaches back to them.
    let term = world.lane(lane.0).owner.unwrap().1;
    world.persist(lane.0, term, b"later state", false);
    assert_eq!(purge(&mut world), 5);
}

pub(super) fn one_does_not_take_what_one_has<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    assert_eq!(world.acquire(ME, LaneSelection::All), []);
    world.pass(Nanos::HOUR);
    assert_eq!(world.acquire(ME, LaneSelection::These(vec![lane])), []);
    assert_eq!(world.lane(lane).owner, Some((ME, term)));
}

pub(super) fn lanes_with_work_are_active_and_have_some<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..5).map(|_| world.new_lane(WIDE)).collect();
    world.emit(&lanes[1..]);
    world.change(Change { state: Some(LaneState::Paused), ..Change::of(lanes[2]) });
    world.one(Command::Remove(lanes[3]));
    let names = |taken: Vec<hookproof_sender::store::reply::TakenLane>| -> Vec<LaneId> {
        taken.iter().map(|taken| taken.lane).collect()
    };
    let behind = world.acquire(YOU, LaneSelection::WithWork { after: lanes[1] });
    assert_eq!(names(behind), [lanes[4]]);
    let with_work = world.acquire(ME, WITH_WORK);
    assert_eq!(names(with_work), [lanes[1]]);
    let rest = world.acquire(YOU, LaneSelection::These(lanes.clone()));
    assert_eq!(rest[1].state, LaneState::Paused);
    assert_eq!(names(rest), [lanes[0], lanes[2]]);
    let lane = world.new_lane(WIDE);
    let emit = Command::Emit(world.event(&[lane]));
    let replies = world.all(&[emit, acquire(ME, WITH_WORK)]);
    assert!(matches!(&replies[1], Reply::Acquired(taken) if taken.len() == 1), "{replies:?}");
}

pub(super) fn a_taken_lane_says_when_its_first_is_due<B: Backend>() {
    let mut world = World::<B>::new();
    let (busy, idle) = (world.new_lane(WIDE), world.new_lane(WIDE));
    let mut event = world.event(&[busy]);
    event.targets[0].due = later(world.now, Nanos::MINUTE);
    let due = event.targets[0].due;
    world.try_emit(event).unwrap();
    let taken = world.acquire(ME, LaneSelection::These(vec![busy, idle]));
    assert_eq!(taken.iter().map(|taken| taken.next).collect::<Vec<_>>(), [Some(due), None]);
}

pub(super) fn a_clock_behind_robs_nobody<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let ahead = world.now;
    world.emit_one(lane);
    // The clock steps back by an hour, and then a process starts.
    world.now = hookproof_sender::engine::StoreTime(ahead.0 - Nanos::HOUR.0);
    world.own(ME, lane);
    world.renew(ME);
    world.now = later(ahead, ALMOST);
    assert_eq!(world.acquire(YOU, LaneSelection::All), []);
    world.now = later(ahead, LEASE);
    assert_eq!(world.acquire(YOU, LaneSelection::All).len(), 1);
}

pub(super) fn claimed_rows_are_forgotten_with_the_lane<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [delivery]);
    world.persist(lane, term, b"", true);
    let again = world.own(ME, lane);
    assert_eq!(world.claim(lane, again), [delivery]);
    let due = world.now;
    world.settle(lane, term, delivery, Fate::Retry { due });
    assert_eq!(world.claim(lane, again), []);
}

/// Each records its lanes outside the store.
pub(super) fn many_at_once_never_own_a_lane_together<B: Backend>() {
    let mut world = World::<B>::new();
    let lanes: Vec<LaneId> = (0..4).map(|_| world.new_lane(WIDE)).collect();
    for lane in &lanes {
        world.emit_one(*lane);
    }
    let noted = Mutex::new(BTreeMap::new());
    let (now, noted) = (world.now, &noted);
    let turns: u64 = std::thread::scope(|scope| {
        let fighters: Vec<_> = (10..14)
            .map(|number| {
                let store = world.backend.store();
                scope.spawn(move || fight(store, OwnerId(number), now, noted))
            })
            .collect();
        fighters.into_iter().map(|fighter| fighter.join().unwrap()).sum()
    });
    let terms: u64 = world.lanes().iter().map(|lane| world.own(ME, lane.lane).0 - 1).sum();
    assert_eq!(terms, turns, "each ownership has a term of its own");
}

fn fight(
    mut store: Box<dyn Store>,
    me: OwnerId,
    now: hookproof_sender::engine::StoreTime,
    noted: &Mutex<BTreeMap<LaneId, OwnerId>>,
) -> u64 {
    let mut turns = 0;
    for _ in 0..30 {
        let replies = store.commit(now, &[acquire(me, WITH_WORK)]).unwrap();
        let Reply::Acquired(taken) = &replies[0] else { panic!("{replies:?}") };
        for lane in taken {
            let before = noted.lock().unwrap().insert(lane.lane, me);
            assert_eq!(before, None, "lane {} had two owners", lane.lane.0);
            turns += 1;
        }
        store.commit(now, &[Command::Renew(Renew { owner: me, lease: LEASE, announce: None })]).unwrap();
        for lane in taken {
            assert_eq!(noted.lock().unwrap().remove(&lane.lane), Some(me));
            let persist =
                Persist { lane: lane.lane, term: lane.term, record: Box::default(), hand_back: true };
            assert_eq!(store.commit(now, &[Command::Persist(persist)]).unwrap(), [Reply::Done]);
        }
    }
    turns
}
