//! Rows of one table for one statement, as a value array for each column.

use tokio_postgres::types::ToSql;

use super::link::Ask;

type Column<'a> = Box<dyn ToSql + Sync + 'a>;

pub(super) struct Table<'a> {
    text: &'static str,
    columns: Vec<Column<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, columns: Vec::new() }
    }

    pub(super) fn with<T: ToSql + Sync + 'a>(mut self, values: impl Iterator<Item = T>) -> Self {
        self.columns.push(Box::new(values.collect::<Vec<T>>()));
        self
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask { text: self.text, values: self.columns.iter().map(|column| &**column as _).collect() }
    }
}
