use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::failure::Failure;
use super::options::Common;
use super::print::{Printer, Table, moment};
use super::session::{Look, PAGE_ROWS, each};
use crate::engine::{DeliveryId, LaneId, Nanos, StoreTime};
use crate::operate::json_forms::{self, Limit};
use crate::operate::sample::{Sample, TOO_HIGH_PERMILLE};
use crate::store::read::AuditSecond;
use crate::subscriber::SettingsText;

const ROWS_MAX: u32 = 10_000;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof sender audit --db sender.db --per second --since 10min
  hookproof sender audit --db sender.db --per minute --subscriber shop --since 1d
  hookproof sender audit --db sender.db --over --json      (spans over the contract: expected to be empty)
  hookproof sender audit --db sender.db --latencies --subscriber shop --since 1d

MAY is the number of attempts that the subscriber's present limits allow to start in one such span: burst + rate, or the window
caps. Spans without an attempt are left out. If a limit was lowered since, earlier spans can exceed MAY.

--latencies reads each recorded attempt (`serve --keep-attempts`). Percentiles of up to 100,000 attempts are exact. Beyond that
they come from a histogram with three significant digits, and are at most 0.1 % too high. The output says so.
If the delivery of an attempt is deleted already, only its answer time counts.")]
pub(super) struct Audit {
    /// The span to count by
    #[arg(long, value_enum, value_name = "SPAN", default_value = "second")]
    per: Span,
    /// Only this subscriber, by its name or id
    #[arg(long, value_name = "NAME")]
    subscriber: Option<String>,
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "1h")]
    since: Nanos,
    /// Only spans with more attempts than the contract allows
    #[arg(long)]
    over: bool,
    /// Instead: how long answers took, and how long it was from emit to the first attempt and to success, in
    /// percentiles
    #[arg(long, conflicts_with_all = ["per", "over"])]
    latencies: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Span {
    Second,
    Minute,
}

impl Span {
    const fn length(self) -> Nanos {
        match self {
            Self::Second => Nanos::SECOND,
            Self::Minute => Nanos::MINUTE,
        }
    }
}

struct Counted {
    begin: StoreTime,
    lane: LaneId,
    attempts: u64,
    limited: u64,
}

