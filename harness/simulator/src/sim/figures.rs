//! What a run amounts to, counted as it goes: for runs that are too long for a trace, and for plans.

use hdrhistogram::Histogram;

use super::ledger::Ledger;
use hookproof_judge::scenario::SECOND;

/// One subscriber's side of a run.
#[derive(Clone, Debug)]
pub struct LaneFigures {
    /// Its name.
    pub name: String,
    /// Deliveries owed to it.
    pub owed: u64,
    /// Deliveries that its endpoint took.
    pub delivered: u64,
    /// Requests that reached it.
    pub arrivals: u64,
    /// Given up, by reason: exhausted, expired, overflow, gone.
    pub dead: [u64; 4],
    /// From an event's intended moment to its first arrival, in microseconds.
    pub first_us: Histogram<u64>,
    /// The same, to the answer that took it.
    pub taken_us: Histogram<u64>,
    /// Events that were refused because its queue was full; others that are refused are nobody's here.
    pub refused: u64,
    /// Deliveries that waited when the run ended.
    pub left: u64,
    /// The longest that a delivery took, by when it was taken: the beginning of the stretch, nanoseconds.
    pub slowest: Vec<(u64, u64)>,
    /// The most that was seen to wait, at a sample or right after events were recorded: rows, bytes, and when.
    pub peak: Peak,
    /// When it was last seen to have something waiting, or its last delivery was taken.
    pub busy_until: u64,
    /// What waited, sample by sample: when, rows.
    pub waiting: Vec<(u64, u64)>,
    /// The second in which the most requests began to reach it.
    pub busiest: Busiest,
}

/// The second, from its beginning to the next, that saw the most of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busiest {
    /// How many.
    pub count: u64,
    /// When it began, in nanoseconds.
    pub at: u64,
    /// The second that goes on: when it began, and how many so far.
    now: (u64, u64),
}

impl Busiest {
    /// One more, not before the last one.
    fn note(&mut self, now: u64) {
        let begin = now - now % SECOND;
        if self.now.0 != begin {
            self.now = (begin, 0);
        }
        self.now.1 += 1;
        if self.now.1 > self.count {
            (self.count, self.at) = (self.now.1, begin);
        }
    }
}

/// The most that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Deliveries.
    pub rows: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// When the rows were the most.
    pub at: u64,
}

/// The whole run.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Each subscriber, in the scenario's order.
    pub lanes: Vec<LaneFigures>,
    /// Events offered.
    pub offered: u64,
    /// Events that were refused, for whatever reason: a queue was full, or the sender was not there.
    pub refused: u64,
    /// Deliveries shed as their lane was full.
    pub shed: u64,
    /// Commits made.
    pub commits: u64,
    /// When the traffic ended.
    pub traffic_end: u64,
    /// When the run ended.
    pub end: u64,
    /// Deliveries that still waited then.
    pub waiting: u64,
    /// The second in which the most requests began to arrive, at all endpoints together.
    pub busiest: Busiest,
    /// The second in which the most events were offered.
    pub busiest_offered: Busiest,
    /// The largest that the database became.
    pub database_bytes: u64,
    /// What the store says of itself.
    pub ledger: Ledger,
    /// How long the stretches are for which the slowest delivery is kept.
    pub stretch_ns: u64,
}

