//! Each delivery has one place, and all other figures are counted from there. Without regard to speed.

use std::collections::{BTreeMap, BTreeSet};

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{
    Acquire, AttemptOutcome, Change, Claim, Dead, Emit, Erase, Fate, Forget, LaneSelection, Persist, Reason,
    Redrive, Renew, Retry, Settlement, Subscribe, Sweep, Target, ToRetry,
};
use hookproof_sender::store::lane::{Bounds, Counts, LaneState, Limits, OwnerId, WhenFull};
use hookproof_sender::store::node::Nodes;
use hookproof_sender::store::reply::{
    Bound, Claimed, ClaimedRow, Emitted, Erased, FullLane, Handover, Placed, Record, Redriven, Renewed,
    SettleResult, Swept, TakenLane,
};
use hookproof_sender::store::{Command, Refusal, Reply};

use crate::store::world::later;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryPlace {
    Waiting,
    Delivered,
    Dead,
    Coalesced,
    Forgotten,
    Erased,
}

#[derive(Clone, Debug)]
struct Delivery {
    lane: LaneId,
    event: std::sync::Arc<str>,
    kind: std::sync::Arc<str>,
    received: StoreTime,
    body: hookproof_sender::store::command::Body,
    place: DeliveryPlace,
    attempts: u32,
    at: StoreTime,
    expires: StoreTime,
    ttl: Nanos,
    alike: Option<std::sync::Arc<str>>,
    in_part: bool,
    /// How often it was delivered before it was sent again.
    before: u64,
    /// The first delivery of the same commit of the event.
    first: u64,
}

#[derive(Clone, Debug)]
struct Lane {
    state: LaneState,
    version: u64,
    patterns: std::sync::Arc<str>,
    bounds: Bounds,
    owner: Option<OwnerId>,
    term: Term,
    clean: bool,
    record: Option<Record>,
    failed: u64,
    latency_us: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Hands(BTreeMap<LaneId, (OwnerId, Term, BTreeSet<DeliveryId>)>);

impl Hands {
    fn has(&self, lane: LaneId, delivery: DeliveryId) -> bool {
        self.0.get(&lane).is_some_and(|(_, _, rows)| rows.contains(&delivery))
    }

    fn begin(&mut self, lane: LaneId, owner: OwnerId, term: Term) {
        if self.term(lane) != Some(term) {
            self.0.insert(lane, (owner, term, BTreeSet::new()));
        }
    }

    fn end(&mut self, lane: LaneId, term: Term) {
        if self.term(lane).is_some_and(|held| held <= term) {
            self.0.remove(&lane);
        }
    }

    pub(crate) fn term(&self, lane: LaneId) -> Option<Term> {
        self.0.get(&lane).map(|(_, term, _)| *term)
    }

    pub(crate) fn all(&self) -> Vec<(LaneId, DeliveryId, Term)> {
        let lanes = self.0.iter();
        lanes.flat_map(|(lane, (_, term, rows))| rows.iter().map(|row| (*lane, *row, *term))).collect()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) now: StoreTime,
    limits: Limits,
    roster: u64,
    lanes: BTreeMap<LaneId, Lane>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    owners: BTreeMap<OwnerId, StoreTime>,
    told: BTreeSet<(StoreTime, DeliveryId)>,
    /// Events, by [`Delivery::first`].
    erased: BTreeSet<u64>,
    /// How many lanes were handed back in a state without nodes.
    handed_back: u64,
    /// No later delivery gets a number below this.
    from: u64,
}

impl Model {
    pub(crate) fn new(limits: Limits, now: StoreTime) -> Self {
        Self {
            now,
            limits,
            roster: 0,
            lanes: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            owners: BTreeMap::new(),
            told: BTreeSet::new(),
            erased: BTreeSet::new(),
            handed_back: 0,
            from: 1,
        }
    }

    pub(crate) fn pass(&mut self, length: Nanos) {
        self.now = later(self.now, length);
    }

    pub(crate) fn roster(&self) -> u64 {
        self.roster
    }

    pub(crate) fn reported_count(&self) -> u64 {
        self.told.len().try_into().unwrap()
    }

    pub(crate) fn next_delivery(&self) -> u64 {
        self.deliveries.last_key_value().map_or(self.from, |(last, _)| self.from.max(last.0 + 1))
    }

    pub(crate) fn skip_to(&mut self, delivery: DeliveryId) {
        self.from = delivery.0;
    }

