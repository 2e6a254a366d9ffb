//! One page that holds everything: the verdict first, then each subscriber's side, then every check. No script, no font,
//! no image from anywhere: it reads the same offline, on paper, in light and in dark.

use std::fmt::Write;

use super::chart::{Bars, Marks, stacked};
use super::escape::escape;
use super::model::{Report, SubscriberReport};
use crate::catalogue;
use crate::check::verdict::show;
use crate::check::{Status, Verdict, Witness};

/// Charts of more subscribers than this make the page too long to read; those with a witness come first.
const CHARTS_MAX: usize = 24;

pub(crate) const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#59636e;--line:#d1d9e0;--pass:#1a7f37;--fail:#cf222e;
--warn:#9a6700;--held:#bf8700;--bar:#0969da;
--fault:#8250df}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;--line:#3d444d;--pass:#3fb950;
--fail:#f85149;--warn:#d29922;--held:#d29922;--bar:#4493f8;--fault:#ab7df8}}
@media print{:root{--ink:#000;--paper:#fff;--soft:#444;--line:#bbb}details{display:block}section{break-inside:avoid}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .2rem}
.soft{color:var(--soft)}code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.verdict{border-left:6px solid;padding:.6rem 1rem;margin:1rem 0}
.pass{color:var(--pass)}.fail,.harness-error{color:var(--fail)}.warn,.inconclusive{color:var(--warn)}
.not-applicable{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:14px}td,th{border-bottom:1px solid var(--line);padding:.3rem .5rem;
text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
svg{width:100%;height:auto}.axis{stroke:var(--line)}
svg text{font:11px ui-monospace,monospace;fill:var(--soft);paint-order:stroke;stroke:var(--paper);stroke-width:3px}
@media(max-width:40rem){svg text{font-size:17px}}
.taken{fill:var(--pass)}.held{fill:var(--held)}.failed{fill:var(--fail)}.waiting{fill:var(--bar)}
.bound{stroke:var(--ink);stroke-dasharray:5 4}line.fault{stroke:var(--fault);stroke-width:1.5}
svg text.fault{fill:var(--fault)}.witness{fill:var(--fail);fill-opacity:.25;stroke:var(--fail)}
.key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}
.key .taken{background:var(--pass)}.key .held{background:var(--held)}.key .failed{background:var(--fail)}
td:first-child,td:nth-child(2) code{white-space:nowrap}td[colspan],td:only-of-type code{white-space:normal}
ul{margin:.2rem 0;padding-left:1.2rem}summary{cursor:pointer;color:var(--soft);margin:.6rem 0}";

fn class(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::Warn => "warn",
        Status::Inconclusive => "inconclusive",
        Status::NotApplicable => "not-applicable",
        Status::HarnessError => "harness-error",
    }
}

/// The report as one page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut page = head(report);
    failed(&mut page, report);
    waiting(&mut page, report);
    subscribers(&mut page, report);
    generator(&mut page, report);
    checks(&mut page, report);
    run(&mut page, report);
    page.push_str("</main></body></html>\n");
    page
}

fn head(report: &Report) -> String {
    let (status, name) = (report.judgement.status, escape(&report.scenario));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <title>{name}: {status}</title><style>{STYLE}</style></head><body><main>\
         <h1>{name}</h1><p class=\"soft\">{}</p>\
         <div class=\"verdict {}\"><strong>{status}</strong>: {}</div>\n",
        escape(&report.about),
        class(status),
        escape(&report.judgement.sentence)
    )
}

fn failed(page: &mut String, report: &Report) {
    let told =
        report.judgement.verdicts.iter().filter(|one| matches!(one.status, Status::Fail | Status::Warn));
    for verdict in told {
        let entry = catalogue::find(&verdict.id);
        let _ = write!(
            page,
            "<section><h3><span class=\"{}\">{}</span> <code>{}</code></h3><p>{}</p>",
            class(verdict.status),
            verdict.status,
            escape(&verdict.id),
            escape(&verdict.sentence)
        );
        if let Some(entry) = entry {
            let (must, remedy) = (escape(&entry.requirement), escape(&entry.remedy));
            let _ = write!(page, "<p class=\"soft\">What must hold: {must}. What to do: {remedy}.</p>");
        }
        witnesses(page, verdict);
        page.push_str("</section>\n");
    }
}

