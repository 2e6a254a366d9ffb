use rusqlite::{Connection, Error, Result, Row, params};

use super::Work;
use super::values::int;
use crate::commit::job::{Examined, JobRows, LOOKED_AT_MAX, events_text, is_of, read_events};
use crate::engine::LaneId;
use crate::job::{Job, JobId, JobState, Task};
use crate::paging::{selection, spelled};

const JOBS: &str =
    "SELECT job, kind, lane, ids, since, before, up_to, planned, begun_by, state, done, skipped, cursor, begun,
    ended, error, worker, until, events FROM jobs WHERE job = coalesce(?1, job) ORDER BY job DESC";

/// Skips unreadable rows.
pub(super) fn jobs(sql: &Connection, which: Option<JobId>) -> Result<Vec<Job>> {
    let read = |row: &Row<'_>| -> Result<Job> {
        let events = row.get::<_, Option<String>>(18)?;
        Ok(Job {
            id: row.get(0)?,
            task: Task {
                kind: row.get(1)?,
                which: selection(row.get(2)?, row.get::<_, Option<String>>(3)?.as_deref()),
                since: row.get(4)?,
                before: row.get(5)?,
                events: read_events(events.as_deref()).map_err(|_| Error::InvalidQuery)?,
                last: row.get(6)?,
                planned: row.get(7)?,
                by: row.get(8)?,
            },
            state: row.get(9)?,
            done: row.get(10)?,
            skipped: row.get(11)?,
            cursor: row.get(12)?,
            begun: row.get(13)?,
            ended: row.get(14)?,
            error: row.get(15)?,
            worker: row.get(16)?,
            until: row.get(17)?,
        })
    };
    let mut query = sql.prepare_cached(JOBS)?;
    let jobs = query.query_map([which], |row| Ok(read(row).ok()))?;
    jobs.filter_map(Result::transpose).collect()
}

impl JobRows for Work<'_> {
    fn next_job(&mut self) -> Result<JobId> {
        self.sql.prepare_cached("SELECT coalesce(max(job), 0) + 1 FROM jobs")?.query_row([], |row| row.get(0))
    }

    fn open_jobs(&mut self) -> Result<u64> {
        self.sql
            .prepare_cached("SELECT count(*) FROM jobs WHERE state IN (?1, ?2)")?
            .query_row([JobState::Running, JobState::Paused], |row| row.get(0))
    }

    fn job(&mut self, job: JobId) -> Result<Option<Job>> {
        Ok(jobs(self.sql, Some(job))?.pop())
    }

    fn put_job(&mut self, job: &Job) -> Result<()> {
        let (lane, ids) = spelled(&job.task.which);
        self.sql
            .prepare_cached(
                "INSERT INTO jobs
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
                 ?19)
                 ON CONFLICT (job) DO UPDATE SET state = ?10, done = ?11, skipped = ?12, cursor = ?13, ended = ?15,
                 error = ?16, worker = ?17, until = ?18",
            )?
            .execute(params![
                job.id,
                job.task.kind,
                lane,
                ids,
                job.task.since,
                job.task.before,
                job.task.last,
                int(job.task.planned),
                job.task.by,
                job.state,
                int(job.done),
                int(job.skipped),
                job.cursor,
                job.begun,
                job.ended,
                job.error,
                job.worker,
                job.until,
                events_text(job.task.events.as_ref()),
            ])
            .map(drop)
    }

    fn delivered(&mut self, lane: LaneId, Job { task, cursor, .. }: &Job, max: u32) -> Result<Examined> {
        let mut query = self.sql.prepare_cached(
            "SELECT delivery, lane = ?3 AND state = 1 AND at >= ?4 AND at < ?5,
             CASE WHEN ?7 AND lane = ?3 THEN (SELECT kind FROM events WHERE event = d.event) END FROM deliveries d
             WHERE delivery > ?1 AND delivery <= ?2 ORDER BY delivery LIMIT ?6",
        )?;
        let events = task.events.as_ref();
        let of = params![cursor, task.last, lane, task.since, task.before, LOOKED_AT_MAX, events.is_some()];
        let rows = query.query_map(of, |row| {
            let kind: Option<String> = row.get(2)?;
            Ok((row.get(0)?, row.get(1)? && is_of(events, kind.as_deref())))
        })?;
        Examined::of(rows, max)
    }

    fn forget_jobs(&mut self, kept: u64) -> Result<()> {
        self.sql
            .prepare_cached(
                "DELETE FROM jobs WHERE ended IS NOT NULL AND job <=
                 (SELECT job FROM jobs WHERE ended IS NOT NULL ORDER BY job DESC LIMIT 1 OFFSET ?1)",
            )?
            .execute([int(kept)])
            .map(drop)
    }
}
