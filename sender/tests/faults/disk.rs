//! The small disk is a tmpfs in its own mount namespace, which the kernel removes with its process. Where the system
//! allows no namespace, its tests print a line and pass, unless `HOOKPROOF_DEMANDS` names `namespace`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, SERVE, Serving, event};
use crate::faults::{WIDE, holds_still, offer};

/// In MiB: the reserve, the margin over it, and as much again.
const DISK_MIB: u32 = 96;
const RESERVE_BYTES: u64 = 32 << 20;
/// More deliveries than the existing log can hold.
const OWED: u64 = 3_000;

struct SmallDisk {
    holder: Child,
    database: Database,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        let disk = Self::mounted();
        if disk.is_none() {
            let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
            assert!(!demands.split(',').any(|demand| demand == "namespace"), "no small disk can be mounted");
            eprintln!("skipped: no namespace to mount a small disk in");
        }
        disk
    }

    fn mounted() -> Option<Self> {
        let database = Database::new();
        let mount = format!("mount -t tmpfs -o size={DISK_MIB}m none \"$0\" && echo mounted && exec cat");
        let mut holder = Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", &mount])
            .arg(database.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let disk = Self { holder, database };
        (!line.is_empty()).then_some(disk)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let target = self.holder.id().to_string();
        let program = env!("CARGO_BIN_EXE_hookproof-sender");
        let enter = ["--target", &target, "--user", "--mount", "--preserve-credentials", program];
        self.database.command_of("nsenter", &[&enter, arguments].concat())
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn serve_what_is_owed(&self, url: &str) -> Serving {
        self.run(&[&["subscriber", "add", "sink", url, "--allow-private-targets"], &WIDE[..]].concat());
        self.run(&["subscriber", "pause", "sink"]);
        let serving = Serving::start(self.command(&SERVE));
        for chunk in 0..10 {
            let lines = (0..OWED / 10).map(|n| event(&format!("{chunk}-{n}")) + "\n");
            let lines: String = lines.collect();
            let kind = "application/x-ndjson";
            let answer =
                crate::binary::http::request(&serving.address, "POST", "/v1/events", kind, lines.as_bytes());
            assert_eq!(answer.status, 202, "{answer:?}");
        }
        serving
    }

    fn path(&self, name: &str) -> PathBuf {
        let folder = self.database.folder.path().strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.holder.id())).join(folder).join(name)
    }

    fn reserve_bytes(&self) -> u64 {
        std::fs::metadata(self.path("sender.db-reserve")).map_or(0, |file| file.len())
    }

    fn fill(&self) {
        let mut filler = OpenOptions::new().append(true).create(true).open(self.path("filler")).unwrap();
        let full = (0..).find_map(|_| filler.write_all(&[1; 4_096]).err()).unwrap();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }

    fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The answer comes in time, and names when to retry.
