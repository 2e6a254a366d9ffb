//! What a command has to say, on stdout and stderr, and how it hears that it should end.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use tokio::signal::unix::{SignalKind, signal};

/// Says a line on stderr. Whoever closed it does not want to hear it, and there is nobody else to tell.
pub(super) fn aside(text: impl Display) {
    let _closed = writeln!(io::stderr().lock(), "{text}");
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

/// Writes a line. A reader that has seen enough, such as `head`, is no failure, and ends nothing: what a command found out
/// is in its exit code too. Whatever else keeps a line from being written is said.
pub(super) fn line(text: impl Display) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("hookproof: writing to stdout: {error}");
    }
}
