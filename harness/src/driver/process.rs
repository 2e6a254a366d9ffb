//! Processes of the sender under test: started in a group of their own, told what a process can be told, and never left
//! behind. Whatever way the harness ends, they end with it: in order, on a panic, or by `SIGKILL` to the harness itself
//! (see [`hold`]). What they have started ends with them, as it is of their group; but for a `SIGKILL` to the harness, after
//! which nobody is left to tell a group.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::fault::{has_clock, tidy_clock};

/// What is kept of what one process prints.
const LOG_BYTES_MAX: u64 = 32 << 20;

/// How to start a process.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The `hookproof` program, which holds the process: `None` starts it bare.
    pub holder: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Environment variables beside the inherited ones.
    pub env: Vec<(String, String)>,
    /// Where to put what it prints.
    pub log: PathBuf,
}

/// A process that runs. Dropped, it and all its children are killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    gone: bool,
    /// Whether what it has started goes on without it.
    leaves_children: bool,
    /// Whether its wall clock can be set.
    has_clock: bool,
}

impl Process {
    /// Starts it, in a process group of its own.
    pub fn start(launch: &Launch) -> io::Result<Self> {
        let mut command = assemble(launch)?;
        let command = command
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process was gone before it had an id"))?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&launch.log)?;
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(keep(stdout, log.try_clone()?));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep(stderr, log));
        }
        Ok(Self { child, pid, gone: false, leaves_children: false, has_clock: has_clock(&launch.env) })
    }

    /// Its id, which is its group's too.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Lets what it has started go on, now that it has ended itself.
    pub(super) fn leave_children(mut self) {
        self.leaves_children = true;
    }

    /// Sends a signal to it and its children. What is gone already doesn't mind.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        match kill_process_group(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.gone = true;
        Ok(status)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.gone |= status.is_some();
        Ok(status)
    }

    /// It and what it has started: the processes of its group. None where the machine does not tell, or it is gone.
    #[must_use]
    pub fn members(&self) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw).filter(|pid| group_of(*pid) == Some(self.pid)).collect()
    }

    /// Resident memory of it and its group, in bytes. Nothing where the machine does not tell.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<u64> {
        // Who ends in between needs no memory any more.
        let pages: Vec<u64> = self.members().into_iter().filter_map(resident_pages).collect();
        let page_bytes = u64::try_from(rustix::param::page_size()).ok()?;
        (!pages.is_empty()).then(|| pages.iter().sum::<u64>().saturating_mul(page_bytes))
    }

    /// Processor time that it and those of its group that live have used, in nanoseconds. Nothing where the machine does not
    /// tell.
    #[must_use]
    pub fn processor_ns(&self) -> Option<u64> {
        let ticks: Vec<u64> = self.members().into_iter().filter_map(processor_ticks).collect();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        (!ticks.is_empty()).then(|| ticks.iter().sum::<u64>().saturating_mul(tick_ns))
    }
}

/// The group of a process, if it lives.
fn group_of(pid: Pid) -> Option<Pid> {
    Pid::from_raw(i32::try_from(stat(pid, 2)?).ok()?)
}

/// What a process spent in its own code and in the kernel's.
fn processor_ticks(pid: Pid) -> Option<u64> {
    Some(stat(pid, 11)? + stat(pid, 12)?)
}

/// One figure of what the kernel tells of a process, counted from its state on.
fn stat(pid: Pid, place: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The program's name, in brackets, may hold blanks and brackets of its own; then state, parent, group.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(place)?.parse().ok()
}

fn resident_pages(pid: Pid) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_nonzero())).ok()?;
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_clock {
            tidy_clock(self.pid);
        }
        if self.leaves_children {
            return;
        }
        // Also after its end: a child of it may live on in its group. An empty group is no error here.
        let _ = kill_process_group(self.pid, Signal::KILL);
    }
}

/// In the trace's words: `exit 0`, `signal 9`.
#[must_use]
pub fn status_text(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".to_owned(),
    }
}

fn assemble(launch: &Launch) -> io::Result<Command> {
    let (program, arguments) = launch
        .command
        .split_first()
        .ok_or_else(|| io::Error::other("the driver's command is empty; expected a program"))?;
    let mut command = match &launch.holder {
        None => Command::new(program),
        Some(holder) => {
            let mut command = Command::new(holder);
            command.arg("hold").arg(std::process::id().to_string()).arg(program);
            command
        }
    };
    command.args(arguments);
    Ok(command)
}

