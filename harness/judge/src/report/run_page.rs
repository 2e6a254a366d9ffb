use std::collections::BTreeMap;
use std::path::Path;

use super::compare::{compared, runs_of};
use super::drawing::{closeup, course, lag, lane};
use super::drawn::LANES_MAX;
use super::junit::Unjudged;
use super::page::NAMED_MAX;
use super::run::{Report, SubscriberReport};
use super::{Cell, Document, Headline, Part, Table, TimeUnit, explained, remedy, witnessed};
use crate::check::judge::DRIVER;
use crate::check::verdict::{WITNESS_ARRIVALS_MAX, moment, show};
use crate::check::witness_context::Silence;
use crate::check::{Status, Verdict, Witness};
use crate::scenario::SECOND;
use crate::scenario::quantity::Day;

const ARRIVALS_MAX: usize = 8;
const OPEN_MAX: usize = 2;

#[must_use]
pub fn html(report: &Report, baseline: &[Report]) -> String {
    super::page::page(&document(report, baseline, true))
}

/// The page of an unfinished run; `kept` is the path of its final page. After `is_full` it is not updated any
/// more.
#[must_use]
pub fn html_live(report: &Report, kept: &Path, is_full: bool) -> String {
    let runs = report.ended.is_none();
    let mut document = document(report, &[], !runs);
    if runs {
        document.facts.pop();
        document.verdict = so_far(report, is_full);
    }
    super::page::live(&document, &kept.display().to_string())
}

#[must_use]
pub fn html_awaited() -> String {
    let verdict = Headline { sentence: "no run has begun yet".to_owned(), ..Headline::default() };
    let document = Document { title: "hookproof run".to_owned(), verdict, ..Document::default() };
    super::page::live(&document, "in the folder that --out names")
}

fn so_far(report: &Report, is_full: bool) -> Headline {
    let failures = named(report, Status::Fail);
    let sentence = match failures.len() {
        0 => "no failures so far".to_owned(),
        count => format!("{count} failed so far"),
    };
    let sentence = format!("Running, {}: {sentence}", show(report.course.lasted));
    let ends = "These results cover the run until now. Checks that need its end are judged then.";
    let full = "The trace is too long by now to be read again before the end.";
    let more = std::iter::once(ends).chain(is_full.then_some(full)).map(str::to_owned).collect();
    Headline { status: (!failures.is_empty()).then_some(Status::Fail), sentence, failures, more }
}

fn named(report: &Report, status: Status) -> Vec<(String, String)> {
    let some = report.judgement.verdicts.iter().filter(|one| one.status == status);
    some.map(|one| (one.id.clone(), lead(report, one))).collect()
}

fn lead(report: &Report, verdict: &Verdict) -> String {
    let same = same_event(report, verdict).map_or(String::new(), |id| format!("the same event as {id}: "));
    let told = verdict.witness.first().map_or(verdict.sentence.clone(), witnessed);
    format!("{same}{told}")
}

/// The check before this one, with the same verdict, that names the same arrivals first.
fn same_event<'r>(report: &'r Report, verdict: &Verdict) -> Option<&'r str> {
    let arrivals = |one: &Verdict| Some(one.witness.first()?.arrivals.clone()).filter(|all| !all.is_empty());
    let own = arrivals(verdict)?;
    let before = report.judgement.verdicts.iter().take_while(|one| one.id != verdict.id);
    let mut same = before.filter(|one| one.status == verdict.status && arrivals(one).as_ref() == Some(&own));
    same.next().map(|one| one.id.as_str())
}

#[must_use]
pub fn html_unjudged(unjudged: &Unjudged) -> String {
    let more = [
        "This run proves nothing: it neither passed nor failed.",
        "A trace with one impossible line is refused as a whole: it was changed, mixed with another \
            trace, or damaged. Take the trace that the run wrote, or run the scenario again.",
    ];
    super::page::unjudged(&unjudged.subject, "hookproof check", &unjudged.why, &more)
}

