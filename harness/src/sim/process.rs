//! One process of the sender in virtual time: the production engine on the production store, driven in the order in which
//! the sender's heart drives them. What the heart has the runtime carry out comes out as [`Act`]s; what takes time there
//! (a commit, a claim, a request) takes virtual time here.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use hookproof_sender::engine::{
    AttemptId, BatchId, DeliveryId, Due, Engine, Input, LaneId, Limits, Nanos, Outcome, Term, WallTime,
};
use hookproof_sender::roster::{Roster, RosterKeeper};
use hookproof_sender::runtime::clock::{Moment, instant};
use hookproof_sender::runtime::lanes::{Lanes, Stop};
use hookproof_sender::runtime::tenure::Tenure;
use hookproof_sender::store::command::{self, Claim, Command};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::read::Glance;
use hookproof_sender::store::reply::{Claimed, ClaimedRow, Placed, Refusal, Reply, Verdict};
use hookproof_sender::store::sqlite::{self, SqliteReader, SqliteStore};
use hookproof_sender::store::thread::OnItsWay;
use hookproof_sender::store::{Claimer, Reader, Store};
use hookproof_sender::subscriber::RegionSecrets;

use super::errand::numbers;
use super::ledger::Ledger;
use super::mutant::{Bug, Mutant};
use super::offer::Answered;
use super::{EPOCH, SimError, store_failed};
use crate::traffic::mix;

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
    /// What was asked of the store for an operator is done: by its number.
    Operated(u64),
}

/// What is to be done when the store has answered.
pub(super) enum Then {
    Emit { tokens: Vec<u64>, lanes: Vec<Vec<LaneId>> },
    Claim(LaneId, Term),
    Settle { batch: Option<BatchId>, owners: Vec<(LaneId, Term)> },
    Persist { lane: LaneId, term: Term, hand_back: bool },
    Renew(WallTime),
    Acquire(WallTime),
    Operate(u64),
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
    pub(super) claimer: Option<Box<dyn Claimer>>,
    pub(super) engine: Engine,
    pub(super) tenure: Tenure,
    pub(super) lanes: Lanes,
    pub(super) keeper: RosterKeeper,
    pub(super) posted: HashMap<DeliveryId, command::Attempt>,
    pub(super) stop: Stop,
    pub(super) seen: Glance,
    pub(super) owner: OwnerId,
    began: Began,
    pub(super) desk: Desk,
    pub(super) bug: Bug,
}

/// How the process's steady clock relates to the world's.
#[derive(Clone, Copy)]
struct Began {
    at: u64,
    base: WallTime,
}

/// What waits for the store, and what the store is at.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) waiting: Vec<Request>,
    pub(super) committing: Vec<Request>,
    pub(super) way: OnItsWay,
    pub(super) claims: Vec<Claim>,
    /// Since when the store has been failing.
    pub(super) failing: Option<u64>,
    /// What the store has done since somebody last looked.
    pub(super) ledger: Ledger,
}

/// What a process is started with.
pub(super) struct Birth<'a> {
    pub(super) path: &'a Path,
    pub(super) at: u64,
    /// The wall clock as the process reads it.
    pub(super) wall: WallTime,
    pub(super) seed: u64,
    pub(super) dead: &'a [OwnerId],
    pub(super) lease: Nanos,
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
            tenure: Tenure::new(owner, birth.lease, base),
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
        let tenure = instant(self.tenure.next_step());
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
            && !self.tenure.is_asking()
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

    /// Carries out the commit that began, without telling anybody: what a crash right after it leaves. Answers what of it
    /// operators had asked for.
    pub(super) fn commit_silently(&mut self, now: u64) -> Result<Vec<u64>, SimError> {
        let commands: Vec<Command> =
            self.desk.committing.iter().flat_map(|request| request.commands.iter().cloned()).collect();
        if !commands.is_empty() {
            let replies = self.store.commit(self.steady(now), &commands).map_err(store_failed("commit"))?;
            self.desk.ledger.note(&commands, &replies);
        }
        Ok(numbers(self.desk.committing.iter()))
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
        self.desk.ledger.note(&commands, &replies);
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
            Then::Operate(errand) => acts.push(Act::Operated(errand)),
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
                Reply::Refused(Refusal::Full(full)) => {
                    Answered::Full(full.iter().map(|full| full.lane).collect())
                }
                _ => Answered::Full(Vec::new()),
            };
            answers.push((token, answered));
        }
        acts.push(Act::Emitted(answers));
        work.into_iter().for_each(|(lane, due)| self.work(lane, due, now));
    }

    pub(super) fn handle(&mut self, now: u64, input: Input) {
        let now = instant(self.steady(now));
        self.engine.handle(now, input);
    }

    pub(super) fn work(&mut self, lane: LaneId, due: WallTime, now: u64) {
        if self.lanes.is_ours(lane) {
            self.handle(now, Input::Work { lane, due: instant(due) });
        } else if self.roster().get(lane).is_none_or(|subscriber| subscriber.ready().is_ok()) {
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
        self.lanes.withdraw_all();
        self.tenure.stop();
        self.handle(now, Input::Stop);
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.bug.kind == Some(mutant)
    }
}

/// The machine's moment: it is never started anew.
pub(super) fn moment(now: u64) -> Moment {
    Moment::at("virtual", Nanos(EPOCH.0 / 1_000_000 + now))
}