impl LaneFigures {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            owed: 0,
            delivered: 0,
            arrivals: 0,
            dead: [0; 4],
            first_us: histogram(),
            taken_us: histogram(),
            refused: 0,
            left: 0,
            slowest: Vec::new(),
            peak: Peak::default(),
            busy_until: 0,
            waiting: Vec::new(),
            busiest: Busiest::default(),
        }
    }

    /// A percentile of the time from an event's intended moment to its first arrival, in nanoseconds.
    #[must_use]
    pub fn first_ns(&self, thousandths: u32) -> u64 {
        self.first_us.value_at_quantile(f64::from(thousandths) / 1_000.0).saturating_mul(1_000)
    }

    /// A percentile of the time from an event's intended moment until its delivery was taken, in nanoseconds.
    #[must_use]
    pub fn taken_ns(&self, thousandths: u32) -> u64 {
        self.taken_us.value_at_quantile(f64::from(thousandths) / 1_000.0).saturating_mul(1_000)
    }

    /// Deliveries given up.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.dead.iter().sum()
    }

    /// How long after the end of the traffic it was empty; nothing if it was before.
    #[must_use]
    pub fn drain_ns(&self, traffic_end: u64) -> u64 {
        self.busy_until.saturating_sub(traffic_end)
    }
}

/// Two digits are what a table shows; a histogram for each of thousands of lanes must stay small.
fn histogram() -> Histogram<u64> {
    Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are allowed"))
}

/// It grows with what it counts, as far as any length of time goes.
fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    if histogram.record(nanos / 1_000).is_err() {
        histogram.saturating_record(nanos / 1_000);
    }
}

impl Figures {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, stretch_ns: u64) -> Self {
        Self {
            lanes: names.map(LaneFigures::new).collect(),
            offered: 0,
            refused: 0,
            shed: 0,
            commits: 0,
            traffic_end: 0,
            end: 0,
            waiting: 0,
            busiest: Busiest::default(),
            busiest_offered: Busiest::default(),
            database_bytes: 0,
            ledger: Ledger::default(),
            stretch_ns: stretch_ns.max(1),
        }
    }

    pub(super) fn arrival(&mut self, lane: usize, now: u64) {
        self.lanes[lane].arrivals += 1;
        self.lanes[lane].busiest.note(now);
        self.busiest.note(now);
    }

    pub(super) fn offered(&mut self, now: u64) {
        self.offered += 1;
        self.busiest_offered.note(now);
    }

    pub(super) fn first(&mut self, lane: usize, waited_ns: u64) {
        record(&mut self.lanes[lane].first_us, waited_ns);
    }

    /// A delivery was taken, so long after its event's intended moment.
    pub(super) fn taken(&mut self, lane: usize, now: u64, waited_ns: u64) {
        let begin = now - now % self.stretch_ns;
        let lane = &mut self.lanes[lane];
        lane.busy_until = lane.busy_until.max(now);
        record(&mut lane.taken_us, waited_ns);
        match lane.slowest.last_mut().filter(|(at, _)| *at == begin) {
            Some((_, slowest)) => *slowest = waited_ns.max(*slowest),
            None => lane.slowest.push((begin, waited_ns)),
        }
    }

    /// So much waits right after events were recorded: between two samples a peak may come and go.
    pub(super) fn crowd(&mut self, lane: usize, now: u64, rows: u64, bytes: u64) {
        let lane = &mut self.lanes[lane];
        lane.peak.bytes = lane.peak.bytes.max(bytes);
        if rows > lane.peak.rows {
            (lane.peak.rows, lane.peak.at) = (rows, now);
            lane.waiting.push((now, rows));
        }
        if rows > 0 {
            lane.busy_until = lane.busy_until.max(now);
        }
    }

    pub(super) fn sample(&mut self, lane: usize, now: u64, rows: u64, bytes: u64) {
        let lane = &mut self.lanes[lane];
        if rows > lane.peak.rows {
            (lane.peak.rows, lane.peak.at) = (rows, now);
        }
        lane.left = rows;
        lane.peak.bytes = lane.peak.bytes.max(bytes);
        if rows > 0 {
            lane.busy_until = now;
        }
        let same = lane.waiting.last().is_some_and(|(_, last)| *last == rows);
        if !same {
            lane.waiting.push((now, rows));
        }
    }

    /// Deliveries made, all subscribers together.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.delivered).sum()
    }

    /// Deliveries given up, all subscribers together.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.lanes.iter().map(LaneFigures::given_up).sum()
    }
}
