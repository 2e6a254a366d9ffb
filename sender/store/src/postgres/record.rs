//! Rows of one table as an array of records, which the server unpacks in one pass. An array for each column would be
//! materialised and read again.

use std::error::Error;
use std::fmt::Debug;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{Field, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::link::Query;

type Fault = Box<dyn Error + Sync + Send>;

pub(super) type Put = Result<(), Fault>;

/// Writes one row's values, in the order of its type's columns.
type Write<T> = fn(&T, &mut Record<'_>) -> Put;

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
    pub(super) fn query(&self) -> Option<Query<'_>> {
        (!self.array.rows.is_empty()).then(|| Query { text: self.text, values: vec![&self.array] })
    }
}

pub(super) struct Record<'a> {
    columns: std::slice::Iter<'a, Field>,
    out: &'a mut BytesMut,
}

impl Record<'_> {
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
        // One dimension, no nulls, lower bound 1.
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

/// Writes a value after its length. -1 stands for NULL.
fn sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<IsNull, Fault>) -> Put {
    let place = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    if let IsNull::No = write(out)? {
        let length = i32::try_from(out.len() - place - 4)?;
        out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> Type {
        let of = |name: &str, oid, kind| Type::new(name.to_owned(), oid, kind, "public".to_owned());
        let columns =
            vec![Field::new("number".to_owned(), Type::INT2), Field::new("text".to_owned(), Type::TEXT)];
        of("_pair", 501, Kind::Array(of("pair", 500, Kind::Composite(columns))))
    }

    fn written(write: Write<(i16, Option<&'static str>)>) -> Result<Vec<u8>, String> {
        let rows = Records::new("", vec![(7, Some("ab")), (8, None)], write);
        let mut out = BytesMut::new();
        let told = rows.array.to_sql_checked(&pairs(), &mut out);
        told.map(|_| out.to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_an_array_of_records() {
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let mut expected = words(&[1, 0, 500, 2, 1]);
        expected.extend(words(&[24, 2, 21, 2]));
        expected.extend([0, 7]);
        expected.extend(words(&[25, 2]));
        expected.extend(b"ab");
        expected.extend(words(&[22, 2, 21, 2]));
        expected.extend([0, 8]);
        expected.extend(words(&[25, -1]));
        let write: Write<_> = |(number, text), to| {
            to.put(number)?;
            to.put(text)
        };
        assert_eq!(written(write), Ok(expected));
    }

    #[test]
    fn a_record_has_a_value_for_each_column_of_its_type() {
        let few: Write<_> = |(number, _), to| to.put(number);
        assert_eq!(written(few), Err("a record has no value for text".to_owned()));
        let many: Write<_> = |(number, text), to| {
            to.put(number)?;
            to.put(text)?;
            to.put(text)
        };
        assert_eq!(written(many), Err("a record has more values than its type has columns".to_owned()));
        let other: Write<_> = |(_, text), to| {
            to.put(text)?;
            to.put(text)
        };
        assert!(written(other).is_err(), "a text is no number");
    }
}
