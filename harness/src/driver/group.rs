//! Process groups, read from `/proc`: their members and their cost. One scan reads every process of the
//! machine, so a caller asks for all of its groups at once.

use rustix::process::Pid;

/// The cost of process groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Processor time of the living processes, in nanoseconds.
    pub processor_ns: u64,
}

/// The processes of some groups, each named by its leader's id. Empty without `/proc`.
pub(super) fn members(groups: &[Pid]) -> Vec<Pid> {
    in_groups(groups).into_iter().map(|one| one.pid).collect()
}

/// The cost of groups together; none without groups, or where one has no process.
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

/// A line of `/proc/PID/stat`.
struct Stat {
    pid: Pid,
    group: Pid,
    /// Processor time in user and kernel mode.
    ticks: u64,
    /// Resident memory.
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
        // The program's name, in parentheses, may contain blanks and parentheses. State, parent and group
        // follow.
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
    use std::path::PathBuf;

    use super::*;
    use crate::driver::{Launch, Process};

    /// A shell that runs this script and is ready once that wrote to the log. Dropping it kills its group.
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
    async fn what_groups_cost_is_known_of_all_of_them_or_not_at_all() {
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
