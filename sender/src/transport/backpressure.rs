//! Whether a socket takes what is written to it.
//!
//! A request that was handed to the HTTP/2 library cannot be taken back without a trace: the library writes its beginning all the
//! same, and only the end of the connection prevents that. So while what was written before waits in this process, nothing
//! more is handed over.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What is known of one socket.
#[derive(Debug, Default)]
pub(super) struct Backpressure {
    /// Whether the socket's last call could not do all of its work. Changes many times while the connection's task runs.
    is_pending: AtomicBool,
    /// The same when that task had done all that it could.
    is_stuck: AtomicBool,
    eased: Notify,
}

impl Backpressure {
    /// The socket was written to, or flushed.
    pub(super) fn note(&self, is_pending: bool) {
        self.is_pending.store(is_pending, Ordering::Relaxed);
    }

    /// The connection's task has done all that it can for now.
    pub(super) fn rest(&self) {
        let is_pending = self.is_pending.load(Ordering::Relaxed);
        if self.is_stuck.load(Ordering::Relaxed) != is_pending {
            self.is_stuck.store(is_pending, Ordering::Release);
            if !is_pending {
                self.eased.notify_waiters();
            }
        }
    }

    /// Nothing is written any more. Who waits may find that out.
    pub(super) fn end(&self) {
        self.note(false);
        self.rest();
    }

    /// Waits until the socket takes what is written to it.
    pub(super) async fn eased(&self) {
        while self.is_stuck.load(Ordering::Acquire) {
            let mut eased = pin!(self.eased.notified());
            // From here on no change is missed.
            eased.as_mut().enable();
            if self.is_stuck.load(Ordering::Acquire) {
                eased.await;
            }
        }
    }
}
