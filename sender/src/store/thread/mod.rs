//! The store's thread: one writer, and everything that waits while it commits goes into its next commit.
//!
//! ```text
//!   Handle::submit ──► Queue (bounded) ──► thread ──► Store::commit([all that waits]) ──► answers, after the commit
//! ```
//!
//! - Nobody is answered before what they asked for is durable.
//! - Requests are carried out in the order of their submission. Only renewals of leases go ahead of all others, and claims of what does
//!   not concern them, beside the commits if the store can do that, so that handing out work does not wait for the disk; what the store has in
//!   memory is handed out on the thread that asks for it.
//! - When the store fails in a way that may pass (a full disk, a lock), the thread says so once, keeps what it has,
//!   tries again with growing pauses, and says so when it works again. Meanwhile the queue fills, and turns others
//!   away. When a request fails for good, it alone is answered with the error.
//! - A store that has gone back to before what was committed ends the thread: nobody who remembers that can go on.
//! - Events for which the disk has no room are refused at once, and so are those that come before it has room again: their emitters
//!   keep them. Whatever else went into the same commit is tried again without them.
//! - Claims, sweeps and purges that the disk fails are answered so at once, since a single page may be at fault that
//!   nobody else needs. Whoever asks for one of these asks again.
//! - Who asks for more work is turned away before who settles it: emitters may use but a part of the queue.
//!
//! No clock is read here: time comes from the [`Clock`] that the thread is given.

mod complaints;
mod order;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::StoreTime;
use crate::store::command::Claim;
use crate::store::{Claimer, Command, QuickClaims, Reply, Store, StoreError};
use complaints::Complaints;
pub use order::{Ahead, PendingByLane};
use queue::Queue;
pub use queue::{Capacity, Health, TurnedAway, Why};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> StoreTime + Send + Sync>;

/// Told what came of a request. It is called on a thread of the store, or, for a claim, on the one that asks: it must be quick, and must not panic. If the
/// thread itself panics, the answers to what it was at are dropped uncalled.
pub type Answer = Box<dyn FnOnce(Result<Vec<Reply>, StoreError>) + Send>;

/// Commands that belong together: they are carried out in one commit.
pub struct Request {
    /// The commands.
    pub commands: Vec<Command>,
    /// Told one reply for each.
    pub answer: Answer,
}

impl Request {
    /// Whether it asks for more to be owed.
    fn adds_work(&self) -> bool {
        self.commands.iter().any(Command::adds_work)
    }

    /// The same, which is told what claims that go ahead are to be told.
    fn told(self, ahead: Ahead) -> Self {
        if ahead == Ahead::FREELY {
            return self;
        }
        let Self { commands, answer } = self;
        let tell = move |result: Result<Vec<Reply>, StoreError>| {
            let told = result.map(|mut replies| {
                for reply in &mut replies {
                    if let Reply::Claimed(claimed) = reply {
                        ahead.tell(claimed);
                    }
                }
                replies
            });
            answer(told);
        };
        Self { commands, answer: Box::new(tell) }
    }
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
    threads: Vec<JoinHandle<()>>,
}

