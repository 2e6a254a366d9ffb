//! The user's commands that act on the receiver.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::wire::command::Group;
use crate::wire::request::Target;

const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Accesses to the receiver beside its deliveries; the last three are shell commands.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// The URL that lists processed ids.
    pub effects: Option<Target>,
    /// Restarts the receiver; returns when it serves or soon will.
    pub restart: Option<String>,
    /// Makes the receiver answer deliveries with 5xx: stops its database, fills its disk.
    pub break_it: Option<String>,
    /// Undoes `break_it`.
    pub mend: Option<String>,
}

/// Discards the output, because a server that the command starts may keep it open.
pub(super) async fn run(command: &str) -> Result<(), String> {
    let mut shell = Command::new("sh");
    // Kills an abandoned command.
    shell
        .kill_on_drop(true)
        // A process group of its own: processes that it starts outlive the harness, and do not get its Ctrl-C.
        .process_group(0)
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let unrun = |error: std::io::Error| format!("`{command}` could not be run: {error}");
    let mut child = shell.spawn().map_err(unrun)?;
    let mut group = Group::of(child.id());
    let ended = timeout(COMMAND_LIMIT, child.wait()).await;
    let ended = ended.map_err(|_| format!("`{command}` did not end within {} s", COMMAND_LIMIT.as_secs()))?;
    // Its descendants may live on, such as a restarted server.
    group.release();
    match ended.map_err(unrun)? {
        status if status.success() => Ok(()),
        status => Err(format!("`{command}` ended with {status}")),
    }
}

pub(super) struct Broken<'a> {
    mend: &'a str,
    mended: bool,
}

impl<'a> Broken<'a> {
    pub(super) fn new(mend: &'a str) -> Self {
        Self { mend, mended: false }
    }

    pub(super) async fn mend(mut self) -> Result<(), String> {
        let done = run(self.mend).await;
        self.mended = true;
        done
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if self.mended {
            return;
        }
        // The run was interrupted: no report could take an error.
        run_unheard(self.mend, COMMAND_LIMIT);
    }
}

/// Runs a command synchronously, and kills its group after the limit.
fn run_unheard(command: &str, limit: Duration) {
    let mut shell = std::process::Command::new("sh");
    shell.process_group(0).arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(mut child) = shell.spawn() else { return };
    let mut group = Group::of(Some(child.id()));
    let (tell, ended) = mpsc::channel();
    // Waits even after a kill, so that no zombie remains.
    let waiter = std::thread::Builder::new().spawn(move || {
        let _unheard = child.wait();
        let _ = tell.send(());
    });
    if waiter.is_ok() && ended.recv_timeout(limit).is_ok() {
        group.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process lives; a killed one is gone or a zombie once the kernel has handled it.
    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[tokio::test]
    async fn a_hook_runs_in_its_own_process_group() {
        // The fifth field is the process group, whose leader has the same number.
        run("[ $(cut -d ' ' -f 5 /proc/$$/stat) = $$ ]").await.unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_hook_leaves_no_child() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("child");
        let command = format!("sleep 600 & echo $! >{}; wait", path.display());
        let giving_up = tokio::spawn(async move { run(&command).await });
        let child = loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n') {
                break pid.to_owned();
            }
            tokio::task::yield_now().await;
        };
        giving_up.abort();
        assert!(giving_up.await.unwrap_err().is_cancelled());
        while lives(&child) {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_command_that_mends_and_does_not_end_is_given_up_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("child");
        // Long enough for the shell to start, and far shorter than its sleep.
        run_unheard(&format!("sleep 600 & echo $! >{}; wait", path.display()), Duration::from_secs(2));
        let child = std::fs::read_to_string(path).unwrap();
        while lives(child.trim()) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_broken_receiver_is_restored_exactly_once() {
        let folder = tempfile::tempdir().unwrap();
        let mended = folder.path().join("mended");
        let mend = format!("echo mended >>{}", mended.display());
        let times = || std::fs::read_to_string(&mended).unwrap_or_default().lines().count();
        drop(Broken::new(&mend));
        assert_eq!(times(), 1, "the case was dropped");
        Broken::new(&mend).mend().await.unwrap();
        assert_eq!(times(), 2, "the case went on");
        assert!(Broken::new("exit 3").mend().await.unwrap_err().contains("exit 3"));
    }
}
