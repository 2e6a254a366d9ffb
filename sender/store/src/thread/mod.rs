//! The store's writer thread: every request that waits during a commit goes into the next one (group commit).
//!
//! ```text
//! Handle::submit ──► Queue (bounded) ──► thread ──► Store::commit([all requests]) ──► answers, after the commit
//! ```
//!
//! - The thread carries out requests in the order of submission, with two exceptions. Renewals of leases go first.
//!   Claims go ahead of requests that do not concern them, beside the commits if the store can do that. The caller's
//!   own thread answers claims that memory can answer.
//! - If a failure may pass (a lock, a full disk), the thread logs it once, keeps the requests, and retries with
//!   growing pauses. Meanwhile the queue fills and refuses requests. If a request fails for good, only that request
//!   gets the error.
//! - If the store went back to an earlier state, the thread ends: the remembered state is invalid.
//! - If the disk has no room for events, they are refused at once, until it has room again. Their emitters keep them.
//!   The rest of that commit is retried without them.
//! - Claims, sweeps, purges and steps of jobs get an I/O error at once, because a single bad page may cause it. Their callers ask
//!   again.
//! - Emitters may use only a part of the queue, so that new work is refused before settlements.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use order::{Ahead, PendingByLane};
use queue::Queue;
pub use queue::{Capacity, Health, TurnedAway, Why};

use crate::command::Claim;
use crate::engine::{Nanos, StoreTime};
use crate::{Claimer, Command, QuickClaims, Reply, Store, StoreError};

mod order;
mod queue;
#[cfg(test)]
mod tests;

pub type Clock = Arc<dyn Fn() -> StoreTime + Send + Sync>;

/// Receives a request's result. It runs on a store thread or, for a claim, on the caller's thread, so it must be
/// quick and must not panic. If the thread panics, the answers in progress are dropped uncalled.
pub type Answer = Box<dyn FnOnce(Result<Vec<Reply>, StoreError>) + Send>;

pub struct Request {
    pub commands: Vec<Command>,
    pub answer: Answer,
}

impl Request {
    fn adds_work(&self) -> bool {
        self.commands.iter().any(Command::adds_work)
    }

