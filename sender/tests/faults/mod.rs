//! The sender keeps every acknowledged event, and neither ends nor spins. One log line reports the fault and one its
//! end.

mod clock;
mod damage;
mod disk;
mod doctor;
mod doctor_of_server;
mod file;
mod lock;
mod log;
mod restore;
mod rows;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::binary::http::{Answer, try_ask};
use crate::binary::{Serving, event};

/// Settings under which a sink takes everything at once.
const WIDE: [&str; 3] = ["limit.rate=10000/s", "limit.burst=100", "retry.base=10ms"];

/// The channel yields `None` without an answer.
fn offer(serving: &Serving, key: &str) -> Receiver<Option<Answer>> {
    let (tell, told) = channel();
    let (address, body) = (serving.address.clone(), event(key));
    std::thread::spawn(move || {
        let answer = try_ask(&address, "POST", "/v1/events", "application/json", body.as_bytes());
        let _ = tell.send(answer.ok());
    });
    told
}

#[track_caller]
fn holds_still(serving: &mut Serving, offered: &Receiver<Option<Answer>>, length: Duration) {
    let before = serving.ticks();
    if let Ok(Some(answer)) = offered.recv_timeout(length) {
        assert_ne!(answer.status, 202, "acknowledged during a fault: {answer:?}");
        assert_eq!(answer.status, 503);
        answer.is_a_refusal();
    }
    assert!(serving.is_running(), "{:#?}", serving.lines());
    let (spent, passed) = (serving.ticks() - before, u64::try_from(length.as_millis() / 10).unwrap());
    // A spinning loop uses a whole processor; polling for work uses a few hundredths.
    assert!(spent < passed / 3 + 10, "{spent} of {passed} hundredths of a second on a processor");
}

#[track_caller]
fn assert_logged_once(serving: &Serving, what: &str) {
    let over = serving.wait_for_line("\"the database works again");
    let complaints = serving.complaints();
    assert_eq!(complaints.len(), 1, "{complaints:#?}");
    assert!(complaints[0].contains(what), "expected {what:?}: {complaints:#?}");
    let lines = serving.lines();
    assert_eq!(
        lines.iter().filter(|line| line.contains("\"the database works again")).count(),
        1,
        "{over} {lines:#?}"
    );
}

/// It was acknowledged later, or was refused and can be offered again.
#[track_caller]
fn acknowledged_after_all(serving: &Serving, offered: &Receiver<Option<Answer>>) -> String {
    let answer = offered.recv_timeout(crate::binary::FOREVER).unwrap().unwrap();
    assert_eq!(answer.status, 202, "{answer:?}: {:#?}", serving.lines());
    answer.json()["id"].as_str().unwrap().to_owned()
}
