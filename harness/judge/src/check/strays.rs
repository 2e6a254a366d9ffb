//! `harness.strays`: stray requests and failed handshakes often explain missing arrivals. Anybody may call a public
//! URL; `path.own` judges a request that names no endpoint and carries an event of the run.

use super::evidence::Evidence;
use super::verdict::{Finding, Tally, Witness, moment};
use crate::check::Check;
use crate::entry::Severity;
use crate::trace::{Stray, StrayKind};

pub(super) const CHECK: Check = Check {
    id: "harness.strays",
    severity: Severity::Info,
    source: "derived: an uncounted request goes unnoticed",
    requirement: "every request names an endpoint, and every TLS handshake succeeds; the others are \
        counted and shown",
    why: "a sender that does not trust a certificate, or calls another URL, delivers nothing; this check \
        shows the reason",
    remedy: "let the sender trust the certificate that the run names, and let the tunnel or ingress keep \
        paths and hosts",
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    let reached = &evidence.trace.reached;
    if reached.strays.is_empty() {
        return match &reached.public {
            None => Finding::unasked("each endpoint has its own port, so every request names one"),
            Some(public) => Finding::held(format!("every request through {} named an endpoint", public.url)),
        };
    }
    let mut tally = Tally::default();
    for stray in &reached.strays {
        tally.broke(|| witness(stray, describe_stray(stray)));
    }
    let counted = |kind: StrayKind, what: &str| {
        let some = reached.strays.iter().filter(|stray| stray.kind == kind);
        let count: u64 = some.clone().map(|stray| stray.count).sum();
        let example = some.clone().next().map_or("", |stray| stray.said.as_str());
        (count > 0).then(|| format!("{count} {what} ({example})"))
    };
    let told = [
        counted(StrayKind::Handshake, "TLS handshakes failed"),
        counted(StrayKind::Request, "requests named no endpoint"),
    ];
    let told = told.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Finding { sentence: told, ..tally.finding("strays", "", "") }
}

pub(super) fn witness(stray: &Stray, what: String) -> Witness {
    Witness { subscriber: None, from: stray.t, until: stray.t, what, arrivals: Vec::new() }
}

fn describe_stray(stray: &Stray) -> String {
    let what = match stray.kind {
        StrayKind::Request => "a request that named no endpoint",
        StrayKind::Handshake => "a failed TLS handshake",
    };
    let more = if stray.count > 1 { format!(", {} in total", stray.count) } else { String::new() };
    format!("{what} at {}: {}{more}", moment(stray.t), stray.said)
}
