use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use super::*;
use crate::Written;
use crate::command::{Claim, Emit, Fate, Purge, Settlement, Sweep};
use crate::engine::{DeliveryId, LaneId, Term};
use crate::job::{JobId, StepJob};
use crate::lane::OwnerId;
use crate::reply::Claimed;

/// A store under the test's control, one commit at a time.
struct Puppet {
    /// Receives the names of each commit's commands.
    seen: Sender<Vec<String>>,
    /// Gives each commit's result.
    outcomes: Receiver<Result<(), StoreError>>,
    written: Written,
    beside: bool,
}

/// Answers claims from lanes below 100; other claims need a commit.
struct PuppetClaimer;

impl Claimer for PuppetClaimer {
    fn claim(&mut self, _: StoreTime, claims: &[Claim]) -> Result<Option<Vec<Claimed>>, StoreError> {
        if claims.iter().any(|claim| claim.lane.0 == 666) {
            panic!("told to");
        }
        let answer = |claim: &Claim| {
            let known = claim.lane.0 < 100;
            let (lane, term, rows) = (claim.lane, claim.term, Vec::new());
            known.then_some(Claimed { lane, term, rows, next: None, too_long: None })
        };
        Ok(claims.iter().map(answer).collect())
    }
}

impl Store for Puppet {
    fn commit(&mut self, _: StoreTime, commands: &[Command]) -> Result<Vec<Reply>, StoreError> {
        self.seen.send(commands.iter().map(label).collect()).unwrap();
        self.outcomes.recv().unwrap()?;
        self.written.commits += 1;
        Ok(commands.iter().map(|_| Reply::Done).collect())
    }

    fn written(&self) -> Written {
        self.written
    }

    fn claimer(&self) -> Result<Option<Box<dyn Claimer>>, StoreError> {
        Ok(self.beside.then(|| -> Box<dyn Claimer> { Box::new(PuppetClaimer) }))
    }
}

/// Evictions serve as distinguishable commands.
fn label(command: &Command) -> String {
    match command {
        Command::Evict(owner) => owner.0.to_string(),
        Command::Claim(claim) => format!("claim {}", claim.lane.0),
        Command::Settle(settlements) => format!("settle {}", settlements[0].lane.0),
        other => other.name().to_owned(),
    }
}

type Answered = (u64, Result<usize, StoreError>);

struct Stage {
    thread: Option<StoreThread>,
    handle: Handle,
    seen: Receiver<Vec<String>>,
    outcomes: Sender<Result<(), StoreError>>,
    answers: Arc<Mutex<Vec<Answered>>>,
}

impl Stage {
    fn new(capacity: Capacity) -> Self {
        Self::with(capacity, false)
    }

    fn with(capacity: Capacity, beside: bool) -> Self {
        let (seen_by, seen) = channel();
        let (outcomes, told) = channel();
        let puppet = Puppet { seen: seen_by, outcomes: told, written: Written::default(), beside };
        let time = AtomicU64::new(0);
        let clock: Clock = Arc::new(move || StoreTime(time.fetch_add(1, SeqCst) + 1));
        let thread = StoreThread::start(Box::new(puppet), clock, capacity).unwrap();
        let handle = thread.handle();
        Self { thread: Some(thread), handle, seen, outcomes, answers: Arc::default() }
    }

    fn submit(&self, number: u64, commands: Vec<Command>) -> Result<(), Why> {
        let answers = self.answers.clone();
        let answer: Answer = Box::new(move |result| {
            answers.lock().unwrap().push((number, result.map(|replies| replies.len())));
        });
        self.handle.submit(Request { commands, answer }).map_err(|turned| turned.why)
    }

    fn submit_one(&self, number: u64) {
        self.submit(number, vec![evict(number)]).unwrap();
    }

    /// Waits for the next commit; returns its commands.
    fn sees(&self) -> Vec<String> {
        self.seen.recv().unwrap()
    }

