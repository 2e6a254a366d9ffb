//! What is heard of signals while a command plays: the wish to end, the wish to end at once, and what must not end it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::out::say;
use crate::run::Interrupt;
use crate::sim::remove_folders;

/// SIGXFSZ: a file would grow beyond the limit that the process was given (`ulimit -f`). Unheard, it ends the process
/// without a word; heard, the write fails, and whoever writes says so.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const FILE_SIZE: i32 = 31;
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const FILE_SIZE: i32 = 25;

/// Somebody's wish to end.
pub(super) struct Interrupts {
    /// Turns true at the first Ctrl-C or SIGTERM, or when the terminal is closed.
    pub(super) first: Interrupt,
    /// Comes with the second Ctrl-C or SIGTERM.
    pub(super) second: oneshot::Receiver<()>,
}

/// The signals by which somebody asks us to end: Ctrl-C, the SIGTERM of a job that is cancelled, and the SIGHUP of a terminal
/// that is closed.
struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is not listened for, or counts no more.
    hangup: Option<Signal>,
}

impl EndSignals {
    /// Listens from now on, within a tokio runtime. A process that was told to outlive its terminal (`nohup`) does so.
    fn listen() -> io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let hears = hangups_are_ignored() == Some(false);
        let hangup = hears.then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Waits for the next of them. A closed terminal counts as the first one alone: a shell and the kernel both tell of it,
    /// and nobody is left who is in a hurry.
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

/// The next of a signal; none of one that is not listened for.
async fn received(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

/// Whether the process ignored SIGHUP when it was started; none where the system doesn't say.
fn hangups_are_ignored() -> Option<bool> {
    ignores_hangups(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The same by the `status` of a process: its ignored signals are a hexadecimal mask, whose lowest bit is signal 1, SIGHUP.
fn ignores_hangups(status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 == 1)
}

/// Done when somebody asks us to end.
pub(super) async fn asked_to_end() {
    let Ok(mut signals) = EndSignals::listen() else {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler the signal ends the process by itself.
            std::future::pending::<()>().await;
        }
        return;
    };
    signals.next().await;
}

/// Listens from now on, within a tokio runtime.
pub(super) fn interrupts() -> io::Result<Interrupts> {
    let mut signals = EndSignals::listen()?;
    // That somebody has listened once is enough.
    drop(signal(SignalKind::from_raw(FILE_SIZE))?);
    let ((tell, first), (tell_again, second)) = (watch::channel(false), oneshot::channel());
    tokio::spawn(async move {
        signals.next().await;
        tell.send_replace(true);
        say("ending the run; once more to end it at once");
        signals.next().await;
        // Without anybody who waits, it has ended already.
        let _ = tell_again.send(());
        // The first wish stands for as long as anybody asks.
        std::future::pending::<()>().await;
        drop(tell);
    });
    Ok(Interrupts { first, second })
}

/// Turns true at the first Ctrl-C or SIGTERM, or when the terminal is closed, so that what is being simulated cleans up after
/// itself. The second Ctrl-C or SIGTERM ends the program at once.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupt);
    let (ready, listens) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async move {
            let Ok(mut signals) = EndSignals::listen() else { return };
            // Whoever waits for it may have gone; that it listens is what counts.
            let _ = ready.send(());
            loop {
                signals.next().await;
                if told.swap(true, Ordering::Relaxed) {
                    // Nothing is dropped by this, and what is in memory would stay there for good.
                    remove_folders();
                    std::process::abort();
                }
                say(format_args!("ending the simulation; once more to end it at once"));
            }
        });
    });
    // Nothing begins that could not be interrupted. Where nobody can listen, a signal ends the program as ever.
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
