use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) use outbox::{Outboxed, Wanted};
use refused::Answers;
pub use refused::{Refused, RefusedList};
use tokio::sync::{oneshot, watch};
use tokio::task::yield_now;

use super::CAPACITY;
use super::clock::{Clock, unique, wall};
use super::link::{Failed, submit};
use super::shell::EventSender;
use crate::dispatch::Event;
use crate::engine::{DeliveryId, LaneId, StoreTime};
use crate::event::{Kind, Limits, Offer, PublicId, Refusal as BadOffer};
use crate::fanout::{SHAPED_BYTES_MAX, fan_out, left_out};
use crate::roster::Roster;
use crate::spans::{Span, Spans, Trace, TraceParent};
use crate::store::command::{Command, Emit};
use crate::store::reply::{Emitted, Placed, Refusal, Reply};
use crate::store::thread::{Handle, Why};

mod outbox;
mod refused;

const RECORDED_MAX: usize = 100_000;
const MATCHES_MAX: u32 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub id: Arc<str>,
    pub deliveries: usize,
    /// How many subscribers already had the event.
    pub duplicates: usize,
    /// Deliveries that became dead letters to make room, perhaps this event's own.
    pub shed: u64,
    /// These have no room, or too long a body. Emitting the same id again reaches only these.
    pub refused: RefusedList,
}

/// Nothing of the event was recorded. Subscribers that had it keep it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    #[error(transparent)]
    Offer(#[from] BadOffer),
    /// Subscribers with a policy to refuse are full. Retry later.
    #[error("subscribers without room for the event: {}; the first: {}; emit it again later", .0.count(), .0.listed().first().map_or("full", Refused::as_str))]
    Full(RefusedList),
    /// It exceeds the queues, or becomes too long by the shapes.
    #[error("subscribers whose queue never fits the event: {}; the first: {}; make it smaller, or change their queue.bytes or shape", .0.count(), .0.listed().first().map_or("full", Refused::as_str))]
    NeverFits(RefusedList),
    /// A matching subscriber is broken, so its shape and secrets are unknown.
    #[error(
        "the subscriber {subscriber} wants the event and cannot be delivered to: {fault}; mend it, give this \
         process the secret of its region, or remove it"
    )]
    Broken { subscriber: Arc<str>, fault: Box<str> },
    /// The store's queue is full. Retry later.
    #[error("events arrive faster than the database can write; try again later")]
    Busy,
    #[error("the event could not be recorded: {0}")]
    Store(String),
}

impl EmitError {
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Offer(_) | Self::NeverFits(_) => false,
            Self::Full(_) | Self::Broken { .. } | Self::Busy | Self::Store(_) => true,
        }
    }

    pub(crate) fn stopping() -> Self {
        Self::Store("the sender is stopping; emit the event again after its restart".to_owned())
    }

    fn refused(all: Vec<Refused>, atomic: bool) -> Self {
        let never: Vec<Refused> = all.iter().copied().filter(Refused::never_fits).collect();
        if never.len() == all.len() || (atomic && !never.is_empty()) {
            return Self::NeverFits(RefusedList::new(never));
        }
        Self::Full(RefusedList::new(all))
    }
}

pub(super) struct Emitter {
    store: Handle,
    clock: Clock,
    limits: Limits,
    roster: watch::Sender<Arc<Roster>>,
    events: EventSender,
    spans: Option<Spans>,
    recorded: Mutex<Vec<DeliveryId>>,
}

impl Emitter {
    pub(super) fn new(
        store: Handle,
        clock: Clock,
        limits: Limits,
        roster: Arc<Roster>,
        events: EventSender,
        spans: Option<Spans>,
    ) -> Arc<Self> {
        let (roster, recorded) = (watch::Sender::new(roster), Mutex::default());
        Arc::new(Self { store, clock, limits, roster, events, spans, recorded })
    }

