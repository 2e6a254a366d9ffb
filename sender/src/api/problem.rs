//! Refusals: a status, and `{"error": {"code", "message", "field"}}`.

use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tracing::error;

use crate::event;
use crate::event::json::JsonError;
use crate::guard::TargetError;
use crate::runtime::{EmitError, Failed};
use crate::sign::SecretError;
use crate::store::read::ReadError;
use crate::store::reply::Refusal;
use crate::store::thread::Why;
use crate::store::{Reply, StoreError};
use crate::subscriber::SettingsError;
use crate::tls_files::TlsFileError;

/// The store's queue empties in about that time.
const BUSY_SECS: u32 = 1;
/// The backlog falls at the contract's rate.
pub(super) const FULL_SECS: u32 = 5;
/// An operator must act.
const STORE_SECS: u32 = 5;

#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    retry_after_secs: Option<u32>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), field: None, retry_after_secs: None }
    }

    pub(super) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(super) fn unprocessable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    pub(super) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    pub(super) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(super) fn restricted(why: &str) -> Self {
        let message = format!(
            "the token is restricted to some subscribers; this request needs one that is not, because {why}"
        );
        Self::new(StatusCode::FORBIDDEN, "restricted_token", message).field("authorization")
    }

    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", message).retry_after(BUSY_SECS)
    }

    pub(super) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(STORE_SECS)
    }

    /// Reports a defect.
    pub(super) fn unexpected(doing: &'static str, reply: &Reply) -> Self {
        error!(doing, ?reply, "the database gave an unexpected answer");
        let message = format!(
            "could not {doing}: the database gave an unexpected answer; this is a defect of the sender: report it with the log"
        );
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", message)
    }

    pub(super) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub(super) fn about(mut self, subscriber: &str) -> Self {
        self.message = format!("{}; the first of them is {subscriber:?}", self.message);
        self
    }

    pub(super) const fn retry_after(mut self, secs: u32) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) const fn retry_after_secs(&self) -> Option<u32> {
        self.retry_after_secs
    }

    pub(super) fn value(&self) -> Value {
        json!({ "code": self.code, "message": self.message, "field": self.field })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = answer(self.status, &json!({ "error": self.value() }));
        if let Some(secs) = self.retry_after_secs {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        response
    }
}

pub(super) fn answer(status: StatusCode, value: &impl Display) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (status, kind, value.to_string()).into_response()
}

pub(super) fn ok(value: &Value) -> Response {
    answer(StatusCode::OK, value)
}

impl From<event::Refusal> for Problem {
    fn from(refusal: event::Refusal) -> Self {
        use event::Refusal::{BatchEmpty, BatchTooLarge, BatchTooMany, EventTooLarge, Json};
        let status = match &refusal {
            EventTooLarge { .. } | BatchTooLarge { .. } | BatchTooMany { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Json(JsonError::NotUtf8 { .. } | JsonError::Syntax { .. }) | BatchEmpty => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let field = refusal.field().map(str::to_owned);
        Self { field, ..Self::new(status, refusal.code(), refusal.to_string()) }
    }
}

impl From<EmitError> for Problem {
    fn from(error: EmitError) -> Self {
        let message = error.to_string();
        match error {
            EmitError::Offer(refusal) => refusal.into(),
            EmitError::NeverFits(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large_for_subscriber", message).field("data")
            }
            EmitError::Full(_) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "full", message).retry_after(FULL_SECS)
            }
            EmitError::Broken { .. } => Self::unavailable("broken_subscriber", message),
            EmitError::Busy => Self::busy(message),
            EmitError::Store(_) => Self::unavailable("store", message),
        }
    }
}

impl From<Failed> for Problem {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Store(error) => error.into(),
            Failed::TurnedAway(Why::Full) => Self::busy(failed.to_string()),
            Failed::TurnedAway(Why::DiskFull) => Self::unavailable("store", failed.to_string()),
            Failed::TurnedAway(Why::Stopped) | Failed::Stopped => {
                Self::unavailable("stopping", failed.to_string())
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::Overloaded { .. }) {
            let busy = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", error.to_string());
            return busy.retry_after(BUSY_SECS);
        }
        error!(%error, "reading the database failed");
        Self::unavailable("store", error.to_string())
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cursor(bad) => Self::bad_request("bad_cursor", bad.to_string()).field("cursor"),
            ReadError::Store(error) => error.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::UnknownLane(_) => Self::not_found("unknown_subscriber", message),
            Refusal::UnknownNode(_) => Self::not_found("unknown_node", message),
            Refusal::NameTaken(_) => Self::conflict("name_taken", message).field("name"),
            Refusal::IdTaken(_) => Self::conflict("id_taken", message),
            Refusal::VersionConflict { .. } => Self::conflict("changed_meanwhile", message).field("version"),
            Refusal::TooManySecrets { .. } => Self::conflict("too_many_secrets", message),
            Refusal::Full(_) | Refusal::NoRoom(_) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "full", message).retry_after(FULL_SECS)
            }
            Refusal::StaleRoster { .. }
            | Refusal::OutboxTaken(_)
            | Refusal::OutboxNamed(_)
            | Refusal::Notified(_)
            | Refusal::StaleTerm { .. } => Self::busy(message),
            Refusal::LogFull { .. } | Refusal::DiskFull => Self::unavailable("store", message),
            Refusal::UnknownDelivery(_) => Self::not_found("unknown_delivery", message),
            Refusal::Pending => Self::conflict("pending", message),
            Refusal::Replaced => Self::conflict("replaced", message),
            Refusal::BodyGone => Self::new(StatusCode::GONE, "body_gone", message),
            Refusal::NotWaiting(_) => Self::conflict("not_waiting", message),
            Refusal::TooManyIds(_) => Self::unprocessable("bad_ids", message).field("ids"),
            Refusal::TooManyJobs => Self::conflict("too_many_jobs", message),
            Refusal::UnknownJob(_) => Self::not_found("unknown_job", message),
            Refusal::JobOver(_) => Self::conflict("job_over", message),
            Refusal::TokenTaken(_) => Self::conflict("name_taken", message).field("name"),
            Refusal::TooManyTokens => Self::conflict("too_many_tokens", message),
            Refusal::UnknownToken(_) => Self::not_found("unknown_token", message),
            Refusal::NotActive(_) => Self::conflict("not_active", message),
            Refusal::Nonsense(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", message),
        }
    }
}

impl From<SettingsError> for Problem {
    fn from(error: SettingsError) -> Self {
        let field = error.field().map(str::to_owned);
        Self { field, ..Self::unprocessable(error.code(), error.to_string()) }
    }
}

impl From<TlsFileError> for Problem {
    fn from(error: TlsFileError) -> Self {
        Self::unprocessable("bad_tls_file", error.to_string()).field(error.file.setting)
    }
}

impl From<TargetError> for Problem {
    fn from(error: TargetError) -> Self {
        Self::unprocessable(error.code(), error.to_string()).field("url")
    }
}

impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        Self::unprocessable("bad_secret", error.to_string()).field("secret")
    }
}
