//! A cache of events and bodies: an event for a thousand subscribers is read once and stored once.
//!
//! Events and bodies that are still needed never change, and numbers are never reused, so entries stay valid in later
//! transactions. A commit reads its own uncommitted events without this cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, Result};

use super::emit::OWN_BODY;
use super::event_id::StoredEventId;
use super::values::int;
use crate::command::Body;
use crate::engine::StoreTime;
use crate::seal::{Field, Seal};

pub(super) const EVENT: &str = "SELECT id, kind, received, body FROM events WHERE event = ?1";

pub(super) const FURTHER_BODY: &str = "SELECT bytes FROM further_bodies WHERE body = ?1";

/// Limits of the cache. A single body may exceed the second while it is read.
const COUNT_MAX: usize = 1_024;
const BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The event's public id.
    pub(super) event: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) received: StoreTime,
    pub(super) body: Body,
}

/// Keyed by the numbers of event and body. Keeps the newest events, because lanes that keep up ask for those.
#[derive(Debug, Default)]
pub(super) struct Contents {
    known: BTreeMap<(u64, u64), Content>,
    bytes: usize,
    /// The next delivery number at the last read.
    next: u64,
}

pub(super) struct Reader<'a> {
    event: CachedStatement<'a>,
    further_body: CachedStatement<'a>,
    seal: &'a Seal,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sql: &'a Connection, seal: &'a Seal) -> Result<Self> {
        Ok(Self { event: sql.prepare_cached(EVENT)?, further_body: sql.prepare_cached(FURTHER_BODY)?, seal })
    }

    fn read(&mut self, event: u64, body: u64) -> Result<Content> {
        let Self { event: read_event, further_body, seal } = self;
        read_event.query_row([int(event)], |row| {
            let (field, bytes) = match body {
                OWN_BODY => (Field::EventBody(event), row.get(3)?),
                further => {
                    let bytes = further_body.query_row([int(further)], |row| row.get(0))?;
                    (Field::FurtherBody(further), bytes)
                }
            };
            let body = seal.open_body(field, Body { bytes })?;
            let event = row.get::<_, StoredEventId>(0)?.0;
            Ok(Content { event, kind: row.get(1)?, received: row.get(2)?, body })
        })
    }
}

impl Contents {
    /// Must be called in each transaction with the next delivery number. A file restored from an older copy reuses
    /// numbers, so a lower number clears the cache.
    pub(super) fn begin(&mut self, next: u64) {
        if next < self.next {
            *self = Self::default();
        }
        self.next = next;
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'_>, event: u64, body: u64) -> Result<Content> {
        if let Some(content) = self.known.get(&(event, body)) {
            return Ok(content.clone());
        }
        let content = reader.read(event, body)?;
        self.insert((event, body), content.clone());
        Ok(content)
    }

    fn insert(&mut self, place: (u64, u64), content: Content) {
        self.bytes += content.body.bytes.len();
        self.known.insert(place, content);
        while (self.known.len() > COUNT_MAX || self.bytes > BYTES_MAX)
            && let Some((_, oldest)) = self.known.pop_first()
        {
            self.bytes -= oldest.body.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: usize) -> Content {
        let body = Body { bytes: vec![b'x'; bytes].into() };
        Content { event: "e".into(), kind: "k".into(), received: StoreTime(1), body }
    }

    /// The events still cached after these were read, with `bytes` bytes each.
    fn cached_after_reading(events: impl IntoIterator<Item = u64>, bytes: usize) -> Vec<u64> {
        let mut contents = Contents::default();
        events.into_iter().for_each(|event| contents.insert((event, OWN_BODY), content(bytes)));
        let held: usize = contents.known.values().map(|content| content.body.bytes.len()).sum();
        assert_eq!(contents.bytes, held);
        contents.known.keys().map(|(event, _)| *event).collect()
    }

    #[test]
    fn nothing_is_known_of_a_file_that_has_gone_back() {
        let mut contents = Contents::default();
        contents.begin(7);
        contents.insert((1, OWN_BODY), content(1));
        contents.begin(7);
        contents.begin(8);
        assert_eq!(contents.known.len(), 1);
        contents.begin(7);
        assert_eq!((contents.known.len(), contents.bytes), (0, 0));
    }

    #[test]
    fn the_newest_are_kept_within_both_bounds() {
        let count = COUNT_MAX as u64;
        assert_eq!(cached_after_reading(1..=count + 5, 1), (6..=count + 5).collect::<Vec<_>>());
        assert_eq!(cached_after_reading([5, 1, 7, 3], BYTES_MAX / 2), [5, 7]);
        assert_eq!(cached_after_reading([5, 6], BYTES_MAX + 1), Vec::<u64>::new());
        assert_eq!(
            cached_after_reading([6, 5], BYTES_MAX),
            [6],
            "what is older than all that are kept does not displace them"
        );
    }
}
