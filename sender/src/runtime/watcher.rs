//! The thread polls a cheap change counter, and reads more only after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{error, info, warn};

use super::clock::{Clock, wall};
use super::emitter::{EmitError, Emitter, Outboxed, Wanted};
use super::lookout::{LOOK_EVERY, LOOKS_BETWEEN_OWNERS, Lookout};
use super::owner::evict_the_dead;
use super::shell::EventSender;
use crate::dispatch::Event;
use crate::engine::{LaneId, StoreTime};
use crate::roster::{Roster, Subscriber};
use crate::store::StoreError;
use crate::store::command::OutboxId;
use crate::store::lane::{LaneState, OwnerId};
use crate::store::liveness::Liveness;
use crate::store::read::{Glance, OutboxRow, Reader};
use crate::store::thread::Handle;

/// Then the watcher reports a fault that the store's own thread has not.
const LOOKS_IN_SILENCE: u64 = 250;

/// Operators pause and resume in any process; a 410 or long failure disables.
fn log_states(before: &Roster, now: &Roster) {
    for known in now.subscribers() {
        let old = before.get(known.lane()).map_or(LaneState::Active, |old| old.state());
        let name = known.name();
        match (old, known.state()) {
            (old, new) if old == new => {}
            (_, LaneState::Paused) => info!(subscriber = %name, "paused {name}"),
            (_, LaneState::Disabled) => warn!(
                subscriber = %name,
                "disabled {name}: {}; `subscriber resume {name}` once it takes events again", known.pause().why_disabled()
            ),
            (_, LaneState::Active | LaneState::Removed) => info!(subscriber = %name, "resumed {name}"),
        }
    }
}

