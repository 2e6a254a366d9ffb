use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

use hookproof_sender::store::command::Claim;
use hookproof_sender::store::lane::{Bounds, Limits};
use hookproof_sender::store::postgres::{Address, Options, PostgresStore};
use hookproof_sender::store::{Command, Store, StoreError};

use crate::postgres_server::{Private, none};
use crate::store::postgres::Schema;
use crate::store::world::{WIDE, World, body};

/// Each of the process's tests gets another: a server binds its port later.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed)).take(2_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn open(address: &str) -> Result<PostgresStore, StoreError> {
    let address: Address = address.parse().unwrap();
    PostgresStore::open(&address, &Options { limits: Limits::default(), create: true, identity: u64::MAX })
}

struct Server {
    port: u16,
    roots: String,
    _server: Private,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Option<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, port) = (made.cert.pem(), free_port());
        let pem = format!("{}{certificate}", made.signing_key.serialize_pem());
        let server = Private::start_over_tls(port, &pem)?;
        let folder = tempfile::tempdir().unwrap();
        let roots = folder.path().join("roots of ours.pem");
        std::fs::write(&roots, certificate).unwrap();
        let roots = roots.display().to_string().replace(' ', "%20");
        Some(Self { port, roots, _server: server, _folder: folder })
    }

    fn by(&self, port: u16) -> String {
        format!(
            "postgres://hookproof@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            self.roots
        )
    }
}

#[test]
fn a_server_over_tls_is_spoken_to_if_it_proves_who_it_is_and_not_otherwise() {
    let Some(server) = Server::start() else { return none("over TLS") };
    let (port, roots) = (server.port, &server.roots);
    let at = |host: &str, query: &str| format!("postgres://hookproof@{host}:{port}/postgres{query}");

    let address = server.by(port);
    let mut world = World::over(Schema::at_address(address));
    let (lane, _) = world.own_lane(WIDE);
    world.emit_one(lane);
    world.check_figures();

    let untold = open(&at("localhost", "")).err().unwrap().to_string();
    assert!(untold.contains("no encryption"), "{untold}");
    let unknown = open(&at("localhost", "?sslmode=require")).err().unwrap().to_string();
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    let another =
        open(&at("127.0.0.1", &format!("?sslmode=require&sslrootcert={roots}"))).err().unwrap().to_string();
    assert!(another.contains("not valid for name"), "{another}");
}

/// After `bytes` bytes to a client it stops reading, and keeps the sockets open.
fn carry_up_to(bytes: u64, server_port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) =
                (client.unwrap(), TcpStream::connect(("127.0.0.1", server_port)).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || {
                let mut said = (&mut server).take(bytes);
                let _ = std::io::copy(&mut said, &mut client).and_then(|_| client.flush());
                std::mem::forget((server, client));
            });
        }
    });
    port
}

/// The server cannot send the rest of an answer.
#[test]
fn a_client_that_stops_reading_an_answer_holds_locks_briefly() {
    const BODY_BYTES: usize = 1 << 20;
    const BODIES: u64 = 40;
    let Some(server) = Server::start() else { return none("who stops listening") };
    let mut world = World::over(Schema::at_address(server.by(server.port)));
    let (lane, term) = world.own_lane(Bounds { bytes_max: 1 << 30, ..WIDE });
    for _ in 0..BODIES {
        let mut event = world.event(&[lane]);
        event.bodies = vec![body(&vec![b'x'; BODY_BYTES])];
        world.try_emit(event).unwrap();
    }
    let stuck = server.by(carry_up_to(4 << 20, server.port)) + "&tcp_user_timeout=6";
    let mut listening = open(&stuck).unwrap();
    let (now, claim) = (world.now, Claim { lane, term, max: 1_000, bytes_max: u64::MAX });
    let error = listening.commit(now, &[Command::Claim(claim)]).unwrap_err();
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    // Each try waits 8 s for the lock.
    let event = Command::Emit(world.event(&[lane]));
    let mut tries = (0..3).map(|_| world.store.commit(now, std::slice::from_ref(&event)));
    assert!(tries.any(|tried| tried.is_ok()), "what was locked is locked still");
    world.check_figures();
}

#[test]
fn an_address_that_does_not_say_whom_to_trust_is_refused() {
    for (query, expected) in [
        ("sslmode=prefer", "expected disable or verify-full"),
        ("sslmode=verify-ca", "expected disable or verify-full"),
        ("sslrootcert=/there", "sslrootcert needs sslmode=verify-full"),
        ("sslmode=verify-full&sslrootcert=/is/no/such/file", "/is/no/such/file: No such file"),
        ("sslmode=verify-full&sslrootcert=/dev/null", "no certificate among the extra roots"),
    ] {
        let told = format!("postgres://me:hush@db.example/hooks?{query}")
            .parse::<Address>()
            .unwrap_err()
            .to_string();
        assert!(told.contains(expected) && !told.contains("hush"), "{told}");
    }
    assert!(
        "postgres://me@db.example/hooks?sslmode=verify-full&connect_timeout=3".parse::<Address>().is_ok()
    );
    assert!("postgres://me@db.example/hooks?sslmode=disable".parse::<Address>().is_ok());
}

#[tokio::test]
async fn a_server_that_is_away_is_told_of_where_tasks_run_too() {
    let away = open("postgres://me@127.0.0.1:1/hooks").err().unwrap();
    assert!(matches!(away, StoreError::Lost { .. }), "{away}");
}

#[test]
fn text_in_a_password_is_neither_a_setting_nor_printed() {
    for address in [
        "postgres://me:hu?sh@127.0.0.1:1/hooks?sslmode=prefer",
        "postgres://me:hu?sslmode=hush@127.0.0.1:1/hooks?sslmode=prefer",
        "postgres://me@127.0.0.1:1/hooks?ssl%6dode=prefer",
        "postgres://me:p@d?sslmode=hush@127.0.0.1:1/hooks",
        "postgres://me:p@d?hush=hush@127.0.0.1:1/hooks",
        "postgres://me@127.0.0.1:1/hooks?hush=1",
        "host=127.0.0.1 port=1 user=me password=hush sslmode=require",
    ] {
        let told = address.parse::<Address>().expect_err(address).to_string();
        assert!(!told.contains("sh"), "{told}");
    }
    let address: Address = "postgres://me:hu?sslmode=sh@127.0.0.1:1/hooks".parse().unwrap();
    assert_eq!(address.to_string(), "postgres://127.0.0.1/hooks");
}

#[test]
fn a_server_that_says_nothing_is_waited_for_no_longer_than_one_that_is_away() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("postgres://me@{}/hooks?connect_timeout=1", silent.local_addr().unwrap());
    let away = open(&address).err().unwrap();
    assert!(matches!(away, StoreError::Lost { .. }), "{away}");
}
