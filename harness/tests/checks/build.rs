//! Small traces in memory.

use hookproof::check::{Status, Strictness, judge};
use hookproof::scenario::Scenario;
use hookproof::trace::{
    Accepted, Answer, Arrival, ClockKind, Depth, Ended, Header, Offer, Signed, Trace, Trailer, Verified,
};

/// A header for a scenario.
pub(crate) fn header(scenario_toml: &str) -> Header {
    Header {
        format: hookproof::trace::FORMAT,
        version: "0".to_owned(),
        scenario: "built".to_owned(),
        scenario_sha256: hookproof::wire::digest::sha256_hex(scenario_toml.as_bytes()),
        schedule_sha256: String::new(),
        seed: 1,
        driver: "built".to_owned(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: 0,
        scenario_toml: scenario_toml.to_owned(),
    }
}

/// One subscriber `a` with that limit, and nothing else of note.
pub(crate) fn scenario(limit: &str) -> Scenario {
    let text = format!(
        "name = \"built\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"1s\"\n[[subscriber]]\nname = \"a\"\n\
         limit = {{ {limit} }}\n"
    );
    Scenario::from_text(&text, "built.toml").expect("valid")
}

/// A run in which a delivery arrived at each of these times, and was answered at once.
pub(crate) fn trace(scenario: &Scenario, times: &[u64]) -> Trace {
    let mut trace = Trace::of(header(&scenario.text));
    for (n, t) in (0..).zip(times.iter().copied()) {
        trace.offers.push(an_offer(n));
        trace.accepted.push(Accepted { t: 0, token: n, status: 202, matched: None });
        trace.arrivals.push(arrival(n, t));
        trace.answers.push(Answer { t, end: t, n, status: 204, retry_after: None, whole: true });
    }
    let t = times.last().copied().unwrap_or(0) + 1;
    let (offers, arrivals) = (trace.offers.len() as u64, trace.arrivals.len() as u64);
    let lines = 1 + 2 * offers + 2 * arrivals;
    let trailer =
        Trailer { t, ended: Ended::Done, lines, offers, arrivals, dead_listed: true, late: 0, dropped: 0 };
    trace.trailer = Some(trailer);
    trace
}

/// A scenario by its text.
#[track_caller]
pub(crate) fn named(text: &str) -> Scenario {
    Scenario::from_text(text, "built.toml").expect("valid")
}

/// Adds an event that was offered and taken at that moment.
pub(crate) fn offer(trace: &mut Trace, token: u64, t: u64, owed: &[&str]) {
    let owed = owed.iter().map(|name| (*name).to_owned()).collect();
    trace.offers.push(Offer { t, intended: t, owed, ..an_offer(token) });
    trace.accepted.push(Accepted { t, token, status: 202, matched: None });
}

/// Adds a request for an event, which is answered at once.
pub(crate) fn deliver(trace: &mut Trace, endpoint: &str, token: u64, t: u64, status: u16) {
    let n = trace.arrivals.len() as u64;
    let (endpoint, id) = (endpoint.to_owned(), Some(format!("msg_{token}")));
    let path = format!("/hooks/{endpoint}");
    trace.arrivals.push(Arrival { endpoint, path, token: Some(token), id, ..arrival(n, t) });
    trace.answers.push(Answer { t, end: t, n, status, retry_after: None, whole: true });
}

/// Takes an arrival out, and its answer: each arrival has one, in its order.
pub(crate) fn without(trace: &mut Trace, at: usize) {
    trace.arrivals.remove(at);
    trace.answers.remove(at);
    for (n, (arrival, answer)) in (0..).zip(trace.arrivals.iter_mut().zip(&mut trace.answers)) {
        (arrival.n, answer.n) = (n, n);
    }
}

/// The sender's word that so many deliveries wait.
pub(crate) fn depth(t: u64, subscriber: Option<&str>, waiting: u64) -> Depth {
    let subscriber = subscriber.map(str::to_owned);
    Depth { t, subscriber, waiting: Some(waiting), ..Depth::default() }
}

/// Ends the run at that moment.
pub(crate) fn end(trace: &mut Trace, t: u64) {
    let (offers, arrivals) = (trace.offers.len() as u64, trace.arrivals.len() as u64);
    if let Some(trailer) = &mut trace.trailer {
        (trailer.t, trailer.offers, trailer.arrivals) = (t, offers, arrivals);
    }
}

/// Asserts what one check says of a run.
#[track_caller]
pub(crate) fn verdict(id: &str, scenario: &Scenario, trace: &Trace, expected: Status) {
    let judgement = judge(scenario, trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == id).expect("judged");
    assert_eq!(verdict.status, expected, "{id}: {}", verdict.sentence);
}

/// One subscriber `a` with a limit, and what those lines say more.
pub(crate) fn scenario_with(more: &str) -> Scenario {
    let text = format!("{}{more}\n", scenario("rate = \"10/s\", burst = 5").text);
    Scenario::from_text(&text, "built.toml").expect("valid")
}

/// Asserts what one check says of a run of deliveries at 1, 2 and 3 s, as that changed it.
#[track_caller]
pub(crate) fn check(id: &str, more: &str, change: impl Fn(&mut Trace), expected: Status) {
    let scenario = scenario_with(more);
    let mut trace = trace(&scenario, &[1_000_000_000, 2_000_000_000, 3_000_000_000]);
    change(&mut trace);
    let judgement = judge(&scenario, &trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == id).expect("judged");
    assert_eq!(verdict.status, expected, "{id} with {more:?}: {}", verdict.sentence);
}

fn an_offer(token: u64) -> Offer {
    let (kind, key) = ("video.trending".to_owned(), "k".to_owned());
    Offer { t: 0, intended: 0, held: 0, token, kind, key, owed: vec!["a".to_owned()] }
}

fn arrival(n: u64, t: u64) -> Arrival {
    Arrival {
        t,
        read: t,
        n,
        endpoint: "a".to_owned(),
        connection: n,
        token: Some(n),
        more: Vec::new(),
        id: Some(format!("msg_{n}")),
        attempt: None,
        method: "POST".to_owned(),
        path: "/hooks/a".to_owned(),
        content_type: Some("application/json".to_owned()),
        bytes: 1,
        sha256: String::new(),
        signed: Signed {
            signature: Some("v1,x".to_owned()),
            verified: Verified::Keys(vec![0]),
            timestamp: Some((t / 1_000_000_000).to_string()),
        },
    }
}
