//! Good runs with one random change. A run that breaks a promise by its [`definition`] may not pass.

mod definition;

use std::collections::BTreeMap;
use std::path::Path;

use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{Arrival, Head, Trace, Verified};
use hookproof_play::traffic::Chance;
use hookproof_simulator::sim::{Keep, Options, judged, simulate};

/// `HOOKPROOF_MUTATIONS` sets another number.
const MUTATIONS: u64 = 10_000;
const SECOND: u64 = 1_000_000_000;

/// One fails twice and one asks for a pause; recorded from the real sender in the simulator.
const LIVELY: &str = r#"
name  = "lively"
drain = "20s"
[[traffic]]
shape = "steady"
rate  = "8/s"
lasts = "4s"
[[subscriber]]
name    = "calm"
limit   = { rate = "10/s", burst = 5, windows = ["12 per 1s"], in_flight = 2 }
timeout = "2s"
answers = "5ms..30ms"
[[subscriber]]
name    = "failing"
limit   = { rate = "20/s", burst = 10, in_flight = 4 }
timeout = "2s"
retry   = { base = "300ms", cap = "1s", attempts = 5 }
[[subscriber.behaviour]]
attempts = "1..2"
share    = 0.3
answer   = 500
[[subscriber]]
name    = "resting"
limit   = { rate = "20/s", burst = 10, in_flight = 4 }
timeout = "2s"
[[subscriber.behaviour]]
at          = "1s"
lasts       = "400ms"
answer      = 503
retry_after = "2s"
"#;

struct Good {
    scenario: Scenario,
    trace: Trace,
    judge: fn(&Scenario, &Trace, Strictness) -> hookproof_judge::check::Judgement,
}

fn golden() -> Good {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/traces/good.jsonl");
    let trace = Trace::open(&path).expect("a trace");
    let scenario = Scenario::from_text(&trace.header.scenario_toml, "good.jsonl").expect("valid");
    Good { scenario, trace, judge }
}

fn simulated() -> Good {
    let scenario = Scenario::from_text(LIVELY, "lively.toml").expect("valid");
    let run = simulate(&scenario, &Options { keep: Keep::Trace, seed: Some(1), ..Options::default() });
    let trace = Trace::read(run.expect("it runs").trace.as_slice()).expect("a trace");
    Good { scenario, trace, judge: judged }
}

impl Good {
    fn status(&self, trace: &Trace) -> Status {
        (self.judge)(&self.scenario, trace, Strictness::Strict).status
    }
}

fn mutate(trace: &mut Trace, chance: &mut Chance) -> &'static str {
    let at = below(chance, trace.arrivals.len());
    let other = below(chance, trace.arrivals.len());
    let what = match below(chance, 18) {
        0 => {
            trace.arrivals.remove(at);
            trace.answers.remove(at);
            "a request is dropped"
        }
        1 => {
            let (mut arrival, mut answer) = (trace.arrivals[at].clone(), trace.answers[at].clone());
            let later = below(chance, 3) as u64 * SECOND + below(chance, 1_000) as u64 * 1_000_000;
            arrival.t += later;
            arrival.read += later;
            (answer.t, answer.end) = (answer.t + later, answer.end + later);
            trace.arrivals.push(arrival);
            trace.answers.push(answer);
            "a request comes again"
        }
        2 | 3 => {
            shift(trace, at, chance);
            "a request is moved"
        }
        4 | 5 => {
            let (one, two) = (trace.arrivals[at].clone(), trace.arrivals[other].clone());
            (trace.arrivals[at].t, trace.arrivals[at].read) = (two.t, two.read);
            (trace.arrivals[other].t, trace.arrivals[other].read) = (one.t, one.read);
            let took = |n: usize, answers: &[hookproof_judge::trace::Answer]| (answers[n].t, answers[n].end);
            let (first, second) = (took(at, &trace.answers), took(other, &trace.answers));
            (trace.answers[at].t, trace.answers[at].end) = second;
            (trace.answers[other].t, trace.answers[other].end) = first;
            "two requests change places"
        }
        6 => {
            trace.answers[at].status = 500;
            "an answer becomes a failure"
        }
        7 => {
            trace.answers[at].end += 5 * SECOND;
            "an answer takes longer"
        }
        kind => change(trace, at, other, kind),
    };
    sort(trace);
    what
}

