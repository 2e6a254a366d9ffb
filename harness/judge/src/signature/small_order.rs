//! Public keys of Ed25519 for which anybody can sign: points whose order divides 8.

use ring::digest;

const KEY_BYTES: usize = 32;
const TOP_BIT: u8 = 0x80;

/// Each y, in its spellings. The top bit is the sign of x.
const SMALL: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

pub(crate) fn is_small(key: &[u8]) -> bool {
    let mut key = key.to_vec();
    key.iter_mut().skip(KEY_BYTES - 1).for_each(|last| *last &= !TOP_BIT);
    SMALL.contains(&super::hex(&key).as_str())
}

/// The key of 32 zero bytes verifies it. That is a point of order 4, so `S = 0` and `R = -kA` satisfy `SB = R + kA`. For about
/// two of three messages one of its four multiples fits `k`, a hash with `R` in it.
pub(super) fn signature_of_zeros(message: &[u8]) -> Option<Vec<u8>> {
    let zero = [0; KEY_BYTES];
    let (mut one, mut negative) = (zero, zero);
    (one[0], negative[KEY_BYTES - 1]) = (1, TOP_BIT);
    let mut half = [0xff; KEY_BYTES];
    (half[0], half[KEY_BYTES - 1]) = (0xec, 0x7f);
    let multiples = [one, negative, half, zero];
    let fits = |(k, r): &(usize, [u8; KEY_BYTES])| quarter(&[r, &zero, message].concat()) == *k;
    let (_, r) = multiples.into_iter().enumerate().find(fits)?;
    Some([r, zero].concat())
}

/// SHA-512 modulo the order of the group, then modulo 4.
fn quarter(bytes: &[u8]) -> usize {
    const HIGH: u128 = 1 << 124;
    const LOW: u128 = 27_742_317_777_372_353_535_851_937_790_883_648_493;
    let hash = digest::digest(&digest::SHA512, bytes);
    let bits = hash.as_ref().iter().rev().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let (_, low) = bits.fold((0_u128, 0_u128), |(high, low), bit| {
        let (high, low) = (high << 1 | low >> 127, low << 1 | u128::from(bit));
        if (high, low) < (HIGH, LOW) {
            return (high, low);
        }
        let (low, borrows) = low.overflowing_sub(LOW);
        (high - HIGH - u128::from(borrows), low)
    });
    usize::from(low.to_le_bytes()[0] & 3)
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    #[test]
    fn a_library_that_takes_the_key_of_zeros_takes_a_signature_by_nobody() {
        let zeros = UnparsedPublicKey::new(&ED25519, [0; KEY_BYTES]);
        let signed: Vec<_> = (0..64_u8).filter_map(|at| Some((at, signature_of_zeros(&[at])?))).collect();
        assert!(signed.len() > 16, "{}", signed.len());
        for (at, signature) in signed {
            assert!(zeros.verify(&[at], &signature).is_ok(), "{at}");
        }
    }

    #[test]
    fn the_sign_is_no_part_of_the_order() {
        assert!(is_small(&[0; KEY_BYTES]));
        let mut other = [0; KEY_BYTES];
        other[KEY_BYTES - 1] = TOP_BIT;
        assert!(is_small(&other));
        other[0] = 2;
        assert!(!is_small(&other) && !is_small(b""));
    }
}
