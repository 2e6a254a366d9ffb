//! A store in memory, and a driver that executes outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hookproof_engine::engine::breaker::{BreakerPolicy, Disabled, Standing};
use hookproof_engine::engine::contract::{Bucket, Contract, Rate};
use hookproof_engine::engine::pressure::PressurePolicy;
use hookproof_engine::engine::retry::{Backoff, RetryPolicy};
use hookproof_engine::engine::{
    AttemptId, BatchId, DeliveryId, Due, Engine, Fate, Input, LaneId, LaneRecord, Lateness, Nanos, Origin,
    Output, Revision, Settings, Settlement, Shift, StoreTime, Takeover, Term,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) attempt: AttemptId,
    pub(crate) lane: LaneId,
    pub(crate) delivery: DeliveryId,
    pub(crate) number: u32,
    pub(crate) at: StoreTime,
}

pub(crate) struct Shell {
    pub(crate) engine: Engine,
    pub(crate) store: Store,
    pub(crate) records: BTreeMap<LaneId, LaneRecord>,
    pub(crate) outputs: Option<Vec<Output>>,
    /// While set, the store accepts settlements and does not answer.
    pub(crate) store_is_stuck: bool,
    pub(crate) unanswered: Vec<BatchId>,
    pub(crate) delay: Nanos,
    pub(crate) says_durable_too_soon: bool,
    /// Writes with the time when they will be durable, in order.
    pub(crate) writes: VecDeque<(StoreTime, Write)>,
    /// Ends after a lane's durable checkpoint, as far as the store knows.
    pub(crate) ended: BTreeMap<LaneId, Vec<(StoreTime, u32)>>,
    pub(crate) told: Vec<(LaneId, Shift)>,
    pub(crate) turned: Vec<(LaneId, Standing)>,
    pub(crate) loses: Option<WakeUp>,
    under_way: BTreeSet<(LaneId, DeliveryId)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeUp {
    Settled,
    Persisted,
    Claimed,
    Work,
    Take,
}

impl WakeUp {
    fn of(input: &Input) -> Option<Self> {
        match input {
            Input::Settled { .. } => Some(Self::Settled),
            Input::Persisted { .. } => Some(Self::Persisted),
            Input::Claimed { .. } => Some(Self::Claimed),
            Input::Work { .. } => Some(Self::Work),
            Input::Take(_) => Some(Self::Take),
            _ => None,
        }
    }
}

pub(crate) enum Write {
    /// Settlements, and the ends of their attempts.
    Settle(BatchId, Vec<Settlement>, Vec<(LaneId, StoreTime)>),
    Persist(LaneId, Term, Revision, Box<LaneRecord>),
    /// No write, but it waits for earlier ones.
    Claim(LaneId, Term, u32),
}

impl Shell {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            store: Store::default(),
            records: BTreeMap::new(),
            outputs: None,
            store_is_stuck: false,
            unanswered: vec![],
            delay: Nanos::ZERO,
            says_durable_too_soon: false,
            writes: VecDeque::new(),
            ended: BTreeMap::new(),
            told: vec![],
            turned: vec![],
            loses: None,
            under_way: BTreeSet::new(),
        }
    }

    pub(crate) fn take(
        &mut self,
        now: StoreTime,
        lane: LaneId,
        term: u64,
        settings: &Arc<Settings>,
        origin: Origin,
    ) {
        let taking = Takeover {
            lane,
            term: Term(term),
            settings: Arc::clone(settings),
            origin,
            lease_until: StoreTime::NEVER,
            next: self.store.next(lane),
            paused: false,
        };
        self.handle_input(now, Input::Take(Box::new(taking)));
    }

    pub(crate) fn offer(&mut self, now: StoreTime, lane: LaneId, count: u64, ttl: Nanos) {
        for _ in 0..count {
            self.store.add(lane, now, now + ttl);
        }
        self.handle_input(now, Input::Work { lane, due: now });
    }

    fn handle_input(&mut self, now: StoreTime, input: Input) {
        if self.loses.is_some() && self.loses == WakeUp::of(&input) {
            self.loses = None;
        } else {
            self.engine.handle(now, input);
        }
    }

    /// Whether a delivery of a lane is due and not in flight; claimed ones count too.
    pub(crate) fn is_due(&self, lane: LaneId, now: StoreTime) -> bool {
        let due = self.store.due(lane, now);
        due.into_iter().any(|delivery| !self.under_way.contains(&(lane, delivery)))
    }

    pub(crate) fn next_send(&mut self, now: StoreTime) -> Option<Sent> {
        while let Some(output) = self.engine.poll() {
            if let Some(outputs) = &mut self.outputs {
                outputs.push(output.clone());
            }
            match output {
                Output::Send { attempt, lane, delivery, number, .. } => {
                    self.under_way.insert((lane, delivery));
                    return Some(Sent { attempt, lane, delivery, number, at: now });
                }
                Output::Claim { lane, term, max } => {
                    // Earlier settlements come first.
                    let after = self.writes.back().map_or(now, |(due, _)| now.max(*due));
                    self.writes.push_back((after, Write::Claim(lane, term, max)));
                    self.commit(now);
                }
                Output::Settle { batch, settlements } => {
                    assert!(!settlements.is_empty());
                    let ended = settlements.iter().map(|settled| (settled.lane, settled.delivery));
                    let ended =
                        ended.filter(|key| self.under_way.remove(key)).map(|(lane, _)| (lane, now)).collect();
                    self.write(now, Write::Settle(batch, settlements, ended));
                }
                Output::Persist { lane, term, revision, record } => {
                    if self.says_durable_too_soon {
                        self.engine.handle(now, Input::Persisted { lane, term, revision });
                    }
                    self.write(now, Write::Persist(lane, term, revision, record));
                }
                Output::Retry { .. } => {}
                Output::Turn { lane, breaker, .. } => self.turned.push((lane, breaker)),
                Output::Tell { lane, shift } => self.told.push((lane, shift)),
            }
        }
        None
    }

    fn write(&mut self, now: StoreTime, write: Write) {
        let after = self.writes.back().map_or(now, |(due, _)| now.max(*due));
        self.writes.push_back((after.max(now + self.delay), write));
        self.commit(now);
    }

    pub(crate) fn commit(&mut self, now: StoreTime) {
        while let Some((_, write)) = self.writes.pop_front_if(|(due, _)| *due <= now) {
            let answer = self.make_durable(write, now);
            if let Some(answer) = answer {
                self.handle_input(now, answer);
            }
        }
    }

    pub(crate) fn make_durable(&mut self, write: Write, now: StoreTime) -> Option<Input> {
        match write {
            Write::Claim(lane, term, max) => {
                let (due, next) = self.store.claim(lane, now, max);
                Some(Input::Claimed { lane, term, due, next })
            }
            Write::Settle(batch, settlements, ended) => {
                settlements.iter().for_each(|settlement| self.store.settle(settlement));
                for (lane, at) in ended {
                    self.ended.entry(lane).or_default().push((at, 1));
                }
                if self.store_is_stuck {
                    self.unanswered.push(batch);
                    return None;
                }
                Some(Input::Settled { batch })
            }
            Write::Persist(lane, term, revision, record) => {
                if record.is_final() {
                    self.store.let_go(lane);
                }
                self.records.insert(lane, *record);
                self.ended.remove(&lane);
                Some(Input::Persisted { lane, term, revision })
            }
        }
    }

    /// The process is dead: it has nothing in flight.
    pub(crate) fn replace(&mut self, engine: Engine) {
        self.engine = engine;
        self.under_way.clear();
    }
}

