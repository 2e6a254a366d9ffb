//! `law` compares claims from memory with the file; these tests cover their purpose, and threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::mpsc::channel;

use hookproof_sender::engine::{DeliveryId, LaneId, Term};
use hookproof_sender::store::command::{Claim, Fate, Settlement, Shed};
use hookproof_sender::store::reply::{ClaimedRow, SettleResult};
use hookproof_sender::store::thread::{Capacity, Request, StoreThread};
use hookproof_sender::store::{Claimer, Command, QuickClaims, Reply};

use crate::store::sqlite::File;
use crate::store::world::{Backend as _, WIDE, World};

struct Calm {
    world: World<File>,
    lane: LaneId,
    term: Term,
    claimer: Box<dyn Claimer>,
    quick: Arc<dyn QuickClaims>,
}

impl Calm {
    fn new() -> Self {
        let mut world = World::<File>::new();
        let (lane, term) = world.own_lane(WIDE);
        let claimer = world.store.claimer().unwrap().unwrap();
        let quick = world.store.quick_claims().unwrap();
        let mut calm = Self { world, lane, term, claimer, quick };
        assert_eq!(calm.world.claim(lane, term), []);
        assert_eq!(calm.read(), []);
        calm
    }

    fn claim(&self) -> Claim {
        Claim { lane: self.lane, term: self.term, max: 10, bytes_max: u64::MAX }
    }

    fn read(&mut self) -> Vec<ClaimedRow> {
        let claim = self.claim();
        self.claimer.claim(self.world.now, &[claim]).unwrap().unwrap().remove(0).rows
    }

    fn recall(&self) -> Option<Vec<ClaimedRow>> {
        self.quick.claim(self.world.now, &self.claim()).map(|claimed| claimed.rows)
    }

    fn settle(&mut self, delivery: DeliveryId, fate: Fate) {
        let settlement = self.world.settlement(self.lane, self.term, delivery, fate);
        self.world.settle_all(vec![settlement]);
    }
}

#[test]
fn a_fresh_delivery_is_claimed_once_and_equals_its_stored_row() {
    let mut calm = Calm::new();
    let delivery = calm.world.emit_one(calm.lane);
    let rows = calm.recall().unwrap();
    assert_eq!(rows.iter().map(|row| row.delivery).collect::<Vec<_>>(), [delivery]);
    assert_eq!((calm.recall(), calm.read()), (None, vec![]));
    calm.settle(delivery, Fate::Released);
    assert_eq!((calm.recall(), calm.read()), (None, rows));
}

#[test]
fn a_delivery_settled_before_its_claim_is_not_claimed() {
    let mut calm = Calm::new();
    let (delivered, waiting) = (calm.world.emit_one(calm.lane), calm.world.emit_one(calm.lane));
    calm.settle(delivered, Fate::Delivered);
    assert_eq!(calm.recall(), None);
    assert_eq!(calm.read().iter().map(|row| row.delivery).collect::<Vec<_>>(), [waiting]);
}

/// Another process may settle the delivery meanwhile.
#[test]
fn a_settlement_under_another_ownership_meanwhile_counts_once() {
    for is_recalled in [false, true] {
        let mut calm = Calm::new();
        let delivery = calm.world.emit_one(calm.lane);
        let rows = if is_recalled { calm.recall().unwrap() } else { calm.read() };
        assert_eq!(rows.len(), 1);
        let before = Term(calm.term.0 - 1);
        let results = [before, calm.term].map(|term| {
            let told = calm.world.settlement(calm.lane, term, delivery, Fate::Delivered);
            calm.world.settle_all(vec![told])
        });
        assert_eq!(results, [[SettleResult::Applied], [SettleResult::Absent]]);
    }
}

#[test]
fn a_delivery_that_another_process_gives_up_is_not_claimed_after_our_next_commit() {
    let mut calm = Calm::new();
    calm.world.emit_one(calm.lane);
    let shed = Command::Shed(Shed { lane: calm.lane, max: 1 });
    calm.world.backend.store().commit(calm.world.now, &[shed]).unwrap();
    let (other, _) = calm.world.own_lane(WIDE);
    calm.world.emit_one(other);
    assert_eq!((calm.recall(), calm.read()), (None, vec![]));
}

