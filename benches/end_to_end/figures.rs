use std::io::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;

/// In events a second.
#[derive(Clone, Copy)]
pub(crate) struct Rate(pub(crate) f64);

impl Rate {
    pub(crate) fn new(count: u64, within: Duration) -> Self {
        Self(float(count) / within.as_secs_f64())
    }

    pub(crate) fn between(before: Self, after: Self) -> Self {
        Self(f64::midpoint(before.0, after.0))
    }

    pub(crate) fn over(self, other: Self) -> f64 {
        self.0 / other.0
    }
}

/// In microseconds, up to a minute.
pub(crate) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order"))
    }
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    fn millis(&self, quantile: f64) -> f64 {
        float(self.0.value_at_quantile(quantile)) / 1_000.0
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench stay far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

pub(crate) fn title(text: &str) {
    print(&format!("\n{text}"));
}

pub(crate) fn rate(what: &str, rate: Rate) {
    print(&format!("  {what:<48} {:>10.0}/s", rate.0));
}

pub(crate) fn rate_wanted(what: &str, rate: Rate, at_least: f64) {
    print(&format!("  {what:<48} {:>10.0}/s  (wanted: {at_least})", rate.0));
}

pub(crate) fn ratio(what: &str, ratio: f64, wanted: f64) {
    print(&format!("  {what:<48} {ratio:>10.2}   (wanted: {wanted})"));
}

pub(crate) fn count(what: &str, count: f64) {
    print(&format!("  {what:<48} {count:>10.2}"));
}

pub(crate) fn wanted(what: &str, figure: f64, at_most: f64) {
    print(&format!("  {what:<48} {figure:>10.2}   (wanted: under {at_most})"));
}

pub(crate) fn table(name: &str, dead: u64, bytes: u64) {
    print(&format!("  {:<48} {dead:>10} dead tuples, {} MiB", format!("table {name}"), bytes >> 20));
}

pub(crate) fn latencies(what: &str, latencies: &Latencies) {
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| latencies.millis(quantile));
    print(&format!(
        "  {what:<48} p50 {p50:.2} ms, p95 {p95:.2} ms, p99 {p99:.2} ms ({} samples)",
        latencies.0.len()
    ));
}

fn print(line: &str) {
    // The reader may have closed the pipe.
    drop(writeln!(std::io::stdout(), "{line}"));
}