    pub(crate) fn lane_of(&self, delivery: DeliveryId) -> Option<LaneId> {
        self.deliveries.get(&delivery).map(|found| found.lane)
    }

    pub(crate) fn attempts(&self, delivery: DeliveryId) -> u32 {
        self.deliveries.get(&delivery).map_or(0, |found| found.attempts)
    }

    pub(crate) fn term(&self, lane: LaneId) -> Term {
        self.lanes.get(&lane).map_or(Term(0), |lane| lane.term)
    }

    fn of(
        &self,
        lane: Option<LaneId>,
        place: DeliveryPlace,
    ) -> impl Iterator<Item = (DeliveryId, &Delivery)> {
        let all = self.deliveries.iter().map(|(id, delivery)| (*id, delivery));
        all.filter(move |(_, found)| found.place == place && lane.is_none_or(|lane| lane == found.lane))
    }

    fn number(&self, lane: Option<LaneId>, place: DeliveryPlace) -> u64 {
        self.of(lane, place).count().try_into().unwrap()
    }

    fn bytes(&self, lane: Option<LaneId>) -> u64 {
        self.of(lane, DeliveryPlace::Waiting).map(|(_, delivery)| delivery.size()).sum()
    }

    pub(crate) fn counts(&self, lane: LaneId) -> Counts {
        let number = |place| self.number(Some(lane), place);
        let all: Vec<_> = self.deliveries.values().filter(|delivery| delivery.lane == lane).collect();
        let before: u64 = all.iter().map(|delivery| delivery.before).sum();
        let retrying =
            self.of(Some(lane), DeliveryPlace::Waiting).filter(|(_, delivery)| delivery.attempts > 0);
        Counts {
            accepted: u64::try_from(all.len()).unwrap() + before,
            delivered: number(DeliveryPlace::Delivered) + before,
            dead: number(DeliveryPlace::Dead) + number(DeliveryPlace::Forgotten),
            coalesced: number(DeliveryPlace::Coalesced) + number(DeliveryPlace::Erased),
            waiting: number(DeliveryPlace::Waiting),
            waiting_bytes: self.bytes(Some(lane)),
            retrying: retrying.count().try_into().unwrap(),
            dead_kept: number(DeliveryPlace::Dead),
            failed_attempts: self.lanes[&lane].failed,
            latency_us: self.lanes[&lane].latency_us,
        }
    }

    pub(crate) fn queue(&self, lane: LaneId) -> Vec<u64> {
        let mut queue: Vec<_> =
            self.of(Some(lane), DeliveryPlace::Waiting).map(|(id, found)| (found.at, id)).collect();
        queue.sort();
        queue.iter().map(|(_, id)| id.0).collect()
    }

    pub(crate) fn head(&self, lane: LaneId) -> Option<StoreTime> {
        self.queue(lane).first().map(|first| self.deliveries[&DeliveryId(*first)].at)
    }

    fn free(&self, hands: &Hands, lane: LaneId) -> Vec<DeliveryId> {
        let queue = self.queue(lane).into_iter().map(DeliveryId);
        queue.filter(|delivery| !hands.has(lane, *delivery)).collect()
    }

    pub(crate) fn carry_out(&mut self, hands: &mut Hands, command: &Command) -> Reply {
        match command {
            Command::Emit(emit) => self.emit(hands, emit).map_or_else(Reply::Refused, Reply::Emitted),
            Command::Claim(claim) => self.claim(hands, claim).map_or_else(Reply::Refused, Reply::Claimed),
            Command::Settle(settlements) => {
                Reply::Settled(settlements.iter().map(|settlement| self.settle(hands, settlement)).collect())
            }
            Command::Acquire(acquire) => Reply::Acquired(self.acquire(hands, acquire)),
            Command::Renew(renew) => Reply::Renewed(self.renew(hands, renew)),
            Command::Persist(persist) => self.persist(hands, persist),
            Command::Redrive(redrive) => Reply::Redriven(self.redrive(redrive)),
            Command::Forget(forget) => self.forget(forget),
            Command::Erase(erase) => Reply::Erased(self.erase(*erase), None),
            Command::Retry(retry) => self.retry(retry),
            Command::Resend(delivery) => self.resend(*delivery),
            Command::Shed(shed) => self.shed(hands, shed.lane, shed.max),
            Command::Sweep(sweep) => Reply::Swept(self.sweep(hands, *sweep)),
            Command::Change(change) => self.change(change),
            Command::Remove(lane) => self.remove(*lane),
            Command::Subscribe(subscribe) => self.subscribe(subscribe),
            other => unreachable!("not among the wishes: {other:?}"),
        }
    }