#[track_caller]
fn refuses_an_event(serving: &Serving) {
    let refused = serving.post("/v1/events", &event("refused"));
    let error = &refused.json()["error"];
    assert_eq!((refused.status, error["code"].as_str()), (503, Some("store")), "{refused:?}");
    assert!(error["message"].as_str().unwrap().contains("disk"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
}

#[track_caller]
fn deliveries_go_on(serving: &Serving) {
    serving.until("/v1/status", |status| {
        assert!(status["store"]["failing"].is_null(), "deliveries stand still: {status}");
        status["deliveries"]["delivered"] == OWED
    });
}

#[test]
fn on_a_full_disk_events_are_refused_at_once_and_deliveries_go_on() {
    let Some(disk) = SmallDisk::new() else { return };
    let sink = Endpoint::taking();
    let serving = disk.serve_what_is_owed(&sink.url);
    assert_eq!(serving.get("/readyz").status, 200);
    disk.fill();
    disk.run(&["subscriber", "resume", "sink"]);
    deliveries_go_on(&serving);
    refuses_an_event(&serving);
    let unready = serving.get("/readyz");
    assert!(unready.status == 503 && unready.text().contains("the disk is full"), "{unready:?}");
    assert!(serving.figure("hookproof_store_failing") > 0.5);
    assert!((1..RESERVE_BYTES).contains(&disk.reserve_bytes()), "{}", disk.reserve_bytes());
    disk.free();
    serving.wait_for_line("the disk has room again");
    assert_eq!(disk.reserve_bytes(), RESERVE_BYTES);
    sink.wait_for_events(&[serving.emit("after")]);
    assert_eq!(serving.get("/readyz").status, 200);
    let complaints = serving.complaints();
    assert_eq!(complaints.len(), 1, "one line says that it is full: {complaints:#?}");
    serving.stop_in_order();
}

#[test]
fn a_process_that_begins_on_a_full_disk_delivers() {
    let Some(disk) = SmallDisk::new() else { return };
    let sink = Endpoint::taking();
    disk.serve_what_is_owed(&sink.url).stop_in_order();
    disk.fill();
    let serving = Serving::start(disk.command(&SERVE));
    disk.run(&["subscriber", "resume", "sink"]);
    deliveries_go_on(&serving);
    refuses_an_event(&serving);
    serving.stop_in_order();
}

#[test]
fn once_the_reserve_is_used_up_deliveries_wait_for_room_and_events_are_still_refused_at_once() {
    let Some(disk) = SmallDisk::new() else { return };
    let sink = Endpoint::taking();
    let mut serving = disk.serve_what_is_owed(&sink.url);
    File::create(disk.path("sender.db-reserve")).unwrap();
    disk.fill();
    refuses_an_event(&serving);
    serving.wait_for_line("the database fails");
    refuses_an_event(&serving);
    let (_keep, nothing) = channel();
    holds_still(&mut serving, &nothing, Duration::from_secs(2));
    assert_eq!(serving.get("/readyz").status, 503);
    disk.free();
    disk.run(&["subscriber", "resume", "sink"]);
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == OWED);
    serving.until("/v1/status", |status| status["store"]["reserve_left_bytes"].is_null());
    sink.wait_for_events(&[serving.emit("after")]);
    serving.stop_in_order();
}

#[test]
fn a_reserve_that_is_not_whole_is_seen_without_an_event() {
    let Some(disk) = SmallDisk::new() else { return };
    let serving = Serving::start(disk.command(&SERVE));
    assert_eq!(disk.reserve_bytes(), RESERVE_BYTES);
    disk.fill();
    let reserve = OpenOptions::new().write(true).open(disk.path("sender.db-reserve")).unwrap();
    reserve.set_len(RESERVE_BYTES - (4 << 20)).unwrap();
    disk.fill();
    serving.until("/readyz", |ready| ready.to_string().contains("the disk is full"));
    serving.stop_in_order();
}

/// The limit needs no rights, and can be lifted later.
fn limit(serving: &Serving, bytes: &str) {
    let pid = serving.child.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status().unwrap();
    assert!(set.success());
}

#[test]
fn a_full_disk_refuses_events_at_once_and_room_resumes_everything() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(std::slice::from_ref(&first));
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 1);
    for _ in 0..2 {
        limit(&serving, "1024");
        refuses_an_event(&serving);
        let (_keep, nothing) = channel();
        holds_still(&mut serving, &nothing, Duration::from_secs(4));
        assert_eq!(serving.get("/readyz").status, 503);
        refuses_an_event(&serving);
        assert_eq!(serving.get("/v1/status").json()["deliveries"]["delivered"], sink.count());
        limit(&serving, "unlimited");
        serving.until("/readyz", |ready| ready["status"] == "ready");
        sink.wait_for_events(&[serving.emit("after")]);
        let delivered = sink.count();
        serving.until("/v1/status", |status| status["deliveries"]["delivered"] == delivered);
    }
    let complaints = serving.complaints();
    for says in ["the disk is full", "the database fails"] {
        let said = complaints.iter().filter(|line| line.contains(says)).count();
        assert!(said >= 2, "each at least once a time: {complaints:#?}");
    }
    assert!(complaints.len() <= 12, "few lines, however many tries: {complaints:#?}");
    serving.wait_for_lines("\"the database works again", 2);
    serving.stop_in_order();
    assert_eq!(sink.count(), 3, "each once");
}

#[test]
fn without_room_at_a_kill_what_was_acknowledged_is_there_afterwards() {
    let sink = Endpoint::answering(|_| "503 Not Now\r\nretry-after: 3600\r\n".to_owned());
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let kept: Vec<String> = (0..20).map(|n| serving.emit(&n.to_string())).collect();
    limit(&serving, "1024");
    let offered = offer(&serving, "during");
    holds_still(&mut serving, &offered, Duration::from_secs(1));
    serving.wait_for_line("the database fails");
    serving.kill();
    let serving = database.serve();
    for event in kept {
        let found = serving.get(&format!("/v1/deliveries?event={event}")).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    }
    serving.stop_in_order();
}
