//! Open-loop load on a receiver: signed events on a precomputed schedule, regardless of the receiver.
//!
//! Latencies count from the intended moment, which avoids coordinated omission. Requests that the generator could not
//! send in time count as missed. Figures that the generator limits are marked.

mod search;
mod trial;

use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
pub use search::{Bracket, Found, Limits, Slo, SloError, find_max};
use trial::OPEN_MAX;
pub use trial::{Load, REQUESTS_MAX, Trial, run};

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{Chart, Document, Headline, Part, Shape, page, places, unjudged};

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

impl Trial {
    /// A few lines of text.
    #[must_use]
    pub fn text(&self) -> String {
        let statuses: Vec<_> =
            self.statuses.iter().map(|(status, count)| format!("{count} × {status}")).collect();
        let unanswered: String =
            self.unanswered.iter().map(|(why, count)| format!("unanswered {count} × {why}\n")).collect();
        let percentiles: Vec<_> = QUANTILES
            .iter()
            .map(|(name, at)| format!("{name} {}", millis(self.latency.value_at_quantile(*at))))
            .collect();
        let latency = match self.latency.len() {
            0 => "none".to_owned(),
            _ => {
                format!("{} max {}, of answered requests", percentiles.join(" "), millis(self.latency.max()))
            }
        };
        let mut text = format!(
            "{:.0}/s intended, {} due, {} missed, {} unanswered\nanswers    {}\n{unanswered}latency    {}\ngenerator  lag p50 {} p99 {}\n",
            self.per_second,
            self.due,
            self.missed,
            self.unanswered.values().sum::<u64>(),
            if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") },
            latency,
            millis(self.lag.value_at_quantile(0.5)),
            millis(self.lag.value_at_quantile(0.99)),
        );
        if self.is_generator_limited() {
            text.push_str(
                "generator-limited: the load generator sent requests late, so these figures do not show the \
                 limit of the receiver\n",
            );
        }
        if self.is_open_limited() {
            text.push_str(&format!(
                "open-limited: {OPEN_MAX} requests were open at once, the limit of the load generator, so these \
                 figures do not show the limit of the receiver\n"
            ));
        }
        text
    }

