//! Takes, keeps, changes and gives back lanes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::effect::{Effect, News, Subscriber, SubscriberSet};
use super::handover;
use super::lanes::Waiting;
use super::obstacles::Cause;
use crate::engine::{Input, LaneId, StoreTime, Takeover, Term};
use crate::messages::lane::LaneState;
use crate::messages::node::Nodes;
use crate::messages::reply::{Renewed, TakenLane};

impl<S: SubscriberSet> Dispatcher<S> {
    pub(super) fn work(&mut self, lane: LaneId, due: StoreTime) {
        if self.lanes.is_ours(lane) {
            self.feed_engine(Input::Work { lane, due });
        } else if self.membership.is_home(lane) {
            self.tenure.want(lane);
        }
    }

    pub(super) fn take(&mut self, waiting: Waiting) {
        let Some(subscriber) = self.roster.get(waiting.taken.lane).cloned() else {
            // The roster will include the lane in a moment; the lease holds meanwhile.
            self.lanes.wait_for_roster(waiting);
            return;
        };
        let Waiting { taken: TakenLane { lane, term, state, handover, next }, asked, moment, .. } = waiting;
        let settings = Arc::clone(subscriber.settings());
        let origin = handover::open(handover, moment.as_ref());
        let lease_until = self.tenure.until(asked);
        let paused = state != LaneState::Active || !subscriber.is_sendable();
        if self.lanes.is_ours(lane) {
            // The lane was ours under an older term: its attempts end with that lease.
            self.effects.push_back(Effect::Forget { lane });
        }
        self.lanes.take(lane, term, lease_until, !paused);
        let taking = Takeover { lane, term, settings, origin, lease_until, next, paused };
        self.feed_engine(Input::Take(Box::new(taking)));
        if self.tenure.is_wanted_no_more(lane) {
            // Work came after the answer, which does not include it.
            self.feed_engine(Input::Work { lane, due: self.now });
        }
        self.report(News::Took { lane, term });
        // The former owner may have ended before it noticed.
        self.feed_engine(Input::Retry { lane, asked: subscriber.retried() });
        self.membership.took(lane);
        // Another process may be able to serve it, with the missing secret or settings.
        if subscriber.is_broken() {
            self.feed_engine(Input::Leave { lane });
        }
    }

    pub(super) fn lose(&mut self, lane: LaneId, term: Term) {
        if self.records.remove(lane, term) {
            self.pass(lane, Cause::Persist);
        }
        if self.lanes.forget(lane, term) {
            self.pass(lane, Cause::Claim);
            self.effects.push_back(Effect::Forget { lane });
            self.report(News::Lost { lane, term });
            self.feed_engine(Input::Lose { lane, term });
        }
    }

    pub(super) fn renew(&mut self, renewed: Renewed, asked: StoreTime) {
        self.tenure.renewed(asked);
        renewed.lost.into_iter().for_each(|(lane, term)| self.lose(lane, term));
        self.meet_nodes(renewed.nodes);
        let until = self.tenure.until(asked);
        self.lanes.renew(asked, until);
        self.effects.push_back(Effect::Extend { until });
        for (lane, term) in self.lanes.ours() {
            self.feed_engine(Input::Renew { lane, term, until });
        }
    }

    pub(super) fn change(&mut self, roster: Arc<S>) {
        let before = std::mem::replace(&mut self.roster, roster);
        for (lane, term) in self.lanes.ours() {
            let new = self.roster.get(lane).cloned();
            self.change_lane(lane, term, before.get(lane), new.as_ref());
        }
        for subscriber in self.roster.subscribers() {
            // The lane may have no owner and much waiting work.
            let rested = before.get(subscriber.lane()).is_some_and(|old| !old.is_sendable());
            if rested && subscriber.is_sendable() && self.membership.is_home(subscriber.lane()) {
                self.tenure.want(subscriber.lane());
            }
        }
        for waiting in self.lanes.take_waiting() {
            self.take(waiting);
        }
        self.announce_unserved();
    }

    pub(super) fn announce_unserved(&mut self) {
        let unable: BTreeSet<LaneId> =
            self.roster.subscribers().filter(|known| known.is_broken()).map(|known| known.lane()).collect();
        self.tenure.announce_change(|said| said.unable = Arc::new(unable));
    }

    pub(super) fn meet_nodes(&mut self, nodes: Nodes) {
        self.membership.update_nodes(nodes);
        self.tenure.search_soon();
    }

    pub(super) fn step_membership(&mut self) {
        if self.stopping {
            // While stopping, all lanes are given back.
            return;
        }
        if self.membership.refresh_view(self.now) {
            if let Some(draining) = self.membership.drains() {
                self.tenure.announce_change(|said| said.draining = draining);
            }
            self.tenure.go_by(self.membership.homes().cloned());
            self.membership.review(self.lanes.ours().into_iter().map(|(lane, _)| lane));
        }
        if self.membership.begin_poll_if_due(self.now) {
            self.tenure.renew_soon();
        }
        let (lanes, records) = (&self.lanes, &self.records);
        let is_under_way = |lane, term| lanes.is_ours_under(lane, term) || records.has_under(lane, term);
        for lane in self.membership.next_moves(|lane| lanes.term(lane), is_under_way) {
            self.effects.push_back(Effect::Withdraw { lane });
            self.feed_engine(Input::Leave { lane });
        }
    }

    fn change_lane(
        &mut self,
        lane: LaneId,
        term: Term,
        old: Option<&Arc<S::Subscriber>>,
        new: Option<&Arc<S::Subscriber>>,
    ) {
        if old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new)) {
            return;
        }
        self.effects.push_back(Effect::Withdraw { lane });
        let Some(new) = new.filter(|new| !new.is_broken()) else {
            self.feed_engine(Input::Leave { lane });
            return;
        };
        if old.is_none_or(|old| !Arc::ptr_eq(old.settings(), new.settings())) {
            self.feed_engine(Input::Change { lane, settings: Arc::clone(new.settings()) });
        }
        let sendable = new.is_sendable();
        if self.lanes.is_sendable(lane) != sendable {
            self.lanes.set_sendable(lane, term, sendable);
            self.feed_engine(if sendable { Input::Resume { lane } } else { Input::Pause { lane } });
        }
        self.feed_engine(Input::Retry { lane, asked: new.retried() });
    }

    pub(super) fn meet(&mut self, lane: LaneId, cause: Cause, why: Arc<str>) -> StoreTime {
        let (again, is_new) = self.obstacles.meet(self.now, lane, cause, Arc::clone(&why));
        if is_new {
            self.report(News::Stuck { lane, why });
        }
        again
    }

    pub(super) fn pass(&mut self, lane: LaneId, cause: Cause) {
        if self.obstacles.pass(lane, cause) {
            self.report(News::Moves { lane });
        }
    }
}
