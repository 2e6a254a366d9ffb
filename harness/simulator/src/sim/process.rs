//! One process of the sender: the shipped dispatcher on the shipped store. Effects that take time in reality (commits,
//! claims, requests) become [`Act`]s for the world.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use hookproof_play::traffic::mix;
use hookproof_sender::boot_clock::BootTime;
use hookproof_sender::dispatch::{
    Answered, Dispatcher, Effect, Event, Moment, NewAttempt, Order, Settings, handover,
};
use hookproof_sender::engine::{LaneId, LaneView, Limits, Nanos, StoreTime};
use hookproof_sender::roster::{Roster, RosterKeeper};
use hookproof_sender::runtime::{Lookout, dead_owners};
use hookproof_sender::store::clock::{BACK_MAX, Beginning, MachineMoment};
use hookproof_sender::store::command::{Command, Persist};
use hookproof_sender::store::lane::OwnerId;
use hookproof_sender::store::node::Announcement;
use hookproof_sender::store::read::Notices;
use hookproof_sender::store::reply::{Placed, Refusal, Reply};
use hookproof_sender::store::sqlite::{self, SqliteReader, SqliteStore};
use hookproof_sender::store::{Durability, Reader, Store};
use hookproof_sender::subscriber::RegionSecrets;
use hookproof_sender::transport::Lease;

use super::commit_queue::{CommitQueue, Then, errands};
use super::error::{SimError, store_failed};
use super::mutant::{Bug, Mutant, ToLose};
use super::offers::Outcome;
use super::options::EPOCH;

/// An attempt is given up after `timeout` nanoseconds or with its lane's lease.
pub(super) enum Act {
    Send { attempt: Box<NewAttempt>, timeout: u64, lease: Lease },
    Claimed(Vec<Event>),
    Emitted(Vec<(u64, Outcome)>),
    Operated(u64),
}

pub(super) struct Process {
    pub(super) reader: SqliteReader,
    pub(super) queue: CommitQueue,
    pub(super) owner: OwnerId,
    store: SqliteStore,
    dispatcher: Dispatcher,
    lookout: Lookout,
    /// The leases of lanes that have sent something; renewals extend them.
    leases: BTreeMap<LaneId, Lease>,
    began: Began,
    bug: Bug,
    asked: Vec<Order>,
}

#[derive(Clone, Copy)]
struct Began {
    at: u64,
    base: StoreTime,
}

pub(super) struct Birth<'a> {
    pub(super) path: &'a Path,
    pub(super) at: u64,
    pub(super) wall: StoreTime,
    pub(super) seed: u64,
    pub(super) dead: &'a [OwnerId],
    pub(super) lease: Nanos,
    pub(super) mutant: Option<Mutant>,
    pub(super) loses: ToLose,
    /// No other process has the file open.
    pub(super) alone: bool,
}

impl Process {
    pub(super) fn start(birth: &Birth<'_>) -> Result<Self, SimError> {
        let failed = store_failed("open");
        let options = sqlite::Options {
            durability: Durability::Process,
            create: true,
            identity: 7,
            ..sqlite::Options::default()
        };
        let mut store = SqliteStore::open(birth.path, &options).map_err(&failed)?;
        let reader = SqliteReader::open(birth.path).map_err(&failed)?;
        let seen = reader.glance().map_err(&failed)?;
        let moment = moment(birth.at);
        let (boot, uptime) = moment.parts();
        let machine = MachineMoment { boot: boot.into(), uptime };
        let start = store
            .begin_clock(Beginning {
                wall: birth.wall,
                machine: Some(&machine),
                alone: birth.alone,
                back_max: BACK_MAX,
            })
            .map_err(&failed)?;
        let base = start.now;
        let owner = OwnerId(mix(birth.seed) >> 1);
        let mut keeper = RosterKeeper::new(RegionSecrets::default());
        keeper.catch_up(&reader, birth.wall).map_err(&failed)?;
        let announcement = Announcement {
            name: format!("{:x}", owner.0).into(),
            version: "simulated".into(),
            address: None,
            unable: Arc::default(),
            draining: false,
        };
        let settings = Settings {
            owner,
            announcement,
            lease: birth.lease,
            seed: mix(birth.seed ^ 1),
            limits: Limits::default(),
            roster: Arc::clone(keeper.present()),
        };
        let mut process = Self {
            queue: CommitQueue::new(&store).map_err(&failed)?,
            store,
            dispatcher: Dispatcher::new(settings, base),
            lookout: Lookout::new(seen, keeper),
            leases: BTreeMap::new(),
            owner,
            began: Began { at: birth.at, base },
            bug: Bug::new(birth.mutant, Rc::clone(&birth.loses)),
            asked: Vec::new(),
            reader,
        };
        process.evict(birth.dead)?;
        Ok(process)
    }

