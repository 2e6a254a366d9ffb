//! Deliveries that came late, and nothing explains it. Percentiles hide them where they are few.
//!
//! Judged are lanes that are well throughout, have one contract, and wait for nothing on purpose. A first attempt is late if it comes
//! `gap_max` after the earliest moment that the contract allowed ([`earliest`]). That is unexplained if the lane had no
//! backlog by its contract, nothing befell the sender meanwhile, and it served the lane all the while: of what it took
//! later, and long enough before the late one came, nine of ten were in time. A sender that is too slow for what it is
//! offered is late with all of it, and not judged here.

use super::evidence::{Evidence, Lane};
use super::isolation::{earliest, is_judged};
use super::verdict::{Tally, show};
use crate::scenario::SECOND;

/// How long the contract may hold a delivery back that counts as allowed at once.
const AT_ONCE: u64 = SECOND / 2;

/// One delivery: when it was taken, when its contract allowed it, when it came.
#[derive(Clone, Copy)]
struct Wait {
    taken: u64,
    allowed: u64,
    came: u64,
    token: u64,
}

/// Judges every lane that can be, and answers the longest wait from acknowledgement to first attempt, and whose.
pub(super) fn unexplained<'e>(evidence: &'e Evidence<'_>, tally: &mut Tally) -> Option<(u64, &'e str)> {
    let mut longest = None;
    for (at, lane) in (0..).zip(&evidence.lanes).filter(|(_, lane)| is_judged(lane)) {
        let waits = waits(evidence, at, lane);
        if waits.is_empty() {
            continue;
        }
        tally.see();
        let most = waits.iter().map(|wait| wait.came.saturating_sub(wait.taken)).max().unwrap_or(0);
        longest = longest.max(Some((most, lane.subscriber.name.as_str())));
        judge(evidence, at, &waits, tally);
    }
    longest
}

/// What a lane was sent, in the order in which it was taken.
fn waits(evidence: &Evidence<'_>, at: u32, lane: &Lane<'_>) -> Vec<Wait> {
    let came =
        evidence.deliveries_of(at).iter().filter(|one| one.owed && one.dead.is_none()).filter_map(|one| {
            let first = evidence.attempts(one).first().map(|n| evidence.exchange(*n).t)?;
            let event = evidence.event(one).filter(|event| event.offers == 1)?;
            Some(Wait { taken: event.accepted?, allowed: 0, came: first, token: one.token })
        });
    let mut waits: Vec<Wait> = came.collect();
    waits.sort_unstable_by_key(|wait| (wait.taken, wait.token));
    let due: Vec<u64> = waits.iter().map(|wait| wait.taken).collect();
    let allowed = earliest(&due, &lane.subscriber.limit);
    waits.iter_mut().zip(allowed).for_each(|(wait, allowed)| wait.allowed = allowed);
    waits
}

fn judge(evidence: &Evidence<'_>, at: u32, waits: &[Wait], tally: &mut Tally) {
    let most = evidence.scenario.expect.gap_max.0;
    let is_late = |wait: &Wait| wait.came.saturating_sub(wait.allowed) > most;
    let mut late_before = Vec::with_capacity(waits.len() + 1);
    late_before.push(0_usize);
    for wait in waits {
        late_before.push(late_before.last().copied().unwrap_or(0) + usize::from(is_late(wait)));
    }
    for (place, wait) in waits.iter().enumerate().filter(|(_, wait)| is_late(wait)) {
        let until = waits.partition_point(|other| other.taken.saturating_add(most) <= wait.came);
        let later = until.saturating_sub(place + 1);
        let late = late_before[until.max(place + 1)] - late_before[place + 1];
        let served = later > 0 && late * 10 <= later;
        let at_once = wait.allowed.saturating_sub(wait.taken) <= AT_ONCE;
        if served && at_once && !evidence.is_disturbed(wait.taken, wait.came) {
            let what = format!(
                "event {} came {} after it was taken; {} of {later} taken later came in time",
                wait.token,
                show(wait.came - wait.taken),
                later - late
            );
            tally.broke(|| evidence.witness(at, &[], what));
        }
    }
}
