//! Recording an event: find its targets, check their room, then write the rows.
//!
//! All reads come before the first write. The store keeps the id of a partly accepted event as long as the event,
//! even beyond the lanes' deduplication windows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hookproof_words::event_type::{EventPatterns, EventType};
use hookproof_words::ids::size;

use super::room::{Before, Replaced, RoomRows, Route};
use super::subscribe::SubscriberRows;
use crate::command::{Condition, Emit, OutboxId, RejectOutbox, Target, Transition};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::lane::LaneState;
use crate::reply::{Emitted, Placed, Refusal, Reply};

pub(crate) const REJECTED_MAX: u64 = 10_000;

pub(crate) struct New<'a> {
    pub(crate) emit: &'a Emit,
    pub(crate) target: &'a Target,
    pub(crate) bytes: u64,
    pub(crate) due: StoreTime,
    /// False: a dead letter from the start.
    pub(crate) fits: bool,
}

pub(crate) trait EventRows: RoomRows + SubscriberRows {
    type Event;

    fn refuses_events(&self) -> Option<Refusal>;

    fn newer(&mut self) -> &mut Newer;

    fn read_newer(&mut self, since: u64) -> Result<Newer, Self::Error>;

    /// Whether the outbox row may become this event. `None`: no such row exists.
    fn outbox_is_free(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<Option<bool>, Self::Error>;

    fn delete_outbox(&mut self, outbox: OutboxId) -> Result<(), Self::Error>;

    fn name_outbox(&mut self, outbox: OutboxId, id: &Arc<str>) -> Result<(), Self::Error>;

    fn set_aside(&mut self, reject: &RejectOutbox) -> Result<bool, Self::Error>;

    fn set_in_part(&mut self, id: &Arc<str>) -> Result<(), Self::Error>;

    /// The lanes that have an event of this id which was received after `since` or partly accepted.
    fn received_since(&mut self, id: &Arc<str>, since: StoreTime) -> Result<Before, Self::Error>;

    /// The oldest delivery with this coalescing key that waits, was never attempted, and has an open window.
    fn alike(&mut self, lane: LaneId, key: &Arc<str>) -> Result<Option<Replaced>, Self::Error>;

    fn begin_event(
        &mut self,
        emit: &Emit,
        routes: &[Route],
        in_part: bool,
    ) -> Result<Self::Event, Self::Error>;

    fn insert_delivery(&mut self, event: &mut Self::Event, new: &New<'_>) -> Result<DeliveryId, Self::Error>;

    fn queued(&mut self, new: &New<'_>, delivery: DeliveryId) -> Result<(), Self::Error>;

    fn end_event(&mut self, event: Self::Event, emit: &Emit) -> Result<(), Self::Error>;

    fn is_notified(&mut self, lane: LaneId, condition: Condition) -> Result<bool, Self::Error>;

    fn set_notified(&mut self, lane: LaneId, condition: Condition, is: bool) -> Result<(), Self::Error>;

    fn set_coalesced(&mut self, lane: LaneId, delivery: DeliveryId) -> Result<(), Self::Error>;

    fn emit(&mut self, emit: &Emit) -> Result<Reply, Self::Error> {
        if let Some(refusal) = self.emit_refusal(emit)? {
            return Ok(Reply::Refused(refusal));
        }
        let before = if emit.id_is_new {
            Before::default()
        } else {
            let longest = emit.targets.iter().map(|target| target.dedupe).max().unwrap_or(Nanos::ZERO);
            self.received_since(&emit.id, StoreTime(emit.received.0.saturating_sub(longest.0)))?
        };
        let mut routes = self.routes(emit, &before)?;
        let full = self.refuse_where_full(emit, &mut routes)?;
        self.written().refused += full.len() as u64;
        let any = routes.iter().any(Route::is_new);
        let has_it = routes.iter().any(|route| matches!(route, Route::Duplicate));
        if !full.is_empty() && (emit.atomic || !(any || has_it)) {
            return Ok(Reply::Refused(Refusal::Full(full)));
        }
        let is_whole = full.is_empty() && !emit.withheld;
        if let Some(outbox) = emit.outbox {
            self.leave_outbox(emit, outbox, is_whole, has_it)?;
        }
        if let Some(transition) = &emit.notifies {
            self.record_transition(transition)?;
        }
        let mut emitted = Emitted { targets: Vec::with_capacity(routes.len()), shed: 0 };
        if !any {
            emitted.targets.extend(routes.iter().map(Route::placed_nowhere));
            return Ok(Reply::Emitted(emitted));
        }
        // First, so that making room for one target cannot shed a delivery that another target is about to replace.
        for (target, route) in emit.targets.iter().zip(&routes) {
            if let Route::Replace(older) = route {
                self.coalesce(target.lane, older)?;
            }
        }
        let mut event = self.begin_event(emit, &routes, !is_whole || before.in_part(emit))?;
        for (target, route) in emit.targets.iter().zip(&routes) {
            let placed = self.place(emit, target, route, &mut event, &mut emitted.shed)?;
            emitted.targets.push(placed);
        }
        self.end_event(event, emit)?;
        self.written().shed += emitted.shed;
        Ok(Reply::Emitted(emitted))
    }

    fn transition_refusal(&mut self, transition: &Transition) -> Result<Option<Refusal>, Self::Error> {
        let Transition { lane, ends, begins } = *transition;
        self.lock([lane])?;
        if self.lane(lane)?.is_none_or(|lane| lane.state == LaneState::Removed) {
            return Ok(Some(Refusal::UnknownLane(lane)));
        }
        for (condition, expected) in [(ends, true), (begins, false)] {
            if let Some(condition) = condition
                && self.is_notified(lane, condition)? != expected
            {
                return Ok(Some(Refusal::Notified(lane)));
            }
        }
        Ok(None)
    }

    fn record_transition(&mut self, transition: &Transition) -> Result<(), Self::Error> {
        for (condition, is) in [(transition.ends, false), (transition.begins, true)] {
            if let Some(condition) = condition {
                self.set_notified(transition.lane, condition, is)?;
            }
        }
        Ok(())
    }

    fn emit_refusal(&mut self, emit: &Emit) -> Result<Option<Refusal>, Self::Error> {
        if let Some(refusal) = self.refuses_events() {
            return Ok(Some(refusal));
        }
        if self.is_outdated(emit)? {
            return Ok(Some(Refusal::StaleRoster { known: emit.roster, current: self.roster() }));
        }
        if emit.targets.iter().any(|target| target.body >= emit.bodies.len()) {
            return Ok(Some(Refusal::Nonsense("a target names a body that the event does not have")));
        }
        if let Some(transition) = &emit.notifies
            && let Some(refusal) = self.transition_refusal(transition)?
        {
            return Ok(Some(refusal));
        }
        let Some(outbox) = emit.outbox else { return Ok(None) };
        Ok(match self.outbox_is_free(outbox, &emit.id)? {
            Some(true) => None,
            Some(false) => Some(Refusal::OutboxNamed(outbox)),
            None => Some(Refusal::OutboxTaken(outbox)),
        })
    }

    fn is_outdated(&mut self, emit: &Emit) -> Result<bool, Self::Error> {
        let current = self.roster();
        if emit.roster >= current {
            return Ok(emit.roster > current);
        }
        if !self.newer().cover(emit, current) {
            let newer = self.read_newer(emit.roster)?;
            *self.newer() = newer;
        }
        Ok(self.newer().concern(emit))
    }

    /// Deletes the event's outbox row when no target lacks the event. Until then the row keeps the event's id, and
    /// the store knows which targets have the event.
    fn leave_outbox(
        &mut self,
        emit: &Emit,
        outbox: OutboxId,
        is_whole: bool,
        some_have_it: bool,
    ) -> Result<(), Self::Error> {
        if is_whole {
            return self.delete_outbox(outbox);
        }
        self.name_outbox(outbox, &emit.id)?;
        if some_have_it { self.set_in_part(&emit.id) } else { Ok(()) }
    }

    fn reject_outbox(&mut self, reject: &RejectOutbox) -> Result<Reply, Self::Error> {
        if self.set_aside(reject)? {
            Ok(Reply::Done)
        } else {
            Ok(Reply::Refused(Refusal::OutboxTaken(reject.id)))
        }
    }

    fn routes(&mut self, emit: &Emit, before: &Before) -> Result<Vec<Route>, Self::Error> {
        let mut named = BTreeSet::new();
        let mut routes = Vec::with_capacity(emit.targets.len());
        for target in &emit.targets {
            routes.push(if !self.accepts(target.lane)? {
                Route::Absent
            } else if before.has(emit, target) || !named.insert(target.lane) {
                Route::Duplicate
            } else {
                self.older(emit, target)?.map_or(Route::Fresh, Route::Replace)
            });
        }
        Ok(routes)
    }

    /// The delivery that the target's delivery replaces. It is not due before its window ends, so no process holds
    /// it. If the window ends before this commit is durable, another process may still claim the older delivery.
    fn older(&mut self, emit: &Emit, target: &Target) -> Result<Option<Replaced>, Self::Error> {
        let Some(coalesce) = &target.coalesce else { return Ok(None) };
        // A body that can never fit must not replace a delivery: both would be lost.
        if !self.could_fit(target.lane, size(emit.bodies[target.body].bytes.len()))? {
            return Ok(None);
        }
        let older = self.alike(target.lane, &coalesce.key)?;
        Ok(older.filter(|older| !self.cache().has(target.lane, older.delivery)))
    }

    fn place(
        &mut self,
        emit: &Emit,
        target: &Target,
        route: &Route,
        event: &mut Self::Event,
        shed: &mut u64,
    ) -> Result<Placed, Self::Error> {
        if !route.is_new() {
            return Ok(route.placed_nowhere());
        }
        let lane = target.lane;
        let bytes = size(emit.bodies[target.body].bytes.len());
        let window = target.coalesce.as_ref().map_or(0, |coalesce| coalesce.window.0);
        let mut due = StoreTime(target.due.0.saturating_add(window));
        let mut replaced = None;
        if let Route::Replace(older) = route {
            due = older.due;
            replaced = Some(older.delivery);
        }
        let fits = self.make_room(lane, bytes, shed)?;
        let new = New { emit, target, bytes, due, fits };
        let delivery = self.insert_delivery(event, &new)?;
        self.count(lane, |counts| counts.accept(bytes))?;
        self.written().recorded += 1;
        if !fits {
            self.count_buried(lane, delivery, bytes, false)?;
            return Ok(Placed::Overflowed { delivery });
        }
        self.queued(&new, delivery)?;
        self.may_pay(lane)?;
        Ok(Placed::Waiting { delivery, due, replaced })
    }

    fn coalesce(&mut self, lane: LaneId, older: &Replaced) -> Result<(), Self::Error> {
        if !self.records(older.delivery) {
            self.disturb(lane)?;
        }
        self.set_coalesced(lane, older.delivery)?;
        // The older delivery may fall due before this commit is durable, and no claim may hand it out then.
        self.cache().leave(lane, older.delivery);
        self.count(lane, |counts| {
            counts.leave(older.bytes, false);
            counts.coalesced += 1;
        })?;
        self.written().settled += 1;
        Ok(())
    }
}

// Decides whether an event must be matched again because subscribers changed after its emitter matched it.

/// The subscribers that are newer than the emitter's set. Removed ones are absent: they want nothing, and their lanes
/// accept nothing.
#[derive(Debug, Default)]
pub(crate) struct Newer {
    since: u64,
    current: u64,
    subscribers: BTreeMap<LaneId, Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    version: u64,
    /// `None`: the patterns are unreadable, so the subscriber may want any event.
    wants: Option<EventPatterns>,
}

impl Newer {
    /// Changed subscribers with which an event is compared, at most.
    pub(crate) const MAX: usize = 1_000;

    pub(crate) const fn new(since: u64, current: u64) -> Self {
        Self { since, current, subscribers: BTreeMap::new() }
    }

    /// Adds a subscriber with its stored patterns. [`Self::MAX`] + 1 subscribers mean that there are too many.
    pub(crate) fn add(&mut self, lane: LaneId, version: u64, patterns: &[u8]) {
        self.subscribers.insert(lane, Subscriber { version, wants: serde_json::from_slice(patterns).ok() });
    }

    pub(crate) const fn cover(&self, emit: &Emit, current: u64) -> bool {
        self.since <= emit.roster && self.current == current
    }

    pub(crate) fn concern(&self, emit: &Emit) -> bool {
        // Every offered event has a valid type. For any other, the subscribers that want it are unknown.
        let Ok(event_type) = emit.kind.parse::<EventType>() else { return true };
        let wants = |one: &Subscriber| one.wants.as_ref().is_none_or(|wanted| wanted.matches(&event_type));
        let has_changed =
            |lane: &LaneId| self.subscribers.get(lane).is_some_and(|one| one.version > emit.roster);
        self.subscribers.len() > Self::MAX
            || self.subscribers.values().any(|one| one.version > emit.roster && wants(one))
            || emit.targets.iter().any(|target| has_changed(&target.lane))
    }
}
