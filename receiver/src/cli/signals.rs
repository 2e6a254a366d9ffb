use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGXFSZ: a file would exceed its size limit.
const FILE_TOO_LARGE: i32 = 25;

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Handled, so that only the write fails, as on a full disk, and senders retry.
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

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
