use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use hookproof_sender::engine::{Nanos, StoreTime};
use hookproof_sender::event::timestamp::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving};
use crate::transport::name_server::{NameServer, Says};
use crate::transport::secure::Secure;

fn signal(serving: &Serving, signal: &str) {
    let sent = Command::new("kill").args([signal, &serving.child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn owners(database: &Database) -> BTreeSet<i64> {
    let sql = database.sql();
    let mut owners = sql.prepare("SELECT owner FROM lanes WHERE owner IS NOT NULL").unwrap();
    owners.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_stopped_past_its_lease_sends_nothing_when_it_goes_on() {
    let (connected, mut connections) = mpsc::unbounded_channel();
    let (agree, agreed) = oneshot::channel();
    let (endpoint, mut told) = Secure::reading(&["http/1.1"], connected, agreed).await;
    let settings = ["timeout=60s", "connect_timeout=60s"];
    let database = Database::with_sink(&endpoint.url(), &settings);
    let roots = database.folder.path().join("roots.pem");
    std::fs::write(&roots, &endpoint.pem).unwrap();
    let options = ["--lease", "1s", "--extra-roots", roots.to_str().unwrap()];
    let stopped = database.serve_with(&options);
    stopped.emit("first");
    // Its attempt waits for TLS, for up to a minute.
    connections.recv().await.unwrap();
    signal(&stopped, "-STOP");
    let before = owners(&database);
    assert_eq!(before.len(), 1);
    let _other = database.serve_with(&options);
    while owners(&database).is_subset(&before) {
        tokio::task::yield_now().await;
    }
    agree.send(()).unwrap();
    signal(&stopped, "-CONT");
    connections.recv().await.unwrap();
    let read = told.recv().await.unwrap();
    assert!(read.is_empty(), "{}", String::from_utf8_lossy(&read));
}

#[test]
fn a_process_that_cannot_renew_its_lease_closes_what_it_has_under_way_and_makes_the_same_attempt_again() {
    let (tell, told) = std::sync::mpsc::channel();
    let sink = Endpoint::scripted(move |number, stream| {
        if number > 0 {
            return write!(stream, "HTTP/1.1 204 No Content\r\n\r\n");
        }
        tell.send("read").unwrap();
        let ended = stream.read_exact(&mut [0]);
        tell.send("ended").unwrap();
        ended
    });
    let database = Database::with_sink(&sink.url, &["timeout=5s", "sign=vvv-frozen"]);
    let serving = database.serve_with(&["--lease", "1s"]);
    serving.emit("first");
    assert_eq!(told.recv().unwrap(), "read");
    let sql = database.sql();
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(told.recv().unwrap(), "ended");
    sql.execute_batch("ROLLBACK").unwrap();
    let attempts: Vec<String> =
        sink.wait_for(2).iter().map(|arrival| arrival.header("x-vvv-attempt").to_owned()).collect();
    assert_eq!(attempts, ["1", "1"], "as little as with a process that dies is held against anybody");
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_subscribers_whose_names_hang_hold_up_neither_a_healthy_one_nor_what_operators_ask() {
    let mut server = NameServer::start(|name| match name {
        "healthy.example" => Says::Address(Ipv4Addr::LOCALHOST, 0),
        _ => Says::Nothing,
    })
    .await;
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url.replace("127.0.0.1", "healthy.example"), &[]);
    let serving = database.serve_with(&["--resolver", &server.address.to_string()]);
    for number in 0..620 {
        let body = format!(
            r#"{{"name": "hangs-{number}", "url": "http://hangs-{number}.example/", "events": ["*"], "connect_timeout": "60s", "timeout": "60s"}}"#
        );
        let added = serving.post("/v1/subscribers", &body);
        assert_eq!(added.status, 201, "{added:?}");
    }
    for round in ["first", "second", "third"] {
        let event = serving.emit(round);
        server.hangs_for(64).await;
        sink.wait_for_events(&[event]);
        assert_eq!(serving.get("/readyz").status, 200, "{round}");
        assert_eq!(serving.get("/v1/status").status, 200, "{round}");
    }
}

#[expect(clippy::disallowed_methods, reason = "compared with what the sender says of the time")]
fn in_a_day() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = StoreTime(u64::try_from(now.as_nanos()).unwrap());
    Timestamp(StoreTime(now.0 + Nanos::DAY.0)).to_string()
}

#[test]
fn an_old_secret_retires_by_the_real_clock_whatever_the_databases_clock_says() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &[]);
    database.sql().execute_batch("UPDATE totals SET clock = clock + 90000000000000").unwrap();
    let earliest = in_a_day();
    database.json(&["subscriber", "rotate", "sink", "--overlap", "24h", "--json"]);
    let latest = in_a_day();
    let shown = database.json(&["subscriber", "show", "sink", "--json"]);
    let retires: Vec<&str> =
        shown["secrets"].as_array().unwrap().iter().filter_map(|secret| secret["retires"].as_str()).collect();
    assert!(matches!(retires[..], [only] if (&*earliest..=&*latest).contains(&only)), "{retires:?} {latest}");
    // Both secrets sign: the overlap holds in the database's time too.
    let serving = database.serve();
    serving.emit("first");
    let signatures = sink.wait_for(1).remove(0);
    assert_eq!(signatures.header("webhook-signature").split(' ').count(), 2);
}
