//! `retry.backoff-jitter`: pooled gaps fit the declared jitter.
//!
//! Each gap becomes `u = (gap − least) ÷ (most − least)`, which is uniform on [0, 1] if the sender draws as declared.
//! Kolmogorov's distance between n of them and the uniform law exceeds ε with a probability of at most 2·exp(−2nε²)
//! (Dvoretzky, Kiefer, Wolfowitz; the constant is Massart's). With α = 10⁻⁶ a sender that draws as declared is
//! wrongly blamed once in a million runs. Under [`SAMPLES_MIN`] gaps nothing is said.
//!
//! What is measured is the draw and a little more (the network, a busy machine, the contract), never less. On the side of
//! gaps that are too long, `retry_after_late` is therefore taken off each; on the other side nothing is. Only gaps are
//! pooled at which the bucket was at most half full, so that the contract did not move them, and none that the sender
//! ended by itself. Distances are compared in integers: n·D² > ln(2 ÷ α) ÷ 2.

use super::asked::Asked;
use crate::check::evidence::{Evidence, Lane};
use crate::check::rate::level::Level;
use crate::check::verdict::Finding;
use crate::scenario::Backoff;

/// Fewer say too little: ε is 0.19 there.
const SAMPLES_MIN: usize = 200;
/// One, in the fixed-point numbers of this check.
const ONE: u128 = 1 << 32;
/// ln(2 ÷ 10⁻⁶) ÷ 2, times `ONE`².
const BOUND: u128 = 133_818_748_077_800_931_328;

/// The distance between the sample and the uniform law: how far it is above it (too many short gaps), and how far
/// below. `u` ascends, in fixed point.
fn distances(short: &[u128], long: &[u128]) -> (u128, u128) {
    let n = short.len() as u128;
    let above = (1..).zip(short).map(|(i, u)| (i * ONE / n).saturating_sub(*u)).max();
    let below = (0..).zip(long).map(|(i, u): (u128, &u128)| u.saturating_sub(i * ONE / n)).max();
    (above.unwrap_or(0), below.unwrap_or(0))
}

/// Whether draws, each with the part of it that may be delay, fit the uniform law; in fixed point.
fn fits(mut short: Vec<u128>, mut long: Vec<u128>) -> Option<bool> {
    if short.len() < SAMPLES_MIN {
        return None;
    }
    short.sort_unstable();
    long.sort_unstable();
    let (above, below) = distances(&short, &long);
    let distance = above.max(below);
    Some(short.len() as u128 * distance * distance <= BOUND)
}

pub(in crate::check) fn judge(evidence: &Evidence<'_>) -> Finding {
    let jitters = |lane: &Lane<'_>| {
        lane.subscriber.retry.backoff != Backoff::Fixed && !lane.subscriber.behaviours.is_empty()
    };
    if !evidence.lanes.iter().any(jitters) {
        return Finding::unasked("no endpoint with jittered retries fails");
    }
    let roomy = roomy(evidence);
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for (delivery, number, before, after) in evidence.retries() {
        let lane = &evidence.lanes[delivery.lane as usize];
        let (failed, next) = (evidence.exchange(before), evidence.exchange(after));
        let told = evidence.asked(before).is_some_and(|text| Asked::read(text) != Asked::Nonsense);
        let own = failed.ended_by_peer() || failed.is_delivered() || told || evidence.is_redriven();
        if !jitters(lane) || own || !roomy[after as usize] || evidence.is_disturbed(failed.t, next.t) {
            continue;
        }
        let (least, most) = lane.subscriber.retry.bounds(number);
        let (gap, width) = (next.t.saturating_sub(failed.end), most - least);
        if width == 0 || hides(lane) {
            continue;
        }
        let unit = |gap: u64| (u128::from(gap.saturating_sub(least)) * ONE / u128::from(width)).min(ONE);
        short.push(unit(gap));
        long.push(unit(gap.saturating_sub(evidence.scenario.expect.retry_after_late.0)));
    }
    let samples = short.len();
    let finding = match fits(short, long) {
        None => {
            Finding::unseen(format!("{samples} gaps were free of other causes; {SAMPLES_MIN} are needed"))
        }
        Some(true) => Finding::held(format!("{samples} gaps fit the declared jitter")),
        Some(false) => Finding::broken(format!("{samples} gaps do not fit the declared jitter"), Vec::new()),
    };
    finding.with("gaps", samples)
}

/// Whether a lane has attempts that the endpoint can't see, so that their numbers aren't known.
fn hides(lane: &Lane<'_>) -> bool {
    use crate::scenario::Answer;
    let unseen = |answer: &Answer| matches!(answer, Answer::Refuse | Answer::Reset | Answer::Stall);
    lane.subscriber.behaviours.iter().any(|behaviour| unseen(&behaviour.answer))
}

/// By arrival: whether the bucket was at most half full when it came.
fn roomy(evidence: &Evidence<'_>) -> Vec<bool> {
    let mut roomy = vec![true; evidence.exchanges.len()];
    for lane in &evidence.lanes {
        let Some(bucket) = lane.subscriber.limit.bucket else { continue };
        let half = u128::from(bucket.burst) * u128::from(bucket.rate.per.0) / 2;
        let mut level = Level::new(bucket.rate);
        for n in &lane.arrivals {
            level.arrive(evidence.exchange(*n).t);
            roomy[*n as usize] = level.level <= half.max(u128::from(bucket.rate.per.0));
        }
    }
    roomy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u128, draw: impl Fn(u128) -> u128) -> Vec<u128> {
        (0..n).map(draw).collect()
    }

    #[test]
    fn an_even_sample_fits_and_a_single_value_does_not() {
        let even = sample(400, |i| i * ONE / 400);
        assert_eq!(fits(even.clone(), even), Some(true));
        for fixed in [0, ONE / 2, ONE] {
            let same = sample(400, |_| fixed);
            assert_eq!(fits(same.clone(), same), Some(false), "{fixed}");
        }
    }

    #[test]
    fn equal_jitter_is_not_full_jitter() {
        let half = sample(400, |i| ONE / 2 + i * ONE / 800);
        assert_eq!(fits(half.clone(), half), Some(false));
    }

    #[test]
    fn few_gaps_say_nothing() {
        assert_eq!(fits(vec![0; SAMPLES_MIN - 1], vec![0; SAMPLES_MIN - 1]), None);
    }
}
