//! One process of the sender in virtual time: the production engine on the production store, driven in the order in which
//! the sender's heart drives them. What the heart has the runtime carry out comes out as [`Act`]s; what takes time there
//! (a commit, a claim, a request) takes virtual time here.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use hookproof_sender::engine::{
    AttemptId, BatchId, DeliveryId, Due, Engine, Input, Instant, LaneId, LaneRecord, Limits, Nanos, Outcome,
    Output, Settlement, Taking, Term, WallTime,
};
use hookproof_sender::roster::{Roster, RosterKeeper};
use hookproof_sender::runtime::clock::{Moment, instant};
use hookproof_sender::runtime::handover;
use hookproof_sender::runtime::lanes::{Lanes, Stop};
use hookproof_sender::runtime::tenure::{Step, Tenure};
use hookproof_sender::store::command::{self, Claim, Command, Persist};
use hookproof_sender::store::lane::{LaneState, OwnerId};
use hookproof_sender::store::read::Glance;
use hookproof_sender::store::reply::{Claimed, ClaimedRow, Placed, Refusal, Renewed, Reply, Taken, Verdict};
use hookproof_sender::store::sqlite::{self, SqliteReader, SqliteStore};
use hookproof_sender::store::thread::OnItsWay;
use hookproof_sender::store::{Claimer, Reader, Store};
use hookproof_sender::subscriber::RegionSecrets;

use super::mutant::Mutant;
use super::{EPOCH, SimError, store_failed};
use crate::traffic::mix;

/// As in the sender's heart.
const CLAIM_BYTES_MAX: u64 = 4 << 20;
const ROWS_MAX: u32 = 1_000;
/// How long a lease is, as `sender serve` has it unless told otherwise.
const LEASE: Nanos = Nanos::from_secs(30);
/// For how long the mutant that loses settlements keeps them to itself.
const LOST_FOR: u64 = 3_000_000_000;

/// What a process has the world do.
pub(super) enum Act {
    /// Make an attempt.
    Send { attempt: AttemptId, lane: LaneId, row: Box<ClaimedRow>, number: u32 },
    /// An attempt that can't be made: its subscriber is gone.
    Impossible { attempt: AttemptId, delivery: DeliveryId },
    /// These were handed out; tell the process in a moment.
    Claimed(Vec<Claimed>),
    /// The sender's answer to events, in their order.
    Emitted(Vec<(u64, Answered)>),
    /// What was asked of the store for an operator is done.
    Operated,
}

/// What became of an event that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It is recorded.
    Accepted { matched: u32, shed: u64 },
    /// A lane is full.
    Full,
    /// It has to be matched again.
    Stale,
}

/// What is to be done when the store has answered.
pub(super) enum Then {
    Emit { tokens: Vec<u64>, lanes: Vec<Vec<LaneId>> },
    Claim(LaneId, Term),
    Settle { batch: Option<BatchId>, owners: Vec<(LaneId, Term)> },
    Persist { lane: LaneId, term: Term, hand_back: bool },
    Renew(WallTime),
    Acquire(WallTime),
    Operate,
    Nothing,
}

/// What waits for the store.
pub(super) struct Request {
    pub(super) commands: Vec<Command>,
    pub(super) then: Then,
}

/// A process of the sender.
pub(super) struct Process {
    pub(super) store: SqliteStore,
    pub(super) reader: SqliteReader,
    claimer: Option<Box<dyn Claimer>>,
    engine: Engine,
    tenure: Tenure,
    lanes: Lanes,
    keeper: RosterKeeper,
    posted: HashMap<DeliveryId, command::Attempt>,
    pub(super) stop: Stop,
    seen: Glance,
    pub(super) owner: OwnerId,
    began: Began,
    desk: Desk,
    bug: Bug,
}

/// How the process's steady clock relates to the world's.
#[derive(Clone, Copy)]
struct Began {
    at: u64,
    base: WallTime,
}

/// What waits for the store, and what the store is at.
#[derive(Default)]
struct Desk {
    waiting: Vec<Request>,
    committing: Vec<Request>,
    way: OnItsWay,
    claims: Vec<Claim>,
}

