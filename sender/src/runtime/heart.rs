//! The engine's driver: one task that owns the engine and carries out what it says.
//!
//! Everything that happens comes in as a [`Word`]; everything that takes time (a commit, a request) is started and comes
//! back as a word. The task itself never waits for a disk or a network, so that a stuck store or endpoint holds up
//! nothing but what depends on it.
//!
//! The channel of words has no bound of its own; what can be in it has: answers to commands (one a lane, and batches up
//! to the engine's bound on unanswered settlements), ends of attempts (the engine's bound on attempts), news from one
//! watcher (one word a round), and what operators ask.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use tracing::{debug, error, warn};

use super::clock::{Clock, Moment, instant, wall_time};
use super::handover;
use super::lanes::{Lanes, Stop};
use super::link::ask;
use super::post::{Leave, Post, Posted};
use super::tenure::{Step, Tenure};
use super::watcher::tell_of_broken;
use crate::engine::{
    AttemptId, BatchId, DeliveryId, Due, Engine, Input, Instant, LaneId, LaneRecord, LaneView, Nanos, Output,
    Settlement, Taking, Term, WallTime,
};
use crate::roster::Roster;
use crate::store::command::{self, Claim, Command, Persist};
use crate::store::lane::LaneState;
use crate::store::reply::{Claimed, Refusal, Renewed, Reply, Taken, Verdict};
use crate::store::thread::Handle;

/// Words handled before the engine is asked what to do: more make for larger batches, fewer for quicker answers.
const WORDS_MAX: usize = 1_024;
/// Bytes of bodies in one claim: a lane of large bodies holds few of them in memory.
const CLAIM_BYTES_MAX: u64 = 4 << 20;
/// How long a lane waits whose claim the store could not answer.
const CLAIM_AGAIN: Nanos = Nanos::from_millis(100);

/// Something that happened.
pub(super) enum Word {
    /// The store handed deliveries out.
    Claimed(Claimed),
    /// The store would not: the lane is not ours any more.
    Lost(LaneId, Term),
    /// An attempt is over.
    Posted { attempt: AttemptId, delivery: DeliveryId, posted: Posted },
    /// Settlements are durable.
    Settled { batch: BatchId, refused: Vec<(LaneId, Term)> },
    /// A lane was given back.
    HandedBack(LaneId, Term),
    /// Lanes are ours, their leases counted from that moment.
    Acquired { taken: Vec<Taken>, asked: WallTime },
    /// Our leases were renewed, counted from that moment.
    Renewed { renewed: Renewed, asked: WallTime },
    /// They could not be renewed; lanes whose lease runs out start nothing.
    NotRenewed,
    /// Lanes have something to do.
    Work(Vec<(LaneId, WallTime)>),
    /// Subscribers have changed.
    Roster(Arc<Roster>),
    /// Somebody wants to know how lanes are.
    View(oneshot::Sender<Vec<LaneView>>),
    /// End in order.
    Stop,
}

/// Where words go. Once the heart has stopped, nobody hears them.
#[derive(Clone)]
pub(super) struct Mouth(mpsc::UnboundedSender<Word>);

impl Mouth {
    pub(super) fn say(&self, word: Word) {
        // After the end there is nothing left that the word could change.
        let _ = self.0.send(word);
    }
}

pub(super) fn channel() -> (Mouth, mpsc::UnboundedReceiver<Word>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Mouth(sender), receiver)
}

/// The driver.
pub(super) struct Heart<P> {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) store: Handle,
    pub(super) post: Arc<P>,
    pub(super) tenure: Tenure,
    pub(super) lanes: Lanes,
    pub(super) roster: Arc<Roster>,
    pub(super) words: mpsc::UnboundedReceiver<Word>,
    pub(super) mouth: Mouth,
    /// What attempts that ended in this round were like, until their settlements come out.
    pub(super) posted: HashMap<DeliveryId, command::Attempt>,
    pub(super) stop: Stop,
}

