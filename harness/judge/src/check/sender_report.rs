//! The sender's report on deliveries that were not settled, and how far the judge believes it.
//!
//! A count for a lane excuses deliveries of that lane alone: `recovery.drains` judges the reported backlog,
//! and `queue.truth` compares it with the trace. A count for the whole sender, less the counts of its lanes,
//! is shared among the lanes in which the scenario lets deliveries wait, or be given up ([`may_wait`]). A
//! healthy lane without arrivals has no excuse.

use std::collections::BTreeMap;

use super::dead_letters::longest_delay;
use super::evidence::{Delivery, Evidence, Lane};
use super::retry::after::contract_wait;
use crate::scenario::{Answer, SECOND};
use crate::trace::{Depth, Ended};

/// How long a served lane may be without an arrival, beyond the wait of its contract.
const QUIET: u64 = 2 * SECOND;
/// How long a request without an answer may still arrive, by the most cautious sender.
const DOUBT: u64 = 60 * SECOND;

/// The sender's last samples.
struct Word<'e> {
    whole: Option<&'e Depth>,
    lanes: BTreeMap<&'e str, &'e Depth>,
    /// A list names its dead letters; a mere count then accounts for nothing.
    dead_listed: bool,
}

impl<'e> Word<'e> {
    fn last(evidence: &'e Evidence<'_>) -> Self {
        let (mut whole, mut lanes) = (None, BTreeMap::<&str, &Depth>::new());
        let later = |known: Option<&Depth>, depth: &Depth| known.is_none_or(|known| known.t <= depth.t);
        for depth in evidence.trace.depths.iter().filter(|one| one.waiting.is_some() || one.dead.is_some()) {
            match depth.subscriber.as_deref() {
                None if later(whole, depth) => whole = Some(depth),
                Some(name) if later(lanes.get(name).copied(), depth) => {
                    lanes.insert(name, depth);
                }
                _ => {}
            }
        }
        if let (Some(depth), [only]) = (whole, evidence.scenario.subscribers.as_slice()) {
            lanes.entry(only.name.as_str()).or_insert(depth);
        }
        let dead_listed = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed);
        Self { whole, lanes, dead_listed }
    }

    /// Deliveries that a sample accounts for, beside the listed dead letters.
    fn accounts_for(&self, depth: &Depth, listed: u64) -> u64 {
        let dead = depth.dead.filter(|_| !self.dead_listed).unwrap_or(0);
        depth.waiting.unwrap_or(0).saturating_add(dead.saturating_sub(listed))
    }
}

/// The unsettled deliveries that the sender's report does not account for: the oldest of each lane, as the
/// count names none. `unsettled` is sorted by lane.
pub(super) fn unaccounted<'e>(evidence: &Evidence<'_>, unsettled: &[&'e Delivery]) -> Vec<&'e Delivery> {
    let word = Word::last(evidence);
    let listed =
        |name: &str| evidence.trace.dead.iter().filter(|dead| dead.subscriber == name).count() as u64;
    let told = |name: &str| word.lanes.get(name).map(|depth| word.accounts_for(depth, listed(name)));
    let all: u64 = word.lanes.keys().filter_map(|name| told(name)).sum();
    let dead = evidence.trace.dead.len() as u64;
    let mut rest = word.whole.map_or(0, |depth| word.accounts_for(depth, dead)).saturating_sub(all);
    let mut found = Vec::new();
    for lane in unsettled.chunk_by(|a, b| a.lane == b.lane) {
        let own = &evidence.lanes[lane[0].lane as usize];
        let excused = told(&own.subscriber.name).unwrap_or_else(|| {
            let shared = rest.min(may_wait(evidence, own, lane, word.whole));
            rest -= shared;
            shared
        });
        let lost = (lane.len() as u64).saturating_sub(excused);
        found.extend(lane.iter().take(usize::try_from(lost).unwrap_or(usize::MAX)).copied());
    }
    found
}

/// The last reported backlog: of the whole, or of all lanes together if that is more; none without a report.
pub(super) fn waiting_at_end(evidence: &Evidence<'_>) -> Option<u64> {
    let told = || evidence.trace.depths.iter().filter_map(|depth| Some((depth, depth.waiting?)));
    let last = told().map(|(depth, _)| depth.t).max()?;
    let whole = told().filter(|(depth, _)| depth.subscriber.is_none()).max_by_key(|(depth, _)| depth.t);
    let lanes = told().filter(|(depth, _)| depth.subscriber.is_some() && depth.t == last);
    let lanes = lanes.map(|(_, waiting)| waiting).fold(0, u64::saturating_add);
    Some(whole.map_or(0, |(_, waiting)| waiting).max(lanes))
}

/// Unsettled deliveries of a lane that the scenario explains at the sender's last report: all if the lane was
/// held back, and those that no later delivery overtook if it was being served.
fn may_wait(evidence: &Evidence<'_>, lane: &Lane<'_>, unsettled: &[&Delivery], word: Option<&Depth>) -> u64 {
    let at = word.map_or(evidence.end, |depth| depth.t);
    if is_held_back(evidence, lane, at, word) {
        return unsettled.len() as u64;
    }
    let quiet = QUIET.saturating_add(contract_wait(lane));
    let served = lane.begun.last().is_some_and(|n| evidence.exchange(*n).t.saturating_add(quiet) >= at);
    let tried =
        evidence.deliveries_of(unsettled[0].lane).iter().filter(|one| !evidence.attempts(one).is_empty());
    let latest = tried.filter_map(|one| evidence.accepted(one)).max().unwrap_or(0);
    let overtaken =
        |one: &&&Delivery| evidence.accepted(one).is_some_and(|t| t.saturating_add(quiet) < latest);
    if served { unsettled.iter().filter(|one| !overtaken(one)).count() as u64 } else { 0 }
}

/// Whether a lane was held back at `at`: its endpoint misbehaved until shortly before, its bounded queue may
/// have shed unlisted dead letters, a fault was near, or the run was broken off.
fn is_held_back(evidence: &Evidence<'_>, lane: &Lane<'_>, at: u64, word: Option<&Depth>) -> bool {
    let whole_run = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.ended == Ended::Done);
    let delay = longest_delay(lane, lane.subscriber.retry.attempts);
    let ill = lane.subscriber.behaviours.iter().any(|behaviour| {
        let doubt = if matches!(behaviour.answer, Answer::Status(_)) { 0 } else { DOUBT };
        let felt = |until: u64| until.saturating_add(delay).saturating_add(doubt) >= at;
        behaviour.at.0 <= at && behaviour.until().is_none_or(felt)
    });
    let queue = &lane.subscriber.queue;
    let bounded = queue.rows.is_some() || queue.bytes.is_some();
    let listed = evidence.trace.trailer.as_ref().is_some_and(|trailer| trailer.dead_listed);
    let shed = bounded && !listed && word.is_some_and(|depth| depth.dead.is_some());
    !whole_run || ill || shed || evidence.is_disturbed(at, at)
}
