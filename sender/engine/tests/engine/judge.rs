//! The contract's definition for the requests that reach an endpoint.
//!
//! - Bucket: every closed window `[t, t + w]` has at most σ + ρ·w arrivals.
//! - Window cap: every half-open window `[t, t + W)` has at most L arrivals.
//! - In flight: at no moment have more requests started and not ended than the cap. A request in doubt has ended.
//!
//! After a change of contract, the contract of the latest start in a window judges that window. ρ is integrated over
//! its changes; a window cap counts from when a window of its length came into force.
//!
//! Arithmetic is exact: rates are in attempts per day.

use hookproof_engine::engine::contract::{Contract, Rate};
use hookproof_engine::engine::{Nanos, StoreTime};

/// Several contracts may share one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Start {
    pub(crate) at: StoreTime,
    contract: usize,
}

/// In flight until `end`. It reached the endpoint between its start and `late`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JudgedRequest {
    pub(crate) start: Start,
    pub(crate) end: StoreTime,
    pub(crate) late: StoreTime,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) start: Start,
    pub(crate) at: StoreTime,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    contracts: Vec<(StoreTime, Contract)>,
    /// When the lane passed to an owner that may not know of a window lifted earlier.
    seizures: Vec<Start>,
}

impl History {
    pub(crate) fn change(&mut self, now: StoreTime, contract: Contract) {
        self.contracts.push((now, contract));
    }

    pub(crate) fn seize(&mut self, now: StoreTime) {
        self.seizures.push(self.start(now));
    }

    pub(crate) fn start(&self, now: StoreTime) -> Start {
        Start { at: now, contract: self.contracts.len() - 1 }
    }

    fn pieces(&self) -> impl DoubleEndedIterator<Item = (StoreTime, StoreTime, &Contract)> {
        let end = |next: usize| self.contracts.get(next).map_or(StoreTime::NEVER, |(from, _)| *from);
        self.contracts.iter().enumerate().map(move |(n, (begin, contract))| (*begin, end(n + 1), contract))
    }

    /// The rate's allowance, in parts of 1/`Nanos::DAY`.
    fn permitted(&self, from: StoreTime, to: StoreTime) -> u128 {
        let permitted = self.pieces().map(|(begin, end, contract)| {
            u128::from(end.min(to).since(from.max(begin)).0) * per_day(contract.bucket().rate())
        });
        permitted.sum()
    }

    /// Whether a window of this length, in force at `now`, counts every attempt from `from` on. An attempt at the
    /// moment the window came into force may precede it.
    fn is_known(&self, from: StoreTime, length: Nanos, now: Start) -> bool {
        let unknown = |seizure: &&Start| {
            let contract = &self.contracts[seizure.contract].1;
            !contract.windows().iter().any(|window| window.length() >= length)
        };
        let seized = self.seizures.iter().filter(|seizure| **seizure <= now).filter(unknown).max();
        let mut known = now.at;
        let pieces: Vec<_> = self.pieces().take(now.contract + 1).collect();
        for (begin, end, contract) in pieces.into_iter().rev() {
            let present = contract.windows().iter().any(|window| window.length() >= length);
            // Only the owner knows the attempts of a lifted window.
            let is_lost = seized.is_some_and(|seizure| end <= seizure.at);
            if present && known.since(end) < length && !is_lost {
                known = begin;
            }
        }
        let since_ever = known == self.contracts[0].0
            && self.contracts[0].1.windows().iter().any(|w| w.length() >= length);
        seized.is_none_or(|seizure| from > seizure.at) && (since_ever || from > known)
    }
}

/// The error names the first overfull window.
pub(crate) fn judge_arrivals(history: &History, arrivals: &[Arrival]) -> Result<(), String> {
    let mut arrivals = arrivals.to_vec();
    arrivals.sort_by_key(|arrival| arrival.at);
    for first in 0..arrivals.len() {
        let mut latest_start = arrivals[first].start;
        for last in first..arrivals.len() {
            latest_start = latest_start.max(arrivals[last].start);
            let (from, to) = (arrivals[first].at, arrivals[last].at);
            allows(history, last - first + 1, from, to, latest_start)?;
        }
    }
    Ok(())
}

