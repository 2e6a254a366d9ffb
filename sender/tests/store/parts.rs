//! Each accepting subscriber has an event exactly once, each refusing one not at all, and the same id, emitted again,
//! completes it. `HOOKPROOF_CASES=10000 cargo test -p hookproof-sender --test all store::parts` runs more cases;
//! `HOOKPROOF_SEED` starts elsewhere.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use hookproof_sender::engine::{LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::{Emit, Shed, Target};
use hookproof_sender::store::lane::{Bounds, Limits, WhenFull};
use hookproof_sender::store::reply::Placed;
use hookproof_sender::store::{Command, Reader, Refusal, Reply, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner};
use rusqlite::Connection;

use crate::store::sqlite::File;
use crate::store::world::{Backend, body, later, subscribe};

const LANES: usize = 3;
const EVENTS: usize = 5;
/// Each lane is emptied before each repeat.
const REPEATS_MAX: usize = 4;
const HISTORIES_MAX: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    NewIds,
    ForgetsParts,
    NeverCompletes,
}

#[derive(Clone, Copy, Debug)]
enum CommitAnswer {
    Answer,
    Nothing,
    NothingAsNothingWas,
}

#[derive(Clone, Debug)]
enum Step {
    Emit {
        event: usize,
        process: usize,
        heard: CommitAnswer,
    },
    /// Frees capacity on a lane.
    Room {
        lane: usize,
        rows: u32,
    },
    Pass(Nanos),
    Crash {
        process: usize,
    },
}

#[derive(Clone, Debug)]
struct History {
    /// Rows that may wait on each lane, and whether it sheds.
    lanes: Vec<(u64, bool)>,
    /// The target lanes of each event, and whether it is all or nothing.
    events: Vec<(BTreeSet<usize>, bool)>,
    /// Whether answers get lost. Lanes then need a long window for duplicates, because the emitter must repeat
    /// events.
    breaks: bool,
    steps: Vec<Step>,
}

