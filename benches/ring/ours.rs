//! Our store, through the thread that the sender runs it on: a connection for commits, another one for claims beside them.

use std::ops::Range;
use std::sync::mpsc::Sender;

use hookproof_sender::engine::{LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{
    Acquire, Attempt, Body, Claim, Emit, Fate, Outcome, Settlement, Subscribe, Target, Which,
};
use hookproof_sender::store::lane::{Bounds, OwnerId, Secret, WhenFull};
use hookproof_sender::store::postgres::{Options, PostgresStore};
use hookproof_sender::store::reply::{ClaimedRow, SettleResult};
use hookproof_sender::store::thread::{Answer, Capacity, Clock, Handle, Request, StoreThread};
use hookproof_sender::store::{Command, Reply, Store, StoreError};

use crate::failure::Failure;
use crate::workload::{CLAIM_MAX, Queue, Row, Told, id, outcome};
use crate::{KEY, KIND, LATENCY, STATUS};

/// What the sender's runtime gives its store's thread.
const CAPACITY: Capacity = Capacity {
    requests_max: 200_000,
    bytes_max: 256 << 20,
    commit_rows_max: 5_000,
    commit_bytes_max: 16 << 20,
};

/// Our store, at work.
pub(crate) struct Ours {
    thread: StoreThread,
    handle: Handle,
    lanes: Vec<(LaneId, Term)>,
    body: Body,
    /// All bodies are the same.
    body_hash: u64,
    clock: Clock,
    told: Sender<Told<ClaimedRow>>,
}

impl Ours {
    pub(crate) fn start(
        address: &str,
        lanes: u64,
        body: Body,
        clock: Clock,
        told: Sender<Told<ClaimedRow>>,
    ) -> Result<Self, Failure> {
        let said = |error: StoreError| Failure::Says(error.to_string());
        let address = address.parse().map_err(|error| Failure::Says(format!("{error}")))?;
        let options = Options { create: true, ..Options::default() };
        let mut store = PostgresStore::open(&address, &options).map_err(said)?;
        let subscribe: Vec<Command> = (0..lanes).map(subscriber).collect();
        store.commit(clock(), &subscribe).map_err(said)?;
        let acquire = Command::Acquire(Acquire {
            owner: OwnerId(1),
            lease: Nanos::DAY,
            which: Which::All,
            homes: None,
            max: u32::MAX,
        });
        let Some(Reply::Acquired(taken)) = store.commit(clock(), &[acquire]).map_err(said)?.pop() else {
            return Err(Failure::Says("our store gives no lanes".to_owned()));
        };
        let lanes = taken.iter().map(|taken| (taken.lane, taken.term)).collect();
        let thread = StoreThread::start(Box::new(store), clock.clone(), CAPACITY)?;
        Ok(Self { handle: thread.handle(), thread, lanes, body_hash: body.hash(), body, clock, told })
    }

    pub(crate) fn stop(self) {
        self.thread.stop();
    }

    fn lane(&self, number: u64) -> (LaneId, Term) {
        self.lanes[usize::try_from(number).expect("lanes are few")]
    }

    /// Has commands carried out, and tells what an answer means.
    fn submit(
        &self,
        commands: Vec<Command>,
        understand: impl FnOnce(Vec<Reply>) -> Option<Told<ClaimedRow>> + Send + 'static,
    ) -> Result<(), Failure> {
        let told = self.told.clone();
        let answer: Answer = Box::new(move |answer| {
            let heard = match answer {
                Ok(replies) => understand(replies)
                    .unwrap_or_else(|| Told::Failed("our store answers something else".to_owned())),
                Err(error) => Told::Failed(error.to_string()),
            };
            // Whoever has stopped listening has said why.
            drop(told.send(heard));
        });
        let submitted = self.handle.submit(Request { commands, answer });
        submitted.map_err(|turned_away| Failure::Says(turned_away.to_string()))
    }

    fn event(&self, number: u64, now: StoreTime) -> Command {
        let count = self.lanes.len() as u64;
        Command::Emit(Emit {
            roster: count,
            id: id(number).into(),
            id_is_new: false,
            kind: KIND.into(),
            key: Some(KEY.into()),
            received: now,
            bodies: vec![self.body.clone()],
            targets: vec![Target {
                lane: self.lane(number % count).0,
                body: 0,
                due: now,
                expires: StoreTime(now.0 + Nanos::DAY.0),
                dedupe: Nanos::HOUR,
                coalesce: None,
                signature: None,
            }],
            atomic: false,
            withheld: false,
            outbox: None,
        })
    }
}

impl Queue for Ours {
    type Row = ClaimedRow;

    fn emit(&self, events: Range<u64>) -> Result<(), Failure> {
        let now = (self.clock)();
        let commands = events.clone().map(|number| self.event(number, now)).collect();
        self.submit(commands, |replies| {
            let all = replies.iter().all(|reply| matches!(reply, Reply::Emitted(_)));
            all.then_some(Told::Emitted(events))
        })
    }

    fn claim(&self, lane: u64, _again: bool) -> Result<(), Failure> {
        let (id, term) = self.lane(lane);
        let claim = Command::Claim(Claim { lane: id, term, max: CLAIM_MAX, bytes_max: u64::MAX });
        let clock = self.clock.clone();
        self.submit(vec![claim], move |mut replies| match replies.pop() {
            Some(Reply::Claimed(claimed)) => {
                let more = claimed.next.is_some_and(|next| next <= clock());
                Some(Told::Claimed { lane, rows: claimed.rows, more })
            }
            _ => None,
        })
    }

    fn commits(&self) -> u64 {
        self.handle.health().written.commits
    }

    fn settle(&self, lane: u64, settled: Vec<(ClaimedRow, Fate)>) -> Result<(), Failure> {
        let ((id, term), now, body_hash) = (self.lane(lane), (self.clock)(), self.body_hash);
        let (delivered, again) = outcome(&settled);
        let settlement = |(row, fate): (ClaimedRow, Fate)| Settlement {
            lane: id,
            term,
            delivery: row.delivery,
            attempts: row.attempts + 1,
            fate,
            attempt: Some(Attempt {
                at: now,
                latency: LATENCY,
                outcome: if fate == Fate::Delivered { Outcome::Delivered } else { Outcome::Rejected },
                status: Some(if fate == Fate::Delivered { STATUS.0 } else { STATUS.1 }),
                error: None,
                body_hash,
                received: Some(row.received),
            }),
        };
        let settlements = settled.into_iter().map(settlement).collect();
        self.submit(vec![Command::Settle(settlements)], move |mut replies| match replies.pop() {
            Some(Reply::Settled(results)) => {
                let all = results.iter().all(|result| *result == SettleResult::Applied);
                all.then_some(Told::Settled { lane, delivered, again })
            }
            _ => None,
        })
    }
}

impl Row for ClaimedRow {
    fn event(&self) -> &str {
        &self.event
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }
}

fn subscriber(number: u64) -> Command {
    Command::Subscribe(Subscribe {
        id: format!("sub_{number}").into(),
        name: format!("partner {number}").into(),
        url: "http://127.0.0.1:9/".into(),
        patterns: "[\"*\"]".into(),
        settings: "{}".into(),
        bounds: Bounds { rows_max: 10_000_000, bytes_max: 8 << 30, when_full: WhenFull::ShedOldest },
        secret: Secret::new("whsec_"),
    })
}
