//! Open-loop load on a receiver: signed events on a precomputed schedule, regardless of the receiver.
//!
//! Latencies count from the intended moment, which avoids coordinated omission. Requests that the generator could not
//! send in time count as missed. Figures that the generator limits are marked.

mod search;
mod trial;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
pub use search::{Bracket, Found, Limits, Slo, SloError, find_max};
use trial::OPEN_MAX;
pub use trial::{Load, REQUESTS_MAX, Trial, run};

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::report::{
    Band, Cell, Chart, Document, Headline, Part, Shape, Table, page, places, unjudged,
};

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

const PASSES: &str = "A search passes if a rate holds three times in a row. Higher rates show its limit.";
const COUNTED: &str = "Latencies count from the scheduled time of each request.";

impl Trial {
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

    /// HdrHistogram's format, in microseconds.
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

    /// Returns the reason, too.
    #[must_use]
    pub fn verdict(&self, slo: Option<&Slo>) -> (Verdict, String) {
        let (due, failed, missed) = (self.due, self.failed(), self.missed);
        let objective = |word: &str| slo.map_or(String::new(), |slo| format!("{slo}: {word}; "));
        let accepted = self.accepted();
        let counts = format!(
            "requests: {due}; answered 2xx: {accepted}; failed: {failed}; not sent in time: {missed}"
        );
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

    #[must_use]
    pub fn page(&self, target: &str, day: &str, search: Option<&Search>, told: (Verdict, String)) -> String {
        let mut parts = match search.filter(|search| search.tried.len() > 1) {
            Some(search) => search.parts(),
            None => vec![Part::Chart(Box::new(self.chart()))],
        };
        parts.push(Part::Title(format!("At {:.0}/s", self.per_second)));
        parts.extend([Part::Table(self.latencies()), Part::Table(Table::pairs(self.answers()))]);
        let trials = search.map(|search| format!("{} trials", search.trials));
        let lasted = format!("{:.0} s", self.took.as_secs_f64());
        let lasted = trials.map_or(lasted.clone(), |trials| format!("{trials}, {lasted} each"));
        let passes = search.filter(|_| told.0 == Verdict::Pass).map(|_| PASSES.to_owned());
        let more = passes.into_iter().chain([COUNTED.to_owned()]).collect();
        page(&Document {
            title: target.to_owned(),
            facts: vec!["load".to_owned(), day.to_owned(), lasted],
            verdict: Headline { status: Some(told.0), sentence: told.1, more, ..Headline::default() },
            parts,
            ..Document::default()
        })
    }

    fn latencies(&self) -> Table {
        let names = QUANTILES.map(|(name, _)| name);
        let head = names.into_iter().chain(["max"]).map(|name| format!("{name} (ms)"));
        let row = |name: &str, of: &Histogram<u64>| {
            let values = QUANTILES.map(|(_, at)| of.value_at_quantile(at));
            let figures = values.into_iter().chain([of.max()]).map(|micros| Cell::Number(figure(micros)));
            std::iter::once(Cell::Text(name.to_owned())).chain(figures).collect()
        };
        Table {
            head: std::iter::once("time".to_owned()).chain(head).collect(),
            rows: vec![row("answers", &self.latency), row("the generator's lag", &self.lag)],
            searched: false,
        }
    }

    fn answers(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![("due", self.due.to_string()), ("not sent", self.missed.to_string())];
        rows.extend(self.statuses.iter().map(|(status, count)| ("answered", format!("{status}: {count}"))));
        rows.extend(self.unanswered.iter().map(|(why, count)| ("not answered", format!("{why}: {count}"))));
        rows.extend(self.limited().map(|why| ("limited by", why)));
        rows
    }

    fn limited(&self) -> Option<String> {
        match () {
            () if self.is_generator_limited() => Some("the load generator".to_owned()),
            () if self.is_open_limited() => Some(format!("{OPEN_MAX} open requests")),
            () => None,
        }
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

#[derive(Clone, Debug)]
pub struct Search {
    slo: Slo,
    trials: usize,
    tried: Vec<Tried>,
}

/// The worst of each figure at one rate; latencies in microseconds.
#[derive(Clone, Debug)]
struct Tried {
    rate: u64,
    named: u64,
    p50: u64,
    p99: u64,
    failed: u64,
    missed: u64,
    holds: bool,
    limited: Option<String>,
}

impl Search {
    #[must_use]
    pub fn new(slo: Slo) -> Self {
        Self { slo, trials: 0, tried: Vec::new() }
    }

    pub fn add(&mut self, trial: &Trial) {
        self.trials += 1;
        let at = |quantile| trial.latency.value_at_quantile(quantile);
        let new = Tried {
            rate: format!("{:.0}", trial.per_second).parse().unwrap_or(0),
            named: self.slo.latency_us(trial),
            p50: at(0.5),
            p99: at(0.99),
            failed: trial.failed(),
            missed: trial.missed,
            holds: self.slo.holds(trial),
            limited: trial.limited(),
        };
        match self.tried.iter_mut().find(|old| old.rate == new.rate) {
            Some(old) => {
                *old = Tried {
                    rate: old.rate,
                    named: old.named.max(new.named),
                    p50: old.p50.max(new.p50),
                    p99: old.p99.max(new.p99),
                    failed: old.failed.max(new.failed),
                    missed: old.missed.max(new.missed),
                    holds: old.holds && new.holds,
                    limited: new.limited.or_else(|| old.limited.take()),
                }
            }
            None => self.tried.push(new),
        }
        self.tried.sort_by_key(|one| one.rate);
    }

    fn parts(&self) -> Vec<Part> {
        let row = |one: &Tried| {
            let figures = [one.rate.to_string(), figure(one.p50), figure(one.p99)];
            let counts = [one.failed.to_string(), one.missed.to_string()];
            let told = one.limited.as_ref().map_or(String::new(), |why| format!(", limited by {why}"));
            let told = format!("{}{told}", if one.holds { "holds" } else { "does not hold" });
            let numbers = figures.into_iter().chain(counts).map(Cell::Number);
            numbers.chain([Cell::Text(told)]).collect()
        };
        let head = ["rate (/s)", "p50 (ms)", "p99 (ms)", "failed", "not sent", "the objective"];
        let rows: Vec<_> = self.tried.iter().map(row).collect();
        let table = Table { head: head.map(str::to_owned).to_vec(), searched: false, rows };
        let fold = Part::Fold {
            status: None,
            summary: format!("All {} rates", table.rows.len()),
            open: table.rows.len() <= ROWS_OPEN_MAX,
            parts: vec![Part::Table(table)],
        };
        vec![Part::Chart(Box::new(self.chart())), fold]
    }

    fn chart(&self) -> Chart {
        let most = self.tried.last().map_or(1, |one| one.rate);
        let mut chart =
            Chart::over(format!("Latency by rate (logarithmic): {}", self.slo), (0, most), millis);
        chart.doubling = true;
        chart.places = places(most, |rate| format!("{rate}/s"));
        let line = |class, name: &str, of: fn(&Tried) -> u64| {
            let points = self.tried.iter().map(|one| (one.rate, of(one))).collect();
            Shape::Line { class, name: name.to_owned(), points, holds: false }
        };
        let named = self.slo.percentile();
        chart.shapes = vec![line("level", &named, |one| one.named), line("second", "p50", |one| one.p50)];
        chart.shapes.extend((named != "p99").then(|| line("third", "p99", |one| one.p99)));
        let allowed = self.slo.below_us();
        chart.bound = Some((allowed, format!("allowed: {}", millis(allowed))));
        // A search tries rates that are too high: without any that holds, they are a violation.
        chart.violated = !self.tried.iter().any(|one| one.holds);
        let failed = self.tried.iter().filter(|one| one.failed > 0).map(|one| (one.rate, "failed"));
        let missed = self.tried.iter().filter(|one| one.failed == 0 && one.missed > 0);
        chart.ticks = failed.chain(missed.map(|one| (one.rate, "told"))).collect();
        let keys = [("failed", "requests failed"), ("told", "requests were not sent in time")];
        let keys = keys.into_iter().filter(|(key, _)| chart.ticks.iter().any(|(_, class)| class == key));
        chart.ticks_key = keys.map(|(class, name)| (class, name.to_owned())).collect();
        let breaks = self.tried.iter().find(|one| !one.holds).map(|one| one.rate);
        let held = self.tried.iter().map_while(|one| one.holds.then_some(one.rate)).last().unwrap_or(0);
        chart.bands.extend(breaks.map(|breaks| Band {
            class: "held",
            from: held,
            until: breaks,
            what: format!("the knee: holds at {held}/s, not at {breaks}/s"),
        }));
        chart
    }
}

const ROWS_OPEN_MAX: usize = 8;

/// An older page must not stand for a load without figures.
#[must_use]
pub fn page_unjudged(target: &str, why: &str) -> String {
    let more = ["The capacity of this receiver is unknown."];
    unjudged(target, "load", why, &more)
}

fn figure(micros: u64) -> String {
    format!("{}.{:02}", micros / 1_000, micros % 1_000 / 10)
}

pub(crate) fn millis(micros: u64) -> String {
    if micros < 10_000 {
        format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
    } else {
        format!("{} ms", micros / 1000)
    }
}
