//! A request handed to the HTTP/2 library can be taken back only by ending the connection. So none is handed over
//! while earlier bytes wait in this process.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(super) struct Backpressure {
    /// Whether the last call on the socket was incomplete.
    is_pending: AtomicBool,
    /// `is_pending` at the end of the connection task's latest run.
    is_stuck: AtomicBool,
    eased: Notify,
}

impl Backpressure {
    pub(super) fn set_pending(&self, is_pending: bool) {
        self.is_pending.store(is_pending, Ordering::Relaxed);
    }

    /// The connection's task can do no more for now.
    pub(super) fn rest(&self) {
        let is_pending = self.is_pending.load(Ordering::Relaxed);
        if self.is_stuck.load(Ordering::Relaxed) != is_pending {
            self.is_stuck.store(is_pending, Ordering::Release);
            if !is_pending {
                self.eased.notify_waiters();
            }
        }
    }

    pub(super) fn end(&self) {
        self.set_pending(false);
        self.rest();
    }

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