fn history() -> impl Strategy<Value = History> {
    let lanes = vec((0..3_u64, prop::bool::weighted(0.2)), LANES);
    let events = vec((prop::collection::btree_set(0..LANES, 1..=LANES), prop::bool::weighted(0.2)), EVENTS);
    (lanes, events, any::<bool>(), vec(step(), 1..25)).prop_map(|(lanes, events, breaks, steps)| History {
        lanes,
        events,
        breaks,
        steps,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let heard = prop_oneof![
        4 => Just(CommitAnswer::Answer),
        1 => Just(CommitAnswer::Nothing),
        1 => Just(CommitAnswer::NothingAsNothingWas)
    ];
    prop_oneof![
        6 => (0..EVENTS, 0..2_usize, heard).prop_map(|(event, process, heard)| Step::Emit { event, process, heard }),
        2 => (0..LANES, 1..3_u32).prop_map(|(lane, rows)| Step::Room { lane, rows }),
        1 => (1..100_u64).prop_map(|secs| Step::Pass(Nanos::from_secs(secs))),
        1 => (0..2_usize).prop_map(|process| Step::Crash { process }),
    ]
}

struct Ground {
    file: File,
    stores: [Box<dyn Store>; 2],
    reader: Box<dyn Reader>,
    sql: Connection,
    now: StoreTime,
    histories: u64,
    ids: u64,
}

impl Ground {
    fn new() -> Self {
        let file = File::new(Limits::default());
        let stores = [file.store(), file.store()];
        let (reader, sql) = (file.reader(), Connection::open(file.path()).unwrap());
        let now = StoreTime::from_secs(1_800_000_000);
        Self { file, stores, reader, sql, now, histories: 0, ids: 0 }
    }

    fn new_lanes(&mut self, lanes: &[(u64, bool)]) -> Vec<LaneId> {
        self.histories += 1;
        let number = self.histories;
        let subscribes = lanes.iter().zip(0..).map(|(&(rows_max, sheds), place)| {
            let when_full = if sheds { WhenFull::ShedOldest } else { WhenFull::Refuse };
            let bounds = Bounds { rows_max: rows_max + 1, bytes_max: 1 << 20, when_full };
            Command::Subscribe(subscribe(&format!("s{number}-{place}"), bounds))
        });
        let replies = self.stores[0].commit(self.now, &subscribes.collect::<Vec<_>>()).unwrap();
        let lane = |reply| if let Reply::Subscribed { lane } = reply { lane } else { panic!("{reply:?}") };
        replies.into_iter().map(lane).collect()
    }

    fn new_id(&mut self) -> String {
        self.ids += 1;
        format!("e{}", self.ids)
    }

    fn has(&self, ids: &[String]) -> BTreeMap<LaneId, u32> {
        let mut has = BTreeMap::new();
        let mut query = self
            .sql
            .prepare_cached(
                "SELECT d.lane FROM events e JOIN deliveries d ON d.event = e.event WHERE e.id = ?1",
            )
            .unwrap();
        for id in ids {
            for lane in query.query_map([id], |row| row.get(0)).unwrap() {
                *has.entry(lane.unwrap()).or_insert(0) += 1;
            }
        }
        has
    }
}

struct Known {
    ids: Vec<String>,
    owed: BTreeSet<LaneId>,
    atomic: bool,
    complete: bool,
    /// Lanes that were reported to have it.
    taken: BTreeSet<LaneId>,
}

struct Run<'a> {
    ground: &'a mut Ground,
    flaw: Flaw,
    dedupe: Nanos,
    lanes: Vec<LaneId>,
    events: Vec<Known>,
}

impl Run<'_> {
    fn emit(&mut self, event: usize, process: usize, heard: CommitAnswer) -> TestCaseResult {
        if matches!(heard, CommitAnswer::NothingAsNothingWas) {
            self.ground.stores[process] = self.ground.file.store();
            return Ok(());
        }
        if self.flaw == Flaw::NewIds && !self.events[event].taken.is_empty() {
            let id = self.ground.new_id();
            self.events[event].ids.push(id);
        }
        let before = self.ground.has(&self.events[event].ids);
        let emit = self.command(event);
        let targets: Vec<LaneId> = emit.targets.iter().map(|target| target.lane).collect();
        let now = self.ground.now;
        let reply = self.ground.stores[process].commit(now, &[Command::Emit(emit)]).unwrap().remove(0);
        if self.flaw == Flaw::ForgetsParts {
            self.ground.sql.execute("UPDATE events SET in_part = NULL", []).unwrap();
        }
        if matches!(heard, CommitAnswer::Nothing) {
            self.ground.stores[process] = self.ground.file.store();
            return Ok(());
        }
        self.listen(event, &targets, &reply, &before)
    }

    fn listen(
        &mut self,
        event: usize,
        targets: &[LaneId],
        reply: &Reply,
        before: &BTreeMap<LaneId, u32>,
    ) -> TestCaseResult {
        let has = self.ground.has(&self.events[event].ids);
        let known = &mut self.events[event];
        match reply {
            Reply::Emitted(emitted) => {
                for (lane, placed) in targets.iter().zip(&emitted.targets) {
                    match placed {
                        Placed::Refused(_) => prop_assert_eq!(has.get(lane), None, "{:?} refused it", lane),
                        Placed::Absent => prop_assert!(false, "{:?} is there", lane),
                        _ => drop(known.taken.insert(*lane)),
                    }
                }
                prop_assert!(!known.atomic || emitted.refused(targets).next().is_none(), "not in part");
                known.complete =
                    emitted.refused(targets).next().is_none() || self.flaw == Flaw::NeverCompletes;
            }
            Reply::Refused(Refusal::Full(full)) => {
                prop_assert_eq!(&has, before, "what was refused changed something");
                prop_assert!(!full.is_empty());
            }
            other => prop_assert!(false, "{:?}", other),
        }
        Ok(())
    }

    fn command(&self, event: usize) -> Emit {
        let known = &self.events[event];
        let (now, expires) = (self.ground.now, later(self.ground.now, Nanos::DAY));
        let target = |lane: &LaneId| Target {
            lane: *lane,
            body: 0,
            due: now,
            expires,
            dedupe: self.dedupe,
            coalesce: None,
            signature: None,
        };
        Emit {
            roster: self.ground.reader.glance().unwrap().roster,
            id: known.ids.last().unwrap().as_str().into(),
            id_is_new: false,
            kind: "k".into(),
            key: None,
            received: now,
            bodies: vec![body(b"body")],
            targets: known.owed.iter().map(target).collect(),
            atomic: known.atomic,
            withheld: false,
            outbox: None,
            notifies: None,
        }
    }

    fn check(&self) -> TestCaseResult {
        for known in &self.events {
            let has = self.ground.has(&known.ids);
            prop_assert!(has.values().all(|count| *count == 1), "{:?} of {:?}", has, known.ids);
            prop_assert!(has.keys().all(|lane| known.owed.contains(lane)), "{:?} of {:?}", has, known.ids);
            prop_assert!(known.taken.iter().all(|lane| has.contains_key(lane)), "{:?}: {:?}", known.ids, has);
        }
        Ok(())
    }

    fn make_room(&mut self, lane: usize, rows: u32) {
        let shed = Command::Shed(Shed { lane: self.lanes[lane], max: rows });
        self.ground.stores[0].commit(self.ground.now, &[shed]).unwrap();
    }

    fn complete(&mut self) -> TestCaseResult {
        for event in 0..self.events.len() {
            for _ in 0..REPEATS_MAX {
                if self.events[event].complete {
                    break;
                }
                (0..self.lanes.len()).for_each(|lane| self.make_room(lane, 10));
                self.emit(event, event % 2, CommitAnswer::Answer)?;
            }
            let known = &self.events[event];
            let has: BTreeSet<LaneId> = self.ground.has(&known.ids).into_keys().collect();
            prop_assert_eq!(&has, &known.owed, "{:?} is not complete", known.ids);
        }
        self.check()
    }
}

