//! SIGTERM and SIGINT, which ask a process to end, and SIGXFSZ, which must not end it.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failure::Failure;

/// SIGXFSZ: a file would grow beyond the limit that the process was given (`ulimit -f`). Unheard, it ends the process;
/// heard, the write fails, as on a full disk, which the store knows how to live with.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const FILE_SIZE: i32 = 31;
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const FILE_SIZE: i32 = 25;

/// From now on a write beyond that limit fails, and no more. Must be called within a tokio runtime.
pub(super) fn outlive_file_size_limit() -> Result<(), Failure> {
    // That somebody has listened once is enough.
    listen(SignalKind::from_raw(FILE_SIZE)).map(drop)
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::ours(format_args!("can't listen for signals: {error}")))
}

/// What asks a process to end.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
