//! Name lookups: one at a time for each lane, with a bound for all lanes.
//!
//! The bound has three parts, so that unanswered names cannot use it up. A lookup starts in the part for
//! names that were answered last time, or in that for all others. After [`PROMPT`] it moves to the third
//! part, or ends if that is full. A lookup that got no turn or had to end early is not the endpoint's fault.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::failure::Cause;
use super::resolve::{Addresses, Resolve};
use super::sync::lock;
use super::timer::{after, now};

/// Limits the lifetime of answers.
pub(super) const VALID_MAX: Duration = Duration::from_secs(300);
pub(super) const FAILED_FOR: Duration = Duration::from_secs(2);
/// An attempt's wait also ends with its connect deadline.
const LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Slower answers move to the third part.
const PROMPT: Duration = Duration::from_millis(250);
const ADDRESSES_MAX: usize = 16;

const KNOWN_MAX: usize = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    NoRoom,
    Because(Cause),
}

impl From<&str> for NotFound {
    fn from(cause: &str) -> Self {
        Self::Because(cause.into())
    }
}

pub(super) struct Asker {
    resolver: Arc<dyn Resolve>,
    answered: Mutex<Answered>,
    /// Lookups of names that were answered last time.
    known: Semaphore,
    /// Lookups of all other names.
    unknown: Semaphore,
    /// Lookups slower than [`PROMPT`].
    slow: Semaphore,
}

impl Asker {
    /// `sockets_max` bounds the sockets of deliveries. Lookups get a small share; each may need two.
    pub(super) fn new(resolver: Arc<dyn Resolve>, sockets_max: u32) -> Arc<Self> {
        let quarter = usize::try_from(sockets_max / 32).unwrap_or(usize::MAX).clamp(2, 64);
        let [known, unknown, slow] = [quarter, quarter, 2 * quarter].map(Semaphore::new);
        Arc::new(Self { resolver, answered: Mutex::default(), known, unknown, slow })
    }

    async fn ask(&self, name: &str, has_turn: &AtomicBool) -> Result<Addresses, NotFound> {
        let found = self.ask_in_turn(name, has_turn).await;
        lock(&self.answered).note(name, found.is_ok());
        found
    }

    async fn ask_in_turn(&self, name: &str, has_turn: &AtomicBool) -> Result<Addresses, NotFound> {
        let is_known = lock(&self.answered).has(name);
        let part = if is_known { &self.known } else { &self.unknown };
        // First come, first served; each lane has at most one.
        let turn = part.acquire().await.map_err(|closed| NotFound::Because(Cause::of(&closed)))?;
        has_turn.store(true, Ordering::Release);
        let mut asking = self.resolver.resolve(name);
        let found = match timeout(PROMPT, &mut asking).await {
            Ok(found) => found,
            Err(_) => {
                let Ok(_slow) = self.slow.try_acquire() else {
                    return Err(NotFound::NoRoom);
                };
                drop(turn);
                match timeout(LOOKUP_MAX - PROMPT, asking).await {
                    Ok(found) => found,
                    Err(_) => return Err("the name servers did not answer in time".into()),
                }
            }
        };
        found.map_err(|error| NotFound::Because(Cause::of(&error)))
    }
}

/// The names answered last time; beyond [`KNOWN_MAX`], the oldest is forgotten. Outlives the lanes.
#[derive(Default)]
struct Answered {
    /// Each name with the number of its answer.
    names: BTreeMap<Arc<str>, u64>,
    in_order: BTreeMap<u64, Arc<str>>,
    answers: u64,
}

impl Answered {
    fn has(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    fn note(&mut self, name: &str, is_answered: bool) {
        if let Some(before) = self.names.remove(name) {
            self.in_order.remove(&before);
        }
        if !is_answered {
            return;
        }
        self.answers += 1;
        let name: Arc<str> = name.into();
        self.in_order.insert(self.answers, Arc::clone(&name));
        self.names.insert(name, self.answers);
        if self.names.len() > KNOWN_MAX
            && let Some((_, oldest)) = self.in_order.pop_first()
        {
            self.names.remove(&oldest);
        }
    }
}

#[derive(Clone, Debug)]
struct Answer {
    found: Result<Arc<[IpAddr]>, NotFound>,
    until: Instant,
}

impl Answer {
    fn of(found: Result<Addresses, NotFound>) -> Self {
        let valid_for = found.as_ref().map_or(FAILED_FOR, |found| found.valid_for.min(VALID_MAX));
        let found = found.map(|found| found.all.into_iter().take(ADDRESSES_MAX).collect());
        Self { found, until: after(valid_for) }
    }
}

/// A lane's latest lookup. A lane has one name at a time.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    latest: Mutex<Option<Latest>>,
}

