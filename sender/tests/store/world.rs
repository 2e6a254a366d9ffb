//! The figures are checked after every commit.

use std::sync::Arc;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime, Term};
use hookproof_sender::store::command::{
    Acquire, Attempt, AttemptOutcome, Body, Change, Claim, Details, Emit, Erase, Fate, LaneSelection,
    Persist, Renew, Settlement, Subscribe, Target,
};
use hookproof_sender::store::lane::{Bounds, Counts, Limits, OwnerId, Secret, WhenFull};
use hookproof_sender::store::paging::Page;
use hookproof_sender::store::read::{Filter, LaneStatus, Lanes, Place};
use hookproof_sender::store::reply::{Claimed, ClaimedRow, Emitted, Placed, SettleResult, TakenLane};
use hookproof_sender::store::{Command, Reader, Refusal, Reply, Store};

/// All stores and readers of one backend share the stored state.
pub(crate) trait Backend {
    /// Whether a restarted commit may leave numbers unused.
    const GAPS: bool = false;

    /// Whether this machine has the prerequisites; prints a line if not.
    fn is_there(_test: &str) -> bool {
        true
    }
    fn new(limits: Limits) -> Self;
    fn store(&self) -> Box<dyn Store>;
    fn reader(&self) -> Box<dyn Reader>;
    /// The state after a power failure now: everything acknowledged, and no process.
    fn after_power_cut(&self) -> Self;
    fn application_emits(&self, kind: &str, key: Option<&str>, data: &str, event: Option<&str>);
    fn application_numbers(&self, id: i64);
    fn lose_bodies(&self);
    fn damage_token(&self, name: &str, damage: &str);
    fn attempts(&self) -> [u64; 2];
    fn answers(&self) -> u64;
}

pub(crate) const WIDE: Bounds = Bounds { rows_max: 1_000, bytes_max: 1 << 20, when_full: WhenFull::Refuse };

pub(crate) const ME: OwnerId = OwnerId(1);
pub(crate) const YOU: OwnerId = OwnerId(u64::MAX);

pub(crate) const LEASE: Nanos = Nanos::from_secs(10);
pub(crate) const TTL: Nanos = Nanos::DAY;

pub(crate) struct World<B> {
    pub(crate) backend: B,
    pub(crate) store: Box<dyn Store>,
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) now: StoreTime,
    serial: u64,
}

