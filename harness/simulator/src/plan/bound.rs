//! Network calculus: upper bounds for a subscriber's backlog and delay, from its arrivals and a guaranteed service.
//! Pure.
//!
//! Arrivals conform to a bucket of rate ρ and burst σ if every interval of length t holds at most σ + ρ·t. A
//! service guarantees rate R after latency T if a backlog that lasts for t is served at least R·(t − T). Then, for
//! ρ ≤ R,
//!
//! ```text
//!   backlog ≤ σ + ρ·T        delay ≤ T + σ/R        the backlog is gone T + σ/(R − ρ) after the burst
//! ```
//!
//! The least σ for ρ = R is the longest queue at the constant rate R ([`burst`]); it gives the tightest bound of
//! this form. For a service with pauses, [`bounds`] follows the same queue through them.

use hookproof_judge::scenario::SECOND;

/// Counts in fractions of a delivery, so that rounding never favours the sender.
const PARTS: u128 = SECOND as u128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Deliveries in a thousand seconds; 0 if nothing is guaranteed.
    pub millihertz: u64,
    /// The longest time until it begins, in nanoseconds.
    pub latency_ns: u64,
    /// Times without service, in order and disjoint.
    pub pauses: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least burst of the arrivals at the service's rate, without its pauses.
    pub burst: u64,
    pub backlog: u64,
    /// The wait of a delivery, in nanoseconds.
    pub delay_ns: u64,
    /// When the backlog is gone, in nanoseconds since the traffic began.
    pub empty_at: u64,
}

/// The least σ such that every interval of length t holds at most σ + ρ·t of these ascending moments.
#[must_use]
pub fn burst(moments: &[u64], millihertz: u64) -> u64 {
    let mut queue = Fluid::new(millihertz, &[]);
    let peak = moments.iter().map(|at| queue.put(*at)).max().unwrap_or(0);
    whole(peak)
}

/// `moments` ascend. None if no service is guaranteed, or if it never returns.
#[must_use]
pub fn bounds(moments: &[u64], service: &Service) -> Option<Bounds> {
    let last = moments.last().copied().unwrap_or(0);
    let ends = |(_, until): &(u64, u64)| *until < u64::MAX;
    if service.millihertz == 0 || !service.pauses.iter().all(ends) {
        return None;
    }
    // A delivery delayed by the latency may fall into a pause that began later: each pause begins earlier by
    // the latency.
    let sooner = |(from, until): &(u64, u64)| (from.saturating_sub(service.latency_ns), *until);
    let pauses = merged(service.pauses.iter().map(sooner).collect());
    let mut queue = Fluid::new(service.millihertz, &pauses);
    let (mut peak, mut delay_ns, mut empty_at) = (0, 0, 0);
    for at in moments {
        let level = queue.put(*at);
        peak = peak.max(level);
        let gone = queue.empty_at();
        delay_ns = delay_ns.max(gone - at);
        empty_at = empty_at.max(gone);
    }
    // More deliveries may come during the latency; a finished burst grows by no more than that.
    let meanwhile = u128::from(service.millihertz) * u128::from(service.latency_ns) / 1_000;
    Some(Bounds {
        burst: burst(moments, service.millihertz),
        backlog: whole(peak + meanwhile),
        delay_ns: delay_ns.saturating_add(service.latency_ns),
        empty_at: empty_at.max(last).saturating_add(service.latency_ns),
    })
}

fn whole(parts: u128) -> u64 {
    u64::try_from(parts.div_ceil(PARTS)).unwrap_or(u64::MAX)
}

/// Constant but for the pauses.
struct Fluid<'a> {
    millihertz: u64,
    pauses: &'a [(u64, u64)],
    level: u128,
    at: u64,
}

impl<'a> Fluid<'a> {
    fn new(millihertz: u64, pauses: &'a [(u64, u64)]) -> Self {
        Self { millihertz, pauses, level: 0, at: 0 }
    }

    /// Returns the backlog.
    fn put(&mut self, at: u64) -> u128 {
        let idle: u64 = self.pauses.iter().map(|pause| overlap(*pause, (self.at, at))).sum();
        let served = u128::from(self.millihertz) * u128::from(at - self.at - idle) / 1_000;
        self.level = self.level.saturating_sub(served) + PARTS;
        self.at = at;
        self.level
    }

    /// When the present backlog is gone.
    fn empty_at(&self) -> u64 {
        let takes = (self.level * 1_000).div_ceil(u128::from(self.millihertz.max(1)));
        let mut left = u64::try_from(takes).unwrap_or(u64::MAX);
        let mut at = self.at;
        for (from, until) in self.pauses.iter().filter(|(_, until)| *until > self.at) {
            let before = from.saturating_sub(at);
            if left <= before {
                break;
            }
            left -= before;
            at = *until;
        }
        at.saturating_add(left)
    }
}

fn overlap(one: (u64, u64), other: (u64, u64)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// Sorted.
#[must_use]
pub fn merged(mut pauses: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    pauses.retain(|(from, until)| from < until);
    pauses.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::with_capacity(pauses.len());
    for (from, until) in pauses {
        match apart.last_mut().filter(|last| from <= last.1) {
            Some(last) => last.1 = last.1.max(until),
            None => apart.push((from, until)),
        }
    }
    apart
}
