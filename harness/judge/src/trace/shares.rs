//! Makes the records of a trace share repeated values as they are read.

use std::collections::HashSet;
use std::hash::Hash;

use super::record::{Arrival, Head, Record, Verified};
use super::shared::{Shared, Text};

/// The most values of a kind that are remembered; it bounds the memory for a trace without repetition.
const KNOWN_MAX: usize = 1 << 16;

struct Known<T: ?Sized>(HashSet<Shared<T>>);

impl<T: ?Sized> Default for Known<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: ?Sized + Eq + Hash> Known<T> {
    /// Replaces a value by a known equal one, or remembers it.
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

#[derive(Default)]
pub(super) struct Shares {
    texts: Known<str>,
    lists: Known<[Text]>,
    heads: Known<Head>,
    keys: Known<[usize]>,
}

impl Shares {
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
    use std::sync::Arc;

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