    pub(super) fn subscribe(&mut self, command: Command) -> Result<LaneId, SimError> {
        let replies = self.store.commit(self.began.base, &[command]).map_err(store_failed("subscribe"))?;
        match replies.first() {
            Some(Reply::Subscribed { lane }) => Ok(*lane),
            other => Err(SimError::Defect(format!("the store answered a subscription with {other:?}"))),
        }
    }

    pub(super) fn evict(&mut self, dead: &[OwnerId]) -> Result<(), SimError> {
        let owners = self.reader.owners().map_err(store_failed("read the owners"))?;
        for owner in dead_owners(owners, self.owner, |owner| dead.contains(&owner)) {
            self.queue.submit(vec![Command::Evict(owner.owner)], Then::Nothing);
        }
        Ok(())
    }

    pub(super) fn steady(&self, now: u64) -> StoreTime {
        StoreTime(self.began.base.0 + (now - self.began.at))
    }

    pub(super) fn remaining(&self, lease: &Lease, now: u64) -> u64 {
        lease.end().since(BootTime(self.steady(now).0)).0
    }

    /// In the world's time.
    pub(super) fn next_wake(&self) -> u64 {
        let steady = self.dispatcher.next_wake();
        let own = self.bug.next_write().unwrap_or(u64::MAX);
        steady.0.saturating_sub(self.began.base.0).saturating_add(self.began.at).min(own)
    }

    pub(super) fn roster(&self) -> &Arc<Roster> {
        self.lookout.roster()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.dispatcher.is_stopping()
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        let fails = || self.queue.failing.is_some_and(|since| since <= now);
        self.dispatcher.is_over(fails) && self.queue.is_empty()
    }

    pub(super) fn handle_event(&mut self, now: u64, event: Event) {
        let steady = self.steady(now);
        if let Some(event) = self.bug.change_event(event, steady, &mut self.queue) {
            if let Event::Answered(Answered { order, .. }) = &event {
                self.asked.retain(|asked| !is_of(order, asked));
            }
            self.dispatcher.handle(steady, event);
        }
    }

    pub(super) fn step(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        self.handle_event(now, Event::Tick);
        self.bug.write_late(now, &mut self.queue);
        while let Some(effect) = self.dispatcher.poll() {
            let steady = self.steady(now);
            let (effect, answer) = self.bug.change_effect(effect, steady, now, &mut self.queue);
            if let Some(effect) = effect {
                self.carry_out(effect, now, acts)?;
            }
            if let Some(event) = answer {
                self.dispatcher.handle(steady, event);
            }
        }
        Ok(())
    }

