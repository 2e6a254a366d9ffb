//! Look-ups of names: at most one at a time for each lane, and so many for all lanes together that their sockets leave room
//! for deliveries.
//!
//! The bound is divided, so that names that nobody answers for cannot use it up. A look-up begins in one of two parts: one for
//! names that were answered last time, one for all others. What has no answer after [`PROMPT`] moves to a third part, or ends
//! where that is full.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::failure::Cause;
use super::resolve::{Addresses, Resolve};
use super::sync::lock;
use super::timer::{after, now};

/// The longest that an answer is gone by, whatever it says itself.
pub(super) const VALID_MAX: Duration = Duration::from_secs(300);
/// How long a failure is remembered.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(2);
/// The longest that a look-up takes. An attempt waits for it no longer than for its connection.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Answers that take longer than this are slow.
const PROMPT: Duration = Duration::from_millis(250);
/// The most addresses of a name that are looked at.
const ADDRESSES_MAX: usize = 16;

/// Asks a resolver for all lanes.
pub(super) struct Asker {
    resolver: Arc<dyn Resolve>,
    /// Names that were answered last time.
    known: Semaphore,
    /// Names that were not, and new ones.
    unknown: Semaphore,
    /// What has had no answer for a while.
    slow: Semaphore,
}

impl Asker {
    /// `sockets_max` is how many sockets deliveries may have. Look-ups get few beside them: each may need two.
    pub(super) fn new(resolver: Arc<dyn Resolve>, sockets_max: u32) -> Arc<Self> {
        let quarter = usize::try_from(sockets_max / 32).unwrap_or(usize::MAX).clamp(2, 64);
        let [known, unknown, slow] = [quarter, quarter, 2 * quarter].map(Semaphore::new);
        Arc::new(Self { resolver, known, unknown, slow })
    }

    async fn ask(&self, name: &str, is_known: bool) -> Result<Addresses, Cause> {
        let part = if is_known { &self.known } else { &self.unknown };
        // In the order in which they came; each lane has one in it at most.
        let turn = part.acquire().await.map_err(|closed| Cause::of(&closed))?;
        let mut asking = self.resolver.resolve(name);
        let found = match timeout(PROMPT, &mut asking).await {
            Ok(found) => found,
            Err(_) => {
                let Ok(_slow) = self.slow.try_acquire() else {
                    return Err("too many names wait for name servers that do not answer".into());
                };
                drop(turn);
                match timeout(LOOKUP_MAX - PROMPT, asking).await {
                    Ok(found) => found,
                    Err(_) => return Err("the name servers did not answer in time".into()),
                }
            }
        };
        found.map_err(|error| Cause::of(&error))
    }
}

/// The answer to a look-up, for all who wait for it.
#[derive(Clone, Debug)]
struct Answer {
    found: Result<Arc<[IpAddr]>, Cause>,
    until: Instant,
}

impl Answer {
    fn of(found: Result<Addresses, Cause>) -> Self {
        let valid_for = found.as_ref().map_or(FAILED_FOR, |found| found.valid_for.min(VALID_MAX));
        let found = found.map(|found| found.all.into_iter().take(ADDRESSES_MAX).collect());
        Self { found, until: after(valid_for) }
    }
}

/// One lane's look-ups: the latest, which may be under way. A lane has one name, so this remembers one.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    latest: Mutex<Option<Latest>>,
}

#[derive(Debug)]
struct Latest {
    name: Box<str>,
    answer: watch::Receiver<Option<Answer>>,
    task: AbortHandle,
}

impl Lookups {
    /// The addresses of a name, by an answer that still counts or that is under way, or by a new one.
    pub(super) async fn find(&self, asker: &Arc<Asker>, name: &str) -> Result<Arc<[IpAddr]>, Cause> {
        let mut answer = self.join_or_begin(asker, name);
        let found = answer.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some(answer)) => answer.found.clone(),
            // The resolver panicked, or the lane asks for another name now.
            Ok(None) | Err(_) => Err("the look-up ended without an answer".into()),
        }
    }

    fn join_or_begin(&self, asker: &Arc<Asker>, name: &str) -> watch::Receiver<Option<Answer>> {
        let mut latest = lock(&self.latest);
        let before = latest.as_ref().filter(|before| *before.name == *name);
        if let Some(before) = before.filter(|before| before.is_of_use()) {
            return before.answer.clone();
        }
        let is_known = before.is_some_and(Latest::was_answered);
        let (tell, answer) = watch::channel(None);
        let (asker, asked) = (Arc::clone(asker), name.to_owned());
        let task = tokio::spawn(async move {
            let found = asker.ask(&asked, is_known).await;
            tell.send_replace(Some(Answer::of(found)));
        });
        *latest = Some(Latest { name: name.into(), answer: answer.clone(), task: task.abort_handle() });
        answer
    }
}

impl Latest {
    /// Whether it is under way, or its answer still counts.
    fn is_of_use(&self) -> bool {
        match self.answer.borrow().as_ref() {
            Some(answer) => now() < answer.until,
            None => self.answer.has_changed().is_ok(),
        }
    }

    fn was_answered(&self) -> bool {
        self.answer.borrow().as_ref().is_some_and(|answer| answer.found.is_ok())
    }
}

impl Drop for Latest {
    /// Nobody waits for it any more, or for another name.
    fn drop(&mut self) {
        self.task.abort();
    }
}
