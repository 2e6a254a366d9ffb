//! For random commands in any order from two processes, the store answers as the model does, and holds the same
//! state. Processes die, and the power fails.
//!
//! `PROPTEST_CASES=10000 cargo test -p hookproof-sender --test all store::law` runs more cases.

mod model;
mod random;

use std::fmt::Debug;
use std::sync::Arc;

use hookproof_sender::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use hookproof_sender::store::command::Claim;
use hookproof_sender::store::lane::{Counts, Limits, OwnerId};
use hookproof_sender::store::read::{Filter, Lanes, Place};
use hookproof_sender::store::reply::{Bound, Claimed, Placed};
use hookproof_sender::store::{Claimer, Command, QuickClaims, Reader, Refusal, Reply, Store};
use proptest::prelude::*;

use crate::store::world::Backend;
use model::{Hands, Model};
use random::{Step, steps};

struct Process {
    owner: OwnerId,
    store: Box<dyn Store>,
    claimer: Option<Box<dyn Claimer>>,
    quick: Option<Arc<dyn QuickClaims>>,
    /// When its last commit began, and whether another process has written since.
    last: StoreTime,
    is_disturbed: bool,
    hands: Hands,
}

impl Process {
    /// Claims bypass the commits, where the store can.
    fn carry_out(&mut self, now: StoreTime, commands: &[Command]) -> Vec<Reply> {
        let claims = commands.iter().map(|command| match command {
            Command::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        if let (Some(claims), Some(claimer)) = (claims.collect::<Option<Vec<Claim>>>(), &mut self.claimer)
            && let Some(claimed) = claimer.claim(now, &claims).unwrap()
        {
            return claimed.into_iter().map(Reply::Claimed).collect();
        }
        (self.last, self.is_disturbed) = (now, false);
        self.store.commit(now, commands).unwrap()
    }
}

/// How long memory may answer claims after a process's last commit.
const HOLDS_FOR: Nanos = Nanos::from_millis(50);

struct Run<B> {
    backend: B,
    reader: Box<dyn Reader>,
    processes: Vec<Process>,
    model: Model,
    owners: u64,
}

impl<B: Backend> Run<B> {
    fn new(limits: Limits) -> Self {
        let backend = B::new(limits);
        let mut run = Self {
            processes: Vec::new(),
            model: Model::new(limits, StoreTime::from_secs(1_800_000_000)),
            owners: 0,
            reader: {
                drop(backend.store());
                backend.reader()
            },
            backend,
        };
        run.processes = (0..2).map(|_| run.start()).collect();
        run
    }

    fn start(&mut self) -> Process {
        self.owners += 1;
        let store = self.backend.store();
        let (claimer, quick) = (store.claimer().unwrap(), store.quick_claims());
        Process {
            owner: OwnerId(self.owners),
            store,
            claimer,
            quick,
            last: StoreTime(0),
            is_disturbed: false,
            hands: Hands::default(),
        }
    }

    /// The rows must be those that the store would hand out, or fewer. Once other processes may have written, memory
    /// may only answer within `HOLDS_FOR`, and the rows are not compared.
    fn claim_from_memory(&mut self, process: usize, claim: &Claim) -> Result<Option<Claimed>, TestCaseError> {
        let now = self.model.now;
        let process = &mut self.processes[process];
        let is_old = now.since(process.last) > HOLDS_FOR;
        if process.is_disturbed && !is_old {
            return Ok(None);
        }
        let claimed = process.quick.as_ref().and_then(|quick| quick.claim(now, claim));
        let Some(claimed) = claimed else { return Ok(None) };
        prop_assert!(!is_old, "{:?} at {:?}, known since {:?}", claimed, now, process.last);
        let bytes: usize = claimed.rows.iter().map(|row| row.body.bytes.len()).sum();
        prop_assert!(bytes as u64 <= claim.bytes_max, "{} bytes for {:?}", bytes, claim);
        let max = u32::try_from(claimed.rows.len()).unwrap();
        prop_assert!((1..=claim.max).contains(&max), "{} rows for {:?}", max, claim);
        let as_many = Claim { max, bytes_max: u64::MAX, ..claim.clone() };
        let Reply::Claimed(expected) = self.model.carry_out(&mut process.hands, &Command::Claim(as_many))
        else {
            return Err(TestCaseError::fail(format!("{claimed:?}, and the lane is not ours")));
        };
        same(&claimed.rows, &expected.rows, claim)?;
        prop_assert!(claimed.next.is_some_and(|next| expected.next.is_none_or(|first| next <= first)));
        Ok(Some(claimed))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Pass(length) => self.model.pass(*length),
            Step::Die { process } => self.processes[*process] = self.start(),
            Step::PowerCut => {
                self.backend = self.backend.after_power_cut();
                self.reader = self.backend.reader();
                self.processes = (0..2).map(|_| self.start()).collect();
            }
            Step::Commit { process, wishes } => {
                let owner = self.processes[*process].owner;
                if let [wish] = &wishes[..]
                    && let Command::Claim(claim) =
                        wish.command(&self.model, &self.processes[*process].hands, owner)
                    && self.claim_from_memory(*process, &claim)?.is_some()
                {
                    return self.compare();
                }
                let before = (self.model.clone(), self.processes[*process].hands.clone());
                let mut expected = Vec::new();
                let mut commands: Vec<Command> = Vec::new();
                for wish in wishes {
                    let process = &mut self.processes[*process];
                    let command = wish.command(&self.model, &process.hands, owner);
                    expected.push(self.model.carry_out(&mut process.hands, &command));
                    commands.push(command);
                }
                if !commands.iter().all(Command::only_reads) {
                    self.processes.iter_mut().for_each(|each| each.is_disturbed = true);
                }
                let process = &mut self.processes[*process];
                let mut replies = process.carry_out(self.model.now, &commands);
                if B::GAPS
                    && let (Some(given), Some(next)) = (first_given(&replies), first_given(&expected))
                    && given > next
                {
                    // The first numbers stay unused.
                    (self.model, process.hands) = before;
                    self.model.skip_to(given);
                    let carry_out = |command| self.model.carry_out(&mut process.hands, command);
                    expected = commands.iter().map(carry_out).collect();
                }
                replies.iter_mut().for_each(drop_beyond_the_model);
                for ((command, reply), expected) in commands.iter().zip(&replies).zip(&expected) {
                    same(reply, expected, command)?;
                }
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let lanes = self.reader.lanes(None, 100).unwrap().items;
        let mut sum = Counts::default();
        for lane in &lanes {
            let expected = self.model.counts(lane.lane);
            same(&lane.counts, &expected, &lane.lane)?;
            same(&lane.next, &self.model.head(lane.lane), &lane.lane)?;
            same(&self.listed(lane.lane, Place::Waiting), &self.model.queue(lane.lane), &lane.lane)?;
            add(&mut sum, &expected);
        }
        same(&self.reader.status(self.model.now).unwrap().counts, &sum, &"in total")
    }

    fn listed(&self, lane: LaneId, place: Place) -> Vec<u64> {
        let of = Filter { lanes: Lanes::One(lane), place: Some(place) };
        let page = self.reader.deliveries(of, None, 10_000).unwrap();
        page.items.iter().map(|delivery| delivery.delivery.0).collect()
    }
}

/// The server's clock and the history of attempts are not part of the model.
fn drop_beyond_the_model(reply: &mut Reply) {
    match reply {
        Reply::Renewed(renewed) => renewed.nodes.server_clock = None,
        Reply::Erased(erased, _) => (erased.attempts, erased.answers) = (0, 0),
        _ => {}
    }
}

fn first_given(replies: &[Reply]) -> Option<DeliveryId> {
    let emitted = replies.iter().filter_map(|reply| match reply {
        Reply::Emitted(emitted) => Some(&emitted.targets),
        _ => None,
    });
    let given = emitted.flatten().filter_map(|placed| match placed {
        Placed::Waiting { delivery, .. } | Placed::Overflowed { delivery } => Some(*delivery),
        _ => None,
    });
    given.min()
}

fn same<T: PartialEq + Debug>(found: &T, expected: &T, of: &impl Debug) -> Result<(), TestCaseError> {
    prop_assert_eq!(found, expected, "{:?}", of);
    Ok(())
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.accepted += counts.accepted;
    sum.delivered += counts.delivered;
    sum.dead += counts.dead;
    sum.coalesced += counts.coalesced;
    sum.waiting += counts.waiting;
    sum.waiting_bytes += counts.waiting_bytes;
    sum.retrying += counts.retrying;
    sum.dead_kept += counts.dead_kept;
    sum.failed_attempts += counts.failed_attempts;
    sum.latency_us += counts.latency_us;
}

fn obeys<B: Backend>(limits: Limits, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut run = Run::<B>::new(limits);
    for subscribe in random::subscribers() {
        let reply = run.model.carry_out(&mut Hands::default(), &subscribe);
        let found = run.processes[0].store.commit(run.model.now, &[subscribe]).unwrap();
        assert_eq!(found, [reply]);
    }
    for step in steps {
        run.step(step)?;
    }
    run.step(&Step::PowerCut)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_store_does_what_the_model_does((limits, steps) in (random::limits(), steps())) {
        obeys::<crate::store::sqlite::File>(limits, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(cases().div_ceil(15)) })]

    #[test]
    fn the_store_on_a_server_does_what_the_model_does((limits, steps) in (random::limits(), steps())) {
        if crate::store::postgres::Schema::is_there("the_store_on_a_server_does_what_the_model_does") {
            obeys::<crate::store::postgres::Schema>(limits, &steps)?;
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

const KINDS: [&str; 38] = [
    "waiting",
    "replaced",
    "overflowed",
    "duplicate",
    "absent",
    "refused alone",
    "shed",
    "full LaneRows",
    "full LaneBytes",
    "full BodyBytes",
    "full TotalRows",
    "full TotalBytes",
    "claimed",
    "applied",
    "stale",
    "not there",
    "fresh",
    "clean",
    "seized",
    "lost",
    "stale roster",
    "emitted by an older roster",
    "stale term",
    "unknown lane",
    "redriven",
    "kept dead",
    "retried",
    "retried in part",
    "resent",
    "pending",
    "replaced before",
    "no room",
    "body gone",
    "erased waiting",
    "erased",
    "dropped",
    "expired",
    "gone",
];

#[test]
fn random_steps_reach_every_kind_of_reply() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..80 {
        let (limits, steps) = (random::limits(), steps()).new_tree(&mut runner).unwrap().current();
        let mut model = Model::new(limits, StoreTime::from_secs(1_800_000_000));
        let mut hands = [Hands::default(), Hands::default()];
        for subscribe in random::subscribers() {
            model.carry_out(&mut hands[0], &subscribe);
        }
        for step in &steps {
            match step {
                Step::Pass(length) => model.pass(*length),
                Step::Commit { process, wishes } => {
                    for wish in wishes {
                        let owner = OwnerId(u64::try_from(*process).unwrap());
                        let command = wish.command(&model, &hands[*process], owner);
                        let reply = model.carry_out(&mut hands[*process], &command);
                        let is_old = matches!(&command, Command::Emit(emit) if emit.roster < model.roster());
                        let is_taken = is_old && matches!(reply, Reply::Emitted(_));
                        let late = is_taken.then_some("emitted by an older roster");
                        for kind in kinds(&reply).into_iter().chain(late) {
                            *seen.entry(kind).or_insert(0) += 1;
                        }
                    }
                }
                Step::Die { .. } | Step::PowerCut => {}
            }
        }
    }
    let missing: Vec<_> = KINDS.iter().filter(|kind| !seen.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}; seen: {seen:?}");
}

fn kinds(reply: &Reply) -> Vec<&'static str> {
    use hookproof_sender::store::reply::{Erased, Handover, Placed, SettleResult};
    match reply {
        Reply::Emitted(emitted) => {
            let mut kinds: Vec<_> = emitted
                .targets
                .iter()
                .map(|placed| match placed {
                    Placed::Waiting { replaced: None, .. } => "waiting",
                    Placed::Waiting { .. } => "replaced",
                    Placed::Overflowed { .. } => "overflowed",
                    Placed::Duplicate => "duplicate",
                    Placed::Absent => "absent",
                    Placed::Refused(_) => "refused alone",
                })
                .collect();
            kinds.extend((emitted.shed > 0).then_some("shed"));
            kinds
        }
        Reply::Claimed(claimed) => claimed.rows.iter().map(|_| "claimed").collect(),
        Reply::Settled(results) => results
            .iter()
            .map(|result| match result {
                SettleResult::Applied => "applied",
                SettleResult::Stale => "stale",
                SettleResult::Absent => "not there",
            })
            .collect(),
        Reply::Acquired(taken) => taken
            .iter()
            .map(|taken| match taken.handover {
                Handover::Fresh => "fresh",
                Handover::Clean(_) => "clean",
                Handover::Seized { .. } => "seized",
            })
            .collect(),
        Reply::Renewed(renewed) => renewed.lost.iter().map(|_| "lost").collect(),
        Reply::Redriven(redriven) => {
            let kept = (redriven.kept > 0).then_some("kept dead");
            redriven.rows.iter().map(|_| "redriven").chain(kept).collect()
        }
        Reply::Retried { more: true, .. } => vec!["retried in part"],
        Reply::Retried { rows: 1.., .. } => vec!["retried"],
        Reply::Resent => vec!["resent"],
        Reply::Erased(Erased { waiting: 1.., .. }, _) => vec!["erased waiting"],
        Reply::Erased(Erased { events: 1.., .. }, _) => vec!["erased"],
        Reply::Dropped { rows: 1.., .. } | Reply::Forgotten { rows: 1.., .. } => vec!["dropped"],
        Reply::Swept(swept) => {
            let expired = (swept.expired > 0).then_some("expired");
            expired.into_iter().chain((swept.gone > 0).then_some("gone")).collect()
        }
        Reply::Refused(refusal) => refused(refusal),
        _ => Vec::new(),
    }
}

fn refused(refusal: &Refusal) -> Vec<&'static str> {
    match refusal {
        Refusal::Full(full) => full
            .iter()
            .map(|full| match full.bound {
                Bound::LaneRows => "full LaneRows",
                Bound::LaneBytes => "full LaneBytes",
                Bound::BodyBytes => "full BodyBytes",
                Bound::TotalRows => "full TotalRows",
                Bound::TotalBytes => "full TotalBytes",
            })
            .collect(),
        Refusal::Pending => vec!["pending"],
        Refusal::Replaced => vec!["replaced before"],
        Refusal::NoRoom(_) => vec!["no room"],
        Refusal::BodyGone => vec!["body gone"],
        Refusal::StaleRoster { .. } => vec!["stale roster"],
        Refusal::StaleTerm { .. } => vec!["stale term"],
        Refusal::UnknownLane(_) => vec!["unknown lane"],
        _ => Vec::new(),
    }
}