    fn subscribe(&mut self, subscribe: &Subscribe) -> Reply {
        self.roster += 1;
        let lane = LaneId(u64::try_from(self.lanes.len()).unwrap() + 1);
        let new = Lane {
            state: LaneState::Active,
            version: self.roster,
            patterns: subscribe.patterns.clone(),
            bounds: subscribe.bounds,
            owner: None,
            term: Term(0),
            clean: false,
            record: None,
            failed: 0,
            latency_us: 0,
        };
        self.lanes.insert(lane, new);
        Reply::Subscribed { lane }
    }

    fn living(&mut self, lane: LaneId) -> Option<&mut Lane> {
        self.lanes.get_mut(&lane).filter(|lane| lane.state != LaneState::Removed)
    }

    fn change(&mut self, change: &Change) -> Reply {
        let version = self.roster + 1;
        let Some(lane) = self.living(change.lane) else {
            return Reply::Refused(Refusal::UnknownLane(change.lane));
        };
        if (lane.state, change.state) == (LaneState::Disabled, Some(LaneState::Paused)) {
            return Reply::Refused(Refusal::NotActive(LaneState::Disabled));
        }
        lane.version = version;
        if let Some(patterns) = &change.patterns {
            lane.patterns = patterns.clone();
        }
        lane.bounds = change.bounds.unwrap_or(lane.bounds);
        let was = lane.state;
        lane.state = change.state.unwrap_or(was);
        let resumed = lane.state == LaneState::Active && was != LaneState::Active;
        self.roster = version;
        if resumed {
            self.make_due(change.lane, 1);
        }
        Reply::Done
    }

    fn remove(&mut self, id: LaneId) -> Reply {
        let Some(lane) = self.living(id) else { return Reply::Refused(Refusal::UnknownLane(id)) };
        lane.state = LaneState::Removed;
        self.roster += 1;
        Reply::Done
    }

    fn is_outdated(&self, emit: &Emit) -> bool {
        let changed = self.lanes.iter().filter(|(_, lane)| lane.version > emit.roster);
        let mut living = changed.filter(|(_, lane)| lane.state != LaneState::Removed);
        living
            .any(|(id, lane)| lane.wants(&emit.kind) || emit.targets.iter().any(|target| target.lane == *id))
    }

    fn emit(&mut self, hands: &Hands, emit: &Emit) -> Result<Emitted, Refusal> {
        if self.is_outdated(emit) {
            return Err(Refusal::StaleRoster { known: emit.roster, current: self.roster });
        }
        let mut routes: Vec<Result<Option<DeliveryId>, Placed>> = Vec::new();
        let mut named = BTreeSet::new();
        for target in &emit.targets {
            routes.push(if !self.lanes[&target.lane].state.accepts() {
                Err(Placed::Absent)
            } else if !named.insert(target.lane) || self.served(emit, target) {
                Err(Placed::Duplicate)
            } else {
                Ok(self.older(hands, emit, target))
            });
        }
        let full = self.full(emit, &mut routes);
        let has = |route: &Result<_, Placed>| matches!(route, Ok(_) | Err(Placed::Duplicate));
        if !full.is_empty() && (emit.atomic || !routes.iter().any(has)) {
            return Err(Refusal::Full(full));
        }
        let in_part = emit.withheld || !full.is_empty() || self.was_taken_in_part(&emit.id);
        // The new delivery takes over the due time of the replaced one.
        let mut times = BTreeMap::new();
        for older in routes.iter().filter_map(|route| route.ok().flatten()) {
            times.insert(older, self.deliveries[&older].at);
            self.settle_as(older, DeliveryPlace::Coalesced);
        }
        let first = self.next_delivery();
        let mut emitted = Emitted { targets: Vec::new(), shed: 0 };
        for (target, route) in emit.targets.iter().zip(routes) {
            let placed = match route {
                Err(nowhere) => nowhere,
                Ok(older) => {
                    let older = older.map(|older| (older, times[&older]));
                    let placed = self.place(hands, emit, target, older, &mut emitted.shed);
                    if let Placed::Waiting { delivery, .. } | Placed::Overflowed { delivery } = placed {
                        let new = self.deliveries.get_mut(&delivery).unwrap();
                        (new.in_part, new.first) = (in_part, first);
                    }
                    placed
                }
            };
            emitted.targets.push(placed);
        }
        Ok(emitted)
    }

