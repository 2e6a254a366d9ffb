use hookproof_judge::trace::Records;

use super::*;
use crate::driver::process::members;
use crate::driver::{DriverFile, Variables};

fn one(folder: &std::path::Path) -> (Processes, Records) {
    started_by(folder, r#"["/bin/sh", "-c", "sleep 600 & wait"]"#, "")
}

fn started_by(folder: &std::path::Path, command: &str, more: &str) -> (Processes, Records) {
    let file = format!(
        "name = \"x\"\nsubscribe = {{ request = \"POST {{{{ base }}}}/\" }}\n\
         emit = {{ request = \"POST {{{{ base }}}}/\", body = \"\" }}\n\
         [start]\ncommand = {command}\nready = \"{{{{ base }}}}/\"\n{more}"
    );
    let port = super::super::free_port().unwrap();
    let api = Api::new(DriverFile::parse(&file, "x.toml").unwrap(), &[port], Variables::new()).unwrap();
    let (recorder, records) = Recorder::new(1_000);
    let config =
        ProcessConfig { program: PathBuf::new(), logs: folder.to_owned(), ..ProcessConfig::default() };
    let mut processes = Processes::new(&api, 1, &config, &Clock::begun(), &recorder).unwrap();
    processes.workers[0].launch.holder = None;
    (processes, records)
}

pub(crate) fn running(folder: &std::path::Path) -> (Processes, Records) {
    let (mut processes, records) = one(folder);
    processes.begin(0).unwrap();
    (processes, records)
}

fn blow(kills: bool) -> Blow {
    Blow { kills, plan: Some(4) }
}

async fn whole(processes: &Processes) -> Vec<Pid> {
    loop {
        let members = members(&[pid(processes).unwrap()]);
        if members.len() >= 2 {
            return members;
        }
        tokio::task::yield_now().await;
    }
}

fn pid(processes: &Processes) -> Option<Pid> {
    processes.workers[0].process.as_ref().map(Process::pid)
}

/// Waits until its restart is scheduled too.
async fn gone(processes: &mut Processes) {
    while processes.workers[0].again_at.is_none() {
        processes.poll().unwrap();
        tokio::task::yield_now().await;
    }
}

fn start_again(processes: &mut Processes) -> Pid {
    processes.workers[0].again_at = Some(0);
    processes.poll().unwrap();
    pid(processes).unwrap()
}

fn may_write(pid: Pid) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size")).unwrap();
    line.split_ascii_whitespace().next() != Some("0")
}

pub(crate) fn events(records: &Records) -> Vec<ProcessEvent> {
    let event = |record| if let Record::Process(line) = record { Some(line.event) } else { None };
    records.take().into_iter().filter_map(event).collect()
}

#[tokio::test]
async fn a_missing_process_is_not_struck() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, records) = one(folder.path());
    assert!([true, false].into_iter().all(|kills| processes.strike(0, blow(kills), 0).is_err()));
    assert!(processes.freeze(0, 0).is_err());
    assert!([None, Some(0)].into_iter().all(|worker| processes.fill_disk(worker, 1, u64::MAX).is_err()));
    assert_eq!(events(&records), [], "nothing was done, and nothing is said to be");
    processes.stop(0).await.expect("nobody is there to be stopped");
    processes.begin(0).unwrap();
    assert!(may_write(pid(&processes).unwrap()), "and nothing is done later");
}

#[tokio::test]
async fn a_full_disk_is_full_for_all_and_for_what_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, _records) = one(folder.path());
    processes.begin(0).unwrap();
    let before = whole(&processes).await;
    processes.fill_disk(None, 0, u64::MAX).unwrap();
    assert!(!before.iter().any(|pid| may_write(*pid)), "{before:?}");
    processes.strike(0, blow(true), u64::MAX).unwrap();
    gone(&mut processes).await;
    assert!(!may_write(start_again(&mut processes)), "the next one may write");
    processes.relieve().unwrap();
    assert!(may_write(pid(&processes).unwrap()));
}

#[tokio::test]
async fn a_full_disk_waits_for_a_process_that_is_started_again_before_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, _records) = one(folder.path());
    processes.begin(0).unwrap();
    processes.strike(0, blow(true), 3_600_000_000_000).unwrap();
    gone(&mut processes).await;
    let again_at = processes.workers[0].again_at.unwrap();
    processes.fill_disk(Some(0), 0, again_at).unwrap_err();
    processes.fill_disk(Some(0), 1, again_at + 1).expect("it is done to the one that comes");
    let next = start_again(&mut processes);
    assert!(!may_write(next));
    processes.end_fault(0).unwrap();
    assert!(!may_write(next), "what was not done has no end");
    processes.end_fault(1).unwrap();
    assert!(may_write(next));
}

