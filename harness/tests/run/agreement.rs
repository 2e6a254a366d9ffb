//! The sender measures from the event's receipt to the attempt's start. The harness bounds both: an event was offered
//! before its receipt, and received before the harness read its acknowledgement. An attempt started before its first
//! byte arrived, and ended after the answer's last byte; the sender records its duration. So each wait lies between
//!
//! ```text
//! answered − how long the attempt took − accepted   ≤   received → started   ≤   arrived − offered
//! ```
//!
//! on any machine. Order of each pair implies order of every percentile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hookproof_judge::check::exact::percentile;
use hookproof_sender::delivery_ids::DeliveryIds;
use hookproof_sender::engine::Nanos;
use hookproof_sender::store::read::{Filter, Lanes, Notices, Place, Reader};
use hookproof_sender::store::sqlite::SqliteReader;

use super::*;

/// Waits then range from a millisecond to a second.
const WAITING: &str = r#"
name = "waiting"
drain = "20s"
linger = "500ms"
[[traffic]]
shape = "steady"
rate = "60/s"
lasts = "4s"
[[subscriber]]
name = "one"
limit = { rate = "40/s", burst = 10, in_flight = 5 }
answers = "1ms..9ms"
"#;

const SLACK: u64 = 1_000_000;

struct Wait {
    least: u64,
    /// From the sender's own rows.
    told: u64,
    most: u64,
}

fn database(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let own = files.into_iter().find(|path| path.ends_with("sender.db"));
    own.or_else(|| folders.iter().find_map(|folder| database(folder)))
}

fn waits_and_latencies(database: &Path) -> BTreeMap<String, (u64, u64)> {
    let reader = SqliteReader::open(database).unwrap();
    let ids = DeliveryIds::new(reader.glance().unwrap().identity);
    let filter = Filter { lanes: Lanes::All, place: Some(Place::Delivered) };
    let (mut told, mut cursor) = (BTreeMap::new(), None);
    loop {
        let page = reader.deliveries(filter.clone(), cursor, 100).unwrap();
        for delivery in page.items {
            let attempts = reader.attempts_of(delivery.delivery).unwrap();
            let [only] = &attempts[..] else { panic!("one attempt each, not {attempts:?}") };
            let waited = only.attempt.at.since(delivery.received);
            let id = ids.name(delivery.received, delivery.delivery).to_string();
            told.insert(id, (waited.0, only.attempt.latency.0));
        }
        cursor = page.next;
        if cursor.is_none() {
            return told;
        }
    }
}

fn waits(trace: &Trace, told: &BTreeMap<String, (u64, u64)>) -> Vec<Wait> {
    let offered: BTreeMap<u64, u64> = trace.offers.iter().map(|offer| (offer.token, offer.t)).collect();
    let accepted: BTreeMap<u64, u64> = trace.accepted.iter().map(|one| (one.token, one.t)).collect();
    let wait = |(arrival, answer): (&hookproof_judge::trace::Arrival, &hookproof_judge::trace::Answer)| {
        assert_eq!(arrival.n, answer.n);
        let token = arrival.token.unwrap();
        let (waited, took) = told[arrival.id.as_deref().unwrap()];
        let least = answer.end.saturating_sub(took).saturating_sub(accepted[&token]);
        Wait { least, told: waited, most: arrival.t - offered[&token] }
    };
    let mut answers = trace.answers.clone();
    answers.sort_unstable_by_key(|answer| answer.n);
    trace.arrivals.iter().zip(&answers).map(wait).collect()
}

fn sorted(waits: &[Wait], of: fn(&Wait) -> u64) -> Vec<u64> {
    let mut sorted: Vec<u64> = waits.iter().map(of).collect();
    sorted.sort_unstable();
    sorted
}

#[test]
fn the_senders_first_attempts_waited_as_long_as_the_harness_saw_in_every_percentile() {
    let mut run = start("waiting", WAITING, &[]);
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
    let database = database(&run.out()).expect("the sender's database is kept with the run");
    let trace = Trace::open(&run.out().join("trace.jsonl")).unwrap();
    let waits = waits(&trace, &waits_and_latencies(&database));
    assert_eq!(waits.len(), 240);
    for (number, Wait { least, told, most }) in waits.iter().enumerate() {
        let fits = *least <= told + SLACK && *told <= most + SLACK;
        assert!(fits, "delivery {number}: {} <= {} <= {}", Nanos(*least), Nanos(*told), Nanos(*most));
    }
    let status = Command::new(env!("CARGO_BIN_EXE_hookproof"))
        .args(["sender", "status", "--json", "--db"])
        .arg(&database)
        .output()
        .unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let figures = &status["first_attempt_last_day"];
    assert_eq!(figures["samples"], 240, "{status}");
    let parts = figures["too_high_permille_max"].as_u64().unwrap();
    let [least, exact, most] =
        [sorted(&waits, |it| it.least), sorted(&waits, |it| it.told), sorted(&waits, |it| it.most)];
    for (name, thousandths) in [("p50_us", 500), ("p95_us", 950), ("p99_us", 990)] {
        let figure = figures[name].as_u64().unwrap() * 1_000;
        let [least, exact, most] = [&least, &exact, &most].map(|some| percentile(some, thousandths));
        let too_high = |value: u64| value + value / 1_000 * parts + SLACK;
        let told = format!("{name}: {least} <= {exact} ~ {figure} <= {most}");
        assert!(least <= figure + SLACK && figure <= too_high(most), "the harness saw otherwise: {told}");
        assert!(exact <= figure + 1_000 && figure <= too_high(exact), "its own rows say otherwise: {told}");
    }
    assert!(percentile(&exact, 950) > 200_000_000, "some waited, or this says little");
}
