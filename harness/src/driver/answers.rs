//! Reads a sender's answers by the driver file's JSON pointers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::calls::{Dead, Depth, Each, Emit, Owner, Request, RetainedCall, Scalar};
use super::client::Reply;
use super::error::ApiError;
use super::moment;
use super::template::{Redactor, Variables};

const LINE_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmitResult {
    Accepted {
        status: u16,
        /// Where the sender reports it.
        matched: Option<u32>,
    },
    Refused {
        /// The status of its line in a batch, if the line has one.
        status: u16,
        /// Verbatim.
        retry_after: Option<String>,
        /// The answer's beginning.
        why: String,
    },
    /// Its template can't be filled, or the harness has no file or port left for a connection.
    Unoffered {
        ours: bool,
        why: String,
    },
    Silent {
        unknown: bool,
        why: String,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// None for the whole sender.
    pub subscriber: Option<String>,
    pub waiting: Option<u64>,
    pub bytes: Option<u64>,
    pub dead: Option<u64>,
    pub delivered: Option<u64>,
    pub coalesced: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub subscriber: String,
    pub id: Option<String>,
    pub reason: String,
    pub attempts: Option<u32>,
    /// The whole JSON of its item, which holds the harness's token.
    pub text: String,
}

/// An empty list means 2xx.
pub(super) fn is_right(status: u16, accept: &[u16]) -> bool {
    if accept.is_empty() { (200..300).contains(&status) } else { accept.contains(&status) }
}

pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

pub(super) fn save(what: &'static str, request: &Request, answer: &Value) -> Result<Variables, ApiError> {
    let save = |(variable, pointer): (&String, &String)| {
        let missing = || ApiError::Missing { what, pointer: pointer.clone(), variable: variable.clone() };
        let value = text(answer, pointer).ok_or_else(missing)?;
        Ok((variable.clone(), value))
    };
    request.save.iter().map(save).collect()
}

pub(super) fn differing(answer: &Value, until: &BTreeMap<String, Scalar>) -> Option<String> {
    let different =
        |(pointer, wanted): &(&String, &Scalar)| text(answer, pointer).as_deref() != Some(&wanted.0);
    let (pointer, wanted) = until.iter().find(different)?;
    let found = text(answer, pointer).map_or_else(|| "nothing".to_owned(), |found| format!("{found:?}"));
    Some(format!("{pointer:?} was {found}, expected {:?}", wanted.0))
}

fn number(value: &Value, pointer: Option<&String>) -> Option<u64> {
    value.pointer(pointer?)?.as_u64()
}

/// Secrets are redacted.
pub(super) fn emit_results(emit: &Emit, reply: &Reply, events: usize, hidden: &Redactor) -> Vec<EmitResult> {
    let matched =
        |value: &Value| number(value, emit.matched.as_ref()).and_then(|count| u32::try_from(count).ok());
    if !is_right(reply.status, &emit.accept) {
        let why = hidden.beginning(&reply.body, LINE_CHARS_MAX);
        let refused =
            EmitResult::Refused { status: reply.status, retry_after: reply.retry_after.clone(), why };
        return vec![refused; events];
    }
    let lines = if emit.batch { json_lines(&reply.body) } else { Vec::new() };
    if emit.batch && emit.status.is_some() && lines.len() != events {
        // With another number of lines, no line belongs to an event.
        let why = format!("the answer has {} lines; expected one for each event ({events})", lines.len());
        return vec![EmitResult::Silent { unknown: true, why }; events];
    }
    if lines.len() != events {
        let answer = serde_json::from_slice(&reply.body).unwrap_or_default();
        return vec![EmitResult::Accepted { status: reply.status, matched: matched(&answer) }; events];
    }
    let line = |line: &Value| match own_status(emit, line, hidden) {
        Err(why) => EmitResult::Silent { unknown: true, why },
        Ok(Some(status)) if !(200..300).contains(&status) => {
            let why = beginning(line, hidden);
            EmitResult::Refused { status, retry_after: reply.retry_after.clone(), why }
        }
        Ok(_) => EmitResult::Accepted { status: reply.status, matched: matched(line) },
    };
    lines.iter().map(line).collect()
}

/// Without a JSON object or a valid status, the outcome of the event is in doubt.
fn own_status(emit: &Emit, line: &Value, hidden: &Redactor) -> Result<Option<u16>, String> {
    let Some(pointer) = &emit.status else { return Ok(None) };
    if !line.is_object() {
        return Err(format!("a line of the answer is not a JSON object: {}", beginning(line, hidden)));
    }
    let Some(value) = line.pointer(pointer) else { return Ok(None) };
    let status = value.as_u64().and_then(|status| u16::try_from(status).ok());
    status.map(Some).ok_or_else(|| {
        format!("a line of the answer has no status at {pointer:?}: {}", beginning(line, hidden))
    })
}

fn beginning(line: &Value, hidden: &Redactor) -> String {
    hidden.beginning(line.to_string().as_bytes(), LINE_CHARS_MAX)
}

fn json_lines(body: &[u8]) -> Vec<Value> {
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap_or_default()).collect()
}

