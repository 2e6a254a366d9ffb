//! Whether a socket accepts more bytes. A request handed to the HTTP/2 library cannot be taken back without
//! ending the connection. So no request is handed over while earlier bytes still wait in this process.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Backpressure {
    /// Whether the last call on the socket was incomplete. Changes often while the connection's task runs.
    is_pending: AtomicBool,
    /// `is_pending` at the end of that task's latest run.
    is_stuck: AtomicBool,
    eased: Notify,
}

impl Backpressure {
    pub(super) fn note(&self, is_pending: bool) {
        self.is_pending.store(is_pending, Ordering::Relaxed);
    }

    /// The connection's task has done all it can for now.
    pub(super) fn rest(&self) {
        let is_pending = self.is_pending.load(Ordering::Relaxed);
        if self.is_stuck.load(Ordering::Relaxed) != is_pending {
            self.is_stuck.store(is_pending, Ordering::Release);
            if !is_pending {
                self.eased.notify_waiters();
            }
        }
    }

    /// The connection has ended, so callers that wait wake and find out.
    pub(super) fn end(&self) {
        self.note(false);
        self.rest();
    }

    /// Waits until the socket accepts bytes.
    pub(super) async fn eased(&self) {
        while self.is_stuck.load(Ordering::Acquire) {
            let mut eased = pin!(self.eased.notified());
            // Registers first, so that no change is missed.
            eased.as_mut().enable();
            if self.is_stuck.load(Ordering::Acquire) {
                eased.await;
            }
        }
    }
}