fn witnesses(page: &mut String, verdict: &Verdict) {
    if verdict.witness.is_empty() {
        return;
    }
    page.push_str("<ul>");
    for witness in &verdict.witness {
        let whose = escape(witness.subscriber.as_deref().unwrap_or("the sender"));
        let numbers: Vec<String> = witness.arrivals.iter().take(8).map(ToString::to_string).collect();
        let arrivals =
            if numbers.is_empty() { String::new() } else { format!(" (arrivals {})", numbers.join(", ")) };
        let _ =
            write!(page, "<li>{} · {whose}: {}{arrivals}</li>", show(witness.from), escape(&witness.what));
    }
    page.push_str("</ul>");
}

fn waiting(page: &mut String, report: &Report) {
    if report.course.waiting.0.is_empty() {
        return;
    }
    let bounds: Option<u64> = report.subscribers.iter().map(|one| one.bound).sum();
    let bars = [Bars { class: "waiting", counts: &report.course.waiting.0 }];
    let marks = Marks { faults: &report.course.faults, witnesses: &[] };
    let chart = stacked("deliveries waiting, by second", &bars, bounds, marks);
    let most = report.course.waiting.0.iter().max().copied().unwrap_or(0);
    let _ = write!(
        page,
        "<h2>Backlog</h2><p class=\"soft\">Deliveries waiting in all; {most} at most.</p>{chart}"
    );
}

fn subscribers(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>Subscribers</h2><p class=\"soft key\">Arrivals a second, by answer:<span class=\"taken\"></span>2xx\
         <span class=\"held\"></span>429<span class=\"failed\"></span>anything else. The dashed line is what the contract lets \
         through in a second at most, burst included; violet lines are what was done to the sender, red bands what shows \
         a failed check.</p>\n",
    );
    let witnesses: Vec<&Witness> = report
        .judgement
        .verdicts
        .iter()
        .filter(|verdict| matches!(verdict.status, Status::Fail | Status::Warn))
        .flat_map(|verdict| &verdict.witness)
        .collect();
    let marks = |one: &SubscriberReport| -> Vec<&Witness> {
        let own = witnesses.iter().filter(|witness| witness.subscriber.as_deref() == Some(one.name.as_str()));
        own.copied().collect()
    };
    let mut order: Vec<&SubscriberReport> = report.subscribers.iter().collect();
    order.sort_by_key(|one| marks(one).is_empty());
    for one in order.iter().take(CHARTS_MAX) {
        let bars = [
            Bars { class: "taken", counts: &one.taken.0 },
            Bars { class: "held", counts: &one.held.0 },
            Bars { class: "failed", counts: &one.failed.0 },
        ];
        let title = format!("arrivals a second at {}", one.name);
        let own = marks(one);
        let chart =
            stacked(&title, &bars, one.allowed, Marks { faults: &report.course.faults, witnesses: &own });
        let [p50, p95, p99, max] = one.latency.map(show);
        let _ = write!(
            page,
            "<section><h3>{}</h3><p class=\"soft\">{}. {} arrivals, {} delivered, {} dead. \
             From emit to first arrival: p50 {p50}, p95 {p95}, p99 {p99}, at most {max}.</p>{chart}</section>",
            escape(&one.name),
            escape(&one.contract),
            one.arrivals,
            one.delivered,
            one.dead
        );
    }
    if order.len() > CHARTS_MAX {
        let _ = write!(
            page,
            "<p class=\"soft\">{} subscribers more are in the JSON.</p>",
            order.len() - CHARTS_MAX
        );
    }
}

