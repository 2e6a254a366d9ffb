//! Wakes the worker.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Clones wake the same worker.
#[derive(Clone, Debug)]
pub(super) struct Bell(SyncSender<()>);

impl Bell {
    /// Wakes the worker, now or before its next wait.
    pub(super) fn ring(&self) {
        // A full channel means that a wakeup is pending already.
        let _ = self.0.try_send(());
    }
}

pub(super) fn bell() -> (Bell, Receiver<()>) {
    let (ring, rung) = sync_channel(1);
    (Bell(ring), rung)
}
