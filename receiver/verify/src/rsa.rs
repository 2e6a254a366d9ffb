//! RSA signatures by PKCS #1 v1.5 with SHA-256 (RFC 8017, section 8.2.2). Nothing here is secret.

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U64, U4096};
use p256::pkcs8::der::asn1::UintRef;
use p256::pkcs8::der::{self, Reader as _, SliceReader};
use p256::pkcs8::{ObjectIdentifier, SubjectPublicKeyInfoRef};
use sha2::{Digest as _, Sha256};

const ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
/// Of 2,048 and of 4,096 bits.
const BYTES: (usize, usize) = (256, 512);
/// The ASN.1 in front of a SHA-256.
const DIGEST_INFO: [u8; 19] =
    [0x30, 0x31, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];

#[derive(Clone)]
pub(super) struct RsaKey {
    modulus: Box<FixedMontyParams<{ U4096::LIMBS }>>,
    exponent: u64,
    bytes: usize,
}

impl RsaKey {
    /// From a `SubjectPublicKeyInfo`.
    pub(super) fn from_der(info: &[u8]) -> Option<Self> {
        let info =
            SubjectPublicKeyInfoRef::try_from(info).ok().filter(|info| info.algorithm.oid == ENCRYPTION)?;
        let (modulus, exponent) = numbers(info.subject_public_key.as_bytes()?).ok()?;
        let exponent =
            exponent.iter().try_fold(0_u64, |sum, byte| Some(sum.checked_mul(256)? + u64::from(*byte)))?;
        let is_fit = (BYTES.0..=BYTES.1).contains(&modulus.len()) && exponent >= 3 && exponent % 2 == 1;
        let odd = Odd::new(padded(is_fit.then_some(modulus)?)).into_option()?;
        Some(Self { modulus: Box::new(FixedMontyParams::new_vartime(odd)), exponent, bytes: modulus.len() })
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != self.bytes || padded(signature) >= *self.modulus.modulus().as_ref() {
            return false;
        }
        let number = FixedMontyForm::new(&padded(signature), &self.modulus);
        let found = number.pow_vartime(&U64::from_u64(self.exponent)).retrieve();
        let digest = Sha256::digest(message);
        let end = self.bytes - DIGEST_INFO.len() - digest.len() - 1;
        let mut expected = vec![0xff; self.bytes];
        expected[..2].copy_from_slice(&[0, 1]);
        expected[end] = 0;
        expected[end + 1..][..DIGEST_INFO.len()].copy_from_slice(&DIGEST_INFO);
        expected[end + 1 + DIGEST_INFO.len()..].copy_from_slice(&digest);
        found == padded(&expected)
    }
}

/// Of a `RSAPublicKey`.
fn numbers(key: &[u8]) -> der::Result<(&[u8], &[u8])> {
    let mut reader = SliceReader::new(key)?;
    let (modulus, exponent) = reader.sequence(|inside| {
        Ok::<_, der::Error>((inside.decode::<UintRef<'_>>()?, inside.decode::<UintRef<'_>>()?))
    })?;
    reader.finish()?;
    Ok((modulus.as_bytes(), exponent.as_bytes()))
}

/// Big-endian, of at most 512 bytes.
fn padded(bytes: &[u8]) -> U4096 {
    let mut whole = [0; BYTES.1];
    whole[BYTES.1 - bytes.len()..].copy_from_slice(bytes);
    U4096::from_be_slice(&whole)
}