/// The whole sender's comes first.
pub(super) fn samples(depth: &Depth, answer: &Value) -> Vec<Sample> {
    let whole = Sample {
        subscriber: None,
        waiting: number(answer, Some(&depth.pointer)),
        bytes: number(answer, depth.bytes.as_ref()),
        dead: number(answer, depth.dead.as_ref()),
        delivered: number(answer, depth.delivered.as_ref()),
        coalesced: number(answer, depth.coalesced.as_ref()),
    };
    let items = depth.each.iter().flat_map(|each| {
        let items = answer.pointer(&each.list).and_then(Value::as_array);
        items.into_iter().flatten().map(move |item| of_one(each, item))
    });
    std::iter::once(whole).chain(items).collect()
}

fn of_one(each: &Each, item: &Value) -> Sample {
    Sample {
        subscriber: text(item, &each.name),
        waiting: number(item, Some(&each.pointer)),
        bytes: number(item, each.bytes.as_ref()),
        dead: number(item, each.dead.as_ref()),
        delivered: number(item, each.delivered.as_ref()),
        coalesced: number(item, each.coalesced.as_ref()),
    }
}

/// The dead letters of one page. An unreadable page is an error, not an empty list.
pub(super) fn listed(
    dead: &Dead,
    page: &[u8],
    subscribers: &BTreeMap<String, Variables>,
) -> Result<(Value, Vec<Listed>), ApiError> {
    let unreadable = |why: String| ApiError::Unreadable { what: "dead", why };
    let answer: Value = serde_json::from_slice(page).map_err(|error| unreadable(error.to_string()))?;
    let items = answer.pointer(&dead.list).and_then(Value::as_array);
    let items = items.ok_or_else(|| unreadable(format!("there is no list at {:?}", dead.list)))?;
    let one = |item: &Value| {
        let whom = text(item, &dead.subscriber).unwrap_or_default();
        let named = subscribers.iter().find(|(_, saved)| saved.get("id") == Some(&whom));
        Listed {
            subscriber: named.map_or(whom, |(name, _)| name.clone()),
            id: dead.id.as_ref().and_then(|pointer| text(item, pointer)),
            reason: dead.reason.as_ref().and_then(|pointer| text(item, pointer)).unwrap_or_default(),
            attempts: number(item, dead.attempts.as_ref()).and_then(|count| u32::try_from(count).ok()),
            text: item.to_string(),
        }
    };
    let letters = items.iter().map(one).collect();
    Ok((answer, letters))
}

/// When the oldest was delivered, in Unix nanoseconds; none for an empty list. Fails without a list or a time.
pub(super) fn oldest(kept: &RetainedCall, page: &[u8]) -> Result<Option<u64>, ApiError> {
    let unreadable = |why: String| ApiError::Unreadable { what: "kept", why };
    let answer: Value = serde_json::from_slice(page).map_err(|error| unreadable(error.to_string()))?;
    let items = answer.pointer(&kept.list).and_then(Value::as_array);
    let items = items.ok_or_else(|| unreadable(format!("there is no list at {:?}", kept.list)))?;
    let delivered = |item: &Value| item.pointer(&kept.delivered).and_then(moment::latest);
    let missing = || unreadable(format!("an item has no time at {:?}", kept.delivered));
    let times: Vec<u64> =
        items.iter().map(|item| delivered(item).ok_or_else(missing)).collect::<Result<_, _>>()?;
    Ok(times.into_iter().min())
}