    fn tells(&self, outcome: Result<(), StoreError>) {
        self.outcomes.send(outcome).unwrap();
    }

    fn answers(&self) -> Vec<Answered> {
        self.answers.lock().unwrap().clone()
    }

    fn waits_for_answers(&self, count: usize) {
        while self.answers().len() < count {
            std::thread::yield_now();
        }
    }

    fn stop(&mut self) {
        self.thread.take().unwrap().stop();
    }
}

fn evict(number: u64) -> Command {
    Command::Evict(OwnerId(number))
}

fn claim(lane: u64) -> Command {
    Command::Claim(Claim { lane: LaneId(lane), term: Term(1), max: 1, bytes_max: 1 })
}

fn settle(lane: u64, fate: Fate) -> Command {
    let settlement = Settlement {
        lane: LaneId(lane),
        term: Term(1),
        delivery: DeliveryId(1),
        attempts: 1,
        fate,
        disables: None,
        attempt: None,
    };
    Command::Settle(vec![settlement])
}

fn emit() -> Command {
    Command::Emit(Emit {
        roster: 0,
        id: "e".into(),
        id_is_new: false,
        kind: "k".into(),
        key: None,
        received: StoreTime(0),
        bodies: Vec::new(),
        targets: Vec::new(),
        atomic: false,
        withheld: false,
        outbox: None,
        notifies: None,
    })
}

fn full_disk() -> StoreError {
    StoreError::Full { doing: "commit", detail: "no space".to_owned() }
}

fn broken() -> StoreError {
    StoreError::Broken { doing: "commit", detail: "nonsense".to_owned() }
}

#[test]
fn commands_that_wait_during_a_commit_join_the_next() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    assert_eq!(stage.sees(), ["1"]);
    stage.submit(2, vec![evict(2), evict(20)]).unwrap();
    stage.submit_one(3);
    assert_eq!(stage.answers(), [], "nobody is answered before the commit");
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["2", "20", "3"]);
    assert_eq!(stage.answers(), [(1, Ok(1))]);
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(stage.answers(), [(1, Ok(1)), (2, Ok(2)), (3, Ok(1))]);
    assert_eq!(stage.handle.health().written.commits, 2);
}

#[test]
fn a_commit_is_bounded_though_always_one_request() {
    let mut stage = Stage::new(Capacity { commit_rows_max: 3, ..Capacity::default() });
    stage.submit_one(1);
    stage.sees();
    stage.submit(2, (20..25).map(evict).collect()).unwrap();
    for number in 3..8 {
        stage.submit_one(number);
    }
    let mut commits = Vec::new();
    for _ in 0..3 {
        stage.tells(Ok(()));
        commits.push(stage.sees().len());
    }
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(commits, [5, 3, 2]);
}

#[test]
fn a_failure_that_may_pass_is_tried_again_and_nobody_is_told_otherwise() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    for _ in 0..3 {
        assert_eq!(stage.sees(), ["1"]);
        stage.tells(Err(full_disk()));
    }
    assert_eq!(stage.sees(), ["1"]);
    assert_eq!(stage.answers(), []);
    // Since the first failure. The clock ticks once for a request and once for each try.
    assert_eq!(stage.handle.health().failing, Some((StoreTime(2), full_disk())));
    stage.submit_one(2);
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["2"], "the order stands");
    assert_eq!((stage.answers(), stage.handle.health().failing), (vec![(1, Ok(1))], None));
    stage.tells(Ok(()));
    stage.stop();
}

#[test]
fn a_request_that_fails_for_good_fails_alone() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    for number in 2..5 {
        stage.submit_one(number);
    }
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["2", "3", "4"]);
    stage.tells(Err(broken()));
    for (request, outcome) in [("2", Ok(())), ("3", Err(broken())), ("4", Ok(()))] {
        assert_eq!(stage.sees(), [request]);
        stage.tells(outcome);
    }
    stage.stop();
    assert_eq!(stage.answers()[1..], [(2, Ok(1)), (3, Err(broken())), (4, Ok(1))]);
}