#[tokio::test]
async fn a_full_disk_waits_for_a_process_that_was_killed_just_before() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, _records) = running(folder.path());
    let again_after = 3_600_000_000_000;
    processes.strike(0, blow(true), again_after).unwrap();
    while pid(&processes).is_some() {
        processes.bury(0).unwrap();
        tokio::task::yield_now().await;
    }
    assert!(processes.workers[0].strike.is_some(), "nobody knows yet that the sender is gone");
    processes.fill_disk(Some(0), 0, again_after).unwrap_err();
    processes.fill_disk(Some(0), 1, u64::MAX).expect("it is done to the one that comes");
    gone(&mut processes).await;
    assert!(!may_write(start_again(&mut processes)));
}

#[tokio::test]
async fn a_disk_that_is_filled_twice_is_full_until_both_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, _records) = one(folder.path());
    processes.begin(0).unwrap();
    let pid = pid(&processes).unwrap();
    processes.fill_disk(None, 0, u64::MAX).unwrap();
    processes.fill_disk(Some(0), 1, u64::MAX).unwrap();
    processes.end_fault(0).unwrap();
    assert!(!may_write(pid), "one of them lasts");
    processes.end_fault(1).unwrap();
    assert!(may_write(pid));
}

#[tokio::test]
async fn a_process_that_is_stopped_twice_goes_on_when_both_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, records) = one(folder.path());
    processes.begin(0).unwrap();
    processes.freeze(0, 0).unwrap();
    processes.freeze(0, 1).unwrap();
    processes.end_fault(0).unwrap();
    let expected = [ProcessEvent::Started, ProcessEvent::Stopped];
    assert_eq!(events(&records), expected, "one of them lasts");
    processes.end_fault(1).unwrap();
    assert_eq!(events(&records), [ProcessEvent::Continued]);
}

#[tokio::test]
async fn the_end_of_a_stop_does_not_continue_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, records) = one(folder.path());
    processes.begin(0).unwrap();
    processes.freeze(0, 0).unwrap();
    processes.strike(0, blow(true), u64::MAX).unwrap();
    gone(&mut processes).await;
    start_again(&mut processes);
    processes.freeze(0, 1).unwrap();
    processes.end_fault(0).unwrap();
    assert!(!events(&records).contains(&ProcessEvent::Continued), "another fault stops it");
    processes.end_fault(1).unwrap();
    assert_eq!(events(&records), [ProcessEvent::Continued]);
}

#[tokio::test]
async fn a_stopped_process_continues_before_it_is_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let (mut processes, records) = one(folder.path());
    processes.begin(0).unwrap();
    processes.freeze(0, 0).unwrap();
    processes.relieve().unwrap();
    processes.relieve().unwrap();
    let expected = [ProcessEvent::Started, ProcessEvent::Stopped, ProcessEvent::Continued];
    assert_eq!(events(&records), expected, "once is enough");
}

#[tokio::test]
async fn a_value_of_the_environment_is_in_no_word_about_a_process_that_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        (r#"["/no/such/{{ env.CARGO_PKG_NAME }}"]"#, "/no/such/…"),
        (
            r#"["/bin/sh", "-c", "echo no key, not even $0; exit 7", "{{ env.CARGO_PKG_NAME }}"]"#,
            "not even …",
        ),
    ];
    for (command, said) in rows {
        let (mut processes, _records) = started_by(folder.path(), command, "");
        let error = processes.start().await.unwrap_err();
        for told in [error.to_string(), format!("{error:?}")] {
            assert!(told.contains(said) && !told.contains(env!("CARGO_PKG_NAME")), "{told}");
        }
    }
}

#[tokio::test]
async fn a_detached_sender_that_is_still_being_started_is_stopped_once_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let sender = folder.path().join("sender");
    // It still runs when the sender is asked to stop.
    let start = format!(r#"["/bin/sh", "-c", "sleep 0.3; touch {}"]"#, sender.display());
    let stop = format!("detached = true\n[stop]\ncommand = [\"rm\", \"{}\"]\n", sender.display());
    let (mut processes, _records) = started_by(folder.path(), &start, &stop);
    processes.begin(0).unwrap();
    processes.stop(30_000_000_000).await.unwrap();
    assert_eq!(processes.take_undone(), []);
    assert!(!sender.exists(), "it was started after it had been stopped");
}
