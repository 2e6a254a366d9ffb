//! A command that is interrupted while its simulated sender runs. The databases of simulated runs are in memory: one that is
//! left behind takes it away for good.

use std::process::{Command, Stdio};

/// Waits until the command has opened its sender's database, interrupts it, and asserts that nothing is left behind. Gives
/// back what it said.
#[track_caller]
pub(crate) fn interrupted(command: &mut Command) -> String {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let database = loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let files = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if let Some(database) = { files }.find(|file| file.ends_with("sender.db")) {
            break database;
        }
        std::thread::yield_now();
    };
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(!database.parent().unwrap().exists(), "{} is left behind", database.display());
    said
}