/// A way to submit requests. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    queue: Arc<Queue>,
    quick: Option<Arc<dyn QuickClaims>>,
    clock: Clock,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl StoreThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread to give.
    pub fn start(store: Box<dyn Store>, clock: Clock, capacity: Capacity) -> std::io::Result<Self> {
        let queue =
            Arc::new(Queue::new(capacity, store.locks_leases(), (store.log_size(), store.disk_room())));
        let mut threads = Vec::with_capacity(2);
        match store.claimer() {
            Ok(Some(claimer)) => {
                queue.claims_beside(true);
                let beside = Beside { claimer, clock: clock.clone(), queue: queue.clone() };
                threads.push(spawn("store-claims", move || beside.run())?);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "claims wait for commits"),
        }
        let handle = Handle { queue: queue.clone(), quick: store.quick_claims(), clock: clock.clone() };
        let writer = Writer { store, clock, queue, given_up: Complaints::default(), lost: None };
        // The last one: see `has_ended`.
        threads.push(spawn("store", move || writer.run())?);
        Ok(Self { handle, threads })
    }

    /// A way to submit requests.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether the writer has ended, unasked: then nothing is written any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.last().is_none_or(JoinHandle::is_finished)
    }

    /// Takes no more requests, carries out those submitted, and ends. If the store fails, they are tried once more
    /// and then answered with the error.
    pub fn stop(self) {
        self.handle.queue.stop();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked; what it held was not acknowledged");
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

impl Handle {
    /// Has a request carried out.
    ///
    /// # Errors
    ///
    /// If there is no room for it, or the thread has stopped. Then it comes back, unanswered.
    pub fn submit(&self, request: Request) -> Result<(), TurnedAway> {
        let now = (self.clock)();
        match self.hand_out(&request.commands, now) {
            Some(reply) => (request.answer)(Ok(vec![reply])),
            None => self.queue.push(request, now)?,
        }
        Ok(())
    }

    /// What a claim may have at once.
    fn hand_out(&self, commands: &[Command], now: StoreTime) -> Option<Reply> {
        let ([Command::Claim(claim)], Some(quick)) = (commands, &self.quick) else { return None };
        let ahead = self.queue.lets_pass(commands, now)?;
        let mut claimed = quick.claim(ahead.moment(now), claim)?;
        ahead.tell(&mut claimed);
        Some(Reply::Claimed(claimed))
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
    /// Why requests were given up.
    given_up: Complaints,
    /// Why nothing that is remembered of the store holds, if so: the thread ends.
    lost: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        // However it ends, nobody must wait for it.
        let _closing = Closing(self.queue.clone());
        while self.lost.is_none()
            && let Some(batch) = self.queue.take()
        {
            self.carry_out(batch);
        }
        if let Err(error) = self.store.close() {
            tracing::warn!(%error, "the store was not closed in order");
        }
    }

    /// One commit; or one for each request, if one of them spoils it for the others.
    fn carry_out(&mut self, requests: Vec<Request>) {
        let adds_work = requests.iter().any(Request::adds_work);
        let counts: Vec<usize> = requests.iter().map(|request| request.commands.len()).collect();
        let (commands, answers): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| (request.commands, request.answer)).unzip();
        let asked_again = commands.iter().any(|commands| is_asked_again(commands));
        let commands: Vec<Command> = commands.into_iter().flatten().collect();
        let result = self.commit(&commands, asked_again, adds_work);
        let spoiled = result.as_ref().is_err_and(|error| is_final(error, asked_again, adds_work));
        if let Some(error) = result.as_ref().err().filter(|_| spoiled && answers.len() > 1) {
            let mut commands = commands.into_iter();
            let requests = answers.into_iter().zip(counts);
            let requests = requests
                .map(|(answer, count)| Request { commands: commands.by_ref().take(count).collect(), answer });
            return self.carry_out_apart(requests.collect(), error);
        }
        // Before they are answered: what they ask for next may already depend on it.
        self.queue.answered(&commands);
        let mut replies = result.map(Vec::into_iter);
        for (answer, count) in answers.into_iter().zip(counts) {
            let these = replies.as_mut().map(|replies| replies.by_ref().take(count).collect());
            answer(these.map_err(|error| error.clone()));
        }
    }

    /// A commit for each request; or, if there is no room for events, one for all the others.
    fn carry_out_apart(&mut self, requests: Vec<Request>, error: &StoreError) {
        let no_room = matches!(error, StoreError::Full { .. });
        let (refused, others): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| no_room && request.adds_work());
        if refused.is_empty() {
            return others.into_iter().for_each(|request| self.carry_out(vec![request]));
        }
        for request in refused {
            self.queue.answered(&request.commands);
            (request.answer)(Err(error.clone()));
        }
        if !others.is_empty() {
            self.carry_out(others);
        }
    }

    /// Commits, however often it takes; gives up only when the failure cannot pass, or the thread is to stop, or the disk
    /// fails and some of it is asked again. A store that has gone back is asked nothing more: it would extend all leases each time.
    fn commit(
        &mut self,
        commands: &[Command],
        asked_again: bool,
        adds_work: bool,
    ) -> Result<Vec<Reply>, StoreError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let mut pause = PAUSE_FIRST;
        let mut tries = 0_u32;
        loop {
            let now = (self.clock)();
            let result = self.store.commit(now, commands);
            tries += 1;
            match result {
                Ok(replies) => {
                    if self.queue.worked(self.store.written()) {
                        tracing::info!(tries, "the store works again");
                    }
                    return Ok(replies);
                }
                Err(error)
                    if is_final(&error, asked_again, adds_work)
                        && !matches!(error, StoreError::Full { .. }) =>
                {
                    if let Some(unsaid) = self.given_up.hear(now, &error) {
                        tracing::error!(%error, unsaid, "a request was given up; the same is said once a minute");
                    }
                    self.queue.gave_up(now, error.clone());
                    if matches!(error, StoreError::WentBack { .. }) {
                        self.lost = Some(error.clone());
                    }
                    return Err(error);
                }
                Err(error) => {
                    // Asked before the pause: whatever was submitted before the stop gets one more try.
                    let last = self.queue.is_stopped() || is_final(&error, asked_again, adds_work);
                    if self.queue.failed(now, error.clone()) {
                        tracing::error!(%error, "the store fails; nothing is acknowledged until it works again");
                    }
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

/// Whether whoever sends these commands sends them again after a failure: claims and upkeep.
fn is_asked_again(commands: &[Command]) -> bool {
    use Command::{Claim, Purge, Sweep};
    commands.iter().all(|command| matches!(command, Claim(_) | Sweep(_) | Purge(_)))
}

/// Whether commands are not tried again, given that some of them are asked again, or that some are events.
const fn is_final(error: &StoreError, asked_again: bool, adds_work: bool) -> bool {
    match error {
        StoreError::Full { .. } => asked_again || adds_work,
        StoreError::Io { .. } => asked_again,
        error => !error.may_pass(),
    }
}

/// Whoever claims beside the writer.
struct Beside {
    claimer: Box<dyn Claimer>,
    clock: Clock,
    queue: Arc<Queue>,
}

impl Beside {
    fn run(mut self) {
        // However it ends, the writer takes over.
        let _leaving = Leaving(self.queue.clone());
        while let Some((request, ahead)) = self.queue.take_claims() {
            self.carry_out(request, ahead);
        }
    }

    /// One request. What is out of the ordinary, be it a lane that changed hands or a store that cannot be read, is
    /// the writer's to tell.
    fn carry_out(&mut self, request: Request, ahead: Ahead) {
        let claims = request.commands.iter().map(|command| match command {
            Command::Claim(claim) => Some(claim.clone()),
            _ => None,
        });
        let claimed = match claims.collect::<Option<Vec<Claim>>>() {
            Some(claims) => self.claimer.claim(ahead.moment((self.clock)()), &claims),
            None => Ok(None),
        };
        match claimed {
            Ok(Some(claimed)) => (request.answer)(Ok(claimed.into_iter().map(Reply::Claimed).collect())),
            Ok(None) | Err(_) => {
                if let Err(request) = self.queue.give_to_writer(request) {
                    (request.answer)(Err(StoreError::Stopped));
                }
            }
        }
    }
}

/// Leaves the claims to the writer.
struct Leaving(Arc<Queue>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.claims_beside(false);
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
