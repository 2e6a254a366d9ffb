use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// SIGXFSZ: a file would exceed the limit (`ulimit -f`). Unhandled, it ends the process; handled, the write fails as
/// on a full disk.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const FILE_SIZE: i32 = 31;
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const FILE_SIZE: i32 = 25;

/// From now on, a write beyond the limit only fails. Call it within a tokio runtime.
pub(super) fn outlive_file_size_limit() -> Result<(), Failure> {
    // Tokio keeps the handler when the stream is dropped.
    listen(SignalKind::from_raw(FILE_SIZE)).map(drop)
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::ours(format_args!("cannot listen for signals: {error}")))
}

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
