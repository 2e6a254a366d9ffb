//! The row in which a store object counts, in `totals`.
//!
//! Its number grows with every 64th commit, so that nobody who looks for the newest of a writer's rows passes over more than 64 that
//! were before, however long a stranger's transaction keeps those (`schema.sql`). The upper half of the number stays.

use tokio_postgres::Error;

use super::failure::failure;
use super::link::{Ask, Link};
use crate::store::StoreError;

/// So many commits are counted under one number.
const COMMITS: i64 = 64;
/// Numbers of one writer differ in these bits.
const OWN: i64 = (1 << 32) - 1;

const NEW: &str = "WITH new AS (SELECT (1 + (random() * 2147483645)::int8) << 32 AS writer)
    INSERT INTO totals (writer) SELECT writer FROM new WHERE NOT EXISTS (
        SELECT 1 FROM totals t WHERE t.writer BETWEEN new.writer AND new.writer + 4294967295) RETURNING writer";
/// So often a number is drawn that nobody has.
const DRAWS_MAX: u32 = 100;
const ANEW: &str = "INSERT INTO totals (writer, token) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT 1 FROM totals WHERE writer = $1 FOR NO KEY UPDATE";
/// Locked, so that a commit under way is waited for.
const FIND: &str =
    "SELECT writer, token FROM totals WHERE writer BETWEEN $1 AND $2 ORDER BY writer DESC LIMIT 1 FOR UPDATE";

/// One writer, by the number that its row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer(pub(super) i64);

impl Writer {
    /// Makes a row for a new one.
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

    /// By the number that its row has once a commit of this name has happened.
    pub(super) const fn after(self, token: i64) -> Self {
        Self(self.0 & !OWN | (token / COMMITS) & OWN)
    }

    /// Locks its row, for whoever looks for it meanwhile ([`Self::find`]).
    pub(super) fn lock(&self) -> Ask<'_> {
        Ask { text: LOCK, values: vec![&self.0] }
    }

    /// Makes its row anew, which somebody has deleted because nothing was counted in it for long. It may be there
    /// again by now: a commit begins more than once.
    pub(super) fn make_anew(self, link: &Link, token: i64) -> Result<(), Error> {
        link.execute(ANEW, &[&self.0, &token]).map(drop)
    }

    /// Whether it has counted little. Once the row of another is deleted, whoever adds up all rows passes over every number that it
    /// had, for as long as a stranger's transaction keeps them; while the row is there, over those of the last number.
    pub(super) const fn is_new(self) -> bool {
        self.0 & OWN == 0
    }

    /// Its row as it is, and the name of the last commit that it counted; nothing, if it has none.
    pub(super) fn find(self, link: &Link) -> Result<Option<(Self, i64)>, Error> {
        let row = link.first(FIND, &[&(self.0 & !OWN), &(self.0 | OWN)])?;
        row.map(|row| Ok((Self(row.try_get(0)?), row.try_get(1)?))).transpose()
    }
}
