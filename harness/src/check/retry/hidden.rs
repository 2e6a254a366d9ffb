//! `retry.hidden`: no second request without its attempt. HTTP clients repeat a request by themselves when a connection
//! ends before the answer; the limiter knows nothing of it, and the endpoint gets it twice.
//!
//! Two signs of it, after an exchange that the endpoint cut:
//! - the next request of the delivery carries the *same* number of attempt, where a header carries one; one is enough;
//! - it follows within [`AT_ONCE`], though a backoff was due. With full jitter that happens by chance with a probability
//!   of `AT_ONCE ÷ base` at most, so that it takes more than a quarter of the cuts, and three of them, to blame.

use crate::check::evidence::{Evidence, Outcome};
use crate::check::verdict::{Finding, Tally, show};
use crate::scenario::{Answer, Behaviour};
use crate::trace::CutKind;

const AT_ONCE: u64 = 5_000_000;

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    // A reset before anything is read is no exchange, unless the request must be read to be known.
    let cuts = |behaviour: &Behaviour| match behaviour.answer {
        Answer::Reset => behaviour.attempts.is_some(),
        _ => matches!(behaviour.answer, Answer::ResetAfterRead | Answer::Close | Answer::HalfAnswer),
    };
    let mut behaviours = evidence.scenario.subscribers.iter().flat_map(|subscriber| &subscriber.behaviours);
    if !behaviours.any(cuts) {
        return Finding::unasked("no endpoint cuts an exchange short");
    }
    let mut tally = Tally::default();
    let mut quick: Vec<(u32, u32, u32)> = Vec::new();
    for (delivery, number, before, after) in evidence.retries() {
        let (cut, next) = (evidence.exchange(before), evidence.exchange(after));
        let by_endpoint = matches!(
            cut.outcome,
            Outcome::Cut(CutKind::ResetAfterRead | CutKind::Close | CutKind::HalfAnswer | CutKind::Reset)
        );
        if !by_endpoint || evidence.was_killed(cut.t, cut.end.saturating_add(crate::scenario::SECOND)) {
            continue;
        }
        tally.see();
        let [first, second] = [before, after].map(|n| evidence.trace.arrivals[n as usize].attempt.as_deref());
        if first.is_some() && first == second {
            let what = format!("attempt {} came twice", first.unwrap_or_default());
            tally.broke(|| evidence.witness(delivery.lane, &[before, after], what));
        } else if next.t.saturating_sub(cut.begun) < AT_ONCE
            && evidence.subscriber(delivery).retry.bounds(number).1 > 4 * AT_ONCE
        {
            quick.push((delivery.lane, before, after));
        }
    }
    if quick.len() >= 3 && quick.len() as u64 * 4 > tally.seen {
        for (lane, before, after) in quick {
            let gap = evidence.exchange(after).t.saturating_sub(evidence.exchange(before).begun);
            tally.broke(|| {
                evidence.witness(lane, &[before, after], format!("repeated {} after the cut", show(gap)))
            });
        }
    }
    tally.finding("retries after a cut", "each is an attempt of its own", "repeated behind the sender's back")
}
