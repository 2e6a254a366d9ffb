//! The measured processes: this program with another first argument.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::exchange::{Connection, Failure};
use crate::figures::Rate;
use crate::server::{Server, Used};

pub(crate) const SENDER: &str = "as-sender";
pub(crate) const BARE: &str = "as-bare-client";

/// The unit whose environment the sender gets; existing variables win.
const UNIT: &str = include_str!("../../packaging/systemd/hookproof-sender.service");

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHiA=";

pub(crate) struct Sender {
    child: Child,
    address: SocketAddr,
    database: Option<Database>,
}

pub(crate) enum Place {
    /// Files, with this kind of durability.
    File(&'static str),
    /// The same with a key.
    Encrypted(&'static str),
    Server(Server),
}

pub(crate) struct Database {
    address: OsString,
    durability: Option<&'static str>,
    folder: Option<TempDir>,
    keys: Option<&'static str>,
}

pub(crate) struct Bare;

impl Sender {
    pub(crate) fn start(database: Database) -> Result<Self, Failure> {
        let mut sender = Self::beside(&database, &[])?;
        sender.database = Some(database);
        Ok(sender)
    }

    pub(crate) fn beside(database: &Database, options: &[&str]) -> Result<Self, Failure> {
        let mut child = database
            .program()?
            .args(["serve", "--listen", "127.0.0.1:0", "--allow-private-targets", "--log-json"])
            .args(database.durability.iter().flat_map(|durability| ["--durability", durability]))
            .args(options)
            .envs(environment())
            .stderr(Stdio::piped())
            .spawn()?;
        let address = listening(&mut child)?;
        Ok(Self { child, address, database: None })
    }

    /// `settings` come after a comma.
    pub(crate) fn subscribe_many(&self, url: &str, count: u64, settings: &str) -> Result<(), Failure> {
        let mut connection = Connection::open(self.address)?;
        for n in 0..count {
            let body = format!("{{\"name\": \"s{n}\", \"url\": \"{url}\"{settings}}}");
            connection.post("/v1/subscribers", "application/json", body.as_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn wait_until_ready(&self) -> Result<(), Failure> {
        Connection::open(self.address)?.get("/readyz").map(drop)
    }

    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        self.memory_mib("VmRSS:")
    }

    pub(crate) fn resident_highest_mib(&self) -> Result<f64, Failure> {
        self.memory_mib("VmHWM:")
    }

    fn memory_mib(&self, what: &str) -> Result<f64, Failure> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix(what)?.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| Failure::Says(format!("the system does not tell {what}")))
    }

    pub(crate) fn file(&self) -> Result<&Path, Failure> {
        let file = self.database.as_ref().filter(|database| database.folder.is_some());
        let file = file.map(|database| Path::new(&database.address));
        file.ok_or_else(|| Failure::Says("the sender has no file of its own".to_owned()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn threads(&self) -> String {
        format!("/proc/{}/task", self.child.id())
    }

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

    pub(crate) fn wait_until_recorded(&self, events: u64) -> Result<(), Failure> {
        let events = crate::figures::float(events);
        while self.metric("hookproof_all_delivered_total")? < events {
            std::thread::yield_now();
        }
        Ok(())
    }

    pub(crate) fn stop(mut self) -> Result<Database, Failure> {
        let database = self.database.take();
        self.end()?;
        database.ok_or_else(|| Failure::Says("the sender had no database of its own".to_owned()))
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::Says(format!("the sender ended with {status}"))) }
    }
}

fn environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let set = UNIT.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
    set.filter(|(name, _)| std::env::var_os(name).is_none())
}

impl Place {
    pub(crate) fn database(&self) -> Result<Database, Failure> {
        Ok(match self {
            Self::File(durability) | Self::Encrypted(durability) => {
                let folder = tempfile::tempdir()?;
                let address = folder.path().join("sender.db").into_os_string();
                let keys = matches!(self, Self::Encrypted(_)).then_some(KEY);
                Database { address, durability: Some(durability), folder: Some(folder), keys }
            }
            Self::Server(server) => {
                Database { address: server.schema()?.into(), durability: None, folder: None, keys: None }
            }
        })
    }

    /// `None` for files.
    pub(crate) fn used(&self) -> Result<Option<Used>, Failure> {
        match self {
            Self::File(_) | Self::Encrypted(_) => Ok(None),
            Self::Server(server) => server.used().map(Some),
        }
    }
}

impl Database {
    pub(crate) fn add<'a>(
        &self,
        name: &str,
        url: &str,
        events: &str,
        settings: impl IntoIterator<Item = &'a &'a str>,
    ) -> Result<(), Failure> {
        let mut add = self.program()?;
        add.args(["subscriber", "add", name, url, "--events", events, "--allow-private-targets"]);
        run_command(add.args(settings))
    }

    pub(crate) fn lanes_by_node(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let output = self.program()?.args(["nodes", "--json"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let lanes = |line: &str| {
            let name = line.split("\"name\":\"").nth(1)?.split('"').next()?;
            let lanes = line.split("\"lanes\":").nth(1)?;
            let digits = lanes.split(|letter: char| !letter.is_ascii_digit()).next()?;
            Some((name.to_owned(), digits.parse().ok()?))
        };
        let all: Option<BTreeMap<_, _>> = text.lines().map(lanes).collect();
        all.ok_or_else(|| Failure::Says(format!("the nodes are told of as '{}'", text.trim())))
    }

    pub(crate) fn report_tables(&self) -> Result<(), Failure> {
        Server::at(&self.address.to_string_lossy()).report_tables()
    }

    pub(crate) fn pause(&self) -> Result<(), Failure> {
        run_command(self.program()?.args(["subscriber", "pause", "sink"]))
    }

    fn program(&self) -> Result<Command, Failure> {
        let mut command = program(SENDER)?;
        command.env("HOOKPROOF_DB", &self.address);
        command.envs(self.keys.map(|keys| ("HOOKPROOF_ENCRYPTION_KEYS", keys)));
        Ok(command)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // The process may have ended already; the measurement stands in either case.
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

fn run_command(command: &mut Command) -> Result<(), Failure> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::Says(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn program(role: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role).stdin(Stdio::null());
    Ok(command)
}

/// The address in its log. Later warnings are passed on.
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
