//! Wakes the worker, whoever has something for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Rings for the worker. Copies ring for the same one.
#[derive(Clone, Debug)]
pub(super) struct Bell(SyncSender<()>);

impl Bell {
    /// Wakes the worker, now or before it rests the next time.
    pub(super) fn ring(&self) {
        // If it has been rung and not been heard yet, once is enough.
        let _ = self.0.try_send(());
    }
}

/// A bell, and what hears it.
pub(super) fn bell() -> (Bell, Receiver<()>) {
    let (ring, rung) = sync_channel(1);
    (Bell(ring), rung)
}
