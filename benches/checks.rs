//! How long all checks take on a million arrivals, about a second; and how much memory an arrival takes meanwhile, the trace
//! included. That is to come below 500 bytes.

#![expect(clippy::print_stdout, reason = "what a bench is for")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use hookproof::check::{Strictness, judge};
use hookproof::scenario::Scenario;
use hookproof::trace::{
    Accepted, Answer, Arrival, ClockKind, Ended, FORMAT, Header, Offer, Signed, Trace, Trailer, Verified,
};

const ARRIVALS: u64 = 1_000_000;
const SUBSCRIBERS: u64 = 100;
/// From one arrival at a subscriber to the next.
const GAP: u64 = 1_000_000;

fn scenario() -> Scenario {
    let text = format!(
        "name = \"million\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1000/s\"\nlasts = \"10s\"\n\
         [[fault]]\nat = \"4s\"\ndo = \"kill\"\n\
         [[subscriber]]\nname = \"s\"\ncount = {SUBSCRIBERS}\n\
         limit = {{ rate = \"1000/s\", burst = 50, windows = [\"1100 per 1s\"], in_flight = 50 }}\n\
         breaker = {{ failures = 10 }}\n\
         [[subscriber.behaviour]]\nanswer = 429\nretry_after = \"1s\"\nshare = 0.01\n"
    );
    Scenario::from_text(&text, "million.toml").expect("valid")
}

fn trace(scenario: &Scenario) -> Trace {
    let mut trace = Trace::of(Header {
        format: FORMAT,
        version: String::new(),
        scenario: scenario.name.clone(),
        scenario_sha256: String::new(),
        schedule_sha256: String::new(),
        seed: 1,
        driver: String::new(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: 0,
        scenario_toml: String::new(),
    });
    let names: Vec<String> = scenario.subscribers.iter().map(|one| one.name.clone()).collect();
    let events = ARRIVALS / SUBSCRIBERS;
    for token in 0..events {
        let t = token * GAP;
        let (kind, key) = ("video.trending".to_owned(), format!("k{}", token % 50));
        trace.offers.push(Offer { t, intended: t, held: 0, token, kind, key, owed: names.clone() });
        trace.accepted.push(Accepted { t: t + 1, token, status: 202, matched: None });
        for (at, endpoint) in (0..).zip(&names) {
            let (n, t) = (token * SUBSCRIBERS + at, t + 2 + at);
            trace.arrivals.push(arrival(n, t, token, endpoint));
            trace.answers.push(Answer {
                t: t + 500,
                end: t + 600,
                n,
                status: 204,
                retry_after: None,
                whole: true,
            });
        }
    }
    trace.trailer = Some(Trailer {
        t: events * GAP,
        ended: Ended::Done,
        lines: 1,
        offers: events,
        arrivals: ARRIVALS,
        dead_listed: true,
        late: 0,
        dropped: 0,
    });
    trace
}

fn arrival(n: u64, t: u64, token: u64, endpoint: &str) -> Arrival {
    Arrival {
        t,
        read: t,
        n,
        endpoint: endpoint.to_owned(),
        connection: n % 1_000,
        token: Some(token),
        more: Vec::new(),
        id: Some(format!("msg_{token}")),
        attempt: Some("1".to_owned()),
        method: "POST".to_owned(),
        path: format!("/hooks/{endpoint}"),
        content_type: Some("application/json".to_owned()),
        bytes: 500,
        sha256: format!("{token:064x}"),
        signed: Signed {
            signature: Some("v1,abc".to_owned()),
            verified: Verified::Keys(vec![0]),
            timestamp: Some((t / 1_000_000_000).to_string()),
        },
    }
}

/// A figure of this process's memory, in bytes: `VmRSS` now, `VmHWM` at most so far.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it says its memory");
    let kibibytes: u64 = line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().expect("a number");
    kibibytes << 10
}

fn checks(criterion: &mut Criterion) {
    let scenario = scenario();
    let before = memory("VmRSS");
    let trace = trace(&scenario);
    let held = memory("VmRSS") - before;
    black_box(judge(&scenario, &trace, Strictness::Usual));
    let most = memory("VmHWM") - before;
    println!("memory: {} bytes an arrival, {} of them the trace", most / ARRIVALS, held / ARRIVALS);
    criterion.bench_function("all checks on 1,000,000 arrivals", |bencher| {
        bencher.iter(|| black_box(judge(&scenario, &trace, Strictness::Usual)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(1));
    targets = checks
}
criterion_main!(benches);
