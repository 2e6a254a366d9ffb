//! How to open a database.

use crate::store::lane::Limits;

/// How to open a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How much it may hold.
    pub limits: Limits,
    /// Make the tables if there are none.
    pub create: bool,
    /// Something random, which a new database keeps for good.
    pub identity: u64,
}