/// Copies what a process prints into its log, as far as there is room; the rest is read and forgotten, so that the
/// process is never held up.
async fn keep(mut from: impl AsyncRead + Unpin, log: std::fs::File) {
    let mut log = tokio::fs::File::from_std(log);
    let (mut buffer, mut kept) = (vec![0; 16 << 10], 0_u64);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if kept < LOG_BYTES_MAX && log.write_all(&buffer[..read]).await.is_ok() {
            kept = kept.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            // Small, and what explains a death must be in the file when somebody looks.
            let _ = log.flush().await;
        }
    }
}

/// Becomes a program that dies with its parent, and to which writing past a limit on file sizes is an error rather than
/// its death (that is what `disk-full` uses). Returns only if it could not.
pub fn hold(parent: u32, command: &[OsString]) -> io::Error {
    use std::os::unix::process::CommandExt;

    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("no program to hold; expected hold PARENT PROGRAM ARGUMENT…");
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have died before it was asked for.
    let alive = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if alive != Some(parent) {
        return io::Error::other("the harness is gone already");
    }
    // A signal that is ignored stays so in what is executed; only a shell can be told to without unsafe code.
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program).args(arguments).exec()
}

/// A port on loopback that nobody uses at the moment, from below those that the system gives to connections: else one of
/// these could take it before the sender does, or while the sender is down between a kill and its next start.
pub fn free_port() -> io::Result<u16> {
    const FIRST: u16 = 10_000;
    const TRIES: u32 = 2_000;
    /// How far apart two processes begin to look, so that those that run beside one another don't meet.
    const APART: u32 = 97;
    static TURN: AtomicU32 = AtomicU32::new(0);

    let bind = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port));
    let span = u32::from(first_given().saturating_sub(FIRST)).max(1);
    for _ in 0..TRIES {
        let turn = std::process::id().wrapping_mul(APART).wrapping_add(TURN.fetch_add(1, Ordering::Relaxed));
        let port = FIRST.saturating_add(u16::try_from(turn % span).unwrap_or_default());
        if bind(port).is_ok() {
            return Ok(port);
        }
    }
    Ok(bind(0)?.local_addr()?.port())
}

/// The first port that the system gives to connections by itself.
fn first_given() -> u16 {
    /// As Linux has it unless told otherwise.
    const USUAL: u16 = 32_768;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(USUAL)
}

/// Where a worker's prints go.
#[must_use]
pub fn log_path(dir: &Path, worker: u32) -> PathBuf {
    dir.join(format!("sender-{worker}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell with a child, which says on its output that both are there.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn memory_is_that_of_the_whole_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        // It is killed with its group, as the process is dropped.
        let command = ["/bin/sh", "-c", "sleep 600 & echo up; wait"];
        let command = command.into_iter().map(Into::into).collect();
        let launch = Launch { holder: None, command, env: Vec::new(), log: log.clone() };
        let process = Process::start(&launch).expect("a shell");
        while std::fs::read_to_string(&log).unwrap_or_default().is_empty() {
            tokio::task::yield_now().await;
        }
        let members = process.members();
        assert!(members.len() >= 2 && members.contains(&process.pid()), "{members:?}");
        let one = resident_pages(process.pid()).expect("its own") * rustix::param::page_size() as u64;
        assert!(process.resident_bytes().expect("of all") > one, "more than {one} bytes");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_a_settable_clock_keeps_in_memory_goes_with_its_process() {
        use crate::fault::WallClock;

        if WallClock::library().is_none() {
            return eprintln!("what_a_settable_clock_keeps_in_memory: skipped: no libfaketime");
        }
        let skewed = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                      [[fault]]\nat = \"0s\"\ndo = \"clock-skew\"\nby = \"1h\"\n";
        let scenario = crate::scenario::Scenario::from_text(skewed, "x.toml").expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let clock =
            WallClock::of(&scenario, folder.path()).expect("a clock").remove(&0).expect("of one process");
        let log = folder.path().join("log");
        let command = ["/bin/sh", "-c", "echo up; sleep 600"].into_iter().map(Into::into).collect();
        let launch = Launch { holder: None, command, env: clock.env(), log: log.clone() };
        let process = Process::start(&launch).expect("a shell");
        while std::fs::read_to_string(&log).unwrap_or_default().is_empty() {
            tokio::task::yield_now().await;
        }
        let kept = Path::new("/dev/shm").join(format!("faketime_shm_{}", process.pid().as_raw_nonzero()));
        assert!(kept.exists(), "the library is loaded");
        drop(process);
        assert!(!kept.exists(), "{}", kept.display());
    }

    #[test]
    fn ports_differ_and_are_not_those_that_the_system_gives_away() {
        let ports: Vec<u16> = (0..50).map(|_| free_port().expect("a port")).collect();
        let mut distinct = ports.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), ports.len(), "{ports:?}");
        assert!(ports.iter().all(|port| *port < first_given()), "{ports:?}");
    }
}
