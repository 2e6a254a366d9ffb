use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use hookproof_sender::event::{Kind, PublicId};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::postgres_server::{self, Fsync, Private};

pub(crate) struct Database {
    place: Place,
    address: SocketAddr,
}

enum Place {
    File(TempDir),
    /// A private server, which tests can kill.
    Server(Private),
}

impl Place {
    fn server(test: &str) -> Option<Self> {
        let server = Private::start(Fsync::On);
        if server.is_none() {
            postgres_server::none(test);
        }
        server.map(Self::Server)
    }
}

pub(crate) struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node that keeps its name and its database address across restarts.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) database: String,
    /// In seconds, relative to the machine's clock.
    pub(crate) clock_ahead: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) lanes: usize,
    pub(crate) home_of: usize,
}

impl Database {
    pub(crate) fn with_subscriber(url: &str, settings: &[String]) -> Self {
        Self::at(Place::File(tempfile::tempdir().unwrap()), url, settings)
    }

    /// As `new`, on a PostgreSQL server; `None` without one.
    pub(crate) fn on_server(test: &str, url: &str, settings: &[String]) -> Option<Self> {
        Some(Self::at(Place::server(test)?, url, settings))
    }

    fn at(place: Place, url: &str, settings: &[String]) -> Self {
        let database = Self { place, address: free_address() };
        let add = ["subscriber", "add", "sink", url, "--allow-private-targets"];
        let added = database.command().args(add).args(settings).output().unwrap();
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        database
    }

    pub(crate) fn with_subscribers(url: &str, count: usize, settings: &[String]) -> Self {
        Self::shared_at(Place::File(tempfile::tempdir().unwrap()), url, count, settings)
    }

    /// As `with_subscribers`, on a PostgreSQL server; `None` without one.
    pub(crate) fn on_server_with_subscribers(
        test: &str,
        url: &str,
        count: usize,
        settings: &[String],
    ) -> Option<Self> {
        Some(Self::shared_at(Place::server(test)?, url, count, settings))
    }

