//! A private server, or the one that `HOOKPROOF_POSTGRES` names. Without either, tests print a line and pass, unless
//! `HOOKPROOF_DEMANDS` names `postgres`.

#![allow(dead_code, reason = "the sender and the harness use a part each")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

const SCRIPT: &str = include_str!("../../../harness/src/database/server.sh");
const NO_PROGRAMS: i32 = 3;
const FOREVER: Duration = Duration::from_secs(120);

/// Whether commits survive a power failure: tests that cut no power are faster without.
#[derive(Clone, Copy)]
pub(crate) enum Fsync {
    On,
    Off,
}

pub(crate) struct Private {
    folder: PathBuf,
    orders: Mutex<ChildStdin>,
    told: Mutex<Receiver<String>>,
    answers: Mutex<BufReader<ChildStdout>>,
    keeper: Mutex<Child>,
}

impl Private {
    pub(crate) fn start(fsync: Fsync) -> Option<Self> {
        Self::start_with(fsync, None, None)
    }

    pub(crate) fn start_standby(&self) -> Self {
        let standby = Self::start_with(Fsync::On, None, Some(&self.folder));
        standby.expect("the programs are there")
    }

    /// The server takes a local port, and a key and a certificate as PEM.
    pub(crate) fn start_over_tls(port: u16, key_and_certificate: &str) -> Option<Self> {
        Self::start_with(Fsync::Off, Some((port, key_and_certificate)), None)
    }

    fn start_with(fsync: Fsync, tls: Option<(u16, &str)>, first: Option<&Path>) -> Option<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, SCRIPT]).arg(match fsync {
            Fsync::On => "on",
            Fsync::Off => "off",
        });
        command.arg(tls.map(|(port, _)| port.to_string()).unwrap_or_default()).args(first);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut keeper = command.spawn().unwrap();
        let mut orders = keeper.stdin.take().unwrap();
        if let Some((_, pem)) = tls {
            let _ = writeln!(orders, "{}\n", pem.trim());
        }
        let (tell, told) = channel();
        let log = BufReader::new(keeper.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The pipe must be read to its end.
                let _ = tell.send(line);
            }
        });
        let mut folder = String::new();
        let mut answers = BufReader::new(keeper.stdout.take().unwrap());
        answers.read_line(&mut folder).unwrap();
        if folder.is_empty() {
            let told: Vec<_> = told.iter().collect();
            assert_eq!(keeper.wait().unwrap().code(), Some(NO_PROGRAMS), "initdb: {told:?}");
            return None;
        }
        let (orders, told, answers) = (Mutex::new(orders), Mutex::new(told), Mutex::new(answers));
        let keeper = Mutex::new(keeper);
        let server = Self { folder: folder.trim().into(), orders, told, answers, keeper };
        server.begin();
        Some(server)
    }

    pub(crate) fn begin(&self) {
        self.order("start");
        let told = self.told.lock().unwrap();
        loop {
            let line = told.recv_timeout(FOREVER).expect("the server says that it is ready");
            if line.contains("is ready to accept connections")
                || line.contains("to accept read-only connections")
            {
                return;
            }
            // Processes of a killed server may still be ending.
            if line.contains("FATAL") && (line.contains("lock file") || line.contains("shared memory")) {
                self.order("start");
            }
        }
    }

    /// Clients are cut off, and the next start recovers as after a crash.
    pub(crate) fn end(&self) {
        self.order("stop");
        let mut stopped = String::new();
        self.answers.lock().unwrap().read_line(&mut stopped).unwrap();
        assert_eq!(stopped.trim(), "stopped");
    }

    pub(crate) fn kill(&self) {
        self.order("kill");
    }

    fn order(&self, order: &str) {
        writeln!(self.orders.lock().unwrap(), "{order}").unwrap();
    }

    pub(crate) fn address(&self, schema: &str) -> String {
        address_in(&self.folder, schema)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // The keeper takes the server and the folder along.
        let keeper = self.keeper.get_mut().unwrap();
        if let Ok(true) =
            Command::new("kill").args(["-TERM", &keeper.id().to_string()]).status().map(|code| code.success())
        {
            let _ = keeper.wait();
        }
    }
}

