//! A database returns to an earlier state, as after a failover to a standby without the last commits.

use std::io::{BufRead, BufReader};

use hookproof_sender::store::clock::Beginning;
use hookproof_sender::store::command::{LaneSelection, Renew};
use hookproof_sender::store::postgres::{Address, Options, PostgresStore};
use hookproof_sender::store::{Command, Reply, Store, StoreError};

use crate::postgres_server::{Fsync, Private, execute, none, query};
use crate::store::postgres::Schema;
use crate::store::world::{LEASE, ME, WIDE, World, YOU, acquire};

struct Past {
    server: Private,
}

impl Past {
    fn new(test: &str) -> Option<Self> {
        let Some(server) = Private::start(Fsync::Off) else {
            none(test);
            return None;
        };
        let past = Self { server };
        past.order("CREATE DATABASE here");
        Some(past)
    }

    fn order(&self, statement: &str) {
        execute(&self.server.address("public"), statement);
    }

    fn address(&self) -> String {
        self.server.address("public").replace("/postgres?", "/here?")
    }

    fn close(&self) {
        self.order("ALTER DATABASE here ALLOW_CONNECTIONS false");
        self.order("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'here'");
    }

    fn reopen(&self) {
        self.order("ALTER DATABASE here ALLOW_CONNECTIONS true");
    }

    /// This ends every connection.
    fn save_state(&self) {
        // A reconnecting client would prevent the copy.
        self.close();
        self.order("CREATE DATABASE noted TEMPLATE here");
        self.reopen();
    }

    fn go_back(&self) {
        self.order("DROP DATABASE here WITH (FORCE)");
        self.order("ALTER DATABASE noted RENAME TO here");
    }
}

/// The store's thread repeats transient failures too.
fn commit(store: &mut dyn Store, world: &World<Schema>, command: &Command) -> Result<Vec<Reply>, StoreError> {
    loop {
        match store.commit(world.now, std::slice::from_ref(command)) {
            Err(error) if error.may_pass() => {}
            ended => return ended,
        }
    }
}

fn open(past: &Past) -> PostgresStore {
    let address: Address = past.address().parse().unwrap();
    PostgresStore::open(&address, &Options { create: true, ..Options::default() }).unwrap()
}

#[test]
fn only_the_processes_whose_commits_are_lost_are_told() {
    let Some(past) = Past::new("only_processes_with_lost_commits_are_told") else { return };
    let mut world = World::over(Schema::at_address(past.address()));
    let (lane, _) = world.own_lane(WIDE);
    let before = world.event(&[lane]);
    let (mut one, mut other) = (open(&past), open(&past));
    commit(&mut one, &world, &Command::Emit(before)).unwrap();
    let [during, after, others, latest] = [(); 4].map(|()| world.event(&[lane]));
    past.save_state();
    let mut late = open(&past);
    commit(&mut one, &world, &Command::Emit(during)).unwrap();
    past.go_back();
    let error = commit(&mut one, &world, &Command::Emit(after.clone())).unwrap_err();
    assert!(
        matches!(error, StoreError::WentBack { .. }) && error.to_string().contains("lost commits"),
        "{error}"
    );
    let again = commit(&mut one, &world, &Command::Emit(after)).unwrap_err();
    assert!(matches!(again, StoreError::WentBack { .. }), "it stays so: {again}");
    for (store, event) in [(&mut other, others), (&mut late, latest)] {
        commit(store, &world, &Command::Emit(event)).expect("of what it has done nothing is gone");
    }
    let mut world = World::over(Schema::at_address(past.address()));
    assert_eq!(world.total().accepted, 3, "what was noted, and what came after; the rest is gone");
    world.pass(LEASE);
    assert_eq!(world.acquire(YOU, LaneSelection::All).len(), 1, "its lanes go on");
}