    fn retained(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.values().filter(|delivery| delivery.place != DeliveryPlace::Forgotten)
    }

    fn was_taken_in_part(&self, id: &str) -> bool {
        self.retained().any(|delivery| *delivery.event == *id && delivery.in_part)
    }

    fn served(&self, emit: &Emit, target: &Target) -> bool {
        let (lane, since) = (target.lane, emit.received.0 - target.dedupe.0);
        let counts = |delivery: &Delivery| delivery.in_part || delivery.received.0 > since;
        self.retained().any(|one| one.lane == lane && one.event == emit.id && counts(one))
    }

    fn older(&self, hands: &Hands, emit: &Emit, target: &Target) -> Option<DeliveryId> {
        let alike = target.coalesce.as_ref()?;
        let size = u64::try_from(emit.bodies[target.body].bytes.len()).unwrap();
        if !self.could_fit(target.lane, size) {
            return None;
        }
        let mut found: Vec<_> = self
            .of(Some(target.lane), DeliveryPlace::Waiting)
            .filter(|(_, found)| found.alike.as_ref() == Some(&alike.key))
            .filter(|(_, found)| found.attempts == 0 && found.at > self.now)
            .map(|(id, found)| (found.at, id))
            .collect();
        found.sort();
        found.first().map(|(_, id)| *id).filter(|id| !hands.has(target.lane, *id))
    }

    /// Counts as if only the refusing lanes got the event.
    fn full(&self, emit: &Emit, routes: &mut [Result<Option<DeliveryId>, Placed>]) -> Vec<FullLane> {
        let mut full = Vec::new();
        let (mut total_rows, mut total_bytes) = (self.number(None, DeliveryPlace::Waiting), self.bytes(None));
        for (target, route) in emit.targets.iter().zip(routes) {
            let lane = target.lane;
            let Lane { bounds, .. } = self.lanes[&lane];
            let (Ok(older), WhenFull::Refuse) = (&*route, bounds.when_full) else { continue };
            let before = (total_rows, total_bytes);
            let (gone_rows, gone_bytes) = older.map_or((0, 0), |older| (1, self.deliveries[&older].size()));
            let size = u64::try_from(emit.bodies[target.body].bytes.len()).unwrap();
            let rows = self.number(Some(lane), DeliveryPlace::Waiting) + 1 - gone_rows;
            let bytes = self.bytes(Some(lane)) + size - gone_bytes;
            let adds = size > gone_bytes;
            total_rows = total_rows + 1 - gone_rows;
            total_bytes = total_bytes + size - gone_bytes;
            let bound = if size > bounds.bytes_max {
                Some(Bound::BodyBytes)
            } else if rows > bounds.rows_max {
                Some(Bound::LaneRows)
            } else if bytes > bounds.bytes_max {
                Some(Bound::LaneBytes)
            } else if gone_rows == 0 && total_rows > self.limits.waiting_rows_max {
                Some(Bound::TotalRows)
            } else if adds && total_bytes > self.limits.waiting_bytes_max {
                Some(Bound::TotalBytes)
            } else {
                None
            };
            if let Some(bound) = bound {
                full.push(FullLane { lane, bound });
                *route = Err(Placed::Refused(bound));
                (total_rows, total_bytes) = before;
            }
        }
        full
    }

    fn place(
        &mut self,
        hands: &Hands,
        emit: &Emit,
        target: &Target,
        older: Option<(DeliveryId, StoreTime)>,
        shed: &mut u64,
    ) -> Placed {
        let window = target.coalesce.as_ref().map_or(Nanos::ZERO, |coalesce| coalesce.window);
        let at = older.map_or(later(target.due, window), |(_, at)| at);
        let body = emit.bodies[target.body].clone();
        let fits = self.make_room(hands, target.lane, u64::try_from(body.bytes.len()).unwrap(), shed);
        let delivery = DeliveryId(self.next_delivery());
        let new = Delivery {
            lane: target.lane,
            event: emit.id.clone(),
            kind: emit.kind.clone(),
            received: emit.received,
            body,
            place: DeliveryPlace::Waiting,
            attempts: 0,
            at,
            expires: target.expires,
            ttl: target.expires.since(emit.received),
            alike: target.coalesce.as_ref().map(|coalesce| coalesce.key.clone()),
            in_part: false,
            before: 0,
            first: 0,
        };
        self.deliveries.insert(delivery, new);
        if fits {
            return Placed::Waiting { delivery, due: at, replaced: older.map(|(older, _)| older) };
        }
        self.bury(delivery);
        Placed::Overflowed { delivery }
    }

