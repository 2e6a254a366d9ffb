//! Signals during a run: the first asks for an end, the second for an end at once; some must not end it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hookproof_simulator::sim::remove_folders;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::out::print_stderr;
use crate::run::Interrupt;

/// SIGXFSZ: a file would exceed the limit of the process (`ulimit -f`). Without a handler it kills the
/// process; with one, the write fails and is reported.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const FILE_SIZE: i32 = 31;
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const FILE_SIZE: i32 = 25;

pub(super) struct Interrupts {
    /// Becomes true at the first Ctrl-C or SIGTERM, or when the terminal closes.
    pub(super) first: Interrupt,
    /// Fires at the second Ctrl-C or SIGTERM.
    pub(super) second: oneshot::Receiver<()>,
}

struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// SIGHUP; none if it is ignored, or has been received.
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Listens from now on, within a tokio runtime.
    fn listen() -> io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let hears = hangups_are_ignored() == Some(false);
        let hangup = hears.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt, terminate, hangup })
    }

    /// A closed terminal counts only as the first: shell and kernel both signal it, and no user is left to hurry.
    async fn next(&mut self) {
        let Self { interrupt, terminate, hangup } = self;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(()) = received(hangup) => {}
        }
        self.hangup = None;
    }
}

async fn received(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

/// Whether the process ignored SIGHUP when it started; none if the system does not say.
fn hangups_are_ignored() -> Option<bool> {
    ignores_hangups(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// From a process's `status`: the mask of ignored signals is hexadecimal, and its lowest bit is SIGHUP (1).
fn ignores_hangups(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

pub(super) async fn interrupt_requested() {
    let Ok(mut signals) = EndSignals::listen() else {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler the signal ends the process itself.
            std::future::pending::<()>().await;
        }
        return;
    };
    signals.next().await;
}

pub(super) fn interrupts() -> io::Result<Interrupts> {
    let mut signals = EndSignals::listen()?;
    // One registration replaces the default action for good.
    drop(signal(SignalKind::from_raw(FILE_SIZE))?);
    let ((tell, first), (tell_again, second)) = (watch::channel(false), oneshot::channel());
    tokio::spawn(async move {
        signals.next().await;
        tell.send_replace(true);
        print_stderr("ending the run; interrupt again to stop at once");
        signals.next().await;
        // Without a receiver the run has ended already.
        let _ = tell_again.send(());
        // Keeps the first request visible to late readers.
        std::future::pending::<()>().await;
        drop(tell);
    });
    Ok(Interrupts { first, second })
}

/// Becomes true at the first signal, so that a simulation cleans up. The second ends the program at once.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupt);
    let (ready, listens) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async move {
            let Ok(mut signals) = EndSignals::listen() else { return };
            let _ = ready.send(());
            loop {
                signals.next().await;
                if told.swap(true, Ordering::Relaxed) {
                    // An abort runs no destructors, so the folders in memory would remain.
                    remove_folders();
                    std::process::abort();
                }
                print_stderr(format_args!("ending the simulation; interrupt again to stop at once"));
            }
        });
    });
    // The command begins only once signals are handled. Without a handler the default action applies.
    let _ = listens.recv();
    interrupt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_outlives_its_terminal_is_told_apart() {
        let rows = [
            ("Name:\tsh\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001000\n", Some(false)),
            ("SigIgn:\t0000000000001001\nSigCgt:\t0000000000000000\n", Some(true)),
            ("SigIgn:\tno mask\n", None),
            ("", None),
        ];
        for (status, expected) in rows {
            assert_eq!(ignores_hangups(status), expected, "{status}");
        }
    }
}