fn generator(page: &mut String, report: &Report) {
    let lag = &report.generator;
    // Virtual time knows no lag.
    if lag.by_second.0.iter().all(|lag| *lag == 0) {
        return;
    }
    let bars = [Bars { class: "waiting", counts: &lag.by_second.0 }];
    let chart = stacked("the generator's lag, by second", &bars, None, Marks::default());
    let _ = write!(
        page,
        "<section><h2>The generator's own lag</h2><p class=\"soft\">The latest event of each second, in \
         microseconds behind its schedule. {} events: p50 {}, p99 {}, at most {}.</p>{chart}</section>",
        lag.events,
        show(lag.p50),
        show(lag.p99),
        show(lag.max)
    );
}

fn checks(page: &mut String, report: &Report) {
    let (silent, judged): (Vec<&Verdict>, Vec<&Verdict>) =
        report.judgement.verdicts.iter().partition(|verdict| verdict.status == Status::NotApplicable);
    page.push_str("<h2>Checks</h2>");
    table(page, &judged);
    if !silent.is_empty() {
        let _ = write!(
            page,
            "<details><summary>{} checks have nothing to judge in this scenario</summary>",
            silent.len()
        );
        table(page, &silent);
        page.push_str("</details>\n");
    }
}

fn table(page: &mut String, verdicts: &[&Verdict]) {
    page.push_str("<table><tr><th>verdict</th><th>check</th><th>what was seen</th></tr>\n");
    for verdict in verdicts {
        let figures: Vec<String> = verdict
            .figures
            .iter()
            .map(|one| format!("{} {}", escape(&one.name), escape(&one.value)))
            .collect();
        let figures = match figures.is_empty() {
            true => String::new(),
            false => format!("<br><span class=\"soft\">{}</span>", figures.join(" · ")),
        };
        let _ = write!(
            page,
            "<tr><td class=\"{}\">{}</td><td><code>{}</code></td><td>{}{figures}</td></tr>",
            class(verdict.status),
            verdict.status,
            escape(&verdict.id),
            escape(&verdict.sentence)
        );
    }
    page.push_str("</table>\n");
}

fn run(page: &mut String, report: &Report) {
    let lag = &report.generator;
    let _ = write!(
        page,
        "<h2>The run</h2><table>\
         <tr><th>repeat it</th><td><code>{}</code></td></tr>\
         <tr><th>seed</th><td>{}</td></tr><tr><th>sender</th><td>{}</td></tr>\
         <tr><th>generator</th><td>{} events, lag p50 {}, p99 {}, at most {}; {} not offered</td></tr>",
        escape(&report.repeat),
        report.seed,
        escape(&report.driver),
        lag.events,
        show(lag.p50),
        show(lag.p99),
        show(lag.max),
        lag.not_offered
    );
    if let (Some(accepted), Some(offered)) =
        (report.speed.accepted_per_second, report.speed.offered_per_second)
    {
        let _ = write!(
            page,
            "<tr><th>the sender's API</th><td>accepted {accepted}/s of {offered}/s offered</td></tr>"
        );
    }
    if let Some(machine) = &report.machine {
        let _ = write!(
            page,
            "<tr><th>machine</th><td>{}, {} cores, {} MiB, {}</td></tr>",
            escape(&machine.processor),
            machine.cores,
            machine.memory_bytes >> 20,
            escape(&machine.system)
        );
    }
    if let (Some(ceiling), Some(delivered)) =
        (report.speed.ceiling_per_second, report.speed.delivered_per_second)
    {
        let share = report.speed.efficiency.as_ref().map_or(String::new(), ToString::to_string);
        let _ =
            write!(page, "<tr><th>efficiency</th><td>{share}: {delivered} a second of {ceiling}</td></tr>");
    }
    let _ = write!(page, "<tr><th>version</th><td>{}</td></tr></table>", escape(&report.version));
}