/// What a mutant keeps.
#[derive(Default)]
struct Bug {
    kind: Option<Mutant>,
    /// Deliveries whose end the engine was told before it came.
    charged: BTreeMap<DeliveryId, Option<Settlement>>,
    /// Settlements that wait to be written.
    unwritten: Vec<(u64, command::Settlement)>,
}

/// What a process is started with.
pub(super) struct Birth<'a> {
    pub(super) path: &'a Path,
    pub(super) at: u64,
    /// The wall clock as the process reads it.
    pub(super) wall: WallTime,
    pub(super) seed: u64,
    pub(super) dead: &'a [OwnerId],
    pub(super) mutant: Option<Mutant>,
}

impl Process {
    /// Starts a process: opens the file, frees the lanes of the dead, reads the subscribers.
    pub(super) fn start(birth: &Birth<'_>) -> Result<Self, SimError> {
        let failed = store_failed("open");
        let options = sqlite::Options {
            durability: sqlite::Durability::Process,
            create: true,
            identity: 7,
            ..sqlite::Options::default()
        };
        let store = SqliteStore::open(birth.path, &options).map_err(&failed)?;
        let reader = SqliteReader::open(birth.path).map_err(&failed)?;
        let seen = reader.glance().map_err(&failed)?;
        let base = birth.wall.max(seen.clock);
        let owner = OwnerId(mix(birth.seed) >> 1);
        let mut keeper = RosterKeeper::new(RegionSecrets::default());
        keeper.catch_up(&reader, base).map_err(&failed)?;
        let mut process = Self {
            claimer: store.claimer().map_err(&failed)?,
            store,
            engine: Engine::new(mix(birth.seed ^ 1), Limits::default()),
            tenure: Tenure::new(owner, LEASE, base),
            lanes: Lanes::default(),
            keeper,
            posted: HashMap::new(),
            stop: Stop::default(),
            seen,
            owner,
            began: Began { at: birth.at, base },
            desk: Desk::default(),
            bug: Bug { kind: birth.mutant, ..Bug::default() },
            reader,
        };
        process.evict(birth.dead)?;
        Ok(process)
    }

    /// Adds a subscriber, before anything begins.
    pub(super) fn subscribe(&mut self, command: Command) -> Result<LaneId, SimError> {
        let replies = self.store.commit(self.began.base, &[command]).map_err(store_failed("subscribe"))?;
        match replies.first() {
            Some(Reply::Subscribed { lane }) => Ok(*lane),
            other => Err(SimError::Defect(format!("the store answered a subscription with {other:?}"))),
        }
    }

    /// Frees the lanes of owners that are surely dead.
    pub(super) fn evict(&mut self, dead: &[OwnerId]) -> Result<(), SimError> {
        for owner in self.reader.owners().map_err(store_failed("read the owners"))? {
            if owner.lanes > 0 && dead.contains(&owner.owner) {
                self.submit(vec![Command::Evict(owner.owner)], Then::Nothing);
            }
        }
        Ok(())
    }

    /// The steady time at a moment of the world.
    pub(super) fn steady(&self, now: u64) -> WallTime {
        WallTime(self.began.base.0 + (now - self.began.at))
    }

    /// When the world has to call, if nothing happens before.
    pub(super) fn next_wake(&self) -> u64 {
        let tenure = if self.stop.is_asked() { Instant::NEVER } else { instant(self.tenure.next_step()) };
        let steady = self.engine.next_wake().map_or(tenure, |wake| wake.min(tenure));
        let own = self.bug.unwritten.first().map_or(u64::MAX, |(at, _)| *at);
        steady.0.saturating_sub(self.began.base.0).saturating_add(self.began.at).min(own)
    }

    pub(super) fn roster(&self) -> &Arc<Roster> {
        self.keeper.present()
    }

