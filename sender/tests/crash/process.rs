//! The sender as a process.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rusqlite::Connection;
use tempfile::TempDir;

use crate::postgres_server::{self, Fsync, Private};

pub(crate) struct Database {
    place: Place,
    address: SocketAddr,
}

/// Where a database is.
enum Place {
    File(TempDir),
    /// On a server of its own, which can be killed too.
    Server(Private),
}

impl Place {
    /// A server for this test; nothing, where its programs are missing.
    fn server(test: &str) -> Option<Self> {
        let server = Private::start(Fsync::On);
        if server.is_none() {
            postgres_server::none(test);
        }
        server.map(Self::Server)
    }
}

pub(crate) struct Serving(Child);

/// What a node has of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) lanes: usize,
    pub(crate) home_of: usize,
}

impl Database {
    pub(crate) fn with_subscriber(url: &str, settings: &[&str]) -> Self {
        Self::at(Place::File(tempfile::tempdir().unwrap()), url, settings)
    }

    /// The same on a PostgreSQL server; nothing, where there is none.
    pub(crate) fn on_server(test: &str, url: &str, settings: &[&str]) -> Option<Self> {
        Some(Self::at(Place::server(test)?, url, settings))
    }

    fn at(place: Place, url: &str, settings: &[&str]) -> Self {
        let database = Self { place, address: free_address() };
        let add = ["subscriber", "add", "sink", url, "--allow-private-targets"];
        let added = database.command().args(add).args(settings).output().unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        database
    }

    /// So many subscribers to everything, each with a path of its own.
    pub(crate) fn with_subscribers(url: &str, count: usize, settings: &[&str]) -> Self {
        Self::shared_at(Place::File(tempfile::tempdir().unwrap()), url, count, settings)
    }

    /// The same on a PostgreSQL server; nothing, where there is none.
    pub(crate) fn on_server_with_subscribers(
        test: &str,
        url: &str,
        count: usize,
        settings: &[&str],
    ) -> Option<Self> {
        Some(Self::shared_at(Place::server(test)?, url, count, settings))
    }

    fn shared_at(place: Place, url: &str, count: usize, settings: &[&str]) -> Self {
        let database = Self { place, address: free_address() };
        for number in 0..count {
            let (name, url) = (format!("sink-{number}"), format!("{url}{number}"));
            let add = ["subscriber", "add", &name, &url, "--allow-private-targets"];
            database.run(&add.into_iter().chain(settings.iter().copied()).collect::<Vec<_>>());
        }
        database
    }

    /// Runs a command to its end: what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let done = self.command().args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// How the living nodes share the lanes, by their names.
    pub(crate) fn shares(&self) -> BTreeMap<String, Share> {
        let share = |line: &str| {
            let node: serde_json::Value = serde_json::from_str(line).unwrap();
            let count = |name: &str| usize::try_from(node[name].as_u64().unwrap()).unwrap();
            let share = Share { lanes: count("lanes"), home_of: count("home_of") };
            (node["name"].as_str().unwrap().to_owned(), share)
        };
        self.run(&["nodes", "--json"]).lines().map(share).collect()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server that it is on.
    pub(crate) fn server(&self) -> &Private {
        let Place::Server(server) = &self.place else { panic!("a file has no server") };
        server
    }

    /// The events that are delivered, as the database has it.
    pub(crate) fn confirmed(&self) -> Vec<String> {
        let query = "SELECT e.id FROM deliveries d JOIN events e ON e.event = d.event WHERE d.state = 1";
        let sql = match &self.place {
            Place::File(folder) => Connection::open(folder.path().join("sender.db")).unwrap(),
            Place::Server(server) => return postgres_server::query(&server.address("public"), query),
        };
        let mut query = sql.prepare(query).unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Starts a sender that listens where the emitter looks for it.
    pub(crate) fn serve(&self) -> Serving {
        self.serve_at(&self.address.to_string())
    }

    /// Starts one that listens elsewhere.
    pub(crate) fn serve_elsewhere(&self) -> Serving {
        self.serve_at("127.0.0.1:0")
    }

    /// The same under a name.
    pub(crate) fn serve_as(&self, name: &str) -> Serving {
        self.serve_with(&self.address.to_string(), name)
    }

    /// The same under a name.
    pub(crate) fn serve_elsewhere_as(&self, name: &str) -> Serving {
        self.serve_with("127.0.0.1:0", name)
    }

    fn serve_with(&self, address: &str, name: &str) -> Serving {
        // Long enough that a busy machine takes no lane from a node that lives.
        self.start(address, &[&["--node", name][..], &self.lease("5s")].concat())
    }

    fn serve_at(&self, address: &str) -> Serving {
        self.start(address, &self.lease("1s"))
    }

    /// How long others wait for a process that has died: on a server, nobody but its lease tells that it has.
    fn lease<'a>(&self, time: &'a str) -> Vec<&'a str> {
        match self.place {
            Place::File(_) => Vec::new(),
            Place::Server(_) => vec!["--lease", time],
        }
    }

    fn start(&self, address: &str, options: &[&str]) -> Serving {
        let mut command = self.command();
        command.args(["serve", "--listen", address, "--allow-private-targets", "--log-json"]).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("\"address\"") {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the sender ended before it listened");
        }
        // Read to the end, or the sender would wait for room in the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::stderr()));
        Serving(child)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
        let database = match &self.place {
            Place::File(folder) => folder.path().join("sender.db").into_os_string(),
            Place::Server(server) => server.address("public").into(),
        };
        command.env("HOOKPROOF_DB", database).stdin(Stdio::null());
        command
    }
}

/// A place at which the emitter finds each sender in turn. It is below the ports that the system gives to those who ask for
/// any, so that nobody else gets it while a sender is dead.
fn free_address() -> SocketAddr {
    let first = 10_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    let candidates = (first..first + 1_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    // Two tests of one program may ask at the same time: each keeps the one that it got for as long as it runs.
    static TAKEN: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());
    let mut taken = TAKEN.lock().unwrap();
    let is_free = |address: &SocketAddr| !taken.contains(address) && TcpListener::bind(address).is_ok();
    let address = { candidates }.find(is_free).expect("one of a thousand ports is free");
    taken.insert(address);
    address
}

impl Serving {
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn stop_in_order(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}
