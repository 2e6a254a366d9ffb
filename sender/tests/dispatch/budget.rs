//! The dispatcher runs against a model of the store, which answers on request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, LazyLock};

use hookproof_sender::dispatch::{
    Answered, AttemptEnd, BODY_BYTES_MAX, Dispatcher, Effect, Event, LEASE_DEFAULT, NewAttempt, Order,
    Settings,
};
use hookproof_sender::engine::{Answer, DeliveryId, LaneId, Limits, Outcome, StoreTime, Term};
use hookproof_sender::roster::Roster;
use hookproof_sender::store::command::{Body, Claim, Fate, Renew, Settlement};
use hookproof_sender::store::lane::{LaneState, OwnerId};
use hookproof_sender::store::node::{Node, Nodes};
use hookproof_sender::store::reply::{
    Claimed, ClaimedRow, Handover, Refusal, Renewed, SettleResult, TakenLane,
};
use hookproof_sender::store::{Command, Reply};
use proptest::prelude::*;

use crate::dispatch::world::{BEGIN, World, announcement};

const MIB: u64 = 1 << 20;
/// Lanes may hold the engine's maximum.
const WIDE: &str = r#"{"limit":{"rate":"1000/s","burst":300,"in_flight":300}}"#;

#[test]
fn lanes_with_large_bodies_hold_no_more_than_the_budget_and_each_gets_its_turn() {
    let lanes: Vec<u64> = (1..=1_100).collect();
    let mut world = World::with(1_100);
    let now = world.now;
    world.record_body(&lanes, now, &vec![b'x'; 1 << 20]);
    world.handle(Event::Work(lanes.iter().map(|lane| (LaneId(*lane), now)).collect()));
    let mut served = BTreeSet::new();
    while !world.sends.is_empty() {
        let held: usize = world.sends.iter().map(|attempt| attempt.row.body.bytes.len()).sum();
        assert!(held as u64 <= BODY_BYTES_MAX, "{} MiB are held", held >> 20);
        served.extend(world.sent_to());
        world.answer(204);
    }
    assert_eq!(served.len(), lanes.len());
}

#[derive(Clone)]
struct Waiting {
    delivery: DeliveryId,
    due: StoreTime,
    body: Arc<[u8]>,
}

#[derive(Default)]
struct Queue {
    /// 0 until the lane has its first owner.
    term: u64,
    is_owned: bool,
    waiting: VecDeque<Waiting>,
    handed_out: BTreeSet<DeliveryId>,
}

struct Model {
    dispatcher: Dispatcher,
    now: StoreTime,
    queues: BTreeMap<LaneId, Queue>,
    bodies: BTreeMap<u64, Arc<[u8]>>,
    deliveries: u64,
    asked: Vec<(Order, Command)>,
    answered: Vec<Answered>,
    sends: Vec<NewAttempt>,
    kept: BTreeMap<(DeliveryId, Term), (LaneId, u64)>,
    /// For each claim, the number requested and the number received.
    claims: Vec<(u32, usize)>,
    lost: Vec<(LaneId, Term)>,
    said: Option<Node>,
}

impl Model {
    fn with(roster: Arc<Roster>, lanes: &[Vec<u64>]) -> Self {
        let settings = Settings {
            owner: OwnerId(1),
            announcement: announcement(1),
            lease: LEASE_DEFAULT,
            seed: 1,
            limits: Limits::default(),
            roster,
        };
        let mut model = Self {
            dispatcher: Dispatcher::new(settings, BEGIN),
            now: BEGIN,
            queues: BTreeMap::new(),
            bodies: BTreeMap::new(),
            deliveries: 0,
            asked: Vec::new(),
            answered: Vec::new(),
            sends: Vec::new(),
            kept: BTreeMap::new(),
            claims: Vec::new(),
            lost: Vec::new(),
            said: None,
        };
        for (number, lengths) in lanes.iter().enumerate() {
            let lane = LaneId(number as u64 + 1);
            model.queues.insert(lane, Queue::default());
            model.add(lane, lengths);
        }
        model.poll();
        model
    }

    fn add(&mut self, lane: LaneId, lengths: &[u64]) {
        for length in lengths {
            let long = || vec![b'x'; usize::try_from(*length).unwrap()].into();
            let body = Arc::clone(self.bodies.entry(*length).or_insert_with(long));
            self.deliveries += 1;
            let waiting = Waiting { delivery: DeliveryId(self.deliveries), due: self.now, body };
            self.queues.get_mut(&lane).unwrap().waiting.push_back(waiting);
        }
    }