pub(super) fn log_broken(before: &Roster, now: &Roster) {
    let fault_before = |known: &Subscriber| before.get(known.lane()).and_then(|old| old.ready().err());
    for (known, fault) in now.broken().filter(|(known, fault)| fault_before(known) != Some(*fault)) {
        error!(
            subscriber = %known.id(), name = %known.name(), %fault,
            "a subscriber cannot be delivered to; its events are refused until you mend it, give the secret of \
             its region (--region), or remove it"
        );
    }
    for (known, _) in before.broken() {
        if now.get(known.lane()).is_some_and(|new| new.ready().is_ok()) {
            info!(subscriber = %known.id(), name = %known.name(), "a subscriber is mended");
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLook {
    pub at: StoreTime,
    pub error: Option<StoreError>,
}

pub(super) type Looked = Arc<Mutex<LastLook>>;

pub(super) struct Watcher {
    pub(super) reader: Box<dyn Reader>,
    pub(super) liveness: Arc<dyn Liveness>,
    pub(super) owner: OwnerId,
    pub(super) store: Handle,
    pub(super) lookout: Lookout,
    pub(super) emitter: Arc<Emitter>,
    pub(super) events: EventSender,
    pub(super) outbox: Outbox,
    pub(super) looks: u64,
    pub(super) clock: Clock,
    pub(super) looked: Looked,
}

impl Watcher {
    pub(super) fn start(self) -> io::Result<(JoinHandle<()>, Sender<()>)> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("watcher".to_owned()).spawn(move || self.watch(&stopped))?;
        Ok((thread, stop))
    }

    fn watch(mut self, stop: &Receiver<()>) {
        let (mut failed, mut said) = (0_u64, false);
        let mut calm = Calm::of(self.reader.calm_pause());
        while stop.recv_timeout(calm.pause()) == Err(RecvTimeoutError::Timeout) {
            match self.poll() {
                Ok(glance) => {
                    calm.record_glance(glance);
                    if said {
                        info!("polling for new work succeeds again");
                    }
                    (failed, said) = (0, false);
                }
                Err(error) => {
                    self.record_poll(Some(error.clone()));
                    failed += 1;
                    // Once for each outage, and not where the store's thread does.
                    if !said && failed > LOOKS_IN_SILENCE && self.store.health().failing.is_none() {
                        said = true;
                        error!(%error, "cannot poll for new work; trying again");
                    }
                }
            }
        }
    }

    fn record_poll(&self, error: Option<StoreError>) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let at = if error.is_some() { looked.at } else { self.clock.now() };
        *looked = LastLook { at, error };
    }

    fn poll(&mut self) -> Result<Glance, StoreError> {
        let Self { lookout, reader, emitter, events, .. } = self;
        let mut before = Arc::clone(lookout.roster());
        let recorded_here = |after, last| emitter.recorded_all_between(after, last);
        let glance = lookout.poll(&**reader, wall(), recorded_here, |event| {
            let Event::Roster(roster) = event else { return events.send(event) };
            log_broken(&before, &roster);
            log_states(&before, &roster);
            // The lanes get it first: an event matched with a version must be sent with that version's secrets.
            events.send(Event::Roster(Arc::clone(&roster)));
            emitter.use_roster(Arc::clone(&roster));
            before = roster;
        })?;
        self.record_poll(None);
        self.looks += 1;
        match glance.outbox {
            Some(_) => self.outbox.poll(&*self.reader, &self.emitter, self.looks)?,
            None => self.outbox.is_empty(),
        }
        if self.looks.is_multiple_of(u64::from(LOOKS_BETWEEN_OWNERS)) {
            evict_the_dead(&self.liveness, &*self.reader, &self.store, self.owner)?;
        }
        Ok(glance)
    }
}

// A poll loads other processes, so an idle process polls less often.

/// About a second.
const CALM_AFTER: u32 = 250;

struct Calm {
    /// The pause when idle, if it differs.
    pause: Option<Duration>,
    last: Option<Glance>,
    unchanged: u32,
}

impl Calm {
    const fn of(pause: Option<Duration>) -> Self {
        Self { pause, last: None, unchanged: 0 }
    }

    fn record_glance(&mut self, glance: Glance) {
        // A row that stays in the outbox has to be polled again.
        let is_new = |last: Glance| glance != last || glance.outbox.is_some();
        self.unchanged = if self.last.is_none_or(is_new) { 0 } else { self.unchanged.saturating_add(1) };
        self.last = Some(glance);
    }

    fn pause(&self) -> Duration {
        self.pause.filter(|_| self.unchanged >= CALM_AFTER).unwrap_or(LOOK_EVERY)
    }
}

// Rows of the outbox become events, the oldest first. A row waits while a subscriber that wants it is full and
// refuses, or is broken. Other lanes get it past a full one, which gets no newer row before its oldest.
//
// Invariant between two polls: each remaining row up to `read` is for a lane in `waits` with a place not after the
// row. So a scan from there finds all rows of the lane, and memory holds one place for each lane.
//
// On a server, a row with a smaller number may be committed later. While any row waits, a separate scan looks for
// such late rows.

const ROWS_MAX: u32 = 1_000;
const PAGES_MAX: u32 = 4;
/// About fifty milliseconds: a contract of ten thousand a second then drains only part of a queue.
const LOOKS_BETWEEN_ROUNDS: u64 = 12;
/// Lanes in one poll; rows of the first and the largest read; reads for each lane.
const LANES_MAX: usize = 8;
const TRIED_ROWS: u32 = 1;
const TRIED_ROWS_MAX: u32 = 512;
const TRIES_MAX: u32 = 12;
/// About a second.
const LOOKS_AFTER_FAILURE: u64 = 250;
/// About a minute.
const LOOKS_BETWEEN_COMPLAINTS: u64 = 15_000;
/// About a second; and the number of remembered waiting rows, to tell late rows from them.
const LOOKS_BETWEEN_LATE: u64 = 250;
const KNOWN_MAX: usize = ROWS_MAX as usize;
/// About five minutes. Finds rows inserted below all remembered ones.
const LOOKS_BETWEEN_REREADS: u64 = 75_000;

#[derive(Debug, Default)]
pub(in crate::runtime) struct Outbox {
    read: Option<OutboxId>,
    /// The first row that may wait.
    waits: BTreeMap<LaneId, OutboxId>,
    roster: u64,
    /// The last lane of this round, and the poll that starts the next round.
    turn: Option<LaneId>,
    round: u64,
    resume: u64,
    reread: u64,
    late: Late,
    /// A warning was logged; the next comes at this poll or later.
    told: bool,
    silent_until: u64,
}

/// Rows that become visible after newer ones.
#[derive(Debug, Default)]
struct Late {
    /// The newest that were read.
    known: BTreeSet<OutboxId>,
    /// How far the scan went. `None` restarts it.
    looked: Option<OutboxId>,
    next: u64,
}

impl Late {
    fn know(&mut self, row: OutboxId) {
        self.known.insert(row);
        if self.known.len() > KNOWN_MAX {
            self.known.pop_first();
        }
    }

    /// Starts at the first row if all waiting rows are known.
    fn after(&self) -> Option<OutboxId> {
        let first = self.known.first().filter(|_| self.known.len() >= KNOWN_MAX);
        self.looked.max(first.copied())
    }

    fn among(&mut self, mut rows: Vec<OutboxRow>, read: Option<OutboxId>) -> Vec<OutboxRow> {
        self.looked = rows.last().map(|last| last.id).filter(|last| Some(*last) < read);
        rows.retain(|row| Some(row.id) <= read && !self.known.contains(&row.id));
        rows
    }
}

struct Interrupted;

/// A new row goes to all lanes without a waiting row.
struct AllBut<'a>(&'a BTreeMap<LaneId, OutboxId>);