fn play(ground: &mut Ground, flaw: Flaw, history: &History) -> TestCaseResult {
    let lanes = ground.new_lanes(&history.lanes);
    let mut events = Vec::new();
    for (owed, atomic) in &history.events {
        let owed = owed.iter().map(|lane| lanes[*lane]).collect();
        let ids = vec![ground.new_id()];
        events.push(Known { ids, owed, atomic: *atomic, complete: false, taken: BTreeSet::new() });
    }
    let dedupe = if history.breaks { Nanos::DAY } else { Nanos::ZERO };
    let mut run = Run { ground, flaw, dedupe, lanes, events };
    for step in &history.steps {
        match step {
            // Not again without a window.
            Step::Emit { event, .. } if !history.breaks && run.events[*event].complete => {}
            Step::Emit { event, process, heard } => {
                let heard = if history.breaks { *heard } else { CommitAnswer::Answer };
                run.emit(*event, *process, heard)?;
            }
            Step::Room { lane, rows } => run.make_room(*lane, *rows),
            Step::Pass(length) => run.ground.now = later(run.ground.now, *length),
            Step::Crash { process } => run.ground.stores[*process] = run.ground.file.store(),
        }
        run.check()?;
    }
    run.complete()
}

fn find(flaw: Flaw, cases: u32) -> Result<(), TestError<History>> {
    let seed =
        std::env::var("HOOKPROOF_SEED").map_or(0, |seed| seed.parse().expect("HOOKPROOF_SEED is a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let ground = RefCell::new(Ground::new());
    runner.run(&history(), |history| {
        let mut ground = ground.borrow_mut();
        if ground.histories >= HISTORIES_MAX {
            *ground = Ground::new();
        }
        play(&mut ground, flaw, &history)
    })
}

fn cases() -> u32 {
    std::env::var("HOOKPROOF_CASES")
        .map_or(1_000, |cases| cases.parse().expect("HOOKPROOF_CASES is a number"))
}

#[test]
fn reported_recipients_have_an_event_once_and_a_repeat_completes_it() {
    find(Flaw::None, cases()).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_emitter_or_a_store_that_forgets_is_found() {
    for flaw in [Flaw::NewIds, Flaw::ForgetsParts, Flaw::NeverCompletes] {
        assert!(matches!(find(flaw, 1_000), Err(TestError::Fail(..))), "{flaw:?} was not found");
    }
}