    /// The figures as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let micros: serde_json::Map<_, _> = QUANTILES
            .iter()
            .map(|(name, at)| ((*name).to_owned(), self.latency.value_at_quantile(*at).into()))
            .collect();
        serde_json::json!({
            "intended_per_second": self.per_second,
            "due": self.due,
            "missed": self.missed,
            "unanswered": self.unanswered.values().sum::<u64>(),
            "unanswered_why": self.unanswered,
            "statuses": self.statuses,
            "failed": self.failed(),
            "latency_us": micros,
            "latency_max_us": self.latency.max(),
            "lag_p99_us": self.lag.value_at_quantile(0.99),
            "generator_limited": self.is_generator_limited(),
            "open_limited": self.is_open_limited(),
            "seconds": self.took.as_secs_f64(),
        })
    }

    /// The log in HdrHistogram's format, in microseconds.
    pub fn hdr_log(&self) -> std::io::Result<Vec<u8>> {
        let mut log = Vec::new();
        let mut serializer = V2Serializer::new();
        let mut writer = IntervalLogWriterBuilder::new()
            .add_comment("hookproof load, latencies in microseconds from the intended moment")
            .begin_log_with(&mut log, &mut serializer)?;
        let written = writer.write_histogram(&self.latency, std::time::Duration::ZERO, self.took, None);
        written.map_err(|error| std::io::Error::other(format!("{error:?}")))?;
        Ok(log)
    }

    /// The verdict of a trial, by an objective if there is one, with its reason.
    #[must_use]
    pub fn verdict(&self, slo: Option<&Slo>) -> (Verdict, String) {
        let (due, failed, missed) = (self.due, self.failed(), self.missed);
        let objective = |word: &str| slo.map_or(String::new(), |slo| format!("{slo}: {word}; "));
        let counts = format!("{} of {due} accepted, {failed} failed, {missed} missed", self.accepted());
        match () {
            () if self.is_generator_limited() => (
                Verdict::Inconclusive,
                format!("generator-limited, so the limit of the receiver is unknown; {counts}"),
            ),
            () if self.accepted() == 0 && failed == 0 => {
                (Verdict::Inconclusive, "no request was answered".to_owned())
            }
            () if slo.is_some_and(|slo| !slo.latency_holds(self)) => {
                (Verdict::Fail, format!("{}{counts}", objective("broken, too slow")))
            }
            () if self.is_open_limited() => (
                Verdict::Inconclusive,
                format!(
                    "open-limited: {OPEN_MAX} requests were open at once, the limit of the load generator; {counts}"
                ),
            ),
            () if failed + missed > 0 => (Verdict::Fail, format!("{}{counts}", objective("broken"))),
            () => (Verdict::Pass, format!("{}{counts}", objective("holds"))),
        }
    }

    /// The self-contained HTML page.
    #[must_use]
    pub fn page(&self, target: &str, day: &str, search: Option<&Search>, told: (Verdict, String)) -> String {
        let charts = search.filter(|search| search.tried.len() > 1).map(Search::chart).into_iter();
        let charts = charts.chain([self.chart()]).map(|chart| Part::Chart(Box::new(chart)));
        page(&Document {
            title: target.to_owned(),
            about: "Latencies count from the scheduled time of each request.".to_owned(),
            facts: vec!["load".to_owned(), day.to_owned(), format!("{:.0} s", self.took.as_secs_f64())],
            verdict: Headline { status: Some(told.0), sentence: told.1, ..Headline::default() },
            parts: charts.chain([Part::Lines(vec![self.text()])]).collect(),
        })
    }

    /// Each step to the right is ten times rarer.
    fn chart(&self) -> Chart {
        const STEPS: [(&str, f64); 6] =
            [("least", 0.0), ("50 %", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("max", 1.0)];
        let values = STEPS.map(|(_, at)| self.latency.value_at_quantile(at));
        let points = (0..).zip(values).collect();
        let mut chart = Chart::over("Latency by percentile", (0, STEPS.len() as u64 - 1), millis);
        chart.places = (0..).zip(STEPS.map(|(name, _)| name.to_owned())).collect();
        chart.shapes = vec![Shape::Line { class: "waiting", name: String::new(), points, holds: false }];
        chart
    }
}

/// The trials of a search, for its page.
#[derive(Clone, Debug)]
pub struct Search {
    slo: Slo,
    /// Requests per second, and the latency that the objective names, in microseconds.
    tried: Vec<(u64, u64)>,
}

impl Search {
    /// No trial yet.
    #[must_use]
    pub fn new(slo: Slo) -> Self {
        Self { slo, tried: Vec::new() }
    }

    /// Adds one. Of a rate tried again, the slower counts.
    pub fn add(&mut self, trial: &Trial) {
        let latency = self.slo.latency_us(trial);
        let rate = format!("{:.0}", trial.per_second).parse().unwrap_or(0);
        match self.tried.iter_mut().find(|(tried, _)| *tried == rate) {
            Some((_, slowest)) => *slowest = latency.max(*slowest),
            None => self.tried.push((rate, latency)),
        }
        self.tried.sort_unstable();
    }

    fn chart(&self) -> Chart {
        let most = self.tried.last().map_or(1, |(rate, _)| *rate);
        let mut chart = Chart::over(format!("Latency by rate: {}", self.slo), (0, most), millis);
        chart.places = places(most, |rate| format!("{rate}/s"));
        let points = self.tried.clone();
        chart.shapes = vec![Shape::Line { class: "level", name: String::new(), points, holds: false }];
        let allowed = self.slo.below_us();
        chart.bound = Some((allowed, format!("allowed: {}", millis(allowed))));
        chart.violated = true;
        chart
    }
}

/// An older page must not stand for a load without figures.
#[must_use]
pub fn page_unjudged(target: &str, why: &str) -> String {
    let more = ["The capacity of this receiver is unknown."];
    unjudged(target, "load", why, &more)
}

pub(crate) fn millis(micros: u64) -> String {
    if micros < 10_000 {
        format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
    } else {
        format!("{} ms", micros / 1000)
    }
}
