//! The database of a simulated run is in memory, so a leftover occupies memory permanently.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Interrupts it by SIGTERM and by closing its terminal; no file may be left. Returns the last output.
#[track_caller]
pub(crate) fn interrupted(command: &mut Command) -> String {
    let said = ended_by(command, &["-TERM"]);
    if ignores_hangups() {
        eprintln!("closing the terminal: skipped: this test ignores SIGHUP (nohup), and so does the command");
        return said;
    }
    // A closed terminal sends SIGHUP from the shell, and then from the kernel.
    ended_by(command, &["-HUP", "-HUP"])
}

#[track_caller]
fn ended_by(command: &mut Command, signals: &[&str]) -> String {
    let (child, database) = in_its_midst(command);
    signals.iter().for_each(|signal| send(&child, signal));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{signals:?}: {said}");
    assert!(!database.parent().unwrap().exists(), "{} is left behind", database.display());
    said
}

#[track_caller]
pub(crate) fn in_its_midst(command: &mut Command) -> (Child, PathBuf) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        let files = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if let Some(database) = { files }.find(|file| file.ends_with("sender.db")) {
            return (child, database);
        }
        std::thread::yield_now();
    }
}

#[track_caller]
pub(crate) fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}
