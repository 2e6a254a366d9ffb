//! Public ids of deliveries: `dlv_…`. An endpoint may receive from several stores, so the id combines the time of
//! receipt, the store's identity, and the store's own number.

use crate::engine::{DeliveryId, StoreTime};
use crate::event::{Kind, PublicId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryIds {
    store: [u8; 2],
}

impl DeliveryIds {
    /// For the store with this [identity](crate::store::read::Glance::identity).
    #[must_use]
    pub const fn new(identity: u64) -> Self {
        let [high, low, ..] = identity.to_be_bytes();
        Self { store: [high, low] }
    }

    /// The same for all attempts.
    #[must_use]
    pub fn name(self, received: StoreTime, delivery: DeliveryId) -> PublicId {
        let mut unique = [0; PublicId::RANDOM_BYTES];
        let (store, number) = unique.split_at_mut(self.store.len());
        store.copy_from_slice(&self.store);
        number.copy_from_slice(&delivery.0.to_be_bytes());
        PublicId::new(Kind::Delivery, received, unique)
    }

    /// The inverse of [`Self::name`]; `None` for ids of other stores.
    #[must_use]
    pub fn find(self, id: &PublicId) -> Option<DeliveryId> {
        let unique = id.random(Kind::Delivery)?;
        let (store, number) = unique.split_first_chunk()?;
        (*store == self.store).then_some(DeliveryId(u64::from_be_bytes(number.try_into().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_names_one_delivery_of_one_store(
            identity: u64, number: u64, other: u64, received: u64, later: u64,
        ) {
            let (ids, at) = (DeliveryIds::new(identity), StoreTime(received));
            let id = ids.name(at, DeliveryId(number));
            prop_assert_eq!(ids.find(&id), Some(DeliveryId(number)));
            prop_assert_eq!(id == ids.name(at, DeliveryId(other)), number == other);
            prop_assert_eq!(ids.find(&ids.name(StoreTime(later), DeliveryId(number))), Some(DeliveryId(number)));
            let elsewhere = DeliveryIds::new(!identity);
            prop_assert_eq!(elsewhere.find(&id), None);
        }

        #[test]
        fn no_text_of_another_length_or_kind_is_a_delivery(text in "dlv_[0-9a-z]{20,25}|evt_[0-9a-z]{26}|[a-z_]{1,20}") {
            prop_assert_eq!(DeliveryIds::new(0).find(&text.parse().unwrap()), None);
        }
    }
}
