//! What a trace says again and again, kept once: names of endpoints, paths, whom an event is owed to. [`Shared`] is such a
//! value in many records, and [`Shares`] makes records share it as they are read.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::record::{Arrival, Head, Record, Verified};

/// A value that many records may hold, and that is in memory once. It can't be changed, but replaced.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T: ?Sized>(Arc<T>);

/// A text that many records may hold.
pub type Text = Shared<str>;

impl Text {
    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: ?Sized> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Default for Shared<T>
where
    Arc<T>: Default,
{
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: ?Sized> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Borrow<T> for Shared<T> {
    fn borrow(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for Shared<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl<T> From<Vec<T>> for Shared<[T]> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::from(list))
    }
}

impl<T> FromIterator<T> for Shared<[T]> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Self(list.into_iter().collect())
    }
}

impl<T: ?Sized + Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: ?Sized> Deserialize<'de> for Shared<T>
where
    Box<T>: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<T>::deserialize(deserializer).map(|value| Self(Arc::from(value)))
    }
}

/// How many different values of a kind are known at once. What a run repeats is far less; a trace in which nothing is
/// repeated takes no more memory for this.
const KNOWN_MAX: usize = 1 << 16;

/// The values of one kind that were read lately.
struct Known<T: ?Sized>(HashSet<Shared<T>>);

impl<T: ?Sized> Default for Known<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Known<T> {
    /// Replaces a value by an equal one that is known, or else knows it from now on.
    fn share(&mut self, value: &mut Shared<T>) {
        if let Some(known) = self.0.get(&**value) {
            *value = known.clone();
            return;
        }
        if self.0.len() == KNOWN_MAX {
            self.0.clear();
        }
        self.0.insert(value.clone());
    }
}

/// Makes the records of a trace share what they repeat.
#[derive(Default)]
pub(super) struct Shares {
    texts: Known<str>,
    lists: Known<[Text]>,
    heads: Known<Head>,
    keys: Known<[usize]>,
}

impl Shares {
    /// Lets a record of those kinds of which there are many share with those before it.
    pub(super) fn share(&mut self, record: &mut Record) {
        match record {
            Record::Offer(offer) => {
                self.lists.share(&mut offer.owed);
                self.texts([&mut offer.kind, &mut offer.key]);
            }
            Record::Arrival(arrival) => self.arrival(arrival),
            Record::Answer(answer) => self.texts(&mut answer.retry_after),
            Record::Cut(cut) => self.texts([&mut cut.endpoint]),
            _ => {}
        }
    }

    fn arrival(&mut self, arrival: &mut Arrival) {
        self.heads.share(&mut arrival.head);
        self.texts([&mut arrival.endpoint, &mut arrival.sha256]);
        let signed = &mut arrival.signed;
        self.texts([&mut arrival.id, &mut arrival.attempt, &mut signed.timestamp].into_iter().flatten());
        match &mut signed.verified {
            Verified::Keys(keys) => self.keys.share(keys),
            Verified::No(why) | Verified::Unchecked(why) => self.texts.share(why),
        }
    }

    fn texts<'a>(&mut self, texts: impl IntoIterator<Item = &'a mut Text>) {
        texts.into_iter().for_each(|text| self.texts.share(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_different_ones_are_not_mixed_up() {
        let mut known = Known::<str>::default();
        let mut texts = ["a", "b", "a"].map(Text::from);
        assert!(!Arc::ptr_eq(&texts[0].0, &texts[2].0));
        texts.iter_mut().for_each(|text| known.share(text));
        assert!(Arc::ptr_eq(&texts[0].0, &texts[2].0));
        assert_eq!(texts.map(|text| text.to_string()), ["a", "b", "a"]);
    }

    #[test]
    fn no_more_values_are_known_than_the_bound() {
        let mut known = Known::<[usize]>::default();
        for at in 0..=KNOWN_MAX {
            known.share(&mut vec![at].into());
            assert!(known.0.len() <= KNOWN_MAX);
        }
        assert_eq!(known.0.len(), 1);
    }
}
