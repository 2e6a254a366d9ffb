use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use super::sockets::{Socket, Sockets};
use super::traffic::Account;

#[derive(Debug, Default)]
pub(super) struct SocketLimit {
    open: AtomicU32,
    max: AtomicU32,
    pub(super) freed: Notify,
    /// Charged for bytes beside the answers, over all sockets of the lane.
    pub(super) account: Arc<Account>,
}

/// A lane's right to one socket, released on drop.
#[derive(Debug)]
pub(super) struct SocketPermit {
    limit: Arc<SocketLimit>,
    socket: Option<Socket>,
}

impl SocketLimit {
    /// A lower bound closes nothing by itself: see [`Self::excess`].
    pub(super) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Release);
    }

    pub(super) fn enter(self: &Arc<Self>) -> Option<SocketPermit> {
        let max = self.max.load(Ordering::Acquire);
        let one_more = |open| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(SocketPermit { limit: Arc::clone(self), socket: None })
    }

    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn excess(&self) -> usize {
        let excess = self.open().saturating_sub(self.max.load(Ordering::Acquire));
        usize::try_from(excess).unwrap_or(usize::MAX)
    }
}

impl SocketPermit {
    pub(super) const fn limit(&self) -> &Arc<SocketLimit> {
        &self.limit
    }

    pub(super) fn with(mut self, socket: Socket) -> Self {
        self.socket = Some(socket);
        self
    }

    /// `None` if the lane or all sockets are at their bound.
    pub(super) fn beside(&self, sockets: &Arc<Sockets>) -> Option<Self> {
        let beside = self.limit.enter()?;
        Some(beside.with(sockets.enter()?))
    }
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.socket = None;
        self.limit.open.fetch_sub(1, Ordering::AcqRel);
        self.limit.freed.notify_one();
    }
}