    fn could_fit(&self, lane: LaneId, size: u64) -> bool {
        let Lane { bounds, .. } = self.lanes[&lane];
        size <= bounds.bytes_max && bounds.rows_max > 0 && size <= self.limits.waiting_bytes_max
    }

    fn make_room(&mut self, hands: &Hands, lane: LaneId, size: u64, shed: &mut u64) -> bool {
        if !self.could_fit(lane, size) {
            return false;
        }
        let Lane { bounds, .. } = self.lanes[&lane];
        let waits =
            |model: &Self, lane| (model.number(lane, DeliveryPlace::Waiting) + 1, model.bytes(lane) + size);
        loop {
            let (rows, bytes) = waits(self, Some(lane));
            if rows <= bounds.rows_max && bytes <= bounds.bytes_max {
                break;
            }
            let Some(first) = self.free(hands, lane).first().copied() else { return false };
            self.bury(first);
            *shed += 1;
        }
        loop {
            let (rows, bytes) = waits(self, None);
            let too_many_bytes = size > 0 && bytes > self.limits.waiting_bytes_max;
            if rows <= self.limits.waiting_rows_max && !too_many_bytes {
                return true;
            }
            let sheds = self.lanes.iter().filter(|(_, lane)| lane.bounds.when_full == WhenFull::ShedOldest);
            let payers = sheds.filter(|(id, _)| !self.free(hands, **id).is_empty());
            let fullest = payers
                .map(|(id, _)| (self.number(Some(*id), DeliveryPlace::Waiting), std::cmp::Reverse(*id)))
                .max();
            let Some((_, std::cmp::Reverse(payer))) = fullest else { return false };
            self.bury(self.free(hands, payer)[0]);
            *shed += 1;
        }
    }

    fn settle_as(&mut self, delivery: DeliveryId, place: DeliveryPlace) {
        let now = self.now;
        let delivery = self.deliveries.get_mut(&delivery).unwrap();
        delivery.place = place;
        delivery.at = now;
    }

    fn bury(&mut self, delivery: DeliveryId) {
        self.settle_as(delivery, DeliveryPlace::Dead);
        let lane = self.deliveries[&delivery].lane;
        for (lane, max) in [(Some(lane), self.limits.dead_per_lane_max), (None, self.limits.dead_max)] {
            if self.number(lane, DeliveryPlace::Dead) > max {
                let oldest = self.of(lane, DeliveryPlace::Dead).next().unwrap().0;
                self.deliveries.get_mut(&oldest).unwrap().place = DeliveryPlace::Forgotten;
            }
        }
    }

    fn claim(&mut self, hands: &mut Hands, claim: &Claim) -> Result<Claimed, Refusal> {
        let (id, term) = (claim.lane, claim.term);
        let lane = &self.lanes[&id];
        if lane.state == LaneState::Removed {
            hands.end(id, term);
            return Err(Refusal::UnknownLane(id));
        }
        let Some(owner) = lane.owner.filter(|_| lane.term == term) else {
            hands.end(id, term);
            return Err(Refusal::StaleTerm { lane: id, term, current: lane.term });
        };
        hands.begin(id, owner, term);
        let (mut rows, mut bytes, mut too_long) = (Vec::new(), 0, None);
        for delivery in self.free(hands, id) {
            let found = &self.deliveries[&delivery];
            bytes += found.size();
            let enough = rows.len() == usize::try_from(claim.max).unwrap();
            if found.at > self.now || enough {
                break;
            }
            if bytes > claim.bytes_max {
                too_long = rows.is_empty().then_some(bytes);
                break;
            }
            rows.push(ClaimedRow {
                delivery,
                attempts: found.attempts,
                expires: found.expires,
                event: found.event.clone(),
                kind: found.kind.clone(),
                received: found.received,
                body: found.body.clone(),
                signature: None,
            });
        }
        hands.0.get_mut(&id).unwrap().2.extend(rows.iter().map(|row| row.delivery));
        let next = self.free(hands, id).first().map(|next| self.deliveries[next].at);
        Ok(Claimed { lane: id, term, rows, next, too_long })
    }

