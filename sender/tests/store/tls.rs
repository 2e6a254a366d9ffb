//! A server that is reached over TLS alone.

use std::net::TcpListener;

use hookproof_sender::store::StoreError;
use hookproof_sender::store::lane::Limits;
use hookproof_sender::store::postgres::{Address, Options, PostgresStore};

use crate::postgres::Schema;
use crate::postgres_server::{Private, none};
use crate::world::{WIDE, World};

/// A port that is free now, and not among those that the system gives to whoever asks for any.
fn free_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    (first..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn open(address: &str) -> Result<PostgresStore, StoreError> {
    let address: Address = address.parse().unwrap();
    PostgresStore::open(&address, &Options { limits: Limits::default(), create: true, identity: u64::MAX })
}

#[test]
fn a_server_over_tls_is_spoken_to_if_it_proves_who_it_is_and_not_otherwise() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, port) = (made.cert.pem(), free_port());
    let pem = format!("{}{certificate}", made.signing_key.serialize_pem());
    let Some(_server) = Private::start_over_tls(port, &pem) else { return none("over TLS") };
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots of ours.pem");
    std::fs::write(&roots, certificate).unwrap();
    let roots = roots.display().to_string().replace(' ', "%20");
    let at = |host: &str, query: &str| format!("postgres://hookproof@{host}:{port}/postgres{query}");

    let address = at("localhost", &format!("?sslmode=verify-full&sslrootcert={roots}"));
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

#[test]
fn an_address_that_does_not_say_whom_to_trust_is_refused() {
    for (query, expected) in [
        ("sslmode=prefer", "it is disable, or verify-full"),
        ("sslmode=verify-ca", "it is disable, or verify-full"),
        ("sslrootcert=/there", "of no use without sslmode=verify-full"),
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
fn what_a_password_holds_is_neither_a_setting_nor_told() {
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