    fn held_bytes(&self) -> u64 {
        let answered = self.answered.iter().filter_map(|answered| match &answered.reply {
            Ok(Reply::Claimed(claimed)) => Some(&claimed.rows),
            _ => None,
        });
        let answered: u64 = answered.flatten().map(length).sum();
        let sent: u64 = self.sends.iter().map(|attempt| length(&attempt.row)).sum();
        answered + sent + self.kept.values().map(|(_, bytes)| bytes).sum::<u64>()
    }

    fn handle(&mut self, event: Event) {
        self.dispatcher.handle(self.now, event);
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(effect) = self.dispatcher.poll() {
            match effect {
                Effect::Send(attempt) => {
                    let of_any_term =
                        (attempt.row.delivery, Term(0))..=(attempt.row.delivery, Term(u64::MAX));
                    let key =
                        *self.kept.range(of_any_term).next_back().expect("only what it holds is sent").0;
                    self.kept.remove(&key);
                    self.sends.push(attempt);
                }
                Effect::Forget { lane } => self.kept.retain(|_, (of, _)| *of != lane),
                Effect::Submit { order, command } => {
                    if let Command::Settle(settlements) = &command {
                        for row in settlements {
                            self.kept.remove(&(row.delivery, row.term));
                        }
                    }
                    self.asked.push((order, command));
                }
                Effect::Persist { order, .. } => {
                    self.answered.push(Answered { order, reply: Ok(Reply::Done), moment: None });
                }
                Effect::Withdraw { .. } | Effect::Extend { .. } | Effect::Report(_) => {}
            }
        }
    }

    /// Answers one command. A claim is not answered before an earlier settlement.
    fn answer(&mut self, which: usize) {
        if self.asked.is_empty() {
            return;
        }
        let which = which % self.asked.len();
        let settles = |(_, command): &(Order, Command)| matches!(command, Command::Settle(_));
        let which = self.asked[..which].iter().position(settles).unwrap_or(which);
        let (order, command) = self.asked.remove(which);
        let reply = Ok(match command {
            Command::Claim(claim) => self.claim(&claim),
            Command::Settle(rows) => Reply::Settled(rows.into_iter().map(|row| self.settle(&row)).collect()),
            Command::Renew(renew) => self.renew(renew),
            Command::Acquire(_) => self.acquire(),
            _ => Reply::Done,
        });
        self.answered.push(Answered { order, reply, moment: None });
    }

    fn deliver_answer(&mut self, which: usize) {
        if self.answered.is_empty() {
            return;
        }
        let answered = self.answered.remove(which % self.answered.len());
        if let (Order::Claim { lane, term, .. }, Ok(Reply::Claimed(claimed))) =
            (answered.order, &answered.reply)
            && self.dispatcher.views().iter().any(|view| (view.lane, view.term) == (lane, term))
        {
            self.kept.extend(claimed.rows.iter().map(|row| ((row.delivery, term), (lane, length(row)))));
        }
        self.handle(Event::Answered(answered));
    }

    fn end(&mut self, which: usize, outcome: Outcome) {
        if self.sends.is_empty() {
            return;
        }
        let NewAttempt { attempt, row, .. } = self.sends.remove(which % self.sends.len());
        let result = AttemptEnd { outcome, record: None };
        self.handle(Event::Ended { attempt, delivery: row.delivery, result });
    }

    fn claim(&mut self, claim: &Claim) -> Reply {
        let Claim { lane, term, max, bytes_max } = *claim;
        let queue = self.queues.get_mut(&lane).unwrap();
        if !queue.is_owned || queue.term != term.0 {
            return Reply::Refused(Refusal::StaleTerm { lane, term, current: Term(queue.term) });
        }
        let mut claimed = Claimed { lane, term, rows: Vec::new(), next: None, too_long: None };
        let mut bytes = 0;
        for waiting in queue.waiting.iter().filter(|row| !queue.handed_out.contains(&row.delivery)) {
            bytes += waiting.body.len() as u64;
            let is_wanted = waiting.due <= self.now && claimed.rows.len() < max as usize;
            if !is_wanted || bytes > bytes_max {
                claimed.too_long = (is_wanted && claimed.rows.is_empty()).then_some(bytes);
                claimed.next = Some(waiting.due);
                break;
            }
            claimed.rows.push(row(waiting));
        }
        queue.handed_out.extend(claimed.rows.iter().map(|row| row.delivery));
        self.claims.push((max, claimed.rows.len()));
        Reply::Claimed(claimed)
    }

