//! Commits: whatever waits, in one transaction, by COPY.

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use bytes::Bytes;
use futures_util::SinkExt as _;
use futures_util::future::try_join_all;
use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::store::command::Fate;
use hookproof_sender::store::thread::Clock;
use tokio::try_join;
use tokio_postgres::{CopyInSink, Statement};

use super::copy::Copy;
use super::parts::{PARTS, Parts};
use super::{Delivery, Link, Setup, int, schema};
use crate::failure::Failure;
use crate::workload::{Told, id, outcome};
use crate::{KEY, KIND, LATENCY, STATUS};

/// As many rows may be in one commit, about, as in our store's, where an event counts for three.
const ROWS_MAX: usize = 5_000;
const ROWS_OF_EVENT: usize = 3;

/// What is to be committed.
pub(super) enum Job {
    Emit(Range<u64>),
    Settle { lane: u64, settled: Vec<(Delivery, Fate)> },
}

pub(super) struct Writer {
    link: Link,
    statements: Statements,
    setup: Setup,
    hash: i64,
    commits: Arc<AtomicU64>,
    parts: Arc<Parts>,
    wake: Sender<()>,
    clock: Clock,
    told: Sender<Told<Delivery>>,
}

struct Statements {
    events: Vec<Statement>,
    settlements: Vec<Statement>,
    look_up: Vec<Statement>,
    late: Statement,
    late_done: Statement,
    fence: Statement,
}

/// What a commit writes.
#[derive(Default)]
struct Batch {
    /// Where to, in their order.
    copies: Vec<(Statement, Bytes)>,
    ids: Vec<String>,
    recorded: u64,
    /// How many are settled, by the table that they are in.
    settled: [u64; PARTS],
    /// What was tried again, by lane, when it was due, and number.
    late_done: (Vec<i32>, Vec<i64>, Vec<i64>),
}

impl Writer {
    pub(super) fn open(
        address: &str,
        setup: Setup,
        (parts, wake): (Arc<Parts>, Sender<()>),
        (clock, told): (Clock, Sender<Told<Delivery>>),
    ) -> Result<Self, Failure> {
        let link = Link::open(address, schema::HOT)?;
        let one = |text: &str| link.runtime.block_on(link.client.prepare(text));
        let all = |text: fn(usize) -> String| {
            (0..PARTS).map(|part| one(&text(part))).collect::<Result<Vec<_>, _>>()
        };
        let statements = Statements {
            events: all(|part| schema::copy(&format!("d_{part}")))?,
            settlements: all(|part| schema::copy(&format!("s_{part}")))?,
            look_up: all(schema::look_up)?,
            late: one(&schema::copy("late"))?,
            late_done: one(schema::LATE_DONE)?,
            fence: one(schema::FENCE)?,
        };
        let hash = setup.body.hash().cast_signed();
        Ok(Self { link, statements, setup, hash, commits: Arc::default(), parts, wake, clock, told })
    }

    /// How many there were so far.
    pub(super) fn commits(&self) -> Arc<AtomicU64> {
        self.commits.clone()
    }

    /// Until nobody submits any more.
    pub(super) fn run(self, jobs: &Receiver<Job>) {
        let mut waiting = None;
        while let Some(first) = waiting.take().or_else(|| jobs.recv().ok()) {
            let mut rows = first.rows();
            let mut these = vec![first];
            while let Ok(next) = jobs.try_recv() {
                rows += next.rows();
                if rows > ROWS_MAX {
                    waiting = Some(next);
                    break;
                }
                these.push(next);
            }
            if let Err(failure) = self.carry_out(these) {
                // Whoever has stopped listening has said why.
                drop(self.told.send(Told::Failed(format!("a commit of the ring: {failure:?}"))));
                return;
            }
        }
    }

    fn carry_out(&self, jobs: Vec<Job>) -> Result<(), Failure> {
        let batch = self.gather(&jobs);
        self.link.runtime.block_on(self.commit(&batch))?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.parts.commit(batch.recorded, &batch.settled);
        if self.parts.done().is_some() {
            // One that has failed tells of it in the end.
            let _ = self.wake.send(());
        }
        for job in jobs {
            let told = match job {
                Job::Emit(events) => Told::Emitted(events),
                Job::Settle { lane, settled } => {
                    let (delivered, again) = outcome(&settled);
                    Told::Settled { lane, delivered, again }
                }
            };
            drop(self.told.send(told));
        }
        Ok(())
    }

    fn gather(&self, jobs: &[Job]) -> Batch {
        let (table, first) = self.parts.begin();
        let now = (self.clock)();
        let mut batch = Batch::default();
        let mut events = Copy::new(schema::EVENT_COLUMNS);
        let mut late = Copy::new(schema::EVENT_COLUMNS);
        let mut settlements: BTreeMap<usize, Copy> = BTreeMap::new();
        let mut is_late = false;
        for job in jobs {
            match job {
                Job::Emit(range) => {
                    for event in range.clone() {
                        let delivery = first + int(batch.recorded);
                        batch.recorded += 1;
                        let id = id(event);
                        self.write_event(&mut events, (event, &id), delivery, now);
                        batch.ids.push(id);
                    }
                }
                Job::Settle { settled, .. } => {
                    for (delivery, fate) in settled {
                        let log = settlements
                            .entry(delivery.table.unwrap_or(table))
                            .or_insert_with(|| Copy::new(schema::SETTLEMENT_COLUMNS));
                        write_settlement(log, delivery, *fate, now);
                        batch.leave(delivery);
                        if let Fate::Retry { due } = fate {
                            is_late = true;
                            write_late(&mut late, delivery, int(due.0));
                        }
                    }
                }
            }
        }
        let statements = &self.statements;
        if batch.recorded > 0 {
            batch.copies.push((statements.events[table].clone(), events.end()));
        }
        let settlements = settlements.into_iter();
        batch.copies.extend(settlements.map(|(part, log)| (statements.settlements[part].clone(), log.end())));
        if is_late {
            batch.copies.push((statements.late.clone(), late.end()));
        }
        batch
    }