/// Deliveries by lane and due time, as in the real store.
#[derive(Default)]
pub(crate) struct Store {
    lanes: BTreeMap<LaneId, BTreeMap<(StoreTime, DeliveryId), Row>>,
    due: BTreeMap<DeliveryId, StoreTime>,
    held: BTreeSet<(LaneId, DeliveryId)>,
    pub(crate) fates: Vec<Settlement>,
    pub(crate) disabled: Vec<Disabled>,
    /// Only a lane that changed its owner may cause them.
    pub(crate) settled_before: u32,
    next_delivery: u64,
}

#[derive(Clone, Copy)]
struct Row {
    attempts: u32,
    expires: StoreTime,
}

impl Store {
    pub(crate) fn add(&mut self, lane: LaneId, due: StoreTime, expires: StoreTime) -> DeliveryId {
        let delivery = DeliveryId(self.next_delivery);
        self.next_delivery += 1;
        self.put(lane, delivery, due, Row { attempts: 0, expires });
        delivery
    }

    pub(crate) fn next(&self, lane: LaneId) -> Option<StoreTime> {
        let rows = self.lanes.get(&lane)?;
        rows.keys().find(|(_, delivery)| !self.held.contains(&(lane, *delivery))).map(|(due, _)| *due)
    }

    fn due(&self, lane: LaneId, now: StoreTime) -> impl IntoIterator<Item = DeliveryId> {
        let rows = self.lanes.get(&lane).into_iter().flat_map(BTreeMap::keys);
        rows.take_while(move |(due, _)| *due <= now).map(|(_, delivery)| *delivery)
    }

