//! The shared types in SQLite's types.
//!
//! SQLite's integers are signed. Times and counts beyond 2⁶³ (the year 2262) become the largest one; random
//! numbers keep their bits.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};

use crate::ids::{DeliveryId, JobId, LaneId, OutboxId, OwnerId, Term};
pub use crate::ids::{int, size};
use crate::states::{
    AttemptOutcome, Condition, JobKind, JobState, LaneState, Measure, Place, Reason, Scope, WhenFull,
};
use crate::time::{Nanos, StoreTime};

macro_rules! numbers {
    ($($name:ident),*) => { $(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(int(self.0).into())
            }
        }
        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                u64::column_result(value).map(Self)
            }
        }
    )* };
}
numbers!(LaneId, DeliveryId, JobId, Term, StoreTime, Nanos);

impl ToSql for OutboxId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for OutboxId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}

/// All 64 bits of a random number.
#[derive(Clone, Copy)]
pub struct Bits(pub u64);

impl ToSql for Bits {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for Bits {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(|signed| Self(signed.cast_unsigned()))
    }
}

impl ToSql for OwnerId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for OwnerId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Bits::column_result(value).map(|bits| Self(bits.0))
    }
}

macro_rules! coded {
    ($($name:ident),*) => { $(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.code().into())
            }
        }
        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let code = value.as_i64()?;
                Self::of_code(code).ok_or(FromSqlError::OutOfRange(code))
            }
        }
    )* };
}
coded!(LaneState, WhenFull, Place, Reason, AttemptOutcome, Condition, Measure, JobKind, JobState, Scope);
