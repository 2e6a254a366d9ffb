//! Emits an event to operators' own subscribers, those with a pattern for reserved types, once for each change.
//!
//! **No loop:** an event about such a subscriber goes only to those of smaller lanes, so each chain ends at the smallest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tracing::{info, warn};

use super::flow::{Flow, Flows, Present};
use super::health::{self, Notice};
use super::json_forms::moment;
use crate::engine::{LaneId, Nanos, StoreTime};
use crate::event::{Depth, EventType, Json, Kind, Offer, Pattern, PublicId};
use crate::fanout::fan_out;
use crate::roster::{Ready, Roster, Subscriber};
use crate::runtime::Sender;
use crate::runtime::clock::{random, wall};
use crate::store::command::{Command, Condition};
use crate::store::lane::LaneState;
use crate::store::paging::Cursor;
use crate::store::read::{LaneStatus, ReadError, Reader};
use crate::store::reply::Placed;
use crate::store::{Refusal, Reply};

/// The next round continues after these subscribers.
const PAGES_MAX: usize = 4;
const PAGE_ROWS: u32 = 500;
/// Of a round.
const EVENTS_MAX: usize = 100;
const MATCHES_MAX: u32 = 5;
/// A delivery this long overdue makes a backlog.
const BEHIND_MIN: Nanos = Nanos::MINUTE;
const BEHIND_OVER: Nanos = Nanos::from_secs(10);
/// Then dead letters have stopped growing.
const DEAD_QUIET: Nanos = Nanos::HOUR;

#[derive(Debug, Default)]
pub(crate) struct Notifier {
    next: Option<Cursor>,
    dead: BTreeMap<LaneId, Dead>,
    /// The last failure, so that a lasting one is logged once.
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Dead {
    count: u64,
    grown: Option<StoreTime>,
}

enum Unsent {
    /// The queues of all who want it are full. Other notices go on.
    Full(String),
    Store(String),
}

struct Found {
    now: StoreTime,
    notified: BTreeMap<LaneId, BTreeSet<Condition>>,
    lanes: Vec<(LaneStatus, Flow)>,
    /// Lanes of other processes.
    elsewhere: Vec<LaneId>,
    next: Option<Cursor>,
}

impl Found {
    fn read(reader: &dyn Reader, present: Present, from: Option<Cursor>) -> Result<Self, ReadError> {
        let Present { roster, views, now } = present;
        let flows = Flows::read(reader, roster, views, now)?;
        let mut notified = BTreeMap::<LaneId, BTreeSet<Condition>>::new();
        for (lane, condition) in reader.notified()? {
            notified.entry(lane).or_default().insert(condition);
        }
        let (mut lanes, mut elsewhere, mut next) = (Vec::new(), Vec::new(), from);
        for _ in 0..PAGES_MAX {
            let mut page = reader.lanes(next, PAGE_ROWS)?;
            elsewhere.extend(page.items.iter().filter(|lane| flows.is_elsewhere(lane)).map(|lane| lane.lane));
            page.items.retain(|lane| {
                // Without an owner, a subscriber changes only by an operator, or because nobody delivers.
                let may_change = lane.state == LaneState::Disabled
                    || notified.contains_key(&lane.lane)
                    || lane.next.is_some_and(|next| next <= now);
                lane.state != LaneState::Removed
                    && (flows.is_here(lane) || may_change && !flows.is_elsewhere(lane))
            });
            let found = flows.of(reader, &page.items)?;
            lanes.extend(page.items.into_iter().zip(found));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        Ok(Self { now, notified, lanes, elsewhere, next })
    }
}

impl Notifier {
    /// Reads the store only if a subscriber wants such events.
    pub(crate) async fn round(&mut self, sender: &Sender, present: Present) {
        if !present.roster.subscribers().any(|known| is_operational(known)) {
            self.dead.clear();
            return;
        }
        self.dead.retain(|lane, _| present.roster.get(*lane).is_some());
        let from = self.next.take();
        let found = match sender.read(move |reader| Found::read(reader, present, from)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return self.record(Some(error.to_string())),
            Err(failed) => return self.record(Some(failed.to_string())),
        };
        // Their dead letters may be notified there.
        for lane in &found.elsewhere {
            self.dead.remove(lane);
        }
        let mut notices = Vec::new();
        for (lane, flow) in &found.lanes {
            let notified = found.notified.get(&lane.lane).cloned().unwrap_or_default();
            let present = self.conditions(lane, flow, &notified, found.now);
            notices.extend(present.notices(lane.lane, &notified).map(|notice| (notice, lane, flow)));
        }
        let (mut emitted, mut failure) = (0, None);
        for (notice, lane, flow) in notices {
            match emit(sender, notice, lane, flow).await {
                Ok(targets) => emitted += usize::from(targets > 0),
                Err(Unsent::Full(problem)) => failure = Some(problem),
                Err(Unsent::Store(problem)) => return self.record(Some(problem)),
            }
            if emitted == EVENTS_MAX {
                break;
            }
        }
        self.record(failure);
        self.next = found.next;
    }

