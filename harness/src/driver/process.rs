//! Processes of the sender under test: started in a group of their own, told what a process can be told, and never left
//! behind. Whatever way the harness ends, they end with it: in order, on a panic, or by `SIGKILL` to the harness itself
//! (see [`hold`]). What they have started ends with them, as it is of their group; but for a `SIGKILL` to the harness, after
//! which nobody is left to tell a group.

use std::ffi::OsString;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

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

/// A port on loopback that nobody uses at the moment, and that was not chosen before while there is another; where there is room for
/// that, none of those that the system gives to connections: else one of these could take it before the sender does, or while the
/// sender is down between a kill and its next start.
pub fn free_port() -> io::Result<u16> {
    static LAST: Mutex<Option<u16>> = Mutex::new(None);
    // Whoever panicked left nothing half done.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    choose_port(&not_given(given_to_connections()), &mut last)
}

/// The next of these ports, after the last one that was chosen, that nobody uses at the moment: each has its turn before one is
/// chosen again.
fn choose_port(ports: &Range<u16>, last: &mut Option<u16>) -> io::Result<u16> {
    /// How far apart two processes begin to look, so that those that run beside one another don't meet.
    const APART: usize = 97;

    let begin = match *last {
        Some(last) => usize::from(last.saturating_sub(ports.start)) + 1,
        None => usize::try_from(std::process::id()).unwrap_or_default().wrapping_mul(APART),
    };
    let mut in_turn = ports.clone().cycle().skip(begin % ports.len()).take(ports.len());
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = in_turn.find(is_free).ok_or_else(|| io::Error::other("no port on loopback is free"))?;
    *last = Some(port);
    Ok(port)
}

/// The ports below those that the system gives to connections by itself, or else those above them; where there are few of both, all.
fn not_given(given: RangeInclusive<u16>) -> Range<u16> {
    const FIRST: u16 = 10_000;
    /// More than any run has processes, and some for those that run beside it.
    const ENOUGH: usize = 500;
    let (below, above) = (FIRST..*given.start(), given.end().saturating_add(1)..u16::MAX);
    [below, above].into_iter().find(|ports| ports.len() >= ENOUGH).unwrap_or(FIRST..u16::MAX)
}

/// The ports that the system gives to connections by itself.
fn given_to_connections() -> RangeInclusive<u16> {
    /// As Linux has it unless told otherwise.
    const USUAL: RangeInclusive<u16> = 32_768..=60_999;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map_while(|end| end.parse().ok());
    ends.next().zip(ends.next()).map_or(USUAL, |(first, last)| first..=last)
}

/// Where a worker's prints go.
#[must_use]
pub fn log_path(dir: &Path, worker: u32) -> PathBuf {
    dir.join(format!("sender-{worker}.log"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
        let below = 10_000..32_768;
        let above = 61_000..u16::MAX;
        let all = 10_000..u16::MAX;
        for (given, expected) in [
            (32_768..=60_999, below.clone()),
            (32_768..=u16::MAX, below),
            (1_024..=60_999, above.clone()),
            (10_000..=60_999, above.clone()),
            (10_100..=60_999, above),
            (1_024..=u16::MAX, all.clone()),
            (10_100..=65_400, all),
        ] {
            let ports = not_given(given.clone());
            assert_eq!(ports, expected, "{given:?}");
            let mut last = None;
            let chosen = (0..50).map(|_| choose_port(&ports, &mut last).expect("a port"));
            let chosen: BTreeSet<u16> = chosen.collect();
            assert!(chosen.iter().all(|port| ports.contains(port)), "{given:?}: {chosen:?}");
            assert_eq!(chosen.len(), 50, "{given:?}: {chosen:?}");
        }
    }

    #[test]
    fn a_port_is_chosen_again_once_all_others_were() {
        let port = free_port().expect("a port");
        let mut last = None;
        for _ in 0..2 {
            assert_eq!(choose_port(&(port..port + 1), &mut last).ok(), Some(port));
        }
    }

    #[test]
    fn a_port_is_chosen_once() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port().expect("a port")).collect();
        assert_eq!(ports.len(), 50, "{ports:?}");
    }
}
