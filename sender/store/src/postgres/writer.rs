//! The row of `totals` in which a store object counts.
//!
//! Its number grows with every 64th commit. So a search for a writer's newest row skips at most 64 dead rows, however
//! long an open transaction keeps them (`schema.sql`). The upper half of the number stays the same.

use tokio_postgres::Error;

use super::failure::failure;
use super::link::{Ask, Link};
use crate::StoreError;

const COMMITS: i64 = 64;
/// The bits in which one writer's numbers differ.
const OWN: i64 = (1 << 32) - 1;

const NEW: &str = "WITH new AS (SELECT (1 + (random() * 2147483645)::int8) << 32 AS writer)
    INSERT INTO totals (writer) SELECT writer FROM new WHERE NOT EXISTS (
        SELECT 1 FROM totals t WHERE t.writer BETWEEN new.writer AND new.writer + 4294967295) RETURNING writer";
const DRAWS_MAX: u32 = 100;
const ANEW: &str = "INSERT INTO totals (writer, token) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT 1 FROM totals WHERE writer = $1 FOR NO KEY UPDATE";
/// Locks the row, so that it waits for a commit under way.
const FIND: &str =
    "SELECT writer, token FROM totals WHERE writer BETWEEN $1 AND $2 ORDER BY writer DESC LIMIT 1 FOR UPDATE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer(pub(super) i64);

impl Writer {
    pub(super) fn new(link: &Link) -> Result<Self, StoreError> {
        let doing = "open the store";
        for _ in 0..DRAWS_MAX {
            if let Some(row) = link.first(NEW, &[]).map_err(|error| failure(doing, &error))? {
                return row.try_get(0).map(Self).map_err(|error| failure(doing, &error));
            }
        }
        Err(StoreError::Broken {
            doing,
            detail: "every number that was drawn for a writer was taken".to_owned(),
        })
    }

    pub(super) const fn after(self, token: i64) -> Self {
        Self(self.0 & !OWN | (token / COMMITS) & OWN)
    }

    /// Locks the row, so that [`Self::find`] waits.
    pub(super) fn lock(&self) -> Ask<'_> {
        Ask { text: LOCK, values: vec![&self.0] }
    }

    /// Creates the row again after it was deleted as idle. It may exist already, because a commit can start more than
    /// once.
    pub(super) fn make_anew(self, link: &Link, token: i64) -> Result<(), Error> {
        link.execute(ANEW, &[&self.0, &token]).map(drop)
    }

    /// Whether it has counted little. Deleting the row of any other writer leaves dead rows for all its numbers,
    /// which summing must skip while an open transaction keeps them.
    pub(super) const fn is_new(self) -> bool {
        self.0 & OWN == 0
    }

    /// The present row, with the token of its last commit. `None` if it was deleted.
    pub(super) fn find(self, link: &Link) -> Result<Option<(Self, i64)>, Error> {
        let row = link.first(FIND, &[&(self.0 & !OWN), &(self.0 | OWN)])?;
        row.map(|row| Ok((Self(row.try_get(0)?), row.try_get(1)?))).transpose()
    }
}
