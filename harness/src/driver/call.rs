//! One call: from the templates of the driver file to a request, and whether its answer has a right status.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::answers;
use super::client::{Call, Reply};
use super::error::ApiError;
use super::template::{Template, Variables};

/// How long a call may take: as long as a patient operator waits.
const CALL_WITHIN: Duration = Duration::from_secs(30);

/// A call, made of the driver file's templates.
pub(super) fn assemble(
    what: &'static str,
    request: &Template,
    headers: &BTreeMap<String, Template>,
    body: Option<String>,
    variables: &Variables,
) -> Result<Call, ApiError> {
    let unmade = |error| ApiError::Template { what, error };
    let text = request.fill(variables).map_err(unmade)?;
    let unclear = || ApiError::Request { what, request: text.clone() };
    let (method, url) = text.split_once(' ').ok_or_else(unclear)?;
    let method = method.parse().map_err(|_| unclear())?;
    let fill =
        |(name, value): (&String, &Template)| Ok((name.clone(), value.fill(variables).map_err(unmade)?));
    let mut headers: Vec<(String, String)> = headers.iter().map(fill).collect::<Result<_, ApiError>>()?;
    if body.is_some() && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    let body = body.map_or_else(Bytes::new, Bytes::from);
    Ok(Call { method, url: url.trim().to_owned(), headers, body, within: CALL_WITHIN })
}

/// Whether an answer has a right status.
pub(super) fn check(what: &'static str, reply: &Reply, accept: &[u16]) -> Result<(), ApiError> {
    if answers::is_right(reply.status, accept) {
        return Ok(());
    }
    let expected = if accept.is_empty() { "2xx".to_owned() } else { format!("{accept:?}") };
    let shown = &reply.body[..reply.body.len().min(300)];
    let body = String::from_utf8_lossy(shown).into_owned();
    Err(ApiError::Status { what, status: reply.status, expected, body })
}
