//! The log of changes, as operators see it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::json_forms::moment;
use crate::store::StoreError;
use crate::store::change::RecordedChange;
use crate::store::paging::{Cursor, Page};
use crate::store::read::{ChangesOf, ReadError, Reader, Subscriber, SubscriberRef};

/// A subscriber that exists is found by its present name too, under each name that it had.
pub(crate) fn page(
    reader: &dyn Reader,
    of: &ChangesOf,
    from: Option<Cursor>,
    max: u32,
) -> Result<Page<RecordedChange>, ReadError> {
    let find = |name: &Arc<str>| -> Result<Option<Subscriber>, StoreError> {
        reader.subscriber(&SubscriberRef::Name(Arc::clone(name)))
    };
    let named = of.subscriber.as_ref().map(find).transpose()?.flatten();
    let subscriber = named.map(|found| found.id).or_else(|| of.subscriber.clone());
    reader.changes(&ChangesOf { subscriber, ..of.clone() }, from, max)
}

pub(crate) fn to_json(change: &RecordedChange) -> Value {
    let (id, name) = change.subscriber.as_ref().map(|(id, name)| (&**id, &**name)).unzip();
    let changed = fields(change).into_iter().map(|(field, value)| match value {
        Value::Array(pair) => json!({ "field": field, "before": pair.first(), "after": pair.get(1) }),
        _ => json!({ "field": field }),
    });
    json!({
        "number": change.number,
        "at": moment(change.at),
        "by": &*change.by,
        "operation": &*change.operation,
        "subscriber": id,
        "name": name,
        "subject": change.subject.as_deref(),
        "changed": changed.collect::<Vec<_>>(),
    })
}

/// `limit.rate 5/s → 10/s; secret changed`
pub(crate) fn in_words(change: &RecordedChange) -> String {
    let word = |value: Option<&Value>| match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let changed = fields(change).into_iter().map(|(field, value)| match value {
        Value::Array(pair) => format!("{field} {} → {}", word(pair.first()), word(pair.get(1))),
        value => format!("{field} {}", word(Some(&value))),
    });
    changed.collect::<Vec<_>>().join("; ")
}

/// A record that does not open says so in place of its fields.
fn fields(change: &RecordedChange) -> Map<String, Value> {
    serde_json::from_str(&change.changed)
        .unwrap_or_else(|_| Map::from_iter([(change.changed.to_string(), "unreadable".into())]))
}
