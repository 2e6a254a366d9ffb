use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::budget::{Portion, Wanted};
use super::effect::{Effect, NewAttempt, News, SendLimits, Subscriber as _, SubscriberSet};
use super::event::{AttemptEnd, Event, Order};
use super::lanes::Lanes;
use super::membership::Membership;
use super::obstacles::{Cause, Obstacles, STUCK_MAX, Stuck};
use super::tenure::{Step, Tenure};
use super::unsettled::{Records, Unkept, Unsettled, WorkDone};
use crate::engine::{
    AttemptId, BatchId, DeliveryId, Engine, Fate, Input, LaneId, LaneView, Limits, Nanos, Output, Reason,
    Settlement, StoreTime, Term,
};
use crate::messages::command::{self, Claim, Command};
use crate::messages::lane::OwnerId;
use crate::messages::node::Announcement;

/// While stopping, how often to check whether the store fails.
const STOP_LOOK: Nanos = Nanos::from_millis(50);
/// How long a lane may wait for its subscriber before it counts as stuck. The roster usually comes within
/// milliseconds.
const UNKNOWN_MAX: Nanos = Nanos::from_secs(10);

#[derive(Clone, Debug)]
pub struct Settings<S> {
    pub owner: OwnerId,
    /// The dispatcher adds the lanes that it cannot serve.
    pub announcement: Announcement,
    pub lease: Nanos,
    pub seed: u64,
    pub limits: Limits,
    pub roster: Arc<S>,
}

/// All decisions of one process. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Dispatcher<S: SubscriberSet> {
    pub(super) now: StoreTime,
    pub(super) engine: Engine,
    pub(super) tenure: Tenure,
    pub(super) membership: Membership,
    pub(super) lanes: Lanes,
    pub(super) roster: Arc<S>,
    pub(super) unsettled: Unsettled,
    pub(super) records: Records,
    pub(super) obstacles: Obstacles,
    pub(super) work_done: WorkDone,
    pub(super) effects: VecDeque<Effect<S>>,
    pub(super) stopping: bool,
    /// Records of attempts that ended in this round, until their settlements come out.
    ended: HashMap<AttemptId, command::Attempt, BuildHasherDefault<DefaultHasher>>,
    fresh: bool,
}

impl<S: SubscriberSet> Dispatcher<S> {
    /// First announces this node, then asks for the node's lanes with due work.
    #[must_use]
    pub fn new(settings: Settings<S>, now: StoreTime) -> Self {
        let Settings { owner, announcement, lease, seed, limits, roster } = settings;
        let mut dispatcher = Self {
            now,
            engine: Engine::new(seed, limits),
            tenure: Tenure::new(owner, lease, announcement, now),
            membership: Membership::new(owner),
            lanes: Lanes::default(),
            roster,
            unsettled: Unsettled::default(),
            records: Records::default(),
            obstacles: Obstacles::default(),
            work_done: WorkDone::default(),
            effects: VecDeque::new(),
            stopping: false,
            ended: HashMap::default(),
            fresh: true,
        };
        dispatcher.announce_unserved();
        dispatcher
    }

    /// Then call [`Self::poll`] until it returns nothing. Handling several events before polling makes larger batches.
    pub fn handle(&mut self, now: StoreTime, event: Event<S>) {
        self.now = self.now.max(now);
        self.fresh = true;
        match event {
            Event::Tick => {}
            Event::Work(lanes) => lanes.into_iter().for_each(|(lane, due)| self.work(lane, due)),
            Event::Nodes(nodes) => self.meet_nodes(nodes),
            Event::Roster(roster) => self.change(roster),
            Event::Ended { attempt, result, .. } => self.end(attempt, result),
            Event::Answered(answered) => self.handle_answer(answered),
            Event::Stop => self.stop(),
        }
    }

    /// The next effect. After the last one, wait for an event or for [`Self::next_wake`].
    pub fn poll(&mut self) -> Option<Effect<S>> {
        if std::mem::take(&mut self.fresh) {
            self.feed_engine(Input::Tick);
            self.try_again();
            self.step_membership();
            self.step_tenure();
        }
        loop {
            if let Some(effect) = self.effects.pop_front() {
                return Some(effect);
            }
            let effect = match self.engine.poll() {
                Some(output) => self.translate(output),
                // All bytes given back so far count.
                None => match self.lanes.budget.next() {
                    Some((wanted, portion)) => self.claim_within(wanted, portion),
                    None => break,
                },
            };
            if effect.is_some() {
                return effect;
            }
        }
        // The rest belongs to lost lanes: their new owners make the attempts again.
        self.ended.clear();
        None
    }

    /// The time to call [`Self::handle`] with [`Event::Tick`], unless an event comes first.
    #[must_use]
    pub fn next_wake(&self) -> StoreTime {
        let nodes = if self.stopping { StoreTime(u64::MAX) } else { self.membership.next_step() };
        let wake = self.tenure.next_step().min(nodes).min(self.obstacles.next_due());
        let wake = self.engine.next_wake().map_or(wake, |engine| wake.min(engine));
        if self.stopping && (self.is_taking() || !self.tenure.is_over()) {
            wake.min(self.now + STOP_LOOK)
        } else {
            wake
        }
    }