    pub(super) const fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.roster.borrow())
    }

    pub(super) fn use_roster(&self, roster: Arc<Roster>) {
        self.roster.send_replace(roster);
    }

    pub(super) async fn wait_for_roster_after(&self, version: u64) {
        let _ = self.roster.subscribe().wait_for(|roster| roster.version() > version).await;
    }

    /// Whether this process recorded all deliveries after `seen` up to `last`. Ids are consecutive, so
    /// counting suffices.
    pub(super) fn recorded_all_between(&self, seen: DeliveryId, last: DeliveryId) -> bool {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = recorded.iter().filter(|id| seen < **id && **id <= last).count();
        recorded.retain(|id| last < *id);
        // A store restored from an older copy has a smaller `last`.
        u64::try_from(ours).ok() == last.0.checked_sub(seen.0)
    }

    /// Records events. Answers in order, each once it is durable.
    pub(super) async fn emit(self: &Arc<Self>, offers: &[Offer<'_>]) -> Vec<Result<Accepted, EmitError>> {
        let mut answers = Answers::new(offers.len());
        let mut open: Vec<usize> = (0..offers.len()).collect();
        for _ in 0..MATCHES_MAX {
            let stale = self.emit_chunks(offers, open, &mut answers).await;
            let Some(version) = stale.roster else { break };
            open = stale.places;
            self.wait_for_roster_after(version).await;
        }
        answers.into_all()
    }

    async fn emit_chunks(
        self: &Arc<Self>,
        offers: &[Offer<'_>],
        open: Vec<usize>,
        answers: &mut Answers,
    ) -> Stale {
        let mut left = open.into_iter();
        let mut under_way = VecDeque::with_capacity(CHUNKS_MAX);
        let mut stale = Stale::default();
        loop {
            while under_way.len() < CHUNKS_MAX && left.len() > 0 {
                let roster = self.roster();
                let mut chunk = self.prepare_chunk(&roster, offers, &mut left, answers);
                if !chunk.is_empty() {
                    let places = std::mem::take(&mut chunk.places);
                    under_way.push_back((places, roster.version(), self.submit(chunk)));
                }
                if left.len() > 0 {
                    // Nothing is held outside of the store's bounded queue here.
                    yield_now().await;
                }
            }
            let Some((places, version, told)) = under_way.pop_front() else { return stale };
            // Fails only if the store's thread has ended.
            let (spans, told) = (told.spans, told.answers.await.unwrap_or(told.unanswered));
            self.end_spans(spans, &told);
            for (place, answer) in places.into_iter().zip(told) {
                match answer {
                    Err(Unrecorded::StaleRoster) => stale.add(place, version),
                    // Only outbox rows get `Named`.
                    Err(Unrecorded::Named) => {}
                    Err(Unrecorded::For(error)) => answers.put(place, Err(error)),
                    Ok(accepted) => answers.put(place, Ok(accepted)),
                }
            }
        }
    }

    fn prepare_chunk(
        &self,
        roster: &Roster,
        offers: &[Offer<'_>],
        left: &mut impl Iterator<Item = usize>,
        answers: &mut Answers,
    ) -> Chunk {
        let mut chunk = Chunk::default();
        while !chunk.is_full()
            && let Some(place) = left.next()
        {
            match self.prepare(roster, &offers[place]) {
                Ok(prepared) => chunk.add(place, prepared),
                Err(error) => {
                    if matches!(error, EmitError::NeverFits(_)) {
                        chunk.end();
                    }
                    answers.put(place, Err(error));
                }
            }
        }
        chunk
    }

    fn prepare(&self, roster: &Roster, offer: &Offer<'_>) -> Result<Prepared, EmitError> {
        if let Some((known, fault)) = roster.in_the_way(&offer.event_type, offer.within.as_ref()) {
            return Err(EmitError::Broken {
                subscriber: Arc::clone(known.name()),
                fault: fault.to_string().into(),
            });
        }
        let id = offer.id.clone().unwrap_or_else(|| PublicId::new(Kind::Event, wall(), unique()));
        let trace = self.spans.as_ref().and_then(|spans| spans.trace(id.as_str()));
        let trace = trace.map(|trace| (trace, wall()));
        let emit = fan_out(roster, offer, &id, self.clock.now(), wall());
        let left_out = left_out(roster, offer, &emit);
        if !left_out.is_empty() && (offer.atomic || emit.targets.is_empty()) {
            return Err(EmitError::refused(
                left_out.into_iter().map(Refused::LongBody).collect(),
                offer.atomic,
            ));
        }
        let kind = &emit.kind;
        let span =
            trace.map(|(trace, began)| OpenSpan { trace, link: offer.parent, began, kind: kind.clone() });
        Ok(Prepared { emit, left_out, span })
    }

    fn submit(self: &Arc<Self>, chunk: Chunk) -> PendingAnswers {
        let Chunk { known, spans, commands, .. } = chunk;
        let unanswered = vec![Err(Unrecorded::For(EmitError::stopping())); known.len()];
        let (tell, answers) = oneshot::channel();
        let emitter = Arc::clone(self);
        submit(&self.store, commands, move |result| {
            // The caller may have gone.
            let _ = tell.send(emitter.understand(known, result));
        });
        PendingAnswers { answers, unanswered, spans }
    }

    fn understand(
        &self,
        known: Vec<Known>,
        result: Result<Vec<Reply>, Failed>,
    ) -> Vec<Result<Accepted, Unrecorded>> {
        let replies = match result {
            Ok(replies) => replies,
            Err(failed) => return vec![Err(Unrecorded::For(failed.into())); known.len()],
        };
        let mut work = BTreeMap::new();
        let mut recorded = Vec::new();
        let answers = known.into_iter().zip(replies).map(|(known, reply)| match reply {
            Reply::Emitted(emitted) => {
                for (lane, due) in emitted.work(&known.lanes) {
                    let first = work.entry(lane).or_insert(due);
                    *first = (*first).min(due);
                }
                recorded.extend(emitted.targets.iter().filter_map(|placed| match placed {
                    Placed::Waiting { delivery, .. } | Placed::Overflowed { delivery } => Some(*delivery),
                    Placed::Duplicate | Placed::Absent | Placed::Refused(_) => None,
                }));
                Ok(Accepted::new(known, &emitted))
            }
            Reply::Refused(Refusal::StaleRoster { .. }) => Err(Unrecorded::StaleRoster),
            Reply::Refused(Refusal::OutboxNamed(_)) => Err(Unrecorded::Named),
            Reply::Refused(Refusal::Full(full)) => {
                let refused = full.into_iter().map(Refused::Full).chain(known.left_out()).collect();
                Err(Unrecorded::For(EmitError::refused(refused, known.atomic)))
            }
            Reply::Refused(refusal @ (Refusal::LogFull { .. } | Refusal::DiskFull)) => {
                Err(Unrecorded::For(EmitError::Store(refusal.to_string())))
            }
            // Another process made the event.
            Reply::Refused(Refusal::OutboxTaken(_)) => {
                Ok(Accepted::new(known, &Emitted { targets: vec![], shed: 0 }))
            }
            other => Err(Unrecorded::For(EmitError::Store(format!("the database answered {other:?}")))),
        });
        let answers = answers.collect();
        self.add_recorded(recorded);
        if !work.is_empty() {
            self.events.send(Event::Work(work.into_iter().collect()));
        }
        answers
    }

    /// Those of events that are new for each of their subscribers: one that is emitted again has its span.
    fn end_spans(&self, open: Vec<Option<OpenSpan>>, answers: &[Result<Accepted, Unrecorded>]) {
        let Some(spans) = &self.spans else { return };
        for (open, answer) in open.into_iter().zip(answers) {
            if let (Some(OpenSpan { trace, link, began, kind }), Ok(accepted)) = (open, answer)
                && accepted.deliveries > 0
                && accepted.duplicates == 0
            {
                spans.record(|| {
                    let attributes = vec![
                        ("hookproof.event.id", accepted.id.as_ref().into()),
                        ("hookproof.event.type", kind.as_ref().into()),
                        ("hookproof.deliveries", accepted.deliveries.into()),
                    ];
                    Span { trace, id: None, link, began, ended: wall(), attributes, error: None }
                });
            }
        }
    }

    fn add_recorded(&self, ids: Vec<DeliveryId>) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() > RECORDED_MAX {
            // The watcher then polls the store itself.
            recorded.clear();
        }
        recorded.extend(ids);
    }
}

struct Prepared {
    emit: Emit,
    left_out: Vec<LaneId>,
    span: Option<OpenSpan>,
}

struct OpenSpan {
    trace: Trace,
    link: Option<TraceParent>,
    began: StoreTime,
    kind: Arc<str>,
}

struct Known {
    id: Arc<str>,
    atomic: bool,
    lanes: Vec<LaneId>,
    left_out: Vec<LaneId>,
}

impl Known {
    fn of(emit: &Emit, left_out: Vec<LaneId>) -> Self {
        let lanes = emit.targets.iter().map(|target| target.lane).collect();
        Self { id: Arc::clone(&emit.id), atomic: emit.atomic, lanes, left_out }
    }

    fn left_out(&self) -> impl Iterator<Item = Refused> {
        self.left_out.iter().copied().map(Refused::LongBody)
    }
}

/// Events to match again, because their subscribers changed.
#[derive(Default)]
struct Stale {
    places: Vec<usize>,
    roster: Option<u64>,
}

impl Stale {
    fn add(&mut self, place: usize, roster: u64) {
        self.places.push(place);
        self.roster = self.roster.max(Some(roster));
    }
}

impl Accepted {
    fn new(known: Known, emitted: &Emitted) -> Self {
        let count = |is: fn(&Placed) -> bool| emitted.targets.iter().filter(|placed| is(placed)).count();
        let refused = emitted.refused(&known.lanes).map(Refused::Full).chain(known.left_out()).collect();
        Self {
            id: known.id,
            deliveries: count(|placed| matches!(placed, Placed::Waiting { .. } | Placed::Overflowed { .. })),
            duplicates: count(|placed| matches!(placed, Placed::Duplicate)),
            shed: emitted.shed,
            refused: RefusedList::new(refused),
        }
    }
}

impl From<Failed> for EmitError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::TurnedAway(Why::Full) => Self::Busy,
            other => Self::Store(other.to_string()),
        }
    }
}

