use std::collections::BTreeMap;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::event::EventPatterns;
use hookproof_sender::store::command::{Change, Dead, Emit, Fate, Shed};
use hookproof_sender::store::job::{
    ENDED_JOBS_MAX, JOB_LEASE, Job, JobId, JobKind, JobState, OPEN_JOBS_MAX, SetJob, StartJob, StepJob, Task,
};
use hookproof_sender::store::lane::{Bounds, LaneState, Limits};
use hookproof_sender::store::read::Place;
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::{Backend, ME, WIDE, World, YOU, at_once, later};

fn letters<B: Backend>(world: &mut World<B>, lane: LaneId, count: u32) -> Vec<DeliveryId> {
    let letters: Vec<DeliveryId> = (0..count).map(|_| world.emit_one(lane)).collect();
    world.one(Command::Shed(Shed { lane, max: count }));
    letters
}

fn task<B: Backend>(world: &World<B>, kind: JobKind, which: Dead) -> Task {
    let last = world.reader.glance().unwrap().last;
    let (since, before) = (StoreTime(0), StoreTime(0));
    Task { kind, which, since, before, events: None, last, planned: 5, by: "ann".into() }
}

fn job(reply: Reply) -> Job {
    match reply {
        Reply::Job(job) => *job,
        other => panic!("{other:?}"),
    }
}

fn start<B: Backend>(world: &mut World<B>, task: Task) -> JobId {
    job(world.one(Command::StartJob(StartJob { task, worker: ME }))).id
}

fn step<B: Backend>(world: &mut World<B>, job: JobId, max: u32) -> Job {
    self::job(world.one(Command::StepJob(StepJob { job, lane: None, worker: ME, max })))
}

fn set(job: JobId, state: JobState) -> Command {
    Command::SetJob(SetJob { job, state, error: None })
}

fn read<B: Backend>(world: &World<B>, job: JobId) -> Job {
    world.reader.jobs(Some(job)).unwrap().pop().unwrap()
}

pub(super) fn a_step_and_its_row_are_one_commit_that_survives_a_power_cut<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let dead = letters(&mut world, lane, 5);
    let new = task(&world, JobKind::Redrive, Dead::Of(lane));
    let id = start(&mut world, new.clone());
    for (done, cursor, state) in
        [(2, 1, JobState::Running), (4, 3, JobState::Running), (5, 4, JobState::Done)]
    {
        let now = world.now;
        let stepped = step(&mut world, id, 2);
        assert_eq!((stepped.done, stepped.skipped, stepped.state), (done, 0, state));
        assert_eq!((stepped.cursor, stepped.ended), (dead[cursor], (state == JobState::Done).then_some(now)));
        world = World::over(world.backend.after_power_cut());
        world.now = now;
        assert_eq!(read(&world, id), stepped);
        assert_eq!((stepped.task, stepped.begun), (new.clone(), now));
        assert_eq!(world.counts(lane).waiting, done);
    }
    assert_eq!(step(&mut world, id, 2).done, 5, "it is over");
    assert_eq!(world.one(set(id, JobState::Running)), Reply::Refused(Refusal::JobOver(JobState::Done)));
}

pub(super) fn what_dies_after_its_beginning_is_not_part_of_a_job<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let dead = letters(&mut world, lane, 2);
    let all = task(&world, JobKind::Redrive, Dead::All);
    let id = start(&mut world, all);
    let later = letters(&mut world, lane, 2);
    step(&mut world, id, 1);
    let done = step(&mut world, id, 9);
    assert_eq!((done.done, done.state), (2, JobState::Done));
    assert_eq!(
        dead.iter().chain(&later).map(|one| world.place(*one)).collect::<Vec<_>>(),
        [Some(Place::Waiting), Some(Place::Waiting), Some(Place::Dead), Some(Place::Dead)]
    );
}

pub(super) fn an_older_delivery_that_dies_after_its_beginning_is_not_part_of_a_job<B: Backend>() {
    for kind in [JobKind::Redrive, JobKind::Purge] {
        let mut world = World::<B>::new();
        let lane = world.new_lane(WIDE);
        let dead = letters(&mut world, lane, 1);
        let older = world.emit_one(lane);
        let task = task(&world, kind, Dead::Of(lane));
        let id = start(&mut world, task);
        world.pass(Nanos::SECOND);
        world.one(Command::Shed(Shed { lane, max: 1 }));
        let done = step(&mut world, id, 9);
        assert_eq!((done.done, done.skipped, done.state), (1, 0, JobState::Done));
        assert_ne!(world.place(dead[0]), Some(Place::Dead));
        assert_eq!(world.place(older), Some(Place::Dead));
    }
}

