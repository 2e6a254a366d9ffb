//! The shared types in PostgreSQL's types.
//!
//! PostgreSQL's integers are signed. Times and counts beyond 2⁶³ (the year 2262) become the largest one; random
//! numbers keep their bits. Reading an invalid value is an error.

use std::error::Error;

use postgres_types::private::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::ids::{DeliveryId, JobId, LaneId, OutboxId, OwnerId, Term, int};
use crate::states::{
    AttemptOutcome, Condition, JobKind, JobState, LaneState, Measure, Place, Reason, Scope, WhenFull,
};
use crate::time::{Nanos, StoreTime};

type Fault = Box<dyn Error + Sync + Send>;

#[derive(Clone, Copy, Debug, Default)]
pub struct Count(pub u64);

/// All 64 bits of a random number.
#[derive(Clone, Copy, Debug)]
pub struct Bits(pub u64);

macro_rules! written {
    ($($name:ty: $as:ty = |$value:ident| $to:expr, |$raw:ident| $from:expr;)*) => { $(
        impl ToSql for $name {
            fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
                let $value = *self;
                <$as as ToSql>::to_sql(&$to, ty, out)
            }
            fn accepts(ty: &Type) -> bool {
                <$as as ToSql>::accepts(ty)
            }
            to_sql_checked!();
        }
        impl<'a> FromSql<'a> for $name {
            fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Fault> {
                let $raw = <$as as FromSql>::from_sql(ty, raw)?;
                $from
            }
            fn accepts(ty: &Type) -> bool {
                <$as as FromSql>::accepts(ty)
            }
        }
    )* };
}

written! {
    LaneId: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    DeliveryId: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    JobId: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    Term: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    StoreTime: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    Nanos: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    Count: i64 = |value| int(value.0), |raw| Ok(Self(u64::try_from(raw)?));
    OutboxId: i64 = |value| value.0, |raw| Ok(Self(raw));
    Bits: i64 = |value| value.0.cast_signed(), |raw| Ok(Self(raw.cast_unsigned()));
    OwnerId: i64 = |value| value.0.cast_signed(), |raw| Ok(Self(raw.cast_unsigned()));
}

macro_rules! coded {
    ($($name:ident),*) => { written! { $(
        $name: i16 = |value| value.code(), |raw| {
            Self::of_code(raw.into()).ok_or_else(|| format!("{raw} is no {}", stringify!($name)).into())
        };
    )* } };
}
coded!(LaneState, WhenFull, Place, Reason, AttemptOutcome, Condition, Measure, JobKind, JobState, Scope);