impl Audit {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<ExitCode, Failure> {
        let look = Look::open(&common.existing_database()?)?;
        let lane =
            self.subscriber.as_deref().map(|name| look.subscriber(name)).transpose()?.map(|found| found.lane);
        if self.latencies {
            return self.latencies(&look, lane, printer);
        }
        let most = self.most(&look)?;
        let mut table = Table::new(&["BEGIN", "SUBSCRIBER", ">ATTEMPTS", ">MAY", ">ANSWERED 429", ""]);
        self.each_span(&look, lane, |span| {
            let found = most.get(&span.lane);
            let name = found.map_or_else(|| format!("removed ({})", span.lane.0), |(name, _)| name.clone());
            let may = found.and_then(|(_, may)| *may);
            let over = may.is_some_and(|may| span.attempts > may);
            if self.over && !over {
                return Ok(true);
            }
            if printer.json {
                let counted = (span.attempts, span.limited);
                printer.object(&json_forms::audit(span.begin, Some(&name), counted, may))?;
            } else {
                table.row([
                    moment(span.begin),
                    name,
                    span.attempts.to_string(),
                    may.map_or_else(String::new, |may| may.to_string()),
                    span.limited.to_string(),
                    if over { "over".to_owned() } else { " ".to_owned() },
                ]);
            }
            Ok(!printer.is_closed())
        })?;
        if !printer.json {
            printer.table(
                &table,
                &format!("no attempts{} in the last {}", if self.over { " over" } else { "" }, self.since),
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn latencies(
        &self,
        look: &Look,
        lane: Option<LaneId>,
        printer: &mut Printer,
    ) -> Result<ExitCode, Failure> {
        let from = StoreTime(look.now.0.saturating_sub(self.since.0));
        let [mut answer, mut first_attempt, mut delivery] = [const { Sample::new() }; 3];
        let mut next = Some((from, DeliveryId(0)));
        while let Some(from) = next {
            // Otherwise a busy sender would keep it running.
            let page = look.reader.attempt_times(lane, from, look.now, ROWS_MAX)?;
            for attempt in page.attempts {
                attempt.answer.into_iter().for_each(|took| answer.add(took));
                attempt.first_attempt.into_iter().for_each(|took| first_attempt.add(took));
                attempt.delivery.into_iter().for_each(|took| delivery.add(took));
            }
            next = page.next;
        }
        if printer.json {
            printer.object(&json!({
                "subscriber": self.subscriber,
                "from": moment(from),
                "until": moment(look.now),
                "latency": answer.percentiles_json(),
                "first_attempt": first_attempt.percentiles_json(),
                "delivery": delivery.percentiles_json(),
            }))?;
        } else {
            let mut table = Table::new(&["MEASURE", ">SAMPLES", ">P50", ">P95", ">P99", "ERROR"]);
            add_row(&mut table, "answer", &mut answer);
            add_row(&mut table, "emit to first attempt", &mut first_attempt);
            add_row(&mut table, "emit to delivered", &mut delivery);
            printer.table(&table, &format!("no attempts in the last {}", self.since))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn most(&self, look: &Look) -> Result<BTreeMap<LaneId, (String, Option<u64>)>, Failure> {
        let mut most = BTreeMap::new();
        each(
            |from| look.reader.subscribers(from, PAGE_ROWS),
            |subscriber| {
                let settings = SettingsText::from_json(&subscriber.settings).ok().map(|text| text.shown());
                let may = settings.and_then(|settings| settings.limit).and_then(|limit| {
                    let (rate, windows) = (limit.rate?, limit.windows.unwrap_or_default());
                    let caps = windows.iter().map(|cap| (cap.count(), cap.length())).collect();
                    let limit = Limit { count: rate.count(), per: rate.per(), burst: limit.burst?, caps };
                    Some(limit.most_in(self.per.length()))
                });
                most.insert(subscriber.lane, (subscriber.name.to_string(), may));
                Ok(true)
            },
        )?;
        Ok(most)
    }

    /// Stops when `take` returns false.
    fn each_span(
        &self,
        look: &Look,
        lane: Option<LaneId>,
        mut take: impl FnMut(Counted) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let length = self.per.length().0 / Nanos::SECOND.0;
        let mut open: BTreeMap<LaneId, (u64, u64)> = BTreeMap::new();
        let mut current = 0;
        let mut close = |open: &mut BTreeMap<LaneId, (u64, u64)>, current: u64| {
            for (lane, (attempts, limited)) in std::mem::take(open) {
                if !take(Counted { begin: StoreTime::from_secs(current * length), lane, attempts, limited })?
                {
                    return Ok::<_, Failure>(false);
                }
            }
            Ok(true)
        };
        let mut from = StoreTime(look.now.0.saturating_sub(self.since.0));
        let mut most = ROWS_MAX;
        loop {
            let rows = look.reader.audit(lane, from, StoreTime(u64::MAX), most)?;
            let is_last = u32::try_from(rows.len()).is_ok_and(|rows| rows < most);
            let whole = whole_seconds(&rows, is_last);
            if whole.is_empty() && !is_last {
                // The page ends within one second, which has at most one row for each lane.
                most = most.saturating_mul(2);
                continue;
            }
            for row in whole {
                if row.second / length != current {
                    if !close(&mut open, current)? {
                        return Ok(());
                    }
                    current = row.second / length;
                }
                let span = open.entry(row.lane).or_default();
                *span = (span.0 + row.attempts, span.1 + row.limited);
            }
            match whole.last() {
                Some(last) if !is_last => from = StoreTime::from_secs(last.second + 1),
                _ => break,
            }
        }
        close(&mut open, current).map(drop)
    }
}

/// Whole microseconds keep exact values exact.
fn add_row(table: &mut Table, measure: &str, sample: &mut Sample) {
    let Some(found) = sample.percentiles() else { return };
    let [p50, p95, p99] = [found.p50, found.p95, found.p99].map(|length| format!("{}us", length.0 / 1_000));
    let (percent, rest) = (TOO_HIGH_PERMILLE / 10, TOO_HIGH_PERMILLE % 10);
    let error =
        if sample.is_exact() { "exact".to_owned() } else { format!("at most {percent}.{rest} % too high") };
    table.row([measure.to_owned(), found.samples.to_string(), p50, p95, p99, error]);
}

/// Omits the last second, which may continue on the next page.
fn whole_seconds(rows: &[AuditSecond], is_last: bool) -> &[AuditSecond] {
    let Some(last) = rows.last().filter(|_| !is_last) else { return rows };
    &rows[..rows.partition_point(|row| row.second < last.second)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_that_goes_on_is_left_for_the_next_page() {
        let row = |second| AuditSecond { lane: LaneId(1), second, attempts: 1, limited: 0 };
        assert_eq!(whole_seconds(&[row(1), row(2), row(2)], false), [row(1)]);
        assert_eq!(whole_seconds(&[row(1), row(2), row(2)], true), [row(1), row(2), row(2)]);
        assert_eq!(whole_seconds(&[row(2), row(2)], false), []);
        assert_eq!(whole_seconds(&[], false), []);
    }
}
