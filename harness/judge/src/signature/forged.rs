//! Tokens, and signatures of messages, that every receiver must refuse, though their claims are right.

use p256::ecdsa::Signature;
use ring::hmac;

use super::definition::Algorithm;
use super::key::Secret;
use super::profile::Profile;
use super::token::{ES256, encode, head, signed};
use super::verify::Signing;

impl Signing<'_> {
    /// Each with its description: by no algorithm, by another one, or by a key that the token brings along. Empty where the
    /// profile names no keys.
    #[must_use]
    pub fn forged_tokens(
        &self,
        profile: Profile,
        secret: &Secret,
        stranger: &Secret,
    ) -> Vec<(String, String)> {
        if profile.is_message() {
            return self.forged_messages(profile, secret);
        }
        let (Some((kid, _)), Some((_, foreign))) = (secret.jwk(), stranger.jwk()) else { return Vec::new() };
        let claims = self.claims(&profile);
        let token = |head: &str, tag: &dyn Fn(&[u8]) -> Vec<u8>| {
            let front = signed(head, &claims);
            let tag = encode(&tag(front.trim_end_matches('.').as_bytes()));
            front + &tag
        };
        let bare = ["none", "None", "NONE", "nOnE"]
            .map(|alg| (format!("{alg:?} and no signature"), token(&head(alg, &kid), &|_| Vec::new())));
        let signed_as = ["none", "ES384", "HS256"].map(|alg| {
            (format!("the right signature as {alg:?}"), token(&head(alg, &kid), &|text| secret.tag(text)))
        });
        let by_public = secret.public_forms().into_iter().flat_map(|(form, key)| {
            ["HS256", ES256].map(|alg| {
                let label = format!("HMAC-sha256 by the public key's {form} as {alg:?}");
                (label, token(&head(alg, &kid), &|text| by_hmac(&key, text)))
            })
        });
        let own = head(ES256, &kid).replacen('{', &format!(r#"{{"jwk":{foreign},"#), 1);
        let brought = ("by a key in its head".to_owned(), token(&own, &|text| stranger.tag(text)));
        bare.into_iter().chain(signed_as).chain(by_public).chain([brought]).collect()
    }
}

pub(super) fn by_hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref().to_vec()
}

impl Secret {
    /// A signature of two numbers side by side as DER writes them.
    #[must_use]
    pub fn in_der(&self, tag: &[u8]) -> Option<Vec<u8>> {
        let is_of_numbers = self.public_algorithm() == Some(Algorithm::JwtEs256);
        let signature = Signature::from_slice(tag).ok().filter(|_| is_of_numbers)?;
        Some(signature.to_der().as_bytes().to_vec())
    }
}