    fn shared_at(place: Place, url: &str, count: usize, settings: &[String]) -> Self {
        let database = Self { place, address: free_address() };
        for number in 0..count {
            let (name, url) = (format!("sink-{number}"), format!("{url}{number}"));
            let add = ["subscriber", "add", &name, &url, "--allow-private-targets"];
            database.run(&add.into_iter().chain(settings.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        database
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let done = self.command().args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    pub(crate) fn lanes(&self) -> impl Fn() -> String + Send + 'static {
        let asked = [&["subscriber", "list"][..], &["status"]].map(|arguments| {
            let mut command = self.command();
            command.args(arguments);
            Mutex::new(command)
        });
        move || {
            let told = asked.iter().map(|command| match command.lock().unwrap().output() {
                Ok(done) => [done.stdout, done.stderr]
                    .map(|text| String::from_utf8_lossy(&text).into_owned())
                    .concat(),
                Err(error) => error.to_string(),
            });
            told.collect::<Vec<_>>().join("\n")
        }
    }

    pub(crate) fn shares(&self) -> BTreeMap<String, Share> {
        let share = |line: &str| {
            let node: serde_json::Value = serde_json::from_str(line).unwrap();
            let count = |name: &str| usize::try_from(node[name].as_u64().unwrap()).unwrap();
            let share = Share { lanes: count("lanes"), home_of: count("home_of") };
            (node["name"].as_str().unwrap().to_owned(), share)
        };
        self.run(&["nodes", "--json"]).lines().map(share).collect()
    }

    pub(crate) fn lanes_of(&self, name: &str) -> Vec<String> {
        let query = format!(
            "SELECT '/' || split_part(s.url, '/', 4) FROM lanes l JOIN subscribers s USING (lane)
             JOIN nodes n ON n.owner = l.owner JOIN owners o ON o.owner = n.owner
             WHERE n.name = '{name}' AND o.until > (extract(epoch FROM clock_timestamp()) * 1000000)::int8 * 1000"
        );
        postgres_server::query(&self.server().address("public"), &query)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn server(&self) -> &Private {
        let Place::Server(server) = &self.place else { panic!("a file has no server") };
        server
    }

    pub(crate) fn confirmed(&self) -> Vec<String> {
        let from =
            |table| format!("SELECT e.id FROM {table} d JOIN events e USING (event) WHERE d.state = 1");
        let sql = match &self.place {
            Place::File(folder) => Connection::open(folder.path().join("sender.db")).unwrap(),
            Place::Server(server) => {
                return postgres_server::query(&server.address("public"), &from("all_deliveries"));
            }
        };
        let mut query = sql.prepare(&from("deliveries")).unwrap();
        let made = |bits| PublicId::of_bits(Kind::Event, u128::from_be_bytes(bits)).to_string();
        query.query_map([], |row| row.get(0).map(made)).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn serve(&self) -> Serving {
        self.serve_at(&self.address.to_string())
    }

    pub(crate) fn serve_elsewhere(&self) -> Serving {
        self.serve_at("127.0.0.1:0")
    }

    pub(crate) fn serve_as(&self, name: &str) -> Serving {
        self.serve_with(&self.address.to_string(), name)
    }

    pub(crate) fn serve_elsewhere_as(&self, name: &str) -> Serving {
        self.serve_with("127.0.0.1:0", name)
    }

    /// Its lease outlasts any test, without renewal.
    pub(crate) fn serve_with_long_lease(&self) -> Serving {
        self.start(&self.address.to_string(), &self.lease("60s"))
    }

    fn serve_with(&self, address: &str, name: &str) -> Serving {
        // A busy machine takes no lane from a live node.
        self.start(address, &[&["--node", name][..], &self.lease("5s")].concat())
    }

    fn serve_at(&self, address: &str) -> Serving {
        self.start(address, &self.lease("1s"))
    }

    /// On a server, other processes wait for a dead process's lease.
    fn lease<'a>(&self, time: &'a str) -> Vec<&'a str> {
        match self.place {
            Place::File(_) => Vec::new(),
            Place::Server(_) => vec!["--lease", time],
        }
    }

    pub(crate) fn serve_node(&self, node: &Node, tell: impl FnMut(&str) + Send + 'static) -> Serving {
        let mut command = self.command();
        command.env("HOOKPROOF_DB", &node.database);
        if node.clock_ahead != 0 {
            let library = wrong_clock().expect("a clock is wrong only where it can be");
            command.env("LD_PRELOAD", library).env("FAKETIME", format!("{:+}s", node.clock_ahead));
            // Falsify wall clocks only.
            for only in ["FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC", "FAKETIME_DISABLE_SHM"] {
                command.env(only, "1");
            }
        }
        let lease = self.lease("1s");
        Serving::start(
            command,
            &node.address.to_string(),
            &[&["--node", node.name, "--log", "info,hookproof_sender::runtime=debug"][..], &lease].concat(),
            tell,
        )
    }

    fn start(&self, address: &str, options: &[&str]) -> Serving {
        Serving::start(self.command(), address, options, |line| eprint!("{line}"))
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

/// Debian's libfaketime, if it is installed.
pub(crate) fn wrong_clock() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.map_while(Result::ok);
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}

/// The address lies below the ephemeral ports, so no other process gets it between two senders.
pub(crate) fn free_address() -> SocketAddr {
    let first = 10_000 + u16::try_from(std::process::id() % 9_000).unwrap();
    let candidates = (first..first + 1_000).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    // Two tests of one program may ask at once.
    static TAKEN: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());
    let mut taken = TAKEN.lock().unwrap();
    let is_free = |address: &SocketAddr| !taken.contains(address) && TcpListener::bind(address).is_ok();
    let address = { candidates }.find(is_free).expect("one of a thousand ports is free");
    taken.insert(address);
    address
}

impl Serving {
    fn start(
        mut command: Command,
        address: &str,
        options: &[&str],
        tell: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        command.args(["serve", "--listen", address]).args(options);
        Self::launch(command, tell)
    }

    pub(crate) fn launch(mut command: Command, mut tell: impl FnMut(&str) + Send + 'static) -> Self {
        command.args(["--allow-private-targets", "--log-json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let (mut before, serving) = (String::new(), Self(child));
        while !line.contains("\"address\"") {
            before.push_str(&line);
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "the sender ended before it listened: {before}");
        }
        // The sender would block on a full pipe.
        std::thread::spawn(move || {
            line.clear();
            while log.read_line(&mut line).is_ok_and(|read| read > 0) {
                tell(&line);
                line.clear();
            }
        });
        serving
    }

    pub(crate) fn signal(&self, name: &str) {
        let told =
            Command::new("kill").args([&format!("-{name}"), &self.0.id().to_string()]).status().unwrap();
        assert!(told.success());
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn stop_in_order(mut self) {
        self.signal("TERM");
        assert_eq!(self.ended(), Some(0));
    }

    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}
