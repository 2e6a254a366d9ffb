//! Stands in for a container: a process with its own folder and its own loopback address.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;

const SCRIPT: &str = include_str!("container.sh");
/// Services in the order of their addresses.
const NAMES: [&str; 6] = ["first", "second", "pool", "node-a", "node-b", "node-c"];

pub(crate) struct Machine {
    folder: TempDir,
    programs: PathBuf,
}

const PROGRAMS: [&str; 6] = ["initdb", "postgres", "pg_ctl", "pg_basebackup", "psql", "pg_isready"];

impl Machine {
    pub(crate) fn new() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().map_while(Result::ok);
        let mut folders =
            std::env::split_paths(&path).chain(debian.map(|version| version.path().join("bin")));
        let programs = folders.find(|folder| PROGRAMS.iter().all(|program| folder.join(program).exists()))?;
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        Some(Self { folder, programs })
    }

    /// No other test process uses this address.
    pub(crate) fn address(&self, service: &str) -> Ipv4Addr {
        let number = NAMES.iter().position(|name| *name == service).expect("it is a service");
        let [_, _, high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 100 + u8::try_from(number).unwrap(), high, low.max(1))
    }

    pub(crate) fn located(&self, service: &str, text: &str) -> String {
        let mut text = text.to_owned();
        let own = self.address(service).to_string();
        for of_all in ["127.0.0.1", "0.0.0.0"] {
            text = text.replace(of_all, &own);
        }
        text = text.replace("listen_addr = *", &format!("listen_addr = {own}"));
        for name in NAMES {
            let there = self.address(name).to_string();
            for before in ["-h ", "host=", "@", ","] {
                text = text.replace(&format!("{before}{name}"), &format!("{before}{there}"));
            }
        }
        text
    }

    pub(crate) fn folder(&self, service: &str) -> PathBuf {
        let folder = self.folder.path().join(service);
        if !folder.exists() {
            let programs = folder.join("bin");
            fs::create_dir_all(&programs).unwrap();
            open_to_all(&folder);
            // Here the service has only one address.
            let server = format!(
                "#!/bin/sh\nexec {}/postgres -c listen_addresses={} -c unix_socket_directories={} \"$@\"\n",
                self.programs.display(),
                self.address(service),
                folder.display()
            );
            executable(&programs.join("postgres"), &server);
        }
        folder
    }

    pub(crate) fn command(&self, service: &str, program: &str) -> Command {
        let folder = self.folder(service);
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}/bin:{}:{path}", folder.display(), self.programs.display()));
        command.env("PGHOST", &folder).env("PGDATA", folder.join("data")).current_dir(&folder);
        command
    }

    pub(crate) fn start(&self, service: &str, words: &[&str], variables: &[(&str, &str)]) -> Container {
        let mut command = self.command(service, "sh");
        command.args(["-c", SCRIPT, SCRIPT]).args(words).envs(variables.iter().copied());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(ContainerLog::default()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().unwrap().lines.push(line);
            }
            heard.lock().unwrap().is_all = true;
        });
        Container { service: service.to_owned(), process, said }
    }
}

/// A user without rights runs its contents.
fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
}

pub(crate) fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[derive(Default)]
struct ContainerLog {
    lines: Vec<String>,
    is_all: bool,
}

pub(crate) struct Container {
    service: String,
    process: Child,
    said: Arc<Mutex<ContainerLog>>,
}

impl Container {
    /// Fails if the service ends earlier.
    pub(crate) fn wait_until(&self, mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            let said = self.said.lock().unwrap();
            assert!(!said.is_all, "{} has ended: {}", self.service, said.lines.join("\n"));
        }
    }

    pub(crate) fn kill(mut self) {
        writeln!(self.process.stdin.as_mut().unwrap(), "KILL").unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
