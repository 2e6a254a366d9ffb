//! For plans, and for runs that are too long for a trace.

use hdrhistogram::Histogram;
use hookproof_judge::scenario::SECOND;

use super::ledger::Ledger;

/// Times are in nanoseconds of the run unless the name says otherwise.
#[derive(Clone, Debug)]
pub struct LaneFigures {
    pub name: String,
    pub owed: u64,
    pub delivered: u64,
    pub arrivals: u64,
    /// By reason: exhausted, expired, overflow, gone.
    pub dead: [u64; 4],
    pub retries: u64,
    /// From an event's intended time to the answer that accepted it.
    pub taken_us: Histogram<u64>,
    /// Its queue was full.
    pub refused: u64,
    pub left: u64,
    /// By stretch of the run: its beginning, and the longest time to acceptance.
    pub slowest: Vec<(u64, u64)>,
    /// The highest backlog at a sample or right after a commit of events.
    pub peak: Peak,
    pub busy_until: u64,
    /// Time, rows; unchanged samples are left out.
    pub waiting: Vec<(u64, u64)>,
    pub busiest: Busiest,
}

/// The calendar second with the highest count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busiest {
    pub count: u64,
    pub at: u64,
    pub retries: u64,
    /// Its beginning, its count and its retries so far.
    now: (u64, u64, u64),
}

impl Busiest {
    fn count(&mut self, now: u64, many: u64, is_retry: bool) {
        let begin = now - now % SECOND;
        if self.now.0 != begin {
            self.now = (begin, 0, 0);
        }
        self.now.1 += many;
        self.now.2 += many * u64::from(is_retry);
        if self.now.1 > self.count {
            (self.count, self.at, self.retries) = (self.now.1, begin, self.now.2);
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub rows: u64,
    pub bytes: u64,
    pub at: u64,
}

#[derive(Clone, Debug)]
pub struct Figures {
    pub lanes: Vec<LaneFigures>,
    /// Offered events and requests.
    pub(super) steps: u64,
    pub offered: u64,
    /// Refused for any reason.
    pub refused: u64,
    pub shed: u64,
    pub commits: u64,
    pub traffic_end: u64,
    pub end: u64,
    pub waiting: u64,
    /// The second with the most new requests at all endpoints.
    pub busiest: Busiest,
    pub busiest_offered: Busiest,
    pub database_bytes: u64,
    pub ledger: Ledger,
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
            retries: 0,
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

    /// From an event's intended time to its acceptance.
    #[must_use]
    pub fn taken_ns(&self, thousandths: u32) -> u64 {
        self.taken_us.value_at_quantile(f64::from(thousandths) / 1_000.0).saturating_mul(1_000)
    }

    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.dead.iter().sum()
    }

    /// From the end of the traffic; 0 if the queue was empty earlier.
    #[must_use]
    pub fn drain_ns(&self, traffic_end: u64) -> u64 {
        self.busy_until.saturating_sub(traffic_end)
    }
}

/// Tables show two digits, and the histograms of thousands of lanes must stay small.
fn histogram() -> Histogram<u64> {
    Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are allowed"))
}

/// The histogram grows with its values; values beyond its highest one count as that.
fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    if histogram.record(nanos / 1_000).is_err() {
        histogram.saturating_record(nanos / 1_000);
    }
}

impl Figures {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, stretch_ns: u64) -> Self {
        Self {
            lanes: names.map(LaneFigures::new).collect(),
            steps: 0,
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

    /// The subscriber stands for this many.
    pub(super) fn arrival(&mut self, lane: usize, now: u64, is_retry: bool, many: u64) {
        self.steps += 1;
        self.lanes[lane].arrivals += 1;
        self.lanes[lane].retries += u64::from(is_retry);
        self.lanes[lane].busiest.count(now, 1, is_retry);
        self.busiest.count(now, many, is_retry);
    }

    pub(super) fn offered(&mut self, now: u64, is_owed: bool) {
        self.steps += u64::from(is_owed);
        self.offered += 1;
        self.busiest_offered.count(now, 1, false);
    }

    /// `waited_ns` after its event's intended time.
    pub(super) fn count_accepted(&mut self, lane: usize, now: u64, waited_ns: u64) {
        let begin = now - now % self.stretch_ns;
        let lane = &mut self.lanes[lane];
        lane.busy_until = lane.busy_until.max(now);
        record(&mut lane.taken_us, waited_ns);
        match lane.slowest.last_mut().filter(|(at, _)| *at == begin) {
            Some((_, slowest)) => *slowest = waited_ns.max(*slowest),
            None => lane.slowest.push((begin, waited_ns)),
        }
    }

    /// Right after a commit of events: a peak may lie between two samples.
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

    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.delivered).sum()
    }

    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.lanes.iter().map(LaneFigures::given_up).sum()
    }
}