#[test]
fn a_store_that_has_gone_back_is_asked_once_and_all_are_told() {
    let gone_back = || StoreError::WentBack { doing: "commit", detail: "by one".to_owned() };
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    for number in 2..5 {
        stage.submit_one(number);
    }
    stage.tells(Ok(()));
    // More often than needed.
    for _ in 0..4 {
        stage.tells(Err(gone_back()));
    }
    stage.stop();
    let seen: Vec<_> = stage.seen.try_iter().collect();
    assert_eq!(seen, [["2", "3", "4"]]);
    assert_eq!(stage.answers()[1..], [2, 3, 4].map(|number| (number, Err(gone_back()))));
}

#[test]
fn claims_that_the_disk_fails_hold_up_nobody() {
    let failing = || StoreError::Io { doing: "claim deliveries", detail: "a page".to_owned() };
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    stage.submit(2, vec![settle(2, Fate::Released)]).unwrap();
    stage.submit(3, vec![claim(2)]).unwrap();
    stage.submit_one(4);
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["settle 2", "claim 2", "4"]);
    stage.tells(Err(failing()));
    for (request, outcome) in [("settle 2", Ok(())), ("claim 2", Err(failing())), ("4", Ok(()))] {
        assert_eq!(stage.sees(), [request]);
        stage.tells(outcome);
    }
    stage.stop();
    assert_eq!(stage.answers()[1..], [(2, Ok(1)), (3, Err(failing())), (4, Ok(1))]);
    assert_eq!(stage.handle.health().failing, None);
}

#[test]
fn upkeep_that_the_disk_fails_holds_up_nobody() {
    let failing = || StoreError::Io { doing: "purge", detail: "a page".to_owned() };
    let zero = StoreTime(0);
    let purge = Purge {
        settled_before: zero,
        attempts_before: zero,
        dead_before: zero,
        changes_before: zero,
        max: 1,
    };
    let step = StepJob { job: JobId(1), lane: None, worker: OwnerId(1), max: 1 };
    let mut stage = Stage::new(Capacity::default());
    stage.submit(1, vec![Command::Sweep(Sweep { max: 1 })]).unwrap();
    assert_eq!(stage.sees(), ["sweep"]);
    stage.submit(2, vec![Command::Purge(purge)]).unwrap();
    stage.submit(3, vec![Command::StepJob(step)]).unwrap();
    stage.submit_one(4);
    stage.tells(Err(failing()));
    assert_eq!(stage.sees(), ["purge", "work at a job", "4"]);
    stage.tells(Err(failing()));
    for (request, outcome) in [("purge", Err(failing())), ("work at a job", Err(failing())), ("4", Ok(()))] {
        assert_eq!(stage.sees(), [request]);
        stage.tells(outcome);
    }
    stage.stop();
    assert_eq!(stage.answers(), [(1, Err(failing())), (2, Err(failing())), (3, Err(failing())), (4, Ok(1))]);
    assert_eq!(stage.handle.health().failing, None);
}

#[test]
fn a_full_queue_turns_emitters_away_first() {
    let mut stage = Stage::new(Capacity { requests_max: 4, ..Capacity::default() });
    stage.submit_one(1);
    stage.sees();
    for number in 2..5 {
        stage.submit(number, vec![emit()]).unwrap();
    }
    assert_eq!(stage.submit(5, vec![emit()]), Err(Why::Full));
    stage.submit_one(6);
    assert_eq!(stage.submit(7, vec![evict(7)]), Err(Why::Full));
    assert_eq!(stage.handle.health().requests, 4);
    stage.tells(Ok(()));
    stage.sees();
    assert_eq!(stage.submit(8, vec![emit()]), Ok(()));
    stage.tells(Ok(()));
    stage.sees();
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(stage.handle.health().bytes, 0);
}

