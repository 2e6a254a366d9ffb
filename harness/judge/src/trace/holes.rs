//! Closes the gaps of a trace whose trailer counts lost records: drops each line that refers to a missing
//! one. No check passes or fails on such a trace. In every other trace such a line is an error.

use std::collections::BTreeMap;

use super::reader::Trace;

impl Trace {
    /// Lost records; 0 for a truncated trace.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.trailer.as_ref().map_or(0, |trailer| trailer.dropped)
    }

    /// Renumbers the arrivals of an incomplete trace without gaps, and drops the answers, cuts and outcomes
    /// of missing records. Duplicate arrival numbers stay, and are refused later.
    pub(super) fn close_holes(&mut self) {
        if self.dropped() == 0 {
            return;
        }
        self.number_arrivals();
        self.leave_out_outcomes();
    }

    fn number_arrivals(&mut self) {
        self.arrivals.sort_by_key(|arrival| arrival.n);
        let numbers: Vec<u64> = self.arrivals.iter().map(|arrival| arrival.n).collect();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return;
        }
        let place = |n: u64| numbers.binary_search(&n).ok().map(|at| at as u64);
        for (n, arrival) in (0..).zip(&mut self.arrivals) {
            arrival.n = n;
        }
        self.answers.retain_mut(|answer| {
            let place = place(answer.n);
            answer.n = place.unwrap_or(answer.n);
            place.is_some()
        });
        self.cuts.retain_mut(|cut| {
            let place = cut.n.map(place);
            cut.n = place.flatten();
            place != Some(None)
        });
        for handshake in &mut self.reached.handshakes {
            // It holds an old number.
            handshake.first = None;
        }
    }

    /// Keeps at most as many outcomes of an event as there are offers.
    fn leave_out_outcomes(&mut self) {
        let mut left: BTreeMap<u64, u64> = BTreeMap::new();
        for offer in &self.offers {
            *left.entry(offer.token).or_default() += 1;
        }
        let mut take = |token: u64| {
            let left = left.get_mut(&token).filter(|left| **left > 0);
            left.map(|left| *left -= 1).is_some()
        };
        self.accepted.retain(|one| take(one.token));
        self.refused.retain(|one| take(one.token));
    }
}
