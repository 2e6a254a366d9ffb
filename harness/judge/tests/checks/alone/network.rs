use hookproof_judge::scenario::Certificate;
use hookproof_judge::trace::{CutKind, ShownCertificate};

use super::Row;
use super::run::{Run, calm, forgiving};

pub(super) const ROWS: [Row; 9] = [
    Row {
        check: "network.timeout",
        broken: "a request without an answer is held open for six seconds; its deadline is two",
        good: silent,
        breaks: |run| run.trace.cuts[0].t += 4_000_000_000,
    },
    Row {
        check: "network.deadline",
        broken: "an answer that began half a second after the deadline is taken for one",
        good: slow,
        breaks: |run| {
            run.unsent();
        },
    },
    Row {
        check: "network.reset",
        broken: "after a reset connection a delivery is given up, with attempts left",
        good: || cut("reset-after-read", CutKind::ResetAfterRead),
        breaks: |run| {
            run.unsent().dead(0, 2_000, "rejected");
        },
    },
    Row {
        check: "network.refused",
        broken: "a delivery that fell due while the port was closed never comes; the scenario lets one be lost",
        good: refused,
        breaks: |run| {
            run.unsent();
        },
    },
    Row {
        check: "network.stale",
        broken: "after a closed connection a delivery is given up, with attempts left",
        good: || cut("close", CutKind::Close),
        breaks: |run| {
            run.unsent().dead(0, 2_000, "rejected");
        },
    },
    Row {
        check: "tls.verified",
        broken: "a request comes on a connection with an expired certificate",
        good: expired,
        breaks: |run| run.trace.arrivals[1].connection = 90,
    },
    Row {
        check: "network.huge-answer",
        broken: "memory grows by 100 MiB with an answer without end",
        good: || {
            let mut run = calm("[[subscriber.behaviour]]\nat = \"2s\"\nanswer = \"huge-answer\"");
            run.resident(500, 50).resident(5_000, 60);
            run
        },
        breaks: |run| {
            run.resident(6_000, 150);
        },
    },
    Row {
        check: "isolation.latency",
        broken: "beside a slow endpoint each delivery comes 800 ms later than before",
        good: beside_a_slow_one,
        breaks: |run| {
            (25..50).for_each(|n: u64| {
                run.moved(usize::try_from(n).expect("small"), 1_000 * n + 810);
            });
        },
    },
    Row {
        check: "isolation.gap",
        broken: "beside a slow endpoint one delivery waits for three seconds, and nothing comes meanwhile",
        good: || {
            // Without a rate, which would be used too little.
            let mut run = Run::limited("in_flight = 10", SLOW);
            run.delivery(0, 10_000).delivery(1, 30_000).delivery(2, 40_000);
            run
        },
        breaks: |run| {
            run.moved(1, 33_010);
        },
    },
];

const SLOW: &str = "[[subscriber]]\nname = \"b\"\nevents = [\"audio.*\"]\n\
                    [[subscriber.behaviour]]\nat = \"25s\"\nanswer = \"blackhole\"";

fn silent() -> Run {
    let mut run =
        Run::new("timeout = \"2s\"\n[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = \"blackhole\"");
    run.event(0, 1_500).request(0, 2_000, 500).cut(4_000, CutKind::Blackhole).request(0, 9_000, 204);
    run
}

fn slow() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = 204\nlatency = \"2500ms\"";
    let mut run = Run::new(&format!("timeout = \"2s\"\n{behaviour}"));
    run.event(0, 1_000).request(0, 1_010, 204).answered(0, 3_510).request(0, 5_000, 204);
    run
}

fn cut(answer: &str, how: CutKind) -> Run {
    let behaviour = format!("[[subscriber.behaviour]]\nattempts = \"1\"\nanswer = \"{answer}\"");
    let mut run = Run::new(&format!("retry = {{ ttl = \"10min\" }}\n{behaviour}"));
    run.event(0, 1_000).request(0, 1_010, 500).cut(1_010, how).request(0, 1_510, 204);
    run
}

/// A delivery is due while the port is closed, and comes once it is open.
fn refused() -> Run {
    // The number of tries at a closed port is unknown, but no delay exceeds five seconds.
    let retry = "retry = { cap = \"5s\" }";
    let behaviour = "[[subscriber.behaviour]]\nat = \"1s\"\nlasts = \"1s\"\nanswer = \"refuse\"";
    let mut run = forgiving(&format!("{retry}\n{behaviour}"));
    run.event(0, 1_500).request(0, 2_500, 204);
    run
}

/// Fifty deliveries, a second apart, half of them before the other endpoint slows down.
fn beside_a_slow_one() -> Run {
    let mut run = Run::new(SLOW);
    (0..50).for_each(|token| {
        run.delivery(token, 1_000 * token);
    });
    run
}

/// A handshake with an expired certificate, which the sender lets end.
fn expired() -> Run {
    let behaviour = "[[subscriber.behaviour]]\nlasts = \"500ms\"\nanswer = \"wrong-certificate\"";
    let mut run = calm(&format!("{behaviour}\ncertificate = \"expired\""));
    let (endpoint, certificate) = ("a".to_owned(), Certificate::Expired);
    let shown = ShownCertificate { t: 1, endpoint, connection: 90, certificate, refused: None };
    run.trace.reached.certificates.push(shown);
    run
}
