//! The processes that are measured, each this program under another name.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::CONNECTIONS;
use crate::exchange::{Connection, Failure};
use crate::figures::Rate;

/// The first argument that makes this program the sender.
pub(crate) const SENDER: &str = "as-sender";
/// The first argument that makes it the bare client.
pub(crate) const BARE: &str = "as-bare-client";

/// The sender with one subscriber, as a process.
pub(crate) struct Sender {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

/// The bare client.
pub(crate) struct Bare;

impl Sender {
    /// Starts it on a new database, with one subscriber that nothing limits but its connections.
    pub(crate) fn serve(durability: &str, url: &str, state: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let database = folder.path().join("sender.db");
        let in_flight = format!("limit.in_flight={CONNECTIONS}");
        let settings = [
            "limit.rate=1000000/s",
            "limit.burst=100000",
            &in_flight,
            "queue.rows=10000000",
            "queue.bytes=8GiB",
        ];
        let added = program(SENDER)?
            .env("HOOKPROOF_DB", &database)
            .args(["subscriber", "add", "sink", url, "--allow-private-targets"])
            .args(settings)
            .output()?;
        if !added.status.success() {
            return Err(Failure::Says(String::from_utf8_lossy(&added.stderr).into_owned()));
        }
        if state == "paused" {
            program(SENDER)?.env("HOOKPROOF_DB", &database).args(["subscriber", "pause", "sink"]).output()?;
        }
        let mut child = program(SENDER)?
            .env("HOOKPROOF_DB", &database)
            .args(["serve", "--listen", "127.0.0.1:0", "--allow-private-targets", "--log-json"])
            .args(["--durability", durability])
            .stderr(Stdio::piped())
            .spawn()?;
        let address = listening(&mut child)?;
        Ok(Self { child, address, _folder: folder })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A figure of its metrics, over all of its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, Failure> {
        let text = Connection::open(self.address)?.get("/metrics")?;
        let of_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values: Vec<f64> = text
            .lines()
            .filter(of_it)
            .filter_map(|line| line.rsplit(' ').next())
            .filter_map(|value| value.parse().ok())
            .collect();
        if values.is_empty() {
            return Err(Failure::Says(format!("the sender has no metric {name}")));
        }
        Ok(values.iter().sum())
    }

    /// Asks until everything is recorded as delivered.
    pub(crate) fn wait_until_recorded(&self, events: u64) -> Result<(), Failure> {
        let events = crate::figures::float(events);
        while self.metric("hookproof_delivered_total")? < events {
            std::thread::yield_now();
        }
        Ok(())
    }

    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::Says(format!("the sender ended with {status}"))) }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It is gone already if it was stopped; what was measured stands either way.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Bare {
    pub(crate) fn run(address: SocketAddr, requests: u64, connections: u32) -> Result<Rate, Failure> {
        let counts = [requests.to_string(), connections.to_string()];
        let output =
            program(BARE)?.arg(address.to_string()).args(counts).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map(Rate).map_err(|_| Failure::Says(format!("the bare client said '{text}'")))
    }
}

fn program(role: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).stdin(Stdio::null());
    Ok(command)
}

/// Where it listens, as it says in its log. What it warns of later is passed on.
fn listening(child: &mut Child) -> Result<SocketAddr, Failure> {
    let output = child.stderr.take().ok_or_else(|| Failure::Says("the sender has no stderr".to_owned()))?;
    let mut log = BufReader::new(output);
    let mut line = String::new();
    while !line.contains("\"address\"") {
        line.clear();
        if log.read_line(&mut line)? == 0 {
            return Err(Failure::Says("the sender ended before it listened".to_owned()));
        }
    }
    std::thread::spawn(move || {
        for line in log.lines().map_while(Result::ok).filter(|line| !line.contains("\"INFO\"")) {
            eprintln!("{line}");
        }
    });
    let address = line.split(['"', '/']).find_map(|word| word.parse().ok());
    address.ok_or_else(|| Failure::Says(format!("no address in '{}'", line.trim())))
}
