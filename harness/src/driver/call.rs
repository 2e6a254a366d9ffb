//! One call: from the templates of the driver file to a request, and the check of its answer's status.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::answers;
use super::client::{Call, Reply};
use super::error::ApiError;
use super::redactor::Redactor;
use super::template::{Lookup, Template, TemplateError, encoded};

/// The default time limit of a call.
pub(super) const CALL_WITHIN: Duration = Duration::from_secs(30);

/// The content of a call.
pub(super) enum Content {
    None,
    /// A body: JSON, unless a header says otherwise.
    Body(String),
    Form(String),
}

impl Content {
    pub(super) fn fill(
        body: Option<&Template>,
        form: &BTreeMap<String, Template>,
        variables: &impl Lookup,
    ) -> Result<Self, TemplateError> {
        if let Some(body) = body {
            return body.fill(variables).map(Self::Body);
        }
        if form.is_empty() {
            return Ok(Self::None);
        }
        let field = |(name, value): (&String, &Template)| {
            Ok(format!("{}={}", encoded(name), encoded(&value.fill(variables)?)))
        };
        let fields: Vec<String> = form.iter().map(field).collect::<Result<_, TemplateError>>()?;
        Ok(Self::Form(fields.join("&")))
    }
}

pub(super) fn assemble(
    what: &'static str,
    request: &Template,
    headers: &BTreeMap<String, Template>,
    content: Content,
    variables: &impl Lookup,
) -> Result<Call, ApiError> {
    let unmade = |error| ApiError::Template { what, error };
    let text = request.fill(variables).map_err(unmade)?;
    let unclear = || ApiError::Request { what, request: text.clone() };
    let (method, url) = text.split_once(' ').ok_or_else(unclear)?;
    let method = method.parse().map_err(|_| unclear())?;
    let fill =
        |(name, value): (&String, &Template)| Ok((name.clone(), value.fill(variables).map_err(unmade)?));
    let mut headers: Vec<(String, String)> = headers.iter().map(fill).collect::<Result<_, ApiError>>()?;
    let (kind, body) = match content {
        Content::None => (None, Bytes::new()),
        Content::Body(text) => (Some("application/json"), Bytes::from(text)),
        Content::Form(text) => (Some("application/x-www-form-urlencoded"), Bytes::from(text)),
    };
    if let Some(kind) = kind
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
    {
        headers.push(("content-type".to_owned(), kind.to_owned()));
    }
    // The caller sets the time limit.
    Ok(Call { method, url: url.trim().to_owned(), headers, body, within: Duration::MAX })
}

/// Checks the status of an answer; secrets are redacted from the error.
pub(super) fn check(
    what: &'static str,
    reply: &Reply,
    accept: &[u16],
    hidden: &Redactor,
) -> Result<(), ApiError> {
    if answers::is_right(reply.status, accept) {
        return Ok(());
    }
    let expected = if accept.is_empty() { "2xx".to_owned() } else { format!("{accept:?}") };
    let body = hidden.beginning(&reply.body, 300);
    Err(ApiError::Status { what, status: reply.status, expected, body })
}