impl<B: Backend> World<B> {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        Self::over(B::new(limits))
    }

    pub(crate) fn over(backend: B) -> Self {
        let (store, reader) = (backend.store(), backend.reader());
        Self { backend, store, reader, now: StoreTime::from_secs(1_800_000_000), serial: 0 }
    }

    pub(crate) fn pass(&mut self, length: Nanos) {
        self.now = later(self.now, length);
    }

    pub(crate) fn crash(&mut self) {
        self.store = self.backend.store();
    }

    pub(crate) fn all(&mut self, commands: &[Command]) -> Vec<Reply> {
        let replies = self.store.commit(self.now, commands).unwrap();
        assert_eq!(replies.len(), commands.len());
        self.check_figures();
        replies
    }

    pub(crate) fn one(&mut self, command: Command) -> Reply {
        self.all(&[command]).remove(0)
    }

    /// No delivery was lost or invented, in any lane or in total.
    pub(crate) fn check_figures(&self) {
        let lanes = self.lanes();
        let mut sum = Counts::default();
        for lane in &lanes {
            let counts = lane.counts;
            assert!(counts.conserved(), "lane {}: {counts:?}", lane.lane.0);
            let of = Filter { lanes: Lanes::One(lane.lane), place: Some(Place::Waiting) };
            let queue = self.reader.deliveries(of, None, PLENTY).unwrap();
            assert_eq!(lane.next, queue.items.first().map(|first| first.at), "lane {}", lane.lane.0);
            let queue = all_of(queue);
            assert_eq!(counts.waiting, queue, "waiting on lane {}", lane.lane.0);
            let dead = all_of(self.reader.dead(&Lanes::One(lane.lane), None, PLENTY).unwrap());
            assert_eq!(counts.dead_kept, dead, "dead letters of lane {}", lane.lane.0);
            sum.waiting += counts.waiting;
            sum.waiting_bytes += counts.waiting_bytes;
            sum.retrying += counts.retrying;
            sum.dead_kept += counts.dead_kept;
        }
        let total = self.check_totals();
        let present =
            |counts: &Counts| [counts.waiting, counts.waiting_bytes, counts.retrying, counts.dead_kept];
        assert_eq!(present(&total), present(&sum));
    }

    pub(crate) fn check_totals(&self) -> Counts {
        let total = self.total();
        assert!(total.conserved(), "{total:?}");
        total
    }

    pub(crate) fn lanes(&self) -> Vec<LaneStatus> {
        self.reader.lanes(None, 10_000).unwrap().items
    }

    pub(crate) fn lane(&self, lane: LaneId) -> LaneStatus {
        self.reader.lane(lane).unwrap().unwrap()
    }

    pub(crate) fn counts(&self, lane: LaneId) -> Counts {
        self.lane(lane).counts
    }

    pub(crate) fn total(&self) -> Counts {
        self.reader.status(self.now).unwrap().counts
    }

    pub(crate) fn place(&self, delivery: DeliveryId) -> Option<Place> {
        self.reader.delivery(delivery).unwrap().map(|delivery| delivery.place)
    }

    pub(crate) fn new_lane(&mut self, bounds: Bounds) -> LaneId {
        self.serial += 1;
        let subscribe = subscribe(&format!("s{}", self.serial), bounds);
        match self.one(Command::Subscribe(subscribe)) {
            Reply::Subscribed { lane } => lane,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn change(&mut self, change: Change) -> Reply {
        self.one(Command::Change(change))
    }

    pub(crate) fn acquire(&mut self, owner: OwnerId, which: LaneSelection) -> Vec<TakenLane> {
        match self.one(acquire(owner, which)) {
            Reply::Acquired(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn own_lane(&mut self, bounds: Bounds) -> (LaneId, Term) {
        let lane = self.new_lane(bounds);
        (lane, self.own(ME, lane))
    }

    pub(crate) fn own(&mut self, owner: OwnerId, lane: LaneId) -> Term {
        let taken = self.acquire(owner, LaneSelection::These(vec![lane]));
        assert_eq!(taken.len(), 1, "lane {} is not to be had", lane.0);
        taken[0].term
    }

    pub(crate) fn renew(&mut self, owner: OwnerId) -> Vec<(LaneId, Term)> {
        match self.one(Command::Renew(Renew { owner, lease: LEASE, announce: None })) {
            Reply::Renewed(renewed) => renewed.lost,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn event(&mut self, lanes: &[LaneId]) -> Emit {
        self.serial += 1;
        Emit {
            roster: self.reader.glance().unwrap().roster,
            id: format!("e{}", self.serial).into(),
            id_is_new: false,
            kind: "video.trending".into(),
            key: Some("clip".into()),
            received: self.now,
            bodies: vec![body(format!("{:010}", self.serial).as_bytes())],
            targets: lanes.iter().map(|lane| self.target(*lane)).collect(),
            atomic: false,
            withheld: false,
            outbox: None,
            notifies: None,
        }
    }

    fn target(&self, lane: LaneId) -> Target {
        let expires = later(self.now, TTL);
        Target { lane, body: 0, due: self.now, expires, dedupe: Nanos::ZERO, coalesce: None, signature: None }
    }

    pub(crate) fn try_emit(&mut self, emit: Emit) -> Result<Emitted, Refusal> {
        match self.one(Command::Emit(emit)) {
            Reply::Emitted(emitted) => Ok(emitted),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn emit(&mut self, lanes: &[LaneId]) -> Vec<DeliveryId> {
        let event = self.event(lanes);
        let emitted = self.try_emit(event).unwrap();
        emitted.targets.iter().map(waiting).collect()
    }

    pub(crate) fn emit_one(&mut self, lane: LaneId) -> DeliveryId {
        self.emit(&[lane])[0]
    }

    pub(crate) fn try_claim(&mut self, lane: LaneId, term: Term, max: u32) -> Result<Claimed, Refusal> {
        match self.one(claim(lane, term, max)) {
            Reply::Claimed(claimed) => Ok(claimed),
            Reply::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn claim_rows(&mut self, lane: LaneId, term: Term) -> Vec<ClaimedRow> {
        self.try_claim(lane, term, 1_000).unwrap().rows
    }

    pub(crate) fn claim(&mut self, lane: LaneId, term: Term) -> Vec<DeliveryId> {
        self.claim_rows(lane, term).iter().map(|row| row.delivery).collect()
    }

    pub(crate) fn settle_all(&mut self, settlements: Vec<Settlement>) -> Vec<SettleResult> {
        match self.one(Command::Settle(settlements)) {
            Reply::Settled(results) => results,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn settle(
        &mut self,
        lane: LaneId,
        term: Term,
        delivery: DeliveryId,
        fate: Fate,
    ) -> SettleResult {
        let settlement = self.settlement(lane, term, delivery, fate);
        self.settle_all(vec![settlement])[0]
    }

    pub(crate) fn settlement(
        &self,
        lane: LaneId,
        term: Term,
        delivery: DeliveryId,
        fate: Fate,
    ) -> Settlement {
        Settlement { lane, term, delivery, attempts: 1, fate, disables: None, attempt: self.attempt(fate) }
    }

    pub(crate) fn attempt(&self, fate: Fate) -> Option<Attempt> {
        let (outcome, status, error) = match fate {
            Fate::Released => return None,
            Fate::Delivered => (AttemptOutcome::Delivered, 204, None),
            Fate::Retry { .. } | Fate::Dead(_) => (AttemptOutcome::Rejected, 503, Some("unavailable".into())),
        };
        let latency = Nanos::from_millis(20);
        Some(Attempt {
            at: self.now,
            latency,
            outcome,
            status: Some(status),
            error,
            body_hash: 7,
            received: None,
            details: Details::default(),
        })
    }

    pub(crate) fn persist(&mut self, lane: LaneId, term: Term, record: &[u8], hand_back: bool) -> Reply {
        self.one(Command::Persist(Persist { lane, term, record: record.into(), hand_back }))
    }
}

const PLENTY: u32 = 1_000_000;

fn all_of<T>(page: Page<T>) -> u64 {
    assert_eq!(page.next, None);
    page.items.len().try_into().unwrap()
}

pub(crate) const fn at_once(delivery: DeliveryId, plan: bool) -> Erase {
    Erase { delivery, of_event: 1, plan, after: None, max: u32::MAX }
}

pub(crate) fn later(moment: StoreTime, by: Nanos) -> StoreTime {
    StoreTime(moment.0 + by.0)
}

pub(crate) fn body(bytes: &[u8]) -> Body {
    Body { bytes: Arc::from(bytes) }
}

pub(crate) fn subscribe(name: &str, bounds: Bounds) -> Subscribe {
    Subscribe {
        id: format!("sub_{name}").into(),
        name: name.into(),
        url: "https://partner.example/hook".into(),
        patterns: r#"["video.*"]"#.into(),
        settings: r#"{"rate":"5/s"}"#.into(),
        bounds,
        secret: Secret::new(format!("whsec_{name}")),
    }
}

pub(crate) fn acquire(owner: OwnerId, which: LaneSelection) -> Command {
    Command::Acquire(Acquire { owner, lease: LEASE, which, homes: None, max: 1_000 })
}

pub(crate) fn claim(lane: LaneId, term: Term, max: u32) -> Command {
    Command::Claim(Claim { lane, term, max, bytes_max: u64::MAX })
}

pub(crate) fn waiting(placed: &Placed) -> DeliveryId {
    match placed {
        Placed::Waiting { delivery, .. } => *delivery,
        other => panic!("does not wait: {other:?}"),
    }
}