#[test]
fn bytes_are_bounded_too_though_one_large_request_passes_alone() {
    let large = |number: u64| (0..50).map(|_| evict(number)).collect::<Vec<_>>();
    let mut stage = Stage::new(Capacity { bytes_max: 1_000, ..Capacity::default() });
    stage.submit_one(1);
    stage.sees();
    stage.submit(2, large(2)).unwrap();
    assert_eq!(stage.submit(3, large(3)), Err(Why::Full));
    stage.tells(Ok(()));
    stage.sees();
    stage.tells(Ok(()));
    stage.stop();
}

#[test]
fn claims_go_ahead_of_what_does_not_concern_them() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    let due = StoreTime(0);
    let requests = vec![
        vec![settle(1, Fate::Delivered)],
        vec![settle(2, Fate::Retry { due })],
        vec![emit()],
        vec![claim(1)],
        vec![claim(2)],
        vec![claim(3)],
        vec![evict(9)],
        vec![claim(4), claim(2)],
        vec![claim(5), claim(6)],
    ];
    for (number, commands) in (2..).zip(requests) {
        stage.submit(number, commands).unwrap();
    }
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["claim 1", "claim 3", "claim 5", "claim 6"]);
    stage.tells(Ok(()));
    let rest = ["settle 1", "settle 2", "emit an event", "claim 2", "9", "claim 4", "claim 2"];
    assert_eq!(stage.sees(), rest);
    stage.tells(Ok(()));
    stage.stop();
}

#[test]
fn claims_are_answered_while_a_commit_is_under_way() {
    let mut stage = Stage::with(Capacity::default(), true);
    stage.submit(1, vec![settle(9, Fate::Released)]).unwrap();
    stage.sees();
    stage.submit(2, vec![claim(1)]).unwrap();
    stage.waits_for_answers(1);
    assert_eq!(stage.answers(), [(2, Ok(1))]);
    stage.submit(3, vec![settle(1, Fate::Delivered)]).unwrap();
    stage.submit(4, vec![settle(2, Fate::Released)]).unwrap();
    stage.tells(Ok(()));
    assert_eq!(stage.sees(), ["settle 1", "settle 2"]);
    let before = 2;
    for (number, lane) in [(5, 1), (6, 2), (7, 3), (8, 100), (9, 4)] {
        stage.submit(number, vec![claim(lane)]).unwrap();
    }
    // The claimer takes them in order: once it answers the last, the writer has claim 100.
    stage.waits_for_answers(before + 3);
    assert_eq!(stage.answers()[before..], [(5, Ok(1)), (7, Ok(1)), (9, Ok(1))]);
    stage.tells(Ok(()));
    // Claims that could not be answered beside come first, then waiting commands.
    assert_eq!(stage.sees(), ["claim 100", "claim 2"]);
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(stage.answers().len(), 9);
    assert_eq!(stage.handle.health().bytes, 0);
}

#[test]
fn a_claim_that_goes_ahead_of_a_retry_is_told_when_that_is_due() {
    let mut stage = Stage::with(Capacity::default(), true);
    let (say, told) = channel();
    let ask = |lane| {
        let say = say.clone();
        let answer: Answer = Box::new(move |result| {
            let Reply::Claimed(claimed) = result.unwrap().remove(0) else { panic!("no claim") };
            say.send((claimed.lane.0, claimed.next)).unwrap();
        });
        stage.handle.submit(Request { commands: vec![claim(lane)], answer }).unwrap();
    };
    let due = StoreTime(1_000_000_000);
    stage.submit(1, vec![settle(1, Fate::Retry { due })]).unwrap();
    assert_eq!(stage.sees(), ["settle 1"], "it is under way");
    ask(1);
    assert_eq!(told.recv().unwrap(), (1, Some(due)));
    ask(2);
    assert_eq!(told.recv().unwrap(), (2, None), "nothing of this lane is under way");
    stage.tells(Ok(()));
    stage.stop();
}

