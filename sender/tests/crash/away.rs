use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use crate::binary::http::{Answer, request};
use crate::crash::process::Database;
use crate::crash::sink::Sink;
use crate::crash::{IN_FLIGHT, RATE_PER_SECOND, judge, settings};

const BURST: usize = 10;
const BEFORE: usize = 40;

struct World {
    sink: Arc<Sink>,
    database: Database,
}

impl World {
    fn emit(&self, id: &str) -> Answer {
        let event = json!({ "id": id, "type": "order.paid", "data": { "order": id } }).to_string();
        self.post("application/json", &event)
    }

    fn post(&self, kind: &str, body: &str) -> Answer {
        request(&self.database.address().to_string(), "POST", "/v1/events", kind, body.as_bytes())
    }

    fn accepted_counts(&self) -> BTreeMap<String, usize> {
        let mut taken = BTreeMap::new();
        for arrival in self.sink.arrivals().into_iter().filter(|arrival| arrival.taken) {
            *taken.entry(arrival.event).or_default() += 1;
        }
        taken
    }

    fn wait_until_settled(&self, events: &BTreeSet<String>) {
        while self.database.confirmed().into_iter().collect::<BTreeSet<_>>() != *events {
            std::thread::yield_now();
        }
    }
}

#[track_caller]
fn is_refused_for_now(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    answer.is_a_refusal();
    assert_eq!(answer.json()["error"]["code"], "store", "{answer:?}");
    says_when(answer);
}

#[track_caller]
fn says_when(answer: &Answer) {
    let after = answer.header("retry-after").unwrap_or_else(|| panic!("no Retry-After: {answer:?}"));
    assert!(after.parse::<u32>().is_ok_and(|secs| secs > 0), "{answer:?}");
}

#[test]
fn while_the_server_is_away_emitters_are_told_when_to_come_back_and_nothing_is_lost() {
    let sink = Arc::new(Sink::willing());
    let test = "while_the_server_is_away_emitters_are_told";
    let Some(database) = Database::on_server(test, &sink.url(), &settings(RATE_PER_SECOND, BURST)) else {
        return;
    };
    let node = database.serve_with_long_lease();
    let world = World { sink: Arc::clone(&sink), database };
    let mut acknowledged: BTreeSet<String> = (0..BEFORE).map(|number| format!("before-{number}")).collect();
    sink.hold(true);
    for id in &acknowledged {
        assert_eq!(world.emit(id).status, 202, "{id}");
    }
    sink.wait_for(IN_FLIGHT);
    world.database.server().end();
    // The endpoint takes those now, and the node cannot record it.
    sink.hold(false);

    // This event stays in doubt.
    let caught = world.emit("caught");
    assert_eq!(caught.status, 503, "{caught:?}");
    says_when(&caught);
    // The node knows from now on that the store does not write.
    for _ in 0..3 {
        is_refused_for_now(&world.emit("while-it-is-away"));
    }
    let line = json!({ "id": "while-it-is-away", "type": "order.paid", "data": 1 }).to_string();
    is_refused_for_now(&world.post("application/x-ndjson", &line));

    world.database.server().begin();
    let accepted = loop {
        let answer = world.emit("while-it-is-away");
        if answer.status == 202 {
            break answer.json();
        }
        is_refused_for_now(&answer);
    };
    assert_eq!((&accepted["deliveries"], &accepted["duplicates"]), (&json!(1), &json!(0)), "{accepted}");
    let again = world.emit("caught").json();
    let known = [&again["deliveries"], &again["duplicates"]].map(|count| count.as_u64().unwrap());
    assert_eq!(known.iter().sum::<u64>(), 1, "it was recorded meanwhile, or is now: {again}");
    acknowledged.extend(["while-it-is-away".to_owned(), "caught".to_owned()]);
    world.wait_until_settled(&acknowledged);
    node.stop_in_order();
    let once: BTreeMap<String, usize> = acknowledged.into_iter().map(|id| (id, 1)).collect();
    assert_eq!(
        world.accepted_counts(),
        once,
        "each was taken once, what was sent while the server was away too"
    );
    judge::conforms(&sink.arrivals(), RATE_PER_SECOND, BURST);
}