    /// Those that pass ahead of commits.
    pub(super) fn claim(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        let told = self.queue.claim(self.steady(now)).map_err(store_failed("claim"))?;
        if !told.is_empty() {
            acts.push(Act::Claimed(told.into_iter().map(Event::Answered).collect()));
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect, now: u64, acts: &mut Vec<Act>) -> Result<(), SimError> {
        match effect {
            Effect::Send(attempt) => {
                let timeout = attempt.limits.deadline.0.saturating_sub(self.steady(now).0);
                let lease = self.leases.entry(attempt.lane);
                let lease = lease.or_insert_with(|| Lease::until(BootTime(attempt.limits.lease_until.0)));
                acts.push(Act::Send { lease: lease.clone(), attempt: Box::new(attempt), timeout });
            }
            Effect::Extend { until } => {
                self.leases.values().for_each(|lease| lease.extend(BootTime(until.0)));
            }
            Effect::Forget { lane } => drop(self.leases.remove(&lane)),
            Effect::Submit { order, command } => {
                self.asked.push(order);
                self.queue.order(order, command, self.steady(now));
            }
            Effect::Persist { order, lane, term, record } => {
                self.asked.push(order);
                let hand_back = record.is_final();
                let sealed = handover::seal(&record, Some(moment(now)));
                let sealed = sealed.map_err(|error| SimError::Defect(error.to_string()))?;
                let record = self.bug.change_record(sealed)?;
                let persist = Persist { lane, term, record, hand_back };
                self.queue.order(order, Command::Persist(persist), self.steady(now));
            }
            // A simulated request is written at the moment of its decision, so none can be withdrawn.
            Effect::Withdraw { .. } | Effect::Report(_) => {}
        }
        Ok(())
    }

    pub(super) fn commit_silently(&mut self, now: u64) -> Result<Vec<u64>, SimError> {
        let steady = self.steady(now);
        self.queue.commit_silently(&mut self.store, steady).map_err(store_failed("commit"))
    }

    pub(super) fn commit(&mut self, now: u64, acts: &mut Vec<Act>) -> Result<bool, SimError> {
        let steady = self.steady(now);
        let told = self.queue.commit(&mut self.store, steady).map_err(store_failed("commit"))?;
        let mut recorded = false;
        for (then, replies) in told {
            match then {
                Then::Emit { tokens, lanes } => {
                    recorded = true;
                    self.emitted(tokens, &lanes, replies, now, acts);
                }
                Then::Order(order) => replies.into_iter().for_each(|reply| {
                    let answered = Answered { order, reply: Ok(reply), moment: Some(moment(now)) };
                    self.handle_event(now, Event::Answered(answered));
                }),
                Then::Operate(errand) => acts.push(Act::Operated(errand)),
                Then::Nothing => {}
            }
        }
        Ok(recorded)
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
                    for (lane, due) in emitted.work(lanes) {
                        let first = work.entry(lane).or_insert(due);
                        *first = (*first).min(due);
                    }
                    let matched = |placed: &&Placed| {
                        matches!(placed, Placed::Waiting { .. } | Placed::Overflowed { .. })
                    };
                    let matched = emitted.targets.iter().filter(matched).count();
                    let matched = u32::try_from(matched).unwrap_or(u32::MAX);
                    Outcome::Accepted { matched, shed: emitted.shed }
                }
                Reply::Refused(Refusal::StaleRoster { .. }) => Outcome::Stale,
                Reply::Refused(Refusal::Full(full)) => {
                    Outcome::Full(full.iter().map(|full| full.lane).collect())
                }
                _ => Outcome::Full(Vec::new()),
            };
            answers.push((token, answered));
        }
        acts.push(Act::Emitted(answers));
        self.handle_event(now, Event::Work(work.into_iter().collect()));
    }

    pub(super) fn poll_store(&mut self, now: u64) -> Result<(), SimError> {
        let steady = self.steady(now);
        let mut events = Vec::new();
        let looked = self.lookout.poll(&self.reader, steady, |_, _| false, |event| events.push(event));
        events.into_iter().for_each(|event| self.handle_event(now, event));
        looked.map(drop).map_err(store_failed("look"))
    }

    pub(super) fn views(&self) -> Vec<LaneView> {
        self.dispatcher.views()
    }

    pub(super) fn pending_orders(&self, of: LaneId) -> Vec<&Order> {
        let concerns = |order: &&Order| match order {
            Order::Claim { lane, .. } | Order::Persist { lane, .. } => *lane == of,
            Order::Settle(_) | Order::Renew { .. } | Order::Retire | Order::Acquire { .. } => true,
        };
        self.asked.iter().filter(concerns).collect()
    }

    pub(super) fn unanswered(&self) -> Vec<u64> {
        let tokens = self.queue.unanswered().filter_map(|request| match &request.then {
            Then::Emit { tokens, .. } => Some(tokens),
            _ => None,
        });
        tokens.flatten().copied().collect()
    }

    pub(super) fn errands(&self) -> Vec<u64> {
        errands(self.queue.unanswered())
    }
}

fn moment(now: u64) -> Moment {
    Moment::at("virtual", Nanos(EPOCH.0 / 1_000_000 + now))
}

/// Whether an answer to one order is that to the other: some mutants shift the moments that an answer names.
fn is_of(one: &Order, other: &Order) -> bool {
    let is_named = |order: &Order| matches!(order, Order::Renew { .. } | Order::Acquire { .. });
    one == other || (is_named(one) && std::mem::discriminant(one) == std::mem::discriminant(other))
}
