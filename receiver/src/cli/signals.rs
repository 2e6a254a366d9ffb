//! SIGTERM and SIGINT, and the one that a file's limit sends.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGXFSZ, which `SignalKind` has no name for: a write went beyond the limit on a file's size.
const FILE_TOO_LARGE: i32 = 25;

/// What asks a process to end.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Taken, so that it does not end us: the write fails as on a full disk, and whoever waits for it is told to come
    /// back.
    _file_too_large: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _file_too_large: signal(SignalKind::from_raw(FILE_TOO_LARGE))?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