    pub(crate) fn waiting(&self, lane: LaneId) -> usize {
        self.lanes.get(&lane).map_or(0, BTreeMap::len)
    }

    /// An operator has retries due now.
    pub(crate) fn bring_forward(&mut self, lane: LaneId, now: StoreTime) {
        let rows = self.lanes.entry(lane).or_default();
        let later: Vec<_> = rows
            .iter()
            .filter(|((due, _), row)| *due > now && row.attempts > 0)
            .map(|(key, row)| (*key, *row))
            .collect();
        for ((due, delivery), row) in later {
            self.lanes.entry(lane).or_default().remove(&(due, delivery));
            self.put(lane, delivery, now, row);
        }
    }

    /// The lane's owner is gone: its claimed deliveries are due again.
    pub(crate) fn let_go(&mut self, lane: LaneId) {
        self.held.retain(|(holder, _)| *holder != lane);
    }

    fn claim(&mut self, lane: LaneId, now: StoreTime, max: u32) -> (Vec<Due>, Option<StoreTime>) {
        let rows = self.lanes.entry(lane).or_default();
        let free = rows.iter().filter(|((_, delivery), _)| !self.held.contains(&(lane, *delivery)));
        let due: Vec<_> = free
            .take_while(|((due, _), _)| *due <= now)
            .take(max as usize)
            .map(|((_, delivery), row)| Due {
                delivery: *delivery,
                attempts: row.attempts,
                expires: row.expires,
            })
            .collect();
        self.held.extend(due.iter().map(|due| (lane, due.delivery)));
        (due, self.next(lane))
    }

    fn settle(&mut self, settlement: &Settlement) {
        let Settlement { lane, delivery, attempts, fate, disables, .. } = *settlement;
        self.disabled.extend(disables.map(|(disabled, _)| disabled));
        self.held.remove(&(lane, delivery));
        let due = self.due[&delivery];
        let rows = self.lanes.entry(lane).or_default();
        if fate == Fate::Released {
            return;
        }
        let Some(row) = rows.remove(&(due, delivery)) else {
            self.settled_before += 1;
            return;
        };
        match fate {
            Fate::Retry { due: again } => self.put(lane, delivery, again, Row { attempts, ..row }),
            _ => self.fates.push(*settlement),
        }
    }

    fn put(&mut self, lane: LaneId, delivery: DeliveryId, due: StoreTime, row: Row) {
        self.due.insert(delivery, due);
        self.lanes.entry(lane).or_default().insert((due, delivery), row);
    }
}

pub(crate) fn per_second(rate: u64, burst: u32, in_flight: u32) -> Contract {
    let bucket = Bucket::new(Rate::per_second(rate).unwrap(), burst).unwrap();
    Contract::new(Some(bucket), vec![], in_flight).unwrap()
}

/// Default breaker and throttle; a second of quarantine.
pub(crate) fn settings(contract: Contract) -> Arc<Settings> {
    settings_with(contract, BreakerPolicy::default(), PressurePolicy::default())
}

pub(crate) fn settings_with(
    contract: Contract,
    breaker: BreakerPolicy,
    pressure: PressurePolicy,
) -> Arc<Settings> {
    let backoff = Backoff::full_jitter(Nanos::SECOND, Nanos::HOUR).unwrap();
    let retry = RetryPolicy::new(backoff, 12, Nanos::DAY, Nanos::DAY).unwrap();
    let lateness = Lateness::new(Nanos::from_secs(8), Nanos::SECOND, Nanos::MINUTE).unwrap();
    Arc::new(Settings::new(contract, retry, breaker, pressure, lateness))
}

pub(crate) fn no_breaker() -> BreakerPolicy {
    BreakerPolicy::new(1_000_000, 1_000_000, Nanos::DAY, Nanos::SECOND, Nanos::SECOND).unwrap()
}
