//! `tls.verified`: the endpoint completes the handshake where the sender lets it, and answers each request. A sender
//! may also look at the certificate after the handshake: only a request shows that it took it. The trace holds each
//! handshake with a wrong certificate, so the check passes only if each of the scenario's wrong certificates was met.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::Evidence;
use super::network::{ERRORS, LOST, survival};
use super::outcomes::unless_late;
use super::verdict::{Finding, Tally};
use crate::check::{Check, Simulated};
use crate::entry::Severity;
use crate::scenario::{Answer, Certificate};
use crate::trace::ShownCertificate;

pub(super) const CHECK: Check = Check {
    id: "tls.verified",
    severity: Severity::Must,
    source: "RFC 9110, 4.3.4",
    requirement: "no request goes out on a connection with a wrong certificate, and its delivery is retried and not \
        lost",
    why: "anybody on the way can read and answer the requests of a sender that takes any certificate",
    remedy: "verify the chain, the name and the dates before the first byte of a request, and count a failed \
        handshake as a failed attempt",
    simulated: Simulated::Beyond("a simulated connection has no certificate"),
    find: judge,
    ..Check::PLAIN
};

pub(super) fn judge(evidence: &Evidence<'_>) -> Finding {
    if !evidence.scenario.shows_wrong_certificates() {
        return Finding::unasked("no endpoint shows a wrong certificate");
    }
    let shown = &evidence.trace.reached.certificates;
    let by_connection: BTreeMap<u64, &ShownCertificate> =
        shown.iter().map(|one| (one.connection, one)).collect();
    let mut tally = Tally::default();
    shown.iter().for_each(|_| tally.see());
    for (lane, own) in (0..).zip(&evidence.lanes) {
        for n in &own.arrivals {
            let connection = evidence.trace.arrivals[*n as usize].connection;
            if let Some(shown) = by_connection.get(&connection) {
                let what = format!(
                    "a request on a connection with a wrong certificate: {}",
                    shown.certificate.name()
                );
                tally.broke(|| evidence.witness(lane, &[*n], what));
            }
        }
    }
    if tally.broken > 0 {
        return tally.finding("connections with a wrong certificate", "", "with a request");
    }
    let (lost, late) = survival(evidence, |answer| matches!(answer, Answer::WrongCertificate(_)), |_| false);
    if lost.broken > 0 {
        return lost.finding(ERRORS, "", LOST);
    }
    match unmet(evidence, shown) {
        Some((name, certificate)) => {
            Finding::unseen(format!("no connection met the certificate of {name}: {}", certificate.name()))
        }
        None => {
            let good = "each without a request";
            unless_late(tally.finding("connections with a wrong certificate", good, ""), late)
        }
    }
}

fn unmet<'e>(evidence: &'e Evidence<'_>, shown: &[ShownCertificate]) -> Option<(&'e str, Certificate)> {
    let met: BTreeSet<(&str, Certificate)> =
        shown.iter().map(|one| (one.endpoint.as_str(), one.certificate)).collect();
    let planned = evidence.scenario.subscribers.iter().flat_map(|subscriber| {
        let wrong = subscriber.behaviours.iter().filter_map(|one| match one.answer {
            Answer::WrongCertificate(certificate) => Some(certificate),
            _ => None,
        });
        wrong.map(|certificate| (subscriber.name.as_str(), certificate))
    });
    { planned }.find(|one| !met.contains(one))
}