fn document(report: &Report, baseline: &[Report], is_final: bool) -> Document {
    let judgement = &report.judgement;
    let is_unclear = is_final && !matches!(judgement.status, Status::Pass | Status::Fail);
    let mut parts = stories(report, "Failures", Status::Fail);
    parts.extend(stories(report, "Warnings", Status::Warn));
    let unclear = || {
        let both =
            [Status::HarnessError, Status::Inconclusive].map(|status| stories(report, "Not judged", status));
        both.into_iter().flatten()
    };
    parts.extend(is_unclear.then(unclear).into_iter().flatten());
    parts.extend(course(report));
    parts.extend(happened(report));
    parts.extend(subscribers(report));
    parts.extend(against(report, baseline));
    parts.extend((is_final && !is_unclear).then(unclear).into_iter().flatten());
    parts.extend(checks(report));
    parts.extend(lag(report));
    parts.extend(run(report));
    let verdict = Headline {
        status: Some(judgement.status),
        sentence: if is_unclear { judgement.sentence.clone() } else { counts(report) },
        failures: named(report, Status::Fail),
        more: unproven(report),
    };
    Document {
        title: report.scenario.clone(),
        about: report.about.clone(),
        facts: facts(report),
        verdict,
        parts,
    }
}

fn facts(report: &Report) -> Vec<String> {
    const DAY: u64 = 86_400 * SECOND;
    let date = match report.course.began_unix_ns {
        0 => "virtual time".to_owned(),
        began => Day(began / DAY).to_string(),
    };
    vec![format!("sender {}", report.driver), date, show(report.course.lasted)]
}

fn counts(report: &Report) -> String {
    let words = [
        (Status::Fail, "failed"),
        (Status::Warn, "warned"),
        (Status::Pass, "passed"),
        (Status::Inconclusive, "inconclusive"),
        (Status::HarnessError, "could not be judged"),
        (Status::NotApplicable, "do not apply to this scenario"),
    ];
    let verdicts = &report.judgement.verdicts;
    let counted =
        words.map(|(status, word)| (verdicts.iter().filter(|one| one.status == status).count(), word));
    let shown = counted.into_iter().filter(|(count, _)| *count > 0);
    shown.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(" · ")
}

fn unproven(report: &Report) -> Vec<String> {
    let silent = report.judgement.verdicts.iter().filter(|one| one.status == Status::NotApplicable);
    let lacking: Vec<&str> =
        silent.filter(|one| one.sentence.starts_with(DRIVER)).map(|one| one.id.as_str()).collect();
    let cut_short = report.cut_short().map(|why| format!("The run is incomplete: {why}."));
    let unclear = named(report, Status::Inconclusive);
    let further = unclear.iter().skip(NAMED_MAX).map(|(id, _)| id.as_str()).collect::<Vec<_>>().join(", ");
    let further = (!further.is_empty()).then(|| format!("Inconclusive as well: {further}."));
    let unclear = unclear.iter().take(NAMED_MAX).map(|(id, why)| format!("Inconclusive: {id}: {why}"));
    let lacking = (!lacking.is_empty()).then(|| {
        let ids = lacking.join(", ");
        format!("Not proven, because the sender or its driver file lacks the feature: {ids}.")
    });
    cut_short.into_iter().chain(unclear).chain(further).chain(lacking).collect()
}

fn stories(report: &Report, title: &str, status: Status) -> Vec<Part> {
    let some = report.judgement.verdicts.iter().filter(|one| one.status == status);
    let cards: Vec<Part> = some.map(|verdict| story(report, verdict)).collect();
    let title = (!cards.is_empty()).then(|| Part::Title(title.to_owned()));
    title.into_iter().chain(cards).collect()
}

fn story(report: &Report, verdict: &Verdict) -> Part {
    let drawn = |at: usize| {
        let mut closeups = report.course.drawn.closeups.iter();
        let drawn = closeups.find(|one| one.check == verdict.id && one.witness == at)?;
        let chart = closeup(report, drawn, verdict.status, verdict.witness.get(at)?);
        Some(Part::Chart(Box::new(chart)))
    };
    let drawn_first = usize::from(same_event(report, verdict).is_none());
    let mut parts = vec![Part::Lead(lead(report, verdict))];
    parts.extend((0..drawn_first).filter_map(drawn));
    let mend = remedy(&verdict.id);
    if matches!(verdict.status, Status::Fail | Status::Warn) && !mend.is_empty() {
        parts.push(Part::Remedy(mend.to_owned()));
    }
    let mut details = vec![Part::Text(verdict.sentence.clone())];
    details.extend(evidence(verdict));
    details.extend((drawn_first..verdict.witness.len()).filter_map(drawn));
    let summary = format!("{} in detail", verdict.id);
    parts.push(Part::Fold { status: None, summary, open: false, parts: details });
    Part::Card { status: Some(verdict.status), name: verdict.id.clone(), parts }
}