    fn settle(&mut self, hands: &mut Hands, told: &Settlement) -> SettleResult {
        let (id, term, delivery) = (told.lane, told.term, told.delivery);
        let current = self.lanes[&id].term == term;
        if let Some(hand) = hands.0.get_mut(&id).filter(|hand| hand.1 == term) {
            hand.2.remove(&delivery);
        }
        if let Some(attempt) = &told.attempt
            && self.told.insert((attempt.at, delivery))
        {
            let lane = self.lanes.get_mut(&id).unwrap();
            if attempt.outcome == AttemptOutcome::Delivered {
                lane.latency_us += attempt.latency.0 / 1_000;
            } else {
                lane.failed += 1;
            }
        }
        let found =
            self.deliveries.get_mut(&delivery).filter(|found| found.place != DeliveryPlace::Forgotten);
        let Some(found) = found.filter(|found| found.lane == id) else { return SettleResult::Absent };
        match told.fate {
            Fate::Released => SettleResult::Applied,
            Fate::Delivered if found.place == DeliveryPlace::Delivered => SettleResult::Absent,
            Fate::Delivered => {
                found.attempts = found.attempts.max(told.attempts);
                self.settle_as(delivery, DeliveryPlace::Delivered);
                SettleResult::Applied
            }
            Fate::Retry { .. } | Fate::Dead(_) if !current => SettleResult::Stale,
            Fate::Retry { .. } | Fate::Dead(_) if found.place != DeliveryPlace::Waiting => {
                SettleResult::Absent
            }
            Fate::Retry { due } => {
                (found.attempts, found.at) = (told.attempts, due);
                SettleResult::Applied
            }
            Fate::Dead(reason) => {
                assert_ne!(reason, Reason::Gone, "not among the wishes");
                found.attempts = told.attempts;
                self.bury(delivery);
                SettleResult::Applied
            }
        }
    }

    fn acquire(&mut self, hands: &mut Hands, acquire: &Acquire) -> Vec<TakenLane> {
        let me = acquire.owner;
        let expired = |owner: &OwnerId| self.owners.get(owner).is_none_or(|until| *until <= self.now);
        let free = |lane: &Lane| {
            lane.state != LaneState::Removed && lane.owner.is_none_or(|owner| owner != me && expired(&owner))
        };
        let mut wanted: Vec<LaneId> = match &acquire.which {
            LaneSelection::These(lanes) => lanes.clone(),
            LaneSelection::All => self.lanes.keys().copied().collect(),
            LaneSelection::WithWork { after } => {
                let active = self.lanes.iter().filter(|(_, lane)| lane.state == LaneState::Active);
                let behind = active.map(|(id, _)| *id).filter(|id| id > after);
                behind.filter(|id| self.number(Some(*id), DeliveryPlace::Waiting) > 0).collect()
            }
        };
        let mut seen = BTreeSet::new();
        wanted.retain(|id| seen.insert(*id) && self.lanes.get(id).is_some_and(free));
        wanted.truncate(usize::try_from(acquire.max).unwrap());
        let taken: Vec<TakenLane> = wanted.iter().map(|id| self.take(hands, me, *id)).collect();
        if !taken.is_empty() {
            self.owners.insert(me, later(self.now, acquire.lease));
        }
        taken
    }

    fn take(&mut self, hands: &mut Hands, owner: OwnerId, id: LaneId) -> TakenLane {
        let next = self.head(id);
        let lane = self.lanes.get_mut(&id).unwrap();
        let record = lane.record.clone();
        let handover = match (lane.owner, record) {
            (Some(from), record) => Handover::Seized { from, record, at: self.now, ended: Vec::new() },
            (None, Some(record)) if lane.clean => Handover::Clean(record),
            (None, _) => Handover::Fresh,
        };
        lane.owner = Some(owner);
        lane.term = Term(lane.term.0 + 1);
        lane.clean = false;
        hands.begin(id, owner, lane.term);
        TakenLane { lane: id, term: lane.term, state: lane.state, handover, next }
    }

    fn renew(&mut self, hands: &mut Hands, renew: &Renew) -> Renewed {
        self.owners.insert(renew.owner, later(self.now, renew.lease));
        let mut lost = Vec::new();
        for (id, (owner, term, _)) in &hands.0 {
            let lane = &self.lanes[id];
            if *owner == renew.owner && (lane.owner != Some(*owner) || lane.term != *term) {
                lost.push((*id, *term));
            }
        }
        for (lane, term) in &lost {
            hands.end(*lane, *term);
        }
        let nodes = Nodes { all: Vec::new(), changes: self.handed_back, at: self.now, server_clock: None };
        Renewed { lost, nodes }
    }

