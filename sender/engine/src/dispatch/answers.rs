//! Handles the store's answers, above all its failures.

use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::effect::{News, SubscriberSet};
use super::event::{Answered, Failure, Order};
use super::lanes::Waiting;
use super::obstacles::{Cause, PAUSE_FIRST};
use super::unsettled::TakenPart;
use crate::engine::{Due, Input, LaneId, Revision, Term};
use crate::messages::Reply;
use crate::messages::command::{Fate, Settlement};
use crate::messages::reply::{Claimed, Refusal, SettleResult};

impl<S: SubscriberSet> Dispatcher<S> {
    pub(super) fn handle_answer(&mut self, answered: Answered) {
        let Answered { order, reply, moment } = answered;
        match order {
            Order::Claim { lane, term, max, portion } => {
                // From here on, only the kept rows count against the budget.
                self.lanes.budget.give_back(portion);
                self.claimed((lane, term), max, reply);
            }
            Order::Settle(number) => self.settled(number, reply),
            Order::Persist { lane, term, revision } => self.persisted(lane, term, revision, reply),
            Order::Renew { asked } => match reply {
                Ok(Reply::Renewed(renewed)) => self.renew(renewed, asked),
                _ => self.tenure.not_renewed(self.now),
            },
            Order::Retire => match reply {
                Ok(_) => self.tenure.retired(),
                Err(failure) => {
                    let may_recover = failure != Failure::Stopped;
                    self.tenure.not_retired(self.now, may_recover);
                }
            },
            Order::Acquire { asked } => {
                let taken = if let Ok(Reply::Acquired(taken)) = reply { taken } else { Vec::new() };
                let lanes: Vec<LaneId> = taken.iter().map(|taken| taken.lane).collect();
                self.tenure.acquired(&lanes);
                for taken in taken {
                    let since = self.now;
                    self.take(Waiting { taken, asked, since, moment: moment.clone() });
                }
            }
        }
    }

    fn claimed(&mut self, (lane, term): (LaneId, Term), max: u32, reply: Result<Reply, Failure>) {
        let again = match reply {
            Ok(Reply::Claimed(claimed)) => {
                self.pass(lane, Cause::Claim);
                match claimed.too_long {
                    Some(bytes) => self.claim_again((lane, term), max, bytes),
                    None => self.fill(claimed),
                }
                return;
            }
            Ok(_) => {
                self.lose(lane, term);
                return;
            }
            Err(Failure::Lasting(why)) if self.lanes.is_ours_under(lane, term) => {
                self.meet(lane, Cause::Claim, describe("its deliveries cannot be read", &why))
            }
            Err(_) => self.now + PAUSE_FIRST,
        };
        self.feed_engine(Input::Claimed { lane, term, due: Vec::new(), next: Some(again) });
    }

    /// The engine waits for the answer to the new claim.
    fn claim_again(&mut self, (lane, term): (LaneId, Term), max: u32, bytes: u64) {
        if self.lanes.expect_longer(lane, term, bytes) {
            let again = self.claim(lane, term, max);
            self.effects.extend(again);
        }
    }

    fn fill(&mut self, claimed: Claimed) {
        let Claimed { lane, term, rows, next, .. } = claimed;
        let due = rows.iter().map(|row| Due {
            delivery: row.delivery,
            attempts: row.attempts,
            expires: row.expires,
        });
        let due = due.collect();
        if self.lanes.hold(lane, term, rows) {
            self.feed_engine(Input::Claimed { lane, term, due, next });
        }
    }

