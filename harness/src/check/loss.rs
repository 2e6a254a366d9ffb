//! `loss.none`: every acknowledged event reaches each of its subscribers, or their dead letters. What the sender says is
//! still waiting is not lost (`recovery.drains` judges that), nor is what a newer event of its key stands for where the
//! subscriber coalesces. Where a sender counts its dead letters without listing them, as many may be missing. What it gave
//! up for a reason that cannot be true is lost (`given_up`).
//!
//! `loss.unexpected`: nothing arrives that was not offered, nor at a subscriber that it doesn't concern, nor before it was
//! offered.

use super::evidence::Evidence;
use super::given_up::groundless;
use super::settled::{Fate, fates, unlisted_dead, waiting_at_end};
use super::verdict::{Finding, Tally, WITNESS_MAX};
use crate::trace::Ended;

/// `loss.none`
pub(super) fn none(evidence: &Evidence<'_>) -> Finding {
    let fates = fates(evidence);
    if fates.is_empty() {
        return Finding::unseen("nothing was acknowledged");
    }
    let unsettled: Vec<_> =
        fates.iter().filter(|(_, fate)| *fate == Fate::Unsettled).map(|(one, _)| *one).collect();
    let excused = waiting_at_end(evidence).unwrap_or(0) + unlisted_dead(evidence);
    let groundless = groundless(evidence);
    let lost = (unsettled.len() as u64).saturating_sub(excused) + groundless.len() as u64;
    let interrupted =
        evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.ended == Ended::Interrupted);
    let count = |wanted: Fate| fates.iter().filter(|(_, fate)| *fate == wanted).count();
    let finding = if lost <= evidence.scenario.expect.lost {
        Finding::held(format!("{} deliveries are owed, {lost} are lost", fates.len()))
    } else if interrupted && groundless.is_empty() {
        Finding::unseen("the run was interrupted before everything could arrive")
    } else {
        let missing = unsettled.iter().filter(|_| unsettled.len() as u64 > excused);
        let missing = missing
            .map(|one| evidence.absent(one, "acknowledged, and neither delivered nor dead".to_owned()));
        let without = groundless.iter().map(|(one, why)| evidence.absent(one, why.clone()));
        let witness = without.chain(missing).take(WITNESS_MAX).collect();
        Finding::broken(format!("{lost} of {} deliveries are lost", fates.len()), witness)
    };
    let finding = finding.with("delivered", count(Fate::Delivered)).with("dead", count(Fate::Dead));
    finding
        .with("coalesced", count(Fate::Coalesced))
        .with("neither", unsettled.len())
        .with("given up without a cause", groundless.len())
        .with("said to wait", excused)
}

/// `loss.unexpected`
pub(super) fn unexpected(evidence: &Evidence<'_>) -> Finding {
    let mut tally = Tally::default();
    for (n, exchange) in (0_u32..).zip(&evidence.exchanges) {
        tally.see();
        let arrival = &evidence.trace.arrivals[n as usize];
        let lost = match (exchange.lane, exchange.token) {
            (None, _) => {
                Some(format!("an arrival at {:?}, which the scenario doesn't have", arrival.endpoint))
            }
            (_, None) => Some("an arrival without the harness's token".to_owned()),
            _ => None,
        };
        if let Some(what) = lost {
            let witness = super::verdict::Witness {
                subscriber: Some(arrival.endpoint.clone()),
                from: arrival.t,
                until: arrival.t,
                what,
                arrivals: vec![arrival.n],
            };
            tally.broke(|| witness);
        }
    }
    for delivery in &evidence.deliveries {
        let Some(first) = evidence.attempts(delivery).first() else { continue };
        let offered = evidence.event(delivery).map(|event| evidence.trace.offers[event.offer as usize].t);
        let what = match offered {
            None => "was never offered",
            Some(_) if !delivery.owed => "does not concern this subscriber",
            Some(t) if evidence.exchange(*first).t < t => "came before it was offered",
            Some(_) => continue,
        };
        let what = format!("event {} {what}", delivery.token);
        tally.broke(|| evidence.witness(delivery.lane, evidence.attempts(delivery), what));
    }
    tally.finding(
        "arrivals",
        "each was offered, for its subscriber",
        "not offered, or not for its subscriber",
    )
}