fn with_head(arrival: &mut Arrival, change: impl FnOnce(&mut Head)) {
    let mut head = (*arrival.head).clone();
    change(&mut head);
    arrival.head = head.into();
}

fn change(trace: &mut Trace, at: usize, other: usize, kind: usize) -> &'static str {
    let donor = trace.arrivals[other].clone();
    let arrival = &mut trace.arrivals[at];
    match kind {
        8 => {
            arrival.sha256 = "1".repeat(64).into();
            "a body changes"
        }
        9 => {
            arrival.id = donor.id;
            "an id is another's"
        }
        10 => {
            arrival.id = Some("msg_other".into());
            "an id changes"
        }
        11 => {
            arrival.token = donor.token;
            "an event is another"
        }
        12 => {
            arrival.token = Some(1 << 40);
            "an event was never offered"
        }
        13 => {
            arrival.endpoint = donor.endpoint;
            "a request reaches another endpoint"
        }
        14 => {
            arrival.signed.verified = Verified::No("wrong".into());
            "a signature is wrong"
        }
        15 => {
            with_head(arrival, |head| head.method = "PUT".into());
            "a method changes"
        }
        16 => {
            with_head(arrival, |head| head.content_type = None);
            "a content type is missing"
        }
        _ => {
            let stamped = arrival.signed.timestamp.as_ref().and_then(|text| text.parse::<u64>().ok());
            arrival.signed.timestamp = Some((stamped.unwrap_or(0) + 3_600).to_string().into());
            "a timestamp is an hour off"
        }
    }
}

fn shift(trace: &mut Trace, at: usize, chance: &mut Chance) {
    let by = 1 + below(chance, 4_000) as u64 * 1_000_000;
    let back = below(chance, 2) == 0;
    let moved = |t: u64| if back { t.saturating_sub(by) } else { t + by };
    let (arrival, answer) = (&mut trace.arrivals[at], &mut trace.answers[at]);
    (arrival.t, arrival.read) = (moved(arrival.t), moved(arrival.read));
    (answer.t, answer.end) = (moved(answer.t), moved(answer.end));
    if below(chance, 2) == 0 {
        arrival.signed.timestamp =
            Some(((trace.header.began_unix_ns + arrival.t) / SECOND).to_string().into());
    }
}

fn sort(trace: &mut Trace) {
    let mut made: Vec<_> = trace.arrivals.drain(..).zip(trace.answers.drain(..)).collect();
    made.sort_by_key(|(arrival, _)| arrival.t);
    for (n, (mut arrival, mut answer)) in (0..).zip(made) {
        (arrival.n, answer.n) = (n, n);
        trace.arrivals.push(arrival);
        trace.answers.push(answer);
    }
}

fn below(chance: &mut Chance, end: usize) -> usize {
    usize::try_from(chance.below(end as u64)).expect("small")
}

fn in_order(mut trace: Trace) -> Trace {
    trace.answers.sort_by_key(|answer| answer.n);
    assert!(
        trace.answers.iter().map(|answer| answer.n).eq(0..trace.arrivals.len() as u64),
        "all are answered"
    );
    trace
}

#[test]
fn no_run_passes_that_breaks_a_promise_by_its_definition() {
    let mutations =
        std::env::var("HOOKPROOF_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(MUTATIONS);
    let mut chance = Chance::new(13, 1);
    let mut seen: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for mut good in [golden(), simulated()] {
        good.trace = in_order(good.trace);
        assert_eq!(definition::broken(&good.scenario, &good.trace), Vec::<&str>::new());
        let usual = good.status(&good.trace);
        assert!(matches!(usual, Status::Pass | Status::Inconclusive), "{usual}");
        for _ in 0..mutations / 2 {
            let mut trace = good.trace.clone();
            let what = mutate(&mut trace, &mut chance);
            let broken = definition::broken(&good.scenario, &trace);
            let counts = seen.entry(what).or_default();
            counts.0 += 1;
            if let Some(promise) = broken.first() {
                counts.1 += 1;
                let status = good.status(&trace);
                assert_eq!(status, Status::Fail, "{what}, which breaks {promise}: {:#?}", trace.arrivals);
            }
        }
    }
    println!("mutation: made, of which so many break a promise\n{seen:#?}");
    assert!(seen.len() == 16 && seen.values().all(|(_, broken)| *broken > 20), "{seen:#?}");
}
