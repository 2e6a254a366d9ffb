use tokio_postgres::Row;

use super::address::Address;
use super::failure::failure;
use super::link::Purpose;
use super::open;
use crate::StoreError;
use crate::clock::{Fault, Start};
use crate::engine::Nanos;
use crate::finding::Finding;
use crate::units::rough;

pub(crate) const NOTHING_TO_MEND: &str =
    "is on a server, which maintains clock, log and files itself; leases of dead nodes end by themselves";

const OPEN_FOR: Nanos = Nanos::MINUTE;
/// So are transactions that hold back the cleanup of more than this many newer ones.
const BEHIND: i64 = 10_000;

/// All other open transactions in this database. Without `pg_read_all_stats` a user does not see when other users'
/// transactions began.
const OPEN: &str = "
    SELECT coalesce(nullif(application_name, ''), 'a program without a name') || ' (pid ' || pid || ', user ' || usename || ')',
        (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::int8, coalesce(state, '') LIKE 'idle%',
        greatest(age(backend_xmin), age(backend_xid))::int8 AS behind
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND usename IS NOT NULL
        AND coalesce(backend_type, 'client backend') = 'client backend'
        AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    UNION ALL
    SELECT 'prepared transaction ' || quote_literal(gid) || ' (user ' || owner || ')',
        (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::int8, true, age(transaction)::int8
    FROM pg_prepared_xacts WHERE database = current_database()
    ORDER BY behind DESC NULLS LAST";

/// Reports only a clock that is behind an earlier commit.
pub(crate) fn examine_clock(start: Start) -> Finding {
    let off = |by, what| {
        Finding::off(
            "clock",
            format!("the server's clock is {} behind the time of its last commits {what}", rough(by)),
        )
    };
    match start.fault {
        Some(Fault::Corrected(by)) => off(
            by,
            "but agrees with this machine's clock: it was ahead for a while; the next process that starts while \
             no node runs corrects the recorded times",
        ),
        Some(Fault::Kept(by)) => off(
            by,
            "and differs from this machine's clock: one of them is wrong; new processes use the time of the \
             last commits, and deliveries expire by the server's clock",
        ),
        None => Finding::well("clock"),
    }
}

pub(crate) fn examine(address: &Address) -> Result<Vec<Finding>, StoreError> {
    let doing = "look for open transactions";
    let link = open::connect(address, Purpose::Reading)?;
    let rows = link.query(OPEN, &[]).map_err(|error| failure(doing, &error))?;
    let open = rows.iter().map(OpenTransaction::of).collect::<Result<Vec<_>, _>>();
    let open = open.map_err(|error| failure(doing, &error))?;
    let long: Vec<_> = open.iter().filter(|open| open.is_long()).map(OpenTransaction::description).collect();
    let mut finding = Finding::of("transactions", &long, "transactions stay open");
    if !long.is_empty() {
        finding.detail.push_str(
            "; the server cannot remove old rows meanwhile, so tables grow, polling slows down, and other \
             sessions wait for their locks: end the transaction in its program or with \
             pg_terminate_backend(PID), a prepared one with COMMIT PREPARED or ROLLBACK PREPARED",
        );
    }
    Ok(vec![finding])
}

struct OpenTransaction {
    whose: String,
    /// `None` if this user may not see it.
    open_for: Option<Nanos>,
    is_idle: bool,
    /// The number of transactions begun since the oldest one that it can see. `None` if it holds back no cleanup.
    behind: Option<i64>,
}

impl OpenTransaction {
    fn of(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let micros: Option<i64> = row.try_get(1)?;
        let open_for = micros.map(|micros| Nanos::from_micros(u64::try_from(micros).unwrap_or(0)));
        Ok(Self { whose: row.try_get(0)?, open_for, is_idle: row.try_get(2)?, behind: row.try_get(3)? })
    }

    fn is_long(&self) -> bool {
        self.open_for.is_some_and(|length| length >= OPEN_FOR)
            || self.behind.is_some_and(|behind| behind >= BEHIND)
    }

    fn description(&self) -> String {
        let whose = &self.whose;
        let length = self.open_for.map_or_else(
            || "for an unknown time (grant pg_read_all_stats to see it)".to_owned(),
            |length| format!("for {}", rough(length)),
        );
        let idle = if self.is_idle { ", idle" } else { "" };
        match self.behind {
            Some(behind) => format!("{whose} {length}{idle}, transactions begun meanwhile: {behind}"),
            None => format!("{whose} {length}{idle}, holding locks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(open_for: Option<Nanos>, behind: Option<i64>) -> OpenTransaction {
        OpenTransaction { whose: "psql (pid 7, user me)".to_owned(), open_for, is_idle: true, behind }
    }

    #[test]
    fn a_transaction_is_long_by_the_clock_or_by_what_went_on_beside_it() {
        let just = Nanos(OPEN_FOR.0 - 1);
        assert!(!open(Some(just), Some(BEHIND - 1)).is_long());
        assert!(open(Some(OPEN_FOR), None).is_long());
        assert!(open(Some(just), Some(BEHIND)).is_long());
        assert!(open(None, Some(BEHIND)).is_long());
        assert!(!open(None, None).is_long());
    }

    #[test]
    fn unknown_details_of_a_transaction_are_omitted() {
        assert_eq!(
            open(Some(Nanos::MINUTE.times(90)), Some(12_000)).description(),
            "psql (pid 7, user me) for 90min, idle, transactions begun meanwhile: 12000"
        );
        assert_eq!(
            open(Some(Nanos::MINUTE.times(90)), None).description(),
            "psql (pid 7, user me) for 90min, idle, holding locks"
        );
        let told = open(None, Some(12_000)).description();
        assert!(told.contains("for an unknown time (grant pg_read_all_stats to see it)"), "{told}");
    }
}
