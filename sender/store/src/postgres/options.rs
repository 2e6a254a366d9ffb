use crate::lane::Limits;

/// How to open a database.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Limits of the store.
    pub limits: Limits,
    /// Whether to make missing tables.
    pub create: bool,
    /// A random number that a new database keeps for good.
    pub identity: u64,
}