impl<P: Post> Heart<P> {
    /// Beats until it was told to stop and everything has come to an end.
    pub(super) async fn run(mut self) {
        tell_of_broken(&Roster::default(), &self.roster);
        let mut batch = Vec::with_capacity(WORDS_MAX);
        while !self.is_over() {
            let wake = self.next_wake();
            tokio::select! {
                count = self.words.recv_many(&mut batch, WORDS_MAX) => {
                    if count == 0 { break }
                }
                () = alarm(self.clock, wake) => {}
            }
            for word in batch.drain(..) {
                self.hear(word);
            }
            self.beat();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_asked() && self.engine.is_at_rest() && self.lanes.all_handed_back()
    }

    fn next_wake(&self) -> Instant {
        let tenure = instant(self.tenure.next_step());
        self.engine.next_wake().map_or(tenure, |wake| wake.min(tenure))
    }

    /// Lets the engine decide, and carries it out.
    fn beat(&mut self) {
        let now = self.clock.now();
        self.engine.handle(instant(now), Input::Tick);
        if !self.stop.is_asked() {
            self.step_tenure(now);
        }
        while let Some(output) = self.engine.poll() {
            self.carry_out(output, now);
        }
        // What is left belongs to lanes that were lost: whoever has them now makes the attempt again.
        self.posted.clear();
    }

    fn hear(&mut self, word: Word) {
        let now = self.clock.now();
        match word {
            Word::Claimed(claimed) => self.fill(claimed),
            Word::Lost(lane, term) => self.lose(lane, term),
            Word::Posted { attempt, delivery, posted } => {
                if let Some(record) = posted.record {
                    self.posted.insert(delivery, record);
                }
                self.engine.handle(instant(now), Input::Ended { attempt, outcome: posted.outcome });
            }
            Word::Settled { batch, refused } => {
                self.engine.handle(instant(now), Input::Settled { batch });
                refused.into_iter().for_each(|(lane, term)| self.lose(lane, term));
            }
            Word::HandedBack(lane, term) => self.lanes.handed_back(lane, term),
            Word::Acquired { taken, asked } => {
                self.tenure.acquired(taken.len());
                taken.into_iter().for_each(|taken| self.take(taken, asked));
            }
            Word::Renewed { renewed, asked } => self.renew(renewed, asked),
            Word::NotRenewed => self.tenure.not_renewed(now),
            Word::Work(lanes) => lanes.into_iter().for_each(|(lane, due)| self.work(lane, due)),
            Word::Roster(roster) => self.change(roster),
            Word::View(answer) => {
                // Whoever asked may have gone meanwhile.
                let _ = answer.send(self.engine.views());
            }
            Word::Stop => {
                self.stop.ask();
                self.lanes.withdraw_all();
                self.engine.handle(instant(now), Input::Stop);
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(instant(self.clock.now()), input);
    }

    fn work(&mut self, lane: LaneId, due: WallTime) {
        if self.lanes.is_ours(lane) {
            self.handle(Input::Work { lane, due: instant(due) });
        } else {
            self.tenure.want(lane);
        }
    }

    fn fill(&mut self, claimed: Claimed) {
        let Claimed { lane, term, rows, next } = claimed;
        let due = rows.iter().map(|row| Due {
            delivery: row.delivery,
            attempts: row.attempts,
            expires: instant(row.expires),
        });
        let due = due.collect();
        if self.lanes.hold(lane, term, rows) {
            self.handle(Input::Claimed { lane, term, due, next: next.map(instant) });
        }
    }

    fn take(&mut self, taken: Taken, asked: WallTime) {
        let Taken { lane, term, state, handover, next } = taken;
        let Some(subscriber) = self.roster.get(lane) else {
            // The roster will have it in a moment; the lease holds meanwhile.
            self.lanes.wait_for_roster(Taken { lane, term, state, handover, next }, asked);
            return;
        };
        if self.stop.is_asked() {
            return;
        }
        let settings = Arc::clone(subscriber.settings());
        let origin =
            handover::open(handover, settings.quarantine(), subscriber.deadline(), Moment::now().as_ref());
        let lease_until = instant(self.tenure.until(asked));
        let paused = state != LaneState::Active || !subscriber.is_sendable();
        let next = next.map(instant);
        self.lanes.take(lane, term);
        self.handle(Input::Take(Box::new(Taking {
            lane,
            term,
            settings,
            origin,
            lease_until,
            next,
            paused,
        })));
        debug!(lane = lane.0, term = term.0, "took a lane");
    }

    fn lose(&mut self, lane: LaneId, term: Term) {
        if self.lanes.forget(lane, term) {
            warn!(lane = lane.0, term = term.0, "lost a lane to another process");
            self.handle(Input::Lose { lane, term });
        }
    }

    fn renew(&mut self, renewed: Renewed, asked: WallTime) {
        self.tenure.renewed(asked);
        renewed.lost.into_iter().for_each(|(lane, term)| self.lose(lane, term));
        let until = instant(self.tenure.until(asked));
        for (lane, term) in self.lanes.ours() {
            self.handle(Input::Renew { lane, term, until });
        }
    }

    /// Tells the engine of every owned lane whose subscriber has changed.
    fn change(&mut self, roster: Arc<Roster>) {
        let before = std::mem::replace(&mut self.roster, roster);
        for (lane, _) in self.lanes.ours() {
            let old = before.get(lane);
            let Some(new) = self.roster.get(lane).cloned() else {
                self.lanes.withdraw(lane);
                self.handle(Input::Leave { lane });
                continue;
            };
            if old.is_none_or(|old| !Arc::ptr_eq(old, &new)) {
                self.lanes.withdraw(lane);
            }
            if old.is_none_or(|old| !Arc::ptr_eq(old.settings(), new.settings())) {
                self.handle(Input::Change { lane, settings: Arc::clone(new.settings()) });
            }
            let sendable = new.is_sendable();
            if old.is_none_or(|old| old.is_sendable() != sendable) {
                self.handle(if sendable { Input::Resume { lane } } else { Input::Pause { lane } });
            }
        }
        for (taken, asked) in self.lanes.waiting_for_roster() {
            self.take(taken, asked);
        }
    }

    fn carry_out(&mut self, output: Output, now: WallTime) {
        match output {
            Output::Claim { lane, term, max } => self.claim(lane, term, max),
            Output::Send { attempt, lane, delivery, number } => {
                self.send(attempt, lane, delivery, number, now);
            }
            Output::Settle { batch, settlements } => self.settle(batch, &settlements),
            Output::Persist { lane, term, record } => self.persist(lane, term, *record),
            // The loop asks for the next wake itself.
            Output::Wake { .. } => {}
        }
    }

    fn claim(&mut self, lane: LaneId, term: Term, max: u32) {
        let mouth = self.mouth.clone();
        let claim = Claim { lane, term, max, bytes_max: CLAIM_BYTES_MAX };
        let clock = self.clock;
        ask(&self.store, Command::Claim(claim), move |reply| {
            mouth.say(match reply {
                Ok(Reply::Claimed(claimed)) => Word::Claimed(claimed),
                Ok(_) => Word::Lost(lane, term),
                // The store is in trouble, and has said so. The lane is ours all the same.
                Err(_) => {
                    let next = Some(WallTime(clock.now().0 + CLAIM_AGAIN.0));
                    Word::Claimed(Claimed { lane, term, rows: Vec::new(), next })
                }
            });
        });
    }

    /// `now` is the moment of the decision, from which the engine and whoever owns the lane next count.
    fn send(&mut self, attempt: AttemptId, lane: LaneId, delivery: DeliveryId, number: u32, now: WallTime) {
        let (mouth, post) = (self.mouth.clone(), Arc::clone(&self.post));
        let row = self.lanes.release(lane, delivery);
        let subscriber = self.roster.get(lane).cloned();
        let consent = self.lanes.consent(lane);
        let (Some(row), Some(subscriber), Some(consent)) = (row, subscriber, consent) else {
            // Removed in this very moment: as good as a connection that was refused.
            let posted = Posted::impossible(self.clock.now(), "the subscriber was removed");
            mouth.say(Word::Posted { attempt, delivery, posted });
            return;
        };
        let clock = self.clock;
        let until = clock.deadline(WallTime(now.0.saturating_add(subscriber.deadline().0)));
        let leave = Leave { until, consent };
        tokio::spawn(async move {
            let posted = post.post(&clock, &subscriber, &row, number, leave).await;
            mouth.say(Word::Posted { attempt, delivery, posted });
        });
    }

    fn settle(&mut self, batch: BatchId, settlements: &[Settlement]) {
        let owners: Vec<_> = settlements.iter().map(|settled| (settled.lane, settled.term)).collect();
        let rows = settlements.iter().map(|settled| self.settlement(settled)).collect();
        let mouth = self.mouth.clone();
        ask(&self.store, Command::Settle(rows), move |reply| {
            let refused = match reply {
                Ok(Reply::Settled(verdicts)) => {
                    let stale = owners.into_iter().zip(verdicts);
                    stale.filter(|(_, verdict)| *verdict == Verdict::Stale).map(|(owner, _)| owner).collect()
                }
                other => {
                    error!(
                        ?other,
                        count = owners.len(),
                        "settlements were not recorded; their deliveries wait for a restart"
                    );
                    Vec::new()
                }
            };
            mouth.say(Word::Settled { batch, refused });
        });
    }

    fn settlement(&mut self, settled: &Settlement) -> command::Settlement {
        let Settlement { lane, term, delivery, attempts, fate } = *settled;
        let fate = fate.into();
        self.lanes.release(lane, delivery);
        let attempt = self.posted.remove(&delivery);
        command::Settlement { lane, term, delivery, attempts, fate, attempt }
    }

    fn persist(&mut self, lane: LaneId, term: Term, record: LaneRecord) {
        let hand_back = record.is_final();
        let record = match handover::seal(record, Moment::now()) {
            Ok(record) => record,
            Err(error) => {
                warn!(lane = lane.0, %error, "a lane's state could not be written down");
                return;
            }
        };
        if hand_back {
            self.lanes.hand_back(lane, term);
        }
        let mouth = self.mouth.clone();
        let persist = Persist { lane, term, record, hand_back };
        ask(&self.store, Command::Persist(persist), move |reply| match reply {
            Ok(Reply::Refused(Refusal::StaleTerm { .. })) => mouth.say(Word::Lost(lane, term)),
            _ if hand_back => mouth.say(Word::HandedBack(lane, term)),
            _ => {}
        });
    }

    /// Takes the next step of keeping and getting lanes, if it is time to.
    fn step_tenure(&mut self, now: WallTime) {
        for step in self.tenure.steps(now) {
            let mouth = self.mouth.clone();
            match step {
                Step::Renew(renew) => ask(&self.store, Command::Renew(renew), move |reply| {
                    mouth.say(match reply {
                        Ok(Reply::Renewed(renewed)) => Word::Renewed { renewed, asked: now },
                        _ => Word::NotRenewed,
                    });
                }),
                Step::Acquire(acquire) => ask(&self.store, Command::Acquire(acquire), move |reply| {
                    let taken = if let Ok(Reply::Acquired(taken)) = reply { taken } else { Vec::new() };
                    mouth.say(Word::Acquired { taken, asked: now });
                }),
            }
        }
    }
}

async fn alarm(clock: Clock, at: Instant) {
    #[expect(clippy::disallowed_methods, reason = "the runtime's one timer")]
    sleep_until(clock.deadline(wall_time(at))).await;
}