    /// True when everything has ended after [`Event::Stop`]. Requested lanes must be given back too, unless the
    /// store fails and grants none.
    #[must_use]
    pub fn is_over(&self, store_fails: impl FnOnce() -> bool) -> bool {
        self.stopping
            && self.engine.is_at_rest()
            && self.records.all_handed_back()
            && ((!self.is_taking() && self.tenure.is_over()) || store_fails())
    }

    /// True if the store knows that this process has no lanes and is no node. Otherwise other nodes must find
    /// out that it is dead.
    #[must_use]
    pub fn left_nothing(&self) -> bool {
        self.tenure.has_retired() && self.records.kept_all() && !self.is_taking()
    }

    fn is_taking(&self) -> bool {
        self.tenure.is_asking() || self.lanes.waiting().next().is_some()
    }

    #[must_use]
    pub const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Since the last call.
    pub fn take_work_done(&mut self) -> WorkDone {
        std::mem::take(&mut self.work_done)
    }

    #[must_use]
    pub fn views(&self) -> Vec<LaneView> {
        self.engine.views()
    }

    /// None while the subscriber is unknown.
    #[must_use]
    pub fn name(&self, lane: LaneId) -> Option<&Arc<str>> {
        self.roster.get(lane).map(|known| known.name())
    }

    /// At most [`STUCK_MAX`]. A lane with a silent endpoint is not blocked.
    #[must_use]
    pub fn stuck(&self) -> Vec<Stuck> {
        let now = self.now;
        let unknown = self.lanes.waiting().filter(|(_, since)| now.since(*since) > UNKNOWN_MAX);
        let why = "its subscriber could not be read";
        let unknown = unknown.map(|(lane, _)| Stuck { lane, why: why.into() });
        self.obstacles.stuck().chain(unknown).take(STUCK_MAX).collect()
    }

    pub(super) fn feed_engine(&mut self, input: Input) {
        self.engine.handle(self.now, input);
    }

    pub(super) fn submit(&mut self, order: Order, command: Command) {
        self.effects.push_back(Effect::Submit { order, command });
    }

    pub(super) fn report(&mut self, news: News) {
        self.effects.push_back(Effect::Report(news));
    }

    fn end(&mut self, attempt: AttemptId, result: AttemptEnd) {
        self.lanes.budget.end(attempt);
        if let Some(mut record) = result.record {
            record.details.asked = result.outcome.asks_to_wait();
            self.ended.insert(attempt, record);
        }
        self.feed_engine(Input::Ended { attempt, outcome: result.outcome });
    }

    fn stop(&mut self) {
        if std::mem::replace(&mut self.stopping, true) {
            return;
        }
        for (lane, _) in self.lanes.ours() {
            self.effects.push_back(Effect::Withdraw { lane });
        }
        self.tenure.stop();
        self.obstacles.hurry();
        self.feed_engine(Input::Stop);
    }

    fn step_tenure(&mut self) {
        let asked = self.now;
        for step in self.tenure.steps(asked) {
            match step {
                Step::Renew(renew) => self.submit(Order::Renew { asked }, Command::Renew(renew)),
                Step::Acquire(acquire) => self.submit(Order::Acquire { asked }, Command::Acquire(acquire)),
                Step::Retire(owner) => self.submit(Order::Retire, Command::Retire(owner)),
            }
        }
    }

    fn try_again(&mut self) {
        while let Some((lane, cause)) = self.obstacles.take_due(self.now) {
            match cause {
                Cause::Claim => {}
                Cause::Settle(number) => self.submit_batch(number),
                Cause::Persist => self.submit_newest_record(lane),
            }
        }
    }

    fn translate(&mut self, output: Output) -> Option<Effect<S>> {
        match output {
            Output::Claim { lane, term, max } => self.claim(lane, term, max),
            Output::Send { attempt, lane, term, delivery, number } => {
                self.send(attempt, (lane, term), delivery, number)
            }
            Output::Settle { batch, settlements } => Some(self.settle(batch, &settlements)),
            Output::Retry { lane, insist } => Some(Effect::Report(News::Retried { lane, insist })),
            Output::Tell { lane, shift } => Some(Effect::Report(News::Shifted { lane, shift })),
            Output::Turn { lane, before, breaker } => {
                Some(Effect::Report(News::Turned { lane, before, breaker }))
            }
            Output::Persist { lane, term, revision, record } => {
                self.persist(lane, Unkept { term, revision, record: Arc::from(record) });
                None
            }
        }
    }

    /// The claim, or nothing if it must wait for room.
    pub(super) fn claim(&mut self, lane: LaneId, term: Term, max: u32) -> Option<Effect<S>> {
        let wanted = Wanted { lane, term, max, length: self.lanes.bodies(lane) };
        let portion = self.lanes.budget.reserve(wanted)?;
        self.claim_within(wanted, portion)
    }

