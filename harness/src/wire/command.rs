//! A command reads one raw request on stdin, and answers by its exit code.
//!
//! 0 accepts the request, which counts as the answer 204. 1 rejects it, as 401. All else is a failure, as 500: another
//! code, a signal, and 1 with a stack trace on stderr, since Python and Node end so after an uncaught exception.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::answer::{Answer, has_trace};
use super::clock::Watch;
use super::exchange::{Exchange, Feed, Outcome};

/// The rest of a longer text on stderr is dropped.
const STDERR_BYTES_MAX: u64 = 64 * 1024;

/// Kills a process group when dropped.
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Its processes may live on.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A feed without an end is cut to its first bytes.
pub(super) async fn exchange(command: &str, feed: &Feed, limit: Duration) -> Exchange {
    let (Feed::Whole(bytes) | Feed::Slow(bytes, ..) | Feed::Endless(bytes, ..)) = feed;
    let watch = Watch::start();
    let outcome = timeout(limit, run(command, bytes)).await.unwrap_or(Outcome::Silent);
    Exchange { outcome, took: watch.passed(), written: bytes.len() as u64 }
}

async fn run(command: &str, request: &[u8]) -> Outcome {
    let mut shell = Command::new("sh");
    shell
        .kill_on_drop(true)
        .process_group(0)
        .arg("-c")
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = match shell.spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::Unreachable(error.to_string()),
    };
    let _killed_at_the_end = Group::of(child.id());
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let writing = async {
        if let Some(mut stdin) = stdin {
            // A command may end without reading.
            let _closed = stdin.write_all(request).await;
        }
    };
    let mut told = Vec::new();
    let reading = async {
        if let Some(mut stderr) = stderr {
            let _cut = (&mut stderr).take(STDERR_BYTES_MAX).read_to_end(&mut told).await;
            let _dropped = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        }
    };
    let ended = async { tokio::join!(writing, reading, child.wait()).2 };
    match ended.await {
        Ok(status) => outcome(status, told),
        Err(error) => Outcome::Unreachable(error.to_string()),
    }
}

fn outcome(status: ExitStatus, told: Vec<u8>) -> Outcome {
    let status = match status.code() {
        Some(0) => 204,
        Some(1) if !has_trace(&String::from_utf8_lossy(&told)) => 401,
        // The shell did not find the command, or may not run it.
        Some(126 | 127) => return Outcome::Unreachable(String::from_utf8_lossy(&told).trim().to_owned()),
        _ => 500,
    };
    Outcome::Answer(Answer { status, headers: Vec::new(), body: told, keeps_open: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status_of(command: &str) -> Option<u16> {
        let feed = Feed::Whole(vec![b'x'; 1_000_000]);
        match exchange(command, &feed, Duration::from_secs(60)).await.outcome {
            Outcome::Answer(answer) => Some(answer.status),
            _ => None,
        }
    }

    #[tokio::test]
    async fn an_exit_code_is_an_answer() {
        let rows = [
            ("[ $(wc -c) = 1000000 ]", Some(204)),
            ("exit 0", Some(204)),
            ("cat >/dev/null; echo 'not genuine' >&2; exit 1", Some(401)),
            ("exit 2", Some(500)),
            ("kill -9 $$", Some(500)),
            ("echo 'Traceback (most recent call last):' >&2; exit 1", Some(500)),
            ("no-such-command-of-hookproof", None),
        ];
        for (command, expected) in rows {
            assert_eq!(status_of(command).await, expected, "{command}");
        }
    }

    #[tokio::test]
    async fn a_command_that_does_not_end_is_no_answer() {
        let feed = Feed::Whole(b"x".to_vec());
        let exchange = exchange("sleep 600", &feed, Duration::from_millis(100)).await;
        assert_eq!(exchange.outcome, Outcome::Silent);
    }
}