    fn settle(&mut self, settlement: &Settlement) -> SettleResult {
        let queue = self.queues.get_mut(&settlement.lane).unwrap();
        let is_stale = !queue.is_owned || queue.term != settlement.term.0;
        let place = queue.waiting.iter().position(|row| row.delivery == settlement.delivery);
        match (settlement.fate, place) {
            (_, None) => return SettleResult::Absent,
            (Fate::Delivered, Some(place)) => drop(queue.waiting.remove(place)),
            _ if is_stale => return SettleResult::Stale,
            (Fate::Retry { due }, Some(place)) => {
                let mut waiting = queue.waiting.remove(place).unwrap();
                waiting.due = due;
                let at = queue.waiting.partition_point(|before| before.due <= waiting.due);
                queue.waiting.insert(at, waiting);
            }
            (Fate::Dead(_), Some(place)) => drop(queue.waiting.remove(place)),
            (Fate::Released, Some(_)) => {}
        }
        queue.handed_out.remove(&settlement.delivery);
        SettleResult::Applied
    }

    fn renew(&mut self, renew: Renew) -> Reply {
        let now = self.now;
        let until = StoreTime(now.0 + renew.lease.0);
        if let Some(announced) = renew.announce {
            let announced = announced.as_ref().clone();
            self.said = Some(Node { owner: renew.owner, announced, since: BEGIN, until });
        }
        let all = self.said.iter().map(|node| Node { until, ..node.clone() }).collect();
        Reply::Renewed(Renewed {
            lost: std::mem::take(&mut self.lost),
            nodes: Nodes { all, changes: 1, at: now, server_clock: None },
        })
    }

    fn acquire(&mut self) -> Reply {
        let free = self.queues.iter_mut().filter(|(_, queue)| !queue.is_owned);
        let taken = free.map(|(lane, queue)| {
            queue.term += 1;
            queue.is_owned = true;
            queue.handed_out.clear();
            let next = queue.waiting.front().map(|first| first.due);
            let (lane, term) = (*lane, Term(queue.term));
            TakenLane { lane, term, state: LaneState::Active, handover: Handover::Fresh, next }
        });
        Reply::Acquired(taken.take(1_000).collect())
    }

    fn lose(&mut self, lane: u64) {
        let (lane, queue) = (LaneId(lane), self.queues.get_mut(&LaneId(lane)).unwrap());
        if std::mem::take(&mut queue.is_owned) {
            self.lost.push((lane, Term(queue.term)));
        }
    }

    /// The endpoint asks for so long a pause that its lane releases all unsent deliveries.
    fn release(&mut self, lane: u64) {
        if let Some(which) = self.sends.iter().position(|sent| sent.lane == LaneId(lane)) {
            let retry_after = Some(b"60".to_vec().into());
            let at = self.now;
            self.end(which, Outcome::Answered(Answer { status: 429, retry_after, date: None, at }));
        }
    }

    fn wait(&mut self) {
        let wake = self.dispatcher.next_wake();
        if wake != StoreTime::NEVER {
            self.now = self.now.max(wake);
        }
        self.handle(Event::Tick);
    }

    fn settle_down(&mut self) {
        while !self.asked.is_empty() || !self.answered.is_empty() {
            self.answer(0);
            self.deliver_answer(0);
        }
    }

    fn waiting(&self) -> usize {
        self.queues.values().map(|queue| queue.waiting.len()).sum()
    }
}

fn length(row: &ClaimedRow) -> u64 {
    row.body.bytes.len() as u64
}

fn row(waiting: &Waiting) -> ClaimedRow {
    ClaimedRow {
        delivery: waiting.delivery,
        attempts: 0,
        expires: StoreTime(u64::MAX),
        event: "e".into(),
        kind: "a".into(),
        received: BEGIN,
        body: Body { bytes: Arc::clone(&waiting.body) },
        signature: None,
    }
}

fn answered(status: u16) -> Outcome {
    Outcome::Answered(Answer { status, retry_after: None, date: None, at: BEGIN })
}

#[derive(Clone, Debug)]
enum Step {
    Answer(usize),
    Hear(usize),
    End { which: usize, taken: bool },
    Withhold(usize),
    Lose(u64),
    Release(u64),
    Wait,
}

const LANES: usize = 1_400;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        300 => any::<usize>().prop_map(Step::Answer),
        300 => any::<usize>().prop_map(Step::Hear),
        60 => (any::<usize>(), any::<bool>()).prop_map(|(which, taken)| Step::End { which, taken }),
        10 => any::<usize>().prop_map(Step::Withhold),
        20 => (1..=LANES as u64).prop_map(Step::Lose),
        20 => (1..=LANES as u64).prop_map(Step::Release),
        1 => Just(Step::Wait),
    ];
    prop::collection::vec(step, 0..12_000)
}

fn lengths() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let length = prop_oneof![
        Just(300),
        Just(5_000),
        Just(100_000),
        Just(MIB),
        Just(MIB),
        Just(MIB + 300),
        Just(3 * MIB),
    ];
    prop::collection::vec(prop::collection::vec(length, 0..6), LANES)
}

