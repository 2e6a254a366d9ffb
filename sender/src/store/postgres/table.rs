//! Rows of one table on their way into the database: by columns, in one statement.

use tokio_postgres::types::ToSql;

use super::link::Ask;

/// The values of one column.
type Column<'a> = Box<dyn ToSql + Sync + 'a>;

/// Rows of one table, to be written by one statement.
pub(super) struct Table<'a> {
    text: &'static str,
    columns: Vec<Column<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, columns: Vec::new() }
    }

    /// With one column more.
    pub(super) fn with<T: ToSql + Sync + 'a>(mut self, values: impl Iterator<Item = T>) -> Self {
        self.columns.push(Box::new(values.collect::<Vec<T>>()));
        self
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask { text: self.text, values: self.columns.iter().map(|column| &**column as _).collect() }
    }
}
