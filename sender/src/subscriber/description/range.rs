use std::fmt;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::{plain_text, to_json};
use crate::engine::Nanos;
use crate::units::{Bytes, Rate, WindowCap};

/// Inclusive.
#[derive(Clone, Debug)]
pub(crate) enum Range {
    Any,
    Between(Bound, Bound),
    /// In bytes.
    Bytes(usize, usize),
    /// The list's length, and each item's range.
    Many(usize, usize, Box<Range>),
}

#[derive(Clone, Debug)]
pub(crate) enum Bound {
    Value(Value),
    /// By its dotted name.
    Setting(&'static str),
}

impl Range {
    pub(crate) fn of<const ONE_OR_NONE: usize>(range: [Self; ONE_OR_NONE]) -> Self {
        range.into_iter().next().unwrap_or(Self::Any)
    }

    pub(crate) fn many(count: RangeInclusive<usize>, each: impl Into<Self>) -> Self {
        Self::Many(*count.start(), *count.end(), Box::new(each.into()))
    }
}

impl<T: Into<Bound>> From<RangeInclusive<T>> for Range {
    fn from(range: RangeInclusive<T>) -> Self {
        let (least, most) = range.into_inner();
        Self::Between(least.into(), most.into())
    }
}

impl<T: Into<Bound>, U: Into<Bound>> From<(T, U)> for Range {
    fn from((least, most): (T, U)) -> Self {
        Self::Between(least.into(), most.into())
    }
}

macro_rules! bound {
    ($($type:ty),+) => {
        $( impl From<$type> for Bound {
            fn from(value: $type) -> Self {
                Self::Value(to_json(&value))
            }
        } )+
    };
}

bound!(u32, u64, Nanos, Rate, WindowCap, Bytes);

impl From<&'static str> for Bound {
    fn from(setting: &'static str) -> Self {
        Self::Setting(setting)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Bytes(least, most) => write!(f, "{least} to {most} bytes"),
            Self::Many(least, most, each) => match &**each {
                Self::Any => write!(f, "{least} to {most} of them"),
                each => write!(f, "{least} to {most} of them, each {each}"),
            },
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.write_str(&plain_text(value)),
            Self::Setting(name) => write!(f, "`{name}`"),
        }
    }
}
