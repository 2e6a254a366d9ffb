//! The store's thread: one writer, and everything that waits while it commits goes into its next commit.
//!
//! ```text
//!   Handle::submit ──► Queue (bounded) ──► thread ──► Store::commit([all that waits]) ──► answers, after the commit
//! ```
//!
//! - Nobody is answered before what they asked for is durable.
//! - Requests are carried out in the order of their submission. Only claims go ahead of what does not concern them,
//!   so that handing out work does not wait for the disk.
//! - When the store fails in a way that may pass (a full disk, a lock), the thread says so once, keeps what it has,
//!   tries again with growing pauses, and says so when it works again. Meanwhile the queue fills, and turns others
//!   away. When a request fails for good, it alone is answered with the error.
//! - Who asks for more work is turned away before who settles it: emitters may use but a part of the queue.
//!
//! No clock is read here: time comes from the [`Clock`] that the thread is given.

mod order;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::WallTime;
use crate::store::{Command, Reply, Store, StoreError};
use queue::Queue;
pub use queue::{Capacity, Health, TurnedAway, Why};

/// Tells the time.
pub type Clock = Box<dyn FnMut() -> WallTime + Send>;

/// Told what came of a request. It is called on the store's thread: it must be quick, and must not panic. If the
/// thread itself panics, the answers to what it was at are dropped uncalled.
pub type Answer = Box<dyn FnOnce(Result<Vec<Reply>, StoreError>) + Send>;

/// Commands that belong together: they are carried out in one commit.
pub struct Request {
    /// The commands.
    pub commands: Vec<Command>,
    /// Told one reply for each.
    pub answer: Answer,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("commands", &self.commands).finish_non_exhaustive()
    }
}

/// The first pause after a failure, and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// The store's thread, from the outside.
#[derive(Debug)]
pub struct StoreThread {
    handle: Handle,
    thread: JoinHandle<()>,
}

/// A way to submit requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    queue: Arc<Queue>,
}

impl StoreThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread to give.
    pub fn start(store: Box<dyn Store>, clock: Clock, capacity: Capacity) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(capacity));
        let handle = Handle { queue: queue.clone() };
        let writer = Writer { store, clock, queue, given_up: None };
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || writer.run())?;
        Ok(Self { handle, thread })
    }

    /// A way to submit requests.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Takes no more requests, carries out those submitted, and ends. If the store fails, they are tried once more
    /// and then answered with the error.
    pub fn stop(self) {
        self.handle.queue.stop();
        if self.thread.join().is_err() {
            tracing::error!("the store's thread panicked; what it held was not acknowledged");
        }
    }
}

impl Handle {
    /// Has a request carried out.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or the thread has stopped. Then it comes back, unanswered.
    pub fn submit(&self, request: Request) -> Result<(), TurnedAway> {
        self.queue.push(request)
    }

    /// How the thread is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.queue.health()
    }
}

/// The thread, from the inside.
struct Writer {
    store: Box<dyn Store>,
    clock: Clock,
    queue: Arc<Queue>,
    /// Why a request was last given up, if nothing has gone well since: a store that is broken for good is not to
    /// fill the log.
    given_up: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        // However it ends, nobody must wait for it.
        let _closing = Closing(self.queue.clone());
        while let Some(batch) = self.queue.take() {
            let (ahead, rest) = order::claims_ahead(batch);
            for requests in [ahead, rest] {
                if !requests.is_empty() {
                    self.carry_out(requests);
                }
            }
        }
    }

    /// One commit; or one for each request, if one of them spoils it for the others.
    fn carry_out(&mut self, requests: Vec<Request>) {
        let counts: Vec<usize> = requests.iter().map(|request| request.commands.len()).collect();
        let (commands, answers): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| (request.commands, request.answer)).unzip();
        let commands: Vec<Command> = commands.into_iter().flatten().collect();
        match self.commit(&commands) {
            Ok(replies) => {
                let mut replies = replies.into_iter();
                for (answer, count) in answers.into_iter().zip(counts) {
                    answer(Ok(replies.by_ref().take(count).collect()));
                }
            }
            Err(error) if error.may_pass() || answers.len() == 1 => {
                for answer in answers {
                    answer(Err(error.clone()));
                }
            }
            Err(_) => {
                let mut commands = commands.into_iter();
                for (answer, count) in answers.into_iter().zip(counts) {
                    let commands: Vec<Command> = commands.by_ref().take(count).collect();
                    answer(self.commit(&commands));
                }
            }
        }
    }

    /// Commits, however often it takes; gives up only when the failure cannot pass, or the thread is to stop.
    fn commit(&mut self, commands: &[Command]) -> Result<Vec<Reply>, StoreError> {
        let mut pause = PAUSE_FIRST;
        let mut tries = 0_u32;
        loop {
            let now = (self.clock)();
            let result = self.store.commit(now, commands);
            tries += 1;
            match result {
                Ok(replies) => {
                    if tries > 1 {
                        tracing::info!(tries, "the store works again");
                    }
                    self.given_up = None;
                    self.queue.worked(self.store.written());
                    return Ok(replies);
                }
                Err(error) if !error.may_pass() => {
                    if self.given_up.as_ref() != Some(&error) {
                        tracing::error!(%error, "a request was given up");
                        self.given_up = Some(error.clone());
                    }
                    return Err(error);
                }
                Err(error) => {
                    if tries == 1 {
                        tracing::error!(%error, "the store fails; nothing is acknowledged until it works again");
                    }
                    // Asked before the pause: whatever was submitted before the stop gets one more try.
                    let last = self.queue.is_stopped();
                    self.queue.failed(now, error.clone());
                    if last {
                        return Err(error);
                    }
                    self.queue.pause(pause);
                    pause = (pause * 2).min(PAUSE_LONGEST);
                }
            }
        }
    }
}

/// Turns everyone away once the thread is gone.
struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        for request in self.0.close() {
            (request.answer)(Err(StoreError::Stopped));
        }
    }
}