fn witness(witness: &Witness) -> String {
    let numbers: Vec<String> = witness.arrivals.iter().take(ARRIVALS_MAX).map(ToString::to_string).collect();
    // A witness names a limited number of arrivals; beyond it the total is unknown.
    let more = match witness.arrivals.len() {
        0..=ARRIVALS_MAX => String::new(),
        all if all < WITNESS_ARRIVALS_MAX => format!(" and {} more", all - ARRIVALS_MAX),
        all => format!(" and at least {} more", all - ARRIVALS_MAX),
    };
    let arrivals =
        if numbers.is_empty() { String::new() } else { format!(" (arrivals {}{more})", numbers.join(", ")) };
    format!("{}{arrivals}", witnessed(witness))
}

fn happened(report: &Report) -> Vec<Part> {
    let (drawn, unit) = (&report.course.drawn, TimeUnit::of(report.course.lasted));
    let row = |what: String, from: u64, until: Option<u64>, waiting: String, meanwhile: String| {
        let times = [Some(from), until, until.map(|until| until.saturating_sub(from))];
        let times = times.map(|t| Cell::Number(t.map_or("never".to_owned(), |t| unit.figure(t))));
        let first = [Cell::Text(what)].into_iter();
        first.chain(times).chain([Cell::Number(waiting), Cell::Text(meanwhile)]).collect::<Vec<_>>()
    };
    let silences = drawn.silences.iter().map(|one| {
        let what = format!("{} received nothing", one.subscriber);
        row(what, one.from, Some(one.until), one.waited.to_string(), meanwhile(report, one))
    });
    let breaks = drawn.breaks.iter().map(|one| {
        let heard = one.heard.map_or("no request after that".to_owned(), |t| {
            format!("the first request after that came at {}", moment(t))
        });
        row(one.what.clone(), one.from, one.until, String::new(), heard)
    });
    let rows: Vec<_> = silences.chain(breaks).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let told = "Nothing arrives in a gap, though the endpoint is healthy and deliveries without an attempt wait. \
                A recovery ends when the process is ready again.";
    let head = ["what".to_owned()].into_iter();
    let times = ["from", "until", "length"].map(|name| format!("{name} ({})", unit.name));
    let head = head.chain(times).chain(["waiting", "meanwhile"].map(str::to_owned)).collect();
    vec![
        Part::Title("Gaps and recoveries".to_owned()),
        Part::Text(told.to_owned()),
        Part::Table(Table { head, rows, searched: false }),
    ]
}

fn meanwhile(report: &Report, one: &Silence) -> String {
    let near = |from: u64| from <= one.until && from.saturating_add(one.until - one.from) >= one.from;
    let cause =
        report.course.faults.iter().rfind(|fault| near(fault.at) && fault.at <= one.from.saturating_add(1));
    let cause = cause.or_else(|| report.course.faults.iter().find(|fault| near(fault.at)));
    cause.map_or(String::new(), |fault| format!("{} at {}", fault.what, moment(fault.at)))
}

/// The worst first, and charts of the first ones.
fn subscribers(report: &Report) -> Vec<Part> {
    let drawn = &report.course.drawn;
    let all = 0..report.subscribers.len();
    let order: Vec<usize> = if drawn.order.is_empty() { all.collect() } else { drawn.order.clone() };
    let ordered: Vec<&SubscriberReport> = order.iter().filter_map(|at| report.subscribers.get(*at)).collect();
    let is_long = ordered.len() > LANES_MAX;
    let mut parts = vec![Part::Title("Subscribers".to_owned())];
    let table = Part::Table(table(&ordered, is_long));
    if is_long {
        let summary = format!("All {} subscribers, the worst first", ordered.len());
        parts.push(Part::Fold { status: None, summary, open: false, parts: vec![table] });
        parts.push(Part::Text(format!("The charts show the worst {LANES_MAX}.")));
    } else {
        parts.push(table);
    }
    let lanes = drawn.lanes.iter().filter_map(|one| Some((one, report.subscribers.get(one.subscriber)?)));
    parts.extend(lanes.map(|(drawn, one)| Part::Fold {
        status: None,
        summary: one.name.clone(),
        open: ordered.len() <= OPEN_MAX,
        parts: lane(report, drawn, one),
    }));
    parts
}

fn table(subscribers: &[&SubscriberReport], searched: bool) -> Table {
    let most = subscribers.iter().flat_map(|one| one.latency).max().unwrap_or(0);
    let unit = TimeUnit::of(most);
    let counted = ["subscriber", "contract", "arrivals", "delivered", "dead"].map(str::to_owned);
    let timed = ["p50", "p95", "p99", "longest"].map(|name| format!("{name} ({})", unit.name));
    let row = |one: &&SubscriberReport| {
        let counts = [one.arrivals, one.delivered, one.dead].map(|count| Cell::Number(count.to_string()));
        let latency = one.latency.map(|nanos| Cell::Number(unit.figure(nanos)));
        let words = [Cell::Text(one.name.clone()), Cell::Text(one.contract.clone())];
        words.into_iter().chain(counts).chain(latency).collect()
    };
    let head = counted.into_iter().chain(timed).collect();
    Table { head, rows: subscribers.iter().map(row).collect(), searched }
}