#[derive(Debug)]
struct Latest {
    name: Box<str>,
    answer: watch::Receiver<Option<Answer>>,
    has_turn: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Lookups {
    /// Uses a valid answer, joins the lookup under way, or starts one.
    pub(super) async fn find(&self, asker: &Arc<Asker>, name: &str) -> Result<Arc<[IpAddr]>, NotFound> {
        let mut answer = self.join_or_begin(asker, name);
        let found = answer.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some(answer)) => answer.found.clone(),
            // The resolver panicked, or the lane now needs another name.
            Ok(None) | Err(_) => Err("the look-up ended without an answer".into()),
        }
    }

    fn join_or_begin(&self, asker: &Arc<Asker>, name: &str) -> watch::Receiver<Option<Answer>> {
        let mut latest = lock(&self.latest);
        let before = latest.as_ref().filter(|before| *before.name == *name);
        if let Some(before) = before.filter(|before| before.is_of_use()) {
            return before.answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        let has_turn = Arc::<AtomicBool>::default();
        let (asker, asked, turn) = (Arc::clone(asker), name.to_owned(), Arc::clone(&has_turn));
        let task = tokio::spawn(async move {
            let found = asker.ask(&asked, &turn).await;
            tell.send_replace(Some(Answer::of(found)));
        });
        let task = task.abort_handle();
        *latest = Some(Latest { name: name.into(), answer: answer.clone(), has_turn, task });
        answer
    }

    pub(super) fn is_in_line(&self) -> bool {
        lock(&self.latest).as_ref().is_some_and(|latest| {
            latest.answer.borrow().is_none() && !latest.has_turn.load(Ordering::Acquire)
        })
    }
}

impl Latest {
    /// Whether it is under way, or its answer is still valid.
    fn is_of_use(&self) -> bool {
        match self.answer.borrow().as_ref() {
            Some(answer) => now() < answer.until,
            None => self.answer.has_changed().is_ok(),
        }
    }
}

impl Drop for Latest {
    /// No waiter is left, or the lane needs another name.
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::task::JoinSet;

    use super::super::resolve::Resolving;
    use super::*;

    struct OneName;

    impl Resolve for OneName {
        fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
            let all = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
            match name {
                "healthy" => Box::pin(async { Ok(Addresses { all, valid_for: Duration::ZERO }) }),
                _ => Box::pin(std::future::pending()),
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_was_answered_goes_ahead_of_names_that_hang_though_its_lane_was_forgotten() {
        let asker = Asker::new(Arc::new(OneName), 1);
        assert!(Lookups::default().find(&asker, "healthy").await.is_ok());
        let mut hanging = JoinSet::new();
        for lane in 0..100 {
            let asker = Arc::clone(&asker);
            hanging.spawn(async move { Lookups::default().find(&asker, &format!("hangs-{lane}")).await });
        }
        while asker.unknown.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let lookups = Lookups::default();
        tokio::select! {
            found = lookups.find(&asker, "healthy") => assert!(found.is_ok()),
            first = hanging.join_next() => panic!("a name that hangs came first: {first:?}"),
        }
        // It reports missing room, not a missing address.
        assert_eq!(hanging.join_next().await.unwrap().unwrap(), Err(NotFound::NoRoom));
        let new = Lookups::default();
        tokio::select! {
            biased;
            found = new.find(&asker, "new") => panic!("it came before those that wait: {found:?}"),
            () = std::future::ready(()) => assert!(new.is_in_line()),
        }
    }

    #[test]
    fn names_are_known_from_one_answer_to_the_next_failure_and_only_so_many() {
        let mut answered = Answered::default();
        answered.note("a", true);
        answered.note("b", true);
        assert!(answered.has("a") && answered.has("b"));
        answered.note("a", false);
        assert!(!answered.has("a"));
        (0..KNOWN_MAX).for_each(|name| answered.note(&name.to_string(), true));
        assert!(!answered.has("b") && answered.has("0"));
        assert_eq!((answered.names.len(), answered.in_order.len()), (KNOWN_MAX, KNOWN_MAX));
    }
}
