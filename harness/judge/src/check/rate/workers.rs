//! `rate.envelope` and `rate.window` judge without regard to processes; this check reports that several were at work.

use super::{envelope, window};
use crate::check::evidence::Evidence;
use crate::check::verdict::{Finding, Found};
use crate::check::{Check, Picture, Stall};
use crate::entry::Severity;
use crate::trace::Lack;
use crate::trace::ProcessEvent;

pub(in crate::check) const CHECK: Check = Check {
    id: "rate.across-workers",
    severity: Severity::Must,
    source: "existing senders",
    requirement: "the contract holds with several processes or nodes",
    why: "a limit that each process enforces alone is multiplied by the number of processes",
    remedy: "assign each subscriber's limiter to exactly one process at a time, by a lease",
    needs: &[Lack::Start],
    stall: Stall::Crowds,
    follows_fault: true,
    by_contract: true,
    stands_alone: true,
    picture: Picture::Level,
    find: judge,
    ..Check::PLAIN
};

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    if evidence.scenario.sender.workers < 2 {
        return Finding::unasked("the sender has one worker");
    }
    let started = evidence.trace.processes.iter().filter(|process| process.event == ProcessEvent::Ready);
    let mut workers: Vec<u32> = started.map(|process| process.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    if workers.len() < 2 {
        return Finding::unseen(format!(
            "{} of the sender's workers became ready; at least 2 are needed",
            workers.len()
        ));
    }
    let kills = &evidence.strikes.kills;
    if !kills.is_empty() && !kills.iter().any(|kill| evidence.took_something(*kill)) {
        return Finding::unseen(
            "no kill took a subscriber from its worker, so one worker may have sent everything",
        );
    }
    let findings = [envelope::judge(evidence), window::judge(evidence)];
    let broken = findings.iter().find(|finding| finding.found == Found::Broken);
    if let Some(finding) = broken {
        let sentence = format!("with {} workers: {}", workers.len(), finding.sentence);
        return Finding::broken(sentence, finding.witness.clone());
    }
    if findings.iter().all(|finding| finding.found != Found::Held) {
        return Finding::unseen("no contract could be judged");
    }
    Finding::held(format!("with {} workers, every contract holds", workers.len()))
        .unless_shown(envelope::never_scarce(evidence))
}
