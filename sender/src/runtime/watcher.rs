//! The thread that learns of other processes' commits. It polls a cheap change counter every few
//! milliseconds, and reads more only after a change.

mod calm;
mod outbox;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tracing::{error, info};

use super::clock::{Clock, wall};
use super::emitter::Emitter;
use super::events::EventSender;
use super::lookout::{LOOKS_BETWEEN_OWNERS, Lookout};
use super::owner::evict_the_dead;
use crate::dispatch::Event;
use crate::engine::StoreTime;
use crate::roster::{Roster, Subscriber};
use crate::store::StoreError;
use crate::store::lane::OwnerId;
use crate::store::liveness::Liveness;
use crate::store::read::{Glance, Reader};
use crate::store::thread::Handle;
use calm::Calm;
pub(super) use outbox::Outbox;

/// Polls before the watcher reports a fault that the store's own thread has not.
const LOOKS_IN_SILENCE: u64 = 250;

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

/// The result of the latest polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastLook {
    /// The last successful poll.
    pub at: StoreTime,
    /// The error since then.
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
    /// Runs until the returned sender is dropped.
    pub(super) fn start(self) -> io::Result<(JoinHandle<()>, Sender<()>)> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("watcher".to_owned()).spawn(move || self.watch(&stopped))?;
        Ok((thread, stop))
    }

    fn watch(mut self, stop: &Receiver<()>) {
        let (mut failed, mut said) = (0_u64, false);
        let mut calm = Calm::of(self.reader.calm_pause());
        while stop.recv_timeout(calm.pause()) == Err(RecvTimeoutError::Timeout) {
            match self.look() {
                Ok(glance) => {
                    calm.note(glance);
                    if said {
                        info!("looking for new work succeeds again");
                    }
                    (failed, said) = (0, false);
                }
                Err(error) => {
                    self.note(Some(error.clone()));
                    failed += 1;
                    // Logs once for each outage, and not where the store's thread does.
                    if !said && failed > LOOKS_IN_SILENCE && self.store.health().failing.is_none() {
                        said = true;
                        error!(%error, "can't look for new work; trying on");
                    }
                }
            }
        }
    }

    fn note(&self, error: Option<StoreError>) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let at = if error.is_some() { looked.at } else { self.clock.now() };
        *looked = LastLook { at, error };
    }

    fn look(&mut self) -> Result<Glance, StoreError> {
        let Self { lookout, reader, emitter, events, .. } = self;
        let mut before = Arc::clone(lookout.roster());
        let recorded_here = |after, last| emitter.recorded_all_between(after, last);
        let glance = lookout.look(&**reader, wall(), recorded_here, |event| {
            let Event::Roster(roster) = event else { return events.send(event) };
            tell_of_broken(&before, &roster);
            // The lanes get it first: an event matched with a version must be sent with that version's
            // secrets.
            events.send(Event::Roster(Arc::clone(&roster)));
            emitter.use_roster(Arc::clone(&roster));
            before = roster;
        })?;
        self.note(None);
        self.looks += 1;
        match glance.outbox {
            Some(_) => self.outbox.look(&*self.reader, &self.emitter, self.looks)?,
            None => self.outbox.is_empty(),
        }
        if self.looks.is_multiple_of(u64::from(LOOKS_BETWEEN_OWNERS)) {
            evict_the_dead(&self.liveness, &*self.reader, &self.store, self.owner)?;
        }
        Ok(glance)
    }
}
