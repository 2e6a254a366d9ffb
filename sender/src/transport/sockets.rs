//! How many sockets all lanes together may have open. Every lane has its own bound; without this one, enough lanes
//! would use up the files that the process may open, the database's among them.
//!
//! At the bound, idle connections of any lane make room. If there is none, an attempt waits a while, and is
//! then unsent for a reason that is ours ([`super::failure::Failure::NoSocket`]), never the endpoint's.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::timer::after;

/// Idle connections closed at once: a look through the lanes serves a few that wait.
const CLOSED_AT_ONCE: usize = 32;
/// How often to look for idle connections again: one over HTTP/2 does not tell when it has become idle.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The count, and the bound.
#[derive(Debug)]
pub(super) struct Sockets {
    open: AtomicU32,
    max: u32,
    waiting: AtomicU32,
    freed: Notify,
}

/// One socket's place in the count.
#[derive(Debug)]
pub(super) struct Socket(Arc<Sockets>);

/// Somebody waits for a socket, as long as this lives.
struct Waiting<'a>(&'a Sockets);

impl Sockets {
    pub(super) fn new(max: u32) -> Arc<Self> {
        let (open, waiting) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self { open, max, waiting, freed: Notify::new() })
    }

    pub(super) const fn max(&self) -> u32 {
        self.max
    }

    #[cfg(test)]
    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }

    /// Whether somebody would rather have a socket than see it kept idle.
    pub(super) fn are_wanted(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// A place for one more socket, if there is one.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Socket> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Socket(Arc::clone(self)))
    }

    /// A place for one more socket, if there is one by the deadline. `close_idle` closes up to so many idle connections.
    pub(super) async fn room(
        self: &Arc<Self>,
        close_idle: impl Fn(usize),
        deadline: Instant,
    ) -> Option<Socket> {
        if let Some(socket) = self.enter() {
            return Some(socket);
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(self);
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on nothing that becomes free is missed.
            freed.as_mut().enable();
            close_idle(CLOSED_AT_ONCE);
            if let Some(socket) = self.enter() {
                return Some(socket);
            }
            let look = after(LOOK_EVERY);
            if timeout_at(look.min(deadline), freed).await.is_err() && deadline <= look {
                return self.enter();
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
        // What told this one of a free socket tells the next, if this one leaves without it.
        self.0.freed.notify_one();
    }
}

/// Whether the system, or the process's limit, has no more sockets to give.
pub(super) fn are_used_up(error: &io::Error) -> bool {
    /// "Too many open files", in the process and on the machine, on every Unix.
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE))
}

/// As many sockets as the process's limit on open files leaves, once the database, the API's own connections and the
/// rest have theirs.
pub(super) fn max_by_limit() -> u32 {
    // Where the system does not tell, the commonest limit.
    const COMMON: u32 = 1_024;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    share_of(soft_limit(&limits).unwrap_or(COMMON))
}

fn soft_limit(limits: &str) -> Option<u32> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_ascii_whitespace().next()?;
    if soft == "unlimited" { Some(u32::MAX) } else { soft.parse().ok() }
}

/// Half of few, and all but two thousand of many: the API may have a thousand connections.
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
    use super::*;

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