    fn settled(&mut self, number: u64, reply: Result<Reply, Failure>) {
        let failure = match reply {
            Ok(Reply::Settled(results)) => return self.settle_done(number, &results),
            Ok(other) => Failure::Lasting(format!("the database answered {other:?}").into()),
            Err(failure) => failure,
        };
        let Some(lane) = self.unsettled.rows(number).and_then(|rows| rows.first()).map(|row| row.lane) else {
            return;
        };
        match failure {
            Failure::Full if !self.stopping => {
                self.unsettled.delay(number);
                self.obstacles.put_off(self.now, lane, Cause::Settle(number));
            }
            Failure::Full => self.give_up_settling(number, "the database has no room for its settlements"),
            Failure::Stopped => self.give_up_settling(number, "the database has been closed"),
            Failure::Lasting(why) => match self.unsettled.halve(number) {
                // Rows that the store can write must not wait for the others.
                Some(halves) => halves.into_iter().for_each(|half| self.submit_batch(half)),
                None if self.stopping => self.give_up_settling(number, &why),
                None => {
                    self.unsettled.delay(number);
                    let why = describe("the outcome of a delivery cannot be recorded", &why);
                    self.meet(lane, Cause::Settle(number), why);
                }
            },
        }
    }

    fn settle_done(&mut self, number: u64, results: &[SettleResult]) {
        let Some(TakenPart { rows, batch, is_late }) = self.unsettled.remove(number) else { return };
        if let Some(batch) = batch {
            self.feed_engine(Input::Settled { batch });
        }
        if let Some(row) = rows.first() {
            self.pass(row.lane, Cause::Settle(number));
        }
        for (row, result) in rows.iter().zip(results) {
            self.work_done.count(row, *result);
            if *result == SettleResult::Stale {
                self.lose(row.lane, row.term);
            } else if is_late {
                // A claim in between missed the row, and the lane has forgotten it.
                self.remind(row);
            }
        }
        self.hand_back_after(&rows);
    }

    /// Wakes the lane for a delivery that waits in the store again.
    fn remind(&mut self, row: &Settlement) {
        let due = match row.fate {
            Fate::Retry { due } => due,
            Fate::Released => self.now,
            Fate::Delivered | Fate::Dead(_) => return,
        };
        self.feed_engine(Input::Work { lane: row.lane, due });
    }

    /// As after a crash: the next owner makes these deliveries again.
    fn give_up_settling(&mut self, number: u64, why: &str) {
        let Some(TakenPart { rows, batch, .. }) = self.unsettled.remove(number) else { return };
        if let Some(batch) = batch {
            self.feed_engine(Input::Settled { batch });
        }
        if let Some(row) = rows.first() {
            self.pass(row.lane, Cause::Settle(number));
            self.report(News::GaveUp { lane: row.lane, why: describe("deliveries are made again", why) });
        }
        self.hand_back_after(&rows);
    }

    fn persisted(&mut self, lane: LaneId, term: Term, revision: Revision, reply: Result<Reply, Failure>) {
        let failure = match reply {
            Ok(Reply::Refused(Refusal::StaleTerm { .. })) => return self.lose(lane, term),
            Ok(Reply::Done | Reply::Refused(Refusal::UnknownLane(_))) => None,
            Ok(other) => Some(Failure::Lasting(format!("the database answered {other:?}").into())),
            Err(failure) => Some(failure),
        };
        if failure.is_none() {
            self.feed_engine(Input::Persisted { lane, term, revision });
        }
        if !self.records.is_current(lane, term, revision) {
            // A newer record of the lane is on its way and includes this one.
            return;
        }
        match failure {
            None => self.forget_record(lane, term),
            Some(Failure::Lasting(why)) if !self.stopping => {
                self.meet(lane, Cause::Persist, describe("its checkpoint cannot be written", &why));
            }
            Some(Failure::Full) if !self.stopping => {
                self.obstacles.put_off(self.now, lane, Cause::Persist);
            }
            Some(failure) => {
                self.forget_record(lane, term);
                self.records.give_up();
                self.report(News::GaveUp {
                    lane,
                    why: describe("its lease will end by itself", &failure.to_string()),
                });
            }
        }
    }

    fn forget_record(&mut self, lane: LaneId, term: Term) {
        self.records.remove(lane, term);
        self.pass(lane, Cause::Persist);
    }
}

fn describe(what: &str, why: &str) -> Arc<str> {
    format!("{what}: {why}").into()
}