pub(super) fn a_job_may_concern_the_letters_since_a_time<B: Backend>() {
    for (kind, place) in [(JobKind::Redrive, Some(Place::Waiting)), (JobKind::Purge, None)] {
        let mut world = World::<B>::new();
        let lane = world.new_lane(WIDE);
        let older = letters(&mut world, lane, 2);
        world.pass(Nanos::SECOND);
        let since = world.now;
        let newer = letters(&mut world, lane, 2);
        let task = Task { since, ..task(&world, kind, Dead::Of(lane)) };
        let id = start(&mut world, task);
        let done = step(&mut world, id, 9);
        assert_eq!((done.done, done.skipped, done.state), (2, 0, JobState::Done));
        assert!(older.iter().all(|one| world.place(*one) == Some(Place::Dead)));
        assert!(newer.iter().all(|one| world.place(*one) == place));
    }
}

pub(super) fn letters_without_room_are_skipped_and_counted<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(Bounds { rows_max: 3, ..WIDE });
    for _ in 0..5 {
        letters(&mut world, lane, 1);
    }
    let all = task(&world, JobKind::Redrive, Dead::All);
    let id = start(&mut world, all);
    let done = step(&mut world, id, 9);
    assert_eq!((done.done, done.skipped, done.state), (3, 2, JobState::Done));
}

fn deliver<B: Backend>(world: &mut World<B>, lane: LaneId, term: Term) {
    for delivery in world.claim(lane, term) {
        world.settle(lane, term, delivery, Fate::Delivered);
    }
}

fn delivered<B: Backend>(world: &mut World<B>, lane: LaneId, term: Term, count: u32) -> Vec<DeliveryId> {
    let all = (0..count).map(|_| world.emit_one(lane)).collect();
    deliver(world, lane, term);
    all
}

/// Of all events until now.
fn replay<B: Backend>(world: &World<B>, lane: LaneId) -> Task {
    Task { before: later(world.now, Nanos(1)), ..task(world, JobKind::Replay, Dead::Of(lane)) }
}

pub(super) fn a_job_of_one_subscriber_waits_for_room_and_goes_on<B: Backend>() {
    for kind in [JobKind::Redrive, JobKind::Replay] {
        let mut world = World::<B>::new();
        let (lane, term) = world.own_lane(WIDE);
        let all = if kind == JobKind::Replay {
            delivered(&mut world, lane, term, 3)
        } else {
            letters(&mut world, lane, 3)
        };
        world.change(Change { bounds: Some(Bounds { rows_max: 2, ..WIDE }), ..Change::of(lane) });
        let task = Task { kind, ..replay(&world, lane) };
        let id = start(&mut world, task);
        let first = step(&mut world, id, 9);
        assert_eq!((first.done, first.skipped, first.cursor), (2, 0, all[1]), "{kind:?}");
        world.pass(Nanos::SECOND);
        let stands = step(&mut world, id, 9);
        assert_eq!((stands.done, stands.state, stands.stands_since(&first)), (2, JobState::Running, true));
        deliver(&mut world, lane, term);
        let done = step(&mut world, id, 9);
        assert_eq!((done.done, done.skipped, done.state), (3, 0, JobState::Done), "{kind:?}");
        assert_eq!(world.claim(lane, term), all[2..], "each once");
    }
}

pub(super) fn a_replay_sends_again_what_was_delivered_in_a_span<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let (other, term_of_other) = world.own_lane(WIDE);
    delivered(&mut world, lane, term, 1);
    let [early, late] = [(); 2].map(|()| world.emit_one(lane));
    assert_eq!(world.claim(lane, term), [early, late]);
    world.pass(Nanos::SECOND);
    let since = world.now;
    world.settle(lane, term, early, Fate::Delivered);
    let wanted = [early, delivered(&mut world, lane, term, 1)[0]];
    letters(&mut world, lane, 1);
    delivered(&mut world, other, term_of_other, 1);
    world.pass(Nanos::SECOND);
    let before = world.now;
    world.settle(lane, term, late, Fate::Delivered);
    let waits = world.emit_one(lane);
    assert_eq!(world.reader.delivered(lane, (since, before), None), Ok(2));
    let span = Task { since, before, ..replay(&world, lane) };
    let id = start(&mut world, span.clone());
    let first = step(&mut world, id, 1);
    assert_eq!((first.done, first.cursor, first.state), (1, wanted[0], JobState::Running));
    assert_eq!(first.task, span);
    deliver(&mut world, lane, term);
    while step(&mut world, id, 1).state == JobState::Running {}
    let done = read(&world, id);
    assert_eq!((done.done, done.skipped, done.state), (2, 0, JobState::Done));
    let counts = world.counts(lane);
    assert_eq!((counts.waiting, world.counts(other).waiting), (1, 0));
    assert_eq!(world.place(wanted[1]), Some(Place::Waiting));
    assert_eq!((world.place(late), world.place(waits)), (Some(Place::Delivered), Some(Place::Delivered)));
}

