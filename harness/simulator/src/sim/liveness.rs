//! A lane sends within X if it has work due, a living process that reaches its store, a closed breaker, no pause, an
//! endpoint that is well, and room in its contract.
//!
//! A lane is *held back* while
//! - a fault lasts, and until a lease has passed after it ([`Liveness::disturb`]);
//! - a behaviour of its endpoint is in force;
//! - its owner says that the breaker is open, for the longest cooldown after the last failure at most;
//! - its owner says that the endpoint wants a pause, for the longest `Retry-After` after the last failure at most;
//! - its owner counts requests as under way or in doubt, for as long as a request may be that ended in silence, or that
//!   a process had open when a fault struck.
//!
//! The owner's word excuses a lane for no longer than the world knows a cause. X counts from the last start, or from
//! the moment since which the lane is not held back. It is the sum of these waits, which may follow one another:
//! - a request under way ends: the timeout; a window has room: the longest one;
//! - the bucket has room: 1/rate for each attempt of the burst, and for each that new owners count beside it, which
//!   [`Lane::may_be_seized`] bounds;
//! - under pressure, one more attempt at the lowered rate;
//! - an empty claim is made again, a request that the sender held back is tried again, four commits, and two samples.

use hookproof_sender::dispatch::Order;
use hookproof_sender::engine::{LaneView, Nanos};

use hookproof_judge::scenario::{FaultAction, Limit, SECOND, Scenario, Subscriber};

/// Between empty claims, and until a withheld request is tried again.
const OWN_WAITS: u64 = 1_024_000_000 + 100_000_000;
/// Commits between two starts, at most.
const COMMITS: u64 = 4;
/// The slowest pace of a lane under pressure.
const SLOWEST: u64 = 60 * SECOND;
/// Longest cooldown of an undeclared breaker.
const COOLDOWN_MAX: u64 = 3_600 * SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    pub subscriber: String,
    pub from: u64,
    pub until: u64,
    /// Names the answer that it waited for.
    pub sentence: String,
}

pub(super) struct Owner<'a> {
    pub(super) worker: usize,
    pub(super) view: Option<LaneView>,
    /// About this lane or all lanes.
    pub(super) asked: Vec<&'a Order>,
}

pub(super) struct LaneSample<'a> {
    pub(super) is_due: bool,
    pub(super) is_well: bool,
    pub(super) waiting: u64,
    pub(super) owner: Option<Owner<'a>>,
}

pub(super) struct Liveness {
    lanes: Vec<Lane>,
    disturbed_until: u64,
    lease: u64,
    waits: u64,
    found: Option<Silence>,
}

struct Lane {
    name: String,
    terms: Terms,
    /// Attempts that new owners may count beside the burst.
    debt: u64,
    /// The last failure was heard then.
    failed: Option<u64>,
    doubt_until: u64,
    /// Since when nothing has held it back, and nothing was sent.
    since: Option<u64>,
}

/// The worst of all terms that the scenario has for a lane.
struct Terms {
    timeout: u64,
    doubt: u64,
    window: u64,
    burst: u64,
    in_flight: u64,
    /// 1/rate.
    gap: u64,
    cooldown: u64,
    pause: u64,
}

impl Terms {
    fn of(subscriber: &Subscriber, scenario: &Scenario) -> Self {
        let mut terms = Self {
            timeout: subscriber.timeout.0,
            doubt: 0,
            window: 0,
            burst: 0,
            in_flight: 0,
            gap: 0,
            cooldown: subscriber.breaker.as_ref().map_or(COOLDOWN_MAX, |breaker| breaker.cooldown_max.0),
            pause: subscriber.retry.retry_after_cap.0,
        };
        terms.adopt(&subscriber.limit);
        for fault in &scenario.faults {
            if let FaultAction::Limit { limit, timeout, .. } = &fault.action
                && fault.action.concerns(&subscriber.group, &subscriber.name)
            {
                terms.adopt(limit);
                terms.timeout = terms.timeout.max(timeout.map_or(0, |timeout| timeout.0));
            }
        }
        terms
    }

    fn adopt(&mut self, limit: &Limit) {
        self.doubt = self.doubt.max(limit.doubt.0).max(limit.quarantine.0);
        self.window = limit.windows.iter().map(|window| window.length.0).fold(self.window, u64::max);
        self.in_flight = self.in_flight.max(limit.in_flight.map_or(u64::MAX, u64::from));
        if let Some(bucket) = limit.bucket {
            self.burst = self.burst.max(bucket.burst.into());
            self.gap = self.gap.max(bucket.rate.per.0.div_ceil(bucket.rate.count.max(1)));
        }
    }
}

impl Liveness {
    /// `commit` is the longest time of a commit, `sample` the time between two samples.
    pub(super) fn of(scenario: &Scenario, lease: Nanos, commit: u64, sample: u64) -> Self {
        let lane = |subscriber: &Subscriber| {
            let terms = Terms::of(subscriber, scenario);
            let (name, debt) = (subscriber.name.clone(), terms.burst);
            Lane { name, terms, debt, failed: None, doubt_until: 0, since: None }
        };
        let lanes = scenario.subscribers.iter().map(lane).collect();
        let seen = sample.max(SECOND).saturating_mul(2);
        let waits = COMMITS.saturating_mul(commit).saturating_add(OWN_WAITS).saturating_add(seen);
        Self { lanes, disturbed_until: 0, lease: lease.0, waits, found: None }
    }

