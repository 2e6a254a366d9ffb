//! What can be done to the receiver from outside: commands that its owner gives.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;
use tokio::time::timeout;

/// The longest that a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Commands for the shell.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Restarts the receiver, and is over when it serves again or soon will.
    pub restart: Option<String>,
    /// Makes the receiver fail deliveries with 5xx: stops its database, fills its disk.
    pub break_it: Option<String>,
    /// Undoes that.
    pub mend: Option<String>,
}

/// Runs a command. What it prints is not ours to show: it may start a server that keeps its output open.
pub(super) async fn run(command: &str) -> Result<(), String> {
    let mut shell = Command::new("sh");
    // One that is given up, or that an interrupted run leaves behind, ends.
    shell
        .kill_on_drop(true)
        // What it starts outlives us, and does not end with the Ctrl-C that is meant for us.
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
    let ended =
        ended.map_err(|_| format!("`{command}` was not over within {} s", COMMAND_LIMIT.as_secs()))?;
    // What it has started may go on: a server that it restarted does.
    group.0 = None;
    match ended.map_err(unrun)? {
        status if status.success() => Ok(()),
        status => Err(format!("`{command}` ended with {status}")),
    }
}

/// The group of a command that is under way. Dropped, all of it is killed.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // One that is gone already needs no killing.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A receiver that is broken, or is being broken: whatever becomes of the case, it is mended.
pub(super) struct Broken<'a> {
    mend: &'a str,
    mended: bool,
}

impl<'a> Broken<'a> {
    pub(super) fn new(mend: &'a str) -> Self {
        Self { mend, mended: false }
    }

    /// Mends it, and says whether that worked.
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
        // The run was interrupted: nobody could be told if this failed.
        run_unheard(self.mend, COMMAND_LIMIT);
    }
}

/// Runs a command where nothing can be awaited, and kills it with all that it started if it is not over within the limit.
fn run_unheard(command: &str, limit: Duration) {
    let mut shell = std::process::Command::new("sh");
    shell.process_group(0).arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
    let Ok(mut child) = shell.spawn() else { return };
    let mut group = Group::of(Some(child.id()));
    let (tell, ended) = mpsc::channel();
    // It goes on until the command has ended, also where that has to be killed: else a zombie would be left.
    let waiter = std::thread::Builder::new().spawn(move || {
        let _unheard = child.wait();
        // After the limit nobody listens.
        let _ = tell.send(());
    });
    if waiter.is_ok() && ended.recv_timeout(limit).is_ok() {
        // What it has started may go on.
        group.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a process lives: killed, it is gone or a zombie, as soon as the kernel comes to it.
    fn lives(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    #[tokio::test]
    async fn what_a_command_starts_is_of_no_group_of_ours() {
        // The fifth word of a process's state is its group, which a leader gives its own number.
        run("[ $(cut -d ' ' -f 5 /proc/$$/stat) = $$ ]").await.unwrap();
    }

    #[tokio::test]
    async fn what_is_given_up_leaves_no_child() {
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
        // Long enough for the shell to begin, and far shorter than it takes.
        run_unheard(&format!("sleep 600 & echo $! >{}; wait", path.display()), Duration::from_secs(2));
        let child = std::fs::read_to_string(path).unwrap();
        while lives(child.trim()) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn what_was_broken_is_mended_once_whatever_happens() {
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
