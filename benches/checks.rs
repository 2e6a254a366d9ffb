//! Time and memory of all checks on a million arrivals. The budget is about a second, and 500 bytes an arrival,
//! counted from reading the trace.

#![expect(clippy::print_stdout, reason = "what a bench is for")]

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

use hookproof_judge::check::{Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::signature::sha256_hex;
use hookproof_judge::trace::{
    Accepted, Answer, Arrival, ClockKind, End, Ended, FORMAT, Head, Header, Offer, Record, Shared, Signed,
    Text, Trace, TraceFile, Verified, Writer,
};

const ARRIVALS: u64 = 1_000_000;
const SUBSCRIBERS: u64 = 100;
/// Nanoseconds between two arrivals of a subscriber.
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

fn write(scenario: &Scenario, path: &Path) -> io::Result<()> {
    let mut writer = Writer::new(TraceFile::create(path)?, header(scenario))?;
    let names: Vec<Text> = scenario.subscribers.iter().map(|one| one.name.as_str().into()).collect();
    let owed: Shared<[Text]> = names.iter().cloned().collect();
    let events = ARRIVALS / SUBSCRIBERS;
    for token in 0..events {
        let t = token * GAP;
        let (kind, key) = ("video.trending".into(), format!("k{}", token % 50).into());
        writer.write(&Record::Offer(Offer {
            t,
            intended: t,
            held: 0,
            token,
            kind,
            key,
            owed: owed.clone(),
        }))?;
        writer.write(&Record::Accepted(Accepted { t: t + 1, token, status: 202, matched: None }))?;
        for (at, endpoint) in (0..).zip(&names) {
            let (n, t) = (token * SUBSCRIBERS + at, t + 2 + at);
            writer.write(&Record::Arrival(arrival(n, t, token, endpoint)))?;
            let (t, end, status) = (t + 500, t + 600, 204);
            writer.write(&Record::Answer(Answer { t, end, n, status, retry_after: None, whole: true }))?;
        }
    }
    let (t, ended) = (events * GAP, Ended::Done);
    writer.finish(End { t, ended, dead_listed: true, late: 0, dropped: 0 })?.close()
}

fn header(scenario: &Scenario) -> Header {
    Header {
        format: FORMAT,
        version: String::new(),
        scenario: scenario.name.clone(),
        scenario_sha256: sha256_hex(scenario.text.as_bytes()),
        schedule_sha256: String::new(),
        seed: 1,
        driver: String::new(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: 0,
        scenario_toml: scenario.text.clone(),
    }
}

/// Like our own sender's: equal bytes for every subscriber, and a separate signature.
fn arrival(n: u64, t: u64, token: u64, endpoint: &Text) -> Arrival {
    let (path, content_type) = (format!("/hooks/{endpoint}").into(), Some("application/json".into()));
    Arrival {
        t,
        read: t,
        n,
        endpoint: endpoint.clone(),
        connection: n % 1_000,
        token: Some(token),
        more: Box::default(),
        id: Some(format!("msg_{token:026}").into()),
        attempt: Some("1".into()),
        head: Head { method: "POST".into(), path, content_type, ..Head::default() }.into(),
        bytes: 500,
        sha256: format!("{token:064x}").into(),
        payload: None,
        signed: Signed {
            signature: Some(format!("v1,{n:044}").into()),
            verified: Verified::Keys(vec![0].into()),
            surplus: 0,
            disclosed: None,
            timestamp: Some((t / 1_000_000_000).to_string().into()),
        },
    }
}

/// This process's memory in bytes: `VmRSS` now, `VmHWM` at its peak.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it says its memory");
    let kibibytes: u64 = line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().expect("a number");
    kibibytes << 10
}

fn checks(criterion: &mut Criterion) {
    let scenario = scenario();
    let directory = tempfile::tempdir().expect("a directory for the trace");
    let file = directory.path().join("million.trace.zst");
    write(&scenario, &file).expect("a trace is written");
    let before = memory("VmRSS");
    let trace = Trace::open(&file).expect("what was written is a trace");
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
