//! Event ids in a file: 16 bytes for generated ids, text for other ids of emitters. Each id has exactly one form, so
//! that lookups find it. An emitter's id in the generated form is stored like a generated one.

use std::sync::Arc;

use hookproof_words::public_id::{Kind, PublicId};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Result, ToSql};

pub(super) struct EventId<'a> {
    text: &'a str,
    made: Option<[u8; 16]>,
}

impl<'a> EventId<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, made: PublicId::bits(text, Kind::Event).map(u128::to_be_bytes) }
    }
}

impl ToSql for EventId<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.made {
            Some(bits) => ValueRef::Blob(bits),
            None => ValueRef::Text(self.text.as_bytes()),
        }))
    }
}

impl From<EventId<'_>> for Value {
    fn from(id: EventId<'_>) -> Self {
        match id.made {
            Some(bits) => Self::Blob(bits.to_vec()),
            None => Self::Text(id.text.to_owned()),
        }
    }
}

pub(super) struct StoredEventId(pub(super) Arc<str>);

impl FromSql for StoredEventId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Blob(_) => {
                let bits = u128::from_be_bytes(FromSql::column_result(value)?);
                Ok(Self(PublicId::of_bits(Kind::Event, bits).as_str().into()))
            }
            other => FromSql::column_result(other).map(Self),
        }
    }
}

/// Registers the SQL functions `event_id(text)` and `event_id_text(id)` for moving a store.
pub(super) fn teach(sql: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    sql.create_scalar_function("event_id", 1, flags, |told: &Context<'_>| {
        // An unreadable id is copied unchanged. Its deliveries become dead letters when they are claimed.
        let text = told.get_raw(0).as_str();
        text.map_or_else(|_| told.get::<Value>(0), |text| Ok(EventId::new(text).into()))
    })?;
    sql.create_scalar_function("event_id_text", 1, flags, |told: &Context<'_>| {
        told.get::<StoredEventId>(0).map(|StoredEventId(text)| text.to_string())
    })
}