pub(super) fn a_replay_takes_the_types_that_its_row_names<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut emitted = BTreeMap::new();
    for kind in ["order.paid", "video.new", "order.made.twice", "order"] {
        let event = Emit { kind: kind.into(), ..world.event(&[lane]) };
        world.try_emit(event).unwrap();
        let delivery = world.claim(lane, term)[0];
        world.settle(lane, term, delivery, Fate::Delivered);
        emitted.insert(kind, delivery);
    }
    let events: EventPatterns = serde_json::from_str(r#"["order.*", "refund.made"]"#).unwrap();
    let span = (StoreTime(0), later(world.now, Nanos(1)));
    assert_eq!(world.reader.delivered(lane, span, Some(&events)), Ok(2));
    assert_eq!(world.reader.delivered(lane, span, None), Ok(4));
    let task = Task { events: Some(events), ..replay(&world, lane) };
    let id = start(&mut world, task.clone());
    assert_eq!(read(&world, id).task, task);
    let done = step(&mut world, id, 9);
    assert_eq!((done.done, done.skipped, done.state), (2, 0, JobState::Done));
    assert_eq!(world.claim(lane, term), [emitted["order.paid"], emitted["order.made.twice"]]);
}

pub(super) fn a_replay_counts_what_it_cannot_send<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    let mut large = world.event(&[lane]);
    large.bodies = vec![crate::store::world::body(&[b'x'; 100])];
    world.try_emit(large).unwrap();
    let all = delivered(&mut world, lane, term, 2);
    world.one(Command::Erase(at_once(all[0], false)));
    world.change(Change { bounds: Some(Bounds { bytes_max: 50, ..WIDE }), ..Change::of(lane) });
    let task = replay(&world, lane);
    let id = start(&mut world, task);
    let done = step(&mut world, id, 9);
    assert_eq!((done.done, done.skipped, done.state), (1, 2, JobState::Done), "too large, and forgotten");
    assert_eq!(world.claim(lane, term), all[1..]);
}

pub(super) fn a_replay_to_a_disabled_subscriber_fails<B: Backend>() {
    let mut world = World::<B>::new();
    let (lane, term) = world.own_lane(WIDE);
    delivered(&mut world, lane, term, 1);
    world.change(Change { state: Some(LaneState::Disabled), ..Change::of(lane) });
    let task = replay(&world, lane);
    let id = start(&mut world, task);
    let failed = step(&mut world, id, 9);
    assert_eq!((failed.done, failed.state), (0, JobState::Failed));
    assert!(failed.error.as_deref().is_some_and(|error| error.contains("disabled")), "{failed:?}");
    let all = StartJob { task: Task { which: Dead::All, ..replay(&world, lane) }, worker: ME };
    assert!(matches!(world.one(Command::StartJob(all)), Reply::Refused(Refusal::Nonsense(_))));
}

pub(super) fn named_letters_are_purged_step_by_step<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    let dead = letters(&mut world, lane, 5);
    let these = Dead::These(vec![dead[4], dead[0], dead[2]]);
    let named = task(&world, JobKind::Purge, these);
    let id = start(&mut world, named.clone());
    assert_eq!(step(&mut world, id, 2).done, 2);
    assert_eq!(read(&world, id).task, named);
    let done = step(&mut world, id, 2);
    assert_eq!((done.done, done.state), (3, JobState::Done));
    assert_eq!(world.counts(lane).dead_kept, 2);
}

pub(super) fn a_shed_gives_up_as_many_as_were_planned<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    for _ in 0..9 {
        world.emit_one(lane);
    }
    let shed = task(&world, JobKind::Shed, Dead::Of(lane));
    let id = start(&mut world, shed);
    assert_eq!(step(&mut world, id, 3).state, JobState::Running);
    assert_eq!(step(&mut world, id, 3).state, JobState::Done);
    assert_eq!((world.counts(lane).waiting, world.counts(lane).dead_kept), (4, 5));
    let nowhere = task(&world, JobKind::Shed, Dead::Of(LaneId(99)));
    let id = start(&mut world, nowhere);
    let failed = step(&mut world, id, 3);
    assert_eq!(failed.state, JobState::Failed);
    assert_eq!(failed.error.as_deref(), Some("lane 99 is unknown or removed"));
    let all = StartJob { task: task(&world, JobKind::Shed, Dead::All), worker: ME };
    assert!(matches!(world.one(Command::StartJob(all)), Reply::Refused(Refusal::Nonsense(_))));
}

