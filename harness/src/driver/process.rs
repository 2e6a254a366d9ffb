//! Child processes of the sender, each in a process group of its own. They end with the harness: on a normal exit, a
//! panic, and a `SIGKILL` (see [`hold`]). After a `SIGKILL` to the harness, no process is left to signal their
//! descendants.

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

const LOG_BYTES_MAX: u64 = 32 << 20;

#[derive(Clone, Debug)]
pub struct Launch {
    /// The `hookproof` program, which wraps the process; `None` starts it bare.
    pub holder: Option<PathBuf>,
    pub command: Vec<OsString>,
    /// Environment variables beside the inherited ones.
    pub env: Vec<(String, String)>,
    pub log: PathBuf,
}

/// Dropping it kills the process and its group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    gone: bool,
    /// Whether its descendants outlive it.
    leaves_children: bool,
    has_clock: bool,
}

impl Process {
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
        let pid = pid.ok_or_else(|| io::Error::other("the process ended before it had an id"))?;
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&launch.log)?;
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(copy_output(stdout, log.try_clone()?));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(copy_output(stderr, log));
        }
        Ok(Self { child, pid, gone: false, leaves_children: false, has_clock: has_clock(&launch.env) })
    }

    /// Its id, also its group's.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn leave_children(mut self) {
        self.leaves_children = true;
    }

    /// To its group; does nothing after its end.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        match kill_process_group(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.gone = true;
        Ok(status)
    }

    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.gone |= status.is_some();
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.leaves_children {
            // A descendant may live on in its group. An empty group is no error here.
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        if self.has_clock {
            // A descendant that starts would make the files anew, so the group ends first.
            tidy_clock(self.pid);
        }
    }
}

/// The trace's form: `exit 0`, `signal 9`.
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

/// Without room the rest is read and dropped, so that the process never blocks on a pipe.
async fn copy_output(mut from: impl AsyncRead + Unpin, log: std::fs::File) {
    let mut log = tokio::fs::File::from_std(log);
    let (mut buffer, mut kept) = (vec![0; 16 << 10], 0_u64);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if kept < LOG_BYTES_MAX && log.write_all(&buffer[..read]).await.is_ok() {
            kept = kept.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            // The lines that explain a death must be in the file before it is read.
            let _ = log.flush().await;
        }
    }
}

/// Replaces this process by a program that dies with its parent. A write past the file-size limit fails instead of
/// killing it (`disk-full`). Returns only on an error.
pub fn hold(parent: u32, command: &[OsString]) -> io::Error {
    use std::os::unix::process::CommandExt;

    let Some((program, arguments)) = command.split_first() else {
        return io::Error::other("no program is named; expected hold PARENT PROGRAM ARGUMENT…");
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // The parent may have died already.
    let alive = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if alive != Some(parent) {
        return io::Error::other("the harness has ended already");
    }
    // An ignored signal stays ignored after `exec`; without unsafe code only a shell can ignore it.
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program).args(arguments).exec()
}

/// On loopback. Prefers ports outside of the system's ephemeral range: a connection could take one of those while the
/// sender is not listening.
pub fn free_port() -> io::Result<u16> {
    static LAST: Mutex<Option<u16>> = Mutex::new(None);
    // A panic leaves this value whole.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    choose_port(&not_given(given_to_connections()), &mut last)
}

/// The next after the last one, so that a port is not chosen again soon.
fn choose_port(ports: &Range<u16>, last: &mut Option<u16>) -> io::Result<u16> {
    /// Harness processes start so far apart, so that they do not compete.
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

/// Below the ephemeral range, or else above it; all, where both are few.
fn not_given(given: RangeInclusive<u16>) -> Range<u16> {
    const FIRST: u16 = 10_000;
    /// More than the processes of several concurrent runs.
    const ENOUGH: usize = 500;
    let (below, above) = (FIRST..*given.start(), given.end().saturating_add(1)..u16::MAX);
    [below, above].into_iter().find(|ports| ports.len() >= ENOUGH).unwrap_or(FIRST..u16::MAX)
}

/// The ephemeral ports.
fn given_to_connections() -> RangeInclusive<u16> {
    /// The default of Linux.
    const USUAL: RangeInclusive<u16> = 32_768..=60_999;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().map_while(|end| end.parse().ok());
    ends.next().zip(ends.next()).map_or(USUAL, |(first, last)| first..=last)
}

#[must_use]
pub fn log_path(dir: &Path, worker: u32) -> PathBuf {
    dir.join(format!("sender-{worker}.log"))
}

// One scan of `/proc` reads every process of the machine, so a caller asks for all of its groups at once.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub resident_bytes: u64,
    /// Processor time of the living processes, in nanoseconds.
    pub processor_ns: u64,
}

/// Each group is named by its leader's id. Empty without `/proc`.
pub(super) fn members(groups: &[Pid]) -> Vec<Pid> {
    in_groups(groups).into_iter().map(|one| one.pid).collect()
}

