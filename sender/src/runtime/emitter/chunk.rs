//! Events on their way to the store, about one commit's worth at a time. Without this bound, one request
//! could hold ten thousand events for ten thousand subscribers each.

use tokio::sync::oneshot;

use super::super::CAPACITY;
use super::{Accepted, EmitError, Known, Prepared};
use crate::fanout::SHAPED_BYTES_MAX;
use crate::store::command::Command;

/// Chunks of one request: one in the commit, and one that is ready next.
pub(super) const CHUNKS_MAX: usize = 2;

const _: () = assert!(
    SHAPED_BYTES_MAX <= 2 * CAPACITY.commit_bytes_max,
    "one event may be larger than a commit, and must not be larger than two"
);

#[derive(Default)]
pub(super) struct Chunk {
    pub(super) commands: Vec<Command>,
    pub(super) known: Vec<Known>,
    pub(super) places: Vec<usize>,
    rows: usize,
    bytes: usize,
    is_ended: bool,
}

impl Chunk {
    pub(super) fn add(&mut self, place: usize, prepared: Prepared) {
        let Prepared { emit, left_out } = prepared;
        if !left_out.is_empty() {
            self.end();
        }
        self.known.push(Known::of(&emit, left_out));
        let command = Command::Emit(emit);
        self.rows = self.rows.saturating_add(command.rows());
        self.bytes = self.bytes.saturating_add(command.bytes());
        self.commands.push(command);
        self.places.push(place);
    }

    /// An event that turns out too long takes as much work as a chunk may, which no other bound counts.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// A chunk exceeds one commit by one event at most.
    pub(super) fn is_full(&self) -> bool {
        self.is_ended || self.rows >= CAPACITY.commit_rows_max || self.bytes >= CAPACITY.commit_bytes_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

pub(super) struct Told {
    pub(super) answers: oneshot::Receiver<Vec<Result<Accepted, Unrecorded>>>,
    /// The answers if the store's thread ends without any.
    pub(super) unanswered: Vec<Result<Accepted, Unrecorded>>,
}

#[derive(Clone)]
pub(super) enum Unrecorded {
    /// Match the event again.
    StaleRoster,
    /// Read the outbox row again: another process recorded part of it.
    Named,
    For(EmitError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{LaneId, Nanos, StoreTime};
    use crate::store::command::{Body, Emit, Target};

    fn emit(targets: usize, bytes: usize) -> Prepared {
        let target = Target {
            lane: LaneId(1),
            body: 0,
            due: StoreTime(1),
            expires: StoreTime(2),
            dedupe: Nanos::ZERO,
            coalesce: None,
            signature: None,
        };
        let emit = Emit {
            roster: 1,
            id: "e".into(),
            id_is_new: false,
            kind: "k".into(),
            key: None,
            received: StoreTime(1),
            bodies: vec![Body { bytes: vec![b'1'; bytes].into() }],
            targets: vec![target; targets],
            atomic: false,
            withheld: false,
            outbox: None,
        };
        Prepared { emit, left_out: Vec::new() }
    }

    fn events(targets: usize, bytes: usize) -> usize {
        let mut chunk = Chunk::default();
        while !chunk.is_full() {
            chunk.add(chunk.places.len(), emit(targets, bytes));
        }
        chunk.places.len()
    }

    #[test]
    fn a_chunk_ends_with_what_one_commit_takes() {
        assert_eq!(events(1, 1), 1_667);
        assert_eq!(events(98, 1), 50);
        assert_eq!(events(10_000, 1), 1);
        assert_eq!(events(1, 1 << 20), 16);
    }

    #[test]
    fn a_chunk_ends_with_an_event_that_is_too_long_for_somebody() {
        let mut chunk = Chunk::default();
        chunk.add(0, emit(1, 1));
        assert!(!chunk.is_full());
        chunk.add(1, Prepared { left_out: vec![LaneId(2)], ..emit(1, 1) });
        assert!(chunk.is_full() && chunk.places == [0, 1]);
    }
}