impl Wanted for AllBut<'_> {
    fn wants(&self, _: &[LaneId]) -> bool {
        true
    }

    fn withholds(&self, _: OutboxId, lane: LaneId) -> bool {
        self.0.contains_key(&lane)
    }
}

/// A row read again also goes to lanes without an earlier waiting row.
struct OneLane<'a>(LaneId, &'a BTreeMap<LaneId, OutboxId>);

impl Wanted for OneLane<'_> {
    fn wants(&self, lanes: &[LaneId]) -> bool {
        lanes.contains(&self.0)
    }

    fn withholds(&self, row: OutboxId, lane: LaneId) -> bool {
        lane != self.0 && self.1.get(&lane).is_some_and(|first| *first < row)
    }
}

impl Outbox {
    /// Takes as many rows as one poll may. `look` counts polls from 1.
    fn poll(&mut self, reader: &dyn Reader, emitter: &Arc<Emitter>, look: u64) -> Result<(), StoreError> {
        let roster = emitter.roster().version();
        if self.roster != roster {
            self.begin_anew();
            self.roster = roster;
        }
        if look < self.resume {
            return Ok(());
        }
        if look >= self.reread {
            self.reread = look + LOOKS_BETWEEN_REREADS;
            self.read = None;
        }
        if self.try_again(reader, emitter, look)?.is_ok() && self.find_late(reader, emitter, look)?.is_ok() {
            let _ = self.read_on(reader, emitter, look)?;
        }
        if self.waits.is_empty() && look >= self.resume {
            self.read = None;
            self.nothing_waits();
        }
        Ok(())
    }

    fn is_empty(&mut self) {
        if !self.waits.is_empty() || self.read.is_some() {
            self.begin_anew();
        }
        self.nothing_waits();
    }

    fn nothing_waits(&mut self) {
        if std::mem::take(&mut self.told) {
            info!("no rows of the outbox wait any more");
        }
    }

    fn begin_anew(&mut self) {
        self.read = None;
        self.waits.clear();
        self.turn = None;
        self.late = Late::default();
    }

    fn find_late(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        if look < self.late.next || self.read.is_none() {
            return Ok(Ok(()));
        }
        self.late.next = look + LOOKS_BETWEEN_LATE;
        let rows = reader.outbox(self.late.after(), ROWS_MAX)?;
        let rows = self.late.among(rows, self.read);
        let fates = emitter.emit_outbox(reader, &rows, &AllBut(&self.waits))?;
        Ok(self.record_fates(&rows, fates, look))
    }

    fn read_on(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        for _ in 0..PAGES_MAX {
            let rows = reader.outbox(self.read, ROWS_MAX)?;
            let Some(last) = rows.last() else { break };
            let fates = emitter.emit_outbox(reader, &rows, &AllBut(&self.waits))?;
            if self.record_fates(&rows, fates, look).is_err() {
                return Ok(Err(Interrupted));
            }
            self.read = self.read.max(Some(last.id));
        }
        Ok(Ok(()))
    }

    /// A few lanes in a poll, until each had its turn.
    fn try_again(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
    ) -> Result<Result<(), Interrupted>, StoreError> {
        if look < self.round {
            return Ok(Ok(()));
        }
        let from = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
        let lanes: Vec<LaneId> =
            self.waits.range((from, Bound::Unbounded)).map(|(lane, _)| *lane).take(LANES_MAX).collect();
        let mut more = false;
        for lane in &lanes {
            match self.try_lane(reader, emitter, look, *lane)? {
                Ok(went_on) => more |= went_on,
                Err(Interrupted) => return Ok(Err(Interrupted)),
            }
        }
        self.turn = lanes.last().copied().filter(|_| lanes.len() == LANES_MAX);
        if self.turn.is_none() && !more {
            self.round = look + LOOKS_BETWEEN_ROUNDS;
        }
        Ok(Ok(()))
    }