/// None without groups, or where one has no process.
#[must_use]
pub fn cost_of(groups: &[Pid]) -> Option<Cost> {
    let found = in_groups(groups);
    let is_told = |group: &Pid| found.iter().any(|one| one.group == *group);
    if groups.is_empty() || !groups.iter().all(is_told) {
        return None;
    }
    let sum = |figure: fn(&Stat) -> u64| found.iter().map(figure).sum::<u64>();
    let page_bytes = u64::try_from(rustix::param::page_size()).ok()?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(Cost {
        resident_bytes: sum(|one| one.pages).saturating_mul(page_bytes),
        processor_ns: sum(|one| one.ticks).saturating_mul(tick_ns),
    })
}

/// What the processors have done, in nanoseconds of one of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processors {
    /// The sum of all states.
    pub all: u64,
    /// For nothing.
    pub idle: u64,
    /// For programs, and for other virtual machines.
    pub programs: u64,
    /// For this process.
    pub harness: u64,
}

/// None without `/proc`.
#[must_use]
pub fn processors() -> Option<Processors> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let figures = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let figures: Vec<u64> = figures.map(|figure| figure.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, idle, waiting, hard, soft, stolen, ..] = figures[..] else { return None };
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let sum = |ticks: &[u64]| ticks.iter().sum::<u64>().saturating_mul(tick_ns);
    Some(Processors {
        all: sum(&[user, nice, system, idle, waiting, hard, soft, stolen]),
        idle: sum(&[idle, waiting]),
        programs: sum(&[user, nice, system, stolen]),
        harness: sum(&[Stat::of(rustix::process::getpid())?.ticks]),
    })
}

struct Stat {
    pid: Pid,
    group: Pid,
    /// Processor time in user and kernel mode.
    ticks: u64,
    pages: u64,
}

fn in_groups(groups: &[Pid]) -> Vec<Stat> {
    if groups.is_empty() {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = pids.filter_map(Pid::from_raw).filter_map(Stat::of);
    all.filter(|one| groups.contains(&one.group)).collect()
}

impl Stat {
    /// Parses the line of a process; none for one that has ended.
    fn of(pid: Pid) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name, in parentheses, may contain blanks and parentheses. State, parent and group follow.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        if matches!(fields.first()?, &("Z" | "X")) {
            return None;
        }
        let figure = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Self {
            pid,
            group: Pid::from_raw(i32::try_from(figure(2)?).ok()?)?,
            ticks: figure(11)?.saturating_add(figure(12)?),
            pages: figure(21)?,
        })
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;
    use crate::driver::{Launch, Process};

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_shared_memory_of_a_settable_clock_ends_with_its_process() {
        use crate::fault::WallClock;

        if WallClock::library().is_none() {
            return eprintln!("what_a_settable_clock_keeps_in_memory: skipped: no libfaketime");
        }
        let skewed = "name = \"x\"\n[[traffic]]\nshape = \"burst\"\nevents = 1\n[[subscriber]]\nname = \"a\"\n\
                      [[fault]]\nat = \"0s\"\ndo = \"clock-skew\"\nby = \"1h\"\n";
        let scenario = hookproof_judge::scenario::Scenario::from_text(skewed, "x.toml").expect("valid");
        let folder = tempfile::tempdir().expect("a folder");
        let clock =
            WallClock::of(&scenario, folder.path()).expect("a clock").remove(&0).expect("of one process");
        let log = folder.path().join("log");
        let command = ["/bin/sh", "-c", "echo up; while :; do :; done"].into_iter().map(Into::into).collect();
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

    /// Ready once the script wrote to the log. Dropping it kills its group.
    async fn shell(log: PathBuf, script: &str) -> Process {
        let command = ["/bin/sh", "-c", script].into_iter().map(Into::into).collect();
        let launch = Launch { holder: None, command, env: Vec::new(), log: log.clone() };
        let process = Process::start(&launch).expect("a shell");
        while std::fs::read_to_string(&log).unwrap_or_default().is_empty() {
            tokio::task::yield_now().await;
        }
        process
    }

    #[tokio::test]
    async fn memory_is_that_of_the_whole_group() {
        let folder = tempfile::tempdir().expect("a folder");
        // The inner shell writes: until its program runs it has no memory of its own.
        let script = "/bin/sh -c 'sleep 600 & echo up; wait' & wait";
        let process = shell(folder.path().join("log"), script).await;
        let members = members(&[process.pid()]);
        assert!(members.len() >= 2 && members.contains(&process.pid()), "{members:?}");
        let one = Stat::of(process.pid()).expect("its own").pages * rustix::param::page_size() as u64;
        let all = cost_of(&[process.pid()]).expect("of all").resident_bytes;
        assert!(all > one, "{all} bytes, of which {one} are the shell's");
    }

    #[tokio::test]
    async fn the_cost_of_process_groups_is_known_for_all_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let two = shell(folder.path().join("two"), "sleep 600 & echo up; wait").await;
        let mut one = shell(folder.path().join("one"), "echo up; exec sleep 600").await;
        let both = [two.pid(), one.pid()];
        assert_eq!(in_groups(&both).len(), 3);
        assert!(cost_of(&both).is_some());
        one.signal(rustix::process::Signal::KILL).expect("it is told");
        one.wait().await.expect("it ends");
        assert_eq!((in_groups(&both).len(), cost_of(&both)), (2, None));
        assert!(cost_of(&both[..1]).is_some());
        assert_eq!(cost_of(&[]), None, "nobody is there");
    }
}
