//! Public ids: `evt_…` of an event, `sub_…` of a subscriber, `dlv_…` of a delivery.

use std::fmt;
use std::str::FromStr;

use crate::text_form;
use crate::time::StoreTime;

text_form!(PublicId, "an id of letters, digits, '_' and '-'");

/// Generated ids sort by age; emitters may bring their own. None contains a dot, which would make the signed
/// content of Standard Webhooks ambiguous.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicId(Box<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Event,
    Subscriber,
    Delivery,
}

impl Kind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Event => "evt_",
            Self::Subscriber => "sub_",
            Self::Delivery => "dlv_",
        }
    }
}

impl PublicId {
    pub const BYTES_MAX: usize = 64;
    pub const RANDOM_BYTES: usize = 10;
    /// In ASCII order, without i, l, o and u, which are ambiguous.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    /// Enough for 128 bits.
    const DIGITS_COUNT: usize = 26;
    /// 32 for other characters.
    const VALUES: [u8; 128] = {
        let mut values = [32; 128];
        let mut value = 0_u8;
        while value < 32 {
            values[Self::DIGITS[value as usize] as usize] = value;
            value += 1;
        }
        values
    };

    /// 48 bits of milliseconds of the wall clock, then 80 random bits, in base 32.
    #[must_use]
    pub fn new(kind: Kind, at: StoreTime, random: [u8; Self::RANDOM_BYTES]) -> Self {
        let millis = u128::from(at.0 / 1_000_000);
        Self::of_bits(kind, random.iter().fold(millis, |bits, byte| bits << 8 | u128::from(*byte)))
    }

    #[must_use]
    pub fn of_bits(kind: Kind, bits: u128) -> Self {
        let mut text = String::with_capacity(kind.prefix().len() + Self::DIGITS_COUNT);
        text.push_str(kind.prefix());
        for place in (0..Self::DIGITS_COUNT).rev() {
            let digit = usize::try_from(bits >> (5 * place) & 31).unwrap_or(0);
            text.push(char::from(Self::DIGITS[digit]));
        }
        Self(text.into())
    }

    /// The inverse of [`Self::of_bits`]; `None` for other texts.
    #[must_use]
    pub fn bits(text: &str, kind: Kind) -> Option<u128> {
        let digits = text.strip_prefix(kind.prefix()).filter(|digits| digits.len() == Self::DIGITS_COUNT)?;
        let mut bits = 0_u128;
        for digit in digits.bytes() {
            let value = *Self::VALUES.get(usize::from(digit))?;
            // 26 digits hold two bits too many.
            if value >= 32 || bits >> 123 != 0 {
                return None;
            }
            bits = bits << 5 | u128::from(value);
        }
        Some(bits)
    }

    #[must_use]
    pub fn random(&self, kind: Kind) -> Option<[u8; Self::RANDOM_BYTES]> {
        Self::bits(&self.0, kind)?.to_be_bytes().last_chunk().copied()
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublicId {
    type Err = PublicIdError;

    fn from_str(text: &str) -> Result<Self, PublicIdError> {
        if text.is_empty() {
            return Err(PublicIdError::Empty);
        }
        if text.len() > Self::BYTES_MAX {
            return Err(PublicIdError::TooLong { bytes: text.len() });
        }
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
        match text.char_indices().find(|(_, letter)| !allowed(*letter)) {
            Some((at, letter)) => Err(PublicIdError::Character { letter, at }),
            None => Ok(Self(text.into())),
        }
    }
}

impl fmt::Display for PublicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicIdError {
    #[error("the id is empty; leave it out to get a new one")]
    Empty,
    #[error("the id has {bytes} bytes; at most {} are accepted", PublicId::BYTES_MAX)]
    TooLong { bytes: usize },
    #[error("the id has {letter:?} at byte {at}; expected letters, digits, '_' and '-'")]
    Character { letter: char, at: usize },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_begins_with_its_kind_and_its_time() {
        let id = |secs, random| PublicId::new(Kind::Event, StoreTime::from_secs(secs), random);
        // 1,700,000,000,000 ms, then the random bytes.
        assert_eq!(id(1_700_000_000, [0; 10]).as_str(), "evt_01hf7yat000000000000000000");
        assert_eq!(id(1_700_000_000, [0xff; 10]).as_str(), "evt_01hf7yat00zzzzzzzzzzzzzzzz");
        assert_eq!(id(0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 33]).as_str(), "evt_00000000000000000000000011");
        assert!(PublicId::new(Kind::Subscriber, StoreTime(u64::MAX), [0; 10]).as_str().starts_with("sub_"));
        assert!(PublicId::new(Kind::Delivery, StoreTime(0), [0; 10]).as_str().starts_with("dlv_"));
    }

    #[test]
    fn an_emitters_own_id_must_be_safe_everywhere() {
        let read = |text: &str| text.parse::<PublicId>().map(|id| id.to_string());
        assert_eq!(read("order-4711_b"), Ok("order-4711_b".into()));
        assert_eq!(read(&"x".repeat(64)), Ok("x".repeat(64)));
        assert_eq!(read(""), Err(PublicIdError::Empty));
        assert_eq!(read(&"x".repeat(65)), Err(PublicIdError::TooLong { bytes: 65 }));
        assert_eq!(read("a.b"), Err(PublicIdError::Character { letter: '.', at: 1 }));
        assert_eq!(read("a\r\nb"), Err(PublicIdError::Character { letter: '\r', at: 1 }));
        assert_eq!(read("äb"), Err(PublicIdError::Character { letter: 'ä', at: 0 }));
    }

    proptest! {
        #[test]
        fn ids_sort_by_their_time_to_the_millisecond(a: u64, b: u64, x: [u8; 10], y: [u8; 10]) {
            let (first, second) = (a.min(b), a.max(b));
            let id = |at, random| PublicId::new(Kind::Event, StoreTime(at), random);
            if first / 1_000_000 < second / 1_000_000 {
                prop_assert!(id(first, x) < id(second, y));
            }
            let made = id(a, x);
            prop_assert_eq!(made.as_str().parse::<PublicId>(), Ok(made.clone()));
            prop_assert_eq!(made == id(a, y), x == y);
            prop_assert_eq!((made.random(Kind::Event), made.random(Kind::Delivery)), (Some(x), None));
        }

        #[test]
        fn the_bits_of_a_public_id_give_its_text(bits: u128, text in "evt_[0-9a-z]{26}") {
            let made = PublicId::of_bits(Kind::Event, bits);
            prop_assert_eq!(PublicId::bits(made.as_str(), Kind::Event), Some(bits));
            if let Some(bits) = PublicId::bits(&text, Kind::Event) {
                prop_assert_eq!(PublicId::of_bits(Kind::Event, bits).to_string(), text);
            }
        }
    }

    #[test]
    fn an_id_that_reads_nearly_like_ours_has_no_bits() {
        let bits = |text: &str| PublicId::bits(text, Kind::Event);
        assert_eq!(bits("evt_7zzzzzzzzzzzzzzzzzzzzzzzzz"), Some(u128::MAX));
        assert_eq!(bits("evt_80000000000000000000000000"), None, "129 bits");
        assert_eq!(bits("evt_0000000000000000000000000i"), None);
        assert_eq!(bits("evt_0000000000000000000000000A"), None);
        assert_eq!(bits("evt_000000000000000000000000é"), None);
        assert_eq!(bits("evt_0000000000000000000000000"), None);
        assert_eq!(bits("dlv_00000000000000000000000000"), None);
    }
}