    fn write_event(&self, copy: &mut Copy, (event, id): (u64, &str), delivery: i64, now: StoreTime) {
        let lane = i32::try_from(event % self.setup.lanes).expect("lanes are few");
        copy.row().int8(delivery).int8(int(now.0)).int8(int(now.0 + Nanos::DAY.0)).int8(int(now.0));
        copy.int8(self.hash).int4(lane).int2(0).int2(0).text(Some(id)).text(Some(KIND)).text(Some(KEY));
        copy.text(None).bytes(&self.setup.body.bytes);
    }

    /// What one journey ends and the next one begins is on its way together.
    async fn commit(&self, batch: &Batch) -> Result<(), Failure> {
        let client = &self.link.client;
        let mut copies = batch.copies.iter();
        let (statement, bytes) = copies.next().ok_or_else(|| says("has nothing to write"))?;
        let ((), (), (), mut copy) = try_join!(
            biased;
            async { Ok::<_, Failure>(client.batch_execute("BEGIN").await?) },
            self.fence(batch),
            self.refuse_known(batch),
            async { Ok(Box::pin(client.copy_in::<_, Bytes>(statement).await?)) },
        )?;
        copy.send(bytes.clone()).await?;
        for (statement, bytes) in copies {
            let next = client.copy_in(statement);
            let (_, next) = try_join!(biased; finish(copy.as_mut()), next)?;
            copy = Box::pin(next);
            copy.send(bytes.clone()).await?;
        }
        try_join!(biased; finish(copy.as_mut()), client.batch_execute("COMMIT"))?;
        Ok(())
    }

    /// Locks the owner's row, if something is settled, and forgets what was tried again.
    async fn fence(&self, batch: &Batch) -> Result<(), Failure> {
        let Statements { fence, late_done, .. } = &self.statements;
        if batch.settles() {
            let (lanes, due, numbers) = &batch.late_done;
            let term = self.link.client.query_one(fence, &[]);
            let done = async {
                if lanes.is_empty() {
                    return Ok(0);
                }
                self.link.client.execute(late_done, &[lanes, due, numbers]).await
            };
            let (term, done) = try_join!(biased; term, done)?;
            if term.try_get::<_, i64>(0)? != schema::TERM {
                return Err(says("is another owner's to make"));
            }
            if done != lanes.len() as u64 {
                return Err(says("does not find what was to be tried again"));
            }
        }
        Ok(())
    }

    /// Looks for ids in all parts.
    async fn refuse_known(&self, batch: &Batch) -> Result<(), Failure> {
        if !self.setup.looks_up || batch.ids.is_empty() {
            return Ok(());
        }
        let ids = &batch.ids;
        let parts = self.parts.living();
        let asked = parts.iter().map(|part| {
            let statement = &self.statements.look_up[part.table];
            async move { self.link.client.query(statement, &[ids]).await }
        });
        let found: usize = try_join_all(asked).await?.iter().map(Vec::len).sum();
        if found == 0 { Ok(()) } else { Err(says("has ids that are there already")) }
    }
}

impl Job {
    fn rows(&self) -> usize {
        match self {
            Self::Emit(events) => ROWS_OF_EVENT * usize::try_from(events.end - events.start).unwrap_or(0),
            Self::Settle { settled, .. } => settled.len(),
        }
    }
}

impl Batch {
    /// A delivery is no longer where it was.
    fn leave(&mut self, delivery: &Delivery) {
        match delivery.table {
            Some(table) => self.settled[table] += 1,
            None => {
                self.late_done.0.push(delivery.lane);
                self.late_done.1.push(delivery.due);
                self.late_done.2.push(delivery.delivery);
            }
        }
    }

    fn settles(&self) -> bool {
        !self.late_done.0.is_empty() || self.settled.iter().any(|count| *count > 0)
    }
}

async fn finish(copy: Pin<&mut CopyInSink<Bytes>>) -> Result<u64, tokio_postgres::Error> {
    copy.finish().await
}

fn write_settlement(log: &mut Copy, delivery: &Delivery, fate: Fate, now: StoreTime) {
    let (outcome, status) = if fate == Fate::Delivered { (0, STATUS.0) } else { (1, STATUS.1) };
    log.row().int8(int(now.0)).int8(delivery.delivery).int8(int(LATENCY.0)).int8(delivery.hash);
    log.int4(delivery.lane).int2(delivery.attempts + 1).int2(outcome).int2(status.cast_signed());
}

/// All of a delivery again: its part will be emptied.
fn write_late(late: &mut Copy, delivery: &Delivery, due: i64) {
    let Delivery { expires, received, hash, lane, attempts, .. } = *delivery;
    late.row().int8(delivery.delivery).int8(due).int8(expires).int8(received).int8(hash).int4(lane);
    late.int2(attempts + 1).int2(0).text(Some(&delivery.id)).text(Some(&delivery.kind));
    late.text(delivery.key.as_deref()).text(delivery.signature.as_deref()).bytes(&delivery.body);
}

fn says(what: &str) -> Failure {
    Failure::Says(format!("it {what}"))
}
