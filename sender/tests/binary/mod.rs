//! A test waits for a log line, a request or an answer, and never sleeps.

pub(crate) mod endpoint;
pub(crate) mod http;

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use http::Answer;

/// Longer than any step takes.
pub(crate) const FOREVER: Duration = Duration::from_secs(120);

pub(crate) struct Database {
    pub(crate) folder: TempDir,
}

impl Database {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn with_sink(url: &str, settings: &[&str]) -> Self {
        let database = Self::new();
        database.subscribe("sink", url, settings);
        database
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("sender.db")
    }

    pub(crate) fn sql(&self) -> rusqlite::Connection {
        let sql = rusqlite::Connection::open(self.path()).unwrap();
        sql.busy_timeout(FOREVER).unwrap();
        sql
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_hookproof-sender"), arguments)
    }

    pub(crate) fn command_of(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("HOOKPROOF_DB", self.path()).stdin(Stdio::null());
        command.env_remove("HOOKPROOF_LOG").env_remove("HOOKPROOF_REGIONS");
        command
    }

    #[track_caller]
    pub(crate) fn subscribe(&self, name: &str, url: &str, settings: &[&str]) -> Value {
        let add = ["subscriber", "add", name, url, "--allow-private-targets", "--json"];
        self.json(&[&add, settings].concat())
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        read_json(self.command(arguments))
    }

    pub(crate) fn serve(&self) -> Serving {
        self.serve_with(&[])
    }

    pub(crate) fn serve_with(&self, options: &[&str]) -> Serving {
        Serving::start(self.command(&[&SERVE, options].concat()))
    }
}

pub(crate) const SERVE: [&str; 5] =
    ["serve", "--listen", "127.0.0.1:0", "--allow-private-targets", "--log-json"];

#[track_caller]
pub(crate) fn read_json(mut command: Command) -> Value {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[derive(Default)]
struct Log {
    lines: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

/// A running `serve`, or another command with a log. Dropping it kills the process.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) address: String,
    log: Arc<Log>,
}

impl Serving {
    pub(crate) fn start(command: Command) -> Self {
        let mut serving = Self::spawn(command);
        let line = serving.wait_for_line("\"address\"");
        let entry: Value = serde_json::from_str(&line).unwrap();
        serving.address.push_str(entry["fields"]["address"].as_str().unwrap());
        serving
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Log::default());
        let ours = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                eprintln!("{line}");
                ours.lines.lock().unwrap().0.push(line);
                ours.changed.notify_all();
            }
            ours.lines.lock().unwrap().1 = true;
            ours.changed.notify_all();
        });
        Self { child, address: String::new(), log }
    }

    #[track_caller]
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        self.wait_for_lines(text, 1).remove(0)
    }

    /// Returns `None` if the process ends without such a line.
    #[track_caller]
    pub(crate) fn wait_for_line_or_end(&self, text: &str) -> Option<String> {
        let guard = self.log.lines.lock().unwrap();
        let find = |lines: &[String]| lines.iter().find(|line| line.contains(text)).cloned();
        let missing = |log: &mut (Vec<String>, bool)| !log.1 && find(&log.0).is_none();
        let (guard, timeout) = self.log.changed.wait_timeout_while(guard, FOREVER, missing).unwrap();
        let found = find(&guard.0);
        drop(guard);
        assert!(!timeout.timed_out(), "neither a line with {text:?} nor an end: {:#?}", self.lines());
        found
    }

    #[track_caller]
    pub(crate) fn wait_for_lines(&self, text: &str, count: usize) -> Vec<String> {
        let guard = self.log.lines.lock().unwrap();
        let missing = |log: &mut (Vec<String>, bool)| {
            !log.1 && log.0.iter().filter(|line| line.contains(text)).count() < count
        };
        let (guard, _) = self.log.changed.wait_timeout_while(guard, FOREVER, missing).unwrap();
        let found: Vec<_> = guard.0.iter().filter(|line| line.contains(text)).cloned().collect();
        drop(guard);
        assert!(found.len() >= count, "the log has no {count} lines with {text:?}: {:#?}", self.lines());
        found
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lines.lock().unwrap().0.clone()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let complains = |line: &String| line.contains("\"ERROR\"") || line.contains("\"WARN\"");
        self.lines().into_iter().filter(complains).collect()
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        http::request(&self.address, "GET", path, "application/json", b"")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        http::request(&self.address, "POST", path, "application/json", body.as_bytes())
    }

    /// Returns the id. The event must be acknowledged.
    #[track_caller]
    pub(crate) fn emit(&self, key: &str) -> String {
        let answer = self.post("/v1/events", &event(key));
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let answer = self.get(path).json();
            if holds(&answer) {
                return answer;
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn figure(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let values: Vec<f64> =
            samples.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(!values.is_empty(), "no figure {name} in {text:?}");
        values.iter().sum()
    }

    /// Processor time in hundredths of a second.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Peak memory, in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn request_stop(&self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    #[track_caller]
    pub(crate) fn stop_in_order(mut self) {
        self.request_stop();
        let code = self.child.wait().unwrap().code();
        assert_eq!(code, Some(0), "{:#?}", self.lines());
        assert!(!self.lines().iter().any(|line| line.contains("panicked")), "{:#?}", self.lines());
    }

    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        let code = self.child.wait().unwrap().code();
        let guard = self.log.lines.lock().unwrap();
        drop(self.log.changed.wait_while(guard, |log| !log.1).unwrap());
        (code, printed)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn event(key: &str) -> String {
    format!(r#"{{"type":"video.trending","key":"{key}","data":{{"views":1200000}}}}"#)
}
