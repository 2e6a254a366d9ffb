use hookproof_judge::scenario::FaultKind;
use hookproof_judge::trace::ProcessEvent;

use super::Row;
use super::run::{Run, calm, forgiving};

pub(super) const ROWS: [Row; 10] = [
    Row {
        check: "crash.ack-then-kill",
        broken: "an event that was taken just before a kill never comes; the scenario lets one be lost",
        good: || {
            let mut run = forgiving("[[fault]]\nat = \"1600ms\"\ndo = \"kill\"\nlasts = \"400ms\"");
            run.killed(1_600, 2_000).event(0, 1_500).request(0, 2_010, 204);
            run
        },
        breaks: |run| {
            run.unsent();
        },
    },
    Row {
        check: "crash.stop",
        broken: "a process that is asked to stop takes six seconds; it promised to be gone in two",
        good: stopped,
        breaks: |run| run.trace.processes[3].t += 5_000_000_000,
    },
    Row {
        check: "crash.takeover",
        broken: "after a kill a lane with work is left alone for twenty seconds; five are promised",
        good: taken_over,
        breaks: |run| {
            run.moved(1, 22_000);
        },
    },
    Row {
        check: "process.exits",
        broken: "a process that is asked to stop ends with 101",
        good: || {
            let mut run = calm("");
            run.process(0, 0, ProcessEvent::Started).process(0, 50_000, ProcessEvent::Asked);
            run.process(0, 51_000, ProcessEvent::Exited);
            run
        },
        breaks: |run| run.trace.processes[2].status = Some("exit 101".to_owned()),
    },
    Row {
        check: "fault.disk-full",
        broken: "once the disk has room again, waiting deliveries come after half a minute; five seconds are promised",
        good: || befallen(FaultKind::DiskFull, ""),
        breaks: |run| {
            run.moved(1, 33_000);
        },
    },
    Row {
        check: "fault.locked",
        broken: "once the database is free again, waiting deliveries come after half a minute; five seconds are promised",
        good: || befallen(FaultKind::LockDatabase, ""),
        breaks: |run| {
            run.moved(1, 33_000);
        },
    },
    Row {
        check: "fault.database-restart",
        broken: "once the database server is there again, waiting deliveries come after half a minute; five seconds are promised",
        good: || befallen_with("store = \"postgres\"", FaultKind::DatabaseRestart, ""),
        breaks: |run| {
            run.moved(1, 33_000);
        },
    },
    Row {
        check: "fault.partition",
        broken: "once the process reaches its server again, waiting deliveries come after half a minute; five seconds are promised",
        good: || befallen_with("store = \"postgres\"", FaultKind::Partition, ""),
        breaks: |run| {
            run.moved(1, 33_000);
        },
    },
    Row {
        check: "fault.clock-step",
        broken: "once the clock is right again, waiting deliveries come after half a minute; five seconds are promised",
        good: || befallen(FaultKind::ClockStep, "by = \"-1h\""),
        breaks: |run| {
            run.moved(1, 33_000);
        },
    },
    Row {
        check: "fault.clock-skew",
        broken: "deliveries of a process with a clock ahead come ten seconds after that is right again; five seconds are promised",
        good: skewed,
        breaks: |run| {
            run.moved(2, 13_000);
        },
    },
];

/// The only process's clock is ahead from 1 to 3 s, as a timestamp shows; its last delivery comes right after that.
fn skewed() -> Run {
    let fault = "[[fault]]\nat = \"1s\"\nlasts = \"2s\"\ndo = \"clock-skew\"\nby = \"90s\"";
    // Without a rate: a wrong clock does not excuse a rate used too little.
    let mut run = Run::limited("in_flight = 10", &format!("[sender]\ntakeover_within = \"5s\"\n{fault}"));
    run.delivery(0, 500).fault(1_000, FaultKind::ClockSkew, 3_000).delivery(1, 1_500).stamped(1, 91);
    run.event(2, 2_000).request(2, 3_010, 204);
    run
}

fn stopped() -> Run {
    use ProcessEvent::{Asked, Exited, Ready, Started};
    let more = "[sender]\nstop_within = \"2s\"\n[[fault]]\nat = \"4s\"\ndo = \"restart\"";
    let mut run = calm(more);
    for (t, event) in [(0, Started), (0, Ready), (4_000, Asked), (5_000, Exited), (11_000, Started)] {
        run.process(0, t, event);
    }
    run.process(0, 11_000, Ready).fault(4_000, FaultKind::Restart, 11_000);
    run
}

/// The sender is killed while an event waits, and sends it half a second after the restart.
fn taken_over() -> Run {
    let more = "[sender]\ntakeover_within = \"5s\"\n[[fault]]\nat = \"2s\"\ndo = \"kill\"\nlasts = \"500ms\"";
    let mut run = Run::new(more);
    run.delivery(0, 1_000).event(1, 1_900).request(1, 3_000, 204).killed(2_000, 2_500);
    run
}

fn befallen(kind: FaultKind, how: &str) -> Run {
    befallen_with("", kind, how)
}

fn befallen_with(setup: &str, kind: FaultKind, how: &str) -> Run {
    let fault = format!("[[fault]]\nat = \"1s\"\nlasts = \"2s\"\ndo = \"{kind}\"\n{how}");
    let mut run = Run::new(&format!("[sender]\n{setup}\ntakeover_within = \"5s\"\n{fault}"));
    run.delivery(0, 500).fault(1_000, kind, 3_000).event(1, 2_000).request(1, 3_010, 204);
    run
}