pub(super) fn owns(owner: &Owner, answer: &Value, name: &str) -> bool {
    let items = answer.pointer(&owner.list).and_then(Value::as_array);
    let own = items.into_iter().flatten().find(|item| text(item, &owner.name).as_deref() == Some(name));
    let here = own.and_then(|item| item.pointer(&owner.here));
    here.is_some_and(|here| !matches!(here, Value::Null | Value::Bool(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DriverFile;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, retry_after: Some("2".to_owned()), date: None, body: body.to_owned().into() }
    }

    #[test]
    fn every_line_of_a_batch_has_its_own_fate() {
        let emit = DriverFile::hookproof().unwrap().emit;
        let answer = "{\"deliveries\":3}\n{\"status\":429,\"error\":{}}\n";
        let taken = emit_results(&emit, &reply(207, answer), 2, &Redactor::default());
        assert_eq!(taken[0], EmitResult::Accepted { status: 207, matched: Some(3) });
        assert!(
            matches!(&taken[1], EmitResult::Refused { status: 429, retry_after: Some(after), .. } if after == "2")
        );
    }

    #[test]
    fn a_refusal_of_all_refuses_each_and_a_garbled_answer_leaves_all_unknown() {
        let emit = DriverFile::hookproof().unwrap().emit;
        assert!(matches!(
            emit_results(&emit, &reply(503, "no"), 2, &Redactor::default())[..],
            [EmitResult::Refused { .. }, EmitResult::Refused { .. }]
        ));
        let garbled = emit_results(&emit, &reply(202, "{}\n"), 2, &Redactor::default());
        assert!(
            garbled.iter().all(|taken| matches!(taken, EmitResult::Silent { unknown: true, .. })),
            "{garbled:?}"
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_leaves_its_event_unknown() {
        let emit = DriverFile::hookproof().unwrap().emit;
        for line in ["garbage", "[]", "7", r#"{"status":"429"}"#, r#"{"status":70000}"#, r#"{"status":null}"#]
        {
            let taken = emit_results(
                &emit,
                &reply(207, &format!("{line}\n{{\"deliveries\":1}}\n")),
                2,
                &Redactor::default(),
            );
            assert!(matches!(&taken[0], EmitResult::Silent { unknown: true, .. }), "{line}: {taken:?}");
            assert_eq!(taken[1], EmitResult::Accepted { status: 207, matched: Some(1) }, "{line}");
        }
    }

    #[test]
    fn the_owner_of_a_subscriber_is_the_process_that_says_so() {
        let file = DriverFile::hookproof().unwrap();
        let owner = file.owner().unwrap();
        let answer = serde_json::json!({ "lanes": { "items": [
            { "name": "a", "owned": true, "here": null },
            { "name": "b", "owned": true, "here": { "in_flight": 0 } },
        ] } });
        assert!(!owns(owner, &answer, "a") && owns(owner, &answer, "b") && !owns(owner, &answer, "c"));
    }

    #[test]
    fn the_queue_is_read_whole_and_for_each_subscriber() {
        let depth = DriverFile::hookproof().unwrap().depth.unwrap();
        let answer = serde_json::json!({
            "deliveries": { "waiting": 7, "waiting_bytes": 70, "dead": 1, "delivered": 5, "coalesced": 0 },
            "lanes": { "items": [{ "name": "a", "deliveries": { "waiting": 7 } }] },
        });
        let samples = samples(&depth, &answer);
        assert_eq!((samples[0].waiting, samples[0].dead, samples[0].bytes), (Some(7), Some(1), Some(70)));
        assert_eq!((samples[1].subscriber.as_deref(), samples[1].waiting), (Some("a"), Some(7)));
    }
}
