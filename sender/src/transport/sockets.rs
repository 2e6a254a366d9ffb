//! The bound on the sockets of all lanes. Without it, they could use up the process's files, including the
//! database's.
//!
//! At the bound, idle connections of any lane are closed, by one waiter at a time. Without any, an attempt waits, and
//! is then unsent ([`super::failure::Failure::NoSocket`]).

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::timer::{after, now, reached};

/// As many as are needed, a few for later callers, and few enough not to block the thread.
const CLOSED_AT_ONCE_MIN: u32 = 32;
const CLOSED_AT_ONCE_MAX: u32 = 256;
/// Each search may scan all lanes.
const SEARCH_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Sockets {
    open: AtomicU32,
    max: u32,
    waiting: AtomicU32,
    freed: Notify,
    /// Whether a connection may have become idle since the last search.
    may_be_idle: AtomicBool,
    /// Held by the waiter that searches, not before this moment.
    searching: Mutex<Option<Instant>>,
}

#[derive(Debug)]
pub(super) struct Socket(Arc<Sockets>);

struct Waiting<'a>(&'a Sockets);

impl Sockets {
    pub(super) fn new(max: u32) -> Arc<Self> {
        let (open, waiting, freed, may_be_idle, searching) = Default::default();
        Arc::new(Self { open, max, waiting, freed, may_be_idle, searching })
    }

    pub(super) const fn max(&self) -> u32 {
        self.max
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }

    /// Whether attempts wait, so that idle connections should close.
    pub(super) fn are_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    pub(super) fn enter(self: &Arc<Self>) -> Option<Socket> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Socket(Arc::clone(self)))
    }

    /// Call it under the lock that the search takes, or sequentially consistent with the data that the search reads.
    pub(super) fn mark_idle(&self) {
        // Written only on change, so that lanes do not contend for its cache line.
        if !self.may_be_idle.load(Ordering::SeqCst) {
            self.may_be_idle.store(true, Ordering::SeqCst);
        }
    }

    /// `close_idle` closes up to that many idle connections, and returns how many.
    pub(super) async fn room(
        self: &Arc<Self>,
        close_idle: impl Fn(usize) -> usize,
        deadline: Instant,
    ) -> Option<Socket> {
        if let Some(socket) = self.enter() {
            return Some(socket);
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(self);
        tokio::select! {
            // Polled first, so that it registers before the search frees a place.
            biased;
            socket = self.next_free() => Some(socket),
            never = self.search(close_idle) => match never {},
            () = reached(deadline) => self.enter(),
        }
    }

    async fn next_free(self: &Arc<Self>) -> Socket {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Registers first, so that no free place is missed.
            freed.as_mut().enable();
            if let Some(socket) = self.enter() {
                return socket;
            }
            freed.await;
        }
    }

    /// Serves all waiters while polled. The others queue for the lock.
    async fn search(&self, close_idle: impl Fn(usize) -> usize) -> Infallible {
        let mut not_before = self.searching.lock().await;
        loop {
            if let Some(moment) = not_before.filter(|moment| now() < *moment) {
                reached(moment).await;
            }
            *not_before = Some(after(SEARCH_EVERY));
            let wanted = self.waiting.load(Ordering::Acquire);
            let wanted = wanted.clamp(CLOSED_AT_ONCE_MIN, CLOSED_AT_ONCE_MAX);
            if self.may_be_idle.swap(false, Ordering::SeqCst)
                && close_idle(usize::try_from(wanted).unwrap_or(usize::MAX)) > 0
            {
                self.may_be_idle.store(true, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
        // This waiter may leave without using it.
        self.0.freed.notify_one();
    }
}

pub(super) fn are_used_up(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// The database, the API and the rest have the other files.
pub(super) fn max_by_limit() -> u32 {
    const COMMON: u32 = 1_024;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    share_of(soft_limit(&limits).unwrap_or(COMMON))
}

fn soft_limit(limits: &str) -> Option<u32> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_ascii_whitespace().next()?;
    if soft == "unlimited" { Some(u32::MAX) } else { soft.parse().ok() }
}

/// The API may have a thousand connections.
const fn share_of(files: u32) -> u32 {
    const OTHERS: u32 = 2_048;
    const MAX: u32 = 1_000_000;
    let share = if files < 2 * OTHERS { files / 2 } else { files - OTHERS };
    if share > MAX {
        MAX
    } else if share == 0 {
        1
    } else {
        share
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;

    async fn searches_for_1_000(found: usize) -> u32 {
        let sockets = Sockets::new(1);
        let held = sockets.enter().unwrap();
        sockets.mark_idle();
        let searches = Arc::new(AtomicU32::new(0));
        let mut waiting = JoinSet::new();
        for _ in 0..1_000 {
            let (sockets, searches) = (Arc::clone(&sockets), Arc::clone(&searches));
            waiting.spawn(async move {
                let close_idle = |_| {
                    searches.fetch_add(1, Ordering::SeqCst);
                    found
                };
                drop(sockets.room(close_idle, after(Duration::from_secs(60))).await.unwrap());
            });
        }
        let first = timeout(10 * SEARCH_EVERY, waiting.join_next()).await;
        assert!(first.is_err(), "nobody gets the socket that is held");
        let searches = searches.load(Ordering::SeqCst);
        drop(held);
        // Each waiter gets the socket from the one before.
        assert_eq!(waiting.join_all().await.len(), 1_000);
        searches
    }

    #[tokio::test]
    async fn one_of_all_who_wait_searches_for_idle_connections_and_only_if_there_may_be_any() {
        let searches = searches_for_1_000(1).await;
        assert!((1..=11).contains(&searches), "{searches}");
        assert_eq!(searches_for_1_000(0).await, 1);
    }

    #[tokio::test]
    async fn a_connection_that_becomes_idle_during_a_wait_is_found() {
        let sockets = Sockets::new(1);
        let idle = std::sync::Mutex::new(sockets.enter());
        let close_idle = |_| usize::from(idle.lock().unwrap().take().is_some());
        let room = sockets.room(close_idle, after(Duration::from_secs(60)));
        let becomes_idle = async {
            tokio::task::yield_now().await;
            assert!(idle.lock().unwrap().is_some(), "it was not idle yet");
            sockets.mark_idle();
        };
        assert!(tokio::join!(room, becomes_idle).0.is_some());
    }

    #[test]
    fn the_limit_is_read_as_the_system_writes_it() {
        let text = |soft: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max processes             7                    8                    processes\n\
                 Max open files            {soft}                 1048576              files\n"
            )
        };
        assert_eq!(soft_limit(&text("1024")), Some(1_024));
        assert_eq!(soft_limit(&text("unlimited")), Some(u32::MAX));
        assert_eq!(soft_limit(""), None);
    }

    #[test]
    fn others_keep_their_share_of_the_files() {
        for (files, share) in [(0, 1), (256, 128), (1_024, 512), (65_536, 63_488), (u32::MAX, 1_000_000)] {
            assert_eq!(share_of(files), share, "{files}");
        }
    }
}
