use clap::Subcommand;
use serde_json::{Value, json};

use super::failure::Failure;
use super::options::{Common, Reach, operating};
use super::print::{Printer, Table, moment};
use super::session::{Look, WriteSession, name_of, names, with_session};
use crate::engine::Nanos;
use crate::operate::jobs::{in_words, to_json};
use crate::runtime::clock::rest;
use crate::store::job::{JobId, JobState, SetJob, Task};
use crate::store::{Command, Refusal, Reply, job};

const LOOK_EVERY: Nanos = Nanos::from_millis(50);

#[derive(Subcommand, Debug)]
pub(super) enum Job {
    /// Show jobs, the newest first
    #[command(after_help = "Example:\n  hookproof sender job list --db sender.db")]
    List,
    /// Show a job
    #[command(after_help = "Example:\n  hookproof sender job show --db sender.db 7")]
    Show { job: u64 },
    /// Pause a job
    #[command(after_help = "Example:\n  hookproof sender job pause --db sender.db 7")]
    Pause { job: u64 },
    /// Resume a paused job
    #[command(after_help = "\
Example:
  hookproof sender job resume --db sender.db 7

A `serve` or `drain` works at it.")]
    Resume { job: u64 },
    /// Cancel a job; finished steps stay
    #[command(after_help = "Example:\n  hookproof sender job cancel --db sender.db 7")]
    Cancel { job: u64 },
}

impl Job {
    pub(super) fn run(self, common: &Common, printer: &mut Printer) -> Result<(), Failure> {
        let (job, state) = match self {
            Self::List => return list(common, printer),
            Self::Show { job } => (job, None),
            Self::Pause { job } => (job, Some(JobState::Paused)),
            Self::Resume { job } => (job, Some(JobState::Running)),
            Self::Cancel { job } => (job, Some(JobState::Cancelled)),
        };
        let job = JobId(i64::try_from(job).map_or(0, i64::cast_unsigned));
        let look = Look::open(&common.existing_database()?)?;
        let found = match state {
            None => look.reader.jobs(Some(job))?.pop().ok_or(Refusal::UnknownJob(job))?,
            Some(state) => {
                let options = operating(common.existing_database()?, &Reach::default(), None)?;
                let set = Command::SetJob(SetJob { job, state, error: None });
                job_of(with_session(options, |session| session.change(set))?)?
            }
        };
        let name = found.lane().map(|lane| Ok::<_, Failure>(name_of(&names(&look)?, lane))).transpose()?;
        if printer.json {
            return printer.object(&shown(&found, name.as_deref()));
        }
        let text = |text: &str| text.to_owned();
        let rows = [
            ("job", text(&found.id.0.to_string())),
            ("kind", text(found.task.kind.name())),
            ("subscriber", name.unwrap_or_default()),
            ("events", found.task.events.as_ref().map_or_else(String::new, in_words)),
            ("state", text(found.state.name())),
            ("done", format!("{} of {}, skipped: {}", found.done, found.task.planned, found.skipped)),
            ("begun", format!("{} by {}", moment(found.begun), found.task.by)),
            ("ended", found.ended.map(moment).unwrap_or_default()),
            ("error", text(found.error.as_deref().unwrap_or_default())),
        ];
        printer.pairs(&rows.map(|(label, value)| (label.to_owned(), value)))
    }
}

fn shown(job: &job::Job, name: Option<&str>) -> Value {
    let mut shown = to_json(job, None);
    shown["subscriber"] = json!(name);
    shown
}

fn job_of(reply: Reply) -> Result<job::Job, Failure> {
    match reply {
        Reply::Job(job) => Ok(*job),
        Reply::Refused(refusal) => Err(refusal.into()),
        other => Err(Failure::ours(format_args!("the database answered {other:?}"))),
    }
}

fn list(common: &Common, printer: &mut Printer) -> Result<(), Failure> {
    let look = Look::open(&common.existing_database()?)?;
    let names = names(&look)?;
    let mut table =
        Table::new(&[">JOB", "KIND", "SUBSCRIBER", "STATE", ">DONE", ">SKIPPED", ">PLANNED", "BEGUN", "BY"]);
    for job in look.reader.jobs(None)? {
        let name = job.lane().map(|lane| name_of(&names, lane));
        if printer.json {
            printer.object(&shown(&job, name.as_deref()))?;
        } else {
            table.row([
                job.id.0.to_string(),
                job.task.kind.name().to_owned(),
                name.unwrap_or_default(),
                job.state.name().to_owned(),
                job.done.to_string(),
                job.skipped.to_string(),
                job.task.planned.to_string(),
                moment(job.begun),
                job.task.by.to_string(),
            ]);
        }
    }
    if printer.json { Ok(()) } else { printer.table(&table, "no jobs") }
}

/// Starts a job and follows it, until it ends or waits for room. This process works at it; a `serve` or `drain` goes on.
pub(super) fn carry_out(
    session: &WriteSession,
    task: Task,
    name: Option<&str>,
    printer: &mut Printer,
) -> Result<job::Job, Failure> {
    let mut job = job_of(session.wait(session.sender().start_job(task))?)?;
    let id = job.id;
    eprintln!("job {} runs; `job cancel {}` ends it", id.0, id.0);
    while job.state == JobState::Running {
        session.wait(rest(LOOK_EVERY));
        if let Some(what) = session.sender().broken_part() {
            return Err(Failure::ours(what));
        }
        let found = session.wait(session.sender().read(move |reader| reader.jobs(Some(id))))??;
        let found = found.into_iter().next().ok_or(Refusal::UnknownJob(id))?;
        let stands = found.stands_since(&job);
        job = found;
        if stands {
            eprintln!("job {} waits for room in the queue; a `serve` or `drain` goes on with it", id.0);
            break;
        }
    }
    if printer.json {
        printer.object(&shown(&job, name))?;
    } else {
        let (kind, state, done, planned) =
            (job.task.kind.name(), job.state.name(), job.done, job.task.planned);
        printer.line(format_args!("{kind} {state}: {done} of {planned}"))?;
    }
    match (job.state, &job.error) {
        (JobState::Failed, Some(error)) => Err(Failure::refused(error)),
        (JobState::Cancelled, _) => Err(Failure::refused("the job was cancelled")),
        _ => Ok(job),
    }
}