pub(crate) fn address_in(folder: &Path, schema: &str) -> String {
    address_in_any(&[folder], schema)
}

pub(crate) fn address_in_any(folders: &[&Path], schema: &str) -> String {
    let hosts: Vec<_> =
        folders.iter().map(|folder| folder.display().to_string().replace('/', "%2F")).collect();
    format!("postgresql://hookproof@{}/postgres?options=-csearch_path%3D{schema}", hosts.join(","))
}

/// All tests of a binary share the server.
pub(crate) fn new_schema(test: &str) -> Option<String> {
    static SHARED: OnceLock<Option<Private>> = OnceLock::new();
    static SCHEMAS: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut schemas = SCHEMAS.lock().unwrap();
        *schemas += 1;
        *schemas
    };
    let schema = format!("t{}_{number}", std::process::id());
    let given = std::env::var("HOOKPROOF_POSTGRES").ok();
    let address = match &given {
        Some(given) => {
            let joint = if given.contains('?') { '&' } else { '?' };
            Some(format!("{given}{joint}options=-csearch_path%3D{schema}"))
        }
        None => {
            SHARED.get_or_init(|| Private::start(Fsync::Off)).as_ref().map(|server| server.address(&schema))
        }
    };
    match address {
        Some(address) => {
            execute(&address, &format!("CREATE SCHEMA {schema}"));
            Some(address)
        }
        None => {
            none(test);
            None
        }
    }
}

/// Also returns the socket that the port leads to; `None` if the server is not private.
pub(crate) fn by_way_of(address: &str, port: u16) -> Option<(String, PathBuf)> {
    let parts = address.strip_prefix("postgresql://hookproof@").and_then(|rest| rest.split_once('/'));
    let private =
        parts.map(|(host, rest)| (PathBuf::from(host.replace("%2F", "/")).join(".s.PGSQL.5432"), rest));
    let found = private.filter(|(socket, _)| socket.exists());
    if found.is_none() {
        eprintln!(
            "skipped: what needs a server of its own, which HOOKPROOF_POSTGRES keeps from being started"
        );
    }
    found.map(|(socket, rest)| (format!("postgresql://hookproof@127.0.0.1:{port}/{rest}"), socket))
}

pub(crate) fn none(test: &str) {
    let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
    assert!(!demands.split(',').any(|demand| demand == "postgres"), "{test}: no PostgreSQL");
    eprintln!("{test}: skipped: neither PostgreSQL's programs nor HOOKPROOF_POSTGRES");
}

/// PostgreSQL refuses to run as root.
pub(crate) fn unprivileged(program: &Path) -> Command {
    let script =
        "[ \"$(id -u)\" != 0 ] || set -- setpriv --reuid=nobody --regid=\"$(id -g nobody)\" --clear-groups \"$@\"
        exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program);
    command
}

/// Debian installs it outside a user's `PATH`.
pub(crate) fn pooler(test: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let found = folders.split(':').map(|folder| Path::new(folder).join("pgbouncer")).find(|one| one.exists());
    let demands = std::env::var("HOOKPROOF_DEMANDS").unwrap_or_default();
    if found.is_none() {
        assert!(!demands.split(',').any(|demand| demand == "pgbouncer"), "{test}: no PgBouncer");
        eprintln!("{test}: skipped: no PgBouncer");
    }
    found
}

pub(crate) fn execute(address: &str, statements: &str) {
    query(address, statements);
}

pub(crate) fn query(address: &str, statements: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let answers = client.simple_query(statements).await.unwrap();
        let first = |answer: &tokio_postgres::SimpleQueryMessage| match answer {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
            _ => None,
        };
        answers.iter().filter_map(first).collect()
    })
}

pub(crate) struct Holding {
    _runtime: tokio::runtime::Runtime,
    _client: tokio_postgres::Client,
}

pub(crate) fn hold(address: &str, statements: &str) -> Holding {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        client
    });
    Holding { _runtime: runtime, _client: client }
}