fn against(report: &Report, baseline: &[Report]) -> Vec<Part> {
    let same = runs_of(&report.scenario, baseline);
    let rows = compared(&same, &[report]);
    if rows.is_empty() {
        return Vec::new();
    }
    let cells = |row: super::compare::Compared| {
        let figures = [row.was, row.is, format!("{} to {}", row.least, row.most)].map(Cell::Number);
        let name = [Cell::Text(row.name)];
        let mark = row.better.map_or(Cell::Text("noise".to_owned()), |better| match better {
            true => Cell::Text("better".to_owned()),
            false => Cell::Text("worse".to_owned()),
        });
        name.into_iter().chain(figures).chain([mark]).collect()
    };
    let head = ["figure", "was", "is", "range of noise", "result"].map(str::to_owned).to_vec();
    let searched = rows.len() > 12 * LANES_MAX;
    let table = Table { head, rows: rows.into_iter().map(cells).collect(), searched };
    let summary = format!("Figures: {}; older runs to compare with: {}", table.rows.len(), same.len());
    let fold = Part::Fold { status: None, summary, open: !searched, parts: vec![Part::Table(table)] };
    vec![Part::Title("Comparison with the baseline".to_owned()), fold]
}

fn checks(report: &Report) -> Vec<Part> {
    let verdicts = &report.judgement.verdicts;
    let mut sections: BTreeMap<&str, Vec<&Verdict>> = BTreeMap::new();
    for one in verdicts.iter().filter(|one| one.status == Status::Pass) {
        sections.entry(one.id.split('.').next().unwrap_or_default()).or_default().push(one);
    }
    let fold = |status, summary, some: Vec<&Verdict>| {
        let parts = some.into_iter().map(|one| Part::Fold {
            status: None,
            summary: format!("{}: {}", one.id, one.sentence),
            open: false,
            parts: evidence(one),
        });
        Part::Fold { status: Some(status), summary, open: false, parts: parts.collect() }
    };
    let silent: Vec<&Verdict> = verdicts.iter().filter(|one| one.status == Status::NotApplicable).collect();
    let idle = format!("checks that do not apply to this scenario: {}", silent.len());
    let passed = sections
        .into_iter()
        .map(|(section, some)| fold(Status::Pass, format!("{section}: {}", some.len()), some));
    let mut parts: Vec<Part> = passed.collect();
    if !silent.is_empty() {
        parts.push(fold(Status::NotApplicable, idle, silent));
    }
    parts.insert(0, Part::Title("Other checks".to_owned()));
    parts
}

fn evidence(verdict: &Verdict) -> Vec<Part> {
    let mut parts = explained(&verdict.id);
    if !verdict.figures.is_empty() {
        let row =
            |one: &crate::check::Figure| vec![Cell::Text(one.name.clone()), Cell::Text(one.value.clone())];
        let rows = verdict.figures.iter().map(row).collect();
        parts.push(Part::Table(Table { rows, ..Table::default() }));
    }
    if !verdict.witness.is_empty() {
        parts.push(Part::List(verdict.witness.iter().map(witness).collect()));
    }
    parts
}

fn run(report: &Report) -> [Part; 4] {
    let (lag, speed) = (&report.generator, &report.speed);
    let mut rows = vec![
        ("seed", report.seed.to_string()),
        ("sender", report.driver.clone()),
        ("events offered", lag.events.to_string()),
        ("events not offered", lag.not_offered.to_string()),
        ("generator's lag", format!("p50 {}, p99 {}, max {}", show(lag.p50), show(lag.p99), show(lag.max))),
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
        rows.push(("efficiency", format!("{share}: {delivered}/s of {ceiling}/s")));
    }
    rows.push(("version", report.version.clone()));
    if !report.course.defaults.is_empty() {
        rows.push(("defaults judged by", report.course.defaults.join("; ")));
    }
    [
        Part::Title("The run".to_owned()),
        Part::Table(Table::pairs(rows)),
        Part::Text("Repeat it:".to_owned()),
        Part::Lines(vec![report.repeat.clone()]),
    ]
}
