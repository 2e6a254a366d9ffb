//! Notices what others do to the database: events emitted by other processes, rows put into the outbox by any program,
//! subscribers changed. A thread of its own with a reader of its own; one cheap glance every few milliseconds, and a
//! closer look only where the glance shows a change.

mod outbox;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{error, info};

use super::clock::Clock;
use super::emitter::Emitter;
use super::evict_the_dead;
use super::word::{Mouth, Word};
use crate::engine::{DeliveryId, LaneId, WallTime};
use crate::roster::{Roster, RosterKeeper, Subscriber};
use crate::store::StoreError;
use crate::store::lane::OwnerId;
use crate::store::read::{Glance, Reader};
use crate::store::thread::Handle;
pub(super) use outbox::Outbox;

/// How often to glance: what is emitted elsewhere waits half of this on average.
const EVERY: Duration = Duration::from_millis(4);
/// Other processes are looked at about once a second.
const LOOKS_BETWEEN_OWNERS: u64 = 250;
/// The store's own thread says what is wrong with the store; the watcher, only if that has not for so many looks.
const LOOKS_IN_SILENCE: u64 = 250;
/// Rows looked at in one go.
const ROWS_MAX: u32 = 1_000;

/// Says which subscribers have broken, one line for each, and which are mended.
pub(super) fn tell_of_broken(before: &Roster, now: &Roster) {
    let fault_before = |known: &Subscriber| before.get(known.lane()).and_then(|old| old.ready().err());
    for (known, fault) in now.broken().filter(|(known, fault)| fault_before(known) != Some(*fault)) {
        error!(
            subscriber = %known.id(), name = %known.name(), %fault,
            "a subscriber can't be sent to, and events that it wants are refused until it is mended, given the secret of \
             its region (--region), or removed"
        );
    }
    for (known, _) in before.broken() {
        if now.get(known.lane()).is_some_and(|new| new.ready().is_ok()) {
            info!(subscriber = %known.id(), name = %known.name(), "a subscriber is mended");
        }
    }
}

/// The watcher's state between two glances.
pub(super) struct Watcher {
    pub(super) reader: Box<dyn Reader>,
    pub(super) database: PathBuf,
    pub(super) owner: OwnerId,
    pub(super) store: Handle,
    pub(super) clock: Clock,
    pub(super) roster: RosterKeeper,
    pub(super) emitter: Arc<Emitter>,
    pub(super) mouth: Mouth,
    pub(super) seen: Glance,
    pub(super) outbox: Outbox,
    pub(super) looks: u64,
}

impl Watcher {
    /// Watches on a thread of its own, until the sender that comes back is dropped.
    pub(super) fn start(self) -> io::Result<(JoinHandle<()>, Sender<()>)> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("watcher".to_owned()).spawn(move || self.watch(&stopped))?;
        Ok((thread, stop))
    }

    /// Watches until the other end of `stop` is dropped.
    fn watch(mut self, stop: &Receiver<()>) {
        let (mut failed, mut said) = (0_u64, false);
        while stop.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            match self.look() {
                Ok(()) => {
                    if said {
                        info!("looking for new work succeeds again");
                    }
                    (failed, said) = (0, false);
                }
                Err(error) => {
                    failed += 1;
                    // Once, not every few milliseconds, for as long as it lasts; and one line for one fault.
                    if !said && failed > LOOKS_IN_SILENCE && self.store.health().failing.is_none() {
                        said = true;
                        error!(%error, "can't look for new work; trying on");
                    }
                }
            }
        }
    }

    fn look(&mut self) -> Result<(), StoreError> {
        let glance = self.reader.glance()?;
        if glance.roster != self.seen.roster {
            let before = Arc::clone(self.roster.present());
            let roster = Arc::clone(self.roster.catch_up(&*self.reader, self.clock.now())?);
            tell_of_broken(&before, &roster);
            self.emitter.use_roster(Arc::clone(&roster));
            self.mouth.say(Word::Roster(roster));
            self.seen.roster = glance.roster;
        }
        if glance.last != self.seen.last {
            self.find_new_work(glance.last)?;
            self.seen.last = glance.last;
        }
        if glance.stirred != self.seen.stirred {
            self.find_stirred_work()?;
            self.seen.stirred = glance.stirred;
        }
        self.looks += 1;
        match glance.outbox {
            Some(_) => self.outbox.look(&*self.reader, &self.emitter, self.looks)?,
            None => self.outbox.is_empty(),
        }
        if self.looks.is_multiple_of(LOOKS_BETWEEN_OWNERS) {
            evict_the_dead(&self.database, &*self.reader, &self.store, self.owner)?;
        }
        Ok(())
    }

    /// Deliveries recorded since the last look, unless this process recorded all of them itself: then it knows.
    fn find_new_work(&mut self, last: DeliveryId) -> Result<(), StoreError> {
        if self.emitter.recorded_all_between(self.seen.last, last) {
            return Ok(());
        }
        let mut after = self.seen.last;
        loop {
            let work = self.reader.work_after(after, ROWS_MAX)?;
            after = work.last;
            self.mouth.say(Word::Work(work.lanes));
            if !work.more {
                return Ok(());
            }
        }
    }

    /// Something is due that was recorded before: redriven, or held back.
    fn find_stirred_work(&mut self) -> Result<(), StoreError> {
        let lanes: Vec<LaneId> = self.roster.present().lanes().collect();
        for some in lanes.chunks(ROWS_MAX as usize) {
            let heads: Vec<(LaneId, WallTime)> = self.reader.heads(some)?;
            self.mouth.say(Word::Work(heads));
        }
        Ok(())
    }
}