    fn claim_within(&mut self, wanted: Wanted, portion: Portion) -> Option<Effect<S>> {
        let Wanted { lane, term, max, .. } = wanted;
        if let Some(until) = self.obstacles.claims_wait_until(self.now, lane) {
            self.lanes.budget.give_back(portion);
            self.feed_engine(Input::Claimed { lane, term, due: Vec::new(), next: Some(until) });
            return None;
        }
        let command = Command::Claim(Claim { lane, term, max, bytes_max: wanted.bytes_max(portion) });
        Some(Effect::Submit { order: Order::Claim { lane, term, max, portion }, command })
    }

    /// The deadline counts from this decision, as it does for the engine and for the lane's next owner.
    fn send(
        &mut self,
        attempt: AttemptId,
        (lane, term): (LaneId, Term),
        delivery: DeliveryId,
        number: u32,
    ) -> Option<Effect<S>> {
        let released = self.lanes.release(lane, term, delivery);
        if let Some((_, portion)) = &released {
            self.lanes.budget.start(attempt, *portion);
        }
        let (Some((row, _)), Some(subscriber), Some(lease_until)) =
            (released, self.roster.get(lane), self.lanes.lease_until(lane))
        else {
            // The subscriber was just removed.
            let result = AttemptEnd::impossible(self.now, "the subscriber was removed");
            self.end(attempt, result);
            return None;
        };
        let subscriber = Arc::clone(subscriber);
        let limits = SendLimits { deadline: self.now + subscriber.deadline(), lease_until };
        Some(Effect::Send(NewAttempt { attempt, lane, row, number, subscriber, limits }))
    }

    fn settle(&mut self, batch: BatchId, settlements: &[Settlement]) -> Effect<S> {
        let rows: Vec<_> = settlements.iter().map(|settled| self.settlement(settled)).collect();
        let command = Command::Settle(rows.clone());
        Effect::Submit { order: Order::Settle(self.unsettled.add(batch, rows)), command }
    }

    fn settlement(&mut self, settled: &Settlement) -> command::Settlement {
        let Settlement { lane, term, delivery, attempts, attempt, fate, mut disables } = *settled;
        if attempt.is_none()
            && let Some((_, portion)) = self.lanes.release(lane, term, delivery)
        {
            // It was not sent.
            self.lanes.budget.give_back(portion);
        }
        if let Some((_, handled)) = disables
            && let Some(known) = self.roster.get(lane).filter(|known| known.retried().asked > handled)
        {
            // An operator asked after the engine's decision. A pause stays.
            disables = None;
            if known.is_sendable() {
                self.feed_engine(Input::Resume { lane });
            }
        }
        if fate == Fate::Dead(Reason::Gone) || disables.is_some() {
            self.lanes.set_sendable(lane, term, false);
        }
        let attempt = attempt.and_then(|attempt| self.ended.remove(&attempt));
        command::Settlement { lane, term, delivery, attempts, fate, disables, attempt }
    }

    fn persist(&mut self, lane: LaneId, unkept: Unkept) {
        if unkept.record.is_final() && self.lanes.forget(lane, unkept.term) {
            self.pass(lane, Cause::Claim);
            self.effects.push_back(Effect::Forget { lane });
        }
        self.obstacles.unplan(lane, Cause::Persist);
        self.records.put(lane, unkept);
        self.submit_newest_record(lane);
    }

    pub(super) fn submit_batch(&mut self, number: u64) {
        if let Some(rows) = self.unsettled.rows(number) {
            let command = Command::Settle(rows.to_vec());
            self.submit(Order::Settle(number), command);
        }
    }

    fn submit_newest_record(&mut self, lane: LaneId) {
        if self.records.get(lane).is_some_and(|unkept| !self.must_wait(lane, unkept)) {
            self.submit_record(lane);
        }
    }

    /// A lane is handed back only after all its settlements are durable: else its next owner would repeat deliveries.
    fn must_wait(&self, lane: LaneId, unkept: &Unkept) -> bool {
        unkept.record.is_final() && self.unsettled.concern(lane, unkept.term)
    }

    pub(super) fn hand_back_after(&mut self, rows: &[command::Settlement]) {
        let mut lanes: Vec<LaneId> =
            rows.iter().map(|row| row.lane).filter(|lane| self.records.is_final(*lane)).collect();
        lanes.dedup();
        lanes.into_iter().for_each(|lane| self.submit_newest_record(lane));
    }

    fn submit_record(&mut self, lane: LaneId) {
        if let Some(unkept) = self.records.get(lane) {
            let (term, record) = (unkept.term, Arc::clone(&unkept.record));
            let order = Order::Persist { lane, term, revision: unkept.revision };
            self.effects.push_back(Effect::Persist { order, lane, term, record });
        }
    }
}