    pub(super) fn found(self) -> Option<Silence> {
        self.found
    }

    /// Another process may take the lanes after the lease, and counts the requests that were under way.
    pub(super) fn disturb(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(Lane::may_be_seized);
        self.lasts(now);
    }

    pub(super) fn lasts(&mut self, now: u64) {
        self.disturbed_until = now.saturating_add(self.lease);
        self.lanes.iter_mut().for_each(|lane| lane.doubt_from(self.disturbed_until));
    }

    pub(super) fn started(&mut self, at: usize, now: u64) {
        self.lanes[at].since = self.lanes[at].since.map(|_| now);
    }

    /// A request failed, and was answered or not.
    pub(super) fn failed(&mut self, at: usize, now: u64, is_answered: bool) {
        let lane = &mut self.lanes[at];
        lane.failed = Some(now);
        if !is_answered {
            lane.doubt_until = lane.doubt_until.max(now.saturating_add(lane.terms.doubt));
        }
    }

    pub(super) fn check_lane(&mut self, at: usize, now: u64, seen: &LaneSample<'_>) {
        let lane = &mut self.lanes[at];
        let view = seen.owner.as_ref().and_then(|owner| owner.view.as_ref());
        if !seen.is_due || !seen.is_well || now < self.disturbed_until || lane.is_held_back(now, view) {
            lane.since = None;
            return;
        }
        let since = *lane.since.get_or_insert(now);
        let longest = lane.longest(view).saturating_add(self.waits);
        if now.saturating_sub(since) > longest && self.found.is_none() {
            let seconds = |t: u64| format!("{}.{:03} s", t / SECOND, t % SECOND / 1_000_000);
            let sentence = format!(
                "no request to {} from {} to {}, longer than the bound {}: {} deliveries wait; {}",
                lane.name,
                seconds(since),
                seconds(now),
                seconds(longest),
                seen.waiting,
                waits_for(seen.owner.as_ref())
            );
            self.found = Some(Silence { subscriber: lane.name.clone(), from: since, until: now, sentence });
        }
    }
}

impl Lane {
    /// A new owner counts up to the cap in flight beside the burst. Each further owner may add as many.
    fn may_be_seized(&mut self) {
        self.debt = self.debt.saturating_add(self.debt.min(self.terms.in_flight));
    }

    fn doubt_from(&mut self, t: u64) {
        let arrives = t.saturating_add(self.terms.timeout).saturating_add(self.terms.doubt);
        self.doubt_until = self.doubt_until.max(arrives);
    }

    fn is_held_back(&self, now: u64, view: Option<&LaneView>) -> bool {
        let Some(view) = view else { return false };
        let lasts = |length: u64| self.failed.is_some_and(|failed| now < failed.saturating_add(length));
        (view.holds.breaker.is_open() && lasts(self.terms.cooldown.saturating_add(self.terms.timeout)))
            || (view.paused_for > Nanos::ZERO && lasts(self.terms.pause))
            || (view.in_flight > 0 && now < self.doubt_until)
    }

    /// X without the waits that all lanes share.
    fn longest(&self, view: Option<&LaneView>) -> u64 {
        let Terms { timeout, window, burst, gap, .. } = self.terms;
        let bucket = gap.saturating_mul(burst.saturating_add(self.debt));
        let pressure = match view.map_or(100, |view| u64::from(view.share_percent)) {
            100.. => 0,
            // It is rounded up.
            share => share
                .checked_sub(1)
                .filter(|share| *share > 0)
                .map_or(SLOWEST, |share| (gap.saturating_mul(100) / share).min(SLOWEST)),
        };
        [timeout, window, bucket, pressure].into_iter().fold(0, u64::saturating_add)
    }
}

fn waits_for(owner: Option<&Owner<'_>>) -> String {
    let Some(owner) = owner else { return "no process owns the lane".to_owned() };
    let view = owner.view.map_or_else(
        || "does not know that it owns the lane".to_owned(),
        |view| format!("has {} claimed and {} in flight", view.held, view.in_flight),
    );
    let told = |order: &&Order| match order {
        Order::Claim { .. } => "the answer to a claim",
        Order::Settle(_) => "the confirmation of settlements",
        Order::Persist { .. } => "the confirmation of a checkpoint",
        Order::Renew { .. } => "the answer to a renewal",
        Order::Retire => "the answer to its retirement",
        Order::Acquire { .. } => "the answer to a handover",
    };
    let mut asked: Vec<&str> = owner.asked.iter().map(told).collect();
    asked.sort_unstable();
    asked.dedup();
    let waits = if asked.is_empty() { "no answer of the store".to_owned() } else { asked.join(", ") };
    format!("worker {} {view}; it waits for {waits}", owner.worker)
}
