use hookproof_judge::check::{Status, Strictness, judge};
use hookproof_judge::scenario::Scenario;
use hookproof_judge::trace::{
    Accepted, Answer, Arrival, ClockKind, Depth, Ended, Head, Header, Offer, Payload, Shared, Signed, Text,
    Trace, Trailer, Verified,
};

pub(crate) fn header(scenario_toml: &str) -> Header {
    Header {
        format: hookproof_judge::trace::FORMAT,
        version: "0".to_owned(),
        scenario: "built".to_owned(),
        scenario_sha256: hookproof_judge::signature::sha256_hex(scenario_toml.as_bytes()),
        schedule_sha256: String::new(),
        seed: 1,
        driver: "built".to_owned(),
        clock: ClockKind::Virtual,
        clock_resolution_ns: 1,
        began_unix_ns: 0,
        scenario_toml: scenario_toml.to_owned(),
    }
}

pub(crate) fn scenario(limit: &str) -> Scenario {
    let text = format!(
        "name = \"built\"\n[[traffic]]\nshape = \"steady\"\nrate = \"1/s\"\nlasts = \"1s\"\n[[subscriber]]\nname = \"a\"\n\
         limit = {{ {limit} }}\n"
    );
    Scenario::from_text(&text, "built.toml").expect("valid")
}

/// A delivery arrives at each of these times, and is answered at once.
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

#[track_caller]
pub(crate) fn named(text: &str) -> Scenario {
    Scenario::from_text(text, "built.toml").expect("valid")
}

pub(crate) fn offer(trace: &mut Trace, token: u64, t: u64, owed: &[&str]) {
    let owed = owed.iter().map(|name| Text::from(*name)).collect();
    trace.offers.push(Offer { t, intended: t, owed, ..an_offer(token) });
    trace.accepted.push(Accepted { t, token, status: 202, matched: None });
}

pub(crate) fn deliver(trace: &mut Trace, endpoint: &str, token: u64, t: u64, status: u16) {
    let n = trace.arrivals.len() as u64;
    let (token, id) = (Some(token), Some(format!("msg_{token}").into()));
    let head = head(&format!("/hooks/{endpoint}"));
    trace.arrivals.push(Arrival { endpoint: endpoint.into(), head, token, id, ..arrival(n, t) });
    trace.answers.push(Answer { t, end: t, n, status, retry_after: None, whole: true });
}

/// They have the same index.
pub(crate) fn without(trace: &mut Trace, at: usize) {
    trace.arrivals.remove(at);
    trace.answers.remove(at);
    for (n, (arrival, answer)) in (0..).zip(trace.arrivals.iter_mut().zip(&mut trace.answers)) {
        (arrival.n, answer.n) = (n, n);
    }
}

pub(crate) fn depth(t: u64, subscriber: Option<&str>, waiting: u64) -> Depth {
    let subscriber = subscriber.map(str::to_owned);
    Depth { t, subscriber, waiting: Some(waiting), ..Depth::default() }
}

pub(crate) fn end(trace: &mut Trace, t: u64) {
    let (offers, arrivals) = (trace.offers.len() as u64, trace.arrivals.len() as u64);
    if let Some(trailer) = &mut trace.trailer {
        (trailer.t, trailer.offers, trailer.arrivals) = (t, offers, arrivals);
    }
}

#[track_caller]
pub(crate) fn verdict(id: &str, scenario: &Scenario, trace: &Trace, expected: Status) {
    let judgement = judge(scenario, trace, Strictness::Usual);
    let verdict = judgement.verdicts.iter().find(|verdict| verdict.id == id).expect("judged");
    assert_eq!(verdict.status, expected, "{id}: {}", verdict.sentence);
}

pub(crate) fn scenario_with(more: &str) -> Scenario {
    let text = format!("{}{more}\n", scenario("rate = \"10/s\", burst = 5").text);
    Scenario::from_text(&text, "built.toml").expect("valid")
}

/// Judges deliveries at 1, 2 and 3 s, after `change`.
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
    let (kind, key) = ("video.trending".into(), "k".into());
    Offer { t: 0, intended: 0, held: 0, token, kind, key, owed: vec!["a".into()].into() }
}

pub(crate) fn head(path: &str) -> Shared<Head> {
    let (method, content_type) = ("POST".into(), Some("application/json".into()));
    Head { method, path: path.into(), content_type, ..Head::default() }.into()
}

pub(crate) fn with_head(arrival: &mut Arrival, change: impl FnOnce(&mut Head)) {
    let mut head = (*arrival.head).clone();
    change(&mut head);
    arrival.head = head.into();
}

fn arrival(n: u64, t: u64) -> Arrival {
    Arrival {
        t,
        read: t,
        n,
        endpoint: "a".into(),
        connection: n,
        token: Some(n),
        more: Box::default(),
        id: Some(format!("msg_{n}").into()),
        attempt: None,
        head: head("/hooks/a"),
        bytes: 1,
        sha256: Text::default(),
        payload: Some(Payload::Intact),
        signed: Signed {
            signature: Some("v1,x".into()),
            verified: Verified::Keys(vec![0].into()),
            surplus: 0,
            disclosed: None,
            timestamp: Some((t / 1_000_000_000).to_string().into()),
        },
    }
}