pub(super) fn a_shed_leaves_the_deliveries_since_its_beginning<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    for _ in 0..2 {
        world.emit_one(lane);
    }
    let shed = task(&world, JobKind::Shed, Dead::Of(lane));
    let id = start(&mut world, shed);
    for _ in 0..3 {
        world.emit_one(lane);
    }
    assert_eq!(step(&mut world, id, 9).done, 2);
    let done = step(&mut world, id, 9);
    assert_eq!((done.done, done.state), (2, JobState::Done));
    assert_eq!((world.counts(lane).waiting, world.counts(lane).dead_kept), (3, 2));
}

pub(super) fn a_paused_job_rests_and_a_cancelled_one_has_ended<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    letters(&mut world, lane, 5);
    let all = task(&world, JobKind::Redrive, Dead::All);
    let id = start(&mut world, all);
    step(&mut world, id, 1);
    world.one(set(id, JobState::Paused));
    world.crash();
    assert_eq!((step(&mut world, id, 9).state, world.counts(lane).waiting), (JobState::Paused, 1));
    world.one(set(id, JobState::Running));
    assert_eq!(step(&mut world, id, 1).done, 2);
    world.one(set(id, JobState::Cancelled));
    let cancelled = step(&mut world, id, 9);
    assert_eq!((cancelled.done, cancelled.state), (2, JobState::Cancelled));
    assert_eq!((cancelled.ended, world.counts(lane).waiting), (Some(world.now), 2));
    assert_eq!(world.one(set(JobId(9), JobState::Paused)), Reply::Refused(Refusal::UnknownJob(JobId(9))));
}

pub(super) fn one_process_works_at_a_job_until_it_rests_for_long<B: Backend>() {
    let mut world = World::<B>::new();
    let lane = world.new_lane(WIDE);
    letters(&mut world, lane, 5);
    let all = task(&world, JobKind::Redrive, Dead::All);
    let id = start(&mut world, all);
    let yours = Command::StepJob(StepJob { job: id, lane: None, worker: YOU, max: 1 });
    assert_eq!(job(world.one(yours.clone())).done, 0);
    world.pass(Nanos(JOB_LEASE.0 - 1));
    assert_eq!(step(&mut world, id, 1).done, 1);
    world.pass(Nanos(JOB_LEASE.0 - 1));
    assert_eq!(job(world.one(yours.clone())).done, 1);
    world.pass(Nanos(1));
    let taken = job(world.one(yours));
    assert_eq!((taken.done, taken.worker), (2, YOU));
    assert_eq!(step(&mut world, id, 1).done, 2, "it has another worker now");
}

pub(super) fn a_lease_of_a_faster_clock_keeps_nobody_from_a_job<B: Backend>() {
    let mut world = World::<B>::new();
    let task = task(&world, JobKind::Redrive, Dead::All);
    let begun = job(world.one(Command::StartJob(StartJob { task, worker: ME })));
    assert!(!begun.is_free_for(YOU, begun.begun));
    assert!(begun.is_free_for(YOU, StoreTime(begun.begun.0 - 1)));
}

pub(super) fn open_jobs_and_those_that_are_over_are_bounded<B: Backend>() {
    let mut world = World::<B>::with(Limits::default());
    let lane = world.new_lane(WIDE);
    let none = task(&world, JobKind::Purge, Dead::Of(lane));
    let open: Vec<JobId> = (0..OPEN_JOBS_MAX).map(|_| start(&mut world, none.clone())).collect();
    world.one(set(open[0], JobState::Paused));
    let more = Command::StartJob(StartJob { task: none.clone(), worker: ME });
    let Reply::Refused(refusal) = world.one(more) else { panic!() };
    assert!(refusal.to_string().contains("32 jobs"), "{refusal}");
    for id in &open[1..] {
        step(&mut world, *id, 1);
    }
    for _ in 0..ENDED_JOBS_MAX {
        let id = start(&mut world, none.clone());
        step(&mut world, id, 1);
    }
    let kept = world.reader.jobs(None).unwrap();
    assert_eq!(u64::try_from(kept.len()).unwrap(), ENDED_JOBS_MAX + 1);
    assert_eq!((kept[0].id, kept.last().unwrap().id), (JobId(OPEN_JOBS_MAX + ENDED_JOBS_MAX), open[0]));
}
