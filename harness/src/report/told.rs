//! A run as its page tells it, first to last: the verdict, what failed, what happened, each subscriber, every check, and how to
//! repeat it.

use super::chart::{Band, Chart, Shape};
use super::model::{Cell, Document, Headline, Part, Table, explained};
use super::run::{Report, SubscriberReport};
use crate::check::verdict::show;
use crate::check::{Status, Verdict, Witness};
use crate::scenario::SECOND;

/// Charts of more subscribers than this make the page too long to read; those with a witness come first.
const CHARTS_MAX: usize = 12;

/// The report as one page.
#[must_use]
pub fn html(report: &Report) -> String {
    super::page::page(&document(report))
}

fn document(report: &Report) -> Document {
    let judgement = &report.judgement;
    let mut parts = failed(report);
    parts.extend(waiting(report));
    parts.extend(subscribers(report));
    parts.extend(generator(report));
    parts.extend(checks(report));
    parts.extend(run(report));
    let verdict =
        Headline { status: Some(judgement.status), sentence: judgement.sentence.clone(), more: Vec::new() };
    Document { title: report.scenario.clone(), about: report.about.clone(), verdict, parts }
}

fn failed(report: &Report) -> Vec<Part> {
    let told =
        report.judgement.verdicts.iter().filter(|one| matches!(one.status, Status::Fail | Status::Warn));
    told.map(|verdict| {
        let mut parts = vec![Part::Text(verdict.sentence.clone()), witnesses(verdict)];
        parts.extend(explained(&verdict.id));
        Part::Card { status: Some(verdict.status), name: verdict.id.clone(), parts }
    })
    .collect()
}

fn witnesses(verdict: &Verdict) -> Part {
    let told = verdict.witness.iter().map(|witness| {
        let whose = witness.subscriber.as_deref().unwrap_or("the sender");
        let numbers: Vec<String> = witness.arrivals.iter().take(8).map(ToString::to_string).collect();
        let arrivals =
            if numbers.is_empty() { String::new() } else { format!(" (arrivals {})", numbers.join(", ")) };
        format!("{} · {whose}: {}{arrivals}", show(witness.from), witness.what)
    });
    Part::List(told.collect())
}

fn faults(report: &Report) -> Vec<Band> {
    let band = |fault: &super::run::FaultReport| Band {
        class: "fault",
        from: fault.at,
        until: fault.until.unwrap_or(fault.at),
        what: format!("{} at {}", fault.what, show(fault.at)),
    };
    report.course.faults.iter().map(band).collect()
}