// Without this bound, one request could hold ten thousand events for ten thousand subscribers each.

/// One in the commit, and one that is ready next.
const CHUNKS_MAX: usize = 2;

const _: () = assert!(
    SHAPED_BYTES_MAX <= 2 * CAPACITY.commit_bytes_max,
    "one event may be larger than a commit, and must not be larger than two"
);

#[derive(Default)]
struct Chunk {
    commands: Vec<Command>,
    known: Vec<Known>,
    spans: Vec<Option<OpenSpan>>,
    places: Vec<usize>,
    rows: usize,
    bytes: usize,
    is_ended: bool,
}

impl Chunk {
    fn add(&mut self, place: usize, prepared: Prepared) {
        let Prepared { emit, left_out, span } = prepared;
        if !left_out.is_empty() {
            self.end();
        }
        self.known.push(Known::of(&emit, left_out));
        self.spans.push(span);
        let command = Command::Emit(emit);
        self.rows = self.rows.saturating_add(command.rows());
        self.bytes = self.bytes.saturating_add(command.bytes());
        self.commands.push(command);
        self.places.push(place);
    }

    /// An event that turns out too long takes as much work as a chunk may, which no other bound counts.
    fn end(&mut self) {
        self.is_ended = true;
    }

    /// A chunk exceeds one commit by one event at most.
    fn is_full(&self) -> bool {
        self.is_ended || self.rows >= CAPACITY.commit_rows_max || self.bytes >= CAPACITY.commit_bytes_max
    }

    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

struct PendingAnswers {
    answers: oneshot::Receiver<Vec<Result<Accepted, Unrecorded>>>,
    /// The answers if the store's thread ends without any.
    unanswered: Vec<Result<Accepted, Unrecorded>>,
    spans: Vec<Option<OpenSpan>>,
}

#[derive(Clone)]
enum Unrecorded {
    StaleRoster,
    /// Read the outbox row again: another process recorded part of it.
    Named,
    For(EmitError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Nanos;
    use crate::store::command::{Body, Emit, Target};

    fn emit(targets: usize, bytes: usize) -> Prepared {
        let target = Target {
            lane: LaneId(1),
            body: 0,
            due: StoreTime(1),
            expires: StoreTime(2),
            dedupe: Nanos::ZERO,
            coalesce: None,
            signature: None,
        };
        let emit = Emit {
            roster: 1,
            id: "e".into(),
            id_is_new: false,
            kind: "k".into(),
            key: None,
            received: StoreTime(1),
            bodies: vec![Body { bytes: vec![b'1'; bytes].into() }],
            targets: vec![target; targets],
            atomic: false,
            withheld: false,
            outbox: None,
            notifies: None,
        };
        Prepared { emit, left_out: Vec::new(), span: None }
    }

    fn events(targets: usize, bytes: usize) -> usize {
        let mut chunk = Chunk::default();
        while !chunk.is_full() {
            chunk.add(chunk.places.len(), emit(targets, bytes));
        }
        chunk.places.len()
    }

    #[test]
    fn a_chunk_ends_with_what_one_commit_takes() {
        assert_eq!(events(1, 1), 1_667);
        assert_eq!(events(98, 1), 50);
        assert_eq!(events(10_000, 1), 1);
        assert_eq!(events(1, 1 << 20), 16);
    }

    #[test]
    fn a_chunk_ends_with_an_event_that_is_too_long_for_somebody() {
        let mut chunk = Chunk::default();
        chunk.add(0, emit(1, 1));
        assert!(!chunk.is_full());
        chunk.add(1, Prepared { left_out: vec![LaneId(2)], ..emit(1, 1) });
        assert!(chunk.is_full() && chunk.places == [0, 1]);
    }
}
