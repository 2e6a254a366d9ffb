use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use hookproof_sender::store::postgres::{Address, Options, PostgresReader, PostgresStore};
use hookproof_sender::store::{Command as StoreCommand, StoreError};
use tempfile::TempDir;

use crate::postgres_server::{Fsync, Private, none, pooler, query, unprivileged};
use crate::store::postgres::Schema;
use crate::store::world::{WIDE, World};

struct Pooler {
    folder: TempDir,
    process: Child,
}

impl Pooler {
    fn start(program: &Path, server: &Private, mode: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let process = launch(program, server, folder.path(), mode);
        Self { folder, process }
    }

    fn replace(&mut self, program: &Path, server: &Private, mode: &str) {
        self.end();
        std::fs::remove_file(socket(self.folder.path())).unwrap();
        self.process = launch(program, server, self.folder.path(), mode);
    }

    fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn address(&self) -> String {
        let host = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgresql://hookproof@{host}:6432/postgres")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.end();
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.6432")
}

fn launch(program: &Path, server: &Private, folder: &Path, mode: &str) -> Child {
    let address = server.address("public");
    let host = address.split(['@', '/']).nth(3).unwrap().replace("%2F", "/");
    let settings = format!(
        "[databases]\npostgres = host={host} user=hookproof\n[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {}\n\
         auth_type = any\npool_mode = {mode}\nignore_startup_parameters = extra_float_digits,options\n",
        folder.display()
    );
    let file = folder.join("pgbouncer.ini");
    std::fs::write(&file, settings).unwrap();
    let mut command = unprivileged(program);
    let mut process =
        command.arg("-q").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while UnixStream::connect(socket(folder)).is_err() {
        assert_eq!(process.try_wait().unwrap(), None, "the pooler has ended");
        std::thread::yield_now();
    }
    process
}

fn server(test: &str) -> Option<(PathBuf, Private)> {
    let program = pooler(test)?;
    let server = Private::start(Fsync::Off);
    if server.is_none() {
        none(test);
    }
    Some((program, server?))
}

fn refused(error: &StoreError) {
    assert!(matches!(error, StoreError::Pooled { .. }) && error.to_string().contains("pool_mode"), "{error}");
}

#[test]
fn behind_a_pooler_of_sessions_a_store_works_until_it_becomes_one_of_transactions() {
    let Some((program, server)) = server("behind_a_pooler_of_sessions") else { return };
    let mut pooler = Pooler::start(&program, &server, "session");
    let mut world = World::over(Schema::at_address(pooler.address()));
    let (lane, term) = world.own_lane(WIDE);
    let delivery = world.emit_one(lane);
    assert_eq!(world.claim(lane, term), [delivery]);
    let event = StoreCommand::Emit(world.event(&[lane]));
    pooler.replace(&program, &server, "transaction");
    let error = loop {
        match world.store.commit(world.now, std::slice::from_ref(&event)) {
            Err(error) if error.may_pass() => {}
            ended => break ended.unwrap_err(),
        }
    };
    refused(&error);
}

#[test]
fn a_pooler_of_transactions_is_refused_and_nothing_is_set_for_others() {
    let Some((program, server)) = server("a_pooler_of_transactions_is_refused") else { return };
    let pooler = Pooler::start(&program, &server, "transaction");
    let address: Address = pooler.address().parse().unwrap();
    let options = Options { create: true, ..Options::default() };
    refused(&PostgresStore::open(&address, &options).unwrap_err());
    World::over(Schema::at_address(server.address("public"))).new_lane(WIDE);
    refused(&PostgresReader::open(&address).unwrap_err());
    assert_eq!(query(&pooler.address(), "SHOW default_transaction_read_only"), ["off"]);
}