/// Counts by second, over the run.
fn by_second(title: String, report: &Report, series: Vec<(&'static str, &str, &[u64])>) -> Chart {
    let seconds = series.iter().map(|(.., counts)| counts.len()).max().unwrap_or(0);
    let mut chart = Chart::over(title, (0, seconds as u64 * SECOND), |count| count.to_string());
    let bars = |(class, name, counts): (&'static str, &str, &[u64])| Shape::Bars {
        class,
        name: name.to_owned(),
        step: SECOND,
        counts: counts.to_vec(),
    };
    chart.shapes = series.into_iter().map(bars).collect();
    chart.bands = faults(report);
    chart
}

fn waiting(report: &Report) -> Vec<Part> {
    if report.course.waiting.0.is_empty() {
        return Vec::new();
    }
    let counts = &report.course.waiting.0;
    let mut chart =
        by_second("Deliveries waiting, by second".to_owned(), report, vec![("waiting", "", counts)]);
    let bound: Option<u64> = report.subscribers.iter().map(|one| one.bound).sum();
    chart.bound = bound.map(|bound| (bound, format!("bound {bound}")));
    vec![Part::Title("Backlog".to_owned()), Part::Chart(Box::new(chart))]
}

fn subscribers(report: &Report) -> Vec<Part> {
    let told = report.judgement.verdicts.iter();
    let told = told.filter(|verdict| matches!(verdict.status, Status::Fail | Status::Warn));
    let witnesses: Vec<&Witness> = told.flat_map(|verdict| &verdict.witness).collect();
    let own = |one: &SubscriberReport| -> Vec<&Witness> {
        let own = witnesses.iter().filter(|witness| witness.subscriber.as_deref() == Some(one.name.as_str()));
        own.copied().collect()
    };
    let mut order: Vec<&SubscriberReport> = report.subscribers.iter().collect();
    order.sort_by_key(|one| own(one).is_empty());
    let mut parts = vec![Part::Title("Subscribers".to_owned())];
    for one in order.iter().take(CHARTS_MAX) {
        let series = vec![
            ("taken", "2xx", &one.taken.0[..]),
            ("held", "429", &one.held.0),
            ("failed", "anything else", &one.failed.0),
        ];
        let mut chart = by_second(format!("Arrivals a second at {}", one.name), report, series);
        chart.bound = one.allowed.map(|most| (most, format!("{most} in a second at most")));
        chart.bands.extend(own(one).into_iter().map(|witness| Band {
            class: "witness",
            from: witness.from,
            until: witness.until,
            what: witness.what.clone(),
        }));
        let [p50, p95, p99, max] = one.latency.map(show);
        let told = format!(
            "{}. {} arrivals, {} delivered, {} dead. From emit to first arrival: p50 {p50}, p95 {p95}, p99 {p99}, at most {max}.",
            one.contract, one.arrivals, one.delivered, one.dead
        );
        let parts_of = vec![Part::Text(told), Part::Chart(Box::new(chart))];
        parts.push(Part::Card { status: None, name: one.name.clone(), parts: parts_of });
    }
    if order.len() > CHARTS_MAX {
        let more = order.len() - CHARTS_MAX;
        parts.push(Part::Text(format!("{more} subscribers more are in the JSON.")));
    }
    parts
}

fn generator(report: &Report) -> Vec<Part> {
    let lag = &report.generator;
    // Virtual time knows no lag.
    if lag.by_second.0.iter().all(|lag| *lag == 0) {
        return Vec::new();
    }
    let title = "The latest event of each second, in microseconds behind its schedule".to_owned();
    let chart = by_second(title, report, vec![("waiting", "", &lag.by_second.0)]);
    vec![Part::Title("The generator's own lag".to_owned()), Part::Chart(Box::new(chart))]
}

fn checks(report: &Report) -> Vec<Part> {
    let (silent, judged): (Vec<&Verdict>, Vec<&Verdict>) =
        report.judgement.verdicts.iter().partition(|verdict| verdict.status == Status::NotApplicable);
    let mut parts = vec![Part::Title("Checks".to_owned()), table(&judged)];
    if !silent.is_empty() {
        let summary = format!("{} checks have nothing to judge in this scenario", silent.len());
        parts.push(Part::Fold { status: None, summary, open: false, parts: vec![table(&silent)] });
    }
    parts
}

fn table(verdicts: &[&Verdict]) -> Part {
    let row = |verdict: &&Verdict| {
        let figures: Vec<String> =
            verdict.figures.iter().map(|one| format!("{} {}", one.name, one.value)).collect();
        let figures = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join(" · ")) };
        let seen = format!("{}{figures}", verdict.sentence);
        vec![Cell::Status(verdict.status), Cell::Code(verdict.id.clone()), Cell::Text(seen)]
    };
    let head = ["verdict", "check", "what was seen"].map(str::to_owned).to_vec();
    Part::Table(Table { head, rows: verdicts.iter().map(row).collect(), searched: false })
}

fn run(report: &Report) -> [Part; 2] {
    let (lag, speed) = (&report.generator, &report.speed);
    let mut rows = vec![
        ("repeat it", report.repeat.clone()),
        ("seed", report.seed.to_string()),
        ("sender", report.driver.clone()),
        (
            "generator",
            format!(
                "{} events, lag p50 {}, p99 {}, at most {}; {} not offered",
                lag.events,
                show(lag.p50),
                show(lag.p99),
                show(lag.max),
                lag.not_offered
            ),
        ),
    ];
    if let (Some(accepted), Some(offered)) = (speed.accepted_per_second, speed.offered_per_second) {
        rows.push(("the sender's API", format!("accepted {accepted}/s of {offered}/s offered")));
    }
    if let Some(machine) = &report.machine {
        let (cores, mebibytes) = (machine.cores, machine.memory_bytes >> 20);
        let told = format!("{}, {cores} cores, {mebibytes} MiB, {}", machine.processor, machine.system);
        rows.push(("machine", told));
    }
    if let (Some(ceiling), Some(delivered)) = (speed.ceiling_per_second, speed.delivered_per_second) {
        let share = speed.efficiency.as_ref().map_or(String::new(), ToString::to_string);
        rows.push(("efficiency", format!("{share}: {delivered} a second of {ceiling}")));
    }
    rows.push(("version", report.version.clone()));
    [Part::Title("The run".to_owned()), Part::Table(Table::pairs(rows))]
}
