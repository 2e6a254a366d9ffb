//! What can be done to the receiver from outside: commands that its owner gives.

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

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
    match timeout(COMMAND_LIMIT, shell.status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("`{command}` ended with {status}")),
        Ok(Err(error)) => Err(format!("`{command}` could not be run: {error}")),
        Err(_) => Err(format!("`{command}` was not over within {} s", COMMAND_LIMIT.as_secs())),
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
        // The run was interrupted: nobody waits any more, and nobody could be told if this failed.
        let mut shell = std::process::Command::new("sh");
        shell.process_group(0).arg("-c").arg(self.mend).stdin(Stdio::null()).stdout(Stdio::null());
        let _unheard = shell.status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_command_starts_is_of_no_group_of_ours() {
        // The fifth word of a process's state is its group, which a leader gives its own number.
        run("[ $(cut -d ' ' -f 5 /proc/$$/stat) = $$ ]").await.unwrap();
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
