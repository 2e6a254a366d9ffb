use tokio_postgres::{Error, Row};

use super::link::{Link, Value};
use super::values::{Count, int};
use super::{Result, Work};
use crate::commit::job::{Examined, JobRows, LOOKED_AT_MAX, events_text, is_of, read_events};
use crate::engine::LaneId;
use crate::job::{Job, JobId, JobState, Task};
use crate::paging::{selection, spelled};

macro_rules! jobs {
    () => {
        "SELECT job, kind, lane, ids, since, before, up_to, planned, begun_by, state, done, skipped, cursor, begun, ended,
         error, worker, until, events FROM jobs"
    };
}
const LOCKED: &str = concat!(jobs!(), " WHERE job = $1 FOR UPDATE");
const ALL: &str = concat!(jobs!(), " WHERE job = coalesce($1, job) ORDER BY job DESC");

/// Skips unreadable rows.
pub(super) fn jobs(sql: &Link, which: Option<JobId>) -> std::result::Result<Vec<Job>, Error> {
    Ok(sql.query(ALL, &[&which])?.iter().filter_map(|row| read(row).ok().flatten()).collect())
}

fn read(row: &Row) -> std::result::Result<Option<Job>, Error> {
    let Ok(events) = read_events(row.try_get(18)?) else { return Ok(None) };
    let count = |column| row.try_get::<_, Count>(column).map(|count| count.0);
    Ok(Some(Job {
        id: row.try_get(0)?,
        task: Task {
            kind: row.try_get(1)?,
            which: selection(row.try_get(2)?, row.try_get(3)?),
            since: row.try_get(4)?,
            before: row.try_get(5)?,
            events,
            last: row.try_get(6)?,
            planned: count(7)?,
            by: row.try_get::<_, &str>(8)?.into(),
        },
        state: row.try_get(9)?,
        done: count(10)?,
        skipped: count(11)?,
        cursor: row.try_get(12)?,
        begun: row.try_get(13)?,
        ended: row.try_get(14)?,
        error: row.try_get::<_, Option<&str>>(15)?.map(Into::into),
        worker: row.try_get(16)?,
        until: row.try_get(17)?,
    }))
}

impl JobRows for Work<'_> {
    /// `state` is locked, so no two jobs get one number.
    fn next_job(&mut self) -> Result<JobId> {
        let found = self.sql.first("SELECT coalesce(max(job), 0) + 1 FROM jobs", &[])?;
        Ok(found.map(|row| row.try_get(0)).transpose()?.unwrap_or(JobId(1)))
    }

    fn open_jobs(&mut self) -> Result<u64> {
        let query = "SELECT count(*) FROM jobs WHERE state IN ($1, $2)";
        let found = self.sql.first(query, &[&JobState::Running, &JobState::Paused])?;
        Ok(found.map(|row| row.try_get::<_, Count>(0)).transpose()?.unwrap_or_default().0)
    }

    fn job(&mut self, job: JobId) -> Result<Option<Job>> {
        Ok(self.sql.first(LOCKED, &[&job])?.as_ref().map(read).transpose()?.flatten())
    }

    fn put_job(&mut self, job: &Job) -> Result<()> {
        let (lane, ids) = spelled(&job.task.which);
        self.sql.execute(
            "INSERT INTO jobs
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
             $19)
             ON CONFLICT (job) DO UPDATE SET state = $10, done = $11, skipped = $12, cursor = $13, ended = $15,
             error = $16, worker = $17, until = $18",
            &[
                &job.id,
                &job.task.kind,
                &lane,
                &ids,
                &job.task.since,
                &job.task.before,
                &job.task.last,
                &int(job.task.planned),
                &&*job.task.by,
                &job.state,
                &int(job.done),
                &int(job.skipped),
                &job.cursor,
                &job.begun,
                &job.ended,
                &job.error.as_deref(),
                &job.worker,
                &job.until,
                &events_text(job.task.events.as_ref()),
            ],
        )?;
        Ok(())
    }

    fn delivered(&mut self, lane: LaneId, Job { task, cursor, .. }: &Job, max: u32) -> Result<Examined> {
        let query = "SELECT delivery, lane = $3 AND at >= $4 AND at < $5,
            CASE WHEN $7 AND lane = $3 THEN (SELECT kind FROM events WHERE event = d.event) END FROM done d
            WHERE delivery > $1 AND delivery <= $2 ORDER BY delivery LIMIT $6";
        let (max_looked_at, events) = (i64::from(LOOKED_AT_MAX), task.events.as_ref());
        let of: &[Value<'_>] =
            &[cursor, &task.last, &lane, &task.since, &task.before, &max_looked_at, &events.is_some()];
        let rows = self.sql.query(query, of)?;
        let examined = rows.iter().map(|row| {
            let wanted = row.try_get::<_, bool>(1)? && is_of(events, row.try_get(2)?);
            Ok((row.try_get(0)?, wanted))
        });
        Examined::of(examined, max)
    }

    fn forget_jobs(&mut self, kept: u64) -> Result<()> {
        let delete = "DELETE FROM jobs WHERE ended IS NOT NULL AND job <=
            (SELECT job FROM jobs WHERE ended IS NOT NULL ORDER BY job DESC LIMIT 1 OFFSET $1)";
        self.sql.execute(delete, &[&int(kept)])?;
        Ok(())
    }
}