    /// The same request. Its claims learn when to look again for deliveries that they overtook.
    fn with_ahead(self, ahead: Ahead) -> Self {
        if ahead == Ahead::FREELY {
            return self;
        }
        let Self { commands, answer } = self;
        let tell = move |result: Result<Vec<Reply>, StoreError>| {
            let told = result.map(|mut replies| {
                for reply in &mut replies {
                    if let Reply::Claimed(claimed) = reply {
                        ahead.set_next_claim(claimed);
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

const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct StoreThread {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
}

/// Cheap to clone.
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
    /// Fails if the system cannot create a thread.
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
        // The writer must be the last one: see `has_ended`.
        threads.push(spawn("store", move || writer.run())?);
        Ok(Self { handle, threads })
    }

    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether the writer ended without a stop. Then nothing is written any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.last().is_none_or(JoinHandle::is_finished)
    }

    /// Accepts no more requests, carries out the submitted ones, and ends. If the store fails, retries once and then
    /// answers with the error.
    pub fn stop(self) {
        self.handle.queue.stop();
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a database thread panicked; its open requests were not acknowledged");
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

impl Handle {
    /// Fails if the queue is full or the thread has stopped. The error returns the request, unanswered.
    pub fn submit(&self, request: Request) -> Result<(), TurnedAway> {
        let now = (self.clock)();
        match self.hand_out(&request.commands, now) {
            Some(reply) => (request.answer)(Ok(vec![reply])),
            None => self.queue.push(request, now)?,
        }
        Ok(())
    }

    fn hand_out(&self, commands: &[Command], now: StoreTime) -> Option<Reply> {
        let ([Command::Claim(claim)], Some(quick)) = (commands, &self.quick) else { return None };
        let ahead = self.queue.lets_pass(commands, now)?;
        let mut claimed = quick.claim(ahead.moment(now), claim)?;
        ahead.set_next_claim(&mut claimed);
        Some(Reply::Claimed(claimed))
    }

    #[must_use]
    pub fn health(&self) -> Health {
        self.queue.health()
    }
}

struct Writer {
    store: Box<dyn Store>,
    clock: Clock,
    queue: Arc<Queue>,
    given_up: Complaints,
    /// The error that invalidates all remembered state. It ends the thread.
    lost: Option<StoreError>,
}

impl Writer {
    fn run(mut self) {
        // Even after a panic, no caller may wait for it.
        let _closing = Closing(self.queue.clone());
        while self.lost.is_none()
            && let Some(batch) = self.queue.take()
        {
            self.carry_out(batch);
        }
        if let Err(error) = self.store.close() {
            tracing::warn!(%error, "the database was not closed in order");
        }
    }

    /// If one request spoils the commit, commits each one alone.
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
        // Before the answers: the requests that they cause may depend on it.
        self.queue.answered(&commands);
        let mut replies = result.map(Vec::into_iter);
        for (answer, count) in answers.into_iter().zip(counts) {
            let these = replies.as_mut().map(|replies| replies.by_ref().take(count).collect());
            answer(these.map_err(|error| error.clone()));
        }
    }

    /// If events lack room, refuses them and commits all others together.
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

    /// Retries until the commit succeeds, fails for good, or the thread stops. After the store went back, it commits
    /// no more: every attempt would extend all leases.
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
                        tracing::info!(tries, "the database works again");
                    }
                    return Ok(replies);
                }
                Err(error)
                    if is_final(&error, asked_again, adds_work)
                        && !matches!(error, StoreError::Full { .. }) =>
                {
                    if let Some(unsaid) = self.given_up.record_failure(now, &error) {
                        tracing::error!(%error, unsaid, "a request was given up; the same is said once a minute");
                    }
                    self.queue.gave_up(now, error.clone());
                    if matches!(error, StoreError::WentBack { .. }) {
                        self.lost = Some(error.clone());
                    }
                    return Err(error);
                }
                Err(error) => {
                    // Read before the pause, so that requests submitted before the stop get one more try.
                    let last = self.queue.is_stopped() || is_final(&error, asked_again, adds_work);
                    if self.queue.failed(now, error.clone()) {
                        tracing::error!(%error, "the database fails; nothing is acknowledged until it works again");
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

/// Whether the callers of all these commands ask again, or give up, after a failure.
fn is_asked_again(commands: &[Command]) -> bool {
    use Command::{Claim, Purge, StepJob, Sweep};
    commands.iter().all(|command| matches!(command, Claim(_) | Sweep(_) | Purge(_) | StepJob(_)))
}

/// Whether the commands are not retried. `asked_again`: the callers of some ask again. `adds_work`: some are
/// events.
const fn is_final(error: &StoreError, asked_again: bool, adds_work: bool) -> bool {
    match error {
        StoreError::Full { .. } => asked_again || adds_work,
        StoreError::Io { .. } => asked_again,
        error => !error.may_pass(),
    }
}

struct Beside {
    claimer: Box<dyn Claimer>,
    clock: Clock,
    queue: Arc<Queue>,
}

impl Beside {
    fn run(mut self) {
        // Even after a panic, the writer must take over the claims.
        let _leaving = Leaving(self.queue.clone());
        while let Some((request, ahead)) = self.queue.take_claims() {
            self.carry_out(request, ahead);
        }
    }

    /// Answers one request. The writer handles exceptions, such as a lane that changed hands or a failing read.
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

struct Leaving(Arc<Queue>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.claims_beside(false);
    }
}

struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        for request in self.0.close() {
            (request.answer)(Err(StoreError::Stopped));
        }
    }
}

/// A failure is not logged again for this long.
const SILENCE: Nanos = Nanos(60 * Nanos::SECOND.0);
/// With more kinds of failure at once, the one logged longest ago is forgotten.
const KINDS_MAX: usize = 16;

#[derive(Debug, Default)]
struct Complaints {
    said: Vec<LoggedError>,
}

#[derive(Debug)]
struct LoggedError {
    error: StoreError,
    at: StoreTime,
    unsaid: u64,
}

impl Complaints {
    /// Whether to log the failure. If so, returns how often it occurred since it was last logged.
    fn record_failure(&mut self, now: StoreTime, error: &StoreError) -> Option<u64> {
        if let Some(known) = self.said.iter_mut().find(|said| said.error == *error) {
            // A clock that was set back must end the silence, not prolong it.
            if known.at <= now && now.0 - known.at.0 < SILENCE.0 {
                known.unsaid += 1;
                return None;
            }
            known.at = now;
            return Some(std::mem::take(&mut known.unsaid));
        }
        if self.said.len() == KINDS_MAX
            && let Some((oldest, _)) = self.said.iter().enumerate().min_by_key(|(_, said)| said.at)
        {
            self.said.swap_remove(oldest);
        }
        self.said.push(LoggedError { error: error.clone(), at: now, unsaid: 0 });
        Some(0)
    }
}
