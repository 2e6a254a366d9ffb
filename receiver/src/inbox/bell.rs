use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

#[derive(Clone, Debug)]
pub(super) struct Bell(SyncSender<()>);

impl Bell {
    /// Now, or before its next wait.
    pub(super) fn ring(&self) {
        // Full means that a wakeup is pending.
        let _ = self.0.try_send(());
    }
}

pub(super) fn bell() -> (Bell, Receiver<()>) {
    let (ring, rung) = sync_channel(1);
    (Bell(ring), rung)
}
