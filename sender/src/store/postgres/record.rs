//! Rows of one table on their way into the database: an array of records, which the server takes apart in one pass. As many arrays
//! as there are columns would each be put down there and read again.

use std::error::Error;
use std::fmt::Debug;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Field, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::link::Ask;

type Fault = Box<dyn Error + Sync + Send>;

/// What comes of putting a value into a row.
pub(super) type Put = Result<(), Fault>;

/// Puts the values of one row, in the order of its type's columns.
type Write<T> = fn(&T, &mut Record<'_>) -> Put;

/// Rows of one table, to be written by one statement that is given all of them.
pub(super) struct Records<T> {
    text: &'static str,
    array: Array<T>,
}

impl<T> Records<T> {
    pub(super) const fn new(text: &'static str, rows: Vec<T>, write: Write<T>) -> Self {
        Self { text, array: Array { rows, write } }
    }
}

impl<T: Debug + Sync> Records<T> {
    /// The statement, unless there are no rows.
    pub(super) fn ask(&self) -> Option<Ask<'_>> {
        (!self.array.rows.is_empty()).then(|| Ask { text: self.text, values: vec![&self.array] })
    }
}

/// One row that is being written.
pub(super) struct Record<'a> {
    columns: std::slice::Iter<'a, Field>,
    out: &'a mut BytesMut,
}

impl Record<'_> {
    /// The value of the next column.
    pub(super) fn put(&mut self, value: &(impl ToSql + Sync)) -> Put {
        let column = self.columns.next().ok_or("a record has more values than its type has columns")?;
        self.out.extend_from_slice(&column.type_().oid().to_be_bytes());
        sized(self.out, |out| value.to_sql_checked(column.type_(), out))
    }
}

#[derive(Debug)]
struct Array<T> {
    rows: Vec<T>,
    write: Write<T>,
}

impl<T: Debug> ToSql for Array<T> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        let Kind::Array(of) = ty.kind() else { return Err("no array is expected".into()) };
        let Kind::Composite(columns) = of.kind() else {
            return Err("no array of records is expected".into());
        };
        let rows = i32::try_from(self.rows.len())?;
        // Of one dimension, without nulls, counted from 1.
        for word in [1, 0, of.oid().cast_signed(), rows, 1] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        let count = i32::try_from(columns.len())?;
        for row in &self.rows {
            sized(out, |out| {
                out.extend_from_slice(&count.to_be_bytes());
                let mut record = Record { columns: columns.iter(), out };
                (self.write)(row, &mut record)?;
                match record.columns.next() {
                    None => Ok(IsNull::No),
                    Some(missing) => Err(format!("a record has no value for {}", missing.name()).into()),
                }
            })?;
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(of) if matches!(of.kind(), Kind::Composite(_)))
    }

    to_sql_checked!();
}

/// Writes a value after its length, which is -1 for none.
fn sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<IsNull, Fault>) -> Put {
    let place = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    if let IsNull::No = write(out)? {
        let length = i32::try_from(out.len() - place - 4)?;
        out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
