//! The types that the sender's engine, stores and programs share. Pure: time and random bytes are arguments.
//!
//! - [`ids`], [`time`], [`states`]: typed numbers, moments and dates, kinds.
//! - [`event_type`], [`public_id`]: the type of an event, patterns of types, public names.
//! - [`subscriber_names`]: the subscribers that a token reaches.
//! - [`units`]: durations, rates and sizes as text; [`excerpt`]: untrusted text in messages.
//! - `sqlite` and `postgres`, by the features of the same names: their form in databases.

pub mod event_type;
pub mod excerpt;
pub mod ids;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod public_id;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod states;
pub mod subscriber_names;
pub mod time;
pub mod units;

/// Serialises by `Display`, deserialises by `FromStr`, so that each value has one grammar and one error. The
/// second argument is the expected form, for input that is not text.
#[macro_export]
macro_rules! text_form {
    ($type:ty, $expected:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}
