//! Runs the Compose file (`packaging/compose/nodes.yaml`) without containers: its commands, scripts and files
//! unchanged.

mod container;
mod file;

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use container::{Container, Machine, executable};
use file::ComposeFile;

use crate::crash::emitter::{Emitter, TOKEN};
use crate::crash::process::Serving;
use crate::crash::sink::Sink;
use crate::crash::{judge, settings};
use crate::postgres_server::{none, pooler, query};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/compose/nodes.yaml");
const IMAGE: &str = include_str!("image.sh");
const NODES: [&str; 3] = ["node-a", "node-b", "node-c"];
const RATE_PER_SECOND: u64 = 100;
const BURST: usize = 20;
const LANES: usize = 3;

#[test]
fn the_compose_setup_delivers_and_a_failover_loses_nothing() {
    let test = "the_compose_setup_delivers";
    let Some(machine) = Machine::new() else {
        none(test);
        return;
    };
    let file = ComposeFile(fs::read_to_string(FILE).unwrap());
    let deployment =
        Deployment { file, machine, pooler: pooler(test).map(|path| path.display().to_string()) };
    let first = deployment.first();
    let second = deployment.second();
    deployment.wait_until_second_is_waited_for(&second);
    let pool = deployment.pool("first");
    let sink = Arc::new(Sink::start());
    let nodes: Vec<Serving> = NODES.iter().map(|node| deployment.node(node)).collect();
    deployment.subscribe(&sink);
    let addresses: Vec<_> = NODES.iter().map(|node| deployment.listens(node)).collect();
    let emitter = Emitter::start_at(&addresses, Arc::clone(&sink), LANES);
    sink.wait_for(300);
    first.kill();
    deployment.query("second", "SELECT pg_promote()");
    drop(pool);
    let _pool = deployment.pool("second");
    sink.wait_for(sink.count() + 300);
    let acknowledged = emitter.stop();
    let owed = acknowledged.iter().flat_map(|event| (0..LANES).map(move |lane| format!("{event} /{lane}")));
    sink.wait_for_taken(owed.collect(), |arrival| format!("{} {}", arrival.event, arrival.path));
    nodes.into_iter().for_each(Serving::stop_in_order);
    let arrivals = sink.arrivals();
    for lane in 0..LANES {
        let of_lane: Vec<_> = arrivals.iter().filter(|one| one.path == format!("/{lane}")).cloned().collect();
        judge::conforms(&of_lane, RATE_PER_SECOND, BURST);
    }
    eprintln!("{} events acknowledged, 0 lost, {} arrivals", acknowledged.len(), arrivals.len());
}

struct Deployment {
    file: ComposeFile,
    machine: Machine,
    /// PgBouncer, where it is installed. Without it nodes name both servers.
    pooler: Option<String>,
}

impl Deployment {
    fn first(&self) -> Container {
        let variable = |name: &str| self.file.value(&["x-postgres", "environment", name]);
        let scripts = self.machine.folder("first").join("scripts");
        fs::create_dir(&scripts).unwrap();
        executable(&scripts.join("replication.sh"), &self.file.content("replication"));
        let command = self.file.words(&["services", "first", "command"]);
        let image = ["sh", "-c", IMAGE, "image.sh"];
        let words: Vec<_> = image.into_iter().chain(command.iter().map(String::as_str)).collect();
        let first = self.machine.start(
            "first",
            &words,
            &[
                ("POSTGRES_USER", &variable("POSTGRES_USER")),
                ("POSTGRES_DB", &variable("POSTGRES_DB")),
                ("POSTGRES_HOST_AUTH_METHOD", &variable("POSTGRES_HOST_AUTH_METHOD")),
                ("INIT", &scripts.display().to_string()),
            ],
        );
        first.wait_until(|| self.is_healthy("first", &["x-postgres"]));
        let is_made = self.machine.folder("first").join("made").exists();
        assert!(is_made, "others begin while the image makes the database");
        first
    }

    /// The standby's script must succeed at the first try.
    fn second(&self) -> Container {
        let script = self.machine.folder("second").join("follow.sh");
        fs::write(&script, self.machine.located("second", &self.file.content("follow"))).unwrap();
        let command = self.file.list(&["services", "second", "command"]);
        let script = script.display().to_string();
        let words: Vec<_> =
            command.iter().map(|word| if word == "/follow.sh" { script.as_str() } else { word }).collect();
        assert!(words.contains(&script.as_str()), "{command:?}");
        let second = self.machine.start("second", &words, &[]);
        second.wait_until(|| self.is_healthy("second", &["x-postgres"]));
        second
    }

    fn wait_until_second_is_waited_for(&self, second: &Container) {
        second.wait_until(|| self.query("first", "SELECT sync_state FROM pg_stat_replication") == ["sync"]);
    }

    fn pool(&self, server: &str) -> Option<Container> {
        let program = self.pooler.as_ref()?;
        let folder = self.machine.folder("pool");
        let content = self.file.content("pool").replace("host=first", &format!("host={server}"));
        let content = self.machine.located("pool", &content);
        // In a container no other process uses that directory.
        let content = format!("{content}unix_socket_dir = {}\n", folder.display());
        let path = folder.join("pgbouncer.ini");
        fs::write(&path, content).unwrap();
        let pool = self.machine.start("pool", &[program, &path.display().to_string()], &[]);
        pool.wait_until(|| self.is_healthy("pool", &["services", "pool"]));
        Some(pool)
    }

    fn is_healthy(&self, service: &str, part: &[&str]) -> bool {
        let test = self.file.list(&[part, &["healthcheck", "test"]].concat());
        let [kind, program, arguments @ ..] = test.as_slice() else { panic!("{test:?}") };
        assert_eq!(kind, "CMD");
        let arguments = arguments.iter().map(|argument| self.machine.located(service, argument));
        let asked = self.machine.command(service, program).args(arguments).output().unwrap();
        asked.status.success()
    }

    fn query(&self, server: &str, statement: &str) -> Vec<String> {
        let address = format!("postgresql://hookproof@{}/hookproof", self.machine.address(server));
        query(&address, statement)
    }

    fn words(&self, node: &str) -> Vec<String> {
        let words = self.file.list(&["services", node, "command"]);
        assert_eq!(words[0], "sender");
        let located = |word: &String| {
            let word = if self.pooler.is_some() {
                word.clone()
            } else {
                word.replace(
                    "@pool:6432/hookproof",
                    "@first,second/hookproof?target_session_attrs=read-write",
                )
            };
            self.machine.located(node, &word)
        };
        words[1..].iter().map(located).collect()
    }

    fn node(&self, node: &str) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
        command.args(self.words(node)).env("SENDER_TOKEN", TOKEN);
        Serving::launch(command, |line| eprint!("{line}"))
    }

    fn listens(&self, node: &str) -> SocketAddr {
        value_of("--listen", &self.words(node)).parse().unwrap()
    }

    fn subscribe(&self, sink: &Sink) {
        let words = self.words(NODES[0]);
        for number in 0..LANES {
            let (name, url) = (format!("sink-{number}"), format!("{}{number}", sink.url()));
            let mut command = Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
            command.args(["subscriber", "add", &name, &url, "--allow-private-targets", "--db"]);
            command.arg(value_of("--db", &words)).args(settings(RATE_PER_SECOND, BURST));
            let added = command.output().unwrap();
            assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        }
    }
}

fn value_of<'a>(option: &str, words: &'a [String]) -> &'a str {
    let place = words.iter().position(|word| word == option).expect("it is there");
    &words[place + 1]
}
