//! No room left. A limit on the size of a process's files stands in for a full disk: it needs no rights, any Linux has
//! it, and it can be lifted while the process runs. (That SQLite's own word for a full disk means the same to the store
//! is tested with the store.)

use std::process::Command;
use std::time::Duration;

use crate::binary::endpoint::Endpoint;
use crate::binary::{Database, Serving, event};
use crate::{WIDE, acknowledged_after_all, holds_still, offer};

/// No file of the process grows beyond so many bytes.
fn limit(serving: &Serving, bytes: &str) {
    let pid = serving.child.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status().unwrap();
    assert!(set.success());
}

#[test]
fn without_room_nothing_is_acknowledged_and_with_room_everything_goes_on() {
    let sink = Endpoint::taking();
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let first = serving.emit("before");
    sink.wait_for_events(std::slice::from_ref(&first));
    serving.until("/v1/status", |status| status["deliveries"]["delivered"] == 1);
    for _ in 0..2 {
        limit(&serving, "1024");
        let offered = offer(&serving, "during");
        holds_still(&mut serving, &offered, Duration::from_secs(4));
        assert_eq!(serving.get("/readyz").status, 503);
        // By now it is known that this will not pass soon: who comes later need not wait, and knows that nothing is kept.
        let refused = serving.post("/v1/events", &event("refused"));
        assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (503, Some("store")));
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        // What is there can still be read.
        assert_eq!(serving.get("/v1/status").json()["deliveries"]["delivered"], sink.count());
        limit(&serving, "unlimited");
        let acknowledged = acknowledged_after_all(&serving, &offered);
        sink.wait_for_events(&[acknowledged]);
        let delivered = sink.count();
        serving.until("/v1/status", |status| status["deliveries"]["delivered"] == delivered);
    }
    let complaints = serving.complaints();
    assert_eq!(complaints.len(), 2, "one line for each time: {complaints:#?}");
    assert_eq!(serving.wait_for_lines("\"the store works again", 2).len(), 2);
    serving.stop_in_order();
    assert_eq!(sink.count(), 3, "each once");
}

#[test]
fn without_room_at_a_kill_what_was_acknowledged_is_there_afterwards() {
    let sink = Endpoint::answering(|_| "503 Not Now\r\nretry-after: 3600\r\n".to_owned());
    let database = Database::with_sink(&sink.url, &WIDE);
    let mut serving = database.serve();
    let kept: Vec<String> = (0..20).map(|n| serving.emit(&n.to_string())).collect();
    limit(&serving, "1024");
    let offered = offer(&serving, "during");
    holds_still(&mut serving, &offered, Duration::from_secs(1));
    serving.wait_for_line("the store fails");
    serving.kill();
    let serving = database.serve();
    for event in kept {
        let found = serving.get(&format!("/v1/deliveries?event={event}")).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{found}");
    }
    serving.stop_in_order();
}