/// The caller gets the answer before `submit` returns.
#[test]
fn a_claim_of_what_was_just_recorded_is_answered_at_once() {
    let Calm { mut world, lane, term, .. } = Calm::new();
    let event = world.event(&[lane]);
    let (now, store) = (world.now, world.store);
    let thread = StoreThread::start(store, Arc::new(move || now), Capacity::default()).unwrap();
    let (told, answers) = channel();
    let submit = |command: Command| {
        let told = told.clone();
        let answer = Box::new(move |replies: Result<Vec<_>, _>| {
            let reply: Reply = replies.unwrap().remove(0);
            told.send((std::thread::current().id(), reply)).unwrap();
        });
        thread.handle().submit(Request { commands: vec![command], answer }).unwrap();
    };
    submit(Command::Emit(event));
    answers.recv().unwrap();
    submit(Command::Claim(Claim { lane, term, max: 10, bytes_max: u64::MAX }));
    let (by, reply) = answers.try_recv().expect("it was answered already");
    assert_eq!(by, std::thread::current().id());
    let Reply::Claimed(claimed) = reply else { panic!("{reply:?}") };
    assert_eq!(claimed.rows.len(), 1);
    thread.stop();
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Waits,
    IsOut,
    IsDone,
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// One thread claims, mostly from memory, while the other records and settles.
#[test]
fn threads_hand_out_nothing_twice() {
    let Calm { mut world, lane, term, mut claimer, quick } = Calm::new();
    let out = Mutex::new(BTreeMap::<DeliveryId, Known>::new());
    let (finished, turns, now) = (AtomicBool::new(false), AtomicU32::new(0), world.now);
    let mut remembered = 0_u32;
    std::thread::scope(|scope| {
        let claims = scope.spawn(|| {
            let claim = Claim { lane, term, max: 3, bytes_max: u64::MAX };
            let mut remembered = 0_u32;
            while !finished.load(SeqCst) {
                let turn = turns.fetch_add(1, SeqCst);
                let mut out = out.lock().unwrap();
                let claimed = if turn.is_multiple_of(32) {
                    claimer.claim(now, std::slice::from_ref(&claim)).unwrap()
                } else {
                    quick.claim(now, &claim).map(|claimed| vec![claimed])
                };
                let rows = claimed.into_iter().flatten().flat_map(|claimed| claimed.rows);
                for row in rows {
                    remembered += u32::from(!turn.is_multiple_of(32));
                    let known = std::mem::replace(out.entry(row.delivery).or_default(), Known::IsOut);
                    assert!(known == Known::Waits, "{row:?} is handed out, or delivered");
                }
            }
            remembered
        });
        let ends = Ends(&finished);
        for round in 0..400_u64 {
            let mut commands = vec![Command::Emit(world.event(&[lane]))];
            let mut settlements = Vec::new();
            for (delivery, known) in out.lock().unwrap().iter_mut() {
                if *known != Known::IsOut {
                    continue;
                }
                let fate = match (delivery.0 + round) % 5 {
                    0 => Fate::Released,
                    1 => Fate::Retry { due: now },
                    _ => Fate::Delivered,
                };
                *known = if fate == Fate::Delivered { Known::IsDone } else { Known::Waits };
                let settlement = world.settlement(lane, term, *delivery, fate);
                settlements.push(Settlement { attempt: None, ..settlement });
            }
            commands.push(Command::Settle(settlements));
            if round % 50 == 49 {
                commands.push(Command::Shed(Shed { lane, max: 1 }));
            }
            world.store.commit(now, &commands).unwrap();
            let enough = turns.load(SeqCst) + 64;
            while turns.load(SeqCst) < enough && !claims.is_finished() {
                std::thread::yield_now();
            }
        }
        drop(ends);
        remembered = claims.join().unwrap();
    });
    assert!(remembered > 0, "nothing was handed out of memory");
    world.check_figures();
}

#[test]
fn a_settlement_of_an_older_owner_during_a_claim_counts_once() {
    let Calm { mut world, lane, term, mut claimer, .. } = Calm::new();
    for round in 0..200 {
        let delivery = world.emit_one(lane);
        let told = |term| Command::Settle(vec![world.settlement(lane, term, delivery, Fate::Delivered)]);
        let (late, ours) = (told(Term(term.0 - 1)), told(term));
        let (now, started) = (world.now, AtomicBool::new(false));
        let rows = std::thread::scope(|scope| {
            let claims = scope.spawn(|| {
                let claim = [Claim { lane, term, max: 1, bytes_max: u64::MAX }];
                while !started.load(SeqCst) {
                    std::hint::spin_loop();
                }
                (0..)
                    .map(|_| claimer.claim(now, &claim).unwrap().unwrap().remove(0).rows)
                    .take(round % 8 + 1)
                    .flatten()
                    .count()
            });
            started.store(true, SeqCst);
            world.store.commit(now, &[late]).unwrap();
            claims.join().unwrap()
        });
        assert!(rows <= 1, "round {round}");
        let replies = world.one(ours);
        assert_eq!(replies, Reply::Settled(vec![SettleResult::Absent]), "round {round}");
    }
    assert_eq!(world.counts(lane).delivered, 200);
}