    fn record(&mut self, failure: Option<String>) {
        if let Some(problem) = &failure
            && failure != self.failure
        {
            warn!(%problem, "operators could not be notified; trying again");
        }
        self.failure = failure;
    }

    fn conditions(
        &mut self,
        lane: &LaneStatus,
        flow: &Flow,
        notified: &BTreeSet<Condition>,
        now: StoreTime,
    ) -> health::Present {
        let allowed = if notified.contains(&Condition::Behind) { BEHIND_OVER } else { BEHIND_MIN };
        let is_overdue = lane.next.is_some_and(|next| now.since(next) > allowed);
        let flows = lane.state == LaneState::Active && flow.health == health::Health::Healthy;
        let grown = notified.contains(&Condition::DeadLetters).then_some(now);
        let count = lane.counts.dead;
        let dead = self.dead.entry(lane.lane).or_insert(Dead { count, grown });
        if count > dead.count {
            dead.grown = Some(now);
        }
        dead.count = count;
        health::Present {
            health: flow.health,
            is_behind: is_overdue && flows,
            dead_letters_grow: dead.grown.is_some_and(|grown| now.since(grown) < DEAD_QUIET),
        }
    }
}

/// Returns the number of its deliveries. A condition that nobody would hear of stays unrecorded.
async fn emit(sender: &Sender, notice: Notice, lane: &LaneStatus, flow: &Flow) -> Result<usize, Unsent> {
    let event_type = notice.event_type.unwrap_or("hookproof.endpoint.recovered");
    let event_type: EventType = event_type.parse().expect("the sender's own types are valid");
    let data = json!({
        "subscriber": &*lane.id,
        "name": &*lane.name,
        "health": flow.health.word(),
        "flow": flow.to_json(),
        "waiting": lane.counts.waiting,
        "oldest_due": lane.next.map(moment),
        "dead_letters": lane.counts.dead_kept,
    })
    .to_string();
    let data =
        Json::parse(data.as_bytes(), Depth::DEFAULT).map_err(|error| Unsent::Store(error.to_string()))?;
    let offer = Offer { id: None, event_type, key: None, data, atomic: false, within: None, parent: None };
    let id = PublicId::new(Kind::Event, wall(), random());
    for _ in 0..MATCHES_MAX {
        let roster = sender.roster();
        let mut emit = fan_out(&roster, &offer, &id, sender.clock().now(), wall());
        emit.targets
            .retain(|target| notice.event_type.is_some() && may_hear(&roster, target.lane, lane.lane));
        emit.notifies = Some(notice.transition);
        let targets = emit.targets.len();
        if targets == 0 && notice.transition.begins.is_some() {
            return Ok(0);
        }
        match sender.command(Command::Emit(emit)).await.map_err(|failed| Unsent::Store(failed.to_string()))? {
            Reply::Emitted(emitted) => {
                let is_recorded = |placed: &&Placed| matches!(placed, Placed::Waiting { .. });
                let refused = targets - emitted.targets.iter().filter(is_recorded).count();
                if let Some(event_type) = notice.event_type {
                    info!(subscriber = &*lane.name, event_type, targets, refused, "notified operators");
                }
                return Ok(targets);
            }
            Reply::Refused(Refusal::StaleRoster { known, .. }) => sender.wait_for_roster_after(known).await,
            // Another process did.
            Reply::Refused(Refusal::Notified(_) | Refusal::UnknownLane(_)) => return Ok(0),
            Reply::Refused(refusal @ Refusal::Full(_)) => return Err(Unsent::Full(refusal.to_string())),
            Reply::Refused(refusal) => return Err(Unsent::Store(refusal.to_string())),
            other => return Err(Unsent::Store(format!("the database answered {other:?}"))),
        }
    }
    Err(Unsent::Store("subscribers keep changing".to_owned()))
}

/// A broken subscriber may be one.
fn is_operational(subscriber: &Subscriber) -> bool {
    let of = |ready: &Ready| ready.patterns().as_slice().iter().any(Pattern::is_reserved);
    subscriber.ready().map_or(true, of)
}

fn may_hear(roster: &Roster, target: LaneId, subject: LaneId) -> bool {
    target < subject || !roster.get(subject).is_none_or(|subject| is_operational(subject))
}