#[test]
fn if_the_one_beside_panics_the_writer_takes_its_place() {
    let mut stage = Stage::with(Capacity::default(), true);
    stage.submit(1, vec![claim(666)]).unwrap();
    stage.submit(2, vec![claim(1)]).unwrap();
    assert_eq!(stage.sees(), ["claim 1"]);
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(stage.answers(), [(2, Ok(1))]);
}

#[test]
fn stopping_carries_out_what_was_submitted_and_takes_no_more() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    stage.submit_one(2);
    stage.tells(Ok(()));
    stage.tells(Ok(()));
    stage.stop();
    assert_eq!(stage.answers(), [(1, Ok(1)), (2, Ok(1))]);
    assert_eq!(stage.submit(3, vec![evict(3)]), Err(Why::Stopped));
}

#[test]
fn stopping_does_not_wait_for_a_disk_that_stays_full() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    stage.submit_one(2);
    // More failures than needed.
    for _ in 0..10 {
        stage.tells(Err(full_disk()));
    }
    stage.stop();
    assert_eq!(stage.answers(), [(1, Err(full_disk())), (2, Err(full_disk()))]);
}

#[test]
fn a_panic_in_the_store_leaves_nobody_waiting() {
    let mut stage = Stage::new(Capacity::default());
    stage.submit_one(1);
    stage.sees();
    stage.submit_one(2);
    // Without instructions the puppet panics.
    let (outcomes, _) = channel();
    drop(std::mem::replace(&mut stage.outcomes, outcomes));
    stage.stop();
    assert_eq!(stage.answers(), [(2, Err(StoreError::Stopped))]);
    assert_eq!(stage.submit(3, vec![evict(3)]), Err(Why::Stopped));
}

fn error(detail: &str) -> StoreError {
    StoreError::Broken { doing: "read", detail: detail.into() }
}

#[track_caller]
fn check(complaints: &mut Complaints, second: u64, what: &str, expected: Option<u64>) {
    let now = StoreTime(second * Nanos::SECOND.0);
    assert_eq!(complaints.record_failure(now, &error(what)), expected, "{what} at {second} s");
}

#[test]
fn a_failure_is_said_once_a_minute_with_how_often_it_came() {
    let mut complaints = Complaints::default();
    check(&mut complaints, 100, "page 1", Some(0));
    check(&mut complaints, 101, "page 1", None);
    check(&mut complaints, 159, "page 1", None);
    check(&mut complaints, 160, "page 1", Some(2));
    check(&mut complaints, 161, "page 1", None);
}

#[test]
fn failures_of_several_kinds_by_turns_are_said_once_each() {
    let mut complaints = Complaints::default();
    let said = (0..100).flat_map(|_| ["page 1", "page 2", "page 3"]).filter(|what| {
        let now = StoreTime(100 * Nanos::SECOND.0);
        complaints.record_failure(now, &error(what)).is_some()
    });
    assert_eq!(said.count(), 3);
}

#[test]
fn a_clock_that_was_set_back_silences_nothing() {
    let mut complaints = Complaints::default();
    check(&mut complaints, 7_200, "page 1", Some(0));
    check(&mut complaints, 3_600, "page 1", Some(0));
    check(&mut complaints, 3_601, "page 1", None);
}

#[test]
fn no_more_kinds_are_remembered_than_stated() {
    let mut complaints = Complaints::default();
    for (second, kind) in (100..).zip(0..1_000) {
        check(&mut complaints, second, &kind.to_string(), Some(0));
        assert!(complaints.said.len() <= KINDS_MAX);
    }
    check(&mut complaints, 1_100, "999", None);
    check(&mut complaints, 1_100, "0", Some(0));
}
