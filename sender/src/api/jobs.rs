use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::App;
use super::input::{Query, Segment, nothing_left, object_or_nothing};
use super::problem::{Problem, answer, ok};
use super::token::Caller;
use crate::excerpt::Excerpt;
use crate::operate::jobs::to_json;
use crate::store::job::{Job, JobId, JobState, SetJob, Task};
use crate::store::read::Lanes;
use crate::store::{Command, Reply};

pub(super) async fn start(app: &App, task: Task) -> Result<Response, Problem> {
    let job = job_of("start a job", app.sender().start_job(task).await?)?;
    Ok(answer(StatusCode::ACCEPTED, &shown(app, &job)))
}

fn job_of(doing: &'static str, reply: Reply) -> Result<Job, Problem> {
    match reply {
        Reply::Job(job) => Ok(*job),
        Reply::Refused(refusal) => Err(refusal.into()),
        other => Err(Problem::unexpected(doing, &other)),
    }
}

fn shown(app: &App, job: &Job) -> Value {
    let roster = app.sender().roster();
    let subscriber = job.lane().and_then(|lane| roster.get(lane));
    to_json(job, subscriber.map(|known| &**known.id()))
}

/// `GET /v1/jobs`
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    let jobs = app.sender().read(|reader| reader.jobs(None)).await??;
    let seen = seen(&app, &caller, jobs);
    let items: Vec<_> = seen.iter().map(|job| shown(&app, job)).collect();
    Ok(ok(&json!({ "items": items })))
}

/// `GET /v1/jobs/{id}`
pub(super) async fn show(
    State(app): State<App>,
    Segment(id): Segment,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Response, Problem> {
    Query::read(uri.query(), &[])?;
    Ok(ok(&shown(&app, &find(&app, &caller, &id).await?)))
}

fn seen(app: &App, caller: &Caller, mut jobs: Vec<Job>) -> Vec<Job> {
    let lanes = caller.lanes(&app.sender().roster());
    jobs.retain(|job| lanes == Lanes::All || job.lane().is_some_and(|lane| lanes.have(lane)));
    jobs
}

async fn find(app: &App, caller: &Caller, id: &str) -> Result<Job, Problem> {
    let number = id.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
    let job = number.map(JobId).ok_or_else(|| unknown(id))?;
    let found = app.sender().read(move |reader| reader.jobs(Some(job))).await??;
    seen(app, caller, found).pop().ok_or_else(|| unknown(id))
}

/// `POST /v1/jobs/{id}/pause`, `/resume` and `/cancel`
pub(super) async fn set(
    State(app): State<App>,
    Segment(id): Segment,
    Extension(caller): Extension<Caller>,
    request: Request,
    state: JobState,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    nothing_left(&object_or_nothing(request).await?, &["no fields"])?;
    let set = SetJob { job: find(&app, &caller, &id).await?.id, state, error: None };
    let reply = app.sender().command(caller.makes(Command::SetJob(set))).await?;
    Ok(ok(&shown(&app, &job_of("change a job", reply)?)))
}

fn unknown(id: &str) -> Problem {
    let message = format!("there is no job {}; only the newest are kept", Excerpt::of(id));
    Problem::not_found("unknown_job", message)
}