    /// Returns whether the lane might take more.
    fn try_lane(
        &mut self,
        reader: &dyn Reader,
        emitter: &Arc<Emitter>,
        look: u64,
        lane: LaneId,
    ) -> Result<Result<bool, Interrupted>, StoreError> {
        let mut max = TRIED_ROWS;
        for _ in 0..TRIES_MAX {
            let Some(first) = self.waits.get(&lane).copied() else { return Ok(Ok(false)) };
            let mut rows = reader.outbox(Some(OutboxId(first.0 - 1)), max)?;
            rows.retain(|row| Some(row.id) <= self.read);
            let Some(last) = rows.last() else {
                self.waits.remove(&lane);
                return Ok(Ok(false));
            };
            let fates = emitter.emit_outbox(reader, &rows, &OneLane(lane, &self.waits))?;
            let still = rows
                .iter()
                .zip(&fates)
                .find(|(_, fate)| matches!(fate, Outboxed::Waits { refused, .. } if refused.contains(&lane)));
            let place = still.map_or(OutboxId(last.id.0 + 1), |(row, _)| row.id);
            let is_full = still.is_some();
            if self.record_fates(&rows, fates, look).is_err() {
                return Ok(Err(Interrupted));
            }
            self.waits.insert(lane, place);
            if is_full {
                return Ok(Ok(false));
            }
            max = TRIED_ROWS_MAX.min(max * 2);
        }
        Ok(Ok(true))
    }

    fn record_fates(
        &mut self,
        rows: &[OutboxRow],
        fates: Vec<Outboxed>,
        look: u64,
    ) -> Result<(), Interrupted> {
        let (mut waits, mut stale, mut failed) = (None, false, None);
        for (row, fate) in rows.iter().zip(fates) {
            match fate {
                Outboxed::Gone | Outboxed::Untried => {}
                Outboxed::Waits { refused, withheld, error } => {
                    waits = waits.or(error);
                    self.late.know(row.id);
                    for lane in withheld.into_iter().chain(refused) {
                        let first = self.waits.entry(lane).or_insert(row.id);
                        *first = row.id.min(*first);
                    }
                }
                Outboxed::Stale => stale = true,
                Outboxed::Failed(error) => failed = failed.or(Some(error)),
            }
        }
        let is_failed = failed.is_some();
        if let Some(error) = failed.or(waits) {
            self.complain(&error, look);
        }
        if is_failed {
            self.resume = look + LOOKS_AFTER_FAILURE;
        }
        if is_failed || stale {
            self.begin_anew();
            return Err(Interrupted);
        }
        Ok(())
    }

    fn complain(&mut self, error: &EmitError, look: u64) {
        if look >= self.silent_until {
            self.silent_until = look + LOOKS_BETWEEN_COMPLAINTS;
            self.told = true;
            warn!(%error, "rows of the outbox wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::DeliveryId;
    use crate::store::command::OutboxId;

    const SEEN: Glance = Glance {
        identity: 1,
        roster: 1,
        last: DeliveryId(1),
        settled: DeliveryId(1),
        late: 0,
        stirred: 0,
        nodes: 1,
        outbox: None,
    };
    const LONGER: Duration = Duration::from_millis(30);

    fn calm(pause: Option<Duration>) -> Calm {
        let mut calm = Calm::of(pause);
        for _ in 0..=CALM_AFTER {
            assert_eq!(calm.pause(), LOOK_EVERY);
            calm.record_glance(SEEN);
        }
        calm
    }

    #[test]
    fn a_store_that_glances_cost_is_left_alone_once_nothing_has_changed_for_a_while() {
        assert_eq!(calm(Some(LONGER)).pause(), LONGER);
        assert_eq!(calm(None).pause(), LOOK_EVERY, "they cost nobody anything");
        let news = [
            Glance { last: DeliveryId(2), ..SEEN },
            Glance { stirred: 1, ..SEEN },
            Glance { outbox: Some(OutboxId(1)), ..SEEN },
        ];
        for seen in news {
            let mut calm = calm(Some(LONGER));
            calm.record_glance(seen);
            assert_eq!(calm.pause(), LOOK_EVERY, "{seen:?}");
        }
    }
}