    fn persist(&mut self, hands: &mut Hands, persist: &Persist) -> Reply {
        let (id, term, at) = (persist.lane, persist.term, self.now);
        let lane = self.lanes.get_mut(&id).unwrap();
        if lane.term != term || lane.owner.is_none() {
            hands.end(id, term);
            return Reply::Refused(Refusal::StaleTerm { lane: id, term, current: lane.term });
        }
        lane.record = Some(Record { bytes: persist.record.clone(), at });
        if persist.hand_back {
            lane.owner = None;
            lane.clean = true;
            self.handed_back += 1;
            hands.end(id, term);
        }
        Reply::Done
    }

    fn shed(&mut self, hands: &Hands, lane: LaneId, max: u32) -> Reply {
        let victims = self.free(hands, lane);
        let rows = u64::try_from(victims.len()).unwrap().min(u64::from(max));
        for victim in victims.into_iter().take(usize::try_from(max).unwrap()) {
            self.bury(victim);
        }
        Reply::Dropped { rows, more: rows == u64::from(max) }
    }

    fn sweep(&mut self, hands: &Hands, sweep: Sweep) -> Swept {
        let max = usize::try_from(sweep.max).unwrap();
        let mut expired: Vec<_> = self
            .of(None, DeliveryPlace::Waiting)
            .filter(|(id, found)| found.expires <= self.now && !hands.has(found.lane, *id))
            .map(|(id, found)| (found.expires, id))
            .collect();
        expired.sort();
        expired.truncate(max);
        for (_, delivery) in &expired {
            self.bury(*delivery);
        }
        let removed: Vec<LaneId> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.state == LaneState::Removed)
            .map(|(id, _)| *id)
            .collect();
        let gone: Vec<DeliveryId> = removed.iter().flat_map(|lane| self.free(hands, *lane)).collect();
        let gone = &gone[..gone.len().min(max - expired.len())];
        for delivery in gone {
            self.bury(*delivery);
        }
        let more = expired.len() + gone.len() >= max;
        let (expired, gone) = (expired.len().try_into().unwrap(), gone.len().try_into().unwrap());
        Swept { expired, gone, resumed: 0, corrected: 0, more }
    }

    fn letters(&self, which: &Dead, max: u32) -> Vec<DeliveryId> {
        let lane = match which {
            Dead::All => None,
            Dead::Of(lane) => Some(*lane),
            Dead::These(_) => unreachable!("not among the wishes"),
        };
        self.of(lane, DeliveryPlace::Dead).map(|(id, _)| id).take(usize::try_from(max).unwrap()).collect()
    }

    fn redrive(&mut self, redrive: &Redrive) -> Redriven {
        let letters = self.letters(&redrive.which, redrive.max);
        let full_page = letters.len() == usize::try_from(redrive.max).unwrap();
        let mut redriven =
            Redriven { last: letters.last().copied().filter(|_| full_page), ..Redriven::default() };
        for letter in letters {
            let (lane, size) = (self.deliveries[&letter].lane, self.deliveries[&letter].size());
            if self.bound(lane, size).is_some() || !self.lanes[&lane].state.accepts() {
                redriven.kept += 1;
                continue;
            }
            self.wait_again(letter);
            redriven.rows.push((lane, letter));
        }
        redriven
    }

    fn bound(&self, lane: LaneId, size: u64) -> Option<Bound> {
        let (bounds, limits) = (self.lanes[&lane].bounds, self.limits);
        let waits = |id| (self.number(id, DeliveryPlace::Waiting), self.bytes(id) + size);
        let ((rows, bytes), (all_rows, all_bytes)) = (waits(Some(lane)), waits(None));
        let rules = [
            (size > bounds.bytes_max, Bound::BodyBytes),
            (rows >= bounds.rows_max, Bound::LaneRows),
            (bytes > bounds.bytes_max, Bound::LaneBytes),
            (all_rows >= limits.waiting_rows_max, Bound::TotalRows),
            (size > 0 && all_bytes > limits.waiting_bytes_max, Bound::TotalBytes),
        ];
        rules.into_iter().find(|(broken, _)| *broken).map(|(_, bound)| bound)
    }

    fn wait_again(&mut self, delivery: DeliveryId) {
        let now = self.now;
        let found = self.deliveries.get_mut(&delivery).unwrap();
        (found.place, found.attempts, found.at, found.alike) = (DeliveryPlace::Waiting, 0, now, None);
        found.expires = later(now, found.ttl);
    }

