//! `dead analyse`: what dead letters have in common, and what that points to.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::json;

use super::{name_of, names};
use crate::cli::desk::Look;
use crate::cli::failure::Failure;
use crate::cli::options::Common;
use crate::cli::print::{Printer, Table};
use crate::cli::words::{moment, reason};
use crate::engine::{LaneId, Nanos, WallTime};
use crate::store::command::Reason;
use crate::store::read::{DeadGroup, Reader};

/// Groups by the hour looked at.
const GROUPS_MAX: u32 = 10_000;
/// A trickle over so many hours is no incident.
const TRICKLE_HOURS: usize = 6;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hookproof-sender dead analyse --db sender.db
  hookproof-sender dead analyse --db sender.db --since 1h --json")]
pub(in crate::cli) struct Analyse {
    /// How far to look back
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: Nanos,
}

/// Dead letters of one subscriber that died of the same.
struct Cluster {
    rows: u64,
    attempts: u64,
    hours: BTreeSet<WallTime>,
    first: WallTime,
    last: WallTime,
}

type Cause = (LaneId, Reason, Option<u16>, Option<Box<str>>);

impl Analyse {
    pub(in crate::cli) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let look = Look::open(common.existing_database()?)?;
        let since = WallTime(look.now.0.saturating_sub(self.since.0));
        let groups = look.reader.dead_groups(since, GROUPS_MAX)?;
        let names = names(&look)?;
        let headings = &[
            ">ROWS",
            "SUBSCRIBER",
            "REASON",
            ">STATUS",
            ">TRIES EACH",
            "FIRST",
            "LAST",
            "POINTS TO",
            "ERROR",
        ];
        let mut table = Table::new(headings);
        for ((lane, why, status, error), cluster) in clusters(groups) {
            let (name, hint) = (name_of(&names, lane), hint(why, status, cluster.hours.len()));
            let tries = cluster.attempts / cluster.rows.max(1);
            if printer.json {
                printer.object(&json!({
                    "rows": cluster.rows, "subscriber": name, "reason": reason(why), "status": status,
                    "error": error, "attempts": cluster.attempts, "hours": cluster.hours.len(),
                    "first": moment(cluster.first), "last": moment(cluster.last), "points_to": hint,
                }))?;
                continue;
            }
            table.row([
                cluster.rows.to_string(),
                name,
                reason(why).to_owned(),
                status.map_or_else(String::new, |status| status.to_string()),
                tries.to_string(),
                moment(cluster.first),
                moment(cluster.last),
                hint.to_owned(),
                error.as_deref().unwrap_or_default().to_owned(),
            ]);
        }
        if printer.json {
            return Ok(());
        }
        printer.table(&table, &format!("no dead letters in the last {}", self.since))
    }
}

/// The same without the hours, the largest first.
fn clusters(groups: Vec<DeadGroup>) -> Vec<(Cause, Cluster)> {
    let mut clusters: BTreeMap<Cause, Cluster> = BTreeMap::new();
    for group in groups {
        let DeadGroup { first, last, .. } = group;
        let cause = (group.lane, group.reason, group.status, group.error);
        let empty = Cluster { rows: 0, attempts: 0, hours: BTreeSet::new(), first, last };
        let cluster = clusters.entry(cause).or_insert(empty);
        cluster.rows += group.rows;
        cluster.attempts += group.attempts;
        cluster.hours.insert(group.hour);
        cluster.first = cluster.first.min(first);
        cluster.last = cluster.last.max(last);
    }
    let mut clusters: Vec<_> = clusters.into_iter().collect();
    clusters.sort_by_key(|(_, cluster)| std::cmp::Reverse(cluster.rows));
    clusters
}

/// What an operator should look at first.
const fn hint(reason: Reason, status: Option<u16>, hours: usize) -> &'static str {
    match (reason, status) {
        (Reason::Gone, _) => "removed, or the endpoint answered 410",
        (Reason::Overflow, _) => "its queue overflowed: raise its rate, or its queue",
        (_, Some(401 | 403)) => "rotated or wrong credentials",
        (_, Some(404 | 405)) => "a wrong URL",
        (_, Some(413)) => "bodies larger than the endpoint takes",
        (_, Some(429)) => "over the endpoint's own limit: lower the rate",
        (_, Some(400..=499)) => "the endpoint refuses these events",
        (_, Some(300..=399)) => "a redirect: set the URL that it leads to",
        (_, Some(500..=599)) if hours >= TRICKLE_HOURS => "an endpoint that fails now and then, for hours",
        (_, Some(500..=599)) => "an outage of the endpoint",
        (Reason::Expired, None) => "backlog older than its time to live: raise its rate",
        (Reason::Exhausted | Reason::Expired, _) => "unreachable: DNS, network, TLS or a timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_one_cause_make_one_cluster() {
        let group = |lane, hour: u64, rows| DeadGroup {
            lane: LaneId(lane),
            reason: Reason::Exhausted,
            status: Some(503),
            error: None,
            hour: WallTime::from_secs(hour * 3_600),
            rows,
            attempts: rows * 12,
            first: WallTime::from_secs(hour * 3_600 + 1),
            last: WallTime::from_secs(hour * 3_600 + 9),
        };
        let found = clusters(vec![group(1, 5, 3), group(2, 5, 6), group(1, 7, 4)]);
        let figures: Vec<_> =
            found.iter().map(|((lane, ..), it)| (lane.0, it.rows, it.attempts, it.hours.len())).collect();
        assert_eq!(figures, [(1, 7, 84, 2), (2, 6, 72, 1)]);
        assert_eq!(
            (found[0].1.first, found[0].1.last),
            (WallTime::from_secs(18_001), WallTime::from_secs(25_209))
        );
    }
}