#[test]
fn a_process_that_began_after_the_restored_state_is_told_too() {
    let Some(past) = Past::new("a_process_began_after_the_restored_state") else { return };
    let mut world = World::over(Schema::at_address(past.address()));
    let (lane, _) = world.own_lane(WIDE);
    let (during, after) = (world.event(&[lane]), world.event(&[lane]));
    past.save_state();
    let mut store = open(&past);
    commit(&mut store, &world, &Command::Emit(during)).unwrap();
    past.go_back();
    let error = commit(&mut store, &world, &Command::Emit(after)).unwrap_err();
    assert!(matches!(error, StoreError::WentBack { .. }), "{error}");
}

#[test]
fn a_database_that_takes_no_connections_for_now_is_waited_for() {
    let Some(past) = Past::new("a_database_that_takes_no_connections_for_now") else { return };
    let mut world = World::over(Schema::at_address(past.address()));
    let lane = world.new_lane(WIDE);
    let mut store = open(&past);
    let event = Command::Emit(world.event(&[lane]));
    past.close();
    for _ in 0..3 {
        let error = store.commit(world.now, std::slice::from_ref(&event)).unwrap_err();
        assert!(error.may_pass(), "{error}");
    }
    past.reopen();
    commit(&mut store, &world, &event).unwrap();
    let world = World::over(Schema::at_address(past.address()));
    assert_eq!(world.total().accepted, 1);
}

#[test]
fn a_process_that_begins_while_the_server_takes_no_writes_waits_for_it() {
    let Some(past) = Past::new("a_process_that_begins_while_the_server_takes_no_writes") else { return };
    past.order("ALTER DATABASE here SET default_transaction_read_only = on");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--db", &past.address()]);
    let mut process = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = lines.find(|line| line.contains("waiting for the database")).expect("it waits");
    assert!(waits.contains("is read-only") && !waits.contains("file"), "{waits}");
    past.order("ALTER DATABASE here RESET default_transaction_read_only");
    assert!(lines.any(|line| line.contains("the sender runs")), "it ended");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn the_first_process_to_detect_a_restore_blocks_takeovers_for_a_lease() {
    let Some(past) = Past::new("the_first_process_to_detect_a_restore") else { return };
    let mut world = World::over(Schema::at_address(past.address()));
    world.new_lane(WIDE);
    let mut store = open(&past);
    store.begin_clock(Beginning { wall: world.now, machine: None, alone: false, back_max: LEASE }).unwrap();
    commit(&mut store, &world, &acquire(ME, LaneSelection::All)).unwrap();
    let until = || query(&past.address(), "SELECT until FROM owners")[0].parse::<u64>().unwrap();
    past.save_state();
    let noted = until();
    let renew = Command::Renew(Renew { owner: ME, lease: LEASE, announce: None });
    commit(&mut store, &world, &renew).unwrap();
    let renewed = until();
    past.go_back();
    assert!(until() == noted && noted < renewed);
    let error = commit(&mut store, &world, &renew).unwrap_err();
    assert!(matches!(error, StoreError::WentBack { .. }) && until() >= renewed, "{error}");
}

#[test]
fn a_process_whose_database_has_gone_back_says_so_and_ends() {
    let Some(past) = Past::new("a_process_whose_database_has_gone_back") else { return };
    let mut world = World::over(Schema::at_address(past.address()));
    let lane = world.new_lane(WIDE);
    let events = [(); 8].map(|()| Command::Emit(world.event(&[lane])));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hookproof-sender"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--db", &past.address()]).env("RUST_BACKTRACE", "0");
    let process = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let token = || query(&past.address(), "SELECT max(token) FROM totals")[0].parse::<u64>().unwrap();
    let commits_on = || {
        let before = token();
        while token() <= before {}
    };
    commits_on();
    past.save_state();
    let mut store = open(&past);
    events.iter().for_each(|event| drop(commit(&mut store, &world, event).unwrap()));
    commits_on();
    past.go_back();
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the database lost commits"), "{said}");
    assert!(said.contains("restart it") && !said.contains("panicked"), "{said}");
}