    fn resend(&mut self, id: DeliveryId) -> Reply {
        let Some(found) = self.deliveries.get(&id) else {
            return Reply::Refused(Refusal::UnknownDelivery(id));
        };
        let (place, state) = (found.place, self.lanes[&found.lane].state);
        let refusal = match place {
            DeliveryPlace::Forgotten => Some(Refusal::UnknownDelivery(id)),
            DeliveryPlace::Waiting => Some(Refusal::Pending),
            DeliveryPlace::Coalesced => Some(Refusal::Replaced),
            DeliveryPlace::Erased => Some(Refusal::BodyGone),
            _ if state != LaneState::Active => Some(Refusal::NotActive(state)),
            _ if self.erased.contains(&found.first) => Some(Refusal::BodyGone),
            _ => self.bound(found.lane, found.size()).map(Refusal::NoRoom),
        };
        if let Some(refusal) = refusal {
            return Reply::Refused(refusal);
        }
        self.deliveries.get_mut(&id).unwrap().before += u64::from(place == DeliveryPlace::Delivered);
        self.wait_again(id);
        Reply::Resent
    }

    fn retry(&mut self, retry: &Retry) -> Reply {
        let ToRetry::Of(lane) = retry.which else { unreachable!("not among the wishes") };
        let version = self.roster + 1;
        let Some(found) = self.living(lane) else { return Reply::Refused(Refusal::UnknownLane(lane)) };
        if found.state != LaneState::Active {
            return Reply::Refused(Refusal::NotActive(found.state));
        }
        found.version = version;
        self.roster = version;
        let rows = self.make_due(lane, retry.max);
        Reply::Retried { lane, rows, more: rows == u64::from(retry.max) }
    }

    fn make_due(&mut self, lane: LaneId, max: u32) -> u64 {
        let now = self.now;
        let all = self.of(Some(lane), DeliveryPlace::Waiting);
        let mut later: Vec<_> =
            all.filter(|(_, it)| it.at > now && it.attempts > 0).map(|(id, it)| (it.at, id)).collect();
        later.sort();
        later.truncate(usize::try_from(max).unwrap());
        later.iter().for_each(|(_, id)| self.deliveries.get_mut(id).unwrap().at = now);
        later.len().try_into().unwrap()
    }

    fn erase(&mut self, erase: Erase) -> Erased {
        let named = self.deliveries.get(&erase.delivery).into_iter();
        let present = named.filter(|found| found.place != DeliveryPlace::Forgotten);
        let events: BTreeSet<u64> =
            present.map(|found| found.first).filter(|first| !self.erased.contains(first)).collect();
        let mut erased = Erased { events: events.len().try_into().unwrap(), ..Erased::default() };
        for found in self.deliveries.values_mut().filter(|found| events.contains(&found.first)) {
            erased.deliveries += u64::from(found.place != DeliveryPlace::Forgotten);
            erased.waiting += u64::from(found.place == DeliveryPlace::Waiting);
            erased.dead += u64::from(found.place == DeliveryPlace::Dead);
            if !erase.plan && matches!(found.place, DeliveryPlace::Waiting | DeliveryPlace::Dead) {
                found.place = DeliveryPlace::Erased;
            }
        }
        if !erase.plan {
            self.erased.extend(events);
        }
        erased
    }

    fn forget(&mut self, forget: &Forget) -> Reply {
        let letters = self.letters(&forget.which, forget.max);
        for letter in &letters {
            self.deliveries.get_mut(letter).unwrap().place = DeliveryPlace::Forgotten;
        }
        let full_page = letters.len() == usize::try_from(forget.max).unwrap();
        let rows = letters.len().try_into().unwrap();
        Reply::Forgotten { rows, last: letters.last().copied().filter(|_| full_page) }
    }
}

impl Lane {
    /// An unreadable pattern matches every type.
    fn wants(&self, kind: &str) -> bool {
        let patterns: Result<Vec<String>, _> = serde_json::from_str(&self.patterns);
        let matches = |pattern: &String| {
            pattern == kind || pattern.strip_suffix('*').is_some_and(|all| kind.starts_with(all))
        };
        patterns.map_or(true, |patterns| patterns.iter().any(matches))
    }
}

impl Delivery {
    fn size(&self) -> u64 {
        self.body.bytes.len().try_into().unwrap()
    }
}
