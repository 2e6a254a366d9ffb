//! Readers where serde accepts too much or explains too little.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

/// Serde alone would also accept an array, field by field.
pub(super) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    source: D,
) -> Result<Option<T>, D::Error> {
    source.deserialize_any(Object(PhantomData))
}

struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

pub(super) fn count<'de, D: Deserializer<'de>, T: TryFrom<u64>>(source: D) -> Result<Option<T>, D::Error> {
    source.deserialize_any(Count(PhantomData))
}

struct Count<T>(PhantomData<T>);

impl<T: TryFrom<u64>> Visitor<'_> for Count<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = size_of::<T>();
        write!(f, "a whole number from 0 to {}", if bytes < 8 { u64::from(u32::MAX) } else { u64::MAX })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        let count = T::try_from(number);
        count.map(Some).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}
