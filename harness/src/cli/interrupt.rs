//! What is heard of signals while a command plays: the wish to end, the wish to end at once, and what must not end it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::out::say;
use crate::run::Interrupt;

/// SIGXFSZ: a file would grow beyond the limit that the process was given (`ulimit -f`). Unheard, it ends the process
/// without a word; heard, the write fails, and whoever writes says so.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const FILE_SIZE: i32 = 31;
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const FILE_SIZE: i32 = 25;

/// Somebody's wish to end.
pub(super) struct Interrupts {
    /// Turns true at the first Ctrl-C or SIGTERM.
    pub(super) first: Interrupt,
    /// Comes with the second one.
    pub(super) second: oneshot::Receiver<()>,
}

/// Done when somebody asks us to end: Ctrl-C, or the SIGTERM of a job that is cancelled.
pub(super) async fn asked_to_end() {
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        let _done = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            if interrupted.is_err() {
                // Without a handler the signal ends the process by itself.
                std::future::pending::<()>().await;
            }
        }
        _ = terminated.recv() => {}
    }
}

/// Listens from now on, within a tokio runtime.
pub(super) fn interrupts() -> io::Result<Interrupts> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // That somebody has listened once is enough.
    drop(signal(SignalKind::from_raw(FILE_SIZE))?);
    let ((tell, first), (tell_again, second)) = (watch::channel(false), oneshot::channel());
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        next().await;
        tell.send_replace(true);
        say("ending the run; once more to end it at once");
        next().await;
        // Without anybody who waits, it has ended already.
        let _ = tell_again.send(());
        // The first wish stands for as long as anybody asks.
        std::future::pending::<()>().await;
        drop(tell);
    });
    Ok(Interrupts { first, second })
}

/// Turns true at the first Ctrl-C or SIGTERM, so that what is being simulated cleans up after itself. The second one ends
/// the program as ever.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    let interrupt = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&interrupt);
    let (ready, listens) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async move {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
            let [Ok(mut interrupted), Ok(mut terminated)] = kinds.map(signal) else { return };
            // Whoever waits for it may have gone; that it listens is what counts.
            let _ = ready.send(());
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
                if told.swap(true, Ordering::Relaxed) {
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