/// They rarely have more than one attempt in flight, so they hold their claims for a while.
static NARROW: LazyLock<Arc<Roster>> = LazyLock::new(|| {
    let narrow = r#"{"limit":{"rate":"1000/s","burst":300,"in_flight":2}}"#;
    World::with_settings(LANES as u64, narrow).roster()
});
static ROSTER: LazyLock<Arc<Roster>> = LazyLock::new(|| World::with_settings(LANES as u64, WIDE).roster());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_history_makes_it_hold_more_and_every_delivery_is_made_in_the_end(
        lanes in lengths(),
        steps in steps(),
        is_narrow in any::<bool>(),
    ) {
        let roster = if is_narrow { &NARROW } else { &ROSTER };
        let mut model = Model::with(Arc::clone(roster), &lanes);
        for step in steps {
            match step {
                Step::Answer(which) => model.answer(which),
                Step::Hear(which) => model.deliver_answer(which),
                Step::End { which, taken } => model.end(which, answered(if taken { 204 } else { 500 })),
                Step::Withhold(which) => model.end(which, Outcome::Withheld),
                Step::Lose(lane) => model.lose(lane),
                Step::Release(lane) => model.release(lane),
                Step::Wait => model.wait(),
            }
            prop_assert!(model.held_bytes() <= BODY_BYTES_MAX, "{} bytes are held", model.held_bytes());
        }
        // Every attempt succeeds, and every delivery must be made.
        let mut rounds = 0;
        while model.waiting() > 0 {
            model.settle_down();
            prop_assert!(model.held_bytes() <= BODY_BYTES_MAX, "{} bytes are held", model.held_bytes());
            while !model.sends.is_empty() {
                model.end(0, answered(204));
            }
            model.settle_down();
            model.wait();
            rounds += 1;
            prop_assert!(rounds < 5_000, "{} deliveries are never made", model.waiting());
        }
        // The budget can be filled again.
        let work: Vec<_> = model.queues.keys().map(|lane| (*lane, model.now)).collect();
        work.iter().for_each(|(lane, _)| model.add(*lane, &[MIB]));
        model.handle(Event::Work(work));
        for _ in 0..10 {
            model.settle_down();
            model.wait();
        }
        // The next lane may want a whole claim's worth.
        let at_least = BODY_BYTES_MAX / 8 * 7 - 4 * MIB;
        prop_assert!(model.held_bytes() > at_least, "no more than {} bytes are held", model.held_bytes());
    }
}

#[test]
fn ten_thousand_lanes_of_short_bodies_claim_what_they_would_without_a_budget() {
    let lanes = 10_000;
    let roster = World::with_settings(lanes, WIDE).roster();
    let mut model = Model::with(roster, &vec![vec![300; 40]; usize::try_from(lanes).unwrap()]);
    // The lanes are all taken. Claims are answered last.
    loop {
        let is_claim = |(_, command): &(Order, Command)| matches!(command, Command::Claim(_));
        if let Some(which) = model.asked.iter().position(|asked| !is_claim(asked)) {
            model.answer(which);
        } else if model.answered.is_empty() {
            break;
        }
        model.deliver_answer(0);
    }
    assert_eq!(model.asked.len(), 10_000, "nobody waits for others");
    while !model.asked.is_empty() {
        model.answer(model.asked.len() - 1);
    }
    for (max, came) in &model.claims {
        assert_eq!(*came, 40.min(*max as usize));
    }
}

#[test]
fn long_bodies_that_nobody_takes_keep_no_short_ones_waiting() {
    let (long, short) = (vec![vec![MIB; 8]; 1_200], vec![vec![300; 8]; 100]);
    let mut model = Model::with(Arc::clone(&ROSTER), &[long, short].concat());
    model.settle_down();
    let to_long = |model: &Model| model.sends.iter().filter(|sent| length(&sent.row) == MIB).count();
    let stuck = to_long(&model);
    assert!(stuck > 800, "{stuck} MiB are under way");
    let to_short = model.sends.len() - stuck;
    assert_eq!(to_short, 100 * 8);
}

#[test]
fn lanes_get_their_turns_in_the_order_in_which_they_came() {
    let mut model = Model::with(Arc::clone(&ROSTER), &vec![vec![MIB; 40]; LANES]);
    model.settle_down();
    let mut served: BTreeSet<LaneId> = model.sends.iter().map(|sent| sent.lane).collect();
    let mut ended = 0;
    while served.len() < LANES {
        assert!(!model.sends.is_empty(), "{} lanes never have a turn", LANES - served.len());
        model.end(0, answered(204));
        model.settle_down();
        ended += 1;
        served.extend(model.sends.iter().map(|sent| sent.lane));
    }
    // A turn is at most four deliveries, and a served lane goes to the end of the queue.
    assert!(ended <= 4 * LANES, "{ended} attempts ended before the last lane had its turn");
}
