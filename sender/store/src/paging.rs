//! Pages of a listing, and the cursors between them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::command::{Dead, OutboxId};
use crate::engine::{DeliveryId, LaneId};
use hookproof_words::ids::size;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items. A page may have fewer than requested, even none, and not be the last.
    pub items: Vec<T>,
    /// The start of the next page. `None` after the last.
    pub next: Option<Cursor>,
}

/// The start of a page. Opaque, and valid for the same listing only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    listing: char,
    at: [u64; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor of this listing; begin again without one")]
pub struct BadCursor(pub String);

impl Cursor {
    pub(super) const fn new(listing: char, at: [u64; 2]) -> Self {
        Self { listing, at }
    }

    /// In the listing of all deliveries, from the newest.
    #[must_use]
    pub const fn below(delivery: DeliveryId) -> Self {
        Self::new('d', [delivery.0, 0])
    }

    pub(super) fn place(self, listing: char) -> Result<[u64; 2], BadCursor> {
        if self.listing == listing { Ok(self.at) } else { Err(BadCursor(self.to_string())) }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:x}.{:x}", self.listing, self.at[0], self.at[1])
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let parse = || {
            let mut letters = text.chars();
            let listing = letters.next().filter(char::is_ascii_lowercase)?;
            let (first, second) = letters.as_str().split_once('.')?;
            // A number has one spelling: no signs, no leading zeros.
            let number = |digits: &str| {
                let value = u64::from_str_radix(digits, 16).ok()?;
                (format!("{value:x}") == digits).then_some(value)
            };
            Some(Self { listing, at: [number(first)?, number(second)?] })
        };
        parse().ok_or_else(|| BadCursor(text.chars().take(80).collect()))
    }
}

pub(super) fn letters_after(letters: &[DeliveryId], after: DeliveryId, max: u32) -> Vec<DeliveryId> {
    let named: BTreeSet<DeliveryId> = letters.iter().copied().filter(|letter| *letter > after).collect();
    named.into_iter().take(usize::try_from(max).unwrap_or(usize::MAX)).collect()
}

/// The lane of a selection, or its ids with commas between them.
pub(super) fn spelled(which: &Dead) -> (Option<LaneId>, Option<String>) {
    match which {
        Dead::All => (None, None),
        Dead::Of(lane) => (Some(*lane), None),
        Dead::These(ids) => {
            let ids: Vec<_> = ids.iter().map(|id| id.0.to_string()).collect();
            (None, Some(ids.join(",")))
        }
    }
}

/// Skips an unreadable id.
pub(super) fn selection(lane: Option<LaneId>, ids: Option<&str>) -> Dead {
    match (lane, ids) {
        (Some(lane), _) => Dead::Of(lane),
        (None, Some(ids)) => {
            Dead::These(ids.split(',').filter_map(|id| id.parse().ok().map(DeliveryId)).collect())
        }
        (None, None) => Dead::All,
    }
}

/// The place of the last row, if the page is full. The next page begins after it.
pub(super) fn last_if_full<T, P>(rows: &[T], max: u32, place: impl Fn(&T) -> P) -> Option<P> {
    rows.last().filter(|_| size(rows.len()) >= u64::from(max)).map(place)
}

const SIGN: u64 = 1 << 63;

/// The place before an outbox row, in a listing from the newest. Programs may use any number as an id; places are
/// unsigned, in the same order. `None`: nothing lies below the lowest number.
pub(super) fn place_before(id: OutboxId) -> Option<[u64; 2]> {
    id.0.checked_sub(1).map(|id| [id.cast_unsigned() ^ SIGN, 0])
}

pub(super) fn outbox_id_at(place: Option<[u64; 2]>) -> i64 {
    place.map_or(i64::MAX, |at| (at[0] ^ SIGN).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_what_it_wrote() {
        let cursor = Cursor::new('d', [u64::MAX, 0]);
        assert_eq!(cursor.to_string(), "dffffffffffffffff.0");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!(cursor.place('d'), Ok([u64::MAX, 0]));
    }

    #[test]
    fn a_cursor_of_another_listing_is_refused() {
        assert_eq!(Cursor::new('d', [1, 2]).place('s'), Err(BadCursor("d1.2".to_owned())));
    }

    #[test]
    fn a_cursor_from_no_listing_is_refused() {
        for text in [
            "",
            "d",
            "d1",
            "d1.",
            "d.1",
            "D1.2",
            "d+1.2",
            "d01.2",
            "d1.2.3",
            "d1.10000000000000000",
            "é1.2",
            "d1.FF",
        ] {
            assert!(text.parse::<Cursor>().is_err(), "{text:?}");
        }
    }
}