    /// Whether the process was asked to stop and all has come to an end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.is_asked()
            && self.engine.is_at_rest()
            && self.lanes.all_handed_back()
            && !self.has_requests()
    }

    fn has_requests(&self) -> bool {
        !self.desk.waiting.is_empty() || !self.desk.committing.is_empty()
    }

    /// Has commands carried out with the next commit.
    pub(super) fn submit(&mut self, commands: Vec<Command>, then: Then) {
        self.desk.way.begin(&commands);
        self.desk.waiting.push(Request { commands, then });
    }

    /// Whether a commit is to begin.
    pub(super) fn begin_commit(&mut self) -> bool {
        let begins = self.desk.committing.is_empty() && !self.desk.waiting.is_empty();
        if begins {
            self.desk.committing = std::mem::take(&mut self.desk.waiting);
        }
        begins
    }

    /// The events whose answer is still owed to whoever offered them.
    pub(super) fn unanswered(&self) -> Vec<u64> {
        let all = self.desk.committing.iter().chain(&self.desk.waiting);
        let tokens = all.filter_map(|request| match &request.then {
            Then::Emit { tokens, .. } => Some(tokens),
            _ => None,
        });
        tokens.flatten().copied().collect()
    }

    /// Carries out the commit that began, without telling anybody: what a crash right after it leaves.
    pub(super) fn commit_silently(&mut self, now: u64) -> Result<(), SimError> {
        let commands: Vec<Command> =
            self.desk.committing.iter().flat_map(|request| request.commands.iter().cloned()).collect();
        if !commands.is_empty() {
            self.store.commit(self.steady(now), &commands).map_err(store_failed("commit"))?;
        }
        Ok(())
    }

    /// Carries out the commit that began, and hears the answers. True if deliveries were recorded.
    pub(super) fn commit(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<bool, SimError> {
        let requests = std::mem::take(&mut self.desk.committing);
        let counts: Vec<usize> = requests.iter().map(|request| request.commands.len()).collect();
        let (commands, thens): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| (request.commands, request.then)).unzip();
        let commands: Vec<Command> = commands.into_iter().flatten().collect();
        let replies = self.store.commit(self.steady(now), &commands).map_err(store_failed("commit"))?;
        self.desk.way.end(&commands);
        let mut replies = replies.into_iter();
        let mut recorded = false;
        for (then, count) in thens.into_iter().zip(counts) {
            let these: Vec<Reply> = replies.by_ref().take(count).collect();
            recorded |= matches!(then, Then::Emit { .. });
            self.hear(then, these, now, acts);
        }
        Ok(recorded)
    }

    fn hear(&mut self, then: Then, replies: Vec<Reply>, now: u64, acts: &mut Vec<Act>) {
        let first = replies.into_iter();
        match then {
            Then::Emit { tokens, lanes } => self.emitted(tokens, &lanes, first.collect(), now, acts),
            Then::Claim(lane, term) => first.for_each(|reply| match reply {
                Reply::Claimed(claimed) => self.fill(claimed, now),
                _ => self.lose(lane, term, now),
            }),
            Then::Settle { batch, owners } => {
                batch.into_iter().for_each(|batch| self.handle(now, Input::Settled { batch }));
                let verdicts = first.flat_map(|reply| match reply {
                    Reply::Settled(verdicts) => verdicts,
                    _ => Vec::new(),
                });
                let stale: Vec<_> =
                    owners.into_iter().zip(verdicts).filter(|(_, is)| *is == Verdict::Stale).collect();
                stale.into_iter().for_each(|((lane, term), _)| self.lose(lane, term, now));
            }
            Then::Persist { lane, term, hand_back } => first.for_each(|reply| match reply {
                Reply::Refused(Refusal::StaleTerm { .. }) => self.lose(lane, term, now),
                _ if hand_back => self.lanes.handed_back(lane, term),
                _ => {}
            }),
            Then::Renew(asked) => first.for_each(|reply| match reply {
                Reply::Renewed(renewed) => self.renew(renewed, asked, now),
                _ => self.tenure.not_renewed(self.steady(now)),
            }),
            Then::Acquire(asked) => first.for_each(|reply| {
                let taken = if let Reply::Acquired(taken) = reply { taken } else { Vec::new() };
                self.tenure.acquired(taken.len());
                taken.into_iter().for_each(|taken| self.take(taken, asked, now));
            }),
            Then::Operate => acts.push(Act::Operated),
            Then::Nothing => {}
        }
    }

    fn emitted(
        &mut self,
        tokens: Vec<u64>,
        lanes: &[Vec<LaneId>],
        replies: Vec<Reply>,
        now: u64,
        acts: &mut Vec<Act>,
    ) {
        let mut work = BTreeMap::new();
        let mut answers = Vec::with_capacity(tokens.len());
        for ((token, lanes), reply) in tokens.into_iter().zip(lanes).zip(replies) {
            let answered = match reply {
                Reply::Emitted(emitted) => {
                    let mut matched = 0;
                    for (lane, placed) in lanes.iter().zip(&emitted.targets) {
                        matched +=
                            u32::from(matches!(placed, Placed::Waiting { .. } | Placed::Overflowed { .. }));
                        if let Placed::Waiting { due, .. } = placed {
                            let first = work.entry(*lane).or_insert(*due);
                            *first = (*first).min(*due);
                        }
                    }
                    Answered::Accepted { matched, shed: emitted.shed }
                }
                Reply::Refused(Refusal::StaleRoster { .. }) => Answered::Stale,
                _ => Answered::Full,
            };
            answers.push((token, answered));
        }
        acts.push(Act::Emitted(answers));
        work.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
    }

    fn handle(&mut self, now: u64, input: Input) {
        let now = instant(self.steady(now));
        self.engine.handle(now, input);
    }

    pub(super) fn work(&mut self, lane: LaneId, due: WallTime, now: u64) {
        if self.lanes.is_ours(lane) {
            self.handle(now, Input::Work { lane, due: instant(due) });
        } else {
            self.tenure.want(lane);
        }
    }

    pub(super) fn fill(&mut self, claimed: Claimed, now: u64) {
        let Claimed { lane, term, rows, next } = claimed;
        let due = rows.iter().map(|row| Due {
            delivery: row.delivery,
            attempts: row.attempts,
            expires: instant(row.expires),
        });
        let due = due.collect();
        if self.lanes.hold(lane, term, rows) {
            self.handle(now, Input::Claimed { lane, term, due, next: next.map(instant) });
        }
    }

    fn take(&mut self, taken: Taken, asked: WallTime, now: u64) {
        let Taken { lane, term, state, handover, next } = taken;
        let Some(subscriber) = self.roster().get(lane).cloned() else {
            self.lanes.wait_for_roster(Taken { lane, term, state, handover, next }, asked);
            return;
        };
        if self.stop.is_asked() {
            return;
        }
        let settings = Arc::clone(subscriber.settings());
        let moment = moment(now);
        let origin = handover::open(handover, settings.quarantine(), subscriber.deadline(), Some(&moment));
        let lease_until =
            if self.is(Mutant::LeaseNotFenced) { Instant::NEVER } else { instant(self.tenure.until(asked)) };
        let paused = state != LaneState::Active || !subscriber.is_sendable();
        let next = next.map(instant);
        self.lanes.take(lane, term);
        let taking = Taking { lane, term, settings, origin, lease_until, next, paused };
        self.handle(now, Input::Take(Box::new(taking)));
    }

    fn lose(&mut self, lane: LaneId, term: Term, now: u64) {
        if !self.is(Mutant::LeaseNotFenced) && self.lanes.forget(lane, term) {
            self.handle(now, Input::Lose { lane, term });
        }
    }

    fn renew(&mut self, renewed: Renewed, asked: WallTime, now: u64) {
        self.tenure.renewed(asked);
        renewed.lost.into_iter().for_each(|(lane, term)| self.lose(lane, term, now));
        if self.is(Mutant::LeaseNotFenced) {
            return;
        }
        let until = instant(self.tenure.until(asked));
        for (lane, term) in self.lanes.ours() {
            self.handle(now, Input::Renew { lane, term, until });
        }
    }

    /// Looks at what others did to the database, as the watcher does.
    pub(super) fn look(&mut self, now: u64) -> Result<(), SimError> {
        let failed = store_failed("look");
        let glance = self.reader.glance().map_err(&failed)?;
        if glance.roster != self.seen.roster {
            let before = Arc::clone(self.keeper.present());
            let steady = self.steady(now);
            let roster = Arc::clone(self.keeper.catch_up(&self.reader, steady).map_err(&failed)?);
            self.change(&before, &roster, now);
        }
        let mut after = self.seen.last;
        while after < glance.last {
            let work = self.reader.work_after(after, ROWS_MAX).map_err(&failed)?;
            after = work.last;
            work.lanes.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
            if !work.more {
                break;
            }
        }
        if glance.stirred != self.seen.stirred {
            let lanes: Vec<LaneId> = self.roster().lanes().collect();
            let heads = self.reader.heads(&lanes).map_err(&failed)?;
            heads.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
        }
        self.seen = glance;
        Ok(())
    }

    fn change(&mut self, before: &Roster, roster: &Roster, now: u64) {
        for (lane, _) in self.lanes.ours() {
            let old = before.get(lane);
            let Some(new) = roster.get(lane).cloned() else {
                self.handle(now, Input::Leave { lane });
                continue;
            };
            if old.is_none_or(|old| !Arc::ptr_eq(old.settings(), new.settings())) {
                self.handle(now, Input::Change { lane, settings: Arc::clone(new.settings()) });
            }
            if old.is_none_or(|old| old.is_sendable() != new.is_sendable()) {
                let sendable = new.is_sendable();
                self.handle(now, if sendable { Input::Resume { lane } } else { Input::Pause { lane } });
            }
        }
        for (taken, asked) in self.lanes.waiting_for_roster() {
            self.take(taken, asked, now);
        }
    }

    /// An attempt is over.
    pub(super) fn ended(
        &mut self,
        now: u64,
        attempt: AttemptId,
        delivery: DeliveryId,
        outcome: Outcome,
        record: command::Attempt,
    ) {
        if self.is(Mutant::ChargedOnSend)
            && let Some(settled) = self.bug.charged.remove(&delivery)
        {
            self.settle_late(settled, &outcome, record, now);
            return;
        }
        self.posted.insert(delivery, record);
        self.handle(now, Input::Ended { attempt, outcome });
    }

    pub(super) fn ask_to_stop(&mut self, now: u64) {
        self.stop.ask();
        self.handle(now, Input::Stop);
    }

    /// Lets the engine decide, and carries it out.
    pub(super) fn beat(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        self.handle(now, Input::Tick);
        if !self.stop.is_asked() {
            self.step_tenure(now);
        }
        self.write_late(now);
        while let Some(output) = self.engine.poll() {
            self.carry_out(output, now, acts)?;
        }
        self.posted.clear();
        self.claim_beside(now, acts)
    }

    fn step_tenure(&mut self, now: u64) {
        let asked = self.steady(now);
        for step in self.tenure.steps(asked) {
            match step {
                Step::Renew(renew) => self.submit(vec![Command::Renew(renew)], Then::Renew(asked)),
                Step::Acquire(acquire) => self.submit(vec![Command::Acquire(acquire)], Then::Acquire(asked)),
            }
        }
    }

    fn carry_out(&mut self, output: Output, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        match output {
            Output::Claim { lane, term, max } => {
                let claim = Claim { lane, term, max, bytes_max: CLAIM_BYTES_MAX };
                let command = [Command::Claim(claim.clone())];
                if self.claimer.is_some() && self.desk.way.lets_pass(&command) {
                    self.desk.claims.push(claim);
                } else {
                    self.submit(command.into(), Then::Claim(lane, term));
                }
            }
            Output::Send { attempt, lane, delivery, number } => {
                self.send(attempt, lane, delivery, number, now, acts);
            }
            Output::Settle { batch, settlements } => self.settle(batch, &settlements, now),
            Output::Persist { lane, term, record } => self.persist(lane, term, *record, now)?,
            Output::Wake { .. } => {}
        }
        Ok(())
    }

    fn send(
        &mut self,
        attempt: AttemptId,
        lane: LaneId,
        delivery: DeliveryId,
        number: u32,
        now: u64,
        acts: &mut Vec<Act>,
    ) {
        let row = self.lanes.release(lane, delivery);
        let Some(row) = row.filter(|_| self.roster().get(lane).is_some()) else {
            acts.push(Act::Impossible { attempt, delivery });
            return;
        };
        acts.push(Act::Send { attempt, lane, row: Box::new(row), number });
        if self.is(Mutant::ChargedOnSend) {
            self.bug.charged.insert(delivery, None);
            let at = self.steady(now);
            let answer = hookproof_sender::engine::Answer { status: 204, retry_after: None, date: None, at };
            self.handle(now, Input::Ended { attempt, outcome: Outcome::Answered(answer) });
        }
    }

    fn settle(&mut self, batch: BatchId, settlements: &[Settlement], now: u64) {
        let mut rows = Vec::with_capacity(settlements.len());
        for settled in settlements {
            self.lanes.release(settled.lane, settled.delivery);
            if let Some(place) = self.bug.charged.get_mut(&settled.delivery) {
                *place = Some(*settled);
                continue;
            }
            rows.push(self.row(settled));
        }
        if self.is(Mutant::SettleLost) {
            self.bug.unwritten.extend(rows.into_iter().map(|row| (now + LOST_FOR, row)));
            return self.handle(now, Input::Settled { batch });
        }
        if rows.is_empty() {
            return self.handle(now, Input::Settled { batch });
        }
        let owners = rows.iter().map(|row| (row.lane, row.term)).collect();
        self.submit(vec![Command::Settle(rows)], Then::Settle { batch: Some(batch), owners });
    }

    fn row(&mut self, settled: &Settlement) -> command::Settlement {
        let Settlement { lane, term, delivery, attempts, fate } = *settled;
        let attempt = self.posted.remove(&delivery);
        command::Settlement { lane, term, delivery, attempts, fate: fate.into(), attempt }
    }

    fn persist(&mut self, lane: LaneId, term: Term, record: LaneRecord, now: u64) -> Result<(), SimError> {
        let hand_back = record.is_final();
        let mut record =
            handover::seal(record, Some(moment(now))).map_err(|error| SimError::Defect(error.to_string()))?;
        if self.is(Mutant::PauseForgotten) {
            let mut value: serde_json::Value =
                serde_json::from_slice(&record).map_err(|error| SimError::Defect(error.to_string()))?;
            value["lane"]["pause"] = 0.into();
            record = value.to_string().into_bytes().into();
        }
        if hand_back {
            self.lanes.hand_back(lane, term);
        }
        let persist = Persist { lane, term, record, hand_back };
        self.submit(vec![Command::Persist(persist)], Then::Persist { lane, term, hand_back });
        Ok(())
    }

    fn claim_beside(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        let claims = std::mem::take(&mut self.desk.claims);
        if claims.is_empty() {
            return Ok(());
        }
        let steady = self.steady(now);
        let mut told = Vec::with_capacity(claims.len());
        for some in claims.chunks(64) {
            let claimed = match &mut self.claimer {
                Some(claimer) => claimer.claim(steady, some).map_err(store_failed("claim"))?,
                None => None,
            };
            match claimed {
                Some(claimed) => told.extend(claimed),
                None => {
                    for claim in some {
                        let then = Then::Claim(claim.lane, claim.term);
                        self.submit(vec![Command::Claim(claim.clone())], then);
                    }
                }
            }
        }
        if !told.is_empty() {
            acts.push(Act::Claimed(told));
        }
        Ok(())
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.bug.kind == Some(mutant)
    }

    /// The end of an attempt that the engine took for a success when it began.
    fn settle_late(
        &mut self,
        settled: Option<Settlement>,
        outcome: &Outcome,
        record: command::Attempt,
        now: u64,
    ) {
        let Some(settled) = settled else { return };
        let due = WallTime(self.steady(now).0 + Nanos::SECOND.0);
        let fate = match outcome {
            Outcome::Answered(answer) if (200..300).contains(&answer.status) => command::Fate::Delivered,
            _ => command::Fate::Retry { due },
        };
        let Settlement { lane, term, delivery, attempts, .. } = settled;
        let row = command::Settlement { lane, term, delivery, attempts, fate, attempt: Some(record) };
        self.submit(
            vec![Command::Settle(vec![row])],
            Then::Settle { batch: None, owners: vec![(lane, term)] },
        );
        self.work(lane, due, now);
    }

    /// Writes what the mutant that loses settlements has kept for long enough.
    fn write_late(&mut self, now: u64) {
        let ripe = self.bug.unwritten.partition_point(|(at, _)| *at <= now);
        if ripe > 0 {
            let rows: Vec<_> = self.bug.unwritten.drain(..ripe).map(|(_, row)| row).collect();
            self.submit(vec![Command::Settle(rows)], Then::Nothing);
        }
    }
}

/// The machine's moment: it is never started anew.
fn moment(now: u64) -> Moment {
    Moment::at("virtual", Nanos(EPOCH.0 / 1_000_000 + now))
}
