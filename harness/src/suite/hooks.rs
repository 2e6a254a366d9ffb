//! What can be done to the receiver from outside: commands that its owner gives.

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
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match timeout(COMMAND_LIMIT, shell.status()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("`{command}` ended with {status}")),
        Ok(Err(error)) => Err(format!("`{command}` could not be run: {error}")),
        Err(_) => Err(format!("`{command}` was not over within {} s", COMMAND_LIMIT.as_secs())),
    }
}