/// Judges every window against every placement of the arrivals at once.
///
/// The worst placement moves every request into the window that can be there. In an overfull window, let `j` be the
/// last to start, and `i` the one with the smallest `late`. The window may shrink to `[late(i), start(j)]` (to one
/// moment, if `late(i)` is after `start(j)`) without losing a request, and a smaller window allows less. So these
/// windows, for all pairs, suffice.
pub(crate) fn judge_all_placements(history: &History, made: &[JudgedRequest]) -> Result<(), String> {
    let (mut lates, mut ends): (Vec<StoreTime>, Vec<StoreTime>) = Default::default();
    let mut made = made.to_vec();
    made.sort_by_key(|request| request.start);
    for request in &made {
        let place = lates.partition_point(|late| *late >= request.late);
        lates.insert(place, request.late);
        ends.push(request.end);
        let earlier = &ends[..ends.len() - 1];
        let open = 1 + earlier.iter().filter(|end| **end > request.start.at).count();
        if open > history.contracts[request.start.contract].1.in_flight() as usize {
            return Err(format!("over the cap in flight: {open} requests open at {:?}", request.start.at));
        }
        for (count, &late) in (1..).zip(&lates).skip(place) {
            let start = request.start;
            allows(history, count, late.min(start.at), start.at, start)?;
        }
    }
    Ok(())
}

fn allows(
    history: &History,
    count: usize,
    from: StoreTime,
    to: StoreTime,
    latest_start: Start,
) -> Result<(), String> {
    let contract = &history.contracts[latest_start.contract].1;
    let bucket = contract.bucket();
    let too_many = || format!("{count} requests from {from:?} to {to:?}, under {contract:?}");
    let over_burst = (count as u128).saturating_sub(u128::from(bucket.burst()));
    if over_burst * u128::from(Nanos::DAY.0) > history.permitted(from, to) {
        return Err(format!("over the bucket: {}", too_many()));
    }
    for window in contract.windows() {
        let fits = to.since(from) >= window.length() || count <= window.limit() as usize;
        if !fits && history.is_known(from, window.length(), latest_start) {
            return Err(format!("over the window {window:?}: {}", too_many()));
        }
    }
    Ok(())
}

fn per_day(rate: Rate) -> u128 {
    let scaled = u128::from(rate.count()) * u128::from(Nanos::DAY.0);
    assert_eq!(scaled % u128::from(rate.per().0), 0, "tests use periods that divide a day");
    scaled / u128::from(rate.per().0)
}

#[cfg(test)]
mod tests {
    use hookproof_engine::engine::contract::{Bucket, Window};
    use proptest::prelude::*;

    use super::*;

    fn history(burst: u32, window: u32) -> History {
        let bucket = Bucket::new(Rate::per_second(1).unwrap(), burst).unwrap();
        let window = Window::new(window, Nanos::from_secs(10)).unwrap();
        let mut history = History::default();
        history.change(StoreTime::START, Contract::new(Some(bucket), vec![window], 100).unwrap());
        history
    }

    fn arrivals(seconds: &[u64]) -> Vec<Arrival> {
        let at = |second| StoreTime(second * Nanos::SECOND.0);
        let start = |second| Start { at: at(second), contract: 0 };
        seconds.iter().map(|&second| Arrival { start: start(second), at: at(second) }).collect()
    }

    #[test]
    fn a_bucket_allows_its_burst_and_then_its_rate_and_not_one_more() {
        let bucket = history(2, 1_000);
        assert_eq!(judge_arrivals(&bucket, &arrivals(&[5, 5, 6, 7, 8])), Ok(()));
        assert!(judge_arrivals(&bucket, &arrivals(&[5, 5, 5])).is_err());
        assert!(judge_arrivals(&bucket, &arrivals(&[5, 5, 6, 6])).is_err());
    }

    #[test]
    fn a_window_is_half_open() {
        let window = history(1_000, 2);
        assert_eq!(judge_arrivals(&window, &arrivals(&[5, 5, 15, 15])), Ok(()));
        assert!(judge_arrivals(&window, &arrivals(&[5, 6, 14])).is_err());
    }

    proptest! {
        #[test]
        fn both_judges_agree(
            spans in prop::collection::vec((0_u64..30, 0_u64..8), 1..7),
            burst in 1_u32..4,
            window in 1_u32..5,
        ) {
            let history = history(burst, window);
            let second = |second| StoreTime(second * Nanos::SECOND.0);
            let made: Vec<_> =
                spans.iter().map(|&(start, length)| { let late = second(start + length); JudgedRequest { start: history.start(second(start)), end: late, late } }).collect();
            // A window that is overfull in some placement is overfull in the placement that moves each request as
            // near as possible to it. Starts and latest arrivals are enough as its bounds.
            let moments = made.iter().flat_map(|made| [made.start.at, made.late]);
            let windows = moments.clone().flat_map(|from| moments.clone().map(move |to| (from, to)));
            let some_placement_fails = windows.filter(|(from, to)| from <= to).any(|(from, to)| {
                let place = |made: &JudgedRequest| {
                    let near = if made.late < from { made.late } else { made.start.at.max(from) };
                    Arrival { start: made.start, at: if made.start.at > to { made.start.at } else { near } }
                };
                judge_arrivals(&history, &made.iter().map(place).collect::<Vec<_>>()).is_err()
            });
            prop_assert_eq!(judge_all_placements(&history, &made).is_err(), some_placement_fails);
        }
    }
}
